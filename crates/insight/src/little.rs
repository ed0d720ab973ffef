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
    let (mut area_ns, mut left, mut inside_ns) = (0.0, 0.0, 0.0);
    let (mut at_from, mut at_to, mut longest_ns) = (0.0, 0.0, 0u64);
    for task in tasks {
        let Some((enter_ns, leave_ns)) = task.span_ns(layer, joined.records) else {
            continue;
        };
        let weight = joined.weights.of_session(task.session);
        area_ns += weight * window.overlap_ns(enter_ns, leave_ns) as f64;
        // An I/O that leaves exactly at `from` counts as left, with all its time before the window.
        if enter_ns < window.from_ns && leave_ns >= window.from_ns {
            at_from += weight;
        }
        if enter_ns < window.to_ns && leave_ns > window.to_ns {
            at_to += weight;
        }
        if let Some((enter_ns, leave_ns)) = task.both_ns(layer) {
            let stay_ns = leave_ns.saturating_sub(enter_ns);
            longest_ns = longest_ns.max(stay_ns);
            if window.contains(leave_ns) {
                left += weight;
                inside_ns += weight * stay_ns as f64;
            }
        }
    }
    let length_ns = window.length_ns().max(1) as f64;
    let in_flight_mean = area_ns / length_ns;
    let product = inside_ns / length_ns;
    let edges = f64::max(at_from, at_to) * longest_ns as f64 / length_ns;
    let tolerance = edges + TOLERANCE * in_flight_mean;
    LittleCheck {
        in_flight_mean,
        left_per_s: left * 1e9 / length_ns,
        inside_mean_ns: inside_ns / f64::max(left, 1.0),
        tolerance,
        agrees: (in_flight_mean - product).abs() <= tolerance,
    }
}
