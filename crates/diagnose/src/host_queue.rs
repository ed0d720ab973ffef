//! What I/Os of a session's disks wait for in the initiator's block and SCSI layers, from tracepoints of each I/O.
//!
//! An I/O first waits for a request, then in the disk's queue, and is at the device once the SCSI layer has passed its
//! command to an initiator that accepted it. At each moment, waiting I/Os are charged to the limit that is reached: the
//! last of several, as it causes those before it to be reached, or the queue itself if none is.

use std::collections::BTreeMap;

use crate::tracepoints::BlockIo;

/// What an I/O waits for in the host's queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueWait {
    /// A request: all of the disk's are in use (`nr_requests`).
    Requests,
    /// The I/O scheduler, which holds it although no limit is reached.
    Scheduler,
    /// The disk's queue depth (`queue_depth`).
    QueueDepth,
    /// A command slot of the session (`cmds_max`).
    SessionCommands,
    /// The target's command window.
    CommandWindow,
}

/// Number of kinds.
const KINDS: usize = QueueWait::CommandWindow as usize + 1;

impl QueueWait {
    /// All kinds.
    pub const ALL: [QueueWait; KINDS] = [
        QueueWait::Requests,
        QueueWait::Scheduler,
        QueueWait::QueueDepth,
        QueueWait::SessionCommands,
        QueueWait::CommandWindow,
    ];
}

/// Limits on a disk's I/Os.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskBounds {
    /// Most outstanding commands.
    pub queue_depth: Option<u64>,
    /// Requests in its queue.
    pub nr_requests: Option<u64>,
}

/// Limits on a session's commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionBounds {
    /// Command slots.
    pub can_queue: Option<u64>,
    /// The target's command window.
    pub command_window: Option<u64>,
}

/// A disk's I/Os in the host's queues.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DiskQueue {
    /// Completed I/Os.
    pub ios: u64,
    /// Mean latency from arrival at the disk, in ns.
    pub latency_ns: f64,
    /// Mean waits within it, by [`QueueWait`].
    pub waits_ns: [f64; KINDS],
    /// Commands at the device, time average.
    pub outstanding: f64,
    /// Share of time at the queue depth limit.
    pub depth_full_share: f64,
    /// Share of time with all requests in use.
    pub requests_full_share: f64,
    /// Share of time in which an I/O waited for a request, by causing [`QueueWait`]. The submitting program is blocked
    /// meanwhile.
    pub blocked_shares: [f64; KINDS],
}

/// The I/Os of all disks of a session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionQueue {
    /// Each disk, by device number.
    pub disks: BTreeMap<u32, DiskQueue>,
    /// Share of time with all command slots of the session in use.
    pub slots_full_share: f64,
}

impl SessionQueue {
    /// Completed I/Os.
    #[must_use]
    pub fn ios(&self) -> u64 {
        self.disks.values().map(|disk| disk.ios).sum()
    }

    /// Mean wait over all of the session's I/Os, in ns.
    #[must_use]
    pub fn wait_ns(&self, wait: QueueWait) -> f64 {
        let disks = self.disks.keys();
        disks.map(|disk| self.wait_of_disk_ns(*disk, wait)).sum()
    }

    /// Largest share of time, over the disks, in which programs were blocked for this reason.
    #[must_use]
    pub fn blocked_share(&self, wait: QueueWait) -> f64 {
        let shares = self
            .disks
            .values()
            .map(|disk| disk.blocked_shares[wait as usize]);
        shares.fold(0.0, f64::max)
    }

    /// One disk's contribution to that mean, in ns.
    #[must_use]
    pub fn wait_of_disk_ns(&self, disk: u32, wait: QueueWait) -> f64 {
        let disk = self.disks.get(&disk);
        let all_ns = disk.map_or(0.0, |of| of.ios as f64 * of.waits_ns[wait as usize]);
        all_ns / self.ios().max(1) as f64
    }
}

