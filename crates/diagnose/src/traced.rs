//! Evidence from tracepoints on this host's sessions.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use wansan_insight::capture::{Capture, CapturedCommand};
use wansan_insight::cause::Cause;
use wansan_trace::SessionId;
use wansan_trace::clock::Both;

use crate::block::{Disk, Multipath};
use crate::diagnosis::Source;
use crate::host::Host;
use crate::host_queue::{
    DiskBounds, QueueWait, SessionBounds, SessionQueue, given_ns, session_queue,
};
use crate::judge::{Bound, BoundUse, Kept, is_shared};
use crate::lio::Unit;
use crate::matching::{at_initiator, at_target};
use crate::multipath::Table;
use crate::open_iscsi::KernelSession;
use crate::tracepoints::{BlockIo, BlockTracing, TargetTracing, TracingError};

/// Smallest share of a session's commands that must match for the kernel's I/Os to be used.
const LEAST_MATCHED: f64 = 0.5;

/// Attached tracepoint programs.
#[derive(Debug)]
pub(crate) struct Tracing {
    block: Option<Result<BlockTracing, TracingError>>,
    target: Option<Result<TargetTracing, TracingError>>,
    /// Offset of CLOCK_REALTIME from the monotonic clock, in ns.
    ahead_ns: u64,
}

/// Records of a slice.
pub(crate) struct Traced {
    pub(crate) block: Option<BlockTrace>,
    pub(crate) stores: BTreeMap<String, Vec<StoreUse>>,
    pub(crate) sources: Vec<Source>,
}

impl Tracing {
    /// Attaches the tracepoints relevant to this host.
    pub(crate) fn begin(host: &Host) -> Tracing {
        let disks = host.sessions.iter().flat_map(|session| &session.disks);
        let numbers = disks.flat_map(|disk| {
            let above = disk.multipath.as_ref().and_then(|above| above.number);
            [disk.number, above]
        });
        let numbers: BTreeSet<u32> = numbers.flatten().collect();
        let clocks = Both::now();
        Tracing {
            block: (!numbers.is_empty()).then(|| BlockTracing::open(&numbers)),
            target: (!host.portal_groups.is_empty()).then(TargetTracing::open),
            ahead_ns: clocks.realtime_ns.saturating_sub(clocks.monotonic.ns()),
        }
    }

    pub(crate) fn drain(&mut self) {
        if let Some(Ok(block)) = &mut self.block {
            block.drain();
        }
        if let Some(Ok(target)) = &mut self.target {
            target.drain();
        }
    }

    /// Pauses tracing.
    pub(crate) fn pause(&mut self) {
        if let Some(Ok(block)) = &mut self.block {
            block.pause();
        }
        if let Some(Ok(target)) = &mut self.target {
            target.pause();
        }
    }

    /// Resumes tracing. If the kernel refuses, the source is dropped.
    pub(crate) fn resume(&mut self) {
        if let Some(Ok(block)) = &mut self.block
            && let Err(error) = block.resume()
        {
            self.block = Some(Err(error));
        }
        if let Some(Ok(target)) = &mut self.target
            && let Err(error) = target.resume()
        {
            self.target = Some(Err(error));
        }
    }

