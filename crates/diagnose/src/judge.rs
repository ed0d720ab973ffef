//! Determines by accounting what limits a session's I/Os.
//!
//! An I/O's latency is the time in the host before its command is sent, plus the time from then on, which the ledger of
//! waits derives from packets. From its dispatch on, a command may wait behind data that TCP cannot send, for what stops
//! TCP. A slot in the host is freed when an earlier I/O completes, so the time before the dispatch is
//! charged to what those earlier I/Os were waiting for: to the resources (a full link, a window) in proportion, and
//! only the rest, in which the earlier I/Os crossed the path and were served concurrently, to the limit on outstanding
//! commands. The largest charge is the limiting factor.

use std::collections::BTreeMap;

use serde::Serialize;
use wansan_insight::cause::{Cause, Limit};
use wansan_insight::ledger::WaitUse;

/// A limit on outstanding commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "bound", rename_all = "snake_case")]
pub enum Bound {
    /// The SCSI layer's queue depth of a disk.
    QueueDepth {
        /// Its name.
        disk: String,
    },
    /// The requests of a disk's queue (`nr_requests`).
    Requests {
        /// Its name.
        disk: String,
    },
    /// The initiator's command slots per session (open-iscsi's `cmds_max`).
    SessionCommands,
    /// The target's command window, MaxCmdSN.
    CommandWindow,
}

/// A limit and its use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BoundUse {
    /// The limit.
    #[serde(flatten)]
    pub bound: Bound,
    /// Its value, in commands.
    pub commands: u64,
    /// Share of time at the limit, 0 to 1.
    pub full_share: f64,
    /// Mean wait for it over all of the session's I/Os, in ns; `None` without tracepoints.
    pub waited_ns: Option<f64>,
    /// Share of time in which it blocked a program, whose further I/Os are not counted, 0 to 1.
    pub blocked_share: f64,
}

/// Time in the host other than waits for limits, as means over all of the session's I/Os, in ns.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Kept {
    /// In disk queues with no limit reached.
    pub scheduler_ns: f64,
    /// From the SCSI layer's dispatch to the sending of the command, without the following.
    pub sending_ns: f64,
    /// Behind data that TCP could not send because of a shared limit, by what stopped it.
    pub behind_ns: BTreeMap<Cause, f64>,
    /// From the answer's arrival to the completion of the request.
    pub completing_ns: f64,
}

impl Kept {
    /// Time in the initiator's own layers.
    #[must_use]
    pub fn own_ns(&self) -> f64 {
        self.sending_ns + self.completing_ns
    }

    /// Time behind data that TCP could not send because of this limit.
    #[must_use]
    pub fn behind_limit_ns(&self, limit: Limit) -> f64 {
        let all = self.behind_ns.iter();
        let own = all.filter(|(cause, _)| cause.limit() == limit);
        own.map(|(_, mean_ns)| mean_ns).sum()
    }
}

/// The evidence on a session's I/Os.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence<'a> {
    /// Waits after their commands were sent.
    pub waits: &'a WaitUse,
    /// Mean latency at the block layer, if it counts them.
    pub block_latency_ns: Option<f64>,
    /// Time in the host, from tracepoints: if present, each limit also has its wait.
    pub kept: Option<&'a Kept>,
    /// The limits on outstanding commands; a later one may cause earlier ones to be reached.
    pub bounds: &'a [BoundUse],
    /// Outstanding commands, time average.
    pub outstanding: f64,
    /// The disks, each with its I/O scheduler.
    pub scheduler: &'a [(String, String)],
}

/// The limiting factor.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "limit", rename_all = "snake_case")]
pub enum Verdict {
    /// A limit on outstanding commands.
    Bound {
        /// The limit.
        bound: BoundUse,
    },
    /// The host holds I/Os although slots are free: in an I/O scheduler, or another queue.
    HostQueue {
        /// The disks, each with its scheduler.
        scheduler: Vec<(String, String)>,
    },
    /// The host's layers, from the SCSI layer to the wire and from the wire to completion.
    Host,
    /// A limit that packets show.
    Wire {
        /// The limit.
        of: Limit,
        /// The cause of the longest of its waits.
        #[serde(skip)]
        cause: Cause,
    },
    /// The target, for most of the time.
    Target,
    /// The target's store, according to its kernel.
    Store,
    /// Unknown: no evidence explains it.
    Unknown,
    /// None: I/Os cross the path and are served, and the application does not issue more.
    TooFewIos,
    /// Idle: hardly any I/O is outstanding.
    Idle,
}

