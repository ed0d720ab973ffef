//! Addresses to connect to or to listen on, as users write them.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// The input names no address.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It is not of the form `HOST:PORT`.
    #[error("no HOST:PORT, IPv6 addresses in brackets")]
    Form,
    /// The host has no address.
    #[error(transparent)]
    Resolver(#[from] io::Error),
}

/// Resolves `HOST:PORT` to at least one address. The host is a name or an address, an IPv6 address in brackets; port 0
/// is valid.
///
/// # Errors
/// [`AddressError`].
pub fn resolve(given: &str) -> Result<Vec<SocketAddr>, AddressError> {
    let (host, port) = given.rsplit_once(':').ok_or(AddressError::Form)?;
    let is_clear = host.starts_with('[') || !host.contains(':');
    if host.is_empty() || !is_clear || port.parse::<u16>().is_err() {
        return Err(AddressError::Form);
    }
    let addresses: Vec<SocketAddr> = given.to_socket_addrs()?.collect();
    match addresses.is_empty() {
        true => Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address").into()),
        false => Ok(addresses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in [
            "",
            "here",
            ":5201",
            "127.0.0.1",
            "127.0.0.1:",
            "127.0.0.1:port",
            "127.0.0.1:70000",
            "::1",
            "::1:70000",
            "::1:3260",
        ] {
            let error = resolve(bad).unwrap_err();
            assert!(matches!(error, AddressError::Form), "{bad}: {error}");
        }
        for good in ["127.0.0.1:5201", "[::1]:5201", "127.0.0.1:0"] {
            assert_eq!(resolve(good).unwrap(), [good.parse().unwrap()]);
        }
    }
}