    /// Ends a slice; returns its records. LIO's tracepoints on its stores go into the capture.
    pub(crate) fn slice(&mut self, host: &Host, capture: Option<&mut Capture>) -> Traced {
        let mut sources = Vec::new();
        let mut source = |name, told: Result<String, String>| {
            let is_used = told.is_ok();
            let what = told.unwrap_or_else(|why| why);
            sources.push(Source {
                name,
                what,
                is_used,
            });
        };
        let counted = |count: usize, what: &str, lost: u64| {
            let mut text = format!("{count} {what}");
            if lost > 0 {
                text += &format!(", and {lost} more dropped for lack of buffer space");
            }
            text
        };
        const BLOCK: &str = "tracepoints of the block and SCSI layers";
        const TARGET: &str = "tracepoints of LIO";
        let ahead_ns = self.ahead_ns;
        let block = match &mut self.block {
            None => {
                source(BLOCK, Err("no disks of open-iscsi".to_owned()));
                None
            }
            Some(Err(error)) => {
                source(BLOCK, Err(error.to_string()));
                None
            }
            Some(Ok(tracing)) => {
                let (ios, lost) = tracing.take();
                source(BLOCK, Ok(counted(ios.len(), "I/Os", lost)));
                Some(BlockTrace { ios, ahead_ns })
            }
        };
        let mut stores = BTreeMap::new();
        match &mut self.target {
            None => source(TARGET, Err("no targets of LIO".to_owned())),
            Some(Err(error)) => source(TARGET, Err(error.to_string())),
            Some(Ok(tracing)) => {
                let (commands, lost) = tracing.take();
                source(TARGET, Ok(counted(commands.len(), "commands", lost)));
                if let Some(capture) = capture {
                    let captured: Vec<&CapturedCommand> = capture.commands().iter().collect();
                    let pairs = at_target(&commands, &captured, ahead_ns);
                    let times = pairs.iter().map(|(done, command)| {
                        let (began_ns, done_ns) = (done.began_ns, done.done_ns);
                        (**command, began_ns + ahead_ns, done_ns + ahead_ns)
                    });
                    let times: Vec<(CapturedCommand, u64, u64)> = times.collect();
                    stores = store_uses(host, capture, &times);
                    capture.add_store_times(times);
                }
            }
        }
        Traced {
            block,
            stores,
            sources,
        }
    }
}

/// Service times of a LUN's store.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoreUse {
    /// The LUN.
    pub lun: u64,
    /// The store, as named by `targetcli`, and the file or device behind it.
    pub store: Option<Unit>,
    /// Completed commands.
    pub commands: u64,
    /// Mean time from when the target started a command until its store completed it, in ns; for writes this includes
    /// the arrival of the data.
    pub latency_ns: f64,
}

impl StoreUse {
    /// Its total load.
    pub(crate) fn load(&self) -> f64 {
        self.commands as f64 * self.latency_ns
    }

    /// Its description, after its LUN.
    pub(crate) fn in_brackets(&self) -> String {
        match &self.store {
            Some(Unit {
                store,
                path: Some(path),
                ..
            }) => format!(" ({store}, {path})"),
            Some(Unit { store, .. }) => format!(" ({store})"),
            None => String::new(),
        }
    }
}

fn store_uses(
    host: &Host,
    capture: &Capture,
    times: &[(CapturedCommand, u64, u64)],
) -> BTreeMap<String, Vec<StoreUse>> {
    let mut sums: BTreeMap<(SessionId, u64), (u64, f64)> = BTreeMap::new();
    for (command, began_ns, done_ns) in times {
        let sum = sums.entry((command.session, command.lun)).or_default();
        sum.0 += 1;
        sum.1 += (done_ns - began_ns) as f64;
    }
    let mut uses: BTreeMap<String, Vec<StoreUse>> = BTreeMap::new();
    for ((session, lun), (commands, sum_ns)) in sums {
        let session = session.to_string();
        let connections = capture.connections.iter();
        let mut connections = connections.filter(|it| it.session == session);
        let group = connections.find_map(|it| host.lio(it.target, it.target_name.as_deref()));
        let units = group.map_or(&[][..], |group| &group.units);
        uses.entry(session).or_default().push(StoreUse {
            lun,
            store: units.iter().find(|unit| unit.lun == lun).cloned(),
            commands,
            latency_ns: sum_ns / commands as f64,
        });
    }
    uses
}

/// The captured commands of each session.
pub(crate) struct Commands<'a>(BTreeMap<String, Vec<&'a CapturedCommand>>);

