//! A bound, what came of it, and what others reach.

use serde_json::{Value, json};

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asked {
    /// At least this much.
    AtLeast(f64),
    /// At most this much.
    AtMost(f64),
}

/// The answer to one question.
#[derive(Debug)]
pub(crate) struct Answer {
    /// What was measured.
    pub(crate) question: &'static str,
    /// What the bound and the samples count.
    pub(crate) unit: &'static str,
    /// The bound.
    pub(crate) asked: Asked,
    /// What ours reached, time after time; their median counts.
    pub(crate) got: Vec<f64>,
    /// What another reached in the same world, and its name.
    pub(crate) other: Option<(&'static str, Vec<f64>)>,
}

impl Answer {
    fn reached(&self) -> bool {
        let got = median(&self.got);
        match self.asked {
            Asked::AtLeast(bound) => got >= bound,
            Asked::AtMost(bound) => got <= bound,
        }
    }

    fn bound(&self) -> String {
        match self.asked {
            Asked::AtLeast(bound) => format!("≥ {bound}"),
            Asked::AtMost(bound) => format!("≤ {bound}"),
        }
    }

    /// A line for people.
    pub(crate) fn text(&self) -> String {
        let verdict = if self.reached() { "reached" } else { "MISSED" };
        let other = match &self.other {
            Some((name, samples)) => format!("; {name}: {}", spread(samples)),
            None => String::new(),
        };
        format!(
            "{}: asked {} {}, got {}: {verdict}{other}",
            self.question,
            self.bound(),
            self.unit,
            spread(&self.got),
        )
    }

    /// The same as data.
    pub(crate) fn json(&self) -> Value {
        let other = self.other.as_ref().map(|(name, samples)| {
            json!({ "name": name, "median": median(samples), "samples": samples })
        });
        json!({
            "question": self.question, "unit": self.unit, "asked": self.bound(),
            "got": median(&self.got), "samples": self.got, "reached": self.reached(),
            "other": other,
        })
    }
}

/// The median of samples, and how far they lie apart.
fn spread(samples: &[f64]) -> String {
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let most = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let median = median(samples);
    if samples.len() > 1 {
        format!("{median:.2} ({least:.2} to {most:.2})")
    } else {
        format!("{median:.2}")
    }
}

/// The middle sample; of an even number the lower of the two in the middle.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[(sorted.len() - 1) / 2]
}
