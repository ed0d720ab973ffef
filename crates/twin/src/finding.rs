//! Predicts the gain of a finding's advice in each cell by simulating the cell's twin with it.

use std::time::Duration;

use wansan_insight::Cell;
use wansan_insight::finding::{Finding, Limit, Observed, Prediction, PredictionSource};

use crate::knob::Setting;
use crate::pool;
use crate::reading::Reading;
use crate::what_if::{Twin, changed};

/// Limit on the simulated time of all runs of a cell with and without the change; the run compared with the recording
/// is extra.
const MOST_SIMULATED: Duration = Duration::from_secs(12);
/// If the bound on the gain is below this, nothing is simulated.
const LEAST_GAIN: f64 = 0.02;
/// Maximum number of cells whose records are in memory at a time.
const CELLS_AT_A_TIME: usize = 2;

/// Adds simulated predictions to the finding, for `planned` cells whose twins reproduce the recording; the others keep
/// their bounds. `records` returns a cell's records, if its paths did not change.
pub fn predict(
    finding: Finding,
    planned: &[Observed],
    records: &(dyn Fn(u64) -> Option<Cell> + Sync),
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Finding {
    let Some(bounds) = &finding.predicted else {
        return finding;
    };
    let change = advised(&finding);
    let watch = |_, _| goes_on();
    let predicted = pool::run_some(CELLS_AT_A_TIME, bounds, &watch, |bound, goes_on| {
        let observed = planned.iter().find(|it| it.cell == bound.cell);
        let simulated = observed
            .filter(|_| bound.gain >= LEAST_GAIN)
            .and_then(|observed| of_cell(bound, observed, &change, records, goes_on));
        simulated.unwrap_or_else(|| bound.clone())
    });
    finding.predicting(predicted, planned)
}

/// The settings of a finding's advice, each advised parameter before those that go with it.
#[must_use]
pub fn advised(finding: &Finding) -> Vec<Setting> {
    let advice = finding.advice.iter();
    let settings = advice.flat_map(|advice| {
        let first = advice.parameter.as_ref().zip(advice.value.as_ref());
        first.into_iter().chain(&advice.with)
    });
    let settings = settings.map(|(parameter, value)| Setting {
        parameter: parameter.clone(),
        value: value.clone(),
    });
    settings.collect()
}

/// Predicted effect of the change in a cell; `None` if it has no usable twin.
fn of_cell(
    bound: &Prediction,
    observed: &Observed,
    change: &[Setting],
    records: &dyn Fn(u64) -> Option<Cell>,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Option<Prediction> {
    let reading = Reading::of_summary(&records(bound.cell)?, &observed.summary).ok()?;
    // Changes without a knob are not simulated.
    changed(&reading.setup, change).ok()?;
    let twin = Twin::by_one_seed(reading, goes_on).ok()?;
    let told = twin.gain(change, MOST_SIMULATED, goes_on).ok()??;
    // Not the gain, but the predicted throughput: the advised run does not share the losses of the recording.
    let ratio = told.bytes_per_s.median / twin.recorded_bytes_per_s().max(1e-9);
    Some(Prediction {
        predicted_iops: bound.iops * ratio,
        gain: told.gain.median,
        bound: Limit::named(&told.binds_next).unwrap_or(Limit::Nothing),
        source: PredictionSource::Simulation,
        ..bound.clone()
    })
}
