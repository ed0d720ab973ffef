//! Quantities with units: a number and its unit, as in `16ms`, `1Gbit/s` or `512KiB`.
//!
//! Every quantity has a unit, so nobody has to guess whether an `M` is 10^6 or 2^20 and whether a `b` is a bit or a
//! byte. Parsing is exact: `1.5KiB` is 1536 bytes, and a fraction of the base unit (bytes, nanoseconds, bits per
//! second) is an error. `parse_*` reads the output of `format_*` back to the same number.

use core::time::Duration;

use crate::time::duration_ns;

/// Why a quantity cannot be parsed. One line: the value, the error and what is expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// A number without a unit.
    #[error("`{value}` has no unit: write a {quantity} with one of {units}")]
    Missing {
        /// The text as given.
        value: String,
        /// The expected quantity: a size, a time or a rate.
        quantity: &'static str,
        /// The permitted units.
        units: &'static str,
    },
    /// Not a unit of this quantity.
    #[error("`{unit}` in `{value}` is not a unit of a {quantity}: use one of {units}")]
    Unknown {
        /// The text as given.
        value: String,
        /// The unit found in it.
        unit: String,
        /// The expected quantity.
        quantity: &'static str,
        /// The permitted units.
        units: &'static str,
    },
    /// It does not begin with a decimal number.
    #[error("`{value}` is not a {quantity}: write a number with one of {units}")]
    NotANumber {
        /// The text as given.
        value: String,
        /// The expected quantity.
        quantity: &'static str,
        /// The permitted units.
        units: &'static str,
    },
    /// It is a fraction of the base unit.
    #[error("`{value}` is not a whole number of {base}")]
    Fraction {
        /// The text as given.
        value: String,
        /// The base unit's name.
        base: &'static str,
    },
    /// It does not fit in 64 bits of the base unit.
    #[error("`{value}` is too large: at most 2^64 - 1 {base}")]
    TooLarge {
        /// The text as given.
        value: String,
        /// The base unit's name.
        base: &'static str,
    },
}

/// The units of one quantity.
struct Scale {
    quantity: &'static str,
    base: &'static str,
    /// Their list in errors.
    list: &'static str,
    /// Each unit and its size in base units. Formatting uses the first that divides the number, so they are in order of
    /// preference.
    units: &'static [(&'static str, u64)],
}

const BYTES: Scale = Scale {
    quantity: "size",
    base: "bytes",
    list: "B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024)",
    units: &[
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1_000),
        ("B", 1),
    ],
};

const TIME: Scale = Scale {
    quantity: "time",
    base: "nanoseconds",
    list: "ns, us, ms, s, min, h",
    units: &[
        ("h", 3_600_000_000_000),
        ("min", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ],
};

const RATE: Scale = Scale {
    quantity: "rate",
    base: "bits per second",
    list: "bit/s, kbit/s, Mbit/s, Gbit/s (powers of 1000)",
    units: &[
        ("Gbit/s", 1_000_000_000),
        ("Mbit/s", 1_000_000),
        ("kbit/s", 1_000),
        ("bit/s", 1),
    ],
};

/// Parses a size: `512KiB` is 524,288 bytes, `1.5GB` is 1,500,000,000.
///
/// # Errors
/// [`UnitError`] if the number or its unit is missing, unknown, fractional or too large.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    BYTES.parse(text)
}

/// Parses a time: `16ms`, `1.5s`, `250us`, `2min`. The maximum is 2^64 − 1 ns (584 years).
///
/// # Errors
/// [`UnitError`] if the number or its unit is missing, unknown, fractional or too large.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    TIME.parse(text).map(Duration::from_nanos)
}

/// Parses a rate in bits per second: `1Gbit/s` is 1,000,000,000.
///
/// # Errors
/// [`UnitError`] if the number or its unit is missing, unknown, fractional or too large.
pub fn parse_rate(text: &str) -> Result<u64, UnitError> {
    RATE.parse(text)
}

/// Formats a size in the largest unit that gives a whole number, powers of 1024 first: 4096 is `4KiB`, 64,000 is
/// `64kB`, 1500 is `1500B`.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    BYTES.format(bytes)
}

/// Formats a time in the largest unit that gives a whole number: 16,000 µs is `16ms`. Times beyond 584 years are
/// clamped.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    TIME.format(duration_ns(duration))
}

/// Formats a rate in bits per second in the largest unit that gives a whole number.
#[must_use]
pub fn format_rate(bits_per_s: u64) -> String {
    RATE.format(bits_per_s)
}

