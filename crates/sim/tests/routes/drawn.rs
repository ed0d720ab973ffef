//! Routes and loads drawn at random, on which no policy was tuned.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;

/// A test case.
#[derive(Debug)]
struct Cell {
    load: Load,
    routes: [Route; 2],
}

/// Rates of 1:1 to 1:10, delays of 1:1 to 1:50, either route with the shorter delay, and 1 to 64 I/Os in flight.
fn draw(random: &mut Pcg64Mcg) -> Cell {
    let mut below = |bound: u64| random.next_u64() % bound;
    // Log-uniform from 1 to `most`.
    let ratio = |most: f64, drawn: u64| most.powf(drawn as f64 / 1000.0);
    let rates = [200_000.0, 200_000.0 / ratio(10.0, below(1001))];
    let trips_us = [2000.0, 2000.0 * ratio(50.0, below(1001))];
    let turned = below(2) as usize;
    let route = |place: usize| {
        let trip = Duration::from_micros(trips_us[place ^ turned] as u64);
        Route(rates[place] as u64, trip)
    };
    let load = Load {
        operation: [Operation::Read, Operation::Write][below(2) as usize],
        block_bytes: [4, 64, 256][below(3) as usize] << 10,
        parallel: ratio(64.0, below(1001)) as usize,
    };
    Cell {
        load,
        routes: [route(0), route(1)],
    }
}

/// Throughput of a session as a share of the better route alone, for each of `cells` cells.
fn gains(seed: u64, cells: usize) -> Vec<f64> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let gain = |place| {
        let cell = draw(&mut random);
        let alone = cell.load.alone(&cell.routes);
        let better = alone.into_iter().fold(0.0, f64::max);
        let schedule = How::Connections(Schedule::Earliest);
        let gain = cell.load.over(schedule, &cell.routes) / better;
        println!("{gain:.3} in cell {place} of seed {seed}: {cell:?}");
        gain
    };
    (0..cells).map(gain).collect()
}

#[test]
fn a_session_is_never_worse_than_the_better_route() {
    let gains = gains(1, 10);
    assert!(gains.iter().all(|gain| *gain >= 0.98), "{gains:?}");
}

#[test]
#[ignore = "takes minutes"]
fn a_session_is_hardly_ever_worse_than_the_better_route_in_many_cells() {
    let gains: Vec<f64> = (2..10).flat_map(|seed| gains(seed, 50)).collect();
    let worse: Vec<f64> = gains.iter().copied().filter(|gain| *gain < 0.98).collect();
    assert!(worse.len() * 100 <= gains.len(), "{worse:?}");
    assert!(gains.iter().all(|gain| *gain >= 0.95), "{worse:?}");
}
