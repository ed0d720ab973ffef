//! Which congestion control a socket uses.

use std::io;
use std::os::fd::AsFd;

use rustix::net::sockopt;

/// A congestion control could not be chosen.
#[derive(Debug, thiserror::Error)]
pub enum CongestionError {
    /// The kernel does not have it.
    #[error(
        "congestion control '{name}' is not in this kernel; it has: {available} \
         (net.ipv4.tcp_available_congestion_control)"
    )]
    Unknown {
        /// What was requested.
        name: String,
        /// What the kernel offers.
        available: String,
    },
    /// The kernel has it but keeps it for the privileged.
    #[error(
        "congestion control '{name}' is reserved for CAP_NET_ADMIN; allow it with \
         net.ipv4.tcp_allowed_congestion_control, or run with that capability"
    )]
    Restricted {
        /// What was requested.
        name: String,
    },
    /// Anything else that setsockopt(2) says.
    #[error("congestion control '{name}' could not be set: {source}")]
    Other {
        /// What was requested.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Chooses the congestion control of `socket` by the kernel's name for it (`cubic`, `reno`, …).
/// Set it on a listening socket and accepted ones inherit it.
///
/// # Errors
/// [`CongestionError`] says whether the kernel lacks it or forbids it.
pub fn choose(socket: impl AsFd, name: &str) -> Result<(), CongestionError> {
    sockopt::set_tcp_congestion(socket, name).map_err(|errno| match errno {
        rustix::io::Errno::NOENT => CongestionError::Unknown {
            name: name.to_owned(),
            available: available().unwrap_or_else(|_| "unknown".to_owned()),
        },
        rustix::io::Errno::PERM => CongestionError::Restricted {
            name: name.to_owned(),
        },
        other => CongestionError::Other {
            name: name.to_owned(),
            source: other.into(),
        },
    })
}

/// The congestion control that `socket` uses.
///
/// # Errors
/// Those of getsockopt(2).
pub fn of(socket: impl AsFd) -> io::Result<String> {
    Ok(sockopt::tcp_congestion(socket)?)
}

/// The congestion controls that this kernel has loaded, separated by spaces.
///
/// # Errors
/// Those of reading /proc.
pub fn available() -> io::Result<String> {
    names("tcp_available_congestion_control")
}

/// Those that a process without rights may choose in this network namespace, separated by spaces.
///
/// # Errors
/// Those of reading /proc.
pub fn allowed() -> io::Result<String> {
    names("tcp_allowed_congestion_control")
}

/// The one of connections in this network namespace that choose none.
///
/// # Errors
/// Those of reading /proc.
pub fn by_default() -> io::Result<String> {
    names("tcp_congestion_control")
}

fn names(setting: &str) -> io::Result<String> {
    std::fs::read_to_string(format!("/proc/sys/net/ipv4/{setting}"))
        .map(|names| names.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn reno_is_always_there_and_nonsense_is_named() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        choose(&socket, "reno").unwrap();
        assert_eq!(of(&socket).unwrap(), "reno");
        let error = choose(&socket, "nonsense").unwrap_err();
        assert!(error.to_string().contains("reno"), "{error}");
    }
}
