//! What holds a system or a cell back, and what following the advice brought.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Parameters;
use crate::table::tables;

tables! {
    /// What holds the system back. `wanted` and `got` are means per session in the cell that it speaks of:
    /// the first cell, by I/Os in flight, in which the limit binds.
    Finding {
        /// What binds.
        limit: String => Text of Limits,
        /// The first layer that holds fewer than the one above, if one does.
        layer: Option<String> => Text of Layers,
        /// The layer above.
        above: Option<String> => Text of Layers,
        /// Mean number that had entered the layer above: how many asked to enter.
        wanted: f64 => Count,
        /// Mean number that had entered the layer: how many were admitted.
        got: f64 => Count,
        /// The share of the latency spent waiting for it, 0 to 1.
        waiting_share: f64 => Ratio,
        /// The cell that the numbers above are from.
        cell: u64 => Count,
        /// The cells in which the limit binds.
        binds_in_cells: Vec<u64>,
        /// Facts that the finding rests on, a line each.
        evidence: Vec<String>,
        /// The finding as a storage engineer would say it.
        sentence: String => Text,
        /// What to change, if there is something.
        advice: Option<Advice> => Group,
        /// What each cell would do once the advice is followed; null when the gain cannot be predicted.
        predicted: Option<Vec<Prediction>>,
    }

    /// What to change.
    Advice {
        /// In words.
        text: String => Text,
        /// The plan's parameter, when one number does it.
        parameter: Option<String> => Text,
        /// Its value as a plan writes it.
        value: Option<String> => Text,
        /// Other parameters without which it would bring nothing, with their values.
        with: BTreeMap<String, String>,
    }

    /// What one cell would do once the advice is followed.
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
        /// What bounds the prediction.
        bound: String,
        /// What it comes from: `simulation` of the recording with the change, or `bounds`, what the next limits let
        /// through at most.
        source: String,
    }

    /// What holds one cell back.
    CellFinding {
        /// What binds.
        limit: String => Text of Limits,
        /// The first layer that holds fewer than the one above, if one does.
        layer: Option<String> => Text of Layers,
        /// The layer above.
        above: Option<String> => Text of Layers,
        /// The share of the latency spent waiting for it, 0 to 1.
        waiting_share: f64 => Ratio,
        /// All that as a storage engineer would say it.
        sentence: String => Text,
    }

    /// The advised change, and its gain as predicted and as measured. The single numbers are those of the
    /// point of the sweep where most was predicted.
    Advised {
        /// The parameter that was changed.
        parameter: String => Text,
        /// What it was in the planned phase, if the plan has a value for it.
        planned_value: Option<Value> => Text,
        /// What it was changed to.
        value: Value => Text,
        /// The cell before the change.
        planned_cell: u64 => Count,
        /// The cell after it.
        advised_cell: u64 => Count,
        /// I/Os per second before the change.
        planned_iops: f64 => PerS,
        /// I/Os per second that were predicted.
        predicted_iops: f64 => PerS,
        /// I/Os per second after it.
        measured_iops: f64 => PerS,
        /// `predicted_iops` ÷ `planned_iops` − 1.
        predicted_gain: f64 => Ratio,
        /// `measured_iops` ÷ `planned_iops` − 1.
        measured_gain: f64 => Ratio,
        /// `measured_iops` ÷ `predicted_iops`: 1 where the prediction is right. Null where none was
        /// predicted.
        measured_of_predicted: Option<f64> => Ratio,
        /// Every point of the sweep.
        gains: Vec<Gain>,
    }

    /// One point of a sweep before and after the advice was followed. Repeats are averaged.
    Gain {
        /// The parameters of the sweep.
        parameters: Parameters,
        /// I/Os per second as planned.
        planned_iops: f64,
        /// I/Os per second that were predicted for the advised run.
        predicted_iops: f64,
        /// I/Os per second of the advised run.
        advised_iops: f64,
        /// `predicted_iops` ÷ `planned_iops` − 1.
        predicted_gain: f64,
        /// `advised_iops` ÷ `planned_iops` − 1.
        measured_gain: f64,
    }
}
