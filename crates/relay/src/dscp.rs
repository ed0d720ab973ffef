//! Classes of packets: the Differentiated Services Code Point (RFC 2474 §3).

use std::fmt;
use std::str::FromStr;

/// A code point, 0 to 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dscp(u8);

/// Names of code points: RFC 2474 §4.2.2 (CS), RFC 2597 §6 (AF), RFC 3246 (EF), RFC 8622 (LE).
const NAMES: [(&str, u8); 22] = [
    ("cs0", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

/// An invalid code point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is not a DSCP: write 0 to 63, cs0 to cs7, af11 to af43, ef or le (RFC 2474)")]
pub struct DscpError {
    given: String,
}

impl Dscp {
    /// The octet that IPv4 calls type of service and IPv6 traffic class, with the ECN bits clear.
    #[must_use]
    pub fn traffic_class(self) -> u8 {
        self.0 << 2
    }
}

impl FromStr for Dscp {
    type Err = DscpError;

    fn from_str(given: &str) -> Result<Self, DscpError> {
        let lower = given.to_ascii_lowercase();
        let named = NAMES.iter().find(|(name, _)| *name == lower);
        let point = named.map(|(_, point)| *point).or(given.parse().ok());
        point
            .filter(|point| *point < 64)
            .map(Dscp)
            .ok_or_else(|| DscpError {
                given: given.to_owned(),
            })
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, point)| *point == self.0);
        match name {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_read_back() {
        for (given, class) in [
            ("ef", 184),
            ("AF11", 40),
            ("46", 184),
            ("63", 252),
            ("0", 0),
        ] {
            let dscp: Dscp = given.parse().unwrap();
            assert_eq!(dscp.traffic_class(), class, "{given}");
            assert_eq!(dscp.to_string().parse(), Ok(dscp));
        }
        for bad in ["", "64", "-1", "af14", "best"] {
            assert!(bad.parse::<Dscp>().is_err(), "{bad}");
        }
    }
}