impl<'a> Commands<'a> {
    pub(crate) fn of(capture: &'a Capture) -> Commands<'a> {
        let mut sessions: BTreeMap<SessionId, Vec<&CapturedCommand>> = BTreeMap::new();
        for command in capture.commands() {
            sessions.entry(command.session).or_default().push(command);
        }
        let sessions = sessions.into_iter();
        Commands(sessions.map(|(id, all)| (id.to_string(), all)).collect())
    }

    pub(crate) fn of_session(&self, session: &str) -> &[&'a CapturedCommand] {
        self.0.get(session).map_or(&[], Vec::as_slice)
    }
}

/// Records of the block and SCSI tracepoints.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BlockTrace {
    /// Each I/O.
    pub ios: Vec<BlockIo>,
    /// How far the packets' clock is ahead of the I/Os', in ns.
    pub ahead_ns: u64,
}

/// Tracepoint evidence on a session's I/Os.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SessionTrace {
    pub(crate) queue: SessionQueue,
    /// `None` if too few of the session's commands match the kernel's I/Os.
    pub(crate) kept: Option<Kept>,
    pub(crate) disks: Vec<DiskUse>,
    numbers: BTreeMap<u32, Disk>,
}

/// A disk's I/Os on this host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiskUse {
    /// Its name.
    pub disk: String,
    /// Its LUN.
    pub lun: u64,
    /// Completed I/Os.
    pub ios: u64,
    /// Mean latency from arrival at the disk, in ns.
    pub latency_ns: f64,
    /// The part in the host's queues, in ns.
    pub queued_ns: f64,
    /// The part from sending of commands to arrival of answers, in ns; `None` if no command was found in packets.
    pub wire_ns: Option<f64>,
    /// Outstanding commands, time average.
    pub outstanding: f64,
    /// Most outstanding commands allowed.
    pub queue_depth: Option<u64>,
    /// Share of time at that limit, 0 to 1.
    pub full_share: f64,
}

impl BlockTrace {
    /// The evidence on a session's I/Os; `None` without any. `stopped` are the intervals in which TCP could not send what
    /// the session's initiator had.
    pub(crate) fn session(
        &self,
        kernel: &KernelSession,
        command_window: Option<u64>,
        commands: &[&CapturedCommand],
        stopped: &[(u64, u64, Cause)],
    ) -> Option<SessionTrace> {
        let numbers: BTreeMap<u32, Disk> = kernel
            .disks
            .iter()
            .filter_map(|disk| Some((disk.number?, disk.clone())))
            .collect();
        let bounds = numbers.iter().map(|(number, disk)| {
            let bounds = DiskBounds {
                queue_depth: disk.queue_depth,
                nr_requests: disk.nr_requests,
            };
            (*number, bounds)
        });
        let own: Vec<&BlockIo> = self
            .ios
            .iter()
            .filter(|io| numbers.contains_key(&io.disk))
            .collect();
        let session = SessionBounds {
            can_queue: kernel.can_queue,
            command_window,
        };
        let queue = session_queue(&own, &bounds.collect(), session);
        if queue.ios() == 0 {
            return None;
        }
        let luns = numbers
            .iter()
            .map(|(number, disk)| (*number, disk.lun))
            .collect();
        let pairs = at_initiator(&self.ios, &luns, commands, self.ahead_ns);
        let disks = disk_uses(&queue, &numbers, &pairs);
        let is_enough = pairs.len() as f64 >= LEAST_MATCHED * commands.len() as f64;
        Some(SessionTrace {
            kept: (is_enough && !pairs.is_empty()).then(|| self.kept(&queue, &pairs, stopped)),
            disks,
            queue,
            numbers,
        })
    }

