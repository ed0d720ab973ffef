//! Setting values with units. Files, JSON and command lines use the same notation.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use wansan_trace::units;

/// A size in bytes, as in `"512KiB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// A length of time, as in `"16ms"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// A nonzero length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SomeTime(pub Duration);

/// A rate in bits per second, as in `"1Gbit/s"`; never 0. `None` is `"unlimited"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(pub Option<u64>);

/// Notation for a link without a rate limit.
const UNLIMITED: &str = "unlimited";

/// A fraction of the packets, or a probability, from 0 to 1; written in percent, as in `"0.1%"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(pub f64);

/// I/Os per second, as in `"500IOPS"` or `500`; above 0.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Iops(pub f64);

/// The limit of a queue: bytes, as in `"4MiB"`, or packets, as in `"100packets"`; never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueBound {
    /// In bytes.
    Bytes(u64),
    /// In packets of any size.
    Packets(u32),
}

impl Size {
    /// The size as `usize`, saturating.
    #[must_use]
    pub fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    fn read(text: &str) -> Result<Self, String> {
        units::parse_bytes(text)
            .map(Size)
            .map_err(|e| e.to_string())
    }
}

impl Span {
    fn read(text: &str) -> Result<Self, String> {
        units::parse_duration(text)
            .map(Span)
            .map_err(|e| e.to_string())
    }
}

impl Span {
    /// The time; `None` if it is 0.
    #[must_use]
    pub fn some(self) -> Option<Duration> {
        Some(self.0).filter(|time| !time.is_zero())
    }
}

impl SomeTime {
    fn read(text: &str) -> Result<Self, String> {
        match Span::read(text)?.0 {
            Duration::ZERO => Err(format!(
                "`{text}` is no time: give one above 0, such as 10ms or 5s"
            )),
            time => Ok(SomeTime(time)),
        }
    }
}

impl PartialOrd for Rate {
    /// Unlimited compares as the highest rate.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let most = |rate: &Rate| rate.0.unwrap_or(u64::MAX);
        most(self).partial_cmp(&most(other))
    }
}

impl Rate {
    fn read(text: &str) -> Result<Self, String> {
        if text.trim() == UNLIMITED {
            return Ok(Rate(None));
        }
        match units::parse_rate(text) {
            Ok(0) => Err(format!("`{text}` carries nothing: give more than 0")),
            Ok(rate) => Ok(Rate(Some(rate))),
            Err(error) => Err(format!("{error}, or `{UNLIMITED}`")),
        }
    }
}

impl Share {
    fn read(text: &str) -> Result<Self, String> {
        let percent = text
            .trim()
            .strip_suffix('%')
            .and_then(|number| number.trim().parse::<f64>().ok())
            .ok_or_else(|| format!("`{text}` is not a share: write a percentage such as `0.1%`"))?;
        if (0.0..=100.0).contains(&percent) {
            Ok(Share(percent / 100.0))
        } else {
            Err(format!("`{text}` is not a share from 0% to 100%"))
        }
    }
}

impl Iops {
    fn read(text: &str) -> Result<Self, String> {
        let number = text.trim();
        let number = number.strip_suffix("IOPS").unwrap_or(number).trim_end();
        match number.parse::<f64>() {
            Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(Iops(rate)),
            _ => Err(format!(
                "`{text}` is not an I/O rate: write I/Os per second above 0, such as `500IOPS` or `500`"
            )),
        }
    }
}

impl QueueBound {
    fn read(text: &str) -> Result<Self, String> {
        let bound = match text.trim().strip_suffix("packets") {
            Some(number) => {
                let packets = number.trim().parse().map_err(|_| {
                    format!("`{text}` is not a queue: write a whole number such as `100packets`")
                })?;
                QueueBound::Packets(packets)
            }
            None => QueueBound::Bytes(units::parse_bytes(text).map_err(|error| {
                format!("{error}, or a number of packets such as `100packets`")
            })?),
        };
        if matches!(bound, QueueBound::Bytes(0) | QueueBound::Packets(0)) {
            return Err(format!("`{text}` holds nothing: give more than 0"));
        }
        Ok(bound)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&units::format_bytes(self.0))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&units::format_duration(self.0))
    }
}

