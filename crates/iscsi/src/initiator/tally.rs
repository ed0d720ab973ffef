//! Counters of each connection of a session.

use std::time::Duration;

use wansan_multipath::{InOrder, Route};
use wansan_trace::{ConnectionId, Instant};

use super::lanes::Lanes;
use super::schedule::Schedule;
use super::task::{Task, Transfer};

/// A snapshot of a connection's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// SCSI commands completed.
    pub commands: u64,
    /// Their expected data transfer lengths, in bytes.
    pub bytes: u64,
    /// Outstanding commands, integrated over time, in ns.
    pub in_flight_ns: u128,
    /// Outstanding commands not yet accepted completely by the socket, integrated over time, in ns.
    pub waiting_ns: u128,
    /// When the counters were read.
    pub at: Instant,
}

impl Tally {
    /// Mean number of outstanding commands since an `earlier` tally of the same connection.
    #[must_use]
    pub fn mean_in_flight_since(&self, earlier: &Tally) -> f64 {
        self.mean(self.in_flight_ns - earlier.in_flight_ns, earlier)
    }

    /// Mean number of commands that waited for the socket, since an `earlier` tally of the same connection.
    #[must_use]
    pub fn mean_waiting_since(&self, earlier: &Tally) -> f64 {
        self.mean(self.waiting_ns - earlier.waiting_ns, earlier)
    }

    /// The sum of this session's counters and an earlier one's.
    #[must_use]
    pub fn continuing(&self, before: &Tally) -> Tally {
        Tally {
            commands: before.commands + self.commands,
            bytes: before.bytes + self.bytes,
            in_flight_ns: before.in_flight_ns + self.in_flight_ns,
            waiting_ns: before.waiting_ns + self.waiting_ns,
            at: self.at,
        }
    }

    fn mean(&self, integral_ns: u128, earlier: &Tally) -> f64 {
        match self.at.since(earlier.at).as_nanos() {
            0 => 0.0,
            passed_ns => integral_ns as f64 / passed_ns as f64,
        }
    }
}

/// A number of items, integrated over time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Population {
    count: u64,
    integral_ns: u128,
    counted_to: Instant,
}

impl Population {
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Whether the number has been zero since `at`.
    fn is_none_since(&self, at: Instant) -> bool {
        self.count == 0 && self.counted_to <= at
    }

    /// The integral up to `now`.
    pub(super) fn integral_ns(&self, now: Instant) -> u128 {
        let passed_ns = now.since(self.counted_to).as_nanos();
        self.integral_ns + passed_ns * u128::from(self.count)
    }

    pub(super) fn enter(&mut self, now: Instant) {
        self.count_to(now);
        self.count += 1;
    }

    pub(super) fn leave(&mut self, now: Instant) {
        self.count_to(now);
        self.count -= 1;
    }

    fn count_to(&mut self, now: Instant) {
        if now > self.counted_to {
            self.integral_ns = self.integral_ns(now);
            self.counted_to = now;
        }
    }
}

/// The completed and outstanding commands of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Carried {
    pub(super) commands: u64,
    pub(super) bytes: u64,
    pub(super) in_flight: Population,
    pub(super) in_flight_bytes: u64,
    /// Commands that waited for the sockets of earlier connections of this CID, integrated over time.
    pub(super) waited_ns: u128,
}

impl Carried {
    /// A command of `bytes` was sent on the connection.
    fn began(&mut self, bytes: u32, now: Instant) {
        self.in_flight.enter(now);
        self.in_flight_bytes += u64::from(bytes);
    }

    /// A command of `bytes` is no longer outstanding on the connection.
    fn left(&mut self, bytes: u32, now: Instant) {
        self.in_flight.leave(now);
        self.in_flight_bytes -= u64::from(bytes);
    }
}

/// The outstanding and completed commands of each connection of a session. A command is outstanding on one connection
/// from its CmdSN to its response.
#[derive(Debug, Default)]
pub(super) struct Carriage {
    /// By CID.
    by_cid: Vec<Carried>,
    /// Costs of commands on each of them; learned where there are several and the schedule needs them.
    lanes: Vec<Lanes>,
    is_learned: bool,
    in_order: InOrder,
    /// Data of outstanding reads, received or not, in bytes.
    awaited_bytes: u64,
}

impl Carriage {
    /// Makes room for a connection's counters.
    pub(super) fn admit(&mut self, id: ConnectionId) {
        let places = self.by_cid.len().max(usize::from(id.0) + 1);
        self.by_cid.resize(places, Carried::default());
        if places > 1 && self.is_learned {
            self.lanes.resize_with(places, Lanes::default);
        }
    }

    /// Sets what to learn about connections admitted from now on, as `schedule` needs it.
    pub(super) fn learn_for(&mut self, schedule: Schedule) {
        self.is_learned = schedule == Schedule::Earliest;
    }