/// When the SCSI layer passed an I/O's command to the initiator that accepted it.
#[must_use]
pub fn given_ns(io: &BlockIo) -> u64 {
    match io.dispatched_ns {
        // Earlier dispatches were rejected.
        Some(dispatched_ns) if io.dispatches > 1 => dispatched_ns,
        _ => io.issued_ns,
    }
}

/// A limit counts as reached at this many commands below it: completions free slots before new commands take them.
const NEARLY: u64 = 1;

fn is_full(count: u64, bound: Option<u64>) -> bool {
    bound.is_some_and(|bound| count >= bound.saturating_sub(NEARLY).max(1))
}

/// Processes waiting for a request are woken when an eighth of them is free, so that several arrive at once
/// (`sbq_calc_wake_batch`).
fn holds_all(count: u64, nr_requests: Option<u64>) -> bool {
    nr_requests.is_some_and(|all| count >= all - (all / 8).max(NEARLY).min(all))
}

/// A step in an I/O's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Completed,
    Given,
    Allocated,
    Came,
}

/// The number of a disk's I/Os in each state, and its integral over time, in ns.
#[derive(Debug, Default)]
struct Counting {
    bounds: DiskBounds,
    for_request: u64,
    queued: u64,
    given: u64,
    completed: u64,
    waits_ns: [u128; KINDS],
    inside_ns: u128,
    given_ns: u128,
    depth_full_ns: u128,
    requests_full_ns: u128,
    blocked_ns: [u128; KINDS],
}

impl Counting {
    fn pass(&mut self, ns: u64, session: Option<QueueWait>) {
        let ns = u128::from(ns);
        let (held, is_deep) = (
            self.queued + self.given,
            is_full(self.given, self.bounds.queue_depth),
        );
        let holds_all = holds_all(held, self.bounds.nr_requests);
        // A request is freed when an I/O at the device or in the queue completes: so charge what that one waits for.
        let queue = session.or(is_deep.then_some(QueueWait::QueueDepth));
        let request = queue.unwrap_or(match holds_all {
            true => QueueWait::Requests,
            false => QueueWait::Scheduler,
        });
        let queue = queue.unwrap_or(QueueWait::Scheduler);
        self.waits_ns[queue as usize] += ns * u128::from(self.queued);
        self.waits_ns[request as usize] += ns * u128::from(self.for_request);
        self.inside_ns += ns * u128::from(self.for_request + held);
        self.given_ns += ns * u128::from(self.given);
        self.depth_full_ns += if is_deep { ns } else { 0 };
        self.requests_full_ns += if holds_all { ns } else { 0 };
        self.blocked_ns[request as usize] += if self.for_request > 0 { ns } else { 0 };
    }

    fn step(&mut self, step: Step, io: &BlockIo, is_counted: bool) {
        match step {
            Step::Came => self.for_request += 1,
            Step::Allocated => {
                self.for_request -= u64::from(io.submitted_ns.is_some());
                self.queued += 1;
            }
            Step::Given => {
                self.queued -= 1;
                self.given += 1;
            }
            Step::Completed => {
                self.given -= 1;
                self.completed += u64::from(is_counted);
            }
        }
    }

    fn queue(&self, all_ns: u64) -> DiskQueue {
        let per_io = |sum_ns: u128| sum_ns as f64 / self.completed.max(1) as f64;
        let per_time = |sum_ns: u128| sum_ns as f64 / all_ns.max(1) as f64;
        DiskQueue {
            ios: self.completed,
            latency_ns: per_io(self.inside_ns),
            waits_ns: self.waits_ns.map(per_io),
            outstanding: per_time(self.given_ns),
            depth_full_share: per_time(self.depth_full_ns),
            requests_full_share: per_time(self.requests_full_ns),
            blocked_shares: self.blocked_ns.map(per_time),
        }
    }
}

