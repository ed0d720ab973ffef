//! What a plan expects of its results, so that it can fail.

use std::fmt;

use serde::Serialize;
use serde_json::Value;
use wansan_trace::time::duration_ns;
use wansan_trace::units;

use super::cell::{Cell, Phase, written};
use super::document::ExpectTable;
use super::metric::{self, CELLS, Content};
use super::parameter::{Parameter, flatten};
use wansan_mistake::{Mistake, nearest};

/// An expectation, checked and ready to be held against results.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    metric: String,
    filter: Filter,
    relative_to: Option<Filter>,
    comparison: Comparison,
}

/// What a metric is compared with.
#[derive(Debug, Clone, PartialEq)]
pub enum Comparison {
    /// It is this text, number or truth.
    Equals(Value),
    /// It is this number or more.
    AtLeast(f64),
    /// It is this number or less.
    AtMost(f64),
}

/// Cells with these parameters; all cells when there are none.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Filter(Vec<(Parameter, toml::Value)>);

/// How an expectation turned out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// What was expected, in words.
    pub expected: String,
    /// What was found, in words.
    pub found: String,
    /// Whether that is so.
    pub met: bool,
}

/// A filter's key that is no parameter.
const PHASE: &str = "phase";

/// Reads the `[[expect]]` tables of a plan, whose `text` tells the lines of mistakes.
pub(super) fn resolve(tables: &[ExpectTable], text: &str) -> Result<Vec<Expectation>, Mistake> {
    let located = |place: usize, table: &ExpectTable| {
        Expectation::resolve(table).map_err(|(key, mistake)| {
            let mistake = Mistake::new(mistake).within(format!("[[expect]] `{}`", table.metric));
            mistake.in_table(text, "expect", place, key)
        })
    };
    let tables = tables.iter().enumerate();
    tables.map(|(place, table)| located(place, table)).collect()
}

