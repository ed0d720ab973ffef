//! Predictions: what a recorded run would have done with a change, by simulating its twin with it.

use std::time::Duration;

use serde::Serialize;
use wansan_insight::finding::Observed;
use wansan_insight::{CellSummary, explain};

use crate::calibrate::calibrated;
use crate::fit::{Compared, MORE_SEEDS, Nearest, nearest};
use crate::knob::{KnobError, Setting, set};
use crate::loss::LossShare;
use crate::reading::Reading;
use crate::replay::{Measured, Replay, ReplayError};
use crate::seeds::{self, Runs};
use crate::setup::{Repeats, Setup};

/// Limit on the simulated time of all runs together: half for single changes, half for the advice.
pub const MOST_SIMULATED: Duration = Duration::from_secs(600);
/// The half for single changes.
const MOST_FOR_EACH_ALONE: Duration = MOST_SIMULATED.checked_div(2).expect("two is not zero");
/// The shortest measurement of a run.
const LEAST_TIME: Duration = Duration::from_millis(500);

/// Range of a number over the seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    /// Minimum.
    pub least: f64,
    /// Median.
    pub median: f64,
    /// Maximum.
    pub most: f64,
}

impl Range {
    pub(crate) fn of(mut values: Vec<f64>) -> Range {
        values.sort_by(f64::total_cmp);
        let last = values.len() - 1;
        Range {
            least: values[0],
            median: (values[last / 2] + values[last.div_ceil(2)]) / 2.0,
            most: values[last],
        }
    }

    fn times(self, factor: f64) -> Range {
        Range {
            least: self.least * factor,
            median: self.median * factor,
            most: self.most * factor,
        }
    }
}

/// Prediction for a change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The change: one setting, or several that belong together.
    pub change: Vec<Setting>,
    /// Bytes of data per second with it ÷ without it − 1.
    pub gain: Range,
    /// Number of runs with it, each with a different seed; more if chance decides.
    pub seeds: usize,
    /// Bytes of data per second with it, over the same seeds. The range covers what the recording leaves open, such as
    /// the share of random loss, on which gains hardly depend.
    pub bytes_per_s: Range,
    /// Median I/O latency, in ns.
    pub latency_p50_ns: f64,
    /// 99th percentile of I/O latency, in ns.
    pub latency_p99_ns: f64,
    /// The limit that binds with the change.
    pub binds_next: String,
    /// Additional memory that it may take, at both ends together, in bytes.
    pub memory_bytes: i64,
    /// Throughput of a Reno flow on the same path with the change ÷ without it; null if that was not simulated, or the
    /// path has no rate to share.
    pub reno_share: Option<Range>,
}

/// Answer to a query about a recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WhatIf {
    /// What the records do not show and what was assumed instead.
    pub unknown: Vec<String>,
    /// How much of a long recording is simulated, and the length of prediction runs; empty if all of it is simulated.
    pub shortened: Vec<String>,
    /// Whether the twin reproduces the recording, within the bounds in `compared`.
    pub fits: bool,
    /// Numbers of the recording and of its twin.
    pub compared: Vec<Compared>,
    /// Recorded bytes of data per second.
    pub bytes_per_s: f64,
    /// Throughput of the unchanged twin with other losses of the same share, the baseline of gains: the median over
    /// the seeds, in bytes per second. `None` if nothing is predicted.
    pub expected_bytes_per_s: Option<f64>,
    /// Shares of random loss whose uncertainty widens the predictions.
    pub losses: Vec<KnownLoss>,
    /// The limit that binds in the twin as recorded.
    pub binds: String,
    /// Simulated seconds of all runs together.
    pub simulated_s: f64,
    /// Predictions, largest gain first; none if the twin does not fit.
    pub predictions: Vec<Prediction>,
    /// The best set of settings of target, session and TCP, if any improves throughput. Each prediction adds one
    /// change to the one before; the last has all of them.
    pub advice: Vec<Prediction>,
    /// Changes that could not be simulated, and why.
    pub failed: Vec<Failed>,
}

