//! Lanes choose between two pipes with a rate and a delay each, compared with other policies.

mod policy;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wansan_multipath::Sent;
use wansan_trace::Instant;

use policy::{Policy, Selector};

/// A pipe: requests queue for its rate.
struct Pipe {
    bytes_per_ns: f64,
    delay_ns: f64,
    busy_until_ns: f64,
}

impl Pipe {
    fn new(mbit_per_s: f64, one_way_ms: f64) -> Pipe {
        Pipe {
            bytes_per_ns: mbit_per_s / 8000.0,
            delay_ns: one_way_ms * 1e6,
            busy_until_ns: 0.0,
        }
    }

    fn done_ns(&mut self, bytes: u64, now_ns: f64) -> f64 {
        let begins = self.busy_until_ns.max(now_ns + self.delay_ns);
        self.busy_until_ns = begins + bytes as f64 / self.bytes_per_ns;
        self.busy_until_ns + self.delay_ns
    }
}

/// The share of both pipes' rates that `parallel` requests at a time reach after warm-up.
fn share(policy: Policy, pipes: [Pipe; 2], bytes: u64, parallel: u64) -> f64 {
    let sum: f64 = pipes.iter().map(|pipe| pipe.bytes_per_ns).sum();
    rate(policy, pipes, bytes, parallel) / sum
}

/// Bytes per ns of `parallel` requests at a time.
fn rate<const N: usize>(policy: Policy, pipes: [Pipe; N], bytes: u64, parallel: u64) -> f64 {
    run(policy, pipes, bytes, parallel, &mut |_, _| {})
}

/// As [`rate`], where `change` sees each pipe's state before it takes a request.
fn run<const N: usize>(
    policy: Policy,
    mut pipes: [Pipe; N],
    bytes: u64,
    parallel: u64,
    change: &mut dyn FnMut(u64, &mut [Pipe; N]),
) -> f64 {
    let mut selector = Selector::new(policy, N);
    let mut ends: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut open: [VecDeque<(Sent, u64)>; N] = std::array::from_fn(|_| VecDeque::new());
    let (warm_up, end) = (Duration::from_secs(2), Duration::from_secs(6));
    let mut now_ns = 0;
    let mut done_bytes = 0;
    let mut waiting = parallel;
    while now_ns < end.as_nanos() as u64 {
        let now = Instant::from_ns(now_ns);
        while waiting > 0 {
            change(now_ns, &mut pipes);
            let Some(place) = selector.choose(bytes, now) else {
                break;
            };
            waiting -= 1;
            open[place].push_back((selector.send(place, bytes, now), now_ns));
            let at_ns = pipes[place].done_ns(bytes, now_ns as f64) as u64;
            ends.push(Reverse((at_ns, place)));
        }
        let Some(Reverse((at_ns, place))) = ends.pop() else {
            break;
        };
        now_ns = at_ns;
        let (sent, sent_ns) = open[place].pop_front().expect("it was sent");
        let took_ns = (now_ns - sent_ns) as f64;
        selector.complete(place, sent, took_ns, Instant::from_ns(now_ns));
        waiting += 1;
        if now_ns > warm_up.as_nanos() as u64 {
            done_bytes += bytes;
        }
    }
    done_bytes as f64 / (end - warm_up).as_nanos() as f64
}

/// Enough requests to fill both pipes while the slower one answers, with a margin.
fn enough(pipes: &[Pipe; 2], bytes: u64, margin: f64) -> u64 {
    let longest_ns = pipes
        .iter()
        .map(|pipe| 2.0 * pipe.delay_ns + bytes as f64 / pipe.bytes_per_ns)
        .fold(0.0, f64::max);
    let sum: f64 = pipes.iter().map(|pipe| pipe.bytes_per_ns).sum();
    (margin * longest_ns * sum / bytes as f64).ceil() as u64 + 2
}

