//! A bound, what came of it, and what others reach.

use serde_json::{Value, json};
use wansan_peers::compare::{Bound, median};
use wansan_peers::verdict::Verdict;

/// The answer to one question.
#[derive(Debug)]
pub(crate) struct Answer {
    /// What was measured.
    pub(crate) question: &'static str,
    /// What the bound and the samples count.
    pub(crate) unit: &'static str,
    /// The bound.
    pub(crate) bound: Bound,
    /// What ours reached, time after time; their median counts.
    pub(crate) got: Vec<f64>,
    /// What another reached in the same world, and its name.
    pub(crate) other: Option<(&'static str, Vec<f64>)>,
}

impl Answer {
    /// What comes of it on a machine that was disturbed so, if at all; also in the table of verdicts.
    pub(crate) fn judge(&self, disturbance: Option<&str>) -> Verdict {
        let median = median(&self.got);
        let verdict = Verdict::of(self.bound.holds(median), disturbance);
        let figure = format!("{median:.2} {}, bound {}", self.unit, self.bound.text());
        verdict.record(self.question, &figure);
        verdict
    }

    /// A line for people.
    pub(crate) fn text(&self, verdict: &Verdict) -> String {
        let other = match &self.other {
            Some((name, samples)) => format!("; {name}: {}", spread(samples)),
            None => String::new(),
        };
        format!(
            "{}: bound {} {}, measured {}: {verdict}{other}",
            self.question,
            self.bound.text(),
            self.unit,
            spread(&self.got),
        )
    }

    /// The same as data.
    pub(crate) fn json(&self, verdict: &Verdict) -> Value {
        let other = self.other.as_ref().map(|(name, samples)| {
            json!({ "name": name, "median": median(samples), "samples": samples })
        });
        json!({
            "question": self.question, "unit": self.unit, "bound": self.bound.text(),
            "got": median(&self.got), "samples": self.got, "verdict": verdict.word(),
            "other": other,
        })
    }
}

/// The median of samples, and how far they lie apart.
fn spread(samples: &[f64]) -> String {
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let most = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let median = median(samples);
    format!("{median:.2} ({least:.2} to {most:.2})")
}
