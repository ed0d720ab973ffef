//! The limit of a system or a cell, and the gain from following the advice.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Parameters;
use crate::table::tables;

tables! {
    /// The limit of the system. `wanted` and `got` are means per session in the cell that it describes:
    /// the one with the fewest I/Os in flight among those in which the limit binds.
    Finding {
        /// What binds.
        limit: String => Text of Limits,
        /// The first layer that holds fewer than the one above, if one does.
        layer: Option<String> => Text of Layers,
        /// The layer above.
        above: Option<String> => Text of Layers,
        /// Mean number of I/Os in the layer above: the demand.
        wanted: f64 => Count,
        /// Mean number of I/Os in the layer: those admitted.
        got: f64 => Count,
        /// The share of the latency spent waiting for it, 0 to 1.
        waiting_share: f64 => Ratio,
        /// Half of that share's 95 % confidence interval, or more, if a sample of the I/Os was recorded; 0 if all were.
        waiting_share_uncertain: f64 => Ratio,
        /// The cell that the numbers above are from.
        cell: u64 => Count,
        /// The cells in which the limit binds.
        binds_in_cells: Vec<u64>,
        /// The evidence for the finding, one fact per line.
        evidence: Vec<String>,
        /// The finding as a sentence.
        sentence: String => Text,
        /// What to change, if anything.
        advice: Option<Advice> => Group,
        /// The prediction for each cell with the advice applied; null if the gain cannot be predicted.
        predicted: Option<Vec<Prediction>>,
    }

    /// What to change.
    Advice {
        /// In words.
        text: String => Text,
        /// The plan's parameter, if the advice is a single value.
        parameter: Option<String> => Text,
        /// Its value in the syntax of plans.
        value: Option<String> => Text,
        /// Other parameters that it needs to have an effect, with their values.
        with: BTreeMap<String, String>,
    }

    /// The prediction for one cell with the advice applied.
    Prediction {
        /// The cell.
        cell: u64,
        /// The parameters of the sweep.
        parameters: Parameters,
        /// Mean in flight per session at the top layer, as measured.
        in_flight: f64,
        /// I/Os per second as measured.
        iops: f64,
        /// I/Os per second predicted.
        predicted_iops: f64,
        /// `predicted_iops` ÷ `iops` − 1.
        gain: f64,
        /// The limit of the prediction.
        bound: String,
        /// The method: `simulation` of the recording with the change, or `bounds`, the maximum that the next limits
        /// allow.
        source: String,
    }

    /// The limit of one cell.
    CellFinding {
        /// What binds.
        limit: String => Text of Limits,
        /// The first layer that holds fewer than the one above, if one does.
        layer: Option<String> => Text of Layers,
        /// The layer above.
        above: Option<String> => Text of Layers,
        /// The share of the latency spent waiting for it, 0 to 1.
        waiting_share: f64 => Ratio,
        /// Half of that share's 95 % confidence interval, or more, if a sample of the I/Os was recorded; 0 if all were.
        waiting_share_uncertain: f64 => Ratio,
        /// The same as a sentence.
        sentence: String => Text,
    }

    /// The advised change, and its predicted and measured gain. The single numbers are those of the
    /// point of the sweep with the largest predicted gain.
    Advised {
        /// The parameter that was changed.
        parameter: String => Text,
        /// Its value in the planned phase, if the plan sets it.
        planned_value: Option<Value> => Text,
        /// Its advised value.
        value: Value => Text,
        /// The cell before the change.
        planned_cell: u64 => Count,
        /// The cell after it.
        advised_cell: u64 => Count,
        /// I/Os per second before the change.
        planned_iops: f64 => PerS,
        /// Predicted I/Os per second.
        predicted_iops: f64 => PerS,
        /// I/Os per second after it.
        measured_iops: f64 => PerS,
        /// `predicted_iops` ÷ `planned_iops` − 1.
        predicted_gain: f64 => Ratio,
        /// `measured_iops` ÷ `planned_iops` − 1.
        measured_gain: f64 => Ratio,
        /// `measured_iops` ÷ `predicted_iops`: 1 for an exact prediction. Null without a
        /// prediction.
        measured_of_predicted: Option<f64> => Ratio,
        /// Every point of the sweep.
        gains: Vec<Gain>,
    }

    /// One point of a sweep before and after the advised change. Repeats are averaged.
    Gain {
        /// The parameters of the sweep.
        parameters: Parameters,
        /// I/Os per second as planned.
        planned_iops: f64,
        /// Predicted I/Os per second of the advised run.
        predicted_iops: f64,
        /// I/Os per second of the advised run.
        advised_iops: f64,
        /// `predicted_iops` ÷ `planned_iops` − 1.
        predicted_gain: f64,
        /// `advised_iops` ÷ `planned_iops` − 1.
        measured_gain: f64,
    }
}