#[test]
fn the_cheapest_fills_both_pipes() {
    let mut worst = (f64::INFINITY, String::new());
    // Of the policy by cost, and of the others.
    let (mut sums, mut cells) = ([0.0; 4], 0.0);
    for rates in [1.0, 2.0, 5.0, 10.0] {
        for delays in [1.0, 5.0, 16.0, 50.0] {
            for is_slow_far in [false, true] {
                for kib in [4, 64, 256] {
                    let pipes = || match is_slow_far {
                        true => [Pipe::new(200.0, 1.0), Pipe::new(200.0 / rates, delays)],
                        false => [Pipe::new(200.0, delays), Pipe::new(200.0 / rates, 1.0)],
                    };
                    let parallel = enough(&pipes(), kib << 10, 1.5);
                    let share = |policy| share(policy, pipes(), kib << 10, parallel);
                    let what = format!("1:{rates} 1:{delays} {is_slow_far} {kib} KiB, {parallel}");
                    let others = [Policy::RoundRobin, Policy::QueueDepth, Policy::Latency];
                    let others = others.map(share);
                    let share = share(Policy::Cheapest);
                    println!("{share:.3} {others:.3?} {what}");
                    for (sum, other) in sums[1..].iter_mut().zip(others) {
                        *sum += other;
                    }
                    sums[0] += share;
                    cells += 1.0;
                    if share < worst.0 {
                        worst = (share, what);
                    }
                }
            }
        }
    }
    let [cheapest, others @ ..] = sums.map(|sum| sum / cells);
    println!("mean {cheapest:.3} {others:.3?}");
    assert!(worst.0 >= 0.95, "{worst:?}");
    assert!(others.iter().all(|other| *other < cheapest), "{others:?}");
}

#[test]
fn two_routes_are_as_good_as_the_better_one() {
    let mut worst = (f64::INFINITY, String::new());
    for rates in [1.0, 2.0, 10.0] {
        for delay_ms in [1.0, 5.0, 50.0] {
            for kib in [4, 64, 256] {
                for parallel in [1, 2, 4, 16, 64] {
                    let near = || Pipe::new(200.0, 1.0);
                    let far = || Pipe::new(200.0 / rates, delay_ms);
                    let bytes = kib << 10;
                    let alone = rate(Policy::Cheapest, [near()], bytes, parallel).max(rate(
                        Policy::Cheapest,
                        [far()],
                        bytes,
                        parallel,
                    ));
                    let both = rate(Policy::Cheapest, [near(), far()], bytes, parallel);
                    let share = both / alone;
                    let what = format!("1:{rates} 1:{delay_ms} {kib} KiB, {parallel}");
                    println!("alone {share:.3} {what}");
                    if share < worst.0 {
                        worst = (share, what);
                    }
                }
            }
        }
    }
    assert!(worst.0 >= 0.98, "{worst:?}");
}

/// Rates and delays change at random, every 200 ms to 2 s: requests that are queued when a rate falls to a tenth wait
/// for that route, so only the mean is bounded.
#[test]
fn changes_are_learned() {
    let mut shares = Vec::new();
    for seed in 0..20 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut uniform = move || f64::from(random.next_u32()) / f64::from(u32::MAX);
        let mut next_ns = [0_u64; 2];
        let mut sum = [0.0, 0.0];
        let mut since_ns = 0;
        let mut change = |now_ns: u64, pipes: &mut [Pipe; 2]| {
            // What both can carry during the measured time.
            let from = since_ns.max(2_000_000_000);
            if now_ns > from {
                let both: f64 = pipes.iter().map(|pipe| pipe.bytes_per_ns).sum();
                sum[0] += both * (now_ns - from) as f64;
                sum[1] += (now_ns - from) as f64;
            }
            since_ns = now_ns;
            for (pipe, next_ns) in pipes.iter_mut().zip(&mut next_ns) {
                if now_ns >= *next_ns {
                    *next_ns = now_ns + 200_000_000 + (uniform() * 1.8e9) as u64;
                    pipe.bytes_per_ns = (20.0 + 180.0 * uniform()) / 8000.0;
                    pipe.delay_ns = (1.0 + 24.0 * uniform()) * 1e6;
                }
            }
        };
        let pipes = [Pipe::new(100.0, 5.0), Pipe::new(100.0, 5.0)];
        let rate = run(Policy::Cheapest, pipes, 64 << 10, 80, &mut change);
        let share = rate / (sum[0] / sum[1]);
        println!("changing {share:.3} {seed}");
        shares.push(share);
    }
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!(mean >= 0.9, "{mean} of {shares:?}");
}

