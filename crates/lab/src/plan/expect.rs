//! Expectations of a plan on its results, so that it can fail.

use std::fmt;

use serde_json::Value;
use wansan_schema::table::Unit;
use wansan_schema::{Results, Verdict};

use super::document::{ExpectTable, Repeats};
use super::metric::Content;
use super::subject::{Subject, number};
use wansan_mistake::{Mistake, nearest};

/// A checked expectation, ready to be applied to results.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    table: ExpectTable,
    subject: Subject,
    comparison: Comparison,
}

/// The comparison of a metric.
#[derive(Debug, Clone, PartialEq)]
pub enum Comparison {
    /// Equal to this text, number or boolean.
    Equals(Value),
    /// Not less than this number.
    AtLeast(f64),
    /// Not greater than this number.
    AtMost(f64),
}

/// Parses the `[[expect]]` tables of a plan, whose `text` gives the lines of mistakes.
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
    /// A mistake is returned with its key.
    fn resolve(table: &ExpectTable) -> Result<Self, (&'static str, String)> {
        let metric = &table.metric;
        let (subject, content) =
            Subject::resolve(metric, &table.r#where, table.relative_to.as_ref())?;
        let subject = match table.repeats {
            Repeats::Each => subject,
            Repeats::Median => subject.by_median(&content)?,
        };
        let bound = |key, value| match &content {
            Content::Number(unit) => number(*unit, value).map_err(|m| (key, m)),
            Content::Either => number(Unit::Count, value).map_err(|m| (key, m)),
            Content::Text | Content::Word(_) => Err((
                key,
                "it is text and not a number: write `equals`".to_owned(),
            )),
        };
        let comparison = match (&table.equals, &table.at_least, &table.at_most) {
            (Some(value), None, None) => {
                Comparison::Equals(equal(&content, value).map_err(|m| ("equals", m))?)
            }
            (None, Some(value), None) => Comparison::AtLeast(bound("at_least", value)?),
            (None, None, Some(value)) => Comparison::AtMost(bound("at_most", value)?),
            _ => {
                let mistake = "write one of `equals`, `at_least` and `at_most`";
                return Err(("metric", mistake.to_owned()));
            }
        };
        Ok(Expectation {
            table: table.clone(),
            subject,
            comparison,
        })
    }

    /// The metric's dotted name.
    #[must_use]
    pub fn metric(&self) -> &str {
        self.subject.metric()
    }

    /// Its table in the plan.
    pub(super) fn table(&self) -> &ExpectTable {
        &self.table
    }

    pub(super) fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Checks the expectation against a run's results (the content of results.json). A metric of cells must hold in
    /// each selected cell, or for the median of the repeats of each; a missing metric fails.
    #[must_use]
    pub fn check(&self, results: &Results) -> Verdict {
        let found = self.subject.values(results);
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
        write!(f, "{}", self.subject)?;
        match &self.comparison {
            Comparison::Equals(value) => write!(f, " equals {value}"),
            Comparison::AtLeast(least) => write!(f, " is at least {least}"),
            Comparison::AtMost(most) => write!(f, " is at most {most}"),
        }
    }
}

/// Parses a value that a metric of that content can equal.
fn equal(content: &Content, value: &toml::Value) -> Result<Value, String> {
    match (content, value) {
        (Content::Number(unit), value) => number(*unit, value).map(Value::from),
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
            Err(format!("it is text: write \"…\" instead of {other}"))
        }
    }
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