impl Scale {
    fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let value = text.trim();
        let number_end = value
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(value.len());
        let (number, unit) = value.split_at(number_end);
        let unit = unit.trim_start();
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty()
            || fraction.contains('.')
            || (fraction.is_empty() && number.contains('.'))
        {
            return Err(UnitError::NotANumber {
                value: value.to_owned(),
                quantity: self.quantity,
                units: self.list,
            });
        }
        if unit.is_empty() {
            return Err(UnitError::Missing {
                value: value.to_owned(),
                quantity: self.quantity,
                units: self.list,
            });
        }
        let Some((_, factor)) = self.units.iter().find(|(name, _)| *name == unit) else {
            return Err(UnitError::Unknown {
                value: value.to_owned(),
                unit: unit.to_owned(),
                quantity: self.quantity,
                units: self.list,
            });
        };
        self.scale(value, whole, fraction, u128::from(*factor))
    }

    /// `whole.fraction` times `factor`, exactly.
    fn scale(
        &self,
        value: &str,
        whole: &str,
        fraction: &str,
        factor: u128,
    ) -> Result<u64, UnitError> {
        let too_large = || UnitError::TooLarge {
            value: value.to_owned(),
            base: self.base,
        };
        let not_whole = || UnitError::Fraction {
            value: value.to_owned(),
            base: self.base,
        };
        let whole: u64 = whole.parse().map_err(|_| too_large())?;
        let fraction = fraction.trim_end_matches('0');
        // 18 digits times the largest factor fit into 128 bits. Longer fractions are rejected, even the few that are
        // exact (2^-20 of a TiB has 20 digits).
        if fraction.len() > 18 {
            return Err(not_whole());
        }
        let parts = 10u128.pow(fraction.len() as u32);
        let fraction: u128 = if fraction.is_empty() {
            0
        } else {
            fraction.parse().map_err(|_| not_whole())?
        };
        if !(fraction * factor).is_multiple_of(parts) {
            return Err(not_whole());
        }
        let total = u128::from(whole) * factor + fraction * factor / parts;
        u64::try_from(total).map_err(|_| too_large())
    }

    fn format(&self, number: u64) -> String {
        let fits = |(_, factor): &&(&str, u64)| number >= *factor && number.is_multiple_of(*factor);
        let base = self.units[self.units.len() - 1];
        let (unit, factor) = self.units.iter().find(fits).unwrap_or(&base);
        format!("{}{unit}", number / factor)
    }
}

/// Formats a number without a unit: 0 and magnitudes from 10^-4 to below 10^9 in decimal notation, others with an
/// exponent.
#[must_use]
pub fn format_number(number: f64) -> String {
    match number.abs() {
        0.0 | 1e-4..1e9 => number.to_string(),
        _ => format!("{number:e}"),
    }
}

/// Formats I/Os per second: as an integer from 10 on, below that with two significant digits, so that 0.35 is not 0.
#[must_use]
pub fn format_iops(ios_per_s: f64) -> String {
    const MOST_DIGITS: f64 = 9.0;
    match ios_per_s {
        ..=0.0 | 9.95.. => format!("{ios_per_s:.0}"),
        few => {
            let digits = (1.0 - few.log10().floor()).clamp(1.0, MOST_DIGITS);
            format!("{few:.*}", digits as usize)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse_bytes("512KiB"), Ok(524_288));
        assert_eq!(parse_bytes(" 1.5 GB "), Ok(1_500_000_000));
        assert_eq!(parse_bytes("0B"), Ok(0));
        assert_eq!(parse_duration("16ms"), Ok(Duration::from_millis(16)));
        assert_eq!(parse_duration("0.25s"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_rate("1Gbit/s"), Ok(1_000_000_000));
        assert_eq!(parse_rate("2.5Mbit/s"), Ok(2_500_000));
    }

    #[test]
    fn errors_name_the_value_and_the_units() {
        for (text, part) in [
            ("16", "has no unit"),
            ("16 parsecs", "`parsecs` in `16 parsecs`"),
            ("16MS", "ns, us, ms"),
            ("fast", "is not a time"),
            ("", "is not a time"),
            ("-1ms", "is not a time"),
            ("1.2.3ms", "is not a time"),
            (".5ms", "is not a time"),
            ("5.ms", "is not a time"),
            ("0.5ns", "whole number of nanoseconds"),
            ("0.0000000000000000000000001s", "whole number"),
            ("99999999999999999999s", "too large"),
            ("9999999999999h", "too large"),
        ] {
            let message = parse_duration(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
            assert!(!message.contains('\n'));
        }
        assert!(parse_rate("1GB").unwrap_err().to_string().contains("rate"));
        assert!(parse_bytes("1G").unwrap_err().to_string().contains("GiB"));
    }

    #[test]
    fn few_ios_per_second_are_not_none() {
        let rates = [0.0, 0.035, 0.352, 1.0, 4.24, 9.94, 9.96, 101.4, 23_000.0];
        let formatted = rates.map(format_iops);
        let expected = [
            "0", "0.035", "0.35", "1.0", "4.2", "9.9", "10", "101", "23000",
        ];
        assert_eq!(formatted, expected);
    }

    #[test]
    fn formats_with_the_largest_exact_unit() {
        assert_eq!(format_bytes(4096), "4KiB");
        assert_eq!(format_bytes(64_000), "64kB");
        assert_eq!(format_bytes(1500), "1500B");
        assert_eq!(format_bytes(0), "0B");
        assert_eq!(format_duration(Duration::from_micros(16_000)), "16ms");
        assert_eq!(format_duration(Duration::from_nanos(1_500)), "1500ns");
        assert_eq!(format_rate(1_000_000_000), "1Gbit/s");
    }

    #[test]
    fn numbers_that_are_mostly_zeros_have_an_exponent() {
        for (number, told) in [
            (0.0, "0"),
            (38.0, "38"),
            (0.1, "0.1"),
            (-0.5, "-0.5"),
            (83_000.0, "83000"),
            (1e-4, "0.0001"),
            (1e-7, "1e-7"),
            (1e-30, "1e-30"),
            (-1e300, "-1e300"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(format_number(number), told);
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for shift in 0..64 {
            for offset in [0, 1, 7, 1000] {
                let number = (1u64 << shift).wrapping_mul(1 + offset);
                assert_eq!(parse_bytes(&format_bytes(number)), Ok(number));
                assert_eq!(parse_rate(&format_rate(number)), Ok(number));
                let duration = Duration::from_nanos(number);
                assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
            }
        }
        assert_eq!(parse_bytes(&format_bytes(u64::MAX)), Ok(u64::MAX));
    }
}
