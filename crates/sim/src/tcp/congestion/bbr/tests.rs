use super::super::Law;
use super::super::flow::{Flow, Policer};
use super::*;

/// 100 Mbit/s in packets of 1448 bytes.
const PACKETS_PER_S: u64 = 8_632;
/// Packets in 40 ms at that rate.
const PIPE: u32 = 345;

fn flow(seed: u64) -> Flow {
    let mut flow = Flow::with(Law::Bbr(Bbr::new(Hz::default(), seed)));
    flow.packets_per_s = Some(PACKETS_PER_S);
    flow.rtt_us = 40_000;
    flow
}

fn bbr(flow: &Flow) -> &Bbr {
    let Law::Bbr(law) = &flow.law else {
        unreachable!()
    };
    law
}

fn run_until(flow: &mut Flow, mode: Mode) {
    while bbr(flow).mode != mode {
        flow.step();
        assert!(flow.now_ns < 20_000_000_000, "never {mode:?}");
    }
}

/// Packets per second of a bandwidth.
fn per_s(bandwidth: u32) -> f64 {
    f64::from(bandwidth) * 1e6 / f64::from(1 << BW_DIGITS)
}

#[test]
fn startup_finds_the_bandwidth_and_drain_empties_its_queue() {
    let mut flow = flow(1);
    run_until(&mut flow, Mode::Drain);
    // From 10 packets to 345 in six doublings. The last round trip of growth and the three without growth have a queue.
    let most_ms = 7 * 40 + 4 * 40 * u64::from(HIGH_GAIN) / 256;
    assert!(flow.now_ns < most_ms * 1_000_000, "{}", flow.now_ns);
    assert!(flow.window.in_flight > PIPE * 3 / 2);
    let found = per_s(bbr(&flow).bandwidth());
    assert!((found / PACKETS_PER_S as f64 - 1.0).abs() < 0.02, "{found}");
    run_until(&mut flow, Mode::ProbeBw);
    assert!(
        flow.window.in_flight < PIPE * 11 / 10,
        "{}",
        flow.window.in_flight
    );
}

/// Twice the bandwidth-delay product, plus room for three quanta.
#[test]
fn it_fills_the_path_with_a_window_of_twice_what_it_holds() {
    let mut flow = flow(1);
    flow.run_ms(2_000);
    let delivered = flow.run_ms(5_000);
    assert!(
        delivered > 5 * PACKETS_PER_S as u32 * 97 / 100,
        "{delivered}"
    );
    let room = 3 * send_quantum(&flow.window);
    let cwnd = flow.window.cwnd;
    assert!(
        (2 * PIPE..2 * PIPE * 102 / 100 + 2 * room).contains(&cwnd),
        "{cwnd}"
    );
}

/// Of the eight phases of a cycle, the first has a gain of 5/4, the second of 3/4, and six of 1.
#[test]
fn phases_follow_each_other_a_round_trip_each() {
    let mut flow = flow(1);
    run_until(&mut flow, Mode::ProbeBw);
    let mut times_ns = [0; CYCLE.len()];
    for _ in 0..100_000 {
        let (phase, then_ns) = (bbr(&flow).phase, flow.now_ns);
        flow.step();
        times_ns[phase] += flow.now_ns - then_ns;
        let next = bbr(&flow).phase;
        assert!(next == phase || next == (phase + 1) % CYCLE.len());
        let quarters = [5, 3, 4, 4, 4, 4, 4, 4][next];
        assert_eq!(bbr(&flow).pacing_gain, UNIT * quarters / 4);
    }
    let cruise_ns = times_ns[2];
    for ns in &times_ns[3..] {
        assert!(ns.abs_diff(cruise_ns) < cruise_ns / 4, "{times_ns:?}");
    }
}

#[test]
fn the_seed_chooses_the_first_phase_but_never_that_which_drains() {
    let first = |seed: u64| {
        let mut flow = flow(seed);
        run_until(&mut flow, Mode::ProbeBw);
        bbr(&flow).phase
    };
    let phases: Vec<usize> = (0..64).map(first).collect();
    assert_eq!(phases, (0..64).map(first).collect::<Vec<_>>());
    for phase in 0..CYCLE.len() {
        assert_eq!(phases.contains(&phase), phase != 1, "{phases:?}");
    }
}