/// How precisely a recording determines the share of random loss.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KnownLoss {
    /// The direction of a path, such as `wan:forward`.
    pub path: String,
    /// Packets lost.
    pub lost: u64,
    /// Packets subject to loss, including the lost ones.
    pub packets: u64,
    /// Share lost, 0 to 1.
    pub share: f64,
    /// Lower bound on the true share, with 97.5 % confidence.
    pub share_least: f64,
    /// Upper bound on the true share, with 97.5 % confidence.
    pub share_most: f64,
}

/// A change that could not be simulated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Failed {
    /// The change.
    pub change: Vec<Setting>,
    /// Why.
    pub reason: String,
}

/// Results of simulating changes.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Largest gain first.
    pub(crate) predictions: Vec<Prediction>,
    pub(crate) failed: Vec<Failed>,
    /// As in [`WhatIf`].
    pub(crate) expected_bytes_per_s: Option<f64>,
    /// As in [`WhatIf`].
    pub(crate) losses: Vec<KnownLoss>,
    /// Simulated seconds of all runs together.
    pub(crate) simulated_s: f64,
    /// By how much the runs are shorter than the recording, if they are.
    pub(crate) shortened: Option<String>,
}

/// The setup with real queues instead of repeated drops, and without pauses of its hosts. Random losses are drawn with
/// the seed of a run ([`seeds::drawn`]).
pub(crate) fn without_mishaps(setup: &Setup) -> Setup {
    let mut setup = setup.clone();
    for initiator in &mut setup.initiators {
        initiator.pauses = Default::default();
    }
    for direction in &mut setup.directions {
        direction.repeats = Repeats::Nothing;
    }
    setup
}

/// A setup with these changes.
pub(crate) fn changed(setup: &Setup, change: &[Setting]) -> Result<Setup, KnobError> {
    let mut setup = setup.clone();
    for setting in change {
        set(&mut setup, setting)?;
    }
    Ok(setup)
}