    fn kept(
        &self,
        queue: &SessionQueue,
        pairs: &[(&BlockIo, &CapturedCommand)],
        stopped: &[(u64, u64, Cause)],
    ) -> Kept {
        let mean = |of: &dyn Fn(&BlockIo, &CapturedCommand) -> u64| {
            let sum: f64 = pairs
                .iter()
                .map(|(io, command)| of(io, command) as f64)
                .sum();
            sum / pairs.len().max(1) as f64
        };
        let sending = |io: &BlockIo, command: &CapturedCommand| {
            let sent_ns = command.sent_ns.saturating_sub(self.ahead_ns);
            sent_ns.saturating_sub(given_ns(io))
        };
        let completing = |io: &BlockIo, command: &CapturedCommand| {
            let answered_ns = command.answered_ns.unwrap_or(0);
            let completed_ns = io.completed_ns + self.ahead_ns;
            match answered_ns {
                0 => 0,
                answered_ns => completed_ns.saturating_sub(answered_ns),
            }
        };
        let mut behind_ns: BTreeMap<Cause, f64> = BTreeMap::new();
        for (io, command) in pairs {
            let (from_ns, to_ns) = (given_ns(io) + self.ahead_ns, command.sent_ns);
            let first = stopped.partition_point(|(_, end_ns, _)| *end_ns <= from_ns);
            let meanwhile = stopped[first..].iter().filter(|step| is_shared(step.2));
            for (start_ns, end_ns, cause) in meanwhile.take_while(|step| step.0 < to_ns) {
                let within_ns = to_ns.min(*end_ns).saturating_sub(from_ns.max(*start_ns));
                *behind_ns.entry(*cause).or_default() += within_ns as f64 / pairs.len() as f64;
            }
        }
        let all_behind_ns: f64 = behind_ns.values().sum();
        Kept {
            scheduler_ns: queue.wait_ns(QueueWait::Scheduler),
            sending_ns: (mean(&sending) - all_behind_ns).max(0.0),
            behind_ns,
            completing_ns: mean(&completing),
        }
    }

    /// The mean latency of one disk's I/Os, in ns.
    pub(crate) fn latency_ns(&self, disk: u32) -> Option<f64> {
        let own: Vec<&BlockIo> = self.ios.iter().filter(|io| io.disk == disk).collect();
        let took = own
            .iter()
            .map(|io| (io.completed_ns - io.began_ns()) as f64);
        (!own.is_empty()).then(|| took.sum::<f64>() / own.len() as f64)
    }
}

fn disk_uses(
    queue: &SessionQueue,
    numbers: &BTreeMap<u32, Disk>,
    pairs: &[(&BlockIo, &CapturedCommand)],
) -> Vec<DiskUse> {
    let mut on_wire: BTreeMap<u32, (u64, f64)> = BTreeMap::new();
    for (io, command) in pairs {
        if let Some(answered_ns) = command.answered_ns {
            let sum = on_wire.entry(io.disk).or_default();
            sum.0 += 1;
            sum.1 += answered_ns.saturating_sub(command.sent_ns) as f64;
        }
    }
    let used = queue.disks.iter().filter_map(|(number, used)| {
        let disk = numbers.get(number)?;
        Some(DiskUse {
            disk: disk.name.clone(),
            lun: disk.lun,
            ios: used.ios,
            latency_ns: used.latency_ns,
            queued_ns: used.waits_ns.iter().sum(),
            wire_ns: on_wire
                .get(number)
                .map(|(count, sum_ns)| sum_ns / *count as f64),
            outstanding: used.outstanding,
            queue_depth: disk.queue_depth,
            full_share: used.depth_full_share,
        })
    });
    let mut used: Vec<DiskUse> = used.collect();
    used.sort_by_key(|disk| disk.lun);
    used
}

impl SessionTrace {
    /// Use of each disk's limits, and the waits for them.
    pub(crate) fn bounds_of_disks(&self) -> Vec<BoundUse> {
        let queue = &self.queue;
        let each = queue.disks.iter().flat_map(|(number, used)| {
            let disk = self.numbers.get(number);
            let name = disk.map(|disk| disk.name.clone()).unwrap_or_default();
            let waited = |wait| Some(queue.wait_of_disk_ns(*number, wait));
            let requests = disk
                .and_then(|disk| disk.nr_requests)
                .map(|commands| BoundUse {
                    bound: Bound::Requests { disk: name.clone() },
                    commands,
                    full_share: used.requests_full_share,
                    waited_ns: waited(QueueWait::Requests),
                    blocked_share: used.blocked_shares[QueueWait::Requests as usize],
                });
            let depth = disk
                .and_then(|disk| disk.queue_depth)
                .map(|commands| BoundUse {
                    bound: Bound::QueueDepth { disk: name },
                    commands,
                    full_share: used.depth_full_share,
                    waited_ns: waited(QueueWait::QueueDepth),
                    blocked_share: used.blocked_shares[QueueWait::QueueDepth as usize],
                });
            requests.into_iter().chain(depth)
        });
        each.collect()
    }

