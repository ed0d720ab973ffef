//! Measures ours and a peer in turns, and compares the results.

use serde_json::{Value, json};

use crate::verdict::Verdict;

/// A bound on a measured figure.
#[derive(Debug, Clone, Copy)]
pub enum Bound {
    /// At least this much.
    AtLeast(f64),
    /// At most this much.
    AtMost(f64),
}

impl Bound {
    /// Whether `value` satisfies the bound.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }

    /// The bound as printed: `≥ 1.2`.
    pub fn text(self) -> String {
        match self {
            Self::AtLeast(bound) => format!("≥ {bound}"),
            Self::AtMost(bound) => format!("≤ {bound}"),
        }
    }
}

/// One comparison of ours with a peer, with the samples of each side.
#[derive(Debug)]
pub struct Comparison {
    /// What is compared.
    pub question: String,
    /// The unit of the samples.
    pub unit: &'static str,
    /// Our samples.
    pub ours: Side,
    /// The peer's, one side per configuration: at least one. The bound applies against the best configuration.
    pub others: Vec<Side>,
    /// The bound on the ratio of ours to the peer's best.
    pub bound: Bound,
}

/// The samples of one side.
#[derive(Debug)]
pub struct Side {
    /// The program.
    pub name: &'static str,
    /// One sample per turn.
    pub samples: Vec<f64>,
}

/// Ours relative to one configuration of the peer.
struct Ratio<'a> {
    other: &'a Side,
    /// The ratio in each turn: a temporary slowdown of the machine affects both sides of a turn.
    of_turns: Vec<f64>,
}

impl Ratio<'_> {
    fn median(&self) -> f64 {
        median(&self.of_turns)
    }
}

impl Comparison {
    /// The least favourable ratio over the peer's configurations.
    fn ratio(&self) -> Ratio<'_> {
        let ratios = self.others.iter().map(|other| {
            let turns = self.ours.samples.iter().zip(&other.samples);
            let of_turns = turns.map(|(ours, other)| ours / other).collect();
            Ratio { other, of_turns }
        });
        let worse = |a: &Ratio<'_>, b: &Ratio<'_>| {
            let by_size = a.median().total_cmp(&b.median());
            match self.bound {
                Bound::AtLeast(_) => by_size,
                Bound::AtMost(_) => by_size.reverse(),
            }
        };
        ratios.min_by(worse).expect("a comparison has a peer")
    }

    /// The verdict, given the machine's disturbance, if any; also records it in the table of verdicts.
    pub fn judge(&self, disturbance: Option<&str>) -> Verdict {
        let median = self.ratio().median();
        let verdict = match median.is_finite() {
            true => Verdict::of(self.bound.holds(median), disturbance),
            // For example, the kernel's work in other processes' time.
            false => Verdict::NotMeasurable("the peer has no figure".to_owned()),
        };
        let figure = format!("ratio {median:.2}, bound {}", self.bound.text());
        verdict.record(&self.question, &figure);
        verdict
    }

    /// A few lines of text.
    pub fn text(&self, verdict: &Verdict) -> String {
        let ratio = self.ratio();
        let mut lines = vec![self.question.clone(), self.side_text(&self.ours)];
        lines.extend(self.others.iter().map(|other| self.side_text(other)));
        let to_which = match self.others.len() {
            1 => String::new(),
            _ => format!(" to {}", ratio.other.name),
        };
        let interval = match median_interval(&ratio.of_turns) {
            Some((low, high)) => format!(" (95 % interval {low:.2} to {high:.2})"),
            None => String::new(),
        };
        lines.push(format!(
            "ratio{to_which} {:.2}{interval}, bound {}: {verdict}",
            ratio.median(),
            self.bound.text(),
        ));
        lines.join("\n  ")
    }

    fn side_text(&self, side: &Side) -> String {
        let (low, high) = range(&side.samples);
        format!(
            "{:<34} {:>12} {} (median of {}; {} to {})",
            side.name,
            number(median(&side.samples)),
            self.unit,
            side.samples.len(),
            number(low),
            number(high),
        )
    }

    /// The same as data.
    pub fn json(&self, verdict: &Verdict) -> Value {
        let side = |side: &Side| {
            let (min, max) = range(&side.samples);
            json!({
                "name": side.name, "median": median(&side.samples), "min": min, "max": max,
                "samples": side.samples,
            })
        };
        let ratio = self.ratio();
        json!({
            "question": self.question, "unit": self.unit, "ours": side(&self.ours),
            "others": self.others.iter().map(side).collect::<Vec<_>>(),
            "ratio_to": ratio.other.name, "ratio": ratio.median(),
            "ratio_interval_95": median_interval(&ratio.of_turns),
            "bound": self.bound.text(), "verdict": verdict.word(),
        })
    }
}

