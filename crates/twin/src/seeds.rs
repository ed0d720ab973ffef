//! Runs of setups with several seeds, and with more if the results differ.

use std::ops::Range;
use std::time::Duration;

use crate::loss::by_chance;
use crate::pool;
use crate::replay::{Measured, ReplayError, measure, replay};
use crate::setup::Setup;
use crate::what_if::binds;

/// Seed of the run that is compared with the recording.
pub(crate) const FIRST: u64 = 1;
/// Runs per setup that test whether chance decides.
pub(crate) const FEWEST: u64 = 3;
/// Runs per setup if the first ones show that chance decides: with throughputs that differ by half, the median of 25
/// is accurate to 8 %.
const MOST: u64 = 25;
/// Chance decides if the throughputs of the first runs differ by more than this share of the lowest.
pub(crate) const APART: f64 = 0.05;

/// The runs of a setup.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// One for each seed, from the first on.
    pub(crate) measured: Vec<Measured>,
    /// The limit that binds in the first run, if it was recorded.
    pub(crate) binds: Option<String>,
}

impl Runs {
    /// Whether chance decides the result.
    pub(crate) fn differ(&self) -> bool {
        let rates = || self.measured.iter().map(|run| run.bytes_per_s);
        let least = rates().fold(f64::INFINITY, f64::min);
        rates().fold(0.0, f64::max) > least * (1.0 + APART)
    }
}

/// The setup for a run with this seed: random losses, with shares that the recording allows. The seeds divide their
/// distribution evenly by quantile, in van der Corput order: the first takes the median, the next two the quartiles.
/// So the median over few seeds remains the best estimate, unlike that of three randomly drawn shares. All directions
/// take the same quantile, and so do a setup and its change with the same seed: their ratio does not depend on the
/// share if it affects both alike.
pub(crate) fn drawn(setup: &Setup, seed: u64) -> Setup {
    let mut setup = setup.clone();
    for direction in &mut setup.directions {
        let share = direction.loss_share.quantile(quantile(seed));
        direction.loss = by_chance(share);
    }
    setup
}

/// Quantile of a seed, between 0 and 1: its binary digits after the point, in reverse order.
fn quantile(seed: u64) -> f64 {
    seed.reverse_bits() as f64 / 2.0_f64.powi(64)
}

/// Runs each of the setups, all of one length; the first is the baseline of the others. Setups that chance decides,
/// and the baseline with them, run with more seeds, as far as `most` simulated time allows. Also returns the simulated
/// time.
pub(crate) fn run(
    setups: &[Setup],
    most: Duration,
    watch: &(dyn Fn(usize, usize) -> bool + Sync),
) -> (Vec<Result<Runs, ReplayError>>, Duration) {
    let Some(first) = setups.first() else {
        return (Vec::new(), Duration::ZERO);
    };
    let each = first.warmup + first.time;
    let mut all: Vec<Result<Runs, ReplayError>> =
        setups.iter().map(|_| Ok(Runs::default())).collect();
    let places: Vec<usize> = (0..setups.len()).collect();
    add(&mut all, setups, &places, FIRST..FIRST + FEWEST, watch);
    let mut simulated = each * (places.len() as u32 * FEWEST as u32);
    let differ = |runs: &Result<Runs, ReplayError>| runs.as_ref().is_ok_and(Runs::differ);
    let differing = || places.iter().copied().filter(|place| differ(&all[*place]));
    if differing().next().is_some() && all[0].is_ok() {
        let again: Vec<usize> = std::iter::once(0)
            .chain(differing().filter(|place| *place > 0))
            .collect();
        let round = each * again.len() as u32;
        let rounds = most.saturating_sub(simulated).as_nanos() / round.as_nanos().max(1);
        let rounds = u64::try_from(rounds).unwrap_or(u64::MAX).min(MOST - FEWEST);
        let from = FIRST + FEWEST;
        let ran = places.len() * FEWEST as usize;
        let watch = |done, of| watch(ran + done, ran + of);
        add(&mut all, setups, &again, from..from + rounds, &watch);
        simulated += round * rounds as u32;
    }
    (all, simulated)
}

/// Runs these setups with these seeds.
fn add(
    all: &mut [Result<Runs, ReplayError>],
    setups: &[Setup],
    places: &[usize],
    seeds: Range<u64>,
    watch: &(dyn Fn(usize, usize) -> bool + Sync),
) {
    let work: Vec<(usize, u64)> = places
        .iter()
        .flat_map(|place| seeds.clone().map(|seed| (*place, seed)))
        .collect();
    let ended = pool::run(&work, watch, |&(place, seed), goes_on| {
        let setup = &drawn(&setups[place], seed);
        // The binding limit is determined in the first run of each change.
        if place == 0 || seed != FIRST {
            return measure(setup, seed, goes_on).map(|measured| (measured, None));
        }
        let replay = replay(setup, seed, goes_on)?;
        Ok((replay.measured, Some(binds(&replay.summary))))
    });
    for ((place, _), run) in work.into_iter().zip(ended) {
        match (&mut all[place], run) {
            (Ok(runs), Ok((measured, binds))) => {
                runs.measured.push(measured);
                runs.binds = runs.binds.take().or(binds);
            }
            (runs @ Ok(_), Err(error)) => *runs = Err(error),
            (Err(_), _) => {}
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
