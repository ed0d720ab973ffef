//! Who may see and use a target.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use wansan_tcp::network::Network;

/// An access list: which initiators, from which networks. Both have to admit an initiator; an absent list admits
/// everybody, and an empty one nobody.
///
/// Names and addresses are not authenticated: the list separates honest initiators. CHAP keeps
/// others out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Names of initiators.
    pub initiators: Option<Vec<NamePattern>>,
    /// Networks that initiators connect from.
    pub networks: Option<Vec<Network>>,
}

impl Access {
    /// Whether the initiator `name` may log in from `address`.
    #[must_use]
    pub fn allows(&self, name: &str, address: IpAddr) -> bool {
        let (initiators, networks) = (self.initiators.as_ref(), self.networks.as_ref());
        initiators.is_none_or(|list| list.iter().any(|pattern| pattern.matches(name)))
            && networks.is_none_or(|list| list.iter().any(|network| network.contains(address)))
    }
}

/// An initiator's name, or a prefix of names: `iqn.2026-01.net.example:host`, `iqn.2026-01.net.example:*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern {
    name: String,
    /// Any suffix of `name` matches.
    is_prefix: bool,
}

impl NamePattern {
    fn matches(&self, name: &str) -> bool {
        if self.is_prefix {
            name.starts_with(&self.name)
        } else {
            name == self.name
        }
    }
}

/// An invalid name pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{given}' is neither an initiator name nor a prefix followed by *: write \
     iqn.2026-01.net.example:host or iqn.2026-01.net.example:*"
)]
pub struct NamePatternError {
    given: String,
}

impl FromStr for NamePattern {
    type Err = NamePatternError;

    fn from_str(given: &str) -> Result<Self, NamePatternError> {
        let (name, is_prefix) = match given.strip_suffix('*') {
            Some(name) => (name, true),
            None => (given, false),
        };
        let begins = |kind: &str| name.starts_with(kind) || (is_prefix && kind.starts_with(name));
        let sound = ["iqn.", "eui.", "naa."].into_iter().any(begins)
            && name.len() <= 223
            && !name.contains(|c: char| c == '*' || c.is_whitespace() || c.is_control());
        if !sound {
            return Err(NamePatternError {
                given: given.to_owned(),
            });
        }
        Ok(NamePattern {
            name: name.to_owned(),
            is_prefix,
        })
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, if self.is_prefix { "*" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "iqn.2026-01.net.example:host";

    fn access(initiators: Option<&[&str]>, networks: Option<&[&str]>) -> Access {
        Access {
            initiators: initiators.map(|list| list.iter().map(|it| it.parse().unwrap()).collect()),
            networks: networks.map(|list| list.iter().map(|it| it.parse().unwrap()).collect()),
        }
    }

    #[test]
    fn both_lists_have_to_agree_and_an_absent_one_always_does() {
        for (initiators, networks, address, allowed) in [
            (None, None, "192.0.2.1", true),
            (Some(&[][..]), None, "192.0.2.1", false),
            (None, Some(&[][..]), "192.0.2.1", false),
            (Some(&["*"]), Some(&[]), "192.0.2.1", false),
            (Some(&[HOST]), None, "192.0.2.1", true),
            (Some(&["iqn.2026-01.net.example:*"]), None, "::1", true),
            (Some(&["*"]), None, "::1", true),
            (Some(&["iqn.2026-01.net.example:h"]), None, "::1", false),
            (Some(&["iqn.2026-01.net.example:hosts"]), None, "::1", false),
            (None, Some(&["192.0.2.0/24"]), "192.0.2.1", true),
            (None, Some(&["192.0.2.0/24"]), "::ffff:192.0.2.1", true),
            (None, Some(&["192.0.2.0/24"]), "192.0.3.1", false),
            (None, Some(&["192.0.2.7"]), "192.0.2.1", false),
            (
                None,
                Some(&["10.0.0.0/8", "2001:db8::/32"]),
                "2001:db8:1::9",
                true,
            ),
            (Some(&[HOST]), Some(&["10.0.0.0/8"]), "192.0.2.1", false),
            (
                Some(&["eui.0011223344556677"]),
                Some(&["192.0.2.1"]),
                "192.0.2.1",
                false,
            ),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(
                access(initiators, networks).allows(HOST, address),
                allowed,
                "{initiators:?} {networks:?} {address}"
            );
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for bad in ["", "host", "iqn.a*b", "iqn.a b", "**"] {
            assert!(bad.parse::<NamePattern>().is_err(), "{bad}");
        }
    }
}
