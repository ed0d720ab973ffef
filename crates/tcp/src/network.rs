//! Source and destination networks of connections.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// A network, `ADDRESS/PREFIX`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

impl Network {
    /// Whether `address` is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        // A dual-stack socket shows IPv4 addresses as IPv4-mapped IPv6 ones.
        self.0.contains(&address.to_canonical())
    }

    /// Whether it is an IPv4 network.
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        matches!(self.0, IpNet::V4(_))
    }
}

/// An invalid network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{given}' is no network: write ADDRESS/PREFIX, such as 192.0.2.0/24 or 2001:db8::/32, or one \
     address{}", near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
)]
pub struct NetworkError {
    given: String,
    near: Option<IpNet>,
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(given: &str) -> Result<Self, NetworkError> {
        let error = |near| NetworkError {
            given: given.to_owned(),
            near,
        };
        if let Ok(address) = given.parse::<IpAddr>() {
            return Ok(Network(address.to_canonical().into()));
        }
        let network: IpNet = given.parse().map_err(|_| error(None))?;
        // Bits set behind the prefix are probably a typing error.
        if network.trunc() == network {
            Ok(Network(network))
        } else {
            Err(error(Some(network.trunc())))
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_network_is_refused() {
        for bad in ["", "192.0.2.0/33", "192.0.2", "example.net", "::/129"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
        let error = "192.0.2.1/24".parse::<Network>().unwrap_err().to_string();
        assert!(error.contains("did you mean 192.0.2.0/24?"), "{error}");
    }
}