    /// Waits in the host: name, description and mean in ns.
    pub(crate) fn waits(&self) -> Vec<(&'static str, &'static str, f64)> {
        let queues = QueueWait::ALL.map(|wait| {
            let (name, why) = match wait {
                QueueWait::Requests => (
                    "requests",
                    "its disk's request queue was full (nr_requests)",
                ),
                QueueWait::Scheduler => (
                    "scheduler",
                    "its disk's queue held it although slots were free (I/O scheduler)",
                ),
                QueueWait::QueueDepth => (
                    "queue_depth",
                    "all slots of its disk were in use (queue_depth)",
                ),
                QueueWait::SessionCommands => (
                    "session_commands",
                    "all command slots of the session were in use (cmds_max)",
                ),
                QueueWait::CommandWindow => (
                    "command_window",
                    "the command window was closed while it was in its disk's queue",
                ),
            };
            (name, why, self.queue.wait_ns(wait))
        });
        let own_ns = |of: fn(&Kept) -> f64| self.kept.as_ref().map_or(0.0, of);
        let own = [
            (
                "sending",
                "it was in the initiator's SCSI and iSCSI layers before its command was sent",
                own_ns(|kept| kept.sending_ns),
            ),
            (
                "completing",
                "its response had arrived, but the host had not completed it",
                own_ns(|kept| kept.completing_ns),
            ),
        ];
        queues.into_iter().chain(own).collect()
    }
}

