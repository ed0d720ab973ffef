//! Diagnosis of this host's iSCSI sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::Serialize;
use wansan_insight::both_ends::BothEnds;
use wansan_insight::capture::{Capture, CapturedConnection, CapturedSession};
use wansan_insight::cause::{Cause, Limit};
use wansan_insight::ledger::WaitUse;
use wansan_insight::summary::SessionUse;
use wansan_insight::traffic::FlowDirection;
use wansan_insight::window::Window;

use crate::block::BlockUse;
use crate::change::{Change, LioGroup, Party, Place, changes};
use crate::host::{Ends, Host, HostSession, Role};
use crate::host_queue::QueueWait;
use crate::judge::{Bound, BoundUse, Evidence, Judgement, Verdict, judge};
use crate::multipath::MultipathDiagnosis;
use crate::open_iscsi::KernelSession;
use crate::slices::Sampled;
use crate::software::Software;
use crate::traced::{BlockTrace, Commands, DiskUse, SessionTrace, StoreUse, devices};

/// A source of evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Its name.
    pub name: &'static str,
    /// What it provided, or what would enable it.
    pub what: String,
    /// Whether it was available.
    pub is_used: bool,
}

/// The diagnosis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Duration of the diagnosis.
    pub seconds: f64,
    /// Time during which packets were captured: less if packets are too fast for the processor budget.
    pub looked_seconds: f64,
    /// Number of slices. If several, the rest describes one of them, except `unfinished`.
    pub slices: u64,
    /// The sources of evidence.
    pub sources: Vec<Source>,
    /// Sessions with complete I/Os.
    pub sessions: Vec<SessionDiagnosis>,
    /// dm-multipath devices whose paths are disks of these sessions.
    pub multipaths: Vec<MultipathDiagnosis>,
    /// iSCSI connections with I/Os, none of which is complete; with several slices, in any of them.
    pub unfinished: Vec<Ends>,
    /// iSCSI connections without I/Os.
    pub quiet: Vec<Ends>,
}

/// One component of an I/O's latency.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Share {
    /// Its name in the ledger or in the host's queue; `host` if only counters show it.
    pub wait: &'static str,
    /// Its description.
    pub why: &'static str,
    /// Mean over the I/Os, in ns.
    pub mean_ns: f64,
    /// Share of the latency, 0 to 1.
    pub share: f64,
    /// The part that may belong to other components, in ns.
    pub uncertain_ns: f64,
    /// The source.
    pub source: &'static str,
}

/// What a session's I/Os wait for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionDiagnosis {
    /// The end on this host.
    pub role: Role,
    /// The initiator's addresses and the target's, of each connection.
    pub connections: Vec<(SocketAddr, SocketAddr)>,
    /// The initiator's name.
    pub initiator_name: Option<String>,
    /// The target's name.
    pub target_name: Option<String>,
    /// The initiator's software.
    pub initiator: Software,
    /// The target's software.
    pub target: Software,
    /// The process on this host.
    pub process: Option<String>,
    /// The kernel's session, if it is a kernel session.
    pub kernel: Option<KernelSession>,
    /// I/Os per second.
    pub iops: f64,
    /// Outstanding commands: time average.
    pub outstanding: f64,
    /// Outstanding commands: maximum.
    pub outstanding_max: u64,
    /// Statistics over all slices, if there were several.
    pub sampled: Option<Sampled>,
    /// Where its I/Os were between the two ends, if a peer at the other end recorded them too.
    pub both_ends: Option<BothEnds>,
    /// The components of the latency, longest first.
    pub shares: Vec<Share>,
    /// Its disks with I/Os, if tracepoints are available.
    pub disks: Vec<DiskUse>,
    /// Service times of its LUNs' stores, if the target's kernel reports them.
    pub stores: Vec<StoreUse>,
    /// The limits on outstanding commands.
    pub bounds: Vec<BoundUse>,
    /// The limiting factor.
    pub judgement: Judgement,
    /// The same as a sentence.
    pub finding: String,
    /// What to change.
    pub changes: Vec<Change>,
}

impl SessionDiagnosis {
    /// The ends of its connections.
    pub(crate) fn ends(&self) -> impl Iterator<Item = Ends> {
        let connections = self.connections.iter();
        connections.map(|&(initiator, target)| Ends { initiator, target })
    }

    /// Mean number of I/Os in this state, by Little's law.
    #[must_use]
    pub fn in_flight(&self, share: &Share) -> f64 {
        self.iops * share.mean_ns / 1e9
    }
}

