//! Selects numbers of a run's results: a metric, its cells, and its reference cells.

use std::fmt;

use serde_json::Value;
use wansan_schema::table::Unit;
use wansan_schema::{CellResult, Parameters, Results};
use wansan_trace::time::duration_ns;
use wansan_trace::units;

use super::cell::{Cell, Phase, written};
use super::json::json;
use super::metric::{self, CELLS, Content};
use super::parameter::{Parameter, flatten};
use super::sweep;
use wansan_mistake::nearest;

/// A metric of the whole run or of selected cells.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Subject {
    metric: String,
    filter: Filter,
    relative_to: Option<Filter>,
    /// Use the median of a cell's repeats, not each of them.
    is_median: bool,
}

/// Cells with these parameters; all cells if empty.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Filter(Vec<(Parameter, toml::Value)>);

/// A filter's key that is not a parameter.
const PHASE: &str = "phase";
/// Prefix of the advised phase's results.
const ADVISED: &str = "advised.";

impl Subject {
    /// Checks the metric and the filters, and returns the metric's content. A mistake is returned with its key.
    pub(super) fn resolve(
        metric: &str,
        chosen: &toml::Table,
        relative_to: Option<&toml::Table>,
    ) -> Result<(Self, Content), (&'static str, String)> {
        let content = metric::content(metric).map_err(|mistake| ("metric", mistake))?;
        for (key, filter) in [("where", Some(chosen)), ("relative_to", relative_to)] {
            let filter = filter.filter(|filter| !filter.is_empty());
            if filter.is_some() && !metric.starts_with(CELLS) {
                let mistake = "`where` and `relative_to` choose cells: the metric is not of cells";
                return Err((key, mistake.to_owned()));
            }
            if let Some(phase) = filter.and_then(|filter| filter.get(PHASE)) {
                let known = [Phase::Planned.name(), Phase::Advised.name()];
                let named = phase.as_str().unwrap_or_default();
                if !known.contains(&named) {
                    return Err((
                        key,
                        format!("no phase is {phase}; {}", nearest(named, &known)),
                    ));
                }
            }
        }
        let subject = Subject {
            metric: metric.to_owned(),
            filter: Filter::of(chosen),
            relative_to: relative_to.map(Filter::of),
            is_median: false,
        };
        Ok((subject, content))
    }

    /// The same for the median of each cell's repeats. A mistake is returned with its key.
    pub(super) fn by_median(self, content: &Content) -> Result<Self, (&'static str, String)> {
        if !self.metric.starts_with(CELLS) || !matches!(content, Content::Number(_)) {
            let mistake = "`repeats = \"median\"` is for numbers of cells";
            return Err(("repeats", mistake.to_owned()));
        }
        Ok(Subject {
            is_median: true,
            ..self
        })
    }

    /// The metric's dotted name.
    pub(super) fn metric(&self) -> &str {
        &self.metric
    }

    /// The filters in use, with their keys.
    pub(super) fn filters(&self) -> impl Iterator<Item = (&'static str, &Filter)> {
        let relative_to = self.relative_to.iter();
        let relative_to = relative_to.map(|filter| ("relative_to", filter));
        std::iter::once(("where", &self.filter)).chain(relative_to)
    }

    /// Whether a cell of the sweep may be selected, in any phase.
    pub(super) fn chooses(&self, cell: &Cell) -> bool {
        self.filter.selects_sweep(cell)
    }

    /// Whether a sweep with these cells can provide the selected values.
    pub(super) fn is_among(&self, cells: &[Cell], is_advised: bool) -> bool {
        let needs_advice = self.metric.starts_with(ADVISED)
            || self.filters().any(|(_, filter)| filter.wants_advised());
        let has_cells = |filter: &Filter| cells.iter().any(|cell| filter.selects_sweep(cell));
        (is_advised || !needs_advice) && self.filters().all(|(_, filter)| has_cells(filter))
    }

    /// The values in a run's results: a single one, or one per selected cell. `None` for missing values.
    pub(super) fn values(&self, results: &Results) -> Vec<Option<Value>> {
        let Some(metric) = self.metric.strip_prefix(CELLS) else {
            return vec![results.value(&self.metric)];
        };
        let base = self.relative_to.as_ref().map(|filter| {
            let values = self.of_cells(filter, metric, results);
            mean(values.into_iter().filter_map(|value| value?.as_f64()))
        });
        let values = self.of_cells(&self.filter, metric, results).into_iter();
        values
            .map(|value| match base {
                None => value,
                Some(base) => Some((value?.as_f64()? / base?).into()),
            })
            .collect()
    }

