//! Predictions: what a recorded run would have done with something changed, by letting its twin do it.

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

/// Simulated seconds of all runs together, at most: half of them for changes one at a time, the other half for what is
/// advised.
pub const MOST_SIMULATED: Duration = Duration::from_secs(600);
/// The first half.
const MOST_FOR_EACH_ALONE: Duration = MOST_SIMULATED.checked_div(2).expect("two is not zero");
/// The least that a run measures.
const LEAST_TIME: Duration = Duration::from_millis(500);

/// A number over the seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    /// Least.
    pub least: f64,
    /// Median.
    pub median: f64,
    /// Greatest.
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

/// What would be with a change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The change: one setting, or several that belong together.
    pub change: Vec<Setting>,
    /// Bytes of data per second with it ÷ without it − 1.
    pub gain: Range,
    /// Runs with it, by seeds of their own; more where chance decides.
    pub seeds: usize,
    /// Bytes of data per second with it, by as many seeds: it reaches as far as what the recording does not tell, as the
    /// share of random loss, which gains hardly depend on.
    pub bytes_per_s: Range,
    /// Half of the I/Os take at most this long, in ns.
    pub latency_p50_ns: f64,
    /// All I/Os but one in a hundred take at most this long, in ns.
    pub latency_p99_ns: f64,
    /// What binds then.
    pub binds_next: String,
    /// Memory that it may take beyond today's, at both ends together, in bytes.
    pub memory_bytes: i64,
    /// What a flow by Reno's congestion control on the same path gets with it, ÷ what that gets without it; null where
    /// that was not simulated, or the path has no rate to share.
    pub reno_share: Option<Range>,
}

/// What came of asking about a recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WhatIf {
    /// What the records do not show, and what was taken instead.
    pub unknown: Vec<String>,
    /// How much of a long recording is simulated, and in how long runs predictions are made; empty where all of it is.
    pub shortened: Vec<String>,
    /// Whether the twin does what was recorded, within the bounds in `compared`.
    pub fits: bool,
    /// The numbers of the recording and of its twin.
    pub compared: Vec<Compared>,
    /// Bytes of data per second of the recording.
    pub bytes_per_s: f64,
    /// What the twin does unchanged with other losses of the same share: the median over the seeds, in bytes per second,
    /// and what gains are relative to. `None` where nothing is predicted.
    pub expected_bytes_per_s: Option<f64>,
    /// The shares of random loss that decide how far predictions reach.
    pub losses: Vec<KnownLoss>,
    /// What binds in the twin as it was recorded.
    pub binds: String,
    /// Simulated seconds of all runs together.
    pub simulated_s: f64,
    /// The predictions, the greatest gain first; none where the twin does not fit.
    pub predictions: Vec<Prediction>,
    /// The best set of settings of target, session and TCP, if any brings something: each prediction is of one more
    /// change than the one before, the last of all together.
    pub advice: Vec<Prediction>,
    /// Changes that could not be simulated, and why.
    pub failed: Vec<Failed>,
}

/// How well a recording tells the share of random loss.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KnownLoss {
    /// The direction of a path, such as `wan:forward`.
    pub path: String,
    /// Packets that were lost.
    pub lost: u64,
    /// Packets that might have been, these among them.
    pub packets: u64,
    /// The share that was lost, 0 to 1.
    pub share: f64,
    /// The true share is not below this, by 97.5 %.
    pub share_least: f64,
    /// The true share is not above this, by 97.5 %.
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

/// What came of changes.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The greatest gain first.
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

/// A setup whose queues drop what they have no room for, and on whose hosts nothing else runs. What it loses at random
/// is drawn by the seed of a run ([`seeds::drawn`]).
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

/// Why nothing can be said. Each is one line.
#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    /// A change cannot be made.
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
    /// The twin of a recording, and whether it does the same by one of several seeds, where chance decides.
    ///
    /// # Errors
    /// [`ReplayError`] when it does not run.
    pub fn of(reading: Reading, goes_on: &(dyn Fn() -> bool + Sync)) -> Result<Twin, ReplayError> {
        Twin::by_seeds(reading, &MORE_SEEDS, goes_on)
    }

    /// As [`Twin::of`], by one seed alone: for many recordings, of which those that chance decides may have no twin.
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

    /// What it is made of.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.reading.setup
    }

    /// What binds in it.
    #[must_use]
    pub fn binds(&self) -> String {
        binds(&self.replay.summary)
    }

    /// The numbers of the recording and of its twin.
    #[must_use]
    pub fn compared(&self) -> &[Compared] {
        &self.compared
    }

    /// Whether it does what was recorded.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.compared.iter().all(Compared::fits)
    }

    /// Predicts each of the changes, on all processors, if the twin fits. `watch` gets how many runs of how
    /// many are done, and says whether to go on.
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

    /// What comes of each of the changes in at most so much simulated time, the greatest gain first.
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

    /// What a change brings, in at most so much simulated time, if the twin fits.
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

    /// The recording's throughput ÷ the twin's.
    fn above_twin(&self) -> f64 {
        self.reading.bytes_per_s / self.replay.measured.bytes_per_s.max(1e-9)
    }

    /// The throughput of runs, in bytes per second, as the recording's is to its own twin's. That twin has the
    /// recording's very losses and pauses, or a seed by which it does the same: the quotient is what the simulator is off
    /// by, without luck. The runs have losses of all shares that the recording allows. How many it lost is in these, and
    /// would count twice if its throughput were taken times the gain; when it lost them says nothing of another run.
    fn throughput(&self, runs: &[Measured]) -> Range {
        let rates = runs.iter().map(|run| run.bytes_per_s);
        Range::of(rates.collect()).times(self.above_twin())
    }

    /// The setup of runs to predict by: losses by chance, and as long as so many runs may be.
    fn within(&self, most: Duration, setups: usize, outcome: &mut Outcome) -> Setup {
        let mut setup = without_mishaps(&self.reading.setup);
        let runs = setups as u32 * seeds::FEWEST as u32;
        let each = most / runs.max(1);
        let wanted = setup.warmup + setup.time;
        if wanted > each {
            // The measurement gives way first.
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

/// The shares of random loss that are not known well enough for what depends on them.
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

/// What binds in a run.
pub(crate) fn binds(summary: &CellSummary) -> String {
    let observed = Observed {
        cell: 0,
        parameters: std::collections::BTreeMap::new(),
        summary: summary.clone(),
    };
    explain(&[observed]).limit.name().to_owned()
}
