//! Whether the application keeps a fixed number of I/Os in flight or leaves gaps.

use serde::{Deserialize, Serialize};

use crate::population::Population;
use crate::window::Window;

/// A load is pinned at its maximum if its mean in flight is at least this share of it.
const PINNED_RATIO: f64 = 0.9;
/// In a closed loop the median submission follows the latest completion within this share of the mean time between
/// submissions.
const GAP_RATIO: f64 = 0.2;
/// A batch load submits its number of batches times the maximum in flight, within this share.
const BATCH_TOLERANCE: f64 = 0.1;
/// Start-up distinguishes open from closed loops only if the median latency is at least this.
const TELLING_LATENCY_NS: u64 = 1_000_000;

/// How one session's application submits I/Os.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoadUse {
    /// Mean over maximum number in flight at the top layer, 0 to 1.
    pub pinned_ratio: f64,
    /// Median time from the latest completion to a submission, over the mean time between
    /// submissions.
    pub gap_ratio: f64,
    /// Whether the submissions' delay after the latest completion varies no more than their offset from a clock of
    /// their mean rate.
    pub follows_completions: bool,
    /// Whether the load is a closed loop pinned at its maximum: each completion is followed at
    /// once by the next submission.
    pub closed_loop: bool,
    /// Whether the load submits batches of its maximum in flight, each when all I/Os of the previous one have
    /// completed.
    pub batches: bool,
}

impl LoadUse {
    /// Whether it has its maximum in flight nearly all of the time.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.pinned_ratio >= PINNED_RATIO
    }

    /// Whether the typical submission comes soon after a completion.
    #[must_use]
    pub fn is_prompt(&self) -> bool {
        self.gap_ratio <= GAP_RATIO
    }
}

/// How a session submits, from the submission and completion times of its I/Os. `has_begin` says whether they include
/// the first I/Os of the load, rather than start in its middle as in a capture.
#[must_use]
pub fn load_use(spans_ns: &[(u64, u64)], window: Window, has_begin: bool) -> LoadUse {
    let population = Population::of(spans_ns.iter().copied());
    let times = Times::of(spans_ns);
    let most = population.max(window);
    let mut gaps_ns = gaps_ns(&times, window);
    let mut load = LoadUse {
        pinned_ratio: population.mean(window) / most.max(1) as f64,
        gap_ratio: gap_ratio(&mut gaps_ns, window),
        follows_completions: follows_completions(&times, &gaps_ns, window),
        closed_loop: false,
        batches: false,
    };
    let follows = match has_begin {
        true => began_at_once(spans_ns, &population, most),
        // A running closed loop whose I/Os are spread out looks like a paced load that starts.
        false => load.follows_completions,
    };
    load.closed_loop = most > 0 && load.is_pinned() && load.is_prompt() && follows;
    load.batches = load.is_prompt() && in_batches(&times, most, window);
    load
}

/// Submission and completion times of I/Os, each sorted.
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
            // All earlier I/Os have completed.
            let all_done = before == 0 || completed_ns[before - 1] <= time_ns;
            batches += u64::from(all_done);
        }
    }
    let expected = (batches * most) as f64;
    most > 1 && batches > 1 && (expected - ios as f64).abs() <= BATCH_TOLERANCE * ios as f64
}

/// The times from the latest completion to each submission that has one before it.
fn gaps_ns(times: &Times, window: Window) -> Vec<u64> {
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
    gaps_ns
}

/// See [`LoadUse::gap_ratio`]; infinite when nothing was submitted after a completion.
fn gap_ratio(gaps_ns: &mut [u64], window: Window) -> f64 {
    let Some(median_ns) = median(gaps_ns) else {
        return f64::INFINITY;
    };
    let between_ns = window.length_ns() as f64 / gaps_ns.len() as f64;
    median_ns as f64 / between_ns
}

