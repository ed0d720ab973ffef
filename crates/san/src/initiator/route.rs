//! The route of a connection: source and portal.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use crate::url::{IscsiUrl, split_portal};

/// The route of one connection: `SRC[:PORT]→DST[:PORT]`, or `->` for the arrow. IPv6 addresses are
/// in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The address to bind, with port 0 for any; `None` leaves both to the kernel.
    pub source: Option<SocketAddr>,
    /// The portal's host name or address (an IPv6 one without its brackets).
    pub host: String,
    /// The portal's TCP port.
    pub port: u16,
}

/// A portal: `HOST[:PORT]`, with an IPv6 address in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Portal {
    host: String,
    port: u16,
}

impl FromStr for Portal {
    type Err = String;

    fn from_str(portal: &str) -> Result<Self, String> {
        match split_portal(portal) {
            Ok((host, port)) => Ok(Portal {
                host: host.to_owned(),
                port,
            }),
            Err(problem) => Err(format!(
                "portal '{portal}': {problem}; expected HOST[:PORT]"
            )),
        }
    }
}

impl fmt::Display for Portal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Route::from(self.clone()).portal())
    }
}

/// With the source address of the kernel's choice.
impl From<Portal> for Route {
    fn from(Portal { host, port }: Portal) -> Route {
        Route {
            source: None,
            host,
            port,
        }
    }
}

/// An invalid route.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "route '{route}': {problem}; expected SRC[:PORT]→DST[:PORT] or SRC[:PORT]->DST[:PORT], for \
     example 10.0.1.1→10.0.1.2:3260"
)]
pub struct RouteError {
    route: String,
    problem: &'static str,
}

impl FromStr for Route {
    type Err = RouteError;

    fn from_str(route: &str) -> Result<Self, RouteError> {
        parse(route).map_err(|problem| RouteError {
            route: route.to_owned(),
            problem,
        })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            Some(source) => write!(f, "{source}")?,
            None => f.write_str("0.0.0.0:0")?,
        }
        write!(f, "->{}", self.portal())
    }
}

fn parse(route: &str) -> Result<Route, &'static str> {
    let (source, destination) = route
        .split_once('→')
        .or_else(|| route.split_once("->"))
        .ok_or("it has no arrow")?;
    let (host, port) = split_portal(destination.trim())?;
    Ok(Route {
        source: Some(parse_source(source.trim())?),
        host: host.to_owned(),
        port,
    })
}

fn parse_source(source: &str) -> Result<SocketAddr, &'static str> {
    const PROBLEM: &str = "the source is not an IP address with or without a port";
    if let Ok(address) = source.parse::<SocketAddr>() {
        return Ok(address);
    }
    let bare = source
        .strip_prefix('[')
        .and_then(|bracketed| bracketed.strip_suffix(']'));
    let address: IpAddr = match bare {
        Some(bare) => bare.parse().map(IpAddr::V6).map_err(|_| PROBLEM)?,
        None => source.parse().map(IpAddr::V4).map_err(|_| PROBLEM)?,
    };
    Ok(SocketAddr::new(address, 0))
}

impl Route {
    /// The route to the portal of `url`, with the source address of the kernel's choice.
    #[must_use]
    pub fn to(url: &IscsiUrl) -> Route {
        Route {
            source: None,
            host: url.host.clone(),
            port: url.port,
        }
    }

    /// The portal in URL notation, with an IPv6 address in brackets.
    #[must_use]
    pub fn portal(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The portal's addresses that the source can reach.
    pub(super) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let all = (self.host.as_str(), self.port).to_socket_addrs()?;
        let reachable = |address: &SocketAddr| {
            self.source
                .is_none_or(|source| source.is_ipv4() == address.is_ipv4())
        };
        let addresses: Vec<SocketAddr> = all.filter(reachable).collect();
        if addresses.is_empty() {
            let problem = match self.source {
                Some(_) => "the name has no address of the source's family",
                None => "the name has no address",
            };
            return Err(io::Error::new(io::ErrorKind::NotFound, problem));
        }
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_arrows_and_both_families_are_read() {
        let route: Route = "10.0.1.1→10.0.1.2:3261".parse().unwrap();
        assert_eq!(route.source, Some("10.0.1.1:0".parse().unwrap()));
        assert_eq!(route.portal(), "10.0.1.2:3261");
        let route: Route = "[fd00::1]:4000->[fd00::2]".parse().unwrap();
        assert_eq!(route.source, Some("[fd00::1]:4000".parse().unwrap()));
        assert_eq!(route.portal(), "[fd00::2]:3260");
        let route: Route = "[::1] -> disk.example.net".parse().unwrap();
        assert_eq!(route.source, Some("[::1]:0".parse().unwrap()));
        assert_eq!(route.portal(), "disk.example.net:3260");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (route, problem) in [
            ("10.0.1.1", "arrow"),
            ("here→10.0.1.2", "source"),
            ("fd00::1→[fd00::2]", "source"),
            ("10.0.1.1→fd00::2", "brackets"),
            ("10.0.1.1→", "host"),
            ("10.0.1.1->10.0.1.2:0", "port"),
        ] {
            let error = route.parse::<Route>().unwrap_err().to_string();
            assert!(
                error.contains(problem) && error.contains(route),
                "{route}: {error}"
            );
        }
    }
}
