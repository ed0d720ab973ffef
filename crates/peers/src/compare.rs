//! Two sides measured in turns, and the ratio of what they reached.

use serde_json::{Value, json};

/// What the ratio of ours to the other's has to be.
#[derive(Debug, Clone, Copy)]
pub enum Bound {
    /// At least this much.
    AtLeast(f64),
    /// At most this much.
    AtMost(f64),
}

impl Bound {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(bound) => ratio >= bound,
            Self::AtMost(bound) => ratio <= bound,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(bound) => format!("≥ {bound}"),
            Self::AtMost(bound) => format!("≤ {bound}"),
        }
    }
}

/// One question: how ours compares with the other's, and what was measured on each side.
#[derive(Debug)]
pub struct Comparison {
    /// What is compared.
    pub question: String,
    /// The unit of the samples.
    pub unit: &'static str,
    /// Our side's name and samples.
    pub ours: Side,
    /// The other side's name and samples, taken in turns with ours.
    pub other: Side,
    /// What the ratio has to be.
    pub bound: Bound,
}

/// The samples of one side.
#[derive(Debug)]
pub struct Side {
    /// What ran.
    pub name: &'static str,
    /// One sample per turn.
    pub samples: Vec<f64>,
}

impl Comparison {
    /// Ours over the other's: the median of the ratios of single turns, since what slows the machine down
    /// for a while slows both sides of a turn.
    pub fn ratio(&self) -> f64 {
        median(&self.turn_ratios())
    }

    fn turn_ratios(&self) -> Vec<f64> {
        let turns = self.ours.samples.iter().zip(&self.other.samples);
        turns.map(|(ours, other)| ours / other).collect()
    }

    /// Whether the bound holds.
    pub fn reached(&self) -> bool {
        self.bound.holds(self.ratio())
    }

    /// The smallest and largest ratio of a single turn.
    fn ratio_range(&self) -> (f64, f64) {
        range(&self.turn_ratios())
    }

    /// A few lines for people.
    pub fn text(&self) -> String {
        let (low, high) = self.ratio_range();
        let verdict = if self.reached() { "reached" } else { "MISSED" };
        format!(
            "{}\n  {}\n  {}\n  ratio {:.2} (of single turns: {low:.2} to {high:.2}), \
             bound {}: {verdict}",
            self.question,
            self.side_text(&self.ours),
            self.side_text(&self.other),
            self.ratio(),
            self.bound.text(),
        )
    }

    fn side_text(&self, side: &Side) -> String {
        let (low, high) = range(&side.samples);
        format!(
            "{:<28} {:>12} {} (median of {}; {} to {})",
            side.name,
            number(median(&side.samples)),
            self.unit,
            side.samples.len(),
            number(low),
            number(high),
        )
    }

    /// The same as data.
    pub fn json(&self) -> Value {
        let side = |side: &Side| {
            let (min, max) = range(&side.samples);
            json!({
                "name": side.name, "median": median(&side.samples), "min": min, "max": max,
                "samples": side.samples,
            })
        };
        let (min, max) = self.ratio_range();
        json!({
            "question": self.question, "unit": self.unit,
            "ours": side(&self.ours), "other": side(&self.other),
            "ratio": self.ratio(), "ratio_min": min, "ratio_max": max,
            "bound": self.bound.text(), "reached": self.reached(),
        })
    }
}

/// Takes a sample of each side in turns, `turns` times, after one of each that does not count.
///
/// # Errors
/// The first error of a side.
pub fn in_turns<T, E>(
    turns: usize,
    mut ours: impl FnMut() -> Result<T, E>,
    mut other: impl FnMut() -> Result<T, E>,
) -> Result<(Vec<T>, Vec<T>), E> {
    ours()?;
    other()?;
    let mut samples = (Vec::new(), Vec::new());
    for _ in 0..turns {
        samples.0.push(ours()?);
        samples.1.push(other()?);
    }
    Ok(samples)
}

/// The middle sample; the mean of the two middle ones of an even number.
fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    }
}

fn range(samples: &[f64]) -> (f64, f64) {
    samples
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| {
            (low.min(x), high.max(x))
        })
}

/// Whole numbers with thousands set apart, small ones with two places.
fn number(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
