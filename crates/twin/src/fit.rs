//! Whether a twin reproduces the recording, and which of its runs does so best.

use std::ops::Range;

use serde::Serialize;
use wansan_insight::CellSummary;
use wansan_insight::cause::Cause;

use crate::pool;
use crate::replay::{Replay, ReplayError, replay};
use crate::seeds;
use crate::setup::Setup;

/// Tolerance of throughput and latencies, as a share of the recorded number.
pub const MOST_OFF: f64 = 0.05;
/// Tolerance of shares of the latency.
pub const MOST_SHARE_OFF: f64 = 0.05;
/// Seeds tried together after the first, as long as none fits; the second shows whether chance decides.
pub(crate) const MORE_SEEDS: [Range<u64>; 4] = [2..3, 3..5, 5..7, 7..10];
/// Chance decides if two seeds differ by more than this, as a share of the tolerance.
const CHANCE: f64 = 0.2;

/// A number of the recording and of its twin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The number: `iops`, `latency_p50_ns`, `latency_p99_ns`, or `waits.CAUSE` for a share of the latency.
    pub name: String,
    /// As recorded.
    pub recorded: f64,
    /// As simulated.
    pub twin: f64,
    /// Error of the twin: as a share of the recorded number, or the difference of two shares.
    pub off: f64,
    /// The tolerance.
    pub most_off: f64,
}

impl Compared {
    /// Whether the error is within the tolerance.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.off.abs() <= self.most_off
    }
}

/// Compares a twin's run with the recording, number by number.
#[must_use]
pub fn compare(recorded: &CellSummary, twin: &CellSummary) -> Vec<Compared> {
    let number = |name: &str, of: fn(&CellSummary) -> f64| {
        let (recorded, twin) = (of(recorded), of(twin));
        Compared {
            name: name.to_owned(),
            recorded,
            twin,
            off: (twin - recorded) / recorded.abs().max(1e-9),
            most_off: MOST_OFF,
        }
    };
    let mut compared = vec![
        number("iops", |cell| cell.total.iops),
        number("latency_p50_ns", |cell| cell.total.latency.p50_ns as f64),
        number("latency_p99_ns", |cell| cell.total.latency.p99_ns as f64),
    ];
    let share =
        |cell: &CellSummary, cause| cell.waits.mean_ns(cause) / cell.waits.latency_ns.max(1.0);
    let shares = Cause::ALL.into_iter().map(|cause| {
        let (recorded, twin) = (share(recorded, cause), share(twin, cause));
        Compared {
            name: format!("waits.{}", cause.name()),
            recorded,
            twin,
            off: twin - recorded,
            most_off: MOST_SHARE_OFF,
        }
    });
    compared.extend(shares.filter(|it| it.recorded > 0.0 || it.twin > 0.0));
    compared
}

/// The largest error, in units of its tolerance.
#[must_use]
pub fn worst(compared: &[Compared]) -> f64 {
    let off = compared.iter().map(|it| it.off.abs() / it.most_off);
    off.fold(0.0, f64::max)
}

/// The run of a twin that is closest to its recording.
#[derive(Debug)]
pub(crate) struct Nearest {
    /// Index of its setup.
    pub(crate) place: usize,
    pub(crate) replay: Replay,
    pub(crate) compared: Vec<Compared>,
}

impl Nearest {
    fn fits(&self) -> bool {
        self.compared.iter().all(Compared::fits)
    }

    fn off(&self) -> f64 {
        worst(&self.compared)
    }

    /// Whether chance decides the behaviour of its setup, judged by another run of it.
    fn differs(&self, other: &Nearest) -> bool {
        worst(&compare(&self.replay.summary, &other.replay.summary)) > CHANCE
    }
}

/// Runs the setups, likeliest first, until one reproduces the recording. No recording shows to the microsecond when
/// hosts noticed arrivals; where flows meet in a short queue, that determines what happens much later, so `more` seeds
/// are tried. All runs have the same tolerances.
///
/// # Errors
/// [`ReplayError`] when none runs.
pub(crate) fn nearest(
    recorded: &CellSummary,
    setups: &[Setup],
    more: &[Range<u64>],
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Result<Nearest, ReplayError> {
    let run = |place: usize, seed| {
        let replay = replay(&setups[place], seed, goes_on)?;
        Ok(Nearest {
            place,
            compared: compare(recorded, &replay.summary),
            replay,
        })
    };
    let mut all: Vec<Nearest> = Vec::new();
    let mut failed = None;
    for place in 0..setups.len() {
        match run(place, seeds::FIRST) {
            Ok(near) => all.push(near),
            Err(ReplayError::Interrupted) => return Err(ReplayError::Interrupted),
            Err(error) => failed = failed.or(Some(error)),
        }
        if all.last().is_some_and(Nearest::fits) {
            break;
        }
    }
    // Fixed rounds: the result must not depend on the number of processors.
    for seeds in more.iter().cloned() {
        if all.iter().any(Nearest::fits) {
            break;
        }
        let of = |place| all.iter().filter(move |near| near.place == place);
        let is_open = |place: &usize| match (of(*place).next(), of(*place).nth(1)) {
            (Some(one), Some(other)) => one.differs(other),
            (ran, _) => ran.is_some() && seeds.contains(&(seeds::FIRST + 1)),
        };
        let open: Vec<usize> = (0..setups.len()).filter(is_open).collect();
        let work: Vec<(usize, u64)> = seeds
            .flat_map(|seed| open.iter().map(move |place| (*place, seed)))
            .collect();
        let round = pool::run(&work, &|_, _| goes_on(), |&(place, seed), _| {
            run(place, seed)
        });
        for near in round {
            match near {
                Ok(near) => all.push(near),
                Err(ReplayError::Interrupted) => return Err(ReplayError::Interrupted),
                // Its setup ran with another seed.
                Err(_) => {}
            }
        }
    }
    all.into_iter()
        .min_by(|a, b| a.off().total_cmp(&b.off()))
        .ok_or_else(|| failed.expect("there is a setup, which ran or failed"))
}
