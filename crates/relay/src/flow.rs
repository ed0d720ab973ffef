//! A flow: a client's connection, one to the target, and the data between them.
//!
//! Each event of one side is passed on to the other in order: a FIN after the last byte before it, and a reset too. A
//! lost connection (reset by its peer, or timed out in the kernel) is passed on as a reset as soon as the other side
//! has acknowledged the data before it, or after [`RESET_PATIENCE`].

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use wansan_server::poller::Ready;
use wansan_split::{CLIENT, End, Governor, Signals, TARGET, Turn};
use wansan_tcp::ece::EceSignal;
use wansan_tcp::queues;
use wansan_trace::Instant;

use crate::direction::Direction;
use crate::ends::{Ends, OwnEnd};
use crate::error::ConnectError;
use crate::kernel::Kernel;
use crate::pool::Pool;
use crate::recent::Recent;
use crate::route::Route;
use crate::seat::Seat;
use crate::side::Side;
use crate::socket;

/// How long the remaining side may take to acknowledge data sent before the other side was lost.
const RESET_PATIENCE: Duration = Duration::from_secs(10);

/// How long a transparent flow that has ended waits for its last acknowledgements. After that they have as long as the
/// rules stay installed.
const LAST_BYTES_PATIENCE: Duration = Duration::from_secs(60);

/// A flow.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Unique in a relay.
    pub(crate) number: u64,
    pub(crate) route: Arc<Route>,
    pub(crate) client: SocketAddr,
    pub(crate) target: SocketAddr,
    pub(crate) sides: [Side; 2],
    /// From the client to the target, and back.
    pub(crate) directions: [Direction; 2],
    /// Bounds their backlogs, if a bound is set.
    pub(crate) governor: Option<Governor>,
    pub(crate) began: Instant,
    pub(crate) recent: Recent,
    /// When to check the flow without an event: by then the connection must be established, or the reset sent.
    deadline: Option<Instant>,
    is_connecting: bool,
    /// The client closed before the connection to the target was established.
    is_abandoned: bool,
    /// Index of the target's address being tried.
    place: usize,
    /// Its connections have been recorded.
    pub(crate) is_recorded: bool,
    /// It is queued for another turn in its thread.
    pub(crate) is_queued: bool,
    ends: Arc<Ends>,
    /// Marks the connection to the target as the relay's own.
    own_end: Option<OwnEnd>,
    _seat: Seat,
}

/// The next step of a flow.
#[derive(Debug)]
pub(crate) enum Step {
    /// Wait until a socket is ready.
    Waits,
    /// Another turn.
    Again,
    /// Connecting to another address: register the new socket with the poller.
    Reconnects,
    /// The flow has ended.
    Over(Ending),
}

/// How a flow ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// Both sides sent and received everything.
    Finished,
    /// One side was lost; the other is reset.
    Lost,
    /// The target could not be reached; the client is reset.
    NotConnected(ConnectError),
}

/// A connection attempt to a target.
struct Attempt {
    socket: OwnedFd,
    to: SocketAddr,
    place: usize,
    own_end: Option<OwnEnd>,
}

impl Flow {
    /// Starts to connect a client to its route's target.
    pub(crate) fn begin(
        number: u64,
        socket: OwnedFd,
        client: SocketAddr,
        route: Arc<Route>,
        seat: Seat,
        ends: &Arc<Ends>,
        now: Instant,
    ) -> Result<Flow, ConnectError> {
        let attempt = attempt(&route, &socket, client, ends, 0)?;
        let buffers = route.config.flow.receive_buffers();
        let bound = route.bound.as_ref();
        let governor = bound.map(|bound| Governor::new(&bound.law, buffers, number));
        let flow = Flow {
            number,
            client,
            target: attempt.to,
            sides: [Side::new(socket), Side::new(attempt.socket)],
            directions: Default::default(),
            governor,
            began: now,
            recent: Recent::default(),
            deadline: Some(now + route.config.connect_timeout.0),
            is_connecting: true,
            is_abandoned: false,
            place: attempt.place,
            is_recorded: false,
            is_queued: false,
            ends: Arc::clone(ends),
            own_end: attempt.own_end,
            route,
            _seat: seat,
        };
        flow.connected(CLIENT);
        Ok(flow)
    }

