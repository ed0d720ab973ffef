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
        /// Whether the quick form was run.
        quick: bool,
        /// The axes of the sweep in the order of the plan, the slowest-varying first.
        axes: Vec<String>,
        /// The cells in the order in which they ran.
        cells: Vec<CellResult> => Group,
        /// The limit of the system in the planned phase; null if the run ended before, or had no
        /// I/Os.
        finding: Option<Finding> => Group,
        /// Whether a run without I/Os reached its expectations; false for any other run.
        is_judged_without_ios: bool,
        /// The gain of the advised change; null if there was none.
        advised: Option<Advised> => Group,
        /// The outcome of the plan's expectations.
        expectations: Vec<Verdict>,
        /// Number of expectations without cells in the quick form.
        expectations_unchecked: u64,
        /// The numbers of the paper that the plan reproduces, beside the measured ones; null without a paper.
        paper: Option<Paper>,
    }

    /// The outcome of an expectation.
    Verdict {
        /// The expected result, in words.
        expected: String,
        /// The actual result, in words.
        found: String,
        /// Whether the expectation is met.
        met: bool,
    }

    /// A paper's numbers beside those of a run.
    Paper {
        /// Authors, title and year.
        title: String,
        /// The figures or tables.
        figure: Option<String>,
        /// Its qualitative results.
        remarks: Vec<String>,
        /// Where this experiment differs, and why.
        differs: Vec<String>,
        /// Its numbers for which the run has cells.
        known: Vec<KnownNumber>,
    }

    /// One published number beside the measured one.
    KnownNumber {
        /// The compared quantity, in words.
        about: String,
        /// The metric's dotted name.
        metric: String,
        /// The parameters of the cells that it applies to.
        r#where: Parameters,
        /// The parameters of the cells whose mean it is divided by; null if it is not a ratio.
        relative_to: Option<Parameters>,
        /// The paper's number, in the unit of the metric.
        value: f64,
        /// The measured number, the mean over those cells; null if there is none.
        ours: Option<f64>,
        /// The measured number ÷ the paper's.
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
