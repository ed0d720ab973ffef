//! The tables of docs/internals/unequal-routes.md: reads and writes of 4, 64 and 256 KiB over two routes with rates of
//! 1:1, 1:3 and 1:10 and delays of 1:1, 1:10 and 1:50, where the faster one has the shorter or the longer delay.

use std::collections::HashMap;

use super::*;

/// Rates of the first route, 200 Mbit/s, and of the second, in kbit/s.
const RATES: [u64; 3] = [200_000, 66_667, 20_000];
/// Round trips, in ms.
const ROUND_TRIPS: [u64; 3] = [2, 20, 100];
const KIB: [u32; 3] = [4, 64, 256];

/// All pairs of routes.
fn pairs() -> Vec<[Route; 2]> {
    let mut pairs = Vec::new();
    for rate in RATES {
        for round_trip in ROUND_TRIPS {
            pairs.push([route(RATES[0], ROUND_TRIPS[0]), route(rate, round_trip)]);
            if rate != RATES[0] && round_trip != ROUND_TRIPS[0] {
                pairs.push([route(RATES[0], round_trip), route(rate, ROUND_TRIPS[0])]);
            }
        }
    }
    pairs
}

/// The number of I/Os in flight.
#[derive(Debug, Clone, Copy)]
enum InFlight {
    /// This multiple in [`Load::filling`]; each route alone gets a multiple of 2, which fills it.
    Times(f64),
    /// This number, over any routes.
    Few(usize),
}

/// Summary of all cells.
struct Got {
    /// As a share of the sum of both routes alone: mean, minimum, and number of cells below 0.95.
    mean: f64,
    least: f64,
    low: usize,
    /// Minimum as a share of the better route alone.
    least_gain: f64,
}

fn measure(how: How, operation: Operation, in_flight: InFlight) -> Got {
    let mut alone = HashMap::new();
    let (mut shares, mut gains) = (Vec::new(), Vec::new());
    for kib in KIB {
        for routes in pairs() {
            let load = |times: f64, routes: &[Route]| match in_flight {
                InFlight::Times(_) => Load::filling(operation, kib, times, routes),
                InFlight::Few(parallel) => Load {
                    operation,
                    block_bytes: kib << 10,
                    parallel,
                },
            };
            let each = routes.map(|route| {
                let key = (kib, route.0, route.1);
                let carry = || load(2.0, &[route]).alone(&[route])[0];
                *alone.entry(key).or_insert_with(carry)
            });
            let times = match in_flight {
                InFlight::Times(times) => times,
                InFlight::Few(_) => 1.0,
            };
            let load = load(times, &routes);
            let got = load.over(how, &routes);
            let (share, gain) = (
                got / (each[0] + each[1]),
                got / each.into_iter().fold(0.0, f64::max),
            );
            let named =
                routes.map(|Route(rate, trip)| format!("{}/{}", rate / 1000, trip.as_millis()));
            println!(
                "{kib:3} KiB {:>8} {:>8} {:4} in flight: {:6.1} {:6.1} alone, {got:6.1} of both: {share:.3} of the sum, {gain:.3} of the better",
                named[0], named[1], load.parallel, each[0], each[1]
            );
            shares.push(share);
            gains.push(gain);
        }
    }
    let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
    let got = Got {
        mean: shares.iter().sum::<f64>() / shares.len() as f64,
        least: least(&shares),
        low: shares.iter().filter(|share| **share < 0.95).count(),
        least_gain: least(&gains),
    };
    println!(
        "{how:?} {operation:?} {in_flight:?}: mean {:.3}, least {:.3}, {} below 0.95 of {}; least of the better {:.3}",
        got.mean,
        got.least,
        got.low,
        shares.len(),
        got.least_gain
    );
    got
}

const IN_ONE: How = How::Connections(Schedule::Earliest);
const BOTH: [Operation; 2] = [Operation::Read, Operation::Write];

#[test]
#[ignore = "takes minutes: the tables of docs/internals/unequal-routes.md"]
fn sessions_with_enough_in_flight() {
    for operation in BOTH {
        for (times, least_mean, most_low) in [(2.0, 0.99, 0), (1.5, 0.99, 2)] {
            let got = measure(How::Sessions, operation, InFlight::Times(times));
            assert!(got.mean >= least_mean && got.low <= most_low);
            assert!(got.least >= 0.93 && got.least_gain >= 0.98);
        }
    }
}

#[test]
#[ignore = "takes minutes: the tables of docs/internals/unequal-routes.md"]
fn sessions_with_few_in_flight() {
    for operation in BOTH {
        for parallel in [1, 2, 4, 8, 16, 32] {
            let got = measure(How::Sessions, operation, InFlight::Few(parallel));
            assert!(got.least_gain >= 0.98);
        }
    }
}

#[test]
#[ignore = "takes minutes: the tables of docs/internals/unequal-routes.md"]
fn connections_with_enough_in_flight() {
    for (operation, times, least) in [
        (Operation::Write, 2.0, 0.95),
        (Operation::Write, 1.5, 0.95),
        (Operation::Read, 2.0, 0.93),
    ] {
        let got = measure(IN_ONE, operation, InFlight::Times(times));
        assert!(got.mean >= 0.98 && got.least >= least && got.least_gain >= 0.98);
    }
    // Waiting for command order may cost more than a route adds; then only one route is used.
    let got = measure(IN_ONE, Operation::Write, InFlight::Times(1.0));
    assert!(got.least_gain >= 0.98);
}

#[test]
#[ignore = "takes minutes: the tables of docs/internals/unequal-routes.md"]
fn connections_with_few_in_flight() {
    for operation in BOTH {
        for parallel in [1, 2, 4, 8, 16, 32] {
            let got = measure(IN_ONE, operation, InFlight::Few(parallel));
            assert!(got.least_gain >= 0.98);
        }
    }
}