    /// Its ECE signal, under a law that signals.
    fn signal(&self) -> Option<&EceSignal> {
        self.route.bound.as_ref()?.signal.as_deref()
    }

    /// The connection of that side is established: attach the ECE signal if it is the signalled side.
    fn connected(&self, side: usize) {
        let asked = self.governor.as_ref().and_then(Governor::asked_side);
        if let (Some(signal), true) = (self.signal(), asked == Some(side)) {
            // If this fails, the connection is gone or has no ECN, which is reported.
            let _ = signal.attach(&self.sides[side]);
        }
    }

    /// The outcome of signals so far; `None` under a law that does not signal.
    pub(crate) fn ece_signals(&self) -> Option<Signals> {
        let asked = self.governor.as_ref().and_then(Governor::asked_side)?;
        Some(self.signal()?.signals(&self.sides[asked]))
    }

    /// Whether it has a deadline.
    pub(crate) fn is_timed(&self) -> bool {
        self.deadline.is_some()
    }

    /// Takes the poller's events of a side.
    pub(crate) fn note(&mut self, side: usize, ready: Ready) {
        self.is_abandoned |= self.is_connecting && side == CLIENT && ready.gone;
        self.sides[side].note(ready);
    }

    /// Does whatever is possible now.
    pub(crate) fn advance(&mut self, pool: &mut Pool, now: Instant) -> Step {
        if self.is_connecting
            && let Some(step) = self.connect(now)
        {
            return step;
        }
        let limits = [CLIENT, TARGET].map(|from| self.limit_bytes(from));
        let [client, target] = &mut self.sides;
        let [onward, back] = &mut self.directions;
        let mut again = carry(onward, client, target, pool, limits[CLIENT]);
        again |= carry(back, target, client, pool, limits[TARGET]);
        if let Some(governor) = &mut self.governor {
            let bound = self.route.bound.as_ref();
            let mut kernel = Kernel {
                sides: &self.sides,
                signal: bound.and_then(|bound| bound.signal.as_deref()),
            };
            let ways = self.directions.each_ref().map(|way| &way.state);
            governor.govern(&mut kernel, ways, now);
        }
        let [client, target] = &mut self.sides;
        let [onward, back] = &mut self.directions;
        let (left, towards_left) = match (client.lost, target.lost) {
            (None, None) if onward.state.is_over() && back.state.is_over() => {
                return self.finish(now);
            }
            (None, None) if again => return Step::Again,
            (None, None) => return Step::Waits,
            (Some(_), Some(_)) => {
                onward.cancel(pool);
                back.cancel(pool);
                return Step::Over(Ending::Lost);
            }
            (Some(_), None) => {
                back.cancel(pool);
                (target, onward)
            }
            (None, Some(_)) => {
                onward.cancel(pool);
                (client, back)
            }
        };
        let deadline = *self.deadline.get_or_insert(now + RESET_PATIENCE);
        if now >= deadline || (towards_left.state.is_over() && left.is_acknowledged()) {
            towards_left.cancel(pool);
            return Step::Over(Ending::Lost);
        }
        if again { Step::Again } else { Step::Waits }
    }

    /// Ends the flow after both directions have ended. The kernel sends remaining data by itself, but a transparent
    /// connection receives acknowledgements only while the rules are installed, and the last flow removes them. The
    /// poller reports when a FIN was acknowledged.
    fn finish(&mut self, now: Instant) -> Step {
        if !self.route.config.transparent {
            return Step::Over(Ending::Finished);
        }
        if self.deadline.is_none() {
            // From here on it closes in order, whatever happens to the relay.
            self.sides.iter().for_each(Side::let_go);
        }
        let deadline = *self.deadline.get_or_insert(now + LAST_BYTES_PATIENCE);
        if self.sides.iter().any(|side| side.take_error().is_err()) {
            return Step::Over(Ending::Lost);
        }
        if now >= deadline || self.sides.iter().all(Side::has_sent_all) {
            return Step::Over(Ending::Finished);
        }
        Step::Waits
    }

    /// The most that the direction from that side may hold.
    fn limit_bytes(&self, from: usize) -> usize {
        let limit = self.route.config.flow.buffer.bytes();
        let governor = self.governor.as_ref();
        governor.map_or(limit, |governor| governor.limit_bytes(from, limit))
    }