/// Evidence other than packets.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Looked {
    /// Requests to each disk in the same time, by its name.
    pub disks: BTreeMap<String, BlockUse>,
    /// Packets that the kernel dropped because the ring was full.
    pub dropped: u64,
    /// Records of the block and SCSI tracepoints.
    pub block: Option<BlockTrace>,
    /// Service times of LIO's stores for each session's commands, by session name.
    pub stores: BTreeMap<String, Vec<StoreUse>>,
}

/// Share from which something counts as most of the time.
const MOSTLY: f64 = 0.5;

/// A limit counts as reached at this many commands below it: an answer frees a slot before the next command is sent.
const NEARLY: u64 = 1;

/// Diagnoses each session.
#[must_use]
pub fn diagnose(host: &Host, capture: Option<&Capture>, looked: &Looked) -> Vec<SessionDiagnosis> {
    let Some(capture) = capture else {
        return Vec::new();
    };
    let (summary, captured) = capture.by_session();
    let commands = Commands::of(capture);
    let mut found: Vec<SessionDiagnosis> = Vec::new();
    for session in &summary.sessions {
        let of_it = capture.connections.iter();
        let connections: Vec<&CapturedConnection> =
            of_it.filter(|it| it.session == session.session).collect();
        let Some(alone) = captured.get(&session.session) else {
            continue;
        };
        let Some(first) = connections.first() else {
            continue;
        };
        let known = host.session(first.initiator, first.target);
        if alone.waits.ios > 0 {
            let seen = Seen {
                host,
                looked,
                connections: &connections,
                session,
                alone,
                window: summary.window,
                known: &known,
                trace: looked.block.as_ref().and_then(|block| {
                    let slots = session.command_window.as_ref().map(|window| window.slots);
                    let kernel = known.kernel.as_ref()?;
                    let commands = commands.of_session(&session.session);
                    block.session(kernel, slots, commands, &alone.initiator_stopped)
                }),
            };
            found.push(seen.diagnosis());
        }
    }
    found.sort_by(|one, other| {
        let load = |of: &SessionDiagnosis| of.iops * of.judgement.latency_ns;
        load(other).total_cmp(&load(one))
    });
    found
}

/// This host's connections without a session in `found`: those with incomplete I/Os only, and those without I/Os.
#[must_use]
pub fn without_whole_ios(
    host: &Host,
    capture: Option<&Capture>,
    found: &[SessionDiagnosis],
) -> [Vec<Ends>; 2] {
    let whole: BTreeSet<Ends> = found.iter().flat_map(SessionDiagnosis::ends).collect();
    let ends = host.connections.iter().map(|connection| connection.ends());
    let (unfinished, quiet) = ends
        .filter(|ends| !whole.contains(ends))
        .partition(|of| capture.is_some_and(|capture| capture.has_ios(of.initiator, of.target)));
    [unfinished, quiet]
}

/// The dm-multipath devices, and the I/Os on their paths.
#[must_use]
pub fn multipaths(
    host: &Host,
    sessions: &[SessionDiagnosis],
    looked: &Looked,
    seconds: f64,
) -> Vec<MultipathDiagnosis> {
    let devices = devices(host).into_iter();
    let found = devices.map(|(device, table)| {
        let used = sessions.iter().flat_map(|session| {
            let disks = session.kernel.iter().flat_map(|kernel| &kernel.disks);
            disks.filter_map(move |disk| {
                (disk.multipath.as_ref()? == device).then_some((session, disk))
            })
        });
        let paths = used.filter_map(|(session, disk)| {
            let counted = looked.disks.get(&disk.name)?;
            let portal = session.connections.first()?.1.to_string();
            Some(crate::multipath::PathUse {
                disk: disk.name.clone(),
                portal,
                iops: counted.ios() as f64 / seconds.max(1e-9),
                latency_ns: counted.latency_ns()?,
            })
        });
        let paths = paths.collect();
        let latency_ns = device
            .number
            .and_then(|number| looked.block.as_ref()?.latency_ns(number));
        MultipathDiagnosis::of(&device.name, &device.device, table, latency_ns, paths)
    });
    found.collect()
}

/// The packet capture as a source.
#[must_use]
pub fn packets_used(capture: Option<&Capture>, packets: u64, dropped: u64) -> Source {
    let mut what = format!("{packets} packets");
    if dropped > 0 {
        what += &format!(", and {dropped} more dropped because they arrived too fast");
    }
    match capture {
        None if packets == 0 && dropped == 0 => what = "none seen".to_owned(),
        None => what += "; no iSCSI PDUs in them",
        Some(_) => {}
    }
    Source {
        name: "packets",
        what,
        is_used: capture.is_some(),
    }
}

