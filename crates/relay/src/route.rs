//! A listener's settings, resolved: the targets of its flows, and who may use it.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use rustix::net::getsockname;
use wansan_split::{NAMES, ReceiveBuffer};
use wansan_tcp::address::{self, AddressError};
use wansan_tcp::buffers::BufferError;
use wansan_tcp::network::Network;

use crate::bound::{Bound, Signaller};
use crate::error::RelayError;
use crate::settings::ListenerConfig;
use crate::socket;

/// The connections that a transparent listener accepts: to addresses of a network, on one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interception {
    /// The addresses.
    pub network: Network,
    /// The port.
    pub port: u16,
}

impl Interception {
    /// Whether it covers a connection to `to`.
    fn takes(&self, to: SocketAddr) -> bool {
        self.port == to.port() && self.network.contains(to.ip())
    }
}

impl FromStr for Interception {
    type Err = RelayError;

    /// Parses `ADDRESS[/PREFIX]:PORT`; IPv6 in brackets, including the prefix.
    fn from_str(to: &str) -> Result<Self, RelayError> {
        let error = || RelayError::Interception { to: to.to_owned() };
        let (network, port) = to.rsplit_once(':').ok_or_else(error)?;
        let bare = network
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if bare.is_none() && network.contains(':') {
            return Err(error());
        }
        let network = bare.unwrap_or(network).parse().map_err(|_| error())?;
        let port = port.parse().ok().filter(|port| *port > 0);
        Ok(Interception {
            network,
            port: port.ok_or_else(error)?,
        })
    }
}

/// Target of flows.
#[derive(Debug)]
enum Target {
    /// The first of these that answers.
    Addresses(Vec<SocketAddr>),
    /// Their original destination.
    AsMeant(Interception),
}

/// The settings of a listener's flows.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) config: ListenerConfig,
    /// The bound of backlogs.
    pub(crate) bound: Option<Bound>,
    /// A remark on it: why another law than the best, or none, is in force.
    pub(crate) remark: Option<String>,
    /// Whether it was logged that a side's receive buffers are smaller than its law needs.
    is_short_told: [AtomicBool; 2],
    target: Target,
    /// Shared by all routes of a listener from when it becomes transparent until it no longer is: exists as long as
    /// that listener, or one of its flows.
    presence: Arc<()>,
}

impl Route {
    /// Resolves `config`, and checks that its sockets can be made.
    pub(crate) fn new(config: &ListenerConfig, signaller: &Signaller) -> Result<Route, RelayError> {
        let (bound, remark) = Bound::resolve(config, signaller)?;
        let target = if config.transparent {
            Target::AsMeant(config.to.parse()?)
        } else {
            Target::Addresses(resolve(&config.to)?)
        };
        socket::try_settings(config)?;
        Ok(Route {
            config: config.clone(),
            bound,
            remark,
            is_short_told: Default::default(),
            target,
            presence: Arc::default(),
        })
    }

    /// A remark on a flow's receive buffer on that side, once for all flows: that the system grants less than the law
    /// needs.
    pub(crate) fn remark_on(&self, side: usize, buffer: ReceiveBuffer) -> Option<RelayError> {
        let told = &self.is_short_told[side];
        if !buffer.is_short() || told.load(Ordering::Relaxed) {
            return None;
        }
        let is_news = !told.swap(true, Ordering::Relaxed);
        is_news.then(|| RelayError::SocketBuffer {
            listen: self.config.listen.clone(),
            side: NAMES[side],
            source: BufferError::TooSmall {
                setting: "net.core.rmem_max",
                wanted_bytes: buffer.asked_bytes as usize,
                granted_bytes: buffer.given_bytes as usize,
            },
        })
    }

    /// Whether clients at `address` may use it.
    pub(crate) fn allows(&self, address: IpAddr) -> bool {
        let networks = self.config.networks.as_ref();
        networks.is_none_or(|list| list.iter().any(|network| network.0.contains(address)))
    }

    /// The target addresses; empty if flows go to their original destinations.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        match &self.target {
            Target::Addresses(addresses) => addresses,
            Target::AsMeant(_) => &[],
        }
    }

    /// The target of a flow with the client's connection `client`: the address at index `place`, from 0, if several are
    /// to be tried. `None` when there is no such index.
    pub(crate) fn address(&self, client: impl AsFd, place: usize) -> Option<SocketAddr> {
        match &self.target {
            Target::Addresses(addresses) => addresses.get(place).copied(),
            Target::AsMeant(interception) => {
                let meant: SocketAddr = getsockname(client).ok()?.try_into().ok()?;
                let meant = SocketAddr::new(meant.ip().to_canonical(), meant.port());
                // Connections without redirection are addressed to the relay itself.
                (place == 0 && interception.takes(meant)).then_some(meant)
            }
        }
    }

    /// The source address of its connections, if not the relay's own.
    pub(crate) fn source(&self, client: SocketAddr) -> Option<IpAddr> {
        let is_transparent = matches!(self.target, Target::AsMeant(_));
        is_transparent.then(|| client.ip().to_canonical())
    }
}

