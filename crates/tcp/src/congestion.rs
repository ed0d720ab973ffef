//! The congestion control of a socket.

use std::io;
use std::os::fd::AsFd;

use rustix::net::sockopt;

/// Setting a congestion control failed.
#[derive(Debug, thiserror::Error)]
pub enum CongestionError {
    /// The kernel does not have it.
    #[error(
        "congestion control '{name}' is not in this kernel; it has: {available} \
         (net.ipv4.tcp_available_congestion_control)"
    )]
    Unknown {
        /// The requested name.
        name: String,
        /// The congestion controls that are available.
        available: String,
    },
    /// The kernel restricts it to privileged processes.
    #[error(
        "congestion control '{name}' is reserved for CAP_NET_ADMIN; allow it with \
         net.ipv4.tcp_allowed_congestion_control, or run with that capability"
    )]
    Restricted {
        /// The requested name.
        name: String,
    },
    /// Any other error of setsockopt(2).
    #[error("congestion control '{name}' could not be set: {source}")]
    Other {
        /// The requested name.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Sets the congestion control of `socket` by its kernel name (`cubic`, `reno`, …). Accepted sockets inherit that of
/// their listener.
///
/// # Errors
/// [`CongestionError`], by whether the kernel lacks or restricts it.
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
/// Errors of getsockopt(2).
pub fn of(socket: impl AsFd) -> io::Result<String> {
    Ok(sockopt::tcp_congestion(socket)?)
}

/// The congestion controls loaded in this kernel, separated by spaces.
///
/// # Errors
/// Errors of reading /proc.
pub fn available() -> io::Result<String> {
    names("tcp_available_congestion_control")
}

/// The congestion controls that an unprivileged process may choose in this network namespace, separated by spaces.
///
/// # Errors
/// Errors of reading /proc.
pub fn allowed() -> io::Result<String> {
    names("tcp_allowed_congestion_control")
}

/// The default congestion control of this network namespace.
///
/// # Errors
/// Errors of reading /proc.
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
