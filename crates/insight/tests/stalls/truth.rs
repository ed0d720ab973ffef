//! What the model knows of its own waits.

use std::collections::BTreeMap;

use wansan_insight::stall::{Cause, Stall};
use wansan_trace::TaskTag;

/// A wait that the model has made an I/O have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) task: TaskTag,
    /// What held it. Several when any of them alone would have.
    pub(crate) causes: Vec<Cause>,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    /// Whether it must be found; else it may be.
    pub(crate) is_owed: bool,
}

impl Wait {
    pub(crate) fn cost_ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }
}

/// How the finder did in a cell.
#[derive(Debug, Default)]
pub(crate) struct Score {
    /// Waits long enough to be found.
    pub(crate) known: usize,
    /// Those that were not, in words.
    pub(crate) missed: Vec<String>,
    /// What was found and is not so, in words.
    pub(crate) wrong: Vec<String>,
    /// What was known, by the first of its causes.
    pub(crate) by_cause: BTreeMap<&'static str, usize>,
}

impl Score {
    /// Compares what was found with what is known. Waits shorter than `least_ns` may be found and need
    /// not. What was found must have taken place when it is said, to `slack_ns`.
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
