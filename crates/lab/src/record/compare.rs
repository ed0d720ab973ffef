//! Compares two runs cell by cell: differences larger than between repeats of one run.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};
use statrs::distribution::{ContinuousCDF, StudentsT};
use wansan_schema::{CellResult, Parameters, PathChange};

use super::StoredRun;

/// Confidence level of the interval of a difference.
pub const CONFIDENCE: f64 = 0.95;
/// Longest list of differences between the plans.
const MAX_SETTINGS: usize = 40;

/// A comparison of two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The first run's name.
    pub first: String,
    /// The second run's name.
    pub second: String,
    /// Confidence level of the intervals, 0 to 1.
    pub confidence: f64,
    /// Settings of plans and programs that differ, except the sweep.
    pub settings: Vec<SettingDifference>,
    /// Cells common to both, in the order of the first run.
    pub cells: Vec<CellDifference>,
    /// Parameters of cells in the first run only.
    pub only_in_first: Vec<Parameters>,
    /// Parameters of cells in the second run only.
    pub only_in_second: Vec<Parameters>,
}

/// A setting with different values in the two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettingDifference {
    /// Its dotted name in the plan, `file NAME` for the SHA-256 of a file that the plan names, or
    /// `wansan` for the program.
    pub setting: String,
    /// In the first run; null if not set.
    pub first: Value,
    /// In the second run.
    pub second: Value,
}

/// One cell in both runs, over all repeats.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellDifference {
    /// `planned` or `advised`.
    pub phase: String,
    /// Its parameters.
    pub parameters: Parameters,
    /// Changes by `wansan path set` during the first run's repeats, which are not in the plan.
    pub by_hand_in_first: Vec<ByHand>,
    /// The same for the second run.
    pub by_hand_in_second: Vec<ByHand>,
    /// Each number common to both, by its dotted name in a cell's results.
    #[serde(flatten)]
    pub numbers: BTreeMap<String, Difference>,
}

/// A manual change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ByHand {
    /// The cell's number.
    pub cell: u64,
    /// The change and its time.
    #[serde(flatten)]
    pub change: PathChange,
}

/// One number in both runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// Mean over the first run's repeats.
    pub first: f64,
    /// Mean over the second run's repeats.
    pub second: f64,
    /// Repeats in the first run.
    pub first_repeats: usize,
    /// Repeats in the second run.
    pub second_repeats: usize,
    /// `second` ÷ `first` − 1; null if the first is 0.
    pub change: Option<f64>,
    /// Confidence interval of `second` − `first` at the comparison's level, by Welch's t; null if one of the runs has a
    /// single repeat.
    pub interval: Option<[f64; 2]>,
    /// Its interpretation.
    pub verdict: DifferenceVerdict,
}

/// Interpretation of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceVerdict {
    /// One of the runs has a single repeat: chance cannot be excluded.
    OneRepeat,
    /// The interval contains 0.
    NoneShown,
    /// The second is greater.
    Greater,
    /// The second is smaller.
    Less,
}

/// Why two runs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// All cells of one failed, or it has none.
    #[error("{run}: none of its cells was measured (`wansan lab show`)")]
    NothingMeasured {
        /// The run's name.
        run: String,
    },
    /// The runs have no cell with the same parameters.
    #[error(
        "{first} and {second} have no cell in common: the first varies {first_axes}, the second {second_axes}"
    )]
    NothingInCommon {
        /// The first run's name.
        first: String,
        /// The second run's name.
        second: String,
        /// The axes of the first.
        first_axes: String,
        /// The axes of the second.
        second_axes: String,
    },
}

/// Compares two runs, matching cells of the same phase and parameters.
///
/// # Errors
/// [`CompareError`] if they have no such cells.
pub fn compare(first: &StoredRun, second: &StoredRun) -> Result<Comparison, CompareError> {
    let of_first = points(first);
    let of_second = points(second);
    for (run, points) in [(first, &of_first), (second, &of_second)] {
        if points.is_empty() {
            return Err(CompareError::NothingMeasured { run: run.name() });
        }
    }
    let other = |point: &Point<'_>, others: &[Point<'_>]| -> Option<usize> {
        others
            .iter()
            .position(|other| (other.phase, other.parameters) == (point.phase, point.parameters))
    };
    let mut cells = Vec::new();
    let mut only_in_first = Vec::new();
    for point in &of_first {
        match other(point, &of_second) {
            Some(place) => cells.push(point.difference(&of_second[place])),
            None => only_in_first.push(point.parameters.clone()),
        }
    }
    if cells.is_empty() {
        return Err(CompareError::NothingInCommon {
            first: first.name(),
            second: second.name(),
            first_axes: axes(&of_first),
            second_axes: axes(&of_second),
        });
    }
    let lone = of_second
        .iter()
        .filter(|point| other(point, &of_first).is_none());
    Ok(Comparison {
        first: first.name(),
        second: second.name(),
        confidence: CONFIDENCE,
        settings: settings(first, second),
        only_in_second: lone.map(|point| point.parameters.clone()).collect(),
        cells,
        only_in_first,
    })
}

