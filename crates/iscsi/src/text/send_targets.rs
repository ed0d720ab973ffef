//! SendTargets: discovery of targets and their portals (RFC 7143 §4.3, §13.3 and Appendix C).

use core::fmt;

use super::{Pair, TextError, pairs, push_pair};

/// The default port of a TargetAddress (RFC 7143 §13.8, IANA's iscsi-target).
pub const ISCSI_PORT: u16 = 3260;

/// The value of a SendTargets key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked<'a> {
    /// `SendTargets=All`: every target that the initiator may see.
    All,
    /// `SendTargets=`: the target of this session.
    OfSession,
    /// `SendTargets=<iSCSI name>`: this target.
    Named(&'a str),
}

impl<'a> Asked<'a> {
    /// Parses the key's value. `None` when it is neither `All` nor empty nor an iSCSI name.
    #[must_use]
    pub fn parse(value: &'a str) -> Option<Self> {
        match value {
            "All" => Some(Asked::All),
            "" => Some(Asked::OfSession),
            name if is_iscsi_name(name) => Some(Asked::Named(name)),
            _ => None,
        }
    }

    /// Whether the response includes the target `name`.
    ///
    /// `session_target` is the session's own target, `None` in a discovery session. A normal session never learns of
    /// any other target. Appendix C reserves `All` for discovery sessions; a normal session that requests `All` gets
    /// its own target, because existing initiators (including libiscsi's test suite) expect an answer.
    #[must_use]
    pub fn includes(self, name: &str, session_target: Option<&str>) -> bool {
        let named = match self {
            Asked::All => true,
            Asked::OfSession => session_target.is_some(),
            Asked::Named(asked) => asked == name,
        };
        named && session_target.is_none_or(|own| own == name)
    }
}

/// Whether `name` is an iSCSI name: iqn., eui. or naa. and at most 223 bytes without blanks
/// (RFC 7143 §4.2.7).
#[must_use]
pub fn is_iscsi_name(name: &str) -> bool {
    let well_begun = match name.get(..4) {
        Some("iqn.") => name.len() > 4,
        Some("eui.") => name.len() == 20 && name.bytes().skip(4).all(|b| b.is_ascii_hexdigit()),
        Some("naa.") => {
            matches!(name.len(), 20 | 36) && name.bytes().skip(4).all(|b| b.is_ascii_hexdigit())
        }
        _ => false,
    };
    well_begun && name.len() <= 223 && !name.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// A TargetAddress: `domainname[:port][,portal-group-tag]` (RFC 7143 §13.8).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TargetAddress {
    /// A DNS name, an IPv4 address, or an IPv6 address without its brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// The portal group tag; required in a SendTargets response, forbidden in a redirection.
    pub portal_group_tag: Option<u16>,
}

impl TargetAddress {
    /// Parses a TargetAddress value; `None` when it is malformed.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let (address, tag) = match value.rsplit_once(',') {
            Some((address, tag)) => (address, Some(tag.parse().ok()?)),
            None => (value, None),
        };
        let (host, port) = if let Some(rest) = address.strip_prefix('[') {
            let (host, rest) = rest.split_once(']')?;
            match rest {
                "" => (host, None),
                _ => (host, Some(rest.strip_prefix(':')?)),
            }
        } else {
            match address.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (address, None),
            }
        };
        let port = match port {
            Some(port) => port.parse().ok()?,
            None => ISCSI_PORT,
        };
        let sound = !host.is_empty() && !host.chars().any(|c| c.is_whitespace() || c.is_control());
        sound.then(|| TargetAddress {
            host: host.to_owned(),
            port,
            portal_group_tag: tag,
        })
    }
}

impl fmt::Display for TargetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)?;
        } else {
            write!(f, "{}:{}", self.host, self.port)?;
        }
        self.portal_group_tag
            .map_or(Ok(()), |tag| write!(f, ",{tag}"))
    }
}

/// A target and its portals, as listed by one response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetRecord {
    /// The target's iSCSI name.
    pub name: String,
    /// Its portals. Empty means the address that the request was sent to (Appendix C).
    pub addresses: Vec<TargetAddress>,
}

/// Appends one target's record to the response `text`.
pub fn push_record(text: &mut Vec<u8>, record: &TargetRecord) {
    push_pair(text, "TargetName", &record.name);
    for address in &record.addresses {
        push_pair(text, "TargetAddress", &address.to_string());
    }
}

