//! What a finding's advice brings in each cell, by letting a simulated twin of the cell follow it.

use std::time::Duration;

use wansan_insight::Cell;
use wansan_insight::finding::{Finding, Limit, Observed, Prediction, PredictionSource};

use crate::knob::Setting;
use crate::pool;
use crate::reading::Reading;
use crate::what_if::{Twin, changed};

/// Simulated time of all runs of one cell with and without the change, at most; what is compared with the recording is
/// one more.
const MOST_SIMULATED: Duration = Duration::from_secs(12);
/// Where no limit lets more through than this, nothing is to be gained and nothing need be simulated.
const LEAST_GAIN: f64 = 0.02;
/// Cells of which all records are in memory at a time, at most.
const CELLS_AT_A_TIME: usize = 2;

/// The finding with predictions by simulation, as far as `planned` cells have twins that do what was recorded; the
/// others stay the bounds that they are. `records` gives those of a cell whose paths stayed as they were.
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

/// What a finding's advice sets, first what it is about.
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

/// What the change brings in a cell; `None` where no twin tells.
fn of_cell(
    bound: &Prediction,
    observed: &Observed,
    change: &[Setting],
    records: &dyn Fn(u64) -> Option<Cell>,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Option<Prediction> {
    let reading = Reading::of_summary(&records(bound.cell)?, &observed.summary).ok()?;
    // What twins have no knob for is not simulated.
    changed(&reading.setup, change).ok()?;
    let twin = Twin::by_one_seed(reading, goes_on).ok()?;
    let told = twin.gain(change, MOST_SIMULATED, goes_on).ok()??;
    // What the cell's own losses did to it is not foretold of the advised run.
    let ratio = told.bytes_per_s.median / twin.recorded_bytes_per_s().max(1e-9);
    Some(Prediction {
        predicted_iops: bound.iops * ratio,
        gain: told.gain.median,
        bound: Limit::named(&told.binds_next).unwrap_or(Limit::Nothing),
        source: PredictionSource::Simulation,
        ..bound.clone()
    })
}