/// The dm-multipath devices above this host's session disks, and their path selection.
pub(crate) fn devices(host: &Host) -> Vec<(&Multipath, Option<Table>)> {
    let disks = host.sessions.iter().flat_map(|session| &session.disks);
    let devices: BTreeMap<&str, &Multipath> = disks
        .filter_map(|disk| disk.multipath.as_ref())
        .map(|above| (above.name.as_str(), above))
        .collect();
    let devices = devices.into_values();
    devices
        .map(|device| (device, Table::read(&device.name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_iscsi::Keys;
    use crate::tracepoints::device_number;

    const MS: u64 = 1_000_000;
    /// How far the packets' clock is ahead.
    const AHEAD_NS: u64 = 1_000_000 * MS;

    fn kernel() -> KernelSession {
        let disk = Disk {
            name: "sdb".to_owned(),
            number: Some(device_number(8, 16)),
            lun: 3,
            queue_depth: Some(2),
            nr_requests: Some(64),
            read_ahead_kib: None,
            scheduler: None,
            multipath: None,
        };
        KernelSession {
            number: 1,
            target: "iqn.2026-11.net.example:vault".to_owned(),
            initiator: None,
            host: None,
            can_queue: Some(113),
            keys: Keys::default(),
            connections: Vec::new(),
            disks: vec![disk],
        }
    }

    /// Overlapping I/Os, two at the device: 20 ms there, with 2 ms before the command is sent and 3 ms after its
    /// answer.
    fn ios(count: u64) -> (Vec<BlockIo>, Vec<CapturedCommand>) {
        let each = (0..count).map(|place| {
            let block = place.to_be_bytes();
            let cdb = std::array::from_fn(|at| match at {
                0 => 0x28,
                4 | 5 => block[at + 2],
                _ => 0,
            });
            let issued_ns = (place / 2 + 10) * 20 * MS;
            let io = BlockIo {
                disk: device_number(8, 16),
                submitted_ns: Some(issued_ns - 60 * MS),
                allocated_ns: issued_ns - 60 * MS,
                issued_ns,
                dispatched_ns: Some(issued_ns),
                dispatches: 1,
                done_ns: Some(issued_ns + 20 * MS),
                completed_ns: issued_ns + 20 * MS,
                cdb,
                ..BlockIo::default()
            };
            let command = CapturedCommand {
                lun: 3,
                cdb,
                sent_ns: AHEAD_NS + issued_ns + 2 * MS,
                answered_ns: Some(AHEAD_NS + issued_ns + 17 * MS),
                ..CapturedCommand::default()
            };
            (io, command)
        });
        each.unzip()
    }

    fn session(
        ios: Vec<BlockIo>,
        commands: &[CapturedCommand],
        stopped: &[(u64, u64, Cause)],
    ) -> Option<SessionTrace> {
        let trace = BlockTrace {
            ios,
            ahead_ns: AHEAD_NS,
        };
        let commands: Vec<&CapturedCommand> = commands.iter().collect();
        trace.session(&kernel(), None, &commands, stopped)
    }

    #[test]
    fn an_io_is_followed_from_its_disk_to_the_wire_and_back() {
        let (ios, commands) = ios(200);
        let trace = session(ios, &commands, &[]).unwrap();
        let kept = trace.kept.as_ref().unwrap();
        let is_near = |ns: f64, ms: f64| (ns / 1e6 - ms).abs() < 0.5;
        assert!(is_near(kept.sending_ns, 2.0), "{kept:?}");
        assert!(is_near(kept.completing_ns, 3.0), "{kept:?}");
        let [disk] = &trace.disks[..] else {
            panic!("{trace:?}");
        };
        assert_eq!((disk.disk.as_str(), disk.lun), ("sdb", 3));
        assert!(is_near(disk.wire_ns.unwrap(), 15.0), "{disk:?}");
        assert!((75.0..85.0).contains(&(disk.latency_ns / 1e6)), "{disk:?}");
        let bounds = trace.bounds_of_disks();
        let depth = bounds
            .iter()
            .find(|it| matches!(it.bound, Bound::QueueDepth { .. }));
        let waited_ms = depth.and_then(|it| it.waited_ns).unwrap() / 1e6;
        assert!((55.0..65.0).contains(&waited_ms), "{bounds:?}");
    }

    #[test]
    fn a_command_waits_behind_data_while_that_is_stopped() {
        let (ios, commands) = ios(200);
        let stopped = (0..100).flat_map(|place| {
            let issued_ns = AHEAD_NS + (place + 10) * 20 * MS;
            [
                (issued_ns - 5 * MS, issued_ns + MS, Cause::CongestionWindow),
                (issued_ns + MS, issued_ns + 2 * MS, Cause::SendBuffer),
                // Nothing that others share.
                (issued_ns + 2 * MS, issued_ns + 3 * MS, Cause::ReceiveBuffer),
            ]
        });
        let stopped: Vec<_> = stopped.collect();
        let trace = session(ios, &commands, &stopped).unwrap();
        let kept = trace.kept.unwrap();
        let ms = |ns: f64| (ns / 1e5).round() / 10.0;
        let behind: Vec<_> = { kept.behind_ns.iter() }
            .map(|(cause, ns)| (*cause, ms(*ns)))
            .collect();
        let expected = [(Cause::CongestionWindow, 1.0), (Cause::SendBuffer, 1.0)];
        assert_eq!(behind.len(), expected.len(), "{behind:?}");
        assert!(expected.iter().all(|it| behind.contains(it)), "{behind:?}");
        assert_eq!(ms(kept.sending_ns), 0.0);
    }

    #[test]
    fn commands_that_the_kernel_tells_nothing_of_leave_it_to_counters() {
        let (mut ios, commands) = ios(200);
        ios.truncate(80);
        let trace = session(ios, &commands, &[]).unwrap();
        assert_eq!(trace.kept, None);
        assert_eq!(trace.disks[0].ios, 72);
        assert_eq!(session(Vec::new(), &commands, &[]), None);
    }
}