impl fmt::Display for SomeTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Span(self.0).fmt(f)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(bits_per_s) => f.pad(&units::format_rate(bits_per_s)),
            None => f.pad(UNLIMITED),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounding to eight decimal places hides binary rounding errors: 0.07 × 100 ≠ 7.
        write!(f, "{}%", (self.0 * 1e10).round() / 1e8)
    }
}

impl fmt::Display for Iops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}IOPS", self.0)
    }
}

impl fmt::Display for QueueBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueBound::Bytes(bytes) => f.pad(&units::format_bytes(*bytes)),
            QueueBound::Packets(packets) => write!(f, "{packets}packets"),
        }
    }
}

/// Parses strings with `read`; numbers too, so that one without its required unit gets an error that
/// says so.
struct Written<T> {
    what: &'static str,
    read: fn(&str) -> Result<T, String>,
}

impl<T> Visitor<'_> for Written<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in quotes", self.what)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.read)(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

macro_rules! written_as_text {
    ($($type:ty, $what:literal;)*) => {$(
        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                <$type>::read(text)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Written { what: $what, read: <$type>::read })
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}

written_as_text! {
    Size, "a size with its unit";
    Span, "a time with its unit";
    SomeTime, "a time with its unit";
    Rate, "a rate with its unit";
    Share, "a share with its unit";
    Iops, "an I/O rate with its unit";
    QueueBound, "a queue's bound with its unit";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quantity_reads_back_what_it_writes() {
        assert_eq!(Share::read("0.1%").unwrap().to_string(), "0.1%");
        assert_eq!(Share::read("7%").unwrap().to_string(), "7%");
        assert_eq!(Share::read("0%").unwrap().to_string(), "0%");
        for rate in ["500 IOPS", "500IOPS", "500"] {
            assert_eq!(Iops::read(rate).unwrap().to_string(), "500IOPS");
        }
        assert_eq!(QueueBound::read("4MiB"), Ok(QueueBound::Bytes(4 << 20)));
        assert_eq!(QueueBound::read("100packets"), Ok(QueueBound::Packets(100)));
        assert_eq!(QueueBound::Packets(100).to_string(), "100packets");
        for rate in ["1Gbit/s", "unlimited"] {
            assert_eq!(Rate::read(rate).unwrap().to_string(), rate);
        }
    }

    #[test]
    fn numbers_are_written_in_several_ways() {
        #[derive(Deserialize)]
        struct File {
            rate: [Iops; 3],
        }
        let file: File = toml::from_str("rate = [500, 500.0, \"500IOPS\"]").unwrap();
        assert_eq!(file.rate, [Iops(500.0); 3]);
        assert!(Rate(None) > Rate(Some(8000)));
    }

    #[test]
    fn nonsense_is_refused_with_the_right_thing() {
        for (error, part) in [
            (Share::read("0.1").unwrap_err(), "0.1%"),
            (Share::read("101%").unwrap_err(), "0% to 100%"),
            (Share::read("NaN%").unwrap_err(), "0% to 100%"),
            (Iops::read("0IOPS").unwrap_err(), "above 0"),
            (Iops::read("fast").unwrap_err(), "500IOPS"),
            (Iops::read("NaN").unwrap_err(), "500IOPS"),
            (SomeTime::read("0s").unwrap_err(), "above 0"),
            (QueueBound::read("0B").unwrap_err(), "more than 0"),
            (QueueBound::read("4").unwrap_err(), "100packets"),
            (QueueBound::read("-1packets").unwrap_err(), "whole number"),
            (Rate::read("0bit/s").unwrap_err(), "more than 0"),
            (Rate::read("none").unwrap_err(), "`unlimited`"),
        ] {
            assert!(error.contains(part), "{error}");
        }
    }
}