/// A minimum RTT that is never seen again triggers PROBE_RTT after 10 s. It lasts 200 ms and a round trip, with four
/// packets in flight, and then the window is restored.
#[test]
fn the_round_trip_is_measured_anew_after_ten_seconds() {
    let mut flow = flow(1);
    flow.run_ms(1_000);
    flow.rtt_us = 50_000;
    let before = flow.window.cwnd;
    run_until(&mut flow, Mode::ProbeRtt);
    let began_ns = flow.now_ns;
    assert!(
        began_ns > 10_000_000_000 && began_ns < 11_100_000_000,
        "{began_ns}"
    );
    run_until(&mut flow, Mode::ProbeBw);
    let lasted_ms = (flow.now_ns - began_ns) / 1_000_000;
    assert!((240..=400).contains(&lasted_ms), "{lasted_ms}");
    assert_eq!(bbr(&flow).min_rtt_us.unwrap().div_ceil(1_000), 51);
    flow.run_ms(200);
    assert!(flow.window.cwnd >= before, "{}", flow.window.cwnd);
}

/// Reno's window would be 1.22 / sqrt(0.01) = 12 packets, a thirtieth.
#[test]
fn losses_alone_do_not_slow_it() {
    let mut flow = flow(1);
    flow.lose_every = Some(100);
    flow.run_ms(2_000);
    let delivered = flow.run_ms(5_000);
    assert!(
        delivered > 5 * PACKETS_PER_S as u32 * 93 / 100,
        "{delivered}"
    );
}

#[test]
fn the_first_round_trip_of_a_recovery_conserves_packets() {
    let mut flow = flow(1);
    flow.run_ms(2_000);
    flow.lose_next();
    while flow.recoveries == 0 {
        flow.step();
    }
    let before = bbr(&flow).prior_cwnd;
    assert!(bbr(&flow).conserves);
    assert!(flow.window.cwnd <= flow.window.in_flight + 1);
    while flow.window.state != State::Open {
        flow.step();
    }
    assert!(!bbr(&flow).conserves);
    assert!(flow.window.cwnd >= before.min(2 * PIPE));
}

/// A policer at 2000 packets/s, behind a link of four times that rate.
#[test]
fn the_rate_of_a_policer_is_found() {
    let mut flow = flow(1);
    flow.policer = Some(Policer {
        packets_per_s: 2_000,
        burst: 500.0,
    });
    while bbr(&flow).long_term.limit().is_none() {
        flow.step();
        assert!(flow.now_ns < 10_000_000_000);
    }
    let found = per_s(bbr(&flow).bandwidth());
    assert!((found / 2_000.0 - 1.0).abs() < 0.15, "{found}");
    // Then less is lost than the tenth that a gain of 5/4 would lose.
    flow.run_ms(200);
    let lost = flow.window.lost;
    let delivered = flow.run_ms(1_000);
    assert!((flow.window.lost - lost) * 10 < delivered);
    // After 48 round trips it probes for more.
    let end_ns = flow.now_ns + 2_000_000_000;
    while bbr(&flow).long_term.limit().is_some() {
        flow.step();
        assert!(flow.now_ns < end_ns);
    }
}

/// Acknowledgements every 20 ms bring 173 packets beyond what is expected.
#[test]
fn aggregated_acknowledgements_make_the_window_larger() {
    let mut steady = flow(1);
    let mut bursty = flow(1);
    bursty.aggregate_ns = 20_000_000;
    steady.run_ms(3_000);
    bursty.run_ms(3_000);
    let extra = |flow: &Flow| bbr(flow).aggregation.packets(bbr(flow).bandwidth());
    assert!(extra(&steady) < 20, "{}", extra(&steady));
    assert!((100..=260).contains(&extra(&bursty)), "{}", extra(&bursty));
    let delivered = bursty.run_ms(5_000);
    assert!(
        delivered > 5 * PACKETS_PER_S as u32 * 95 / 100,
        "{delivered}"
    );
}

/// Below 1.2 Mbit/s packets are sent one by one; above, what the rate sends in 1/1024 s, up to 64 KiB.
#[test]
fn the_send_quantum_is_a_millisecond_of_the_rate() {
    let mut window = Window::new(1_448);
    for (rate, packets) in [
        (149_999, 1),
        (150_000, 2),
        (10 * 1_448 * 1_024, 10),
        (1 << 40, 45),
    ] {
        window.pacing_bytes_per_s = Some(rate);
        assert_eq!(send_quantum(&window), packets, "{rate}");
    }
}
