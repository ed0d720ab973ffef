//! The measured gain of the advice, compared with the prediction.

use wansan_schema::{Gain, Parameters};

use crate::finding::{Observed, Prediction};

/// Compares the two runs of a sweep, point by point in the planned order, with what was predicted of the planned
/// cells. Points that only one of them has, or that have no prediction, are omitted.
#[must_use]
pub fn compare(predicted: &[Prediction], planned: &[Observed], advised: &[Observed]) -> Vec<Gain> {
    let predicted_iops = |cell: &Observed| {
        let of_cell = predicted.iter().find(|it| it.cell == cell.cell);
        of_cell.map(|it| it.predicted_iops)
    };
    let iops = |cell: &Observed| Some(cell.summary.total.iops);
    let mut gains: Vec<Gain> = Vec::new();
    for observed in planned {
        let parameters = &observed.parameters;
        if gains.iter().any(|gain| gain.parameters == *parameters) {
            continue;
        }
        let before = mean(planned, parameters, iops);
        let predicted = mean(planned, parameters, predicted_iops);
        let after = mean(advised, parameters, iops);
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
    parameters: &Parameters,
    value: impl Fn(&Observed) -> Option<f64>,
) -> Option<f64> {
    let values: Vec<f64> = cells
        .iter()
        .filter(|cell| cell.parameters == *parameters)
        .filter_map(value)
        .collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
