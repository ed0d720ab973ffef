//! Listen addresses.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// An address and port to listen on; a port alone is one of the loopback address (127.0.0.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress(pub SocketAddr);

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(port) = text.parse() {
            return Ok(ListenAddress((Ipv4Addr::LOCALHOST, port).into()));
        }
        let address = text.parse().map(ListenAddress);
        address.map_err(|_| "write ADDRESS:PORT, such as 127.0.0.1:9861, or a port")
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