/// Why nothing can be predicted, as one line of text.
#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    /// A change is impossible.
    #[error(transparent)]
    Knob(#[from] KnobError),
    /// The twin did not run.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// A twin that has been compared with its recording.
#[derive(Debug)]
pub struct Twin {
    reading: Reading,
    replay: Replay,
    compared: Vec<Compared>,
}

impl Twin {
    /// Builds the twin of a recording and compares them. Where chance decides, several seeds are tried until one fits.
    ///
    /// # Errors
    /// [`ReplayError`] when it does not run.
    pub fn of(reading: Reading, goes_on: &(dyn Fn() -> bool + Sync)) -> Result<Twin, ReplayError> {
        Twin::by_seeds(reading, &MORE_SEEDS, goes_on)
    }

    /// As [`Twin::of`], with one seed only: for many recordings, where those that chance decides may go without a
    /// twin.
    ///
    /// # Errors
    /// [`ReplayError`] when it does not run.
    pub fn by_one_seed(
        reading: Reading,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Twin, ReplayError> {
        Twin::by_seeds(reading, &[], goes_on)
    }

    fn by_seeds(
        mut reading: Reading,
        more: &[std::ops::Range<u64>],
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Twin, ReplayError> {
        reading.setup = calibrated(reading.setup, &reading.recorded, goes_on)?;
        let costs = reading.setup.costs;
        let mut setups = vec![reading.setup.clone()];
        let others = reading.alternatives.drain(..);
        setups.extend(others.map(|other| Setup { costs, ..other }));
        let Nearest {
            place,
            replay,
            compared,
        } = nearest(&reading.recorded, &setups, more, goes_on)?;
        reading.setup = setups.swap_remove(place);
        Ok(Twin {
            reading,
            replay,
            compared,
        })
    }

    /// Its setup.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.reading.setup
    }

    /// The limit that binds in it.
    #[must_use]
    pub fn binds(&self) -> String {
        binds(&self.replay.summary)
    }

    /// Numbers of the recording and of its twin.
    #[must_use]
    pub fn compared(&self) -> &[Compared] {
        &self.compared
    }

    /// Whether it reproduces the recording.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.compared.iter().all(Compared::fits)
    }

    /// Predicts each of the changes, on all processors, if the twin fits. `watch` gets the numbers of runs done and of
    /// all runs, and returns whether to continue.
    ///
    /// # Errors
    /// [`WhatIfError`] when a change cannot be made, or the twin does not run.
    pub fn predict(
        &self,
        changes: &[Vec<Setting>],
        watch: &(dyn Fn(usize, usize) -> bool + Sync),
    ) -> Result<WhatIf, WhatIfError> {
        let mut told = WhatIf {
            unknown: self.reading.unknown.clone(),
            shortened: self.reading.shortened.clone(),
            fits: self.fits(),
            compared: self.compared.clone(),
            bytes_per_s: self.recorded_bytes_per_s(),
            expected_bytes_per_s: None,
            losses: Vec::new(),
            binds: self.binds(),
            simulated_s: 0.0,
            predictions: Vec::new(),
            advice: Vec::new(),
            failed: Vec::new(),
        };
        if !told.fits {
            return Ok(told);
        }
        let outcome = self.outcome(changes, MOST_FOR_EACH_ALONE, watch)?;
        told.shortened.extend(outcome.shortened);
        told.simulated_s = outcome.simulated_s;
        told.expected_bytes_per_s = outcome.expected_bytes_per_s;
        told.losses = outcome.losses;
        told.predictions = outcome.predictions;
        told.failed = outcome.failed;
        Ok(told)
    }

    /// Simulates each of the changes in at most `most` simulated time; largest gain first.
    pub(crate) fn outcome(
        &self,
        changes: &[Vec<Setting>],
        most: Duration,
        watch: &(dyn Fn(usize, usize) -> bool + Sync),
    ) -> Result<Outcome, WhatIfError> {
        let mut outcome = Outcome::default();
        let as_recorded = self.within(most, changes.len() + 1, &mut outcome);
        let mut setups = vec![as_recorded.clone()];
        for change in changes {
            setups.push(changed(&as_recorded, change)?);
        }
        let (runs, simulated) = seeds::run(&setups, most, watch);
        outcome.simulated_s = simulated.as_secs_f64();
        if runs.iter().flatten().any(Runs::differ) {
            outcome.losses = vague_losses(&as_recorded);
        }
        let mut runs = runs.into_iter();
        let unchanged = runs.next().expect("there is a setup")?.measured;
        outcome.expected_bytes_per_s = Some(self.throughput(&unchanged).median);
        for ((change, changed), runs) in changes.iter().zip(&setups[1..]).zip(runs) {
            match runs {
                Ok(runs) => {
                    let memory_bytes = changed.memory_bytes() - as_recorded.memory_bytes();
                    let prediction = self.prediction(change, &unchanged, runs, memory_bytes);
                    outcome.predictions.push(prediction);
                }
                Err(ReplayError::Interrupted) => return Err(ReplayError::Interrupted.into()),
                Err(error) => outcome.failed.push(Failed {
                    change: change.clone(),
                    reason: error.to_string(),
                }),
            }
        }
        outcome
            .predictions
            .sort_by(|a, b| b.gain.median.total_cmp(&a.gain.median));
        Ok(outcome)
    }

    /// Predicts one change, in at most `most` simulated time, if the twin fits.
    ///
    /// # Errors
    /// [`WhatIfError`] when the change cannot be made, or the twin does not run.
    pub fn gain(
        &self,
        change: &[Setting],
        most: Duration,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Prediction>, WhatIfError> {
        if !self.fits() {
            return Ok(None);
        }
        let outcome = self.outcome(&[change.to_vec()], most, &|_, _| goes_on())?;
        Ok(outcome.predictions.into_iter().next())
    }

    pub(crate) fn recorded_bytes_per_s(&self) -> f64 {
        self.reading.bytes_per_s
    }

    /// Recorded throughput ÷ the twin's.
    fn above_twin(&self) -> f64 {
        self.reading.bytes_per_s / self.replay.measured.bytes_per_s.max(1e-9)
    }

    /// Predicted throughput, in bytes per second: that of the runs, times the recording's ÷ its twin's. The twin
    /// repeats the recording's own losses and pauses, or runs with a seed that reproduces it, so this ratio is the
    /// simulator's error free of chance. The runs draw loss shares from the range that the recording allows, which
    /// depends on how many losses it had: scaling the recorded throughput by the gain would count them twice, and when
    /// they happened says nothing about another run.
    fn throughput(&self, runs: &[Measured]) -> Range {
        let rates = runs.iter().map(|run| run.bytes_per_s);
        Range::of(rates.collect()).times(self.above_twin())
    }

    /// The setup for prediction runs: random losses, and so short that `FEWEST` runs of each of `setups` fit into
    /// `most`.
    fn within(&self, most: Duration, setups: usize, outcome: &mut Outcome) -> Setup {
        let mut setup = without_mishaps(&self.reading.setup);
        let runs = setups as u32 * seeds::FEWEST as u32;
        let each = most / runs.max(1);
        let wanted = setup.warmup + setup.time;
        if wanted > each {
            // The measurement is shortened first.
            setup.time = each
                .saturating_sub(setup.warmup)
                .max(LEAST_TIME)
                .min(setup.time);
            setup.warmup = setup.warmup.min(each.saturating_sub(setup.time));
            outcome.shortened = Some(format!(
                "{runs} runs within {} simulated seconds: {:.1} s of warm-up and {:.1} s of measurement each",
                most.as_secs(),
                setup.warmup.as_secs_f64(),
                setup.time.as_secs_f64(),
            ));
        }
        setup
    }

    fn prediction(
        &self,
        change: &[Setting],
        unchanged: &[Measured],
        changed: Runs,
        memory_bytes: i64,
    ) -> Prediction {
        let Runs { measured, binds } = changed;
        let pairs = unchanged.iter().zip(&measured);
        let gains =
            pairs.map(|(before, after)| after.bytes_per_s / before.bytes_per_s.max(1e-9) - 1.0);
        let gain = Range::of(gains.collect());
        let middle = |of: fn(&Measured) -> u64| {
            Range::of(measured.iter().map(|it| of(it) as f64).collect()).median
        };
        Prediction {
            change: change.to_vec(),
            bytes_per_s: self.throughput(&measured),
            gain,
            seeds: measured.len(),
            latency_p50_ns: middle(|it| it.latency_p50_ns),
            latency_p99_ns: middle(|it| it.latency_p99_ns),
            binds_next: binds.unwrap_or_default(),
            memory_bytes,
            reno_share: None,
        }
    }
}

/// The shares of random loss that are too uncertain for what depends on them.
fn vague_losses(setup: &Setup) -> Vec<KnownLoss> {
    let known = setup.directions.iter().filter_map(|direction| {
        let share = direction.loss_share;
        let LossShare::Recorded { lost, of } = share else {
            return None;
        };
        let [share_least, share_most] = share.range();
        share.is_vague(seeds::APART).then(|| KnownLoss {
            path: direction.name.clone(),
            lost,
            packets: of,
            share: share.estimate(),
            share_least,
            share_most,
        })
    });
    known.collect()
}

/// The limit that binds in a run.
pub(crate) fn binds(summary: &CellSummary) -> String {
    let observed = Observed {
        cell: 0,
        parameters: std::collections::BTreeMap::new(),
        summary: summary.clone(),
    };
    explain(&[observed]).limit.name().to_owned()
}