/// A route that still answers, with a hundredth of its rate and twenty times its delay (grey failure): only requests
/// already in flight there wait for it.
#[test]
fn a_route_that_is_slow_but_alive_is_noticed_by_its_completions() {
    const ILL_NS: u64 = 2_000_000_000;
    let near = || Pipe::new(200.0, 1.0);
    let share = |policy| {
        let mut change = |now_ns: u64, pipes: &mut [Pipe; 2]| {
            if now_ns >= ILL_NS {
                pipes[1].bytes_per_ns = Pipe::new(1.0, 0.0).bytes_per_ns;
                pipes[1].delay_ns = 320e6;
            }
        };
        let pipes = [near(), Pipe::new(100.0, 16.0)];
        run(policy, pipes, 64 << 10, 80, &mut change) / near().bytes_per_ns
    };
    let [ours, control] = [Policy::Cheapest, Policy::RoundRobin].map(share);
    println!("slow but alive {ours:.3}, round robin {control:.3}");
    assert!(ours >= 0.98, "{ours}");
    assert!(control < 0.5, "{control}: the route is not slow");
}

/// A route whose rate falls to a quarter, whose delay grows tenfold, or that improves: a second later both routes are
/// used at capacity.
#[test]
fn a_change_is_learned_within_a_second() {
    // Measurement starts a second later.
    const CHANGED_NS: u64 = 1_000_000_000;
    let routes = [(100.0, 16.0), (25.0, 16.0), (100.0, 1.6)];
    for (before, after) in [(0, 1), (1, 0), (0, 2), (2, 0)] {
        let mut change = |now_ns: u64, pipes: &mut [Pipe; 2]| {
            let (rate, delay) = routes[if now_ns < CHANGED_NS { before } else { after }];
            pipes[1].bytes_per_ns = rate / 8000.0;
            pipes[1].delay_ns = delay * 1e6;
        };
        let (rate, delay) = routes[before];
        let pipes = [Pipe::new(200.0, 1.0), Pipe::new(rate, delay)];
        let rate = run(Policy::Cheapest, pipes, 64 << 10, 60, &mut change);
        let share = rate / ((200.0 + routes[after].0) / 8000.0);
        println!("learned {share:.3} {before} to {after}");
        assert!(share >= 0.95, "{share} from {before} to {after}");
    }
}

/// One I/O at a time: a far route that is probed now and then becomes nearer than the other.
#[test]
fn an_idle_route_that_gets_better_is_found() {
    const CHANGED_NS: u64 = 500_000_000;
    let mut change = |now_ns: u64, pipes: &mut [Pipe; 2]| {
        if now_ns >= CHANGED_NS {
            pipes[1].delay_ns = 0.1e6;
        }
    };
    // A probe takes 6 ms for each of two requests; the next one comes a hundred times that later, before measurement
    // starts.
    let pipes = [Pipe::new(200.0, 1.0), Pipe::new(200.0, 3.0)];
    let both = run(Policy::Cheapest, pipes, 4096, 1, &mut change);
    let alone = rate(Policy::Cheapest, [Pipe::new(200.0, 0.1)], 4096, 1);
    println!("found {:.3}", both / alone);
    assert!(both >= 0.95 * alone, "{}", both / alone);
}