    /// The values of the selected cells for a metric: one per cell, or, per point of the sweep, the median of its
    /// repeats, where repeats without a value are left out.
    fn of_cells(&self, filter: &Filter, metric: &str, results: &Results) -> Vec<Option<Value>> {
        let cells = filter.cells(results);
        if !self.is_median {
            return cells.map(|cell| cell.value(metric)).collect();
        }
        let mut points: Vec<((&str, &Parameters), Vec<f64>)> = Vec::new();
        for cell in cells {
            let point = (&cell.phase[..], &cell.parameters);
            let number = cell.value(metric).and_then(|value| value.as_f64());
            match points.iter_mut().find(|(other, _)| *other == point) {
                Some((_, repeats)) => repeats.extend(number),
                None => points.push((point, number.into_iter().collect())),
            }
        }
        let repeats = points.into_iter().map(|(_, repeats)| repeats);
        repeats
            .map(|repeats| Some(median(repeats)?.into()))
            .collect()
    }

    /// The mean of the numeric values.
    pub(super) fn mean(&self, results: &Results) -> Option<f64> {
        let values = self.values(results).into_iter();
        mean(values.filter_map(|value| value?.as_f64()))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.metric)?;
        if !self.filter.0.is_empty() {
            write!(f, " where {}", self.filter)?;
        }
        if self.is_median {
            f.write_str(", median of repeats,")?;
        }
        match &self.relative_to {
            Some(base) => write!(f, " relative to {base}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&written(&self.0))
    }
}

impl Filter {
    fn of(table: &toml::Table) -> Filter {
        let parameters = flatten(table).into_iter();
        let named = |(name, value): (Parameter, _)| (sweep::axis_name(name.name()), value);
        Filter(parameters.map(named).collect())
    }

    /// Whether a cell of the sweep may be selected, in any phase.
    pub(super) fn selects_sweep(&self, cell: &Cell) -> bool {
        self.0.iter().all(|(name, value)| {
            let mut set = cell.parameters.iter();
            name.name() == PHASE
                || set.any(|(n, v)| sweep::is_meant(n.name(), name.name()) && v == value)
        })
    }

    fn wants_advised(&self) -> bool {
        let advised = Phase::Advised.name();
        let phase = self.0.iter().find(|(name, _)| name.name() == PHASE);
        phase.is_some_and(|(_, phase)| phase.as_str() == Some(advised))
    }

    fn cells<'a>(&'a self, results: &'a Results) -> impl Iterator<Item = &'a CellResult> {
        let selected = move |cell: &&CellResult| {
            self.0.iter().all(|(name, value)| {
                let value = json(value);
                match name.name() {
                    PHASE => value == cell.phase[..],
                    name => parameter(cell, name) == Some(&value),
                }
            })
        };
        results.cells.iter().filter(selected)
    }
}

/// A result cell's value for a parameter.
fn parameter<'a>(cell: &'a CellResult, wanted: &str) -> Option<&'a Value> {
    let mut parameters = cell.parameters.iter();
    let found = parameters.find(|(name, _)| sweep::is_meant(name, wanted));
    found.map(|(_, value)| value)
}

/// A number for comparison, in the metric's unit: text has its own unit.
pub(super) fn number(unit: Unit, value: &toml::Value) -> Result<f64, String> {
    match (value, unit) {
        (toml::Value::Integer(number), _) => Ok(*number as f64),
        (toml::Value::Float(number), _) if number.is_finite() => Ok(*number),
        (toml::Value::String(text), Unit::Ns) => units::parse_duration(text)
            .map(|duration| duration_ns(duration) as f64)
            .map_err(|error| error.to_string()),
        (toml::Value::String(text), Unit::Bytes) => units::parse_bytes(text)
            .map(|bytes| bytes as f64)
            .map_err(|error| error.to_string()),
        (toml::Value::String(text), Unit::BytesPerS) => units::parse_rate(text)
            .map(|bits_per_s| bits_per_s as f64 / 8.0)
            .map_err(|error| error.to_string()),
        (other, _) => Err(format!("{other} is not a number to compare with")),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), v| (sum + v, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let (low, high) = (numbers.len().checked_sub(1)? / 2, numbers.len() / 2);
    Some(f64::midpoint(numbers[low], numbers[high]))
}