/// Takes a sample of each side, `turns` times, after one discarded sample of each. The order of the sides is reversed
/// from turn to turn (A B, B A, A B, ...), so that after-effects, such as warm caches or dirty pages, favour neither
/// side.
///
/// # Errors
/// The first error of either side.
pub fn in_turns<T, E, const SIDES: usize>(
    turns: usize,
    mut sides: [&mut dyn FnMut() -> Result<T, E>; SIDES],
) -> Result<[Vec<T>; SIDES], E> {
    for side in &mut sides {
        side()?;
    }
    let mut samples = [const { Vec::new() }; SIDES];
    for turn in 0..turns {
        for step in 0..SIDES {
            let place = match turn % 2 {
                0 => step,
                _ => SIDES - 1 - step,
            };
            samples[place].push(sides[place]()?);
        }
    }
    Ok(samples)
}

/// The median; for an even number of samples, the mean of the middle two.
pub fn median(samples: &[f64]) -> f64 {
    let sorted = sorted(samples);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    }
}

/// A distribution-free confidence interval of the median from order statistics (David and Nagaraja, *Order Statistics*,
/// 3rd ed., §7.1): the narrowest, symmetric in rank, that covers the median with 95 % or more. `None` for fewer than 6
/// samples.
fn median_interval(samples: &[f64]) -> Option<(f64, f64)> {
    const OUTSIDE: f64 = 0.05;
    let sorted = sorted(samples);
    let count = sorted.len();
    // Each sample is below the median with probability 1/2. `tail` is the probability that at most
    // `rank` of them are: then the median lies below the sample of that rank, counted from 0.
    let mut probability = 0.5_f64.powi(i32::try_from(count).ok()?);
    let mut tail = probability;
    let mut interval = None;
    for rank in 0..count / 2 {
        if 2.0 * tail > OUTSIDE {
            break;
        }
        interval = Some((sorted[rank], sorted[count - 1 - rank]));
        probability *= (count - rank) as f64 / (rank + 1) as f64;
        tail += probability;
    }
    interval
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn range(samples: &[f64]) -> (f64, f64) {
    samples
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| {
            (low.min(x), high.max(x))
        })
}

/// Formats integers with thousands separators, and small numbers with two decimals.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn side(name: &'static str, samples: &[f64]) -> Side {
        Side {
            name,
            samples: samples.to_vec(),
        }
    }

    fn comparison(bound: Bound) -> Comparison {
        Comparison {
            question: "which".to_owned(),
            unit: "1/s",
            ours: side("ours", &[12.0; 6]),
            others: vec![side("slow", &[6.0; 6]), side("fast", &[10.0; 6])],
            bound,
        }
    }

    #[test]
    fn each_side_goes_first_in_every_other_turn() {
        let order = RefCell::new(String::new());
        let side = |name| {
            let order = &order;
            move || {
                order.borrow_mut().push(name);
                Ok::<_, ()>(order.borrow().len())
            }
        };
        let [a, b, c] =
            in_turns(3, [&mut side('a'), &mut side('b'), &mut side('c')]).expect("no side fails");
        assert_eq!(*order.borrow(), "abc abc cba abc".replace(' ', ""));
        assert_eq!((a, b, c), (vec![4, 9, 10], vec![5, 8, 11], vec![6, 7, 12]));
    }

    #[test]
    fn an_error_of_a_side_ends_the_turns() {
        let samples = in_turns(3, [&mut || Ok(1), &mut || Err("broken")]);
        assert_eq!(samples, Err("broken"));
    }

    #[test]
    fn the_bound_is_held_against_the_best_configuration() {
        let rate = comparison(Bound::AtLeast(1.5));
        let rate = rate.json(&rate.judge(None));
        assert_eq!(
            (&rate["ratio_to"], &rate["ratio"]),
            (&json!("fast"), &json!(1.2))
        );
        assert_eq!(rate["verdict"], "missed");
        let cost = comparison(Bound::AtMost(1.5));
        let cost = cost.json(&cost.judge(None));
        assert_eq!(
            (&cost["ratio_to"], &cost["ratio"]),
            (&json!("slow"), &json!(2.0))
        );
        assert_eq!(cost["verdict"], "missed");
    }

    #[test]
    fn intervals_of_the_median_are_those_of_the_tables() {
        // Ranks, from 1, of the two-sided 95 % interval in tables of the sign test.
        for (count, low, high) in [(6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (100, 40, 61)] {
            let samples: Vec<f64> = (1..=count).map(f64::from).collect();
            assert_eq!(median_interval(&samples), Some((low.into(), high.into())));
        }
        assert_eq!(median_interval(&[1.0; 5]), None);
    }
}
