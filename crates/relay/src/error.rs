//! Errors of a relay.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use wansan_split::{CLIENT, Law, NAMES};
use wansan_tcp::buffers::BufferError;
use wansan_tcp::congestion::CongestionError;
use wansan_tcp::control::ControlError;

use crate::choice::FlowError;
use crate::remedy::remedy;
use crate::settings::ListenerConfig;

/// A relay could not start, or could not apply new settings; the cause is a mistake of the caller, or a limit of the
/// system.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// No listener.
    #[error("no listener: name at least one ADDRESS:PORT")]
    NoListener,
    /// Two listeners on one address.
    #[error("two listeners at {listen}: give each its own address")]
    Twice {
        /// The address.
        listen: String,
    },
    /// Two listeners of which one would accept the other's connections.
    #[error(
        "cannot listen at {listen} while this relay listens at {by}: remove one of them; to \
         replace {by}, reload without it first"
    )]
    Taken {
        /// The listen address.
        listen: String,
        /// The existing listener's.
        by: String,
    },
    /// No `ADDRESS:PORT`.
    #[error(
        "'{listen}' is not an ADDRESS:PORT to listen at: write {}",
        near_listener(listen)
    )]
    Listener {
        /// The given address.
        listen: String,
    },
    /// No `HOST:PORT`.
    #[error(
        "'{to}' is not a HOST:PORT to connect to: write for example {}",
        near_target(to)
    )]
    Target {
        /// The given target.
        to: String,
    },
    /// No destination that can be intercepted.
    #[error(
        "'{to}' is not a destination for a transparent relay to intercept: write ADDRESS:PORT or \
         ADDRESS/PREFIX:PORT, such as 192.0.2.0/24:3260 or [2001:db8::/32]:3260"
    )]
    Interception {
        /// The given destination.
        to: String,
    },
    /// The listener's address family differs from that of its destinations.
    #[error("a transparent relay at {listen} cannot intercept {to}: one is IPv4, the other IPv6")]
    Family {
        /// The listen address.
        listen: String,
        /// The destinations.
        to: String,
    },
    /// The host has no address.
    #[error("{to}: {source}; is the name right, and does the resolver answer?")]
    Resolve {
        /// The given target.
        to: String,
        /// The cause.
        source: io::Error,
    },
    /// It would connect to itself forever.
    #[error(
        "{listen} forwards to {to}, which is the relay itself, and so back to {listen}: name the \
         target's own address"
    )]
    Loop {
        /// The listen address.
        listen: String,
        /// The target.
        to: SocketAddr,
    },
    /// Contradictory settings of its flows.
    #[error("{listen}: {source}")]
    Flow {
        /// The listener.
        listen: String,
        /// The contradiction.
        source: FlowError,
    },
    /// The law cannot signal ECE here.
    #[error("{listen}: law '{law}' is not available: {source}; law 'window' always is")]
    Law {
        /// The listener.
        listen: String,
        /// The law.
        law: Law,
        /// The cause.
        source: ControlError,
    },
    /// Cannot listen on the address.
    #[error("cannot listen at {listen}: {source}")]
    Listen {
        /// The address.
        listen: String,
        /// The cause.
        source: io::Error,
    },
    /// The congestion control of a side is not available.
    #[error("{listen}, {side}: {source}{}", remedy(source))]
    Congestion {
        /// The listener.
        listen: String,
        /// The side.
        side: &'static str,
        /// The cause.
        source: CongestionError,
    },
    /// The kernel grants a smaller buffer, or none.
    #[error("{listen}, {side}: {source}")]
    SocketBuffer {
        /// The listener.
        listen: String,
        /// The side.
        side: &'static str,
        /// The cause.
        source: BufferError,
    },
    /// The kernel rejects a socket option.
    #[error("{listen}, {side}: cannot set {what}: {source}")]
    Option {
        /// The listener.
        listen: String,
        /// The side.
        side: &'static str,
        /// The option.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// This process lacks the privilege to accept connections that are not addressed to this host.
    #[error(
        "{listen}: a transparent relay needs CAP_NET_ADMIN in its network namespace ({source}); run \
         it as root or with that capability"
    )]
    Transparent {
        /// The listener.
        listen: String,
        /// The cause.
        source: io::Error,
    },
    /// The system denied a thread or a descriptor.
    #[error("cannot start the relay's threads: {0}")]
    Machine(#[from] io::Error),
}

