//! What the advice brought, beside what was predicted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::finding::{Limit, Observed, predict};

/// One point of a sweep before and after the advice was followed. Repeats are averaged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// The parameters of the sweep.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// I/Os per second as planned.
    pub planned_iops: f64,
    /// I/Os per second that were predicted for the advised run.
    pub predicted_iops: f64,
    /// I/Os per second of the advised run.
    pub advised_iops: f64,
    /// `predicted_iops` ÷ `planned_iops` − 1.
    pub predicted_gain: f64,
    /// `advised_iops` ÷ `planned_iops` − 1.
    pub measured_gain: f64,
}

/// Compares the two runs of a sweep, point by point in the planned order, where `limit` is what
/// the advice was against. Points that only one of them has are left out.
#[must_use]
pub fn compare(limit: Limit, planned: &[Observed], advised: &[Observed]) -> Vec<Gain> {
    let mut gains: Vec<Gain> = Vec::new();
    for observed in planned {
        let parameters = &observed.parameters;
        if gains.iter().any(|gain| gain.parameters == *parameters) {
            continue;
        }
        let before = mean(planned, parameters, |cell| cell.summary.total.iops);
        let predicted = mean(planned, parameters, |cell| {
            predict(cell, limit).predicted_iops
        });
        let after = mean(advised, parameters, |cell| cell.summary.total.iops);
        if let (Some(planned_iops), Some(predicted_iops), Some(advised_iops)) =
            (before, predicted, after)
        {
            let gain = |iops: f64| {
                if planned_iops > 0.0 {
                    iops / planned_iops - 1.0
                } else {
                    0.0
                }
            };
            gains.push(Gain {
                parameters: parameters.clone(),
                planned_iops,
                predicted_iops,
                advised_iops,
                predicted_gain: gain(predicted_iops),
                measured_gain: gain(advised_iops),
            });
        }
    }
    gains
}

fn mean(
    cells: &[Observed],
    parameters: &BTreeMap<String, serde_json::Value>,
    value: impl Fn(&Observed) -> f64,
) -> Option<f64> {
    let values: Vec<f64> = cells
        .iter()
        .filter(|cell| cell.parameters == *parameters)
        .map(value)
        .collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
