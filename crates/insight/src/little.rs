//! Little's law: mean in flight = throughput × mean time inside (N = X·W).

use serde::{Deserialize, Serialize};

use crate::join::{Joined, Task};
use crate::window::Window;
use wansan_trace::Layer;

/// Relative tolerance of the check, on top of what the window's edges explain.
const TOLERANCE: f64 = 0.01;

/// The check of one layer in one window.
///
/// N is the mean of the step function, which includes I/Os only partly in the window; X and W are of the I/Os that left
/// the layer in it. N and X·W can differ by at most max(n(from), n(to)) · W_max ÷ length, where n is the number in
/// flight at the window's edges. A difference above that plus 1 % of N means that crossings were lost or clocks
/// disagree.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LittleCheck {
    /// N: mean in flight.
    pub in_flight_mean: f64,
    /// X: I/Os that left the layer, per second.
    pub left_per_s: f64,
    /// W: their mean time inside.
    pub inside_mean_ns: f64,
    /// Maximum difference between N and X·W.
    pub tolerance: f64,
    /// Whether the difference is within the tolerance.
    pub agrees: bool,
}

/// Checks the law at `layer` for `tasks`.
#[must_use]
pub fn check<'t>(
    tasks: impl Iterator<Item = &'t Task>,
    layer: Layer,
    joined: &Joined,
    window: Window,
) -> LittleCheck {
    let mut area_ns: u128 = 0;
    let (mut left, mut inside_ns, mut longest_ns) = (0u64, 0u128, 0u64);
    let (mut at_from, mut at_to) = (0u64, 0u64);
    for task in tasks {
        let Some((enter_ns, leave_ns)) = task.span_ns(layer, joined.records) else {
            continue;
        };
        area_ns += u128::from(window.overlap_ns(enter_ns, leave_ns));
        // An I/O that leaves exactly at `from` counts as left, with all its time before the window.
        at_from += u64::from(enter_ns < window.from_ns && leave_ns >= window.from_ns);
        at_to += u64::from(enter_ns < window.to_ns && leave_ns > window.to_ns);
        if let Some((enter_ns, leave_ns)) = task.both_ns(layer) {
            longest_ns = longest_ns.max(leave_ns.saturating_sub(enter_ns));
            if window.contains(leave_ns) {
                left += 1;
                inside_ns += u128::from(leave_ns.saturating_sub(enter_ns));
            }
        }
    }
    // What one I/O counts for.
    let share = joined.weight / window.length_ns().max(1) as f64;
    let in_flight_mean = area_ns as f64 * share;
    let product = inside_ns as f64 * share;
    let edges = at_from.max(at_to) as f64 * longest_ns as f64 * share;
    let tolerance = edges + TOLERANCE * in_flight_mean;
    LittleCheck {
        in_flight_mean,
        left_per_s: left as f64 * 1e9 * share,
        inside_mean_ns: inside_ns as f64 / left.max(1) as f64,
        tolerance,
        agrees: (in_flight_mean - product).abs() <= tolerance,
    }
}