impl RelayError {
    /// The key in the settings of `listeners` that the error concerns, such as `listener[1].to`, if there is one.
    #[must_use]
    pub fn place(&self, listeners: &[ListenerConfig]) -> Option<String> {
        use RelayError as E;
        let unique = |listen: &str| {
            let mut places =
                (0..listeners.len()).filter(|place| listeners[*place].listen == listen);
            places.next().filter(|_| places.next().is_none())
        };
        let table = |side: &str| if side == NAMES[CLIENT] { "in" } else { "out" };
        let (place, key) = match self {
            E::NoListener => return Some("listener".to_owned()),
            E::Machine(_) => return None,
            E::Target { to } | E::Interception { to } | E::Resolve { to, .. } => {
                let place = listeners.iter().position(|it| it.to == *to);
                (place, "to".to_owned())
            }
            E::Twice { listen } => {
                let place = listeners.iter().rposition(|it| it.listen == *listen);
                (place, "listen".to_owned())
            }
            E::Taken { listen, .. } | E::Listener { listen } | E::Listen { listen, .. } => {
                (unique(listen), "listen".to_owned())
            }
            E::Family { listen, .. } | E::Loop { listen, .. } => (unique(listen), "to".to_owned()),
            E::Flow { listen, source } => (unique(listen), source.key().to_owned()),
            E::Law { listen, .. } => (unique(listen), "law".to_owned()),
            E::Congestion { listen, side, .. } => {
                let key = format!("{}.congestion_control", table(side));
                (unique(listen), key)
            }
            E::SocketBuffer { listen, side, .. } | E::Option { listen, side, .. } => {
                (unique(listen), table(side).to_owned())
            }
            E::Transparent { listen, .. } => (unique(listen), "transparent".to_owned()),
        };
        place.map(|place| format!("listener[{place}].{key}"))
    }
}

/// Why a connection to the target failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectError {
    /// No socket listens on the target's address.
    #[error("connection refused")]
    Refused,
    /// No route to the target.
    #[error("unreachable: {0}")]
    Unreachable(rustix::io::Errno),
    /// No answer within the listener's time limit.
    #[error("no answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// No answer until the kernel gave up.
    #[error("no answer")]
    Unanswered,
    /// No address is left to try; or a transparent flow was addressed to the relay itself.
    #[error("not a destination that the relay intercepts")]
    NoAddress,
    /// A setting of the listener is no longer available.
    #[error("{0}")]
    Settings(String),
    /// The system lacks a resource.
    #[error("{0}")]
    Machine(rustix::io::Errno),
}

/// A corrected listen address.
fn near_listener(given: &str) -> String {
    const PORT: u16 = 3260;
    let bare = given.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return SocketAddr::new(address, PORT).to_string();
    }
    match given.rsplit_once(':') {
        Some(("", port)) if port.parse::<u16>().is_ok() => format!("127.0.0.1:{port}"),
        Some((host, _)) if host.parse::<IpAddr>().is_ok() => format!("{host}:{PORT}"),
        _ => format!("127.0.0.1:{PORT}"),
    }
}

/// A corrected target.
fn near_target(given: &str) -> String {
    let bare = given.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return SocketAddr::new(address, 3260).to_string();
    }
    let host = given.split(':').next().filter(|host| !host.is_empty());
    format!("{}:3260", host.unwrap_or("storage.example.net"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearly_right_is_named() {
        for (given, near) in [
            ("127.0.0.1", "127.0.0.1:3260"),
            ("192.0.2.1:", "192.0.2.1:3260"),
            (":3261", "127.0.0.1:3261"),
            ("::1", "[::1]:3260"),
            ("here", "127.0.0.1:3260"),
        ] {
            assert_eq!(near_listener(given), near, "{given}");
        }
        for (given, near) in [
            ("storage", "storage:3260"),
            ("192.0.2.1:port", "192.0.2.1:3260"),
            ("2001:db8::1", "[2001:db8::1]:3260"),
            ("", "storage.example.net:3260"),
        ] {
            assert_eq!(near_target(given), near, "{given}");
        }
    }
}
