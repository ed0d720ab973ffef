//! Distributions of delays.

use std::time::Duration;

use wansan_path::{Distribution, Effects, Jitter, Packet, Probability, Quantiles};
use wansan_trace::Instant;

const PACKETS: usize = 100_000;

/// Delays of packets that arrive a second apart, so that they do not interact, in milliseconds, sorted.
fn delays_ms(delay: Duration, distribution: Distribution, seed: u64) -> Vec<f64> {
    let effects = Effects {
        delay,
        jitter: Some(Jitter {
            distribution,
            overtaking: false,
        }),
        ..Effects::default()
    };
    let mut chain = effects.chain(seed).unwrap();
    let mut delays: Vec<f64> = (0..PACKETS as u64)
        .map(|number| {
            let now = Instant::from_ns(number * 1_000_000_000);
            chain.enqueue(now, Packet::new(100, ()));
            let left = chain.poll(Instant::FAR_FUTURE).unwrap();
            assert_eq!(left.delayed, left.departed - left.entered);
            left.delayed.as_secs_f64() * 1e3
        })
        .collect();
    delays.sort_by(f64::total_cmp);
    delays
}

/// Checks mean, standard deviation and Kolmogorov distance.
fn check(about: &str, delays: &[f64], mean: f64, deviation: f64, below: impl Fn(f64) -> f64) {
    let n = delays.len() as f64;
    let sample_mean = delays.iter().sum::<f64>() / n;
    let squares: f64 = delays.iter().map(|d| (d - sample_mean).powi(2)).sum();
    let sample_deviation = (squares / n).sqrt();
    let distance = delays
        .iter()
        .enumerate()
        .map(|(place, &delay)| {
            let expected = below(delay);
            (expected - place as f64 / n)
                .abs()
                .max((expected - (place + 1) as f64 / n).abs())
        })
        .fold(0.0, f64::max);
    println!("{about}: mean {sample_mean}, deviation {sample_deviation}, distance {distance}");
    assert!(
        (sample_mean - mean).abs() < 4.0 * deviation / n.sqrt(),
        "{about}: mean {sample_mean}, expected {mean}"
    );
    assert!(
        (sample_deviation / deviation - 1.0).abs() < 0.02,
        "{about}: deviation {sample_deviation}, expected {deviation}"
    );
    // The Kolmogorov distance exceeds this once in a thousand times; the seeds are fixed.
    assert!(distance < 1.95 / n.sqrt(), "{about}: distance {distance}");
}

/// The standard normal distribution (Abramowitz and Stegun 26.2.17, to 10^-7).
fn normal(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let factors = [
        0.319_381_530,
        -0.356_563_782,
        1.781_477_937,
        -1.821_255_978,
        1.330_274_429,
    ];
    let series: f64 = factors
        .iter()
        .rev()
        .fold(0.0, |sum, factor| (sum + factor) * t);
    let tail = density(x) * series;
    if x < 0.0 { tail } else { 1.0 - tail }
}

