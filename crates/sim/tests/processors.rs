//! Programs that take CPU time, and pauses of hosts.

use std::net::SocketAddr;
use std::time::Duration;

use wansan_sim::network::{Begins, Pause, Pauses};
use wansan_sim::storage::{Owner, ProcessorsConfig, Program, ProgramCost};

use super::storage::{Case, is_about};

/// IOPS of 64 short reads in flight over a short path. A PDU costs 10 µs, and both programs handle two PDUs per read.
fn iops(cores: usize, target_host: usize) -> f64 {
    let cost = ProgramCost {
        call_ns: 0,
        pdu_ns: 10_000,
        byte_ps: 0,
    };
    let program = |owner, host| Program {
        owner,
        name: format!("{owner:?}"),
        host,
        cost,
    };
    let case = Case {
        one_way: Duration::from_micros(50),
        mbit_per_s: 10_000,
        parallel: 64,
        processors: Some(ProcessorsConfig {
            cores,
            programs: vec![
                program(Owner::Target, target_host),
                program(Owner::Initiator(0), 0),
            ],
        }),
        time: Duration::from_millis(500),
        ..Case::default()
    };
    case.report().iops
}

#[test]
fn a_thread_does_one_thing_at_a_time() {
    is_about(iops(1, 1), 50_000.0, 0.02);
    is_about(iops(4, 1), 50_000.0, 0.02);
}

#[test]
fn threads_of_a_host_share_its_processors() {
    is_about(iops(1, 0), 25_000.0, 0.02);
    is_about(iops(2, 0), 50_000.0, 0.02);
}

/// One read at a time, with pauses: the number of reads, and the maximum latency in seconds.
fn paused(pauses: [Pauses; 2]) -> (u64, f64) {
    let case = Case {
        parallel: 1,
        pauses: Some(pauses),
        ..Case::default()
    };
    let report = case.report();
    let latency = report.latency_ns.expect("some were measured");
    (report.ios, latency.max as f64 / 1e9)
}

#[test]
fn what_comes_to_a_host_or_a_program_in_its_pause_waits_for_its_end() {
    let address = |last: u8, port: u16| SocketAddr::from(([10, 0, 0, last], port));
    let ends = [address(1, 40_000), address(2, 3260)];
    // At the 201st command, or its response, which is within the measurement.
    let pause = |flow, bytes: u64| {
        vec![Pause {
            flow,
            begins: Begins::Data(200 * bytes),
            lasts: Duration::from_millis(160),
        }]
    };
    let answer = || pause([ends[1], ends[0]], 48 + 4096);
    let command = || pause(ends, 48);
    let host = |host| Pauses {
        host,
        ..Pauses::default()
    };
    let program = |program| Pauses {
        program,
        ..Pauses::default()
    };
    let (undisturbed, _) = paused(Default::default());
    for pauses in [
        [host(answer()), Pauses::default()],
        [program(answer()), Pauses::default()],
        [Pauses::default(), host(command())],
        [Pauses::default(), program(command())],
    ] {
        let shown = format!("{pauses:?}");
        let (ios, longest_s) = paused(pauses);
        // A round trip takes 16 ms, part of which the read in flight has completed already.
        assert!((0.160..0.180).contains(&longest_s), "{longest_s} {shown}");
        let fewer = undisturbed - ios;
        assert!((9..=10).contains(&fewer), "{fewer} {shown}");
    }
}
