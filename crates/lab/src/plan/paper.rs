//! A paper's figures, beside ours.

use wansan_schema::{KnownNumber, Paper, Parameters, Results};

use super::document::{KnownTable, PaperTable};
use super::json::json;
use super::metric::Content;
use super::parameter::flatten;
use super::subject::{Subject, number};
use wansan_mistake::Mistake;

/// A checked figure of the paper.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known {
    table: KnownTable,
    subject: Subject,
    value: f64,
}

/// Parses the `[[paper.known]]` tables of a plan.
pub(super) fn resolve(paper: Option<&PaperTable>) -> Result<Vec<Known>, Mistake> {
    let tables = paper.map_or(&[][..], |paper| &paper.known);
    let known = |table: &KnownTable| {
        let about = format!("[[paper.known]] `{}`", table.metric);
        Known::resolve(table).map_err(|mistake| Mistake::new(mistake).within(about))
    };
    tables.iter().map(known).collect()
}

/// The paper's figures beside those of `results`.
pub(super) fn beside(paper: &PaperTable, known: &[Known], results: &Results) -> Paper {
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
        let Content::Number(unit) = content else {
            return Err("it is not a number, so it has no counterpart in a paper".to_owned());
        };
        Ok(Known {
            table: table.clone(),
            subject,
            value: number(unit, &table.value)?,
        })
    }

    /// Its table in the plan.
    pub(super) fn table(&self) -> &KnownTable {
        &self.table
    }

    pub(super) fn subject(&self) -> &Subject {
        &self.subject
    }

    fn beside(&self, results: &Results) -> KnownNumber {
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

fn flat(table: &toml::Table) -> Parameters {
    let entries = flatten(table).into_iter();
    entries
        .map(|(name, value)| (name.name().to_owned(), json(&value)))
        .collect()
}
