//! A disk's limits and request counters in the block layer.

use std::path::Path;

use serde::Serialize;

use crate::attributes::{entries, number, text};
use crate::tracepoints::device_number;

/// A disk of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Disk {
    /// Its name, as in `/dev/NAME`.
    pub name: String,
    /// Its device number, as encoded by [`device_number`].
    pub number: Option<u32>,
    /// Its LUN.
    pub lun: u64,
    /// Most outstanding commands that the SCSI layer allows it.
    pub queue_depth: Option<u64>,
    /// Requests in its queue (`nr_requests`).
    pub nr_requests: Option<u64>,
    /// Read-ahead, in KiB.
    pub read_ahead_kib: Option<u64>,
    /// The I/O scheduler in use.
    pub scheduler: Option<String>,
    /// The dm-multipath device that it is a path of.
    pub multipath: Option<Multipath>,
}

/// A device of dm-multipath.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Multipath {
    /// Its name, as in `/dev/mapper/NAME`.
    pub name: String,
    /// Its block device, as in `/dev/dm-0`.
    pub device: String,
    /// Its device number.
    pub number: Option<u32>,
    /// Read-ahead, in KiB.
    pub read_ahead_kib: Option<u64>,
}

impl Disk {
    /// Reads the disk of that name, whose SCSI device is at `unit` in sysfs.
    pub(crate) fn of(name: String, lun: u64, unit: &Path) -> Disk {
        let disk = unit.join("block").join(&name);
        let queue = disk.join("queue");
        // "none [mq-deadline] kyber": the one in brackets is in use.
        let scheduler = text(&queue, "scheduler").and_then(|all| {
            let (_, rest) = all.split_once('[')?;
            Some(rest.split_once(']')?.0.to_owned())
        });
        let above = entries(&disk.join("holders")).into_iter();
        let mut multipath = above.filter_map(|(device, holder)| {
            let mapper = holder.join("dm");
            let is_multipath = text(&mapper, "uuid")?.starts_with("mpath-");
            let name = text(&mapper, "name").filter(|_| is_multipath)?;
            Some(Multipath {
                name,
                device,
                number: numbered(&holder),
                read_ahead_kib: number(&holder.join("queue"), "read_ahead_kb"),
            })
        });
        Disk {
            number: numbered(&disk),
            lun,
            queue_depth: number(unit, "queue_depth"),
            nr_requests: number(&queue, "nr_requests"),
            read_ahead_kib: number(&queue, "read_ahead_kb"),
            scheduler,
            multipath: multipath.next(),
            name,
        }
    }

    /// Its request counters since boot; `None` if the disk is gone.
    #[must_use]
    pub fn counters(&self, sys: &Path) -> Option<Counters> {
        let stat = text(&sys.join("class/block").join(&self.name), "stat")?;
        Counters::parse(&stat)
    }
}

/// The number of a block device, from its attribute `dev` (MAJOR:MINOR).
fn numbered(device: &Path) -> Option<u32> {
    let text = text(device, "dev")?;
    let (major, minor) = text.split_once(':')?;
    Some(device_number(major.parse().ok()?, minor.parse().ok()?))
}

/// Counters of completed requests (Documentation/block/stat.rst).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    reads: u64,
    read_sectors: u64,
    writes: u64,
    write_sectors: u64,
    /// Discards and flushes.
    others: u64,
    /// Total time of requests from arrival in the disk's queue to completion, in ms.
    waited_ms: u64,
}

impl Counters {
    fn parse(stat: &str) -> Option<Counters> {
        let fields: Vec<u64> = stat
            .split_whitespace()
            .map(|field| field.parse().ok())
            .collect::<Option<_>>()?;
        let &[
            reads,
            _,
            read_sectors,
            read_ms,
            writes,
            _,
            write_sectors,
            write_ms,
            ..,
        ] = &fields[..]
        else {
            return None;
        };
        // Discards since Linux 4.18, flushes since 5.5.
        let others = |places: [usize; 2]| {
            let found = places.iter().filter_map(|place| fields.get(*place));
            found.sum::<u64>()
        };
        Some(Counters {
            reads,
            read_sectors,
            writes,
            write_sectors,
            others: others([11, 15]),
            waited_ms: read_ms + write_ms + others([14, 16]),
        })
    }

    /// The requests between `before` and this.
    #[must_use]
    pub fn since(&self, before: &Counters) -> BlockUse {
        let sectors = |now: u64, then: u64| now.saturating_sub(then) * 512;
        let reads = self.reads.saturating_sub(before.reads);
        let writes = self.writes.saturating_sub(before.writes);
        BlockUse {
            reads,
            writes,
            others: self.others.saturating_sub(before.others),
            read_bytes: sectors(self.read_sectors, before.read_sectors),
            write_bytes: sectors(self.write_sectors, before.write_sectors),
            waited_ns: self.waited_ms.saturating_sub(before.waited_ms) * 1_000_000,
        }
    }
}

/// Requests to a disk over an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct BlockUse {
    /// Completed reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Discards and flushes.
    pub others: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Total time of these requests from arrival in the disk's queue, in ns; the kernel counts in ms.
    pub waited_ns: u64,
}

impl BlockUse {
    /// Completed requests.
    #[must_use]
    pub fn ios(&self) -> u64 {
        self.reads + self.writes + self.others
    }

    /// The sum of this and another disk's.
    #[must_use]
    pub fn and(self, other: BlockUse) -> BlockUse {
        BlockUse {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            others: self.others + other.others,
            read_bytes: self.read_bytes + other.read_bytes,
            write_bytes: self.write_bytes + other.write_bytes,
            waited_ns: self.waited_ns + other.waited_ns,
        }
    }

    /// Mean latency of a request; `None` if there were none.
    #[must_use]
    pub fn latency_ns(&self) -> Option<f64> {
        (self.ios() > 0).then(|| self.waited_ns as f64 / self.ios() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_a_while_are_the_difference_of_two_looks() {
        let before = Counters::parse(" 10 1 80 5 0 0 0 0 0 5 5 0 0 0 0 0 0").unwrap();
        let after = Counters::parse(" 30 1 240 105 4 0 64 20 0 5 5 2 0 8 10 4 20").unwrap();
        let used = after.since(&before);
        assert_eq!((used.reads, used.writes, used.others), (20, 4, 6));
        assert_eq!((used.read_bytes, used.write_bytes), (160 * 512, 64 * 512));
        assert_eq!(used.latency_ns(), Some(5e6));
        assert_eq!(before.since(&before).latency_ns(), None);
    }

    #[test]
    fn what_is_no_line_of_counters_is_refused() {
        assert_eq!(Counters::parse(""), None);
        assert_eq!(Counters::parse("1 2 3"), None);
        assert_eq!(Counters::parse("1 2 3 4 5 6 7 x"), None);
    }
}
