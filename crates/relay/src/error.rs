//! Why a relay cannot do what it is asked to do.

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

/// A relay could not be started, or not take on other settings; either is the caller's mistake, or
/// something that the machine lacks.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// No listener.
    #[error("no listener: name at least one ADDRESS:PORT")]
    NoListener,
    /// Two listeners at one address.
    #[error("two listeners at {listen}: give each its own address")]
    Twice {
        /// The address.
        listen: String,
    },
    /// Two listeners of which one would take what is meant for the other.
    #[error(
        "cannot listen at {listen} while this relay listens at {by}: remove one of them; to \
         replace {by}, reload without it first"
    )]
    Taken {
        /// Where it was to listen.
        listen: String,
        /// The one that stands.
        by: String,
    },
    /// No address and port.
    #[error(
        "'{listen}' is not an ADDRESS:PORT to listen at: write {}",
        near_listener(listen)
    )]
    Listener {
        /// What was given.
        listen: String,
    },
    /// No host and port.
    #[error(
        "'{to}' is not a HOST:PORT to connect to: write for example {}",
        near_target(to)
    )]
    Target {
        /// What was given.
        to: String,
    },
    /// Nothing that can be taken.
    #[error(
        "'{to}' is not a destination for a transparent relay to intercept: write ADDRESS:PORT or \
         ADDRESS/PREFIX:PORT, such as 192.0.2.0/24:3260 or [2001:db8::/32]:3260"
    )]
    Interception {
        /// What was given.
        to: String,
    },
    /// The listener's family is another one than that of what it is to take.
    #[error("a transparent relay at {listen} cannot intercept {to}: one is IPv4, the other IPv6")]
    Family {
        /// Where it listens.
        listen: String,
        /// What it is to take.
        to: String,
    },
    /// The host has no address.
    #[error("{to}: {source}; is the name right, and does the resolver answer?")]
    Resolve {
        /// What was given.
        to: String,
        /// Why.
        source: io::Error,
    },
    /// It would connect to itself for ever.
    #[error(
        "{listen} forwards to {to}, which is the relay itself, and so back to {listen}: name the \
         target's own address"
    )]
    Loop {
        /// Where it listens.
        listen: String,
        /// Where flows would go.
        to: SocketAddr,
    },
    /// Settings of its flows contradict each other.
    #[error("{listen}: {source}")]
    Flow {
        /// Which listener.
        listen: String,
        /// How.
        source: FlowError,
    },
    /// A law that signals ECE cannot do so here.
    #[error("{listen}: law '{law}' is not available: {source}; law 'window' always is")]
    Law {
        /// Which listener.
        listen: String,
        /// What was given.
        law: Law,
        /// Why.
        source: ControlError,
    },
    /// The address cannot be had.
    #[error("cannot listen at {listen}: {source}")]
    Listen {
        /// Where.
        listen: String,
        /// Why.
        source: io::Error,
    },
    /// The congestion control of a side cannot be had.
    #[error("{listen}, {side}: {source}{}", remedy(source))]
    Congestion {
        /// Which listener.
        listen: String,
        /// Which side.
        side: &'static str,
        /// Why.
        source: CongestionError,
    },
    /// The kernel gives a smaller buffer, or none.
    #[error("{listen}, {side}: {source}")]
    SocketBuffer {
        /// Which listener.
        listen: String,
        /// Which side.
        side: &'static str,
        /// Why.
        source: BufferError,
    },
    /// The kernel refuses a setting.
    #[error("{listen}, {side}: cannot set {what}: {source}")]
    Option {
        /// Which listener.
        listen: String,
        /// Which side.
        side: &'static str,
        /// Which setting.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The kernel does not let this process take connections that are not meant for this host.
    #[error(
        "{listen}: a transparent relay needs CAP_NET_ADMIN in its network namespace ({source}); run \
         it as root or with that capability"
    )]
    Transparent {
        /// Which listener.
        listen: String,
        /// Why.
        source: io::Error,
    },
    /// The machine gives no thread or descriptor.
    #[error("cannot start the relay's threads: {0}")]
    Machine(#[from] io::Error),
}

impl RelayError {
    /// Where in the settings of `listeners` stands what it is about, such as `listener[1].to`, if it is in
    /// one place.
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

/// Why a connection to the target could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectError {
    /// No socket listens at the target's address.
    #[error("connection refused")]
    Refused,
    /// There is no route to it.
    #[error("unreachable: {0}")]
    Unreachable(rustix::io::Errno),
    /// No answer within the listener's time limit.
    #[error("no answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// No answer until the kernel gave up.
    #[error("no answer")]
    Unanswered,
    /// No address is left to try; or, of a transparent flow, it was meant for the relay itself.
    #[error("not a destination that the relay takes")]
    NoAddress,
    /// What the listener's settings say cannot be had any more.
    #[error("{0}")]
    Settings(String),
    /// The machine lacks something.
    #[error("{0}")]
    Machine(rustix::io::Errno),
}

/// An address near to what was given for one.
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

/// A target near to what was given for one.
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
