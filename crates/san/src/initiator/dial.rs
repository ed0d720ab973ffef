//! Setting up a connection of a session: TCP first, then login. Nothing here blocks, so that several connections are
//! set up in parallel.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_linger, set_socket_reuseaddr, socket_error};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, recv, send,
    socket_with,
};
use wansan_iscsi::initiator::{Handshake, HandshakeError, LoginSettings};
use wansan_iscsi::login::chap::InitiatorChap;
use wansan_iscsi::text::send_targets::TargetAddress;
use wansan_tcp::congestion;
use wansan_trace::{Instant, clock};

use super::route::Route;
use super::{BLOCKING_WAIT, InitiatorConfig, InitiatorError, timespec};
use crate::secret_file::challenge;
use crate::url::IscsiUrl;

/// The destination of a session's connections.
#[derive(Debug, Clone)]
pub(crate) struct Destination {
    pub(crate) config: InitiatorConfig,
    /// `None` for a discovery session.
    pub(super) target: Option<String>,
    /// One per connection.
    pub(crate) routes: Vec<ResolvedRoute>,
    /// A round-trip time as last measured by TCP; 0 before that.
    pub(super) round_trip: Duration,
}

/// A route with its portal's addresses, which are resolved once: recovery must not wait for DNS. Empty before that.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedRoute {
    pub(crate) route: Route,
    addresses: Vec<SocketAddr>,
}

impl ResolvedRoute {
    fn look_up(&mut self) -> Result<(), InitiatorError> {
        let addresses = self.route.addresses();
        self.addresses = addresses.map_err(|source| InitiatorError::Connect {
            portal: self.route.portal(),
            source,
        })?;
        Ok(())
    }
}

impl From<Route> for ResolvedRoute {
    fn from(route: Route) -> ResolvedRoute {
        let addresses = Vec::new();
        ResolvedRoute { route, addresses }
    }
}

impl Destination {
    /// The destination of `url` and the routes of `config`; host names are resolved when needed.
    pub(crate) fn of(url: &IscsiUrl, config: &InitiatorConfig) -> Destination {
        let direct = [Route::to(url)];
        let routes = match &config.routes[..] {
            [] => &direct,
            routes => routes,
        };
        let routes: Vec<ResolvedRoute> = routes.iter().cloned().map(Into::into).collect();
        let mut config = config.clone();
        let connections = u16::try_from(routes.len()).unwrap_or(u16::MAX);
        config.wanted.max_connections = config.wanted.max_connections.max(connections);
        Destination {
            config,
            target: Some(url.target.clone()),
            routes,
            round_trip: Duration::ZERO,
        }
    }

    /// Resolves host names that are not resolved yet.
    pub(super) fn look_up(&mut self) -> Result<(), InitiatorError> {
        let unknown = |route: &&mut ResolvedRoute| route.addresses.is_empty();
        let mut routes = self.routes.iter_mut().filter(unknown);
        routes.try_for_each(ResolvedRoute::look_up)
    }

    /// Copies resolved addresses of the same routes from `other`.
    pub(crate) fn learn(&mut self, other: &Destination) {
        for (own, other) in self.routes.iter_mut().zip(&other.routes) {
            if own.addresses.is_empty() && own.route == other.route {
                own.addresses.clone_from(&other.addresses);
            }
        }
    }

    /// The target has moved to `addresses`: all routes lead there from now on, each to the next address, from the same
    /// source.
    pub(super) fn move_to(&mut self, addresses: &[TargetAddress]) -> Result<(), InitiatorError> {
        for (resolved, address) in self.routes.iter_mut().zip(addresses.iter().cycle()) {
            let route = Route {
                source: resolved.route.source,
                host: address.host.clone(),
                port: address.port,
            };
            *resolved = route.into();
        }
        self.look_up()
    }

    /// The login settings of a connection: the same for all, except its CHAP challenge.
    pub(super) fn login(&self) -> Result<LoginSettings, InitiatorError> {
        let chap = match &self.config.chap {
            Some(accounts) => {
                let challenge = challenge().map_err(InitiatorError::Random)?;
                Some(InitiatorChap::new(Arc::clone(accounts), challenge))
            }
            None => None,
        };
        Ok(LoginSettings {
            initiator: self.config.name.clone(),
            isid: self.config.isid,
            target: self.target.clone(),
            chap,
            wanted: self.config.wanted.clone(),
        })
    }

