//! Advice: the best set of settings, built by adding one change at a time.

use std::time::Duration;

use crate::knob::{Setting, is_of_hosts, tries};
use crate::what_if::{MOST_SIMULATED, Prediction, Twin, WhatIf, WhatIfError, changed};

/// Smaller gains are not advised: measurements vary by as much.
const LEAST_GAIN: f64 = 0.05;
/// Maximum number of changes advised together.
const MOST_TOGETHER: usize = 3;
/// Number of sets that are extended: the best one may be a dead end where another with as much gain is not.
const WIDTH: usize = 2;
/// Limit on the simulated time of all runs for each change after the first.
const MOST_FOR_NEXT: Duration = MOST_SIMULATED
    .checked_div(2 * (MOST_TOGETHER as u32 - 1))
    .expect("more than one is advised");

/// Constraints on advised settings.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bounds {
    /// Maximum 99th percentile of latency, in ns.
    pub latency_p99_ns: Option<f64>,
    /// Maximum memory beyond the recording's, at both ends together, in bytes.
    pub memory_bytes: Option<i64>,
}

impl Bounds {
    fn admit(&self, prediction: &Prediction) -> bool {
        let (latency_ns, memory_bytes) = (prediction.latency_p99_ns, prediction.memory_bytes);
        self.latency_p99_ns.is_none_or(|most| latency_ns <= most)
            && self.memory_bytes.is_none_or(|most| memory_bytes <= most)
    }
}

impl Twin {
    /// Adds the best set of settings to `told`, which has the gain of each change alone: the best changes are extended
    /// by the best additional ones as long as that brings a gain. Path, store and load are excluded, since whoever
    /// configures initiator, target and TCP cannot change them. `watch` is as in [`Twin::predict`], for each number of
    /// changes. Returns all sets that keep the bounds and of which each part contributes, best first.
    ///
    /// # Errors
    /// [`WhatIfError`] when the simulation fails.
    pub fn advise(
        &self,
        told: &mut WhatIf,
        bounds: &Bounds,
        watch: &(dyn Fn(usize, usize) -> bool + Sync),
    ) -> Result<Vec<Prediction>, WhatIfError> {
        let mut kept = admitted(&told.predictions, bounds);
        // Each with the sets that it extends, shortest first.
        let mut best = chains(&kept, &[]);
        while let Some(chain) = best.first() {
            if brings(chain, &told.advice) {
                told.advice.clone_from(chain);
            } else if chain.len() > 1 {
                break;
            }
            if chain.len() == MOST_TOGETHER {
                break;
            }
            let mut sets = Vec::new();
            for prediction in best.iter().filter_map(|chain| chain.last()) {
                sets.extend(self.extended(&prediction.change)?);
            }
            let outcome = self.outcome(&sets, MOST_FOR_NEXT, watch)?;
            told.simulated_s += outcome.simulated_s;
            told.shortened.extend(outcome.shortened);
            told.failed.extend(outcome.failed);
            let admitted = admitted(&outcome.predictions, bounds);
            best = chains(&admitted, &best);
            kept.extend(admitted);
        }
        let mut needed: Vec<Prediction> = kept
            .iter()
            .filter(|it| is_more(it.gain.median, 0.0))
            .filter(|it| !kept.iter().any(|other| is_enough(other, it)))
            .cloned()
            .collect();
        needed.sort_by(|a, b| b.gain.median.total_cmp(&a.gain.median));
        Ok(needed)
    }

    /// Extensions of a set by each change worth trying beside it: the values to try depend on earlier changes.
    fn extended(&self, set: &[Setting]) -> Result<Vec<Vec<Setting>>, WhatIfError> {
        let others = tries(&changed(self.setup(), set)?).into_iter();
        let is_new = |name: &str| set.iter().all(|it| it.parameter != name);
        let others = others.filter(|change| {
            let mut settings = change.iter();
            settings.all(|it| is_of_hosts(&it.parameter) && is_new(&it.parameter))
        });
        Ok(others.map(|change| [set, &change].concat()).collect())
    }
}

/// The predictions for settings of hosts that keep the bounds.
fn admitted(predictions: &[Prediction], bounds: &Bounds) -> Vec<Prediction> {
    let of_hosts = |it: &&Prediction| it.change.iter().all(|it| is_of_hosts(&it.parameter));
    let of_hosts = predictions.iter().filter(of_hosts);
    of_hosts.filter(|it| bounds.admit(it)).cloned().collect()
}

/// The best predictions, each appended to the chain of `before` that it extends.
fn chains(predictions: &[Prediction], before: &[Vec<Prediction>]) -> Vec<Vec<Prediction>> {
    let chain = |prediction: &Prediction| {
        let is_part = |chain: &&Vec<Prediction>| {
            let last = chain.last();
            last.is_some_and(|last| prediction.change.starts_with(&last.change))
        };
        let mut chain = before.iter().find(is_part).cloned().unwrap_or_default();
        chain.push(prediction.clone());
        chain
    };
    predictions.iter().take(WIDTH).map(chain).collect()
}

/// Whether a chain has a gain over the advice so far.
fn brings(chain: &[Prediction], advice: &[Prediction]) -> bool {
    let of = |chain: &[Prediction]| chain.last().map_or(0.0, |it| it.gain.median);
    is_more(of(chain), of(advice))
}

/// Whether a part of a set brings as much as all of it.
fn is_enough(part: &Prediction, set: &Prediction) -> bool {
    part.change.len() < set.change.len()
        && part.change.iter().all(|it| set.change.contains(it))
        && !is_more(set.gain.median, part.gain.median)
}

/// Whether a gain is noticeably larger than another.
fn is_more(gain: f64, than: f64) -> bool {
    (1.0 + gain) / (1.0 + than) - 1.0 >= LEAST_GAIN
}