/// The ends' iSCSI names, as far as known.
struct Names {
    initiator: Option<String>,
    target: Option<String>,
}

/// A session with all evidence on it.
struct Seen<'a> {
    host: &'a Host,
    looked: &'a Looked,
    connections: &'a [&'a CapturedConnection],
    session: &'a SessionUse,
    alone: &'a CapturedSession,
    window: Window,
    known: &'a HostSession,
    trace: Option<SessionTrace>,
}

impl Seen<'_> {
    fn diagnosis(&self) -> SessionDiagnosis {
        let (waits, block) = (&self.alone.waits, self.block());
        let bounds = self.bounds();
        let outstanding = self.alone.outstanding.mean(self.window);
        let kernel = self.known.kernel.as_ref();
        let disks = kernel.map_or(&[][..], |kernel| &kernel.disks);
        let scheduler = disks.iter().filter_map(|disk| {
            let scheduler = disk.scheduler.clone()?;
            Some((disk.name.clone(), scheduler))
        });
        let scheduler: Vec<_> = scheduler.collect();
        let kept = self.trace().and_then(|trace| trace.kept.as_ref());
        let judgement = judge(&Evidence {
            kept,
            waits,
            block_latency_ns: block
                .filter(|_| !self.is_below_multipath())
                .and_then(|used| used.latency_ns()),
            bounds: &bounds,
            outstanding,
            scheduler: &scheduler,
        });
        let names = self.names();
        let place = self.place(&judgement, block, &names);
        let stores = self.looked.stores.get(&self.session.session);
        let stores = stores.map_or(&[][..], Vec::as_slice);
        SessionDiagnosis {
            role: self.known.role,
            connections: self
                .connections
                .iter()
                .map(|of| (of.initiator, of.target))
                .collect(),
            initiator_name: names.initiator,
            target_name: names.target,
            initiator: place.initiator.software,
            target: place.target.software,
            process: self
                .known
                .owner
                .as_ref()
                .map(|owner| format!("{} ({})", owner.name, owner.process)),
            kernel: self.known.kernel.clone(),
            iops: self.session.scope.iops,
            outstanding,
            outstanding_max: self.alone.outstanding.max(self.window),
            sampled: None,
            both_ends: None,
            shares: shares(waits, &judgement, self.trace()),
            disks: self
                .trace
                .as_ref()
                .map(|trace| trace.disks.clone())
                .unwrap_or_default(),
            finding: finding(&judgement, &place, stores),
            stores: stores.to_vec(),
            changes: changes(&judgement.verdict, &place),
            bounds,
            judgement,
        }
    }

    fn is_below_multipath(&self) -> bool {
        let disks = self.known.kernel.iter().flat_map(|kernel| &kernel.disks);
        disks.into_iter().any(|disk| disk.multipath.is_some())
    }

    /// Tracepoint evidence of waits in the host; not for dm-multipath paths, as I/Os wait above these.
    fn trace(&self) -> Option<&SessionTrace> {
        let trace = self.trace.as_ref()?;
        (trace.kept.is_some() && !self.is_below_multipath()).then_some(trace)
    }

    /// Waits of dispatched commands behind data that TCP could not send, by what stopped it.
    fn behind_ns(&self) -> impl Iterator<Item = (Cause, f64)> {
        let kept = self.trace().and_then(|trace| trace.kept.as_ref());
        let behind = kept.into_iter().flat_map(|kept| &kept.behind_ns);
        behind.map(|(cause, mean_ns)| (*cause, *mean_ns))
    }

    /// The block layer's counters of the session's disks.
    fn block(&self) -> Option<BlockUse> {
        let kernel = self.known.kernel.as_ref()?;
        let disks = kernel.disks.iter();
        let used = disks.filter_map(|disk| self.looked.disks.get(&disk.name).copied());
        used.reduce(BlockUse::and)
    }

    fn bounds(&self) -> Vec<BoundUse> {
        let full = |commands: u64| {
            let at_least = commands.saturating_sub(NEARLY).max(1);
            let population = &self.alone.outstanding;
            population.share(self.window, |count| count >= at_least)
        };
        let trace = self.trace();
        let waited = |wait| trace.map(|trace| trace.queue.wait_ns(wait));
        let blocked = |wait| trace.map_or(0.0, |trace| trace.queue.blocked_share(wait));
        let mut bounds = trace.map(SessionTrace::bounds_of_disks).unwrap_or_default();
        if let Some(kernel) = &self.known.kernel {
            // Packets are not matched to disks: if one disk is busy, all commands count as its own.
            let busy = kernel.disks.iter().filter(|disk| {
                let used = self.looked.disks.get(&disk.name);
                used.is_some_and(|used| used.ios() > 0)
            });
            let busy: Vec<_> = busy.collect();
            if let [disk] = busy[..]
                && let Some(commands) = disk.queue_depth
                && trace.is_none()
            {
                bounds.push(BoundUse {
                    bound: Bound::QueueDepth {
                        disk: disk.name.clone(),
                    },
                    commands,
                    full_share: full(commands),
                    waited_ns: None,
                    blocked_share: 0.0,
                });
            }
            bounds.extend(kernel.can_queue.map(|commands| BoundUse {
                bound: Bound::SessionCommands,
                commands,
                full_share: trace.map_or_else(|| full(commands), |it| it.queue.slots_full_share),
                waited_ns: waited(QueueWait::SessionCommands),
                blocked_share: blocked(QueueWait::SessionCommands),
            }));
        }
        bounds.extend(self.session.command_window.and_then(|window| {
            Some(BoundUse {
                bound: Bound::CommandWindow,
                commands: window.slots,
                full_share: window.closed_share?,
                waited_ns: waited(QueueWait::CommandWindow),
                blocked_share: blocked(QueueWait::CommandWindow),
            })
        }));
        bounds
    }

    /// Commands that would be outstanding without any limit.
    fn wanted(&self, judgement: &Judgement, block: Option<BlockUse>) -> u64 {
        let most = self.alone.outstanding.max(self.window);
        // Includes those that wait in the host, by Little's law.
        let wanted = (self.session.scope.iops * judgement.latency_ns / 1e9).ceil() as u64;
        let disks = self.known.kernel.iter().flat_map(|kernel| &kernel.disks);
        let counted: u64 = disks.filter_map(|disk| disk.nr_requests).sum();
        // Counters do not include I/Os waiting for a request in the block layer.
        let is_counted = self.trace().is_some() || block.is_some() && 10 * wanted < 9 * counted;
        match is_counted {
            true => wanted,
            false => wanted.max(2 * most),
        }
    }

    fn names(&self) -> Names {
        let first = self.connections[0];
        let kernel = self.known.kernel.as_ref();
        let of_login = |name: fn(&CapturedConnection) -> Option<&String>| {
            let mut names = self.connections.iter().filter_map(|of| name(of));
            names.next().cloned()
        };
        let target_name = kernel.map(|kernel| kernel.target.clone());
        let target_name = target_name
            .or_else(|| of_login(|of| of.target_name.as_ref()))
            .or_else(|| {
                let only = self.host.lio(first.target, None);
                only.map(|group| group.target.clone())
            });
        let initiator_name = kernel.and_then(|kernel| kernel.initiator.clone());
        Names {
            initiator: initiator_name.or_else(|| of_login(|of| of.initiator_name.as_ref())),
            target: target_name,
        }
    }

    /// The session's LIO portal group.
    fn lio(&self, names: &Names) -> Option<LioGroup> {
        let target = self.connections[0].target;
        let group = self.host.lio(target, names.target.as_deref())?;
        let acls = group
            .initiators
            .iter()
            .filter(|acl| match &names.initiator {
                Some(name) => acl.initiator == *name,
                None => acl.has_session,
            });
        Some(LioGroup {
            tag: group.tag,
            acls: acls.map(|acl| acl.initiator.clone()).collect(),
        })
    }

    fn place(&self, judgement: &Judgement, block: Option<BlockUse>, names: &Names) -> Place {
        let first = self.connections[0];
        let kernel = self.known.kernel.as_ref();
        let party = |role: Role, name: Option<&String>| Party {
            software: match self.known.role == role || self.known.role == Role::Both {
                true => self.known.software(role),
                false => name.map_or(Software::Unknown, |name| Software::of_name(name)),
            },
            is_here: self.known.role == role || self.known.role == Role::Both,
        };
        let read_bytes = block.map(|used| used.read_bytes > used.write_bytes);
        let sent = |way| {
            let sums = self.alone.waits.sums.iter();
            let is_it = |cause: Cause| match &judgement.verdict {
                Verdict::Wire { of, .. } => cause.limit() == *of,
                _ => cause.limit() != Limit::TooFewIos,
            };
            let waits = sums.filter(|sum| is_it(sum.cause) && sum.way == Some(way));
            let behind = self.behind_ns().filter(|(cause, _)| is_it(*cause));
            let behind = behind.filter(|_| way == FlowDirection::ToTarget);
            let behind_ns: f64 = behind.map(|(_, mean_ns)| mean_ns).sum();
            waits.map(|sum| sum.mean_ns).sum::<f64>() + behind_ns
        };
        let portal = kernel.and_then(|kernel| {
            let mut connections = kernel.connections.iter();
            let own = connections.find(|it| it.target == first.target)?;
            Some(own.portal)
        });
        let disks = kernel.map_or(&[][..], |kernel| &kernel.disks);
        // Below dm-multipath, the read-ahead that applies is the upper device's.
        let read_ahead = disks.iter().filter_map(|disk| match &disk.multipath {
            Some(above) => Some((above.device.clone(), above.read_ahead_kib?)),
            None => Some((disk.name.clone(), disk.read_ahead_kib?)),
        });
        let sender_is_target = sent(FlowDirection::ToInitiator) >= sent(FlowDirection::ToTarget);
        let mut own = self.host.connections.iter();
        let sender = own.find(|it| {
            let Ends { initiator, target } = it.ends();
            it.is_target == sender_is_target
                && (initiator, target) == (first.initiator, first.target)
        });
        Place {
            initiator: party(Role::Initiator, names.initiator.as_ref()),
            target: party(Role::Target, names.target.as_ref()),
            target_name: names.target.clone(),
            portal: portal.unwrap_or(first.target).to_string(),
            lio: self.lio(names),
            buffers: self.host.buffers,
            wanted: self.wanted(judgement, block),
            can_queue: kernel.and_then(|kernel| kernel.can_queue),
            scheduled: disks
                .iter()
                .filter(|disk| disk.scheduler.as_deref().is_some_and(|name| name != "none"))
                .map(|disk| disk.name.clone())
                .collect(),
            read_ahead: read_ahead.collect(),
            is_reading: read_bytes.unwrap_or(false),
            is_one_at_a_time: self.alone.outstanding.mean(self.window) < 2.0,
            sender_is_target,
            congestion_control: sender.map(|it| it.congestion_control.clone()),
        }
    }
}

