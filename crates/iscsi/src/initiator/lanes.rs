//! Costs of commands on each of several connections of a session.

use std::collections::VecDeque;
use std::time::Duration;

use wansan_multipath::{Lane, Sent};
use wansan_trace::{Instant, TaskTag};

use super::task::{Task, Transfer};
use crate::wire::BHS_BYTES;

/// Reads and writes of one connection.
///
/// A read completes with its status. A write's data have been transferred once the target's TCP has acknowledged them:
/// its status also waits for earlier commands on other connections (RFC 7143 §4.2.2.1), so judged by statuses all
/// connections would seem as fast as commands are given to them.
#[derive(Debug)]
pub(super) struct Lanes {
    reads: Lane,
    writes: Lane,
    /// Writes whose data are queued for the socket, and not acknowledged yet: the end of each in the connection's
    /// stream.
    queued: VecDeque<(u64, TaskTag, Sent)>,
}

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes {
            reads: Lane::default(),
            writes: Lane::without_headroom(),
            queued: VecDeque::new(),
        }
    }
}

impl Lanes {
    /// The cost of a command with such data, in ns. A write also delays those that follow it on a full connection;
    /// reads wait for the command order, which is not included.
    pub(super) fn costs_ns(&self, transfer: &Transfer, now: Instant) -> f64 {
        let bytes = line_bytes(transfer);
        match transfer {
            Transfer::Write(_) => self.writes.costs_ns(bytes, now),
            Transfer::Read(_) | Transfer::None => self.reads.expects_ns(bytes, now),
        }
    }

    /// The connection's rate for commands with such data, in bytes per ns, if it is full.
    pub(super) fn full_rate(&self, transfer: &Transfer) -> Option<f64> {
        let lane = match transfer {
            Transfer::Write(_) => &self.writes,
            Transfer::Read(_) | Transfer::None => &self.reads,
        };
        lane.full_rate()
    }

    /// A command is sent on the connection. The duration of one without data says nothing of data.
    pub(super) fn send(&mut self, task: &mut Task, now: Instant) {
        let bytes = line_bytes(&task.transfer);
        let lane = match task.transfer {
            Transfer::None => return,
            Transfer::Read(_) => &mut self.reads,
            Transfer::Write(_) => &mut self.writes,
        };
        task.sent = Some(lane.send(bytes, now));
    }

    /// The end of a write's data in the connection's stream.
    pub(super) fn queue(&mut self, task: &mut Task, end: u64) {
        if let Some(sent) = task.sent.take() {
            self.queued.push_back((end, task.tag, sent));
        }
    }

    /// The target's TCP has acknowledged everything before `end` in the connection's stream.
    pub(super) fn acknowledged(&mut self, end: u64, now: Instant) {
        while let Some(&(its_end, _, sent)) = self.queued.front() {
            if its_end > end {
                break;
            }
            self.queued.pop_front();
            self.writes.complete(sent, now);
        }
    }

    /// A command completed. Its data were transferred only if it `is_good`.
    pub(super) fn done(&mut self, task: &mut Task, is_good: bool, now: Instant) {
        // A response proves that the command arrived, and all that was sent before it.
        let is_it = |queued: &(u64, TaskTag, Sent)| queued.1 == task.tag;
        if let Some(&(end, ..)) = self.queued.iter().find(|queued| is_it(queued)) {
            self.acknowledged(end, now);
        }
        if let Some(sent) = task.sent.take() {
            let lane = self.lane(task);
            match is_good {
                true => lane.complete(sent, now),
                false => lane.forget(sent),
            }
        }
    }

    /// A command is no longer outstanding on the connection.
    pub(super) fn leave(&mut self, task: &mut Task) {
        if let Some(sent) = task.sent.take() {
            self.lane(task).forget(sent);
        }
    }

    /// Takes the latency of a ping. For reads, which wait for the command order at the target, too.
    pub(super) fn pinged(&mut self, took: Duration, now: Instant) {
        self.reads.pinged(took, now);
    }

    /// The connection is gone.
    pub(super) fn forget_stream(&mut self) {
        for (_, _, sent) in self.queued.drain(..) {
            self.writes.forget(sent);
        }
    }

    fn lane(&mut self, task: &Task) -> &mut Lane {
        match task.transfer {
            Transfer::Write(_) => &mut self.writes,
            Transfer::Read(_) | Transfer::None => &mut self.reads,
        }
    }
}

/// Bytes that a command's data occupy on the wire.
fn line_bytes(transfer: &Transfer) -> u64 {
    u64::from(transfer.len_bytes()) + BHS_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::initiator::task::Command;
    use crate::wire::{Lun, TaskAttribute};

    const BLOCK_BYTES: usize = 64 << 10;

    fn at(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    fn write(tag: u32) -> Task {
        let command = Command {
            lun: Lun::default(),
            cdb: [0; 16],
            attribute: TaskAttribute::Simple,
            transfer: Transfer::Write(vec![0; BLOCK_BYTES]),
            user: 0,
        };
        Task::new(TaskTag(tag), command)
    }

    /// Four concurrent writes, each acknowledged after 10 ms and answered after 100 ms.
    fn lanes_that_wait_for_order() -> Lanes {
        let mut lanes = Lanes::default();
        for round in 0..10 {
            let sent = at(100 * u64::from(round));
            let mut tasks = [0, 1, 2, 3].map(|place| write(4 * round + place));
            let ends = (1..).map(|count| u64::from(4 * round) + count);
            for (task, end) in tasks.iter_mut().zip(ends) {
                lanes.send(task, sent);
                lanes.queue(task, end * BLOCK_BYTES as u64);
            }
            let all = u64::from(4 * round + 4) * BLOCK_BYTES as u64;
            lanes.acknowledged(all, sent + Duration::from_millis(10));
            for task in &mut tasks {
                lanes.done(task, true, sent + Duration::from_millis(100));
            }
        }
        lanes
    }

    fn cost(lanes: &Lanes, now: Instant) -> Duration {
        let transfer = Transfer::Write(vec![0; BLOCK_BYTES]);
        Duration::from_nanos(lanes.costs_ns(&transfer, now) as u64)
    }

    #[test]
    fn writes_have_come_once_they_are_acknowledged_whenever_they_are_answered() {
        let mut lanes = lanes_that_wait_for_order();
        lanes.send(&mut write(100), at(1000));
        assert_eq!(cost(&lanes, at(1000)), Duration::from_millis(10));
    }

    #[test]
    fn an_answer_acknowledges_what_was_sent_before() {
        let mut lanes = lanes_that_wait_for_order();
        let mut tasks = [100, 101, 102].map(write);
        for (task, end) in tasks.iter_mut().zip(1000..) {
            lanes.send(task, at(1000));
            lanes.queue(task, end * BLOCK_BYTES as u64);
        }
        lanes.done(&mut tasks[1], true, at(1010));
        assert_eq!(lanes.writes.open(), 1);
        lanes.done(&mut tasks[0], true, at(1011));
        assert_eq!(lanes.writes.open(), 1, "it was acknowledged before");
        // Commands of a lost connection are outstanding on none.
        lanes.forget_stream();
        assert_eq!((lanes.writes.open(), lanes.queued.len()), (0, 0));
    }

    #[test]
    fn a_write_that_leaves_before_all_its_data_are_queued_is_not_under_way() {
        let mut lanes = Lanes::default();
        let mut task = write(1);
        lanes.send(&mut task, at(0));
        lanes.leave(&mut task);
        assert_eq!(lanes.writes.open(), 0);
    }
}
