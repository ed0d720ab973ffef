//! Numbers that a paper gives, beside ours.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::document::{KnownTable, PaperTable};
use super::metric::Content;
use super::parameter::flatten;
use super::subject::{Subject, number};
use wansan_mistake::Mistake;

/// The paper's numbers beside those of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Paper {
    /// Authors, title and year.
    pub title: String,
    /// Which of its figures or tables.
    pub figure: Option<String>,
    /// What it says without a number that could stand beside ours.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Where ours is different, and why.
    #[serde(default)]
    pub differs: Vec<String>,
    /// Its numbers, as far as the run has cells for them.
    pub known: Vec<KnownNumber>,
}

/// One number of the paper beside ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnownNumber {
    /// What is compared, in words.
    pub about: String,
    /// The metric's dotted name.
    pub metric: String,
    /// The parameters of the cells that it is of.
    pub r#where: Map<String, Value>,
    /// The parameters of the cells whose mean it is a ratio to; null when it is none.
    pub relative_to: Option<Map<String, Value>>,
    /// The paper's number, in the unit that the metric's name ends in.
    pub value: f64,
    /// Ours, the mean over those cells; null when there is none.
    pub ours: Option<f64>,
    /// Ours ÷ the paper's.
    pub ratio: Option<f64>,
}

/// A number of the paper, checked and ready to be held beside results.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known {
    table: KnownTable,
    subject: Subject,
    value: f64,
}

/// Reads the `[[paper.known]]` tables of a plan.
pub(super) fn resolve(paper: Option<&PaperTable>) -> Result<Vec<Known>, Mistake> {
    let tables = paper.map_or(&[][..], |paper| &paper.known);
    let known = |table: &KnownTable| {
        let about = format!("[[paper.known]] `{}`", table.metric);
        Known::resolve(table).map_err(|mistake| Mistake::new(mistake).within(about))
    };
    tables.iter().map(known).collect()
}

/// The paper's numbers beside those of results (the content of results.json).
pub(super) fn beside(paper: &PaperTable, known: &[Known], results: &Value) -> Paper {
    Paper {
        title: paper.title.clone(),
        figure: paper.figure.clone(),
        remarks: paper.remarks.clone(),
        differs: paper.differs.clone(),
        known: known.iter().map(|known| known.beside(results)).collect(),
    }
}

impl Known {
    fn resolve(table: &KnownTable) -> Result<Self, String> {
        let (subject, content) =
            Subject::resolve(&table.metric, &table.r#where, table.relative_to.as_ref())
                .map_err(|(_, mistake)| mistake)?;
        if content != Content::Number {
            return Err("it is not a number, so it has no counterpart in a paper".to_owned());
        }
        Ok(Known {
            table: table.clone(),
            subject,
            value: number(&table.metric, &table.value)?,
        })
    }

    /// It as written.
    pub(super) fn table(&self) -> &KnownTable {
        &self.table
    }

    pub(super) fn subject(&self) -> &Subject {
        &self.subject
    }

    fn beside(&self, results: &Value) -> KnownNumber {
        let ours = self.subject.mean(results);
        KnownNumber {
            about: self.subject.to_string(),
            metric: self.table.metric.clone(),
            r#where: flat(&self.table.r#where),
            relative_to: self.table.relative_to.as_ref().map(flat),
            value: self.value,
            ours,
            ratio: ours.map(|ours| ours / self.value).filter(|r| r.is_finite()),
        }
    }
}

fn flat(table: &toml::Table) -> Map<String, Value> {
    let json = |value: &toml::Value| serde_json::to_value(value).expect("a plan is plain data");
    let entries = flatten(table).into_iter();
    entries
        .map(|(name, value)| (name.name().to_owned(), json(&value)))
        .collect()
}