    /// Whether costs of commands are learned for each connection.
    pub(super) fn is_learning(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// The counters of all connections that had that CID.
    ///
    /// # Panics
    /// If there was never one.
    pub(super) fn of(&self, id: ConnectionId) -> &Carried {
        &self.by_cid[usize::from(id.0)]
    }

    pub(super) fn awaited_bytes(&self) -> u64 {
        self.awaited_bytes
    }

    /// The cost of a command with such data on a connection, in ns.
    pub(super) fn costs_ns(&self, id: ConnectionId, transfer: &Transfer, now: Instant) -> f64 {
        let lanes = self.lanes.get(usize::from(id.0));
        lanes.map_or(0.0, |lanes| lanes.costs_ns(transfer, now))
    }

    /// Determines the connections worth using for the next command, of `waiting` queued ones. `unanswered` returns how
    /// long a ping of a usable connection has been outstanding, and `None` for other connections.
    pub(super) fn choose(
        &mut self,
        transfer: &Transfer,
        waiting: usize,
        unanswered: impl Fn(ConnectionId) -> Option<Duration>,
        now: Instant,
    ) {
        let request_bytes = u64::from(transfer.len_bytes());
        let mut bytes = waiting as u64 * request_bytes;
        for (cid, lanes) in (0..).zip(&self.lanes) {
            let carried = &self.by_cid[usize::from(cid)];
            bytes += carried.in_flight_bytes;
            let route = unanswered(ConnectionId(cid)).map(|unanswered| Route {
                unanswered_ns: unanswered.as_nanos() as f64,
                full_bytes_per_ns: lanes.full_rate(transfer),
                under_way: carried.in_flight.count(),
                under_way_bytes: carried.in_flight_bytes,
            });
            self.in_order.set(usize::from(cid), route);
        }
        self.in_order.choose(request_bytes, bytes, now);
    }

    /// Whether a connection is worth using, by the last choice.
    pub(super) fn is_worth_taking(&self, id: ConnectionId) -> bool {
        self.lanes.is_empty() || self.in_order.takes(usize::from(id.0))
    }

    /// Whether a command with such data may be sent on a connection now.
    pub(super) fn has_room(&self, id: ConnectionId, transfer: &Transfer) -> bool {
        let bytes = transfer.len_bytes().into();
        self.lanes.is_empty() || self.in_order.has_room(usize::from(id.0), bytes)
    }

    /// A command is sent on a connection.
    pub(super) fn began(&mut self, id: ConnectionId, task: &mut Task, now: Instant) {
        self.took_over(id, task, now);
        if let Some(lanes) = self.lanes(id) {
            lanes.send(task, now);
        }
    }

    /// The end of a write's data in the connection's stream.
    pub(super) fn queued(&mut self, id: ConnectionId, task: &mut Task, end: u64) {
        if let Some(lanes) = self.lanes(id) {
            lanes.queue(task, end);
        }
    }

    /// The target's TCP has acknowledged everything before `end` in the connection's stream.
    pub(super) fn acknowledged(&mut self, id: ConnectionId, end: u64, now: Instant) {
        if let Some(lanes) = self.lanes(id) {
            lanes.acknowledged(end, now);
        }
    }

    /// A command of a lost connection moves to another, which does not transfer all of it: it is no sample of that
    /// connection.
    pub(super) fn took_over(&mut self, id: ConnectionId, task: &Task, now: Instant) {
        self.awaited_bytes += task.transfer.awaited_bytes();
        self.by_cid[usize::from(id.0)].began(task.transfer.len_bytes(), now);
    }

    /// A command is no longer outstanding on that connection.
    pub(super) fn left(&mut self, id: ConnectionId, task: &mut Task, now: Instant) {
        self.ended(id, task, now);
        if let Some(lanes) = self.lanes(id) {
            lanes.leave(task);
        }
    }

    /// An outstanding command of that connection completed. Its data were transferred only if it `is_good`.
    pub(super) fn done(&mut self, id: ConnectionId, task: &mut Task, is_good: bool, now: Instant) {
        self.ended(id, task, now);
        if let Some(lanes) = self.lanes(id) {
            lanes.done(task, is_good, now);
            let bytes = if is_good {
                task.transfer.len_bytes()
            } else {
                0
            };
            self.in_order.done(usize::from(id.0), bytes.into(), now);
        }
        let carried = &mut self.by_cid[usize::from(id.0)];
        carried.commands += 1;
        carried.bytes += u64::from(task.transfer.len_bytes());
    }

    /// Takes the latency of a ping on that connection.
    pub(super) fn pinged(&mut self, id: ConnectionId, took: Duration, now: Instant) {
        let is_idle = self.of(id).in_flight.is_none_since(now - took);
        if let Some(lanes) = self.lanes(id) {
            lanes.pinged(took, now);
            let place = usize::from(id.0);
            self.in_order.pinged(place, took, is_idle, now);
        }
    }

    fn ended(&mut self, id: ConnectionId, task: &Task, now: Instant) {
        self.awaited_bytes -= task.transfer.awaited_bytes();
        self.by_cid[usize::from(id.0)].left(task.transfer.len_bytes(), now);
    }

    fn lanes(&mut self, id: ConnectionId) -> Option<&mut Lanes> {
        self.lanes.get_mut(usize::from(id.0))
    }

    /// The connection is gone; adds its time of commands that waited for the socket.
    pub(super) fn gone(&mut self, id: ConnectionId, waited_ns: u128) {
        self.by_cid[usize::from(id.0)].waited_ns += waited_ns;
        if let Some(lanes) = self.lanes(id) {
            lanes.forget_stream();
            self.in_order.lost(usize::from(id.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn populations_are_means_over_time() {
        let at = Instant::from_ns;
        let mut carried = Carried::default();
        let tally = |carried: &Carried, now| Tally {
            commands: carried.commands,
            bytes: carried.bytes,
            in_flight_ns: carried.in_flight.integral_ns(now),
            waiting_ns: 0,
            at: now,
        };
        let earlier = tally(&carried, at(100));
        carried.began(512, at(100));
        carried.left(512, at(200));
        let later = tally(&carried, at(300));
        assert_eq!(later.mean_in_flight_since(&earlier), 0.5);
        assert_eq!(later.mean_waiting_since(&earlier), 0.0);
        assert_eq!(later.mean_in_flight_since(&later), 0.0);
        assert_eq!(carried.in_flight_bytes, 0);
    }
}
