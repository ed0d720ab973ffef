use super::super::Law;
use super::super::flow::Flow;
use super::*;

/// A flow with this window and RTT that has just lost a packet.
fn after_a_loss(cwnd: u32, rtt_us: u64) -> Flow {
    let mut flow = Flow::of("cubic");
    flow.rtt_us = rtt_us;
    (flow.window.cwnd, flow.window.ssthresh) = (cwnd, cwnd);
    flow.window.is_paced = true;
    flow.lose_next();
    while flow.recoveries == 0 {
        flow.step();
    }
    flow
}

/// RFC 9438 §4.2: W(t) = 0.4 (t - K)³ + W_max, K = ∛(0.3 W_max / 0.4), from the end of the recovery on.
#[test]
fn the_window_follows_the_curve() {
    let mut flow = after_a_loss(1_000, 100_000);
    while flow.window.state != State::Open {
        flow.step();
    }
    assert_eq!(flow.window.cwnd, 700);
    let k = (0.3_f64 * 1_000.0 / 0.4).cbrt();
    for tenths in 1..160 {
        flow.run_ms(100);
        let w = 0.4 * (f64::from(tenths) / 10.0 - k).powi(3) + 1_000.0;
        let cwnd = f64::from(flow.window.cwnd);
        assert!(
            (cwnd / w - 1.0).abs() < 0.02,
            "{cwnd} and {w} at {tenths}/10 s"
        );
    }
}

/// RFC 9438 §5.1: (0.4 (3 + 0.7) / (4 (1 - 0.7)))^(1/4) (rtt / p)^(3/4), where that exceeds Reno's window.
#[test]
fn the_mean_window_is_that_of_the_response_function() {
    for every in [10_000_u64, 100_000] {
        let mean = Flow::of("cubic").mean_window(100_000, every);
        let packets = (0.4_f64 * 3.7 / 1.2).powf(0.25) * (0.1 * every as f64).powf(0.75);
        assert!(
            (mean / packets - 1.0).abs() < 0.08,
            "{mean} and {packets} at 1/{every}"
        );
    }
}

/// RFC 9438 §4.3: with short RTTs the same as Reno, sqrt(3 / (2 p)); slightly less, as the kernel updates an unchanged
/// window only 32 times a second.
#[test]
fn over_short_round_trips_it_is_as_fast_as_reno() {
    for every in [2_000_u64, 10_000] {
        let mean = Flow::of("cubic").mean_window(20_000, every);
        let packets = (1.5 * every as f64).sqrt();
        let ratio = mean / packets;
        assert!(
            (0.92..1.02).contains(&ratio),
            "{mean} and {packets} at 1/{every}"
        );
    }
}

/// RFC 9438 §4.7: W_max is 0.85 of a window that fell short of the last maximum.
#[test]
fn a_window_that_fell_short_makes_room() {
    let mut law = Cubic::new(Hz::default());
    let mut window = Window {
        cwnd: 1_000,
        ..Window::new(1448)
    };
    assert_eq!(law.ssthresh(&window), 700);
    assert_eq!(law.curve.last_max, 1_000);
    window.cwnd = 800;
    assert_eq!(law.ssthresh(&window), 560);
    assert_eq!(law.curve.last_max, 680);
}

#[test]
fn an_idle_time_does_not_move_the_window_along_the_curve() {
    let mut flow = after_a_loss(1_000, 100_000);
    flow.run_ms(1_000);
    let Law::Cubic(law) = &mut flow.law else {
        unreachable!()
    };
    let hz = Hz::default();
    let elapsed = |law: &Cubic, now_ns: u64| hz.at(now_ns) - law.curve.epoch.unwrap();
    let before = elapsed(law, flow.now_ns);
    let later_ns = flow.now_ns + 5_000_000_000;
    flow.window.last_sent_ns = flow.now_ns;
    law.on_event(&mut flow.window, Event::TransmitStart, later_ns);
    assert_eq!(elapsed(law, later_ns), before);
}

#[test]
fn cube_roots_are_exact() {
    for root in [0_u64, 1, 2, 3, 1_000, 14_422, 140_000] {
        assert_eq!(cube_root(root.pow(3)), root);
        assert_eq!(cube_root((root + 1).pow(3) - 1), root);
    }
}

/// 8000 packets/s and 50 ms: half a round trip has 204 packets, with the millisecond allowed for large ones. The first
/// window with such a train is that of 320, after as many of its acknowledgements.
#[test]
fn a_train_of_half_a_round_trip_ends_slow_start() {
    let mut flow = Flow::of("cubic");
    flow.packets_per_s = Some(8_000);
    flow.rtt_us = 50_000;
    while flow.window.in_slow_start() {
        flow.step();
    }
    let cwnd = flow.window.cwnd;
    assert!((520..=530).contains(&cwnd), "{cwnd}");
}

/// 400 packets/s, so that acknowledgements are too far apart for a train, and 200 ms: the path holds 80. Slow start
/// builds the queue with the window of 160 and detects it with that of 320, by the ninth acknowledgement.
#[test]
fn a_longer_round_trip_ends_slow_start() {
    let mut flow = Flow::of("cubic");
    flow.packets_per_s = Some(400);
    flow.rtt_us = 200_000;
    while flow.window.in_slow_start() {
        flow.step();
    }
    let cwnd = flow.window.cwnd;
    assert!((325..=330).contains(&cwnd), "{cwnd}");
}

/// Acknowledgements arrive every millisecond, for much longer than half of the RTT of 20 ms.
#[test]
fn a_window_below_sixteen_packets_stays_in_slow_start() {
    for (cwnd, stays) in [(15, true), (16, false)] {
        let mut window = Window {
            cwnd,
            ..Window::new(1448)
        };
        let mut law = HyStart::new(&window, 0);
        for ms in 1..=100 {
            law.on_acked(&mut window, 20_000, 20_000, ms * 1_000_000);
        }
        assert_eq!(window.in_slow_start(), stays, "{cwnd}");
    }
}
