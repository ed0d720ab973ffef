//! Sockets of a meter, and the clock of its timestamps.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use wansan_tcp::address::{self, AddressError};
use wansan_workload::stream::Clock;

use crate::error::StreamError;

/// The addresses of `HOST:PORT`.
pub(super) fn resolve(given: &str) -> Result<Vec<SocketAddr>, StreamError> {
    address::resolve(given).map_err(|error| match error {
        AddressError::Form => StreamError::Address {
            given: given.to_owned(),
        },
        AddressError::Resolver(source) => StreamError::Resolve {
            given: given.to_owned(),
            source,
        },
    })
}

/// A blocking socket that can reach `address`.
pub(super) fn stream(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    Ok(socket_with(
        family,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// The clock of this process: the kernel's boot ID, and the time namespace, which shifts the clock.
pub(super) fn clock() -> io::Result<Clock> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = boot.chars().filter(char::is_ascii_hexdigit).collect();
    let boot = u128::from_str_radix(&digits, 16).map_err(io::Error::other)?;
    // Kernels before 5.6 have no time namespaces.
    let namespace = fs::metadata("/proc/self/ns/time").map_or(0, |file| file.ino());
    let mut clock = [0; 24];
    clock[..16].copy_from_slice(&boot.to_be_bytes());
    clock[16..].copy_from_slice(&namespace.to_be_bytes());
    Ok(Clock(clock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_clock() {
        assert_eq!(clock().unwrap(), clock().unwrap());
    }
}
