//! results.json as a whole.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::table::tables;
use crate::{Advised, CellResult, Finding, Parameters};

tables! {
    /// The content of results.json.
    Results {
        /// The plan's name.
        plan: String,
        /// The plan's title.
        title: String,
        /// Whether it was run in its quick form.
        quick: bool,
        /// The axes of the sweep in the order of the plan, first the one that varies slowest.
        axes: Vec<String>,
        /// The cells in the order in which they ran.
        cells: Vec<CellResult> => Group,
        /// What holds the system back, in the planned phase; null when the run did not get that far, or
        /// had no I/Os.
        finding: Option<Finding> => Group,
        /// Whether a run without I/Os got as far as its expectations; false of any other.
        is_judged_without_ios: bool,
        /// What the advised change brought; null when there was none.
        advised: Option<Advised> => Group,
        /// How the plan's expectations turned out.
        expectations: Vec<Verdict>,
        /// How many of them the quick form has no cells for.
        expectations_unchecked: u64,
        /// The numbers of the paper that the plan rebuilds, beside ours; null when it rebuilds none.
        paper: Option<Paper>,
    }

    /// How an expectation turned out.
    Verdict {
        /// What was expected, in words.
        expected: String,
        /// What was found, in words.
        found: String,
        /// Whether that is so.
        met: bool,
    }

    /// A paper's numbers beside those of a run.
    Paper {
        /// Authors, title and year.
        title: String,
        /// Which of its figures or tables.
        figure: Option<String>,
        /// What it says without a number that could stand beside ours.
        remarks: Vec<String>,
        /// Where ours is different, and why.
        differs: Vec<String>,
        /// Its numbers, as far as the run has cells for them.
        known: Vec<KnownNumber>,
    }

    /// One number of a paper beside ours.
    KnownNumber {
        /// What is compared, in words.
        about: String,
        /// The metric's dotted name.
        metric: String,
        /// The parameters of the cells that it is of.
        r#where: Parameters,
        /// The parameters of the cells whose mean it is a ratio to; null when it is none.
        relative_to: Option<Parameters>,
        /// The paper's number, in the unit of the metric.
        value: f64,
        /// Ours, the mean over those cells; null when there is none.
        ours: Option<f64>,
        /// Ours ÷ the paper's.
        ratio: Option<f64>,
    }
}

impl Results {
    /// Reads the text of a results.json.
    ///
    /// # Errors
    /// When it is not the results of a run: no JSON, without cells, or with something else at the place
    /// of a result.
    pub fn from_json(text: &str) -> serde_json::Result<Results> {
        /// What only results have.
        #[derive(Deserialize)]
        struct Mark {
            #[serde(rename = "cells")]
            _cells: IgnoredAny,
        }
        serde_json::from_str::<Mark>(text)?;
        serde_json::from_str(text)
    }
}