impl Verdict {
    /// The limit's name, without its object.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Verdict::Bound { bound } => match bound.bound {
                Bound::QueueDepth { .. } => "queue_depth",
                Bound::Requests { .. } => "requests",
                Bound::SessionCommands => "session_commands",
                Bound::CommandWindow => "command_window",
            },
            Verdict::HostQueue { .. } => "host_queue",
            Verdict::Host => "host",
            Verdict::Wire { of, .. } => of.name(),
            Verdict::Target => "target",
            Verdict::Store => "store",
            Verdict::Unknown => "unknown",
            Verdict::TooFewIos => "too_few_ios",
            Verdict::Idle => "idle",
        }
    }
}

/// The limiting factor, and the part of the latency charged to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// The limiting factor.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Mean charge over the I/Os, in ns.
    pub counts_ns: f64,
    /// Mean latency, at the block layer if known.
    pub latency_ns: f64,
    /// The part in the host before commands were sent.
    pub host_ns: f64,
    /// Share of the remaining latency spent at the target, 0 to 1.
    pub target_share: f64,
}

/// With fewer outstanding on average, the application leaves the disk idle.
const IDLE: f64 = 0.5;

/// Shared limits: while one I/O waits for them, others queue behind it.
const SHARED: [Limit; 7] = [
    Limit::Store,
    Limit::PathRate,
    Limit::Encryption,
    Limit::ReceiveWindow,
    Limit::SendBuffer,
    Limit::CongestionWindow,
    Limit::Processor,
];

/// Whether a cause is one of a shared limit.
pub(crate) fn is_shared(cause: Cause) -> bool {
    SHARED.contains(&cause.limit())
}

/// Waits of individual I/Os that a higher queue depth does not shorten.
const OWN: [Limit; 3] = [Limit::R2tRoundTrips, Limit::Stalls, Limit::RouteLockstep];

/// Judges the evidence.
#[must_use]
pub fn judge(evidence: &Evidence<'_>) -> Judgement {
    let waits = evidence.waits;
    let wire_ns = waits.latency_ns;
    let waiting = waiting(evidence);
    let own_ns = evidence.kept.map_or(0.0, Kept::own_ns);
    let behind = |limit| {
        let kept = evidence.kept;
        kept.map_or(0.0, |kept| kept.behind_limit_ns(limit))
    };
    let behind_ns: f64 = SHARED.into_iter().map(behind).sum();
    let host_ns = waiting.all_ns() + own_ns + behind_ns;
    let store_ns = waits.mean_ns(Cause::StoreService) + waits.mean_ns(Cause::StoreQueue);
    let target_ns = waits.mean_ns(Cause::Target);
    let judged = |verdict, counts_ns| Judgement {
        verdict,
        counts_ns,
        latency_ns: host_ns + wire_ns,
        host_ns,
        target_share: (target_ns + store_ns) / wire_ns.max(1.0),
    };
    // For as long as an I/O holds its slot, others wait for one.
    let held_ns = (wire_ns + behind_ns).max(1.0);
    let per_held_ns = waiting.all_ns() / held_ns;
    let of = |limit: Limit| waits.share(limit) * wire_ns;
    let shared_ns: f64 = SHARED.into_iter().map(of).sum();
    let apart = ((wire_ns - shared_ns) / held_ns).max(0.0);
    let served_ns = waits.mean_ns(Cause::StoreService);
    let crossing_ns = (of(Limit::TooFewIos) - served_ns).max(0.0);

    let mut counted: Vec<(Verdict, f64)> = Vec::new();
    for limit in SHARED {
        let counts_ns = (of(limit) + behind(limit)) * (1.0 + per_held_ns);
        counted.push(match limit {
            Limit::Store => (Verdict::Store, counts_ns + served_ns),
            limit => (wire(evidence, limit), counts_ns),
        });
    }
    counted.extend(OWN.map(|limit| (wire(evidence, limit), of(limit))));
    counted.push((Verdict::Host, own_ns));
    counted.push((Verdict::Target, target_ns));
    counted.push((Verdict::Unknown, waits.mean_ns(Cause::Unknown)));
    let scheduler = evidence.scheduler.to_vec();
    counted.push((
        Verdict::HostQueue { scheduler },
        waiting.scheduler_ns * apart,
    ));
    let mut uncounted_ns = 0.0_f64;
    for waiters in &waiting.bounds {
        // As many further I/Os may wait as are outstanding.
        let more_ns = waiters.uncounted_share * (crossing_ns + target_ns + served_ns);
        uncounted_ns = uncounted_ns.max(more_ns);
        let bound = waiters.bound.clone();
        counted.push((
            Verdict::Bound { bound },
            waiters.counted_ns * apart + more_ns,
        ));
    }
    counted.push((
        Verdict::TooFewIos,
        crossing_ns - uncounted_ns.min(crossing_ns),
    ));
    let most = counted
        .into_iter()
        .max_by(|(_, one_ns), (_, other_ns)| one_ns.total_cmp(other_ns));
    let (verdict, counts_ns) = most.unwrap_or((Verdict::TooFewIos, 0.0));
    let is_idle = evidence.outstanding < IDLE && waiting.all_ns() < wire_ns;
    match verdict {
        Verdict::TooFewIos
        | Verdict::Target
        | Verdict::Store
        | Verdict::Host
        | Verdict::Unknown
            if is_idle =>
        {
            judged(Verdict::Idle, host_ns + wire_ns)
        }
        verdict => judged(verdict, counts_ns),
    }
}

