//! Counters of a session: plain integers of the thread that owns it, so that counting costs an addition and reading
//! them a request to that thread.

use wansan_trace::Instant;

use super::order::CommandOrder;
use super::session::Session;
use super::task::{Repeat, Task};
use crate::scsi::{Identity, StoreOperation};
use crate::wire::ScsiStatus;

/// A histogram of latencies whose buckets double in width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyHistogram {
    counts: [u64; LatencyHistogram::BUCKETS],
    sum_ns: u64,
}

impl LatencyHistogram {
    /// Number of buckets; the last is unbounded.
    pub const BUCKETS: usize = 22;
    /// End of the first range in ns, as a power of two: 16 µs. The last but one ends at 17 s.
    const FIRST_EXPONENT: u32 = 14;

    /// Upper bound of `bucket` in ns (inclusive); `None` for the last.
    #[must_use]
    pub fn upper_bound_ns(bucket: usize) -> Option<u64> {
        (bucket + 1 < Self::BUCKETS).then(|| 1 << (Self::FIRST_EXPONENT as usize + bucket))
    }

    /// Counts one latency.
    pub fn count(&mut self, latency_ns: u64) {
        // The number of bits of ns − 1, so that a bound belongs to the range that it ends.
        let bits = u64::BITS - latency_ns.saturating_sub(1).leading_zeros();
        let bucket = bits.saturating_sub(Self::FIRST_EXPONENT) as usize;
        self.counts[bucket.min(Self::BUCKETS - 1)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(latency_ns);
    }

    /// Latencies in each bucket.
    #[must_use]
    pub fn counts(&self) -> &[u64; LatencyHistogram::BUCKETS] {
        &self.counts
    }

    /// Sum of all latencies, in ns.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Adds another histogram.
    pub fn add(&mut self, other: &LatencyHistogram) {
        for (count, others) in self.counts.iter_mut().zip(other.counts) {
            *count += others;
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        LatencyHistogram {
            counts: [0; Self::BUCKETS],
            sum_ns: 0,
        }
    }
}

/// Counters of one kind of operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OperationMeter {
    /// Bytes transferred.
    pub bytes: u64,
    /// Operations that completed with a status other than GOOD.
    pub errors: u64,
    /// Latency from the arrival of the command to its status; the clock is read once per turn of a thread.
    pub latency: LatencyHistogram,
}

impl OperationMeter {
    /// Completed operations.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.latency.counts().iter().sum()
    }

    fn add(&mut self, other: &OperationMeter) {
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.latency.add(&other.latency);
    }
}

/// Counters of one logical unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnitMeter {
    /// READ, of any length.
    pub reads: OperationMeter,
    /// WRITE, of any length.
    pub writes: OperationMeter,
    /// All other commands.
    pub others: OperationMeter,
}

impl UnitMeter {
    /// Adds another unit's.
    pub fn add(&mut self, other: &UnitMeter) {
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.others.add(&other.others);
    }
}

/// Counters of a session, with the high-water marks of its queues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionMeter {
    /// Commands delivered to the device server, including task management.
    pub commands: u64,
    /// How often a command took the last slot of the command window, so that the initiator could
    /// send only immediate commands until a slot became free.
    pub window_stalls: u64,
    /// Most slots of the command window in use at once.
    pub window_used_max: u32,
    /// Most commands held behind a gap in CmdSN.
    pub held_commands_max: usize,
    /// Most bytes of data of such commands.
    pub held_bytes_max: usize,
    /// Most tasks at once.
    pub tasks_max: usize,
    /// Tasks that moved to another connection (TASK REASSIGN, RFC 7143 §7.2.2).
    pub reassigned_tasks: u64,
    /// Connections lost without a logout.
    pub lost_connections: u64,
}

/// Counters of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectionMeter {
    /// Bytes received, headers and digests included.
    pub received_bytes: u64,
    /// Bytes that the socket accepted.
    pub sent_bytes: u64,
    /// Most unsent bytes.
    pub send_queue_bytes_max: usize,
    /// PDUs with a digest error (§7.7, §7.8).
    pub digest_errors: u64,
    /// SNACKs received (§11.16).
    pub snacks: u64,
    /// Recovery R2Ts for lost data (§7.8).
    pub recovery_r2ts: u64,
    /// Rejects sent (§11.17).
    pub rejects: u64,
}

/// The meters of a session.
#[derive(Debug)]
pub(super) struct Meters {
    pub(super) session: SessionMeter,
    /// By the unit's index in the device.
    units: Vec<UnitMeter>,
}

impl Meters {
    /// The meters of a session with a device of `units` units.
    pub(super) fn of(units: usize) -> Self {
        Meters {
            session: SessionMeter::default(),
            units: vec![UnitMeter::default(); units],
        }
    }

    /// Counts a completed command, unless it is only answered again.
    pub(super) fn count_ended(&mut self, task: &Task, status: ScsiStatus, now: Instant) {
        if !matches!(task.repeat, Repeat::No) {
            return;
        }
        let Some(unit) = self.units.get_mut(task.unit) else {
            return;
        };
        let meter = match task.operation {
            StoreOperation::Read { .. } => &mut unit.reads,
            StoreOperation::Write { .. } => &mut unit.writes,
            StoreOperation::Flush { .. } | StoreOperation::Deferred { .. } => &mut unit.others,
        };
        if status == ScsiStatus::Good {
            meter.bytes += u64::from(task.moved_bytes);
        } else {
            meter.errors += 1;
        }
        let latency = now.since(task.began);
        meter
            .latency
            .count(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts a command for that unit, if any, that was answered on arrival.
    pub(super) fn count_at_once(&mut self, unit: Option<usize>, status: ScsiStatus) {
        let Some(unit) = unit.and_then(|unit| self.units.get_mut(unit)) else {
            return;
        };
        unit.others.errors += u64::from(status != ScsiStatus::Good);
        unit.others.latency.count(0);
    }

    /// Counts a delivered command, the last of `tasks`; its slot, if it needs one, is taken.
    pub(super) fn count_delivered(&mut self, immediate: bool, tasks: usize, order: &CommandOrder) {
        let meter = &mut self.session;
        meter.commands += 1;
        meter.tasks_max = meter.tasks_max.max(tasks);
        meter.window_used_max = meter.window_used_max.max(order.in_hand());
        meter.window_stalls += u64::from(!immediate && order.is_closed());
    }

    /// Counts a command that has to wait for an earlier one.
    pub(super) fn count_held(&mut self, order: &CommandOrder) {
        let meter = &mut self.session;
        meter.held_commands_max = meter.held_commands_max.max(order.held());
        meter.held_bytes_max = meter.held_bytes_max.max(order.held_bytes());
    }
}

impl Session {
    /// Its counters.
    #[must_use]
    pub fn meter(&self) -> SessionMeter {
        self.core.meters.session
    }

    /// Its counters at each logical unit.
    pub fn unit_meters(&self) -> impl Iterator<Item = (&Identity, &UnitMeter)> {
        let units = self.core.config.device.units().iter();
        let identities = units.map(|unit| &unit.identity);
        identities.zip(&self.core.meters.units)
    }
}
