//! What commands cost on one of several connections of a session.

use std::collections::VecDeque;
use std::time::Duration;

use wansan_multipath::{Lane, Sent};
use wansan_trace::{Instant, TaskTag};

use super::task::{Task, Transfer};
use crate::wire::BHS_BYTES;

/// Reads and writes of one connection.
///
/// A read is done with its status. A write's data have taken their way once the target's TCP has acknowledged them: its
/// status also waits for commands before it that other connections bring (RFC 7143 §4.2.2.1), so by statuses all
/// connections would seem to be as fast as commands are given to them.
#[derive(Debug)]
pub(super) struct Lanes {
    reads: Lane,
    writes: Lane,
    /// Writes whose data are queued for the socket, and not acknowledged yet: where each ends in the connection's stream.
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
    /// What a command with such data costs, in ns. A write also delays those that follow it on a full connection; reads
    /// wait for the order of commands, which that does not count.
    pub(super) fn costs_ns(&self, transfer: &Transfer, now: Instant) -> f64 {
        let bytes = line_bytes(transfer);
        match transfer {
            Transfer::Write(_) => self.writes.costs_ns(bytes, now),
            Transfer::Read(_) | Transfer::None => self.reads.expects_ns(bytes, now),
        }
    }

    /// What the connection carries of commands with such data, in bytes per ns, if it is full.
    pub(super) fn full_rate(&self, transfer: &Transfer) -> Option<f64> {
        let lane = match transfer {
            Transfer::Write(_) => &self.writes,
            Transfer::Read(_) | Transfer::None => &self.reads,
        };
        lane.full_rate()
    }

    /// A command is given to the connection. How long one without data takes says nothing of data.
    pub(super) fn send(&mut self, task: &mut Task, now: Instant) {
        let bytes = line_bytes(&task.transfer);
        let lane = match task.transfer {
            Transfer::None => return,
            Transfer::Read(_) => &mut self.reads,
            Transfer::Write(_) => &mut self.writes,
        };
        task.sent = Some(lane.send(bytes, now));
    }

    /// The last of a write's data ends there in the connection's stream.
    pub(super) fn queue(&mut self, task: &mut Task, end: u64) {
        if let Some(sent) = task.sent.take() {
            self.queued.push_back((end, task.tag, sent));
        }
    }

    /// The target's TCP has all that comes before `end` in the connection's stream.
    pub(super) fn acknowledged(&mut self, end: u64, now: Instant) {
        while let Some(&(its_end, _, sent)) = self.queued.front() {
            if its_end > end {
                break;
            }
            self.queued.pop_front();
            self.writes.complete(sent, now);
        }
    }

    /// A command is done. Only if it `is_good` have its data been carried.
    pub(super) fn done(&mut self, task: &mut Task, is_good: bool, now: Instant) {
        // What was answered has come, and all that was sent before.
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

    /// A command is under way on the connection no more.
    pub(super) fn leave(&mut self, task: &mut Task) {
        if let Some(sent) = task.sent.take() {
            self.lane(task).forget(sent);
        }
    }

    /// A ping took so long. For reads, which wait for the order of commands at the target, too.
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

/// What a command brings onto the line with its data, in bytes.
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

    /// Four writes at a time, each acknowledged 10 ms and answered 100 ms after it was sent.
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
        // What was under way on a connection that is lost is on none.
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