/// See [`LoadUse::follows_completions`]; false if undetermined.
fn follows_completions(times: &Times, gaps_ns: &[u64], window: Window) -> bool {
    let submitted = times.submitted_ns.iter().copied();
    let submitted_ns: Vec<u64> = submitted.filter(|&ns| window.contains(ns)).collect();
    let (Some(&first_ns), Some(&last_ns)) = (submitted_ns.first(), submitted_ns.last()) else {
        return false;
    };
    let ticks = submitted_ns.len().saturating_sub(1).max(1) as f64;
    let tick_ns = (last_ns - first_ns) as f64 / ticks;
    let off_clock_ns = submitted_ns.iter().zip(0_u64..).map(|(&ns, place)| {
        // Shifted by the whole duration so that none is negative.
        let due_ns = first_ns + (tick_ns * place as f64) as u64;
        (ns + (last_ns - first_ns)).saturating_sub(due_ns)
    });
    let by_clock_ns = spread_ns(off_clock_ns.collect());
    let by_completions_ns = spread_ns(gaps_ns.to_vec());
    by_completions_ns
        .zip(by_clock_ns)
        .is_some_and(|(by_completions, by_clock)| by_completions <= by_clock)
}

/// The median absolute deviation; `None` if empty.
fn spread_ns(mut all_ns: Vec<u64>) -> Option<u64> {
    let middle_ns = median(&mut all_ns)?;
    for ns in &mut all_ns {
        *ns = ns.abs_diff(middle_ns);
    }
    median(&mut all_ns)
}

fn median(all_ns: &mut [u64]) -> Option<u64> {
    let middle = all_ns.len() / 2;
    (!all_ns.is_empty()).then(|| *all_ns.select_nth_unstable(middle).1)
}

/// Whether the load first went from a quarter to three quarters of its maximum in flight within a fifth of the median
/// latency, as a closed loop does. A paced load takes half the latency, so this detects one whose pace happens to fall
/// just behind its completions. One I/O at a time does not count: that is session setup. True if the start is
/// inconclusive.
fn began_at_once(spans_ns: &[(u64, u64)], population: &Population, most: u64) -> bool {
    let mut latencies_ns: Vec<u64> = spans_ns.iter().map(|span| span.1 - span.0).collect();
    let Some(latency_ns) = median(&mut latencies_ns) else {
        return true;
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY_NS: u64 = 20_000_000;
    const ALL: Window = Window {
        from_ns: LATENCY_NS,
        to_ns: 1_000_000_000,
    };

    /// A pseudo-random number for `place`, below `bound`.
    fn scattered(place: u64, bound: u64) -> u64 {
        (place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) % bound
    }

    /// Eight in flight from before the capture began: each completion is followed by the next submission.
    fn closed(first_ns: [u64; 8], gap_ns: u64) -> Vec<(u64, u64)> {
        let mut spans = Vec::new();
        for (slot, mut from_ns) in (0..).zip(first_ns) {
            while from_ns < ALL.to_ns {
                let to_ns = from_ns + LATENCY_NS + scattered(from_ns, 30_000);
                spans.push((from_ns, to_ns));
                from_ns = to_ns + gap_ns + scattered(to_ns + slot, 20_000);
            }
        }
        spans
    }

    /// One I/O per interval, by a timer.
    fn paced(interval_ns: u64) -> Vec<(u64, u64)> {
        let places = 0..ALL.to_ns / interval_ns;
        let each = places.map(|place| {
            let from_ns = place * interval_ns + scattered(place, 60_000);
            (from_ns, from_ns + LATENCY_NS + scattered(from_ns, 30_000))
        });
        each.collect()
    }

    const APART_NS: [u64; 8] = [
        0, 2_100_000, 5_300_000, 7_100_000, 9_900_000, 12_800_000, 15_100_000, 18_000_000,
    ];

    #[test]
    fn a_closed_loop_is_one_wherever_its_capture_begins() {
        let together = [0, 1, 2, 3, 4, 5, 6, 7].map(|place| place * 15_000);
        for first_ns in [APART_NS, together] {
            let load = load_use(&closed(first_ns, 30_000), ALL, false);
            assert!(load.closed_loop, "{first_ns:?}: {load:?}");
        }
    }

    #[test]
    fn a_pace_just_behind_its_completions_is_no_closed_loop() {
        // Each I/O comes 1 % of the latency after the one eight before it has completed.
        let load = load_use(&paced(LATENCY_NS * 101 / 800), ALL, false);
        assert!(load.gap_ratio <= GAP_RATIO && load.is_pinned(), "{load:?}");
        assert!(!load.closed_loop && !load.follows_completions, "{load:?}");
    }

    #[test]
    fn a_load_that_waits_after_its_completions_follows_them() {
        let load = load_use(&closed(APART_NS, 900_000), ALL, false);
        assert!(load.gap_ratio > GAP_RATIO && load.is_pinned(), "{load:?}");
        assert!(!load.closed_loop && load.follows_completions, "{load:?}");
    }
}