/// All repeats of one point of a sweep.
struct Point<'a> {
    phase: &'a str,
    parameters: &'a Parameters,
    repeats: Vec<&'a CellResult>,
}

/// The measured points of a run, in its order.
fn points(run: &StoredRun) -> Vec<Point<'_>> {
    let mut points: Vec<Point<'_>> = Vec::new();
    for cell in run
        .results
        .cells
        .iter()
        .filter(|cell| cell.failure.is_none())
    {
        let same = |point: &&mut Point<'_>| {
            (point.phase, point.parameters) == (cell.phase.as_str(), &cell.parameters)
        };
        match points.iter_mut().find(same) {
            Some(point) => point.repeats.push(cell),
            None => points.push(Point {
                phase: &cell.phase,
                parameters: &cell.parameters,
                repeats: vec![cell],
            }),
        }
    }
    points
}

impl Point<'_> {
    fn by_hand(&self) -> Vec<ByHand> {
        let of = |cell: &&CellResult| {
            let changes = cell.timeline.iter().filter(|change| change.is_by_hand());
            let number = cell.cell;
            let by_hand = changes.map(move |change| ByHand {
                cell: number,
                change: change.clone(),
            });
            by_hand.collect::<Vec<_>>()
        };
        self.repeats.iter().flat_map(of).collect()
    }

    fn difference(&self, second: &Point<'_>) -> CellDifference {
        CellDifference {
            phase: self.phase.to_owned(),
            parameters: self.parameters.clone(),
            by_hand_in_first: self.by_hand(),
            by_hand_in_second: second.by_hand(),
            numbers: differences(&self.repeats, &second.repeats),
        }
    }
}

/// Differences of the numbers common to the repeats of both.
fn differences(first: &[&CellResult], second: &[&CellResult]) -> BTreeMap<String, Difference> {
    let (first, mut second) = (numbers(first), numbers(second));
    let both = first.into_iter().filter_map(|(name, first)| {
        let difference = Difference::between(&first, &second.remove(&name)?)?;
        Some((name, difference))
    });
    both.collect()
}

/// The numbers of these cells, by name.
fn numbers(cells: &[&CellResult]) -> BTreeMap<String, Vec<f64>> {
    let mut found: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for cell in cells {
        cell.singles(&mut |field, single| {
            if let (Some(_), Some(number)) = (field.unit, single.value.as_f64()) {
                found.entry(single.name).or_default().push(number);
            }
        });
    }
    found
}

impl Difference {
    /// The difference of the means of two samples; `None` if one is empty.
    #[must_use]
    pub fn between(first: &[f64], second: &[f64]) -> Option<Difference> {
        let (one, other) = (Sample::of(first)?, Sample::of(second)?);
        let difference = other.mean - one.mean;
        let interval =
            welch_half_width(&one, &other).map(|half| [difference - half, difference + half]);
        Some(Difference {
            first: one.mean,
            second: other.mean,
            first_repeats: first.len(),
            second_repeats: second.len(),
            change: (one.mean != 0.0).then(|| difference / one.mean),
            interval,
            verdict: match interval {
                None => DifferenceVerdict::OneRepeat,
                Some([low, _]) if low > 0.0 => DifferenceVerdict::Greater,
                Some([_, high]) if high < 0.0 => DifferenceVerdict::Less,
                Some(_) => DifferenceVerdict::NoneShown,
            },
        })
    }
}

/// A sample's mean and its variance.
struct Sample {
    count: f64,
    mean: f64,
    /// Variance of the mean: s² ÷ n; `None` for a single number.
    variance_of_mean: Option<f64>,
}

impl Sample {
    fn of(numbers: &[f64]) -> Option<Sample> {
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
        let spread = squares / (count - 1.0) / count;
        (!numbers.is_empty()).then_some(Sample {
            count,
            mean,
            variance_of_mean: (numbers.len() > 1).then_some(spread),
        })
    }
}