impl Expectation {
    /// A mistake comes with the key that it stands at.
    fn resolve(table: &ExpectTable) -> Result<Self, (&'static str, String)> {
        let metric = &table.metric;
        let content = metric::content(metric).map_err(|mistake| ("metric", mistake))?;
        for (key, filter) in [
            ("where", Some(&table.r#where)),
            ("relative_to", table.relative_to.as_ref()),
        ] {
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
        let bound = |key, value| match &content {
            Content::Number | Content::Either => bound(metric, value).map_err(|m| (key, m)),
            Content::Text | Content::Word(_) => Err((
                key,
                "it is a text and not a number: write `equals`".to_owned(),
            )),
        };
        let comparison = match (&table.equals, &table.at_least, &table.at_most) {
            (Some(value), None, None) => {
                Comparison::Equals(equal(metric, &content, value).map_err(|m| ("equals", m))?)
            }
            (None, Some(value), None) => Comparison::AtLeast(bound("at_least", value)?),
            (None, None, Some(value)) => Comparison::AtMost(bound("at_most", value)?),
            _ => {
                let mistake = "write one of `equals`, `at_least` and `at_most`";
                return Err(("metric", mistake.to_owned()));
            }
        };
        Ok(Expectation {
            metric: metric.clone(),
            filter: Filter(flatten(&table.r#where)),
            relative_to: table.relative_to.as_ref().map(|t| Filter(flatten(t))),
            comparison,
        })
    }

    /// The metric's dotted name.
    #[must_use]
    pub fn metric(&self) -> &str {
        &self.metric
    }

    /// The filters that it uses, with their keys.
    pub(super) fn filters(&self) -> impl Iterator<Item = (&'static str, &Filter)> {
        let relative_to = self
            .relative_to
            .iter()
            .map(|filter| ("relative_to", filter));
        std::iter::once(("where", &self.filter)).chain(relative_to)
    }

    /// Holds the expectation against a run's results (the content of results.json). A metric of
    /// cells must hold in each of the cells that are meant; a metric that is not there is not met.
    #[must_use]
    pub fn check(&self, results: &Value) -> Verdict {
        let found = match self.metric.strip_prefix(CELLS) {
            None => vec![look_up(results, &self.metric).cloned()],
            Some(metric) => {
                let base = self.relative_to.as_ref().map(|filter| {
                    let values = filter
                        .cells(results)
                        .filter_map(|c| look_up(c, metric)?.as_f64());
                    mean(values)
                });
                self.filter
                    .cells(results)
                    .map(|cell| {
                        let value = look_up(cell, metric);
                        match base {
                            None => value.cloned(),
                            Some(base) => Some((value?.as_f64()? / base?).into()),
                        }
                    })
                    .collect()
            }
        };
        Verdict {
            expected: self.to_string(),
            met: !found.is_empty() && found.iter().all(|value| self.holds(value.as_ref())),
            found: shown(&found),
        }
    }

    fn holds(&self, value: Option<&Value>) -> bool {
        let Some(value) = value else { return false };
        match (&self.comparison, value.as_f64()) {
            (Comparison::Equals(wanted), number) => {
                value == wanted || (number.is_some() && number == wanted.as_f64())
            }
            (Comparison::AtLeast(least), Some(number)) => number >= *least,
            (Comparison::AtMost(most), Some(number)) => number <= *most,
            (_, None) => false,
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.metric)?;
        if !self.filter.0.is_empty() {
            write!(f, " where {}", self.filter)?;
        }
        if let Some(base) = &self.relative_to {
            write!(f, " relative to {base}")?;
        }
        match &self.comparison {
            Comparison::Equals(value) => write!(f, " equals {value}"),
            Comparison::AtLeast(least) => write!(f, " is at least {least}"),
            Comparison::AtMost(most) => write!(f, " is at most {most}"),
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&written(&self.0))
    }
}

impl Filter {
    /// Whether a cell of the sweep may be meant, whatever its phase.
    pub(super) fn selects_sweep(&self, cell: &Cell) -> bool {
        self.0.iter().all(|(name, value)| {
            name.name() == PHASE || cell.parameters.iter().any(|(n, v)| n == name && v == value)
        })
    }

    fn cells<'a>(&'a self, results: &'a Value) -> impl Iterator<Item = &'a Value> {
        let cells = results.get("cells").and_then(Value::as_array);
        let selected = move |cell: &&Value| {
            self.0.iter().all(|(name, value)| {
                let found = if name.name() == PHASE {
                    cell.get(PHASE)
                } else {
                    cell.get("parameters").and_then(|all| all.get(name.name()))
                };
                found.is_some_and(|found| serde_json::to_value(value).is_ok_and(|v| v == *found))
            })
        };
        cells.into_iter().flatten().filter(selected)
    }
}

/// What a metric of that content can be equal to.
fn equal(metric: &str, content: &Content, value: &toml::Value) -> Result<Value, String> {
    match (content, value) {
        (Content::Number, value) => bound(metric, value).map(Value::from),
        (Content::Word(words), toml::Value::String(word)) => {
            if words.contains(&word.as_str()) {
                Ok(word.as_str().into())
            } else {
                Err(format!("it is never \"{word}\"; {}", nearest(word, words)))
            }
        }
        (Content::Text | Content::Either, toml::Value::String(text)) => Ok(text.as_str().into()),
        (Content::Either, value) => serde_json::to_value(value).map_err(|e| e.to_string()),
        (Content::Text | Content::Word(_), other) => {
            Err(format!("it is a text: write \"…\" instead of {other}"))
        }
    }
}

/// A bound as a number: of nanoseconds, bytes or bits per second when it has a unit.
fn bound(metric: &str, value: &toml::Value) -> Result<f64, String> {
    match value {
        toml::Value::Integer(number) => Ok(*number as f64),
        toml::Value::Float(number) => Ok(*number),
        toml::Value::String(text) if metric.ends_with("_ns") => units::parse_duration(text)
            .map(|duration| duration_ns(duration) as f64)
            .map_err(|error| error.to_string()),
        toml::Value::String(text) if metric.ends_with("_bytes") => units::parse_bytes(text)
            .map(|bytes| bytes as f64)
            .map_err(|error| error.to_string()),
        other => Err(format!("{other} is no number to compare with")),
    }
}

/// The value at a dotted way.
pub(super) fn look_up<'a>(value: &'a Value, way: &str) -> Option<&'a Value> {
    way.split('.').try_fold(value, |value, key| value.get(key))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), v| (sum + v, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn shown(found: &[Option<Value>]) -> String {
    if found.is_empty() {
        return "no such cell".to_owned();
    }
    let words: Vec<String> = found
        .iter()
        .map(|value| match value {
            None => "nothing".to_owned(),
            Some(Value::Number(number)) => match number.as_f64() {
                Some(float) if !number.is_i64() && !number.is_u64() => format!("{float:.3}"),
                _ => number.to_string(),
            },
            Some(other) => other.to_string(),
        })
        .collect();
    words.join(", ")
}
