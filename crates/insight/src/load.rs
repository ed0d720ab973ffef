//! Whether the application keeps a fixed number of I/Os in flight or leaves gaps of its own.

use serde::{Deserialize, Serialize};

use crate::population::Population;
use crate::window::Window;

/// The mean in flight of a load that is pinned at its maximum is at least this share of it.
const PINNED_RATIO: f64 = 0.9;
/// In a closed loop the typical submission follows the latest completion within this share of the
/// mean time between submissions.
const GAP_RATIO: f64 = 0.2;
/// A load that asks in batches submits as many I/Os as it has batches of the most in flight, but for
/// this share.
const BATCH_TOLERANCE: f64 = 0.1;
/// Start-up tells open from closed loops only when the first I/O takes this long.
const TELLING_LATENCY_NS: u64 = 1_000_000;

/// How one session's application submits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoadUse {
    /// Mean in flight at the top layer over the most in flight there, 0 to 1.
    pub pinned_ratio: f64,
    /// Median time from the latest completion to a submission, over the mean time between
    /// submissions.
    pub gap_ratio: f64,
    /// Whether the load is a closed loop pinned at its maximum: each completion is followed at
    /// once by the next submission.
    pub closed_loop: bool,
    /// Whether the load asks for as many as it ever has in flight at once, and for the next when all
    /// of these are done.
    pub batches: bool,
}

/// How a session submits, from when each of its I/Os was submitted and completed.
#[must_use]
pub fn load_use(spans_ns: &[(u64, u64)], window: Window) -> LoadUse {
    let population = Population::of(spans_ns.iter().copied());
    let times = Times::of(spans_ns);
    let most = population.max(window);
    let pinned_ratio = population.mean(window) / most.max(1) as f64;
    let gap_ratio = gap_ratio(&times, window);
    let closed_loop = most > 0
        && pinned_ratio >= PINNED_RATIO
        && gap_ratio <= GAP_RATIO
        && began_at_once(spans_ns, &population, most);
    LoadUse {
        pinned_ratio,
        gap_ratio,
        closed_loop,
        batches: gap_ratio <= GAP_RATIO && in_batches(&times, most, window),
    }
}

/// When I/Os were submitted, and when completed, each by time.
struct Times {
    submitted_ns: Vec<u64>,
    completed_ns: Vec<u64>,
}

impl Times {
    fn of(spans_ns: &[(u64, u64)]) -> Times {
        let (mut submitted_ns, mut completed_ns): (Vec<u64>, Vec<u64>) =
            spans_ns.iter().copied().unzip();
        submitted_ns.sort_unstable();
        completed_ns.sort_unstable();
        Times {
            submitted_ns,
            completed_ns,
        }
    }
}

/// Whether I/Os are submitted `most` at a time, each time when none is in flight.
fn in_batches(times: &Times, most: u64, window: Window) -> bool {
    let Times {
        submitted_ns,
        completed_ns,
    } = times;
    let (mut ios, mut batches) = (0_u64, 0_u64);
    for (before, &time_ns) in submitted_ns.iter().enumerate() {
        if window.contains(time_ns) {
            ios += 1;
            // All that were submitted before are done.
            let all_done = before == 0 || completed_ns[before - 1] <= time_ns;
            batches += u64::from(all_done);
        }
    }
    let expected = (batches * most) as f64;
    most > 1 && batches > 1 && (expected - ios as f64).abs() <= BATCH_TOLERANCE * ios as f64
}

/// See [`LoadUse::gap_ratio`]; infinite when nothing was submitted after a completion.
fn gap_ratio(times: &Times, window: Window) -> f64 {
    let Times {
        submitted_ns,
        completed_ns,
    } = times;
    let mut completed = 0;
    let mut gaps_ns = Vec::new();
    for &time_ns in submitted_ns.iter().filter(|&&ns| window.contains(ns)) {
        while completed_ns.get(completed).is_some_and(|&ns| ns <= time_ns) {
            completed += 1;
        }
        if completed > 0 {
            gaps_ns.push(time_ns - completed_ns[completed - 1]);
        }
    }
    if gaps_ns.is_empty() {
        return f64::INFINITY;
    }
    let between_ns = window.length_ns() as f64 / gaps_ns.len() as f64;
    let middle = gaps_ns.len() / 2;
    let (_, median_ns, _) = gaps_ns.select_nth_unstable(middle);
    *median_ns as f64 / between_ns
}

/// Whether the load first came from a quarter to three quarters of its number in flight in less
/// than a fifth of the typical latency, as a closed loop does. A paced load needs half of the
/// latency, so this tells one whose pace happens to fall just behind its completions. One I/O at
/// a time does not count: that is how a session is set up. True when the start does not tell.
fn began_at_once(spans_ns: &[(u64, u64)], population: &Population, most: u64) -> bool {
    let mut latencies_ns: Vec<u64> = spans_ns.iter().map(|span| span.1 - span.0).collect();
    if latencies_ns.is_empty() {
        return true;
    }
    let middle = latencies_ns.len() / 2;
    let (_, &mut latency_ns, _) = latencies_ns.select_nth_unstable(middle);
    let (quarter, most_of_it) = (most.div_ceil(4).max(2), (most * 3).div_ceil(4));
    if latency_ns < TELLING_LATENCY_NS || most_of_it <= quarter {
        return true;
    }
    let everything = Window {
        from_ns: 0,
        to_ns: u64::MAX,
    };
    let reached = |count: u64| {
        let step = population
            .steps(everything)
            .find(|step| step.count >= count);
        step.map(|step| step.from_ns)
    };
    match (reached(quarter), reached(most_of_it)) {
        (Some(quarter_ns), Some(most_ns)) => most_ns - quarter_ns <= latency_ns / 5,
        _ => true,
    }
}