fn density(x: f64) -> f64 {
    (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

#[test]
fn uniform() {
    let distribution = Distribution::Uniform {
        spread: Duration::from_millis(2),
    };
    for seed in 1..=3 {
        let delays = delays_ms(Duration::from_millis(8), distribution.clone(), seed);
        assert!(delays[0] >= 6.0 && delays[PACKETS - 1] <= 10.0);
        let about = format!("uniform, seed {seed}");
        check(&about, &delays, 8.0, 4.0 / 12f64.sqrt(), |delay| {
            (delay - 6.0) / 4.0
        });
    }
}

#[test]
fn normal_far_from_zero() {
    let distribution = Distribution::Normal {
        deviation: Duration::from_millis(1),
    };
    for seed in 1..=3 {
        let delays = delays_ms(Duration::from_millis(8), distribution.clone(), seed);
        let about = format!("normal, seed {seed}");
        check(&about, &delays, 8.0, 1.0, |delay| normal(delay - 8.0));
    }
}

#[test]
fn normal_truncated_at_zero() {
    let distribution = Distribution::Normal {
        deviation: Duration::from_millis(1),
    };
    // A mean of one deviation: of the normal distribution truncated at α = −1.
    let above = 1.0 - normal(-1.0);
    let hazard = density(-1.0) / above;
    let mean = 1.0 + hazard;
    let deviation = (1.0 - hazard - hazard * hazard).sqrt();
    for seed in 1..=3 {
        let delays = delays_ms(Duration::from_millis(1), distribution.clone(), seed);
        let about = format!("truncated normal, seed {seed}");
        check(&about, &delays, mean, deviation, |delay| {
            (normal(delay - 1.0) - normal(-1.0)) / above
        });
    }
}

#[test]
fn empirical() {
    // Half of the packets uniform from −1 to 0 ms, half from 0 to 4 ms.
    let quantiles = Quantiles::new(vec![-1_000_000, 0, 4_000_000]).unwrap();
    let distribution = Distribution::Empirical(quantiles);
    let mean = (-0.5 + 2.0) / 2.0;
    let square = (1.0 / 3.0 + 16.0 / 3.0) / 2.0;
    let deviation = f64::sqrt(square - mean * mean);
    for seed in 1..=3 {
        let delays = delays_ms(Duration::from_millis(8), distribution.clone(), seed);
        let about = format!("empirical, seed {seed}");
        check(&about, &delays, 8.0 + mean, deviation, |delay| {
            let offset = delay - 8.0;
            if offset < 0.0 {
                (offset + 1.0) / 2.0
            } else {
                0.5 + offset / 8.0
            }
        });
    }
}

/// Packet numbers, one each 100 µs, in order of arrival.
fn order(effects: &Effects) -> Vec<u64> {
    let mut chain = effects.chain(9).unwrap();
    let mut arrived = Vec::new();
    for number in 0..1_000 {
        let now = Instant::from_ns(number * 100_000);
        arrived.extend(std::iter::from_fn(|| chain.poll(now)));
        chain.enqueue(now, Packet::new(100, number));
    }
    arrived.extend(std::iter::from_fn(|| chain.poll(Instant::FAR_FUTURE)));
    assert_eq!(arrived.len(), 1_000);
    assert!(arrived.is_sorted_by_key(|left| left.departed));
    arrived.iter().map(|left| left.packet.payload).collect()
}

#[test]
fn jitter_reorders_only_when_it_may() {
    let jittered = |overtaking| Effects {
        delay: Duration::from_millis(8),
        jitter: Some(Jitter {
            distribution: Distribution::Uniform {
                spread: Duration::from_millis(2),
            },
            overtaking,
        }),
        ..Effects::default()
    };
    assert!(order(&jittered(false)).is_sorted());
    assert!(!order(&jittered(true)).is_sorted());
}

#[test]
fn what_is_held_back_is_overtaken_by_as_many_as_come_meanwhile() {
    let effects = Effects {
        delay: Duration::from_millis(8),
        reorder_share: Probability::new(0.01).unwrap(),
        reorder_by: Duration::from_micros(550),
        ..Effects::default()
    };
    let order = order(&effects);
    let mut held_back = 0;
    // The last ones have too few behind them.
    for (place, &number) in order
        .iter()
        .enumerate()
        .filter(|(_, number)| **number < 990)
    {
        let overtaken_by = order[..place].iter().filter(|&&other| other > number);
        match overtaken_by.count() {
            0 => {}
            overtakers => {
                held_back += 1;
                // Five arrive within 550 µs; fewer overtake when one of them is held back too.
                assert!(
                    (3..=5).contains(&overtakers),
                    "{overtakers} before {number}"
                );
            }
        }
    }
    assert!((2..30).contains(&held_back), "{held_back} of 1000");
}
