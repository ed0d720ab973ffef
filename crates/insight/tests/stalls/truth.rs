//! The model's record of its own waits.

use std::collections::BTreeMap;

use wansan_insight::stall::{Cause, Stall};
use wansan_trace::TaskTag;

/// A wait that the model imposed on an I/O.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) task: TaskTag,
    /// The causes; several if each alone was sufficient.
    pub(crate) causes: Vec<Cause>,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    /// Whether it must be found; otherwise it may be.
    pub(crate) is_owed: bool,
}

impl Wait {
    pub(crate) fn cost_ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }
}

/// The finder's results in a cell.
#[derive(Debug, Default)]
pub(crate) struct Score {
    /// Waits long enough to be found.
    pub(crate) known: usize,
    /// Those that were not found, in words.
    pub(crate) missed: Vec<String>,
    /// Stalls that were found wrongly, in words.
    pub(crate) wrong: Vec<String>,
    /// Known waits by their first cause.
    pub(crate) by_cause: BTreeMap<&'static str, usize>,
}

impl Score {
    /// Compares the stalls found with the known waits. Waits shorter than `least_ns` may be found but need not be. A
    /// stall must match in time to within `slack_ns`.
    pub(crate) fn of(known: &[Wait], found: &[Stall], least_ns: u64, slack_ns: u64) -> Score {
        let mut score = Score::default();
        let agree = |wait: &Wait, stall: &Stall| {
            wait.task == stall.task
                && wait.causes.contains(&stall.cause)
                && wait.from_ns.abs_diff(stall.from_ns) <= slack_ns
                && wait.to_ns.abs_diff(stall.to_ns) <= slack_ns
        };
        for wait in known
            .iter()
            .filter(|wait| wait.is_owed && wait.cost_ns() >= least_ns)
        {
            score.known += 1;
            *score.by_cause.entry(wait.causes[0].name()).or_default() += 1;
            if !found.iter().any(|stall| agree(wait, stall)) {
                let of_task = found.iter().filter(|stall| stall.task == wait.task);
                let of_task: Vec<&Stall> = of_task.collect();
                score.missed.push(format!("{wait:?} where {of_task:?}"));
            }
        }
        for stall in found {
            if !known.iter().any(|wait| agree(wait, stall)) {
                let of_task = known.iter().filter(|wait| wait.task == stall.task);
                let of_task: Vec<&Wait> = of_task.collect();
                score.wrong.push(format!("{stall:?} where {of_task:?}"));
            }
        }
        score
    }
}