/// Parses a SendTargets response. Keys other than TargetName and TargetAddress, and malformed addresses are skipped:
/// one malformed record must not hide the others.
///
/// # Errors
/// A [`TextError`] if the text is malformed.
pub fn records(text: &[u8]) -> Result<Vec<TargetRecord>, TextError> {
    let mut found: Vec<TargetRecord> = Vec::new();
    for Pair { name, value } in pairs(text)? {
        match name {
            "TargetName" => {
                found.push(TargetRecord {
                    name: value.to_owned(),
                    addresses: Vec::new(),
                });
            }
            "TargetAddress" => {
                if let (Some(record), Some(address)) =
                    (found.last_mut(), TargetAddress::parse(value))
                {
                    record.addresses.push(address);
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(host: &str, port: u16, tag: Option<u16>) -> TargetAddress {
        TargetAddress {
            host: host.to_owned(),
            port,
            portal_group_tag: tag,
        }
    }

    #[test]
    fn addresses_in_all_their_forms() {
        // The examples of RFC 7143 §13.8.
        for (value, wanted) in [
            ("10.0.0.1:5003,1", address("10.0.0.1", 5003, Some(1))),
            (
                "[1080:0:0:0:8:800:200C:417A],65",
                address("1080:0:0:0:8:800:200C:417A", ISCSI_PORT, Some(65)),
            ),
            (
                "[1080::8:800:200C:417A]:5003,1",
                address("1080::8:800:200C:417A", 5003, Some(1)),
            ),
            (
                "computingcenter.example.com,23",
                address("computingcenter.example.com", ISCSI_PORT, Some(23)),
            ),
            ("10.0.0.2", address("10.0.0.2", ISCSI_PORT, None)),
        ] {
            assert_eq!(TargetAddress::parse(value), Some(wanted.clone()), "{value}");
            assert_eq!(TargetAddress::parse(&wanted.to_string()), Some(wanted));
        }
        for value in [
            "",
            ":3260",
            "[::1",
            "[::1]3260",
            "a:b",
            "a:99999",
            "a,b",
            "a b:1",
        ] {
            assert_eq!(TargetAddress::parse(value), None, "{value}");
        }
    }

    #[test]
    fn a_question_is_all_none_or_a_name() {
        assert_eq!(Asked::parse("All"), Some(Asked::All));
        assert_eq!(Asked::parse(""), Some(Asked::OfSession));
        assert_eq!(
            Asked::parse("iqn.2026-01.a:b"),
            Some(Asked::Named("iqn.2026-01.a:b"))
        );
        assert_eq!(
            Asked::parse("eui.020000023B040506"),
            Some(Asked::Named("eui.020000023B040506"))
        );
        for value in ["all", "Alle", "A", "iqn.", "iqn.a b", "eui.12", "naa.zzzz"] {
            assert_eq!(Asked::parse(value), None, "{value}");
        }
    }

    #[test]
    fn a_normal_session_learns_of_its_own_target_only() {
        let (own, other) = ("iqn.2026-01.a:own", "iqn.2026-01.a:other");
        for asked in [Asked::All, Asked::OfSession, Asked::Named(own)] {
            assert!(asked.includes(own, Some(own)));
            assert!(!asked.includes(other, Some(own)));
        }
        assert!(!Asked::Named(other).includes(other, Some(own)));
        assert!(Asked::All.includes(other, None) && Asked::Named(other).includes(other, None));
        assert!(!Asked::OfSession.includes(own, None));
    }

    #[test]
    fn records_come_back_as_they_were_sent() {
        let sent = [
            TargetRecord {
                name: "iqn.2026-01.a:one".to_owned(),
                addresses: vec![
                    address("10.0.0.1", 3260, Some(1)),
                    address("fe80::1", 860, Some(2)),
                ],
            },
            TargetRecord {
                name: "iqn.2026-01.a:two".to_owned(),
                addresses: vec![],
            },
        ];
        let mut text = Vec::new();
        for record in &sent {
            push_record(&mut text, record);
        }
        assert_eq!(records(&text).unwrap(), sent);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "[A-Za-z0-9=,:\\[\\]. \0]{0,200}") {
            let _ = records(text.as_bytes());
            let _ = TargetAddress::parse(&text);
            let _ = Asked::parse(&text);
        }
    }
}
