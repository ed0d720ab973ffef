//! Two routes whose rates and delays change while one session's commands use both.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;

const IN_ONE: How = How::Connections(Schedule::Earliest);

fn load(operation: Operation, parallel: usize) -> Load {
    Load {
        operation,
        block_bytes: 64 << 10,
        parallel,
    }
}

/// A rate of 20 to 200 Mbit/s, and a round trip of 2 to 50 ms.
fn draw(random: &mut Pcg64Mcg) -> Route {
    let mut below = |bound: u64| random.next_u64() % bound;
    let trip = Duration::from_micros(2000 + below(48_000));
    Route(20_000 + below(180_000), trip)
}

/// Beginning and end of the measurement.
const WINDOW: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(12)];

/// Throughput of 80 I/Os in flight as a share of the sum of both rates, while each route changes every 0.2 s to 2 s.
fn share_of_changing_sum(operation: Operation, seed: u64) -> f64 {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let routes = [(); 2].map(|()| draw(&mut random));
    let (mut changes, mut bits) = (Vec::new(), 0.0);
    for (place, first) in routes.into_iter().enumerate() {
        let (mut at, mut route) = (Duration::ZERO, first);
        while at < WINDOW[1] {
            let until = at + Duration::from_millis(200 + random.next_u64() % 1800);
            let [from, to] = [at, until].map(|time| time.clamp(WINDOW[0], WINDOW[1]));
            bits += route.0 as f64 * 1e3 * (to - from).as_secs_f64();
            (at, route) = (until, draw(&mut random));
            changes.push((at, place, route));
        }
    }
    changes.sort_by_key(|(at, ..)| *at);
    let sum = bits / 1e6 / (WINDOW[1] - WINDOW[0]).as_secs_f64();
    let got = load(operation, 80).while_changing(IN_ONE, &routes, &changes, WINDOW);
    println!(
        "{:.3} of the changing sum, {operation:?}, seed {seed}",
        got / sum
    );
    got / sum
}

/// Writes get less: when a route's rate falls, all later ones wait for those in flight on it.
#[test]
fn enough_fill_both_routes_while_they_change_at_random() {
    let shares = |operation| [1, 2, 3].map(|seed| share_of_changing_sum(operation, seed));
    let reads = shares(Operation::Read);
    assert!(reads.iter().all(|share| *share >= 0.9), "reads: {reads:?}");
    let writes = shares(Operation::Write);
    assert!(
        writes.iter().sum::<f64>() / 3.0 >= 0.85,
        "writes: {writes:?}"
    );
}

#[test]
#[ignore = "takes minutes"]
fn reads_fill_both_routes_while_they_change_at_random_by_many_seeds() {
    let shares = (1..41).map(|seed| share_of_changing_sum(Operation::Read, seed));
    let shares: Vec<f64> = shares.collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    println!("{mean:.3} of the changing sum on average, {least:.3} at least");
    assert!(mean >= 0.92 && least >= 0.9);
}

/// 4 I/Os in flight all use one route. After 8 s, it becomes the worse one, or the other becomes the better one; the
/// measurement starts a second later.
#[test]
fn a_change_of_rate_or_delay_is_learned_within_a_second() {
    let at = Duration::from_secs(8);
    let from = at + Duration::from_secs(1);
    let window = [from, from + Duration::from_secs(2)];
    let before = [route(200_000, 10), route(100_000, 20)];
    for (place, after) in [
        // The better one drops to a twentieth of its rate, or gets a longer round trip.
        (0, route(10_000, 10)),
        (0, route(200_000, 60)),
        // The other one gets a shorter round trip.
        (1, route(200_000, 4)),
    ] {
        let mut routes = before;
        routes[place] = after;
        for operation in [Operation::Read, Operation::Write] {
            let few = load(operation, 4);
            let better = few.alone(&routes).into_iter().fold(0.0, f64::max);
            let got = few.while_changing(IN_ONE, &before, &[(at, place, after)], window);
            let gain = got / better;
            println!("{gain:.3} of the better route, {operation:?}, {after:?}");
            assert!(gain >= 0.95, "{gain} of {operation:?} after {after:?}");
        }
    }
}