/// Sums the waits of I/Os on a session's disks, from the first completion to the last arrival.
#[must_use]
pub fn session_queue(
    ios: &[&BlockIo],
    disks: &BTreeMap<u32, DiskBounds>,
    session: SessionBounds,
) -> SessionQueue {
    let own = || ios.iter().filter(|io| disks.contains_key(&io.disk));
    let from_ns = own().map(|io| io.completed_ns).min().unwrap_or(0);
    let to_ns = own().map(|io| io.began_ns()).max().unwrap_or(0);
    if to_ns <= from_ns {
        return SessionQueue::default();
    }
    let mut steps: Vec<(u64, Step, &BlockIo)> = own()
        .flat_map(|io| {
            let came = io.submitted_ns.map(|_| (io.began_ns(), Step::Came));
            let rest = [
                (io.allocated_ns, Step::Allocated),
                (given_ns(io), Step::Given),
                (io.completed_ns, Step::Completed),
            ];
            let steps = came.into_iter().chain(rest);
            steps.map(move |(at_ns, step)| (at_ns, step, *io))
        })
        .collect();
    // At the same time, steps of an I/O stay in order.
    steps.sort_by_key(|(at_ns, step, _)| (*at_ns, std::cmp::Reverse(*step)));
    let mut counting: BTreeMap<u32, Counting> = disks
        .iter()
        .map(|(disk, bounds)| {
            let bounds = *bounds;
            (
                *disk,
                Counting {
                    bounds,
                    ..Counting::default()
                },
            )
        })
        .collect();
    let (mut at_ns, mut given, mut slots_full_ns) = (0, 0_u64, 0_u64);
    for (step_ns, step, io) in steps {
        let passed_ns = step_ns.min(to_ns).saturating_sub(at_ns.max(from_ns));
        if passed_ns > 0 {
            let has_no_slot = is_full(given, session.can_queue);
            slots_full_ns += if has_no_slot { passed_ns } else { 0 };
            let waits = match is_full(given, session.command_window) {
                true => Some(QueueWait::CommandWindow),
                false => has_no_slot.then_some(QueueWait::SessionCommands),
            };
            for counting in counting.values_mut() {
                counting.pass(passed_ns, waits);
            }
        }
        at_ns = at_ns.max(step_ns);
        if let Some(counting) = counting.get_mut(&io.disk) {
            counting.step(step, io, (from_ns..=to_ns).contains(&step_ns));
        }
        match step {
            Step::Given => given += 1,
            Step::Completed => given -= 1,
            Step::Came | Step::Allocated => {}
        }
    }
    let all_ns = to_ns - from_ns;
    let used = counting.into_iter().filter(|(_, of)| of.completed > 0);
    SessionQueue {
        disks: used
            .map(|(disk, counting)| (disk, counting.queue(all_ns)))
            .collect(),
        slots_full_share: slots_full_ns as f64 / all_ns as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: u32 = 8 << 20;

    /// A closed loop with queue depth `asked`, of which `requests` have a request and `slots` are at the device, for 10
    /// ms each.
    fn load(disk: u32, asked: usize, requests: usize, slots: usize) -> Vec<BlockIo> {
        const SERVICE_NS: u64 = 10_000_000;
        let mut ios: Vec<BlockIo> = Vec::new();
        for place in 0..100 * asked {
            let ended = |ago: usize| {
                place
                    .checked_sub(ago)
                    .map_or(0, |before| ios[before].completed_ns)
            };
            let came_ns = ended(asked) + 1000;
            let allocated_ns = came_ns.max(ended(requests) + 1);
            let issued_ns = allocated_ns.max(ended(slots) + 1);
            ios.push(BlockIo {
                disk,
                submitted_ns: Some(came_ns),
                allocated_ns,
                issued_ns,
                dispatches: 1,
                completed_ns: issued_ns + SERVICE_NS,
                ..BlockIo::default()
            });
        }
        ios
    }

    fn queue(ios: &[BlockIo], disk: DiskBounds, session: SessionBounds) -> SessionQueue {
        let disks = ios.iter().map(|io| (io.disk, disk)).collect();
        session_queue(&ios.iter().collect::<Vec<_>>(), &disks, session)
    }

    fn bounds(queue_depth: u64, nr_requests: u64) -> DiskBounds {
        DiskBounds {
            queue_depth: Some(queue_depth),
            nr_requests: Some(nr_requests),
        }
    }

    /// The longest wait in the queues, and its kind.
    fn most(queue: &SessionQueue) -> (QueueWait, f64) {
        let waits = QueueWait::ALL.map(|wait| (wait, queue.wait_ns(wait)));
        let longest = waits
            .into_iter()
            .max_by(|(_, one), (_, other)| one.total_cmp(other));
        longest.unwrap()
    }

    #[test]
    fn what_waits_is_what_is_full() {
        let session = SessionBounds::default();
        let ios = load(DISK, 16, 64, 4);
        let told = queue(&ios, bounds(4, 64), session);
        let (wait, mean_ns) = most(&told);
        assert_eq!(wait, QueueWait::QueueDepth);
        assert!((mean_ns - 30e6).abs() < 1e6, "{told:?}");
        assert!(told.disks[&DISK].depth_full_share > 0.9, "{told:?}");

        let ios = load(DISK, 16, 4, 64);
        let told = queue(&ios, bounds(64, 4), session);
        assert_eq!(most(&told).0, QueueWait::Requests, "{told:?}");
        let blocked = told.disks[&DISK].blocked_shares;
        assert!(blocked[QueueWait::Requests as usize] > 0.9, "{told:?}");

        // If the device is full, more requests only move the wait.
        let ios = load(DISK, 16, 8, 4);
        let told = queue(&ios, bounds(4, 8), session);
        assert_eq!(most(&told).0, QueueWait::QueueDepth, "{told:?}");

        // Four at a time though 32 are allowed: a scheduler.
        let ios = load(DISK, 16, 64, 4);
        let told = queue(&ios, bounds(32, 64), session);
        assert_eq!(most(&told).0, QueueWait::Scheduler, "{told:?}");

        let session = SessionBounds {
            can_queue: Some(4),
            command_window: None,
        };
        let told = queue(&ios, bounds(4, 64), session);
        assert_eq!(most(&told).0, QueueWait::SessionCommands, "{told:?}");
    }

    #[test]
    fn an_ios_latency_is_its_waits_and_the_time_at_the_device() {
        let told = queue(
            &load(DISK, 16, 8, 4),
            bounds(4, 8),
            SessionBounds::default(),
        );
        let waits: f64 = QueueWait::ALL.iter().map(|wait| told.wait_ns(*wait)).sum();
        let latency_ns = told.disks[&DISK].latency_ns;
        assert!((latency_ns - waits - 10e6).abs() < 0.5e6, "{told:?}");
    }

    #[test]
    fn of_two_disks_the_one_that_waits_is_told() {
        let other = DISK + 16;
        let mut ios = load(DISK, 8, 64, 2);
        ios.extend(load(other, 2, 64, 64));
        let disks = BTreeMap::from([(DISK, bounds(2, 64)), (other, bounds(64, 64))]);
        let told = session_queue(
            &ios.iter().collect::<Vec<_>>(),
            &disks,
            SessionBounds::default(),
        );
        let wait = QueueWait::QueueDepth;
        assert_eq!(told.wait_of_disk_ns(other, wait), 0.0);
        assert_eq!(told.wait_of_disk_ns(DISK, wait), told.wait_ns(wait));
        assert!(told.disks[&other].depth_full_share < 0.1, "{told:?}");
        assert!(
            (told.disks[&DISK].waits_ns[wait as usize] - 30e6).abs() < 2e6,
            "{told:?}"
        );
    }

    #[test]
    fn nothing_is_told_of_no_ios() {
        assert_eq!(
            queue(&[], bounds(1, 1), SessionBounds::default()),
            SessionQueue::default()
        );
    }
}