/// Waits of I/Os in the host's queues.
struct Waiting<'a> {
    bounds: Vec<Waiters<'a>>,
    scheduler_ns: f64,
}

/// Waits for one limit.
struct Waiters<'a> {
    bound: &'a BoundUse,
    /// Mean wait over all I/Os.
    counted_ns: f64,
    /// Share of time in which further I/Os, which nothing counts, may have waited.
    uncounted_share: f64,
}

/// Waits from tracepoints of each I/O; otherwise, the excess of the block layer's latency over the packets', charged to
/// the fullest limit for the time it was reached.
fn waiting<'a>(evidence: &Evidence<'a>) -> Waiting<'a> {
    let bounds = evidence.bounds;
    if let Some(kept) = evidence.kept {
        let waiters = |bound: &'a BoundUse| Waiters {
            bound,
            counted_ns: bound.waited_ns.unwrap_or(0.0),
            uncounted_share: bound.blocked_share,
        };
        return Waiting {
            bounds: bounds.iter().map(waiters).collect(),
            scheduler_ns: kept.scheduler_ns,
        };
    }
    let wire_ns = evidence.waits.latency_ns;
    let latency_ns = evidence.block_latency_ns.unwrap_or(wire_ns);
    let all_ns = (latency_ns - wire_ns).max(0.0);
    let fullest = fullest(bounds);
    let full_share = fullest.map_or(0.0, |full| full.full_share);
    let waiters = fullest.map(|bound| {
        // Nothing counts I/Os that wait for a session's slots, or inside a user-space initiator.
        let is_counted =
            evidence.block_latency_ns.is_some() && bound.bound != Bound::SessionCommands;
        Waiters {
            bound,
            counted_ns: all_ns * full_share,
            uncounted_share: if is_counted { 0.0 } else { full_share },
        }
    });
    Waiting {
        bounds: waiters.into_iter().collect(),
        scheduler_ns: all_ns * (1.0 - full_share),
    }
}

impl Waiting<'_> {
    fn all_ns(&self) -> f64 {
        let waited = self.bounds.iter().map(|waiters| waiters.counted_ns);
        self.scheduler_ns + waited.sum::<f64>()
    }
}

/// The fullest limit; among equals the last, which limits the others.
fn fullest(bounds: &[BoundUse]) -> Option<&BoundUse> {
    bounds
        .iter()
        .max_by(|one, other| one.full_share.total_cmp(&other.full_share))
}