/// A listening socket, and the settings of its connections.
#[derive(Debug, Clone)]
pub(crate) struct Listener {
    socket: Arc<OwnedFd>,
    /// As the kernel reports it.
    pub(crate) address: SocketAddr,
    pub(crate) route: Arc<Route>,
}

impl Listener {
    /// Listens as configured.
    pub(crate) fn open(
        config: &ListenerConfig,
        signaller: &Signaller,
    ) -> Result<Listener, RelayError> {
        let wanted = listening_address(&config.listen)?;
        let route = Arc::new(Route::new(config, signaller)?);
        let failed = |source| RelayError::Listen {
            listen: config.listen.clone(),
            source,
        };
        let socket = socket::listener(config, wanted)?;
        let address = getsockname(&socket).map_err(|errno| failed(errno.into()))?;
        let address = SocketAddr::try_from(address).map_err(|errno| failed(errno.into()))?;
        let listener = Listener {
            socket: Arc::new(socket),
            address,
            route,
        };
        listener.check()?;
        Ok(listener)
    }

    /// The same socket with other settings for new connections.
    pub(crate) fn with(
        &self,
        config: &ListenerConfig,
        signaller: &Signaller,
    ) -> Result<Listener, RelayError> {
        let mut route = Route::new(config, signaller)?;
        if config.transparent && self.route.config.transparent {
            route.presence = Arc::clone(&self.route.presence);
        }
        let listener = Listener {
            socket: Arc::clone(&self.socket),
            address: self.address,
            route: Arc::new(route),
        };
        listener.check()?;
        Ok(listener)
    }

    /// Applies the settings of its route only: not those of a previous route.
    pub(crate) fn put_in_force(&self) -> Result<(), RelayError> {
        let config = &self.route.config;
        socket::unset_inward(&*self.socket, config)?;
        socket::set_inward(&*self.socket, config)
    }

    /// Exists as long as this transparent listener, or a flow of it.
    pub(crate) fn presence(&self) -> Weak<()> {
        Arc::downgrade(&self.route.presence)
    }

