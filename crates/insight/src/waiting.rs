//! Where the latency goes: the time between layers on the way down, in the last layer, and
//! between layers on the way up.
//!
//! For an I/O that passed the layers A, B, …, Z, the parts
//! (enter A → enter B) + … + (enter Z → leave Z) + … + (leave B → leave A) are its latency, exactly.

use wansan_trace::Layer;

use crate::join::{LAYERS, Task};

/// A time per layer.
pub(crate) type PerLayer = [u64; LAYERS];

/// The parts of one I/O's latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    /// The highest layer.
    pub(crate) top: Layer,
    /// From entering the layer above to entering this one.
    pub(crate) way_in_ns: PerLayer,
    /// From leaving this layer to leaving the one above.
    pub(crate) way_out_ns: PerLayer,
    /// The layers that it passed.
    pub(crate) passed: [bool; LAYERS],
    /// The last layer, and the time in it.
    pub(crate) last: (Layer, u64),
    /// The total latency.
    pub(crate) latency_ns: u64,
}

impl Parts {
    /// The parts of an I/O; `None` if a crossing of a layer that it passed is missing.
    ///
    /// A response of several PDUs may reach the initiator before its last PDU is queued, and threads record crossings
    /// slightly late. So an exit counts as no earlier than the exits below it, and an entry as no earlier than the
    /// entries above it: the parts always add up.
    pub(crate) fn of(task: &Task, layers: &[Layer]) -> Option<Parts> {
        let top = *layers.first()?;
        let (top_enter_ns, top_leave_ns) = task.both_ns(top)?;
        let top_leave_ns = top_leave_ns.max(top_enter_ns);
        let mut parts = Parts {
            top,
            way_in_ns: [0; LAYERS],
            way_out_ns: [0; LAYERS],
            passed: [false; LAYERS],
            last: (top, 0),
            latency_ns: top_leave_ns - top_enter_ns,
        };
        let mut above_enter_ns = top_enter_ns;
        for &layer in layers.iter().filter(|layer| task.passed(**layer)) {
            let (enter_ns, _) = task.both_ns(layer)?;
            let enter_ns = enter_ns.clamp(above_enter_ns, top_leave_ns);
            parts.passed[layer.depth()] = true;
            parts.way_in_ns[layer.depth()] = enter_ns - above_enter_ns;
            parts.last.0 = layer;
            above_enter_ns = enter_ns;
        }
        let mut below: Option<(Layer, u64)> = None;
        for &layer in layers.iter().rev().filter(|layer| task.passed(**layer)) {
            let (_, leave_ns) = task.both_ns(layer)?;
            let least_ns = below.map_or(above_enter_ns, |(_, leave_ns)| leave_ns);
            let leave_ns = leave_ns.clamp(least_ns, top_leave_ns);
            match below {
                Some((below, below_leave_ns)) => {
                    parts.way_out_ns[below.depth()] = leave_ns - below_leave_ns;
                }
                None => parts.last.1 = leave_ns - above_enter_ns,
            }
            below = Some((layer, leave_ns));
        }
        Some(parts)
    }
}

/// Sums over many I/Os, in nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Sums {
    /// Number of I/Os.
    pub(crate) ios: u64,
    /// Sum of their latencies.
    pub(crate) latency_ns: u128,
    /// [`Parts::way_in_ns`].
    pub(crate) way_in_ns: [u128; LAYERS],
    /// [`Parts::way_out_ns`].
    pub(crate) way_out_ns: [u128; LAYERS],
    /// Time in the layer of I/Os that went no deeper.
    pub(crate) last_ns: [u128; LAYERS],
}

impl Sums {
    /// The sums of no I/Os.
    pub(crate) const NONE: Sums = Sums {
        ios: 0,
        latency_ns: 0,
        way_in_ns: [0; LAYERS],
        way_out_ns: [0; LAYERS],
        last_ns: [0; LAYERS],
    };

    /// Adds an I/O.
    pub(crate) fn add(&mut self, parts: &Parts) {
        self.ios += 1;
        self.latency_ns += u128::from(parts.latency_ns);
        for depth in (0..LAYERS).filter(|&depth| parts.passed[depth]) {
            self.way_in_ns[depth] += u128::from(parts.way_in_ns[depth]);
            self.way_out_ns[depth] += u128::from(parts.way_out_ns[depth]);
        }
        let (layer, ns) = parts.last;
        self.last_ns[layer.depth()] += u128::from(ns);
    }

    /// Adds the sums of another session.
    pub(crate) fn merge(&mut self, other: &Sums) {
        self.ios += other.ios;
        self.latency_ns += other.latency_ns;
        for depth in 0..LAYERS {
            self.way_in_ns[depth] += other.way_in_ns[depth];
            self.way_out_ns[depth] += other.way_out_ns[depth];
            self.last_ns[depth] += other.last_ns[depth];
        }
    }
}
