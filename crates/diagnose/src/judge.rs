//! What holds the I/Os of a session back, by accounting.
//!
//! The latency of an I/O is what the host keeps it for before its command is sent, and what it takes from there, by the
//! ledger of waits that packets show. A place that I/Os wait for in the host becomes free when an earlier I/O ends, so the
//! time in the host is what those earlier I/Os were waiting for: it counts for the resources that these waited for (a full
//! link, a window) in their share, and only the rest, in which the earlier I/Os crossed the path and were served beside
//! each other, for the bound on how many there may be. What counts for most is the limit.

use serde::Serialize;
use wansan_insight::cause::{Cause, Limit};
use wansan_insight::ledger::WaitUse;

/// What bounds how many commands are outstanding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "bound", rename_all = "snake_case")]
pub enum Bound {
    /// The SCSI layer's queue depth of one disk.
    QueueDepth {
        /// Its name.
        disk: String,
    },
    /// The requests that the queue of one disk holds (`nr_requests`).
    Requests {
        /// Its name.
        disk: String,
    },
    /// The slots that the initiator has for commands of a session (open-iscsi's `cmds_max`).
    SessionCommands,
    /// The target's command window, MaxCmdSN.
    CommandWindow,
}

/// A bound, and how it is used.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BoundUse {
    /// Which.
    #[serde(flatten)]
    pub bound: Bound,
    /// So many commands at most.
    pub commands: u64,
    /// The share of the time in which so many were outstanding, 0 to 1.
    pub full_share: f64,
    /// What I/Os waited for it, as a mean over all of the session, in ns; `None` where no tracepoint tells.
    pub waited_ns: Option<f64>,
    /// The share of the time in which a program was blocked by it, whose further I/Os nobody counts, 0 to 1.
    pub blocked_share: f64,
}

/// What the host was seen to keep I/Os for, beside bounds, as means over all of a session, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Kept {
    /// In queues of disks with nothing full.
    pub scheduler_ns: f64,
    /// From when the SCSI layer had the command to when it was sent.
    pub sending_ns: f64,
    /// From when the answer had come to when the request was complete.
    pub completing_ns: f64,
}

impl Kept {
    /// What the initiator's own layers took for it.
    #[must_use]
    pub fn own_ns(&self) -> f64 {
        self.sending_ns + self.completing_ns
    }
}

/// What is known of a session's I/Os.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence<'a> {
    /// What they waited for from when their commands were sent.
    pub waits: &'a WaitUse,
    /// Their mean latency at the block layer, where it has counters of them.
    pub block_latency_ns: Option<f64>,
    /// What the host kept them for, where tracepoints tell: then each bound has what waited for it, too.
    pub kept: Option<Kept>,
    /// What bounds how many are outstanding, each of which may bound those before it.
    pub bounds: &'a [BoundUse],
    /// How many were outstanding, as a mean over the time.
    pub outstanding: f64,
    /// The disks, and the I/O scheduler of each.
    pub scheduler: &'a [(String, String)],
}

/// What holds the I/Os back.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "limit", rename_all = "snake_case")]
pub enum Verdict {
    /// Too few commands may be outstanding.
    Bound {
        /// What bounds them.
        bound: BoundUse,
    },
    /// The host keeps them although there are slots: in an I/O scheduler, or a queue of its own.
    HostQueue {
        /// The disks, and the scheduler of each.
        scheduler: Vec<(String, String)>,
    },
    /// The host's own layers have them: from the SCSI layer to the wire, and from there to the end of the request.
    Host,
    /// One of those that packets show.
    Wire {
        /// Which.
        of: Limit,
        /// The cause of the longest of its waits.
        #[serde(skip)]
        cause: Cause,
    },
    /// The target has them for most of the time.
    Target,
    /// The target's store has them, as its kernel tells.
    Store,
    /// What nothing that was seen tells.
    Unknown,
    /// Nothing: they cross the path and are served, and whoever asks does not ask for more.
    TooFewIos,
    /// Hardly any I/O is in flight.
    Idle,
}

impl Verdict {
    /// The name of the limit, without what it is of.
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

/// What holds the I/Os back, and how much of their latency counts for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// What.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// As a mean over the I/Os, in ns.
    pub counts_ns: f64,
    /// Their latency, from the block layer where that is known.
    pub latency_ns: f64,
    /// What of it passed in the host before their commands were sent.
    pub host_ns: f64,
    /// The share of what they take from there on that passes at the target, 0 to 1.
    pub target_share: f64,
}