    /// The portal of the first connection.
    pub(crate) fn portal(&self) -> String {
        self.routes[0].route.portal()
    }

    /// The target's name, or a description without one.
    pub(super) fn in_words(&self) -> &str {
        self.target.as_deref().unwrap_or("a discovery session")
    }

    /// The error of a login that could not start.
    pub(super) fn login_error(
        &self,
        route: &ResolvedRoute,
        source: HandshakeError,
    ) -> InitiatorError {
        InitiatorError::Login {
            target: self.in_words().to_owned(),
            portal: route.route.portal(),
            source: Box::new(source),
        }
    }
}

/// A connection being set up.
#[derive(Debug)]
pub(super) struct Dial {
    portal: String,
    source: Option<SocketAddr>,
    /// Addresses of the portal, the current one first.
    addresses: Vec<SocketAddr>,
    congestion_control: Option<String>,
    target: String,
    stream: TcpStream,
    is_connected: bool,
    handshake: Handshake,
    patience: Duration,
    /// When the current address has used up its share of the timeout.
    connect_by: Instant,
    deadline: Instant,
}

impl Dial {
    /// Starts to connect over `route`, to log in with `handshake`, all within `patience`.
    pub(super) fn begin(
        route: &ResolvedRoute,
        handshake: Handshake,
        to: &Destination,
        patience: Duration,
        now: Instant,
    ) -> Result<Dial, InitiatorError> {
        let config = &to.config;
        let mut dial = Dial {
            portal: route.route.portal(),
            source: route.route.source,
            stream: open(route.addresses[0], config.congestion_control.as_deref())?,
            addresses: route.addresses.clone(),
            congestion_control: config.congestion_control.clone(),
            target: to.in_words().to_owned(),
            is_connected: false,
            handshake,
            patience,
            connect_by: now,
            deadline: now + patience,
        };
        dial.connect(now)?;
        Ok(dial)
    }

    /// Starts to connect to the current address, or to the next one that does not fail at once.
    fn connect(&mut self, now: Instant) -> Result<(), InitiatorError> {
        loop {
            let share = self.deadline.since(now) / self.addresses.len() as u32;
            self.connect_by = now + share;
            let begun = self
                .bind()
                .and_then(|()| connect(&self.stream, &self.addresses[0]));
            match begun {
                Ok(()) | Err(Errno::INPROGRESS) => return Ok(()),
                Err(errno) => self.next_address(errno.into())?,
            }
        }
    }

    fn bind(&self) -> rustix::io::Result<()> {
        let Some(source) = self.source else {
            return Ok(());
        };
        // A connection set up again over a route with its own port must not wait for the old one's TIME-WAIT.
        set_socket_reuseaddr(&self.stream, true)?;
        // Nor, if this attempt is abandoned, until the target has acknowledged its FIN.
        set_socket_linger(&self.stream, Some(Duration::ZERO))?;
        bind(&self.stream, &source)
    }

    /// Moves to the next address after the current one failed with `error`.
    fn next_address(&mut self, error: io::Error) -> Result<(), InitiatorError> {
        self.addresses.remove(0);
        let Some(next) = self.addresses.first() else {
            return Err(InitiatorError::Connect {
                portal: self.portal.clone(),
                source: error,
            });
        };
        self.stream = open(*next, self.congestion_control.as_deref())?;
        Ok(())
    }