/// The components of the latency.
fn shares(waits: &WaitUse, judgement: &Judgement, trace: Option<&SessionTrace>) -> Vec<Share> {
    let latency_ns = judgement.latency_ns.max(1.0);
    let in_host = |wait, why, mean_ns: f64, source| Share {
        wait,
        why,
        mean_ns,
        share: mean_ns / latency_ns,
        uncertain_ns: 0.0,
        source,
    };
    let mut shares: Vec<Share> = match trace {
        Some(trace) => {
            let waits = trace.waits().into_iter();
            waits
                .map(|(wait, why, mean_ns)| in_host(wait, why, mean_ns, "tracepoints"))
                .collect()
        }
        None => vec![in_host(
            "host",
            "it was in this host's queues before its command was sent",
            judgement.host_ns,
            "block layer and packets",
        )],
    };
    shares.retain(|share| share.mean_ns > 0.0);
    let behind = trace.and_then(|trace| Some(&trace.kept.as_ref()?.behind_ns));
    for cause in Cause::ALL {
        let sums: Vec<_> = waits.sums.iter().filter(|sum| sum.cause == cause).collect();
        let behind_ns = behind.and_then(|behind| behind.get(&cause)).copied();
        let sent_ns: f64 = sums.iter().map(|sum| sum.mean_ns).sum();
        let mean_ns = sent_ns + behind_ns.unwrap_or(0.0);
        if mean_ns > 0.0 {
            shares.push(Share {
                wait: cause.name(),
                why: cause.in_words(),
                mean_ns,
                share: mean_ns / latency_ns,
                uncertain_ns: sums.iter().map(|sum| sum.uncertain_ns).sum(),
                source: match cause {
                    Cause::StoreService | Cause::StoreQueue => "tracepoints",
                    _ if behind_ns.is_some() => "tracepoints and packets",
                    _ => "packets",
                },
            });
        }
    }
    shares.sort_by(|one, other| other.mean_ns.total_cmp(&one.mean_ns));
    shares
}

