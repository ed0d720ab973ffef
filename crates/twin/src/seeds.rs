//! Runs of setups by several seeds, and by more where these differ.

use std::time::Duration;

use crate::loss::by_chance;
use crate::pool;
use crate::replay::{Measured, ReplayError, measure, replay};
use crate::setup::Setup;
use crate::what_if::binds;

/// The seed of the run that is compared with the recording.
pub(crate) const FIRST: u64 = 1;
/// Runs with which chance is sounded.
pub(crate) const FEWEST: u64 = 3;
/// As many are enough where nothing is lost at random and they do the same.
const FEWEST_ALIKE: u64 = 2;
/// As many where the first show that chance decides: where throughputs differ by half, the median of 25 is known to 8 %.
const MOST: u64 = 25;
/// Chance decides where throughputs of the first runs are further apart, as a share of their least.
pub(crate) const APART: f64 = 0.05;
/// Runs do the same where their throughputs and percentiles are no further apart, as a share of the least.
const ALIKE: f64 = 0.01;

/// The runs of a setup.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// One for each seed, from the first on.
    pub(crate) measured: Vec<Measured>,
    /// What binds in the first, where it was recorded.
    pub(crate) binds: Option<String>,
}

impl Runs {
    /// Whether chance decides what they do.
    pub(crate) fn differ(&self) -> bool {
        self.spread(|run| run.bytes_per_s) > APART
    }

    fn are_alike(&self) -> bool {
        let percentiles: [fn(&Measured) -> u64; 2] =
            [|run| run.latency_p50_ns, |run| run.latency_p99_ns];
        let spreads = percentiles.map(|of| self.spread(|run| of(run) as f64));
        self.spread(|run| run.bytes_per_s) <= ALIKE && spreads.iter().all(|it| *it <= ALIKE)
    }

    /// By how much the greatest of a number is above the least, as a share of that.
    fn spread(&self, of: impl Fn(&Measured) -> f64) -> f64 {
        let least = self.measured.iter().map(&of).fold(f64::INFINITY, f64::min);
        let most = self.measured.iter().map(&of).fold(0.0, f64::max);
        (most - least) / least
    }
}

/// The setup as a run by this seed has it: with losses by chance, of shares that the recording allows. The seeds divide
/// these evenly by their probability, in the order of van der Corput: the first takes the median, the next two the
/// quartiles. So the median over few seeds is still the best estimate, which that of three shares drawn at random is not.
/// All directions are at the same quantile; a setup and a changed one are at the same by the same seed, and so their ratio
/// does not depend on what the share is, as far as both go by it alike.
pub(crate) fn drawn(setup: &Setup, seed: u64) -> Setup {
    let mut setup = setup.clone();
    for direction in &mut setup.directions {
        let share = direction.loss_share.quantile(quantile(seed));
        direction.loss = by_chance(share);
    }
    setup
}

/// The place of a seed between 0 and 1: its binary digits behind the point, the last one first.
fn quantile(seed: u64) -> f64 {
    seed.reverse_bits() as f64 / 2.0_f64.powi(64)
}

/// Lets each of the setups run, all of one length; the first is what the others are compared with, and `known` is its run
/// by the first seed where that has been made. All run by two seeds, those that these do not settle by a third one, and
/// those that chance decides by more, as far as `most` of simulated time has room; the first with each. Also how much was
/// simulated.
pub(crate) fn run(
    setups: &[Setup],
    known: Option<Measured>,
    most: Duration,
    watch: &(dyn Fn(usize, usize) -> bool + Sync),
) -> (Vec<Result<Runs, ReplayError>>, Duration) {
    let Some(first) = setups.first() else {
        return (Vec::new(), Duration::ZERO);
    };
    let each = first.warmup + first.time;
    let mut running = Running {
        setups,
        runs: setups.iter().map(|_| Ok(Runs::default())).collect(),
        ran: 0,
        watch,
    };
    if let Ok(runs) = &mut running.runs[0] {
        runs.measured.extend(known);
    }
    let every: Vec<usize> = (0..setups.len()).collect();
    running.go_on(&every, FEWEST_ALIKE);
    let open = running.with_first(|setup, runs| setup.has_losses() || !runs.are_alike());
    running.go_on(&open, FEWEST);
    let differing = running.with_first(|_, runs| runs.differ());
    let round = each * differing.len() as u32;
    if !round.is_zero() {
        let left = most.saturating_sub(each * running.ran as u32);
        let rounds = u64::try_from(left.as_nanos() / round.as_nanos()).unwrap_or(u64::MAX);
        running.go_on(&differing, FEWEST + rounds.min(MOST - FEWEST));
    }
    (running.runs, each * running.ran as u32)
}

/// Setups of which runs are made.
struct Running<'a> {
    setups: &'a [Setup],
    /// Those of each setup.
    runs: Vec<Result<Runs, ReplayError>>,
    /// How many were made.
    ran: usize,
    watch: &'a (dyn Fn(usize, usize) -> bool + Sync),
}

impl Running<'_> {
    /// The places of those that ran and need more runs, with that of the first; none where the first failed.
    fn with_first(&self, need_more: impl Fn(&Setup, &Runs) -> bool) -> Vec<usize> {
        let both = self.setups.iter().zip(&self.runs);
        let need = both.map(|(setup, runs)| runs.as_ref().is_ok_and(|runs| need_more(setup, runs)));
        let mut places: Vec<usize> = need.enumerate().filter(|it| it.1).map(|it| it.0).collect();
        match (places.first(), &self.runs[0]) {
            (None, _) => {}
            (_, Err(_)) => places.clear(),
            (Some(0), Ok(_)) => {}
            (Some(_), Ok(_)) => places.insert(0, 0),
        }
        places
    }

    /// Lets these run on until each has as many runs.
    fn go_on(&mut self, places: &[usize], runs: u64) {
        let seeds = |place: usize| {
            let made = self.runs[place].as_ref().map_or(0, |it| it.measured.len());
            FIRST + made as u64..FIRST + runs
        };
        let work: Vec<(usize, u64)> = places
            .iter()
            .flat_map(|&place| seeds(place).map(move |seed| (place, seed)))
            .collect();
        let before = self.ran;
        let watch = |done, of| (self.watch)(before + done, before + of);
        let ended = pool::run(&work, &watch, |&(place, seed), goes_on| {
            let setup = &drawn(&self.setups[place], seed);
            // What binds is looked for in the first run of each change.
            if place == 0 || seed != FIRST {
                return measure(setup, seed, goes_on).map(|measured| (measured, None));
            }
            let replay = replay(setup, seed, goes_on)?;
            Ok((replay.measured, Some(binds(&replay.summary))))
        });
        self.ran += work.len();
        for ((place, _), run) in work.into_iter().zip(ended) {
            match (&mut self.runs[place], run) {
                (Ok(runs), Ok((measured, binds))) => {
                    runs.measured.push(measured);
                    runs.binds = runs.binds.take().or(binds);
                }
                (runs @ Ok(_), Err(error)) => *runs = Err(error),
                (Err(_), _) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_divide_what_is_possible_evenly() {
        assert_eq!([1, 2, 3].map(quantile), [0.5, 0.25, 0.75]);
        let mut all: Vec<f64> = (FIRST..FIRST + MOST).map(quantile).collect();
        all.sort_by(f64::total_cmp);
        let widest = all.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(widest.fold(0.0, f64::max) < 2.0 / MOST as f64, "{all:?}");
        assert!(all[0] < 0.05 && all[all.len() - 1] > 0.93, "{all:?}");
    }
}