/// With fewer outstanding on average, it is the application that leaves the disk idle.
const IDLE: f64 = 0.5;

/// Limits that I/Os share: while one waits for them, others wait behind it.
const SHARED: [Limit; 7] = [
    Limit::Store,
    Limit::PathRate,
    Limit::Encryption,
    Limit::ReceiveWindow,
    Limit::SendBuffer,
    Limit::CongestionWindow,
    Limit::Processor,
];

/// Waits of each I/O by itself that something other than more I/Os would shorten.
const OWN: [Limit; 3] = [Limit::R2tRoundTrips, Limit::Stalls, Limit::RouteLockstep];

/// Judges by the evidence.
#[must_use]
pub fn judge(evidence: &Evidence<'_>) -> Judgement {
    let waits = evidence.waits;
    let wire_ns = waits.latency_ns;
    let waiting = waiting(evidence);
    let own_ns = evidence.kept.map_or(0.0, |kept| kept.own_ns());
    let host_ns = waiting.all_ns() + own_ns;
    let store_ns = waits.mean_ns(Cause::StoreService) + waits.mean_ns(Cause::StoreQueue);
    let target_ns = waits.mean_ns(Cause::Target);
    let judged = |verdict, counts_ns| Judgement {
        verdict,
        counts_ns,
        latency_ns: host_ns + wire_ns,
        host_ns,
        target_share: (target_ns + store_ns) / wire_ns.max(1.0),
    };
    let per_wire_ns = waiting.all_ns() / wire_ns.max(1.0);
    let of = |limit: Limit| waits.share(limit) * wire_ns;
    let shared_ns: f64 = SHARED.into_iter().map(of).sum();
    let apart = ((wire_ns - shared_ns) / wire_ns.max(1.0)).max(0.0);
    let served_ns = waits.mean_ns(Cause::StoreService);
    let crossing_ns = (of(Limit::TooFewIos) - served_ns).max(0.0);

    let mut counted: Vec<(Verdict, f64)> = Vec::new();
    for limit in SHARED {
        let counts_ns = of(limit) * (1.0 + per_wire_ns);
        counted.push(match limit {
            Limit::Store => (Verdict::Store, counts_ns + served_ns),
            limit => (wire(waits, limit), counts_ns),
        });
    }
    counted.extend(OWN.map(|limit| (wire(waits, limit), of(limit))));
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
        // As many may wait as are let out.
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

/// What I/Os waited for in the host's queues.
struct Waiting<'a> {
    bounds: Vec<Waiters<'a>>,
    scheduler_ns: f64,
}

/// Those that waited for a bound.
struct Waiters<'a> {
    bound: &'a BoundUse,
    /// What they waited, as a mean over all I/Os.
    counted_ns: f64,
    /// The share of the time in which others may have waited whom nobody counts.
    uncounted_share: f64,
}

/// As tracepoints tell of each I/O; else what the block layer's counters have more than packets, for the fullest bound
/// while that was full.
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
        // The slots of a session and what programs of their own have: nobody counts who waits for them.
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

/// Of those that are equally full, the one that bounds the others: the last.
fn fullest(bounds: &[BoundUse]) -> Option<&BoundUse> {
    bounds
        .iter()
        .max_by(|one, other| one.full_share.total_cmp(&other.full_share))
}

/// A limit that packets show, with the cause of its longest waits.
fn wire(waits: &WaitUse, of: Limit) -> Verdict {
    let causes = Cause::ALL.into_iter().filter(|cause| cause.limit() == of);
    let longest = causes.max_by(|one, other| waits.mean_ns(*one).total_cmp(&waits.mean_ns(*other)));
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
        // Full though nobody waits for it, and hardly ever full though much waits for it.
        let depth = waited(Bound::QueueDepth { disk: disk() }, 1.0, 0.0);
        let requests = waited(Bound::Requests { disk: disk() }, 0.4, 40.0);
        let bounds = [requests.clone(), depth];
        let judged = |kept: Kept| {
            judge(&Evidence {
                waits: &wire,
                block_latency_ns: Some(1e9),
                kept: Some(kept),
                bounds: &bounds,
                outstanding: 4.0,
                scheduler: &[],
            })
        };
        let kept = Kept {
            scheduler_ns: 1e6,
            sending_ns: 2e6,
            completing_ns: 3e6,
        };
        let found = judged(kept);
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
                kept: Some(Kept::default()),
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
