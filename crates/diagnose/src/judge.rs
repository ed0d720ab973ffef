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
}

/// What is known of a session's I/Os.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence<'a> {
    /// What they waited for from when their commands were sent.
    pub waits: &'a WaitUse,
    /// Their mean latency at the block layer, where it has counters of them.
    pub block_latency_ns: Option<f64>,
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
    /// What nothing that was seen tells.
    Unknown,
    /// Nothing: they cross the path and are served, and whoever asks does not ask for more.
    TooFewIos,
    /// Hardly any I/O is in flight.
    Idle,
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
    let Evidence { waits, bounds, .. } = evidence;
    let wire_ns = waits.latency_ns;
    let latency_ns = evidence
        .block_latency_ns
        .map_or(wire_ns, |ns| ns.max(wire_ns));
    let host_ns = latency_ns - wire_ns;
    let judged = |verdict, counts_ns| Judgement {
        verdict,
        counts_ns,
        latency_ns,
        host_ns,
        target_share: waits.mean_ns(Cause::Target) / wire_ns.max(1.0),
    };
    let per_wire_ns = host_ns / wire_ns.max(1.0);
    let of = |limit: Limit| waits.share(limit) * wire_ns;
    let shared_ns: f64 = SHARED.into_iter().map(of).sum();
    let apart_ns = (wire_ns - shared_ns).max(0.0);
    let target_ns = waits.mean_ns(Cause::Target);
    let crossing_ns = of(Limit::TooFewIos);
    // Of those that are equally full, the one that bounds the others: the last.
    let fullest = bounds
        .iter()
        .max_by(|one, other| one.full_share.total_cmp(&other.full_share));

    let mut counted: Vec<(Verdict, f64)> = Vec::new();
    for limit in SHARED {
        let counts_ns = of(limit) * (1.0 + per_wire_ns);
        counted.push((wire(waits, limit), counts_ns));
    }
    counted.extend(OWN.map(|limit| (wire(waits, limit), of(limit))));
    counted.push((Verdict::Target, target_ns));
    counted.push((Verdict::Unknown, waits.mean_ns(Cause::Unknown)));
    // What waits for a bound that nobody counts waiters of: as many may wait as are let out.
    let is_counted =
        |bound: &Bound| evidence.block_latency_ns.is_some() && *bound != Bound::SessionCommands;
    let uncounted_ns = match fullest {
        Some(full) if !is_counted(&full.bound) => full.full_share * (crossing_ns + target_ns),
        _ => 0.0,
    };
    // While the bound was not full, the host kept them for something else.
    let (waiting_ns, full_share) = (
        per_wire_ns * apart_ns,
        fullest.map_or(0.0, |full| full.full_share),
    );
    let scheduler = evidence.scheduler.to_vec();
    let kept_ns = waiting_ns * (1.0 - full_share);
    counted.push((Verdict::HostQueue { scheduler }, kept_ns));
    if let Some(bound) = fullest {
        let bound = bound.clone();
        let bound_ns = waiting_ns * full_share + uncounted_ns;
        counted.push((Verdict::Bound { bound }, bound_ns));
    }
    counted.push((
        Verdict::TooFewIos,
        crossing_ns - uncounted_ns.min(crossing_ns),
    ));
    let most = counted
        .into_iter()
        .max_by(|(_, one_ns), (_, other_ns)| one_ns.total_cmp(other_ns));
    let (verdict, counts_ns) = most.unwrap_or((Verdict::TooFewIos, 0.0));
    let is_idle = evidence.outstanding < IDLE && host_ns < wire_ns;
    match verdict {
        Verdict::TooFewIos | Verdict::Target | Verdict::Unknown if is_idle => {
            judged(Verdict::Idle, latency_ns)
        }
        verdict => judged(verdict, counts_ns),
    }
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
        }
    }

    fn judged(waits: &WaitUse, block_ms: Option<f64>, bounds: &[BoundUse]) -> Judgement {
        judge(&Evidence {
            waits,
            block_latency_ns: block_ms.map(|ms| ms * 1e6),
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
    fn a_disk_that_is_hardly_used_is_idle() {
        let wire = waits(&[(Cause::Propagation, 20.0), (Cause::Target, 30.0)]);
        let judged = judge(&Evidence {
            waits: &wire,
            block_latency_ns: None,
            bounds: &[],
            outstanding: 0.1,
            scheduler: &[],
        });
        assert_eq!(judged.verdict, Verdict::Idle);
    }
}