    /// The destinations must be of its own family.
    fn check(&self) -> Result<(), RelayError> {
        match &self.route.target {
            Target::AsMeant(it) if it.network.is_ipv4() != self.address.is_ipv4() => {
                Err(RelayError::Family {
                    listen: self.route.config.listen.clone(),
                    to: self.route.config.to.clone(),
                })
            }
            _ => Ok(()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The address of `ADDRESS:PORT`.
fn listening_address(listen: &str) -> Result<SocketAddr, RelayError> {
    let addresses = address::resolve(listen).map_err(|error| match error {
        AddressError::Form => RelayError::Listener {
            listen: listen.to_owned(),
        },
        AddressError::Resolver(source) => RelayError::Listen {
            listen: listen.to_owned(),
            source,
        },
    })?;
    Ok(addresses[0])
}

/// The addresses of `HOST:PORT`; port 0 is invalid.
fn resolve(to: &str) -> Result<Vec<SocketAddr>, RelayError> {
    let mistaken = || RelayError::Target { to: to.to_owned() };
    let addresses = address::resolve(to).map_err(|error| match error {
        AddressError::Form => mistaken(),
        AddressError::Resolver(source) => RelayError::Resolve {
            to: to.to_owned(),
            source,
        },
    })?;
    match addresses[0].port() {
        0 => Err(mistaken()),
        _ => Ok(addresses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wansan_settings::Text;
    use wansan_settings::quantity::{Size, SomeTime, Span};
    use wansan_split::Law;

    use crate::settings::SideSettings;
    use rustix::net::sockopt;
    use wansan_tcp::buffers::Buffer;
    use wansan_trace::{ConnectionId, SessionId};

    fn open(config: &ListenerConfig) -> Result<Listener, RelayError> {
        Listener::open(config, &Signaller::default())
    }

    #[test]
    fn what_is_taken_is_a_network_and_a_port() {
        for (given, to, taken) in [
            ("192.0.2.0/24:3260", "192.0.2.9:3260", true),
            ("192.0.2.0/24:3260", "192.0.3.9:3260", false),
            ("192.0.2.0/24:3260", "192.0.2.9:3261", false),
            ("192.0.2.9:3260", "192.0.2.9:3260", true),
            ("[2001:db8::/32]:3260", "[2001:db8::7]:3260", true),
            ("[2001:db8::7]:3260", "[2001:db8::8]:3260", false),
            ("0.0.0.0/0:3260", "198.51.100.1:3260", true),
        ] {
            let interception: Interception = given.parse().unwrap();
            assert_eq!(interception.takes(to.parse().unwrap()), taken, "{given}");
        }
        for bad in [
            "",
            "3260",
            ":3260",
            "192.0.2.0/24",
            "2001:db8::/32:3260",
            "1.2.3.4:0",
            "host:3260",
        ] {
            assert!(bad.parse::<Interception>().is_err(), "{bad}");
        }
    }

    #[test]
    fn mistakes_are_found_before_anything_listens() {
        for (listen, to, part) in [
            ("127.0.0.1", "127.0.0.1:9", "not an ADDRESS:PORT"),
            ("127.0.0.1:0", "127.0.0.1", "not a HOST:PORT"),
            ("127.0.0.1:0", "127.0.0.1:0", "not a HOST:PORT"),
            ("127.0.0.1:0", ":3260", "not a HOST:PORT"),
            ("192.0.2.1:0", "127.0.0.1:9", "cannot listen at 192.0.2.1:0"),
        ] {
            let error = open(&ListenerConfig::new(listen, to)).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(part), "{listen} {to}: {text}");
        }
        let mut config = ListenerConfig::new("127.0.0.1:0", "127.0.0.1:9");
        config.flow.out.congestion_control = Some("nonsense".to_owned());
        let text = open(&config).unwrap_err().to_string();
        assert!(
            text.contains("towards the target") && text.contains("wansan cc load"),
            "{text}"
        );
        config.flow.out.congestion_control = None;
        config.flow.law = Some(Text(Law::Window));
        let text = open(&config).unwrap_err().to_string();
        assert!(text.contains("'window' needs a latency"), "{text}");
        config.flow.latency = Some(SomeTime(std::time::Duration::from_millis(20)));
        assert!(open(&config).is_ok());
        config.flow.law = Some(Text(Law::Arrival));
        config.flow.r#in.congestion_control = Some("cubic".to_owned());
        let text = open(&config).unwrap_err().to_string();
        assert!(text.contains("not as 'cubic'"), "{text}");
        // Nobody chose that law: another one will do.
        config.flow.law = None;
        let listener = open(&config).unwrap();
        assert_eq!(listener.route.bound.as_ref().unwrap().law.law, Law::Window);
        assert!(listener.route.remark.as_ref().unwrap().contains("neither"));
        config.flow.buffer = Size(1);
        assert!(open(&config).is_err());
    }

    /// The settings that a connection to `listener` inherits.
    fn inherited(listener: &Listener) -> impl PartialEq + std::fmt::Debug + use<> {
        let _client = std::net::TcpStream::connect(listener.address).unwrap();
        let socket = rustix::net::accept(listener).unwrap();
        let info = wansan_tcp::TcpInfo::of(&socket).unwrap();
        let record = info.record(wansan_trace::Instant::ZERO, SessionId(0), ConnectionId(0));
        (
            sockopt::tcp_congestion(&socket).unwrap(),
            [Buffer::Receive, Buffer::Send].map(|buffer| buffer.bytes(&socket).unwrap()),
            sockopt::socket_keepalive(&socket).unwrap(),
            sockopt::tcp_user_timeout(&socket).unwrap(),
            sockopt::ip_tos(&socket).unwrap(),
            sockopt::ipv6_tclass(&socket).ok(),
            record.mss_bytes,
        )
    }

    #[test]
    fn a_reload_leaves_nothing_of_settings_that_are_gone() {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let mut config = ListenerConfig::new(listen, "127.0.0.1:9");
            config.flow.r#in.keep_alive = Span(std::time::Duration::ZERO);
            let new = inherited(&open(&config).unwrap());
            let with_none = config.clone();
            config.flow.r#in = SideSettings {
                congestion_control: Some("reno".to_owned()),
                receive_buffer: Some(Size(100_000)),
                send_buffer: Some(Size(120_000)),
                keep_alive: Span(std::time::Duration::from_secs(7)),
                user_timeout: Some(Span(std::time::Duration::from_millis(1500))),
                dscp: Some("af11".parse().unwrap()),
                mss: Some(1000),
            };
            let before = open(&config).unwrap();
            assert_ne!(inherited(&before), new, "{listen}");
            let after = before.with(&with_none, &Signaller::default()).unwrap();
            after.put_in_force().unwrap();
            assert_eq!(inherited(&after), new, "{listen}");
        }
    }
}