    /// Does what is possible without blocking; returns whether login is complete.
    pub(super) fn step(&mut self, now: Instant) -> Result<bool, InitiatorError> {
        if !self.is_connected && !self.finish_connecting(now)? {
            return Ok(false);
        }
        loop {
            self.send()?;
            if self.handshake.is_done() {
                return Ok(true);
            }
            match recv(&self.stream, self.handshake.space(), RecvFlags::DONTWAIT) {
                Ok((0, _)) => {
                    let portal = self.portal.clone();
                    return Err(InitiatorError::Closed { portal });
                }
                Ok((bytes, _)) => self.handshake.filled(bytes),
                Err(Errno::AGAIN) if now < self.deadline => return Ok(false),
                Err(Errno::AGAIN) => {
                    let (portal, patience) = (self.portal.clone(), self.patience);
                    return Err(InitiatorError::Slow { portal, patience });
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.socket_error(errno)),
            }
            self.handshake
                .receive()
                .map_err(|source| InitiatorError::Login {
                    target: self.target.clone(),
                    portal: self.portal.clone(),
                    source: Box::new(source),
                })?;
        }
    }

    fn finish_connecting(&mut self, now: Instant) -> Result<bool, InitiatorError> {
        let mut fds = [PollFd::new(&self.stream, PollFlags::OUT)];
        let ready = poll(&mut fds, Some(&timespec(Duration::ZERO)));
        if ready.is_ok_and(|ready| ready > 0) {
            match socket_error(&self.stream).and_then(|outcome| outcome) {
                Ok(()) => self.is_connected = true,
                Err(errno) => {
                    self.next_address(errno.into())?;
                    self.connect(now)?;
                }
            }
        } else if now >= self.connect_by {
            self.next_address(io::ErrorKind::TimedOut.into())?;
            self.connect(now)?;
        }
        Ok(self.is_connected)
    }

    /// Login PDUs are short: a socket that does not accept one at once never will.
    fn send(&mut self) -> Result<(), InitiatorError> {
        while !self.handshake.pending().is_empty() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(&self.stream, self.handshake.pending(), flags) {
                Ok(bytes) => self.handshake.sent(bytes),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.socket_error(errno)),
            }
        }
        Ok(())
    }

    fn socket_error(&self, errno: Errno) -> InitiatorError {
        InitiatorError::Socket {
            portal: self.portal.clone(),
            source: errno.into(),
        }
    }

    /// What to poll for: connection establishment, or input.
    pub(super) fn awaited(&self) -> PollFd<'_> {
        let flags = if self.is_connected {
            PollFlags::IN
        } else {
            PollFlags::OUT
        };
        PollFd::new(self, flags)
    }

    /// When to step the dial even though its socket is not ready.
    pub(super) fn wakes_at(&self) -> Instant {
        if self.is_connected {
            self.deadline
        } else {
            self.connect_by
        }
    }

    /// The socket and the handshake of a completed dial.
    pub(super) fn into_parts(self) -> (TcpStream, Handshake) {
        // No socket rejects this option.
        let _ = set_socket_linger(&self.stream, None);
        (self.stream, self.handshake)
    }
}

impl AsFd for Dial {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// A socket for `address`, with that congestion control.
fn open(address: SocketAddr, control: Option<&str>) -> Result<TcpStream, InitiatorError> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let ready = || -> io::Result<TcpStream> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let stream = TcpStream::from(socket_with(family, SocketType::STREAM, flags, None)?);
        // PDUs are assembled before they are sent; waiting for more can only delay.
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(BLOCKING_WAIT))?;
        Ok(stream)
    };
    let stream = ready().map_err(InitiatorError::NoSocket)?;
    if let Some(name) = control {
        congestion::choose(&stream, name)?;
    }
    Ok(stream)
}

/// Steps `dials` until all are complete, and returns them.
pub(super) fn finish_all(mut dials: Vec<Dial>) -> Result<Vec<Dial>, InitiatorError> {
    loop {
        let now = clock::now();
        let mut is_done = Vec::with_capacity(dials.len());
        for dial in &mut dials {
            is_done.push(dial.step(now)?);
        }
        let waiting = dials.iter().zip(is_done).filter(|(_, is_done)| !is_done);
        let mut wake = Instant::FAR_FUTURE;
        let mut fds: Vec<PollFd<'_>> = waiting
            .map(|(dial, _)| {
                wake = wake.min(dial.wakes_at());
                dial.awaited()
            })
            .collect();
        if fds.is_empty() {
            break;
        }
        match poll(&mut fds, Some(&timespec(wake.since(clock::now())))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(InitiatorError::NoSocket(errno.into())),
        }
    }
    Ok(dials)
}
