//! The limit of the load, and what to change. `docs/internals/finding.md` has the rules.

mod advice;
mod encryption;
mod limits;
mod lockstep;
pub mod negotiated;
mod predict;
mod r2t;
mod results;
mod sampled;
mod sentence;
mod stalls;
mod sweep;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wansan_trace::Layer;

pub use crate::cause::Limit;
use crate::summary::CellSummary;

pub use predict::{Prediction, PredictionSource};
pub use sweep::explain;
pub use wansan_schema::Advice;

/// A cell of a run to be explained: its numbers, and the varied parameters, which only label them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Observed {
    /// The cell's number in the run.
    pub cell: u64,
    /// The parameters of the sweep by dotted name.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// What was recorded.
    pub summary: CellSummary,
}

/// The finding of a run.
///
/// `wanted` and `got` are means per session in the cell that the finding describes: the cell with the fewest I/Os in
/// flight in which the limit binds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The limit that binds.
    pub limit: Limit,
    /// The first layer that holds fewer I/Os than the one above, if there is one.
    pub layer: Option<Layer>,
    /// The layer above.
    pub above: Option<Layer>,
    /// Mean number of I/Os that had entered the layer above: how many asked to enter.
    pub wanted: f64,
    /// Mean number of I/Os that had entered the layer: how many were admitted.
    pub got: f64,
    /// The share of the latency spent waiting for it, 0 to 1.
    pub waiting_share: f64,
    /// Half of that share's 95 % confidence interval, or more, if a sample of the I/Os was recorded; 0 if all were.
    pub waiting_share_uncertain: f64,
    /// The cell that the numbers above are from.
    pub cell: u64,
    /// The cells in which the limit binds.
    pub binds_in_cells: Vec<u64>,
    /// Facts that the finding rests on, a line each.
    pub evidence: Vec<String>,
    /// The finding as a storage engineer would say it.
    pub sentence: String,
    /// What to change, if there is something.
    pub advice: Option<Advice>,
    /// What each cell is predicted to do once the advice is followed; `None` if the gain cannot be predicted.
    pub predicted: Option<Vec<Prediction>>,
}

impl Finding {
    /// The finding with other predictions; `cells` are those that it was derived from.
    #[must_use]
    pub fn predicting(self, predicted: Vec<Prediction>, cells: &[Observed]) -> Finding {
        let mut finding = Finding {
            predicted: Some(predicted),
            ..self
        };
        if let Some(observed) = cells.iter().find(|it| it.cell == finding.cell) {
            finding.sentence = sentence::sentence(&finding, observed, cells.len());
        }
        finding
    }
}