/// Half the width of the confidence interval of the difference of two means: Welch's t, with degrees of freedom by
/// Welch and Satterthwaite. `None` if a sample has no variance estimate.
fn welch_half_width(one: &Sample, other: &Sample) -> Option<f64> {
    let (a, b) = (one.variance_of_mean?, other.variance_of_mean?);
    let variance = a + b;
    if variance == 0.0 {
        return Some(0.0);
    }
    let freedom =
        variance.powi(2) / (a.powi(2) / (one.count - 1.0) + b.powi(2) / (other.count - 1.0));
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(t.inverse_cdf(0.5 + CONFIDENCE / 2.0) * variance.sqrt())
}

fn axes(points: &[Point<'_>]) -> String {
    let names: Vec<&str> = points
        .first()
        .map(|point| point.parameters.keys().map(String::as_str).collect())
        .unwrap_or_default();
    if names.is_empty() {
        "nothing".to_owned()
    } else {
        names.join(", ")
    }
}

/// Settings that differ between the two plans and programs. The sweep is visible in the cells; expectations and the
/// plan's title affect no number.
fn settings(first: &StoredRun, second: &StoredRun) -> Vec<SettingDifference> {
    const NO_SETTINGS: [&str; 7] = [
        "title", "sweep", "case", "expect", "quick", "paper", "repeat",
    ];
    let settings = |run: &StoredRun| {
        let mut flat = Map::new();
        if let Value::Object(tables) = &run.manifest.document {
            for (name, value) in tables {
                if !NO_SETTINGS.contains(&name.as_str()) {
                    flatten(&mut flat, name.clone(), value);
                }
            }
        }
        let manifest = &run.manifest;
        for (name, file) in &manifest.files {
            flat.insert(format!("file {name}"), file.sha256.clone().into());
        }
        let version = [&manifest.wansan_version, &manifest.wansan_commit];
        let version: Vec<&str> = version.into_iter().flatten().map(String::as_str).collect();
        flat.insert("wansan".to_owned(), version.join(" ").into());
        flat
    };
    let (first, second) = (settings(first), settings(second));
    let mut names: Vec<&String> = first.keys().chain(second.keys()).collect();
    names.sort();
    names.dedup();
    let value = |of: &Map<String, Value>, name: &str| of.get(name).cloned().unwrap_or_default();
    names
        .into_iter()
        .map(|name| SettingDifference {
            setting: name.clone(),
            first: value(&first, name),
            second: value(&second, name),
        })
        .filter(|setting| setting.first != setting.second)
        .take(MAX_SETTINGS)
        .collect()
}

/// Adds the leaf values of a plan by parameter name.
fn flatten(flat: &mut Map<String, Value>, name: String, value: &Value) {
    match value {
        Value::Object(table) => {
            for (key, value) in table {
                flatten(flat, format!("{name}.{key}"), value);
            }
        }
        Value::Array(list) if list.iter().any(Value::is_object) => {
            for (place, value) in list.iter().enumerate() {
                let named = value.get("name").and_then(Value::as_str);
                let element = named.map_or_else(|| place.to_string(), str::to_owned);
                flatten(flat, format!("{name}.{element}"), value);
            }
        }
        single => {
            flat.insert(name, single.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, wanted: f64) -> bool {
        (found - wanted).abs() < 1e-3 * wanted.abs().max(1e-9)
    }

    #[test]
    fn intervals_are_welchs() {
        let first = [
            27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7,
            21.4,
        ];
        let second = [
            27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5,
            24.4,
        ];
        let found = Difference::between(&first, &second).unwrap();
        let [low, high] = found.interval.unwrap();
        // Computed by hand: t = 2.85295 and 27.887 degrees of freedom, whose 97.5 % quantile is 2.0487.
        assert!(close(found.second - found.first, 2.8333), "{found:?}");
        assert!(
            close((high - low) / 2.0, 2.83333 / 2.85295 * 2.0487),
            "{found:?}"
        );
        assert_eq!(found.verdict, DifferenceVerdict::Greater);
    }

    #[test]
    fn one_repeat_shows_nothing() {
        let found = Difference::between(&[1.0], &[100.0, 101.0]).unwrap();
        assert_eq!(
            (found.interval, found.verdict),
            (None, DifferenceVerdict::OneRepeat)
        );
        assert_eq!(Difference::between(&[], &[1.0]), None);
    }

    #[test]
    fn overlapping_repeats_show_no_difference() {
        let found = Difference::between(&[10.0, 12.0, 11.0], &[11.0, 10.5, 12.5]).unwrap();
        assert_eq!(found.verdict, DifferenceVerdict::NoneShown);
        let found = Difference::between(&[10.0, 10.0], &[9.0, 9.0]).unwrap();
        assert_eq!(found.interval, Some([-1.0, -1.0]));
        assert_eq!(found.verdict, DifferenceVerdict::Less);
    }
}