    /// Checks whether the target is connected; `None` when it is.
    fn connect(&mut self, now: Instant) -> Option<Step> {
        if self.is_abandoned {
            return Some(Step::Over(Ending::Lost));
        }
        let target = &self.sides[TARGET];
        let failure = if target.writable || target.ending {
            if target.is_connected() {
                self.connected(TARGET);
                self.is_connecting = false;
                self.deadline = None;
                return None;
            }
            match target.take_error() {
                // An event of the previous attempt may arrive after this one began.
                Ok(()) => return Some(Step::Waits),
                Err(errno) => ConnectError::from(errno),
            }
        } else if self.deadline.is_some_and(|deadline| now >= deadline) {
            ConnectError::TimedOut(self.route.config.connect_timeout.0)
        } else {
            return Some(Step::Waits);
        };
        let client = &self.sides[CLIENT];
        match attempt(&self.route, client, self.client, &self.ends, self.place + 1) {
            Ok(attempt) => {
                self.target = attempt.to;
                self.place = attempt.place;
                // Closing the old socket removes it from the poller.
                self.sides[TARGET] = Side::new(attempt.socket);
                self.own_end = attempt.own_end;
                self.deadline = Some(now + self.route.config.connect_timeout.0);
                Some(Step::Reconnects)
            }
            // The first error says more than that no address is left.
            Err(ConnectError::NoAddress) => Some(Step::Over(Ending::NotConnected(failure))),
            Err(other) => Some(Step::Over(Ending::NotConnected(other))),
        }
    }

    /// Closes both connections: with FIN after a finished flow, else with a reset.
    pub(crate) fn close(mut self, ending: &Ending, pool: &mut Pool) {
        for direction in &mut self.directions {
            direction.cancel(pool);
        }
        // Before another connection can have the same endpoints.
        self.own_end = None;
        if matches!(ending, Ending::Finished) {
            self.sides.iter().for_each(Side::let_go);
        }
    }
}

/// Forwards one way; returns whether there is more to do.
fn carry(
    direction: &mut Direction,
    from: &mut Side,
    to: &mut Side,
    pool: &mut Pool,
    limit: usize,
) -> bool {
    if direction.state.is_over() {
        return false;
    }
    match direction.pump(from, to, pool, limit) {
        Turn::Waits => false,
        Turn::Again => true,
        Turn::Ended(end) => {
            // After a failed write, reads return end of file as if the peer had sent a FIN.
            if end == End::Fin && from.lost.is_none() {
                to.finish();
            }
            direction.state.finish();
            false
        }
    }
}

/// Starts to connect to the first address from `place` on that does not fail at once.
fn attempt(
    route: &Route,
    client_socket: impl AsFd,
    client: SocketAddr,
    ends: &Arc<Ends>,
    place: usize,
) -> Result<Attempt, ConnectError> {
    let mut failure = ConnectError::NoAddress;
    for place in place.. {
        let Some(to) = route.address(&client_socket, place) else {
            break;
        };
        let source = route.source(client);
        // Data that arrive only after `connect` cost an ACK of their own.
        let has_data = queues::received_bytes(&client_socket).is_ok_and(|bytes| bytes > 0);
        match socket::connecting(&route.config, to, source, has_data) {
            Ok(socket) => {
                // A transparent connection has the client's address, and goes to the client's original destination.
                let own_end = match source {
                    Some(_) => None,
                    None => ends.remember(&socket, to),
                };
                return Ok(Attempt {
                    socket,
                    to,
                    place,
                    own_end,
                });
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

impl From<Errno> for ConnectError {
    fn from(errno: Errno) -> ConnectError {
        match errno {
            Errno::CONNREFUSED => ConnectError::Refused,
            Errno::TIMEDOUT => ConnectError::Unanswered,
            Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::ACCESS | Errno::PERM => {
                ConnectError::Unreachable(errno)
            }
            errno => ConnectError::Machine(errno),
        }
    }
}

impl From<std::io::Error> for ConnectError {
    fn from(error: std::io::Error) -> ConnectError {
        Errno::from_io_error(&error).map_or(ConnectError::Machine(Errno::IO), ConnectError::from)
    }
}