/// The limiting factor as a sentence.
fn finding(judgement: &Judgement, place: &Place, stores: &[StoreUse]) -> String {
    let ms = |ns: f64| format!("{:.2} ms", ns / 1e6);
    let of = format!(
        "{} of the {} that an I/O takes",
        ms(judgement.counts_ns),
        ms(judgement.latency_ns)
    );
    match &judgement.verdict {
        Verdict::Bound { bound } => {
            let (what, commands) = (in_words(&bound.bound), bound.commands);
            let full = bound.full_share * 100.0;
            let costs = match judgement.host_ns > 0.0 || bound.waited_ns.is_some() {
                true => format!("which costs {of}"),
                false => "and the number of I/Os that waited for one is not measured".to_owned(),
            };
            // A higher queue depth only moves the queue if the target has one.
            let doubt = match judgement.target_share >= MOSTLY {
                true => {
                    " Most of the rest is spent at the target: more slots help if it serves commands in parallel, otherwise they only move the queue there."
                }
                false => "",
            };
            format!(
                "{what} limits throughput: all {commands} slots were in use {full:.0} % of the time, {costs}.{doubt}"
            )
        }
        Verdict::HostQueue { .. } => format!(
            "This host holds I/Os in its own queues for {of} although the session has free slots, because of its I/O scheduler or the queue depth of one of several disks."
        ),
        Verdict::Host => format!(
            "This host takes most of the time: its SCSI and iSCSI layers take {of}, before the command is sent and after its response has arrived. Faster or less busy CPUs shorten that."
        ),
        Verdict::Wire { of: limit, cause } => {
            let sender = match place.sender_is_target {
                true => "target",
                false => "initiator",
            };
            // The remote kernel's state is not visible from here.
            let doubt = match (*limit, place.sender().is_here) {
                (Limit::CongestionWindow, false) => {
                    " The limit may be its send buffer instead: packets cannot show which, `wansan diagnose` at that end can."
                }
                _ => "",
            };
            format!(
                "{} (the {sender} sends): {}, which costs {of}.{doubt}",
                limit_in_words(*limit),
                cause.in_words()
            )
        }
        Verdict::Store => {
            let slowest = stores
                .iter()
                .max_by(|one, other| one.load().total_cmp(&other.load()));
            let which = slowest.map_or_else(
                || "The store".to_owned(),
                |store| format!("The store of LUN {}{}", store.lun, store.in_brackets()),
            );
            format!(
                "{which} limits throughput: stores take {of}, as measured in the target's kernel."
            )
        }
        Verdict::Target if !stores.is_empty() => format!(
            "The target's program limits throughput: it takes {of}, in addition to its stores."
        ),
        Verdict::Target if place.target.is_here => {
            format!("The target limits throughput: its program or its store takes {of}.")
        }
        Verdict::Target => format!(
            "The target limits throughput: it takes {of}. Run `wansan diagnose` on the target to see whether they queue there."
        ),
        Verdict::Unknown => format!("The cause of {of} is unknown."),
        Verdict::TooFewIos => format!(
            "Too few I/Os are in flight to fill the path: no limit holds them back, and the path's round trip takes {of}."
        ),
        Verdict::Idle => format!(
            "The disk is nearly idle: an I/O takes {}, and most of the time none is outstanding.",
            ms(judgement.latency_ns)
        ),
    }
}

fn in_words(bound: &Bound) -> String {
    match bound {
        Bound::QueueDepth { disk } => format!("The queue depth of {disk}"),
        Bound::Requests { disk } => {
            format!("nr_requests, the size of the queue of {disk},")
        }
        Bound::SessionCommands => "cmds_max, the initiator's command slots per session,".to_owned(),
        Bound::CommandWindow => "The target's command window".to_owned(),
    }
}

fn limit_in_words(limit: Limit) -> &'static str {
    match limit {
        Limit::Store => "The store limits throughput",
        Limit::RouteLockstep => "The order of commands over unequal routes limits throughput",
        Limit::PathRate => "The path's rate limits throughput",
        Limit::Encryption => "A router's encryption limits throughput",
        Limit::ReceiveWindow => "The receive window limits throughput",
        Limit::SendBuffer => "The send buffer limits throughput",
        Limit::CongestionWindow => "The congestion window limits throughput",
        Limit::R2tRoundTrips => "R2T round trips limit writes",
        Limit::CommandWindow => "The command window limits throughput",
        Limit::Stalls => "I/Os stall in TCP",
        Limit::Processor => "A CPU limits throughput",
        Limit::TooFewIos | Limit::Nothing => "Nothing limits throughput",
    }
}