/// A limit that packets show, with the cause of its longest waits.
fn wire(evidence: &Evidence<'_>, of: Limit) -> Verdict {
    let causes = Cause::ALL.into_iter().filter(|cause| cause.limit() == of);
    let mean_ns = |cause: &Cause| {
        let behind = evidence.kept.and_then(|kept| kept.behind_ns.get(cause));
        evidence.waits.mean_ns(*cause) + behind.copied().unwrap_or(0.0)
    };
    let longest = causes.max_by(|one, other| mean_ns(one).total_cmp(&mean_ns(other)));
    Verdict::Wire {
        of,
        cause: longest.unwrap_or(Cause::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wansan_insight::ledger::{CauseSum, Source};
    use wansan_trace::Layer;

    /// Waits of these lengths, in ms.
    fn waits(of: &[(Cause, f64)]) -> WaitUse {
        let sums = of.iter().map(|(cause, ms)| CauseSum {
            cause: *cause,
            layer: Layer::Wire,
            way: None,
            source: Source::Packets,
            mean_ns: ms * 1e6,
            uncertain_ns: 0.0,
        });
        WaitUse {
            ios: 1000,
            latency_ns: of.iter().map(|(_, ms)| ms * 1e6).sum(),
            sums: sums.collect(),
            ..WaitUse::default()
        }
    }

    fn depth(full_share: f64) -> BoundUse {
        BoundUse {
            bound: Bound::QueueDepth {
                disk: "sdb".to_owned(),
            },
            commands: 32,
            full_share,
            waited_ns: None,
            blocked_share: 0.0,
        }
    }

    fn judged(waits: &WaitUse, block_ms: Option<f64>, bounds: &[BoundUse]) -> Judgement {
        judge(&Evidence {
            waits,
            block_latency_ns: block_ms.map(|ms| ms * 1e6),
            kept: None,
            bounds,
            outstanding: 32.0,
            scheduler: &[],
        })
    }

    #[test]
    fn what_the_host_keeps_with_slots_free_waits_for_no_bound() {
        let wire = waits(&[(Cause::Propagation, 20.0)]);
        let judged = judged(&wire, Some(63.0), &[depth(0.1)]);
        assert!(
            matches!(judged.verdict, Verdict::HostQueue { .. }),
            "{judged:?}"
        );
    }

    #[test]
    fn what_waits_in_the_host_for_commands_that_cross_the_path_waits_for_a_place() {
        let wire = waits(&[(Cause::Propagation, 20.0), (Cause::Target, 1.0)]);
        let judged = judged(&wire, Some(63.0), &[depth(0.98)]);
        assert_eq!(judged.verdict, Verdict::Bound { bound: depth(0.98) });
        assert!((judged.counts_ns - 0.98 * 42e6).abs() < 1.0, "{judged:?}");
    }

    #[test]
    fn what_waits_in_the_host_behind_a_full_link_waits_for_the_link() {
        let wire = waits(&[(Cause::Propagation, 5.0), (Cause::PathQueue, 15.0)]);
        let judged = judged(&wire, Some(80.0), &[depth(1.0)]);
        let Verdict::Wire { of, cause } = judged.verdict else {
            panic!("{judged:?}");
        };
        assert_eq!((of, cause), (Limit::PathRate, Cause::PathQueue));
        assert!((judged.counts_ns - 60e6).abs() < 1.0, "{judged:?}");
    }

    #[test]
    fn commands_that_fill_their_bound_and_wait_for_nothing_are_what_was_asked_for() {
        let wire = waits(&[(Cause::Propagation, 20.0)]);
        assert_eq!(
            judged(&wire, Some(20.5), &[depth(1.0)]).verdict,
            Verdict::TooFewIos
        );
    }

    #[test]
    fn without_counters_of_the_block_layer_a_full_bound_is_taken_to_be_waited_for() {
        let wire = waits(&[(Cause::Propagation, 20.0)]);
        let full = BoundUse {
            bound: Bound::CommandWindow,
            ..depth(0.9)
        };
        let bounds = [full.clone()];
        assert_eq!(
            judged(&wire, None, &bounds).verdict,
            Verdict::Bound { bound: full }
        );
        assert_eq!(
            judged(&wire, None, &[depth(0.1)]).verdict,
            Verdict::TooFewIos
        );
    }

    #[test]
    fn the_longest_wait_of_its_own_is_named_with_its_cause() {
        let wire = waits(&[
            (Cause::Propagation, 20.0),
            (Cause::Nagle, 5.0),
            (Cause::NagleAgainstDelayedAck, 40.0),
        ]);
        let Verdict::Wire { of, cause } = judged(&wire, None, &[]).verdict else {
            panic!("no limit of the wire");
        };
        assert_eq!((of, cause), (Limit::Stalls, Cause::NagleAgainstDelayedAck));
    }

    #[test]
    fn what_tracepoints_saw_waiting_counts_for_what_it_waited_for() {
        let wire = waits(&[(Cause::Propagation, 20.0)]);
        let waited = |bound, full_share, waited_ms: f64| BoundUse {
            bound,
            commands: 4,
            full_share,
            waited_ns: Some(waited_ms * 1e6),
            blocked_share: 0.0,
        };
        let disk = || "sdb".to_owned();
        // Always reached though nothing waits for it, and rarely reached though much waits for it.
        let depth = waited(Bound::QueueDepth { disk: disk() }, 1.0, 0.0);
        let requests = waited(Bound::Requests { disk: disk() }, 0.4, 40.0);
        let bounds = [requests.clone(), depth];
        let judged = |kept: Kept| {
            judge(&Evidence {
                waits: &wire,
                block_latency_ns: Some(1e9),
                kept: Some(&kept),
                bounds: &bounds,
                outstanding: 4.0,
                scheduler: &[],
            })
        };
        let kept = Kept {
            scheduler_ns: 1e6,
            sending_ns: 2e6,
            completing_ns: 3e6,
            ..Kept::default()
        };
        let found = judged(kept.clone());
        assert_eq!(found.verdict, Verdict::Bound { bound: requests });
        assert!((found.counts_ns - 40e6).abs() < 1.0, "{found:?}");
        assert!((found.latency_ns - 66e6).abs() < 1.0, "{found:?}");
        assert!((found.host_ns - 46e6).abs() < 1.0, "{found:?}");
        let scheduler_ns = 90e6;
        let found = judged(Kept {
            scheduler_ns,
            ..kept
        });
        assert!(
            matches!(found.verdict, Verdict::HostQueue { .. }),
            "{found:?}"
        );
    }

    #[test]
    fn a_dispatched_command_waits_for_what_stops_the_data_before_it() {
        let wire = waits(&[(Cause::Propagation, 100.0), (Cause::CongestionWindow, 20.0)]);
        let depth = |waited_ms: f64| BoundUse {
            bound: Bound::QueueDepth {
                disk: "sdb".to_owned(),
            },
            commands: 4,
            full_share: 1.0,
            waited_ns: Some(waited_ms * 1e6),
            blocked_share: 0.0,
        };
        let judged = |sending_ms: f64, behind_ms: f64, waited_ms: f64| {
            judge(&Evidence {
                waits: &wire,
                block_latency_ns: None,
                kept: Some(&Kept {
                    sending_ns: sending_ms * 1e6,
                    behind_ns: BTreeMap::from([(Cause::CongestionWindow, behind_ms * 1e6)]),
                    ..Kept::default()
                }),
                bounds: &[depth(waited_ms)],
                outstanding: 4.0,
                scheduler: &[],
            })
        };
        let found = judged(50.0, 150.0, 0.0);
        let of = (found.verdict.name(), (found.counts_ns / 1e6).round());
        assert_eq!(of, (Limit::CongestionWindow.name(), 170.0), "{found:?}");
        assert!((found.host_ns - 200e6).abs() < 1.0, "{found:?}");
        let found = judged(200.0, 0.0, 0.0);
        assert_eq!(found.verdict, Verdict::Host);
        assert!((found.host_ns - 200e6).abs() < 1.0, "{found:?}");
        // 170 of the 270 ms for which a slot is held.
        let found = judged(0.0, 150.0, 270.0);
        let of = (found.verdict.name(), (found.counts_ns / 1e6).round());
        assert_eq!(of, (Limit::CongestionWindow.name(), 340.0), "{found:?}");
        assert!((found.latency_ns - 540e6).abs() < 1.0, "{found:?}");
    }

    #[test]
    fn a_program_that_is_blocked_may_have_more_to_ask_for() {
        let wire = waits(&[(Cause::Target, 50.0)]);
        let requests = |blocked_share| BoundUse {
            bound: Bound::Requests {
                disk: "sdb".to_owned(),
            },
            commands: 4,
            full_share: 1.0,
            waited_ns: Some(12.5e6),
            blocked_share,
        };
        let judged = |bounds: &[BoundUse]| {
            judge(&Evidence {
                waits: &wire,
                block_latency_ns: None,
                kept: Some(&Kept::default()),
                bounds,
                outstanding: 4.0,
                scheduler: &[],
            })
        };
        let bound = requests(1.0);
        assert_eq!(
            judged(std::slice::from_ref(&bound)).verdict,
            Verdict::Bound { bound }
        );
        assert_eq!(judged(&[requests(0.1)]).verdict, Verdict::Target);
    }

    #[test]
    fn a_store_that_is_known_is_not_the_path() {
        let wire = waits(&[
            (Cause::Propagation, 10.0),
            (Cause::Target, 1.0),
            (Cause::StoreService, 25.0),
        ]);
        let found = judged(&wire, None, &[]);
        assert_eq!(found.verdict, Verdict::Store);
        assert!((found.counts_ns - 25e6).abs() < 1.0, "{found:?}");
        assert!((found.target_share - 26.0 / 36.0).abs() < 1e-9, "{found:?}");
        let fast = waits(&[(Cause::Propagation, 10.0), (Cause::StoreService, 1.0)]);
        assert_eq!(judged(&fast, None, &[]).verdict, Verdict::TooFewIos);
    }

    #[test]
    fn a_disk_that_is_hardly_used_is_idle() {
        let wire = waits(&[(Cause::Propagation, 20.0), (Cause::Target, 30.0)]);
        let judged = judge(&Evidence {
            waits: &wire,
            block_latency_ns: None,
            kept: None,
            bounds: &[],
            outstanding: 0.1,
            scheduler: &[],
        });
        assert_eq!(judged.verdict, Verdict::Idle);
    }
}
