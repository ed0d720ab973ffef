use wansan_congestion::OptionsError;

use super::super::flow::Flow;
use super::super::law::Law;
use super::*;

fn law(algorithm: Algorithm) -> Loaded {
    Loaded::new(algorithm, &Options::default())
}

/// A window in congestion avoidance, fully used by the sender.
fn window(cwnd: u32) -> Window {
    Window {
        cwnd,
        ssthresh: cwnd.min(2),
        is_limited: true,
        ..Window::new(1448)
    }
}

fn acked(packets: u32) -> Acked {
    let mut acked = Acked::default();
    acked.sample.acked_sacked = packets;
    acked
}

/// Growth in packets of a window that is acknowledged `rounds` times, by acknowledgements of `each` packets.
fn growth(law: &mut Loaded, cwnd: u32, rounds: u32, each: u32) -> u32 {
    let mut window = window(cwnd);
    for _ in 0..rounds {
        let mut left = window.cwnd;
        while left > 0 {
            let packets = each.min(left);
            law.avoid(&mut window, &acked(packets));
            left -= packets;
        }
    }
    window.cwnd - cwnd
}

/// RFC 3649 Appendix B: a(w) and b(w) at these windows. The appendix rounds the response function, so that its a(w) is
/// up to 2.4 % less.
#[test]
fn highspeed_grows_and_shrinks_by_the_table_of_the_rfc() {
    for (cwnd, increase, decrease) in [
        (38, 1, 0.50),
        (118, 2, 0.44),
        (221, 3, 0.41),
        (347, 4, 0.38),
        (495, 5, 0.37),
        (1529, 10, 0.31),
        (5036, 20, 0.25),
        (18955, 40, 0.18),
        (48961, 60, 0.13),
        (84035, 71, 0.10),
    ] {
        let mut law = law(Algorithm::HighSpeed);
        let grown = growth(&mut law, cwnd, 1, 2);
        let most = increase + 1 + increase / 20;
        assert!((increase..=most).contains(&grown), "a({cwnd}): {grown}");
        let left = law.ssthresh(&window(cwnd));
        let taken = f64::from(cwnd - left) / f64::from(cwnd);
        assert!((taken - decrease).abs() < 0.01, "b({cwnd}): {taken}");
    }
}

/// RFC 3649 §5: w(p) is the mean window at a loss rate of p; with deterministic loss it is slightly off.
#[test]
fn highspeed_has_the_mean_window_of_its_response_function() {
    for every in [1_000_u64, 10_000, 100_000] {
        let mean = Flow::of("wansan_hstcp").mean_window(100_000, every);
        let expected = HighSpeed::default().response(1.0 / every as f64);
        let ratio = mean / expected;
        assert!((0.9..1.1).contains(&ratio), "{mean} at 1/{every}");
    }
}

/// RFC 5681 equations 3 and 4.
#[test]
fn reno_grows_by_a_packet_in_a_round_trip_and_a_loss_takes_half() {
    for cwnd in [10, 100, 5_000] {
        assert_eq!(growth(&mut law(Algorithm::Reno), cwnd, 1, 2), 1);
        // A window of 10 grows to 11 before the second round, and so on: by one packet per round.
        assert_eq!(growth(&mut law(Algorithm::Reno), cwnd, 20, 3), 20);
    }
    for (cwnd, left) in [(100, 50), (101, 50), (3, 2), (1, 2)] {
        assert_eq!(law(Algorithm::Reno).ssthresh(&window(cwnd)), left);
    }
}

/// sqrt(3 / (2 p)) packets (Mathis et al., CCR 27(3), 1997), and up to a packet less: each loss discards the fraction
/// of a packet grown so far.
#[test]
fn reno_has_the_mean_window_of_the_square_root_law() {
    for every in [1_000_u64, 10_000, 100_000] {
        let mean = Flow::of("wansan_reno").mean_window(100_000, every);
        let packets = (1.5 * every as f64).sqrt();
        assert!(
            (0.92..1.05).contains(&(mean / packets)),
            "{mean} at 1/{every}"
        );
    }
}

/// Kelly 2003 §3.1: a = 0.01, b = 0.125, and Reno up to lwnd = 16.
#[test]
fn scalable_grows_by_a_hundredth_of_what_is_acknowledged_and_a_loss_takes_an_eighth() {
    for (cwnd, grown, left) in [
        (16, 1, 8),
        (17, 0, 14),
        (200, 2, 175),
        (1_000, 10, 875),
        (80_000, 800, 70_000),
    ] {
        let mut law = law(Algorithm::Scalable);
        // In one acknowledgement, so that growth does not compound.
        assert_eq!(growth(&mut law, cwnd, 1, cwnd), grown, "{cwnd}");
        assert_eq!(law.ssthresh(&window(cwnd)), left, "{cwnd}");
    }
}

#[test]
fn growth_does_not_depend_on_how_many_packets_an_acknowledgement_covers() {
    for algorithm in Algorithm::ALL {
        let grown = [1, 2, 40].map(|each| growth(&mut law(algorithm), 1_000, 5, each));
        let [most, least] = [grown.iter().max(), grown.iter().min()].map(|it| *it.unwrap());
        assert!(most - least <= 1, "{algorithm:?}: {grown:?}");
    }
}

#[test]
fn where_acknowledgements_are_counted_longer_ones_make_it_grow_less() {
    let growth_of_acks = Growth {
        counting: Counting::PerAck,
        ..Growth::default()
    };
    let options = Options {
        growth: growth_of_acks,
        ..Options::default()
    };
    for algorithm in Algorithm::ALL {
        let [each, every_fourth] =
            [1, 4].map(|each| growth(&mut Loaded::new(algorithm, &options), 2_000, 40, each));
        let ratio = f64::from(each) / f64::from(every_fourth);
        // Scalable's growth compounds, and HighSpeed TCP's increases with the window.
        assert!((3.9..5.0).contains(&ratio), "{algorithm:?}: {ratio}");
    }
}

/// RFC 3742 §2: at most half of the bound in a round trip; below it the window doubles.
#[test]
fn limited_slow_start_adds_half_of_its_bound_in_a_round_trip() {
    let options = Options {
        growth: Growth {
            max_ssthresh: Some(100),
            ..Growth::default()
        },
        ..Options::default()
    };
    for (cwnd, least, most) in [(50, 50, 50), (101, 50, 51), (400, 46, 50), (2_000, 47, 50)] {
        let mut law = Loaded::new(Algorithm::Reno, &options);
        let mut window = Window {
            ssthresh: u32::MAX,
            ..window(cwnd)
        };
        for _ in 0..cwnd {
            law.avoid(&mut window, &acked(1));
        }
        let more = window.cwnd - cwnd;
        assert!((least..=most).contains(&more), "{more} at {cwnd}");
    }
    assert_eq!(
        Growth {
            max_ssthresh: Some(1),
            ..Growth::default()
        }
        .check(),
        Err(OptionsError::MaxSsthresh(1))
    );
}

/// What slow start leaves of an acknowledgement counts for congestion avoidance (RFC 5681 §3.1); a window that is not
/// fully used does not grow.
#[test]
fn slow_start_ends_at_the_threshold() {
    let mut law = law(Algorithm::Reno);
    let mut window = Window {
        ssthresh: 14,
        ..window(10)
    };
    law.avoid(&mut window, &acked(10));
    assert_eq!(window.cwnd, 14);
    law.avoid(&mut window, &acked(8));
    assert_eq!(window.cwnd, 15);
    window.is_limited = false;
    law.avoid(&mut window, &acked(100));
    assert_eq!(window.cwnd, 15);
}

#[test]
fn a_loss_that_was_none_gives_the_window_back() {
    for name in Algorithm::ALL.map(Algorithm::name) {
        let mut law = Law::named(name, super::super::super::jiffies::Hz::default(), 0).unwrap();
        let before = window(1_000);
        let after = Window {
            cwnd: law.ssthresh(&before),
            prior: before.cwnd,
            ..before
        };
        assert!(after.cwnd < 1_000);
        assert_eq!(law.undo(&after), 1_000);
    }
}
