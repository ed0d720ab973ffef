//! iSCSI loads over paths that go down and come back.

use std::time::Duration;

use wansan_iscsi::keys::Wanted;
use wansan_sim::storage::{InitiatorError, StorageError};
use wansan_trace::Recorder;
use wansan_workload::sequence::Operation;

use crate::storage::Case;

/// Verified 64 KiB I/Os over 20 Mbit/s; the path is down for that long from 3 s on.
fn down_for(down: Duration) -> Case {
    let from = Duration::from_secs(3);
    Case {
        mbit_per_s: 20,
        block_bytes: 65_536,
        parallel: 8,
        operation: Operation::Mix,
        verify: true,
        outage: Some([from, from + down]),
        time: Duration::from_secs(40),
        ..Case::default()
    }
}

#[test]
fn tcp_alone_bridges_a_short_outage() {
    let report = down_for(Duration::from_millis(500)).report();
    assert_eq!(
        (report.recoveries, report.errors, report.corrupt),
        (0, 0, 0)
    );
    assert!(report.verified > 0, "{report:?}");
    let latency = report.latency_ns.expect("I/Os completed");
    assert!(latency.max > 500_000_000, "{latency:?}");
}

#[test]
fn a_session_comes_back_after_a_long_outage_with_all_its_data() {
    let report = down_for(Duration::from_secs(20)).report();
    assert_eq!(
        (report.recoveries, report.errors, report.corrupt),
        (1, 0, 0)
    );
    assert!(report.verified > 0, "{report:?}");
    // The outage is detected after some round trips, and the first attempt that begins on the restored path succeeds.
    assert!((10.0..30.0).contains(&report.lost_s), "{report:?}");
}

#[test]
fn a_lost_connection_is_replaced_while_the_others_work_on() {
    let case = Case {
        connections: 2,
        wanted: Wanted {
            error_recovery_level: 2,
            ..Wanted::default()
        },
        ..down_for(Duration::from_secs(20))
    };
    let report = case.report();
    assert_eq!(
        (report.recoveries, report.errors, report.corrupt),
        (1, 0, 0)
    );
    assert_eq!(report.lost_s, 0.0);
    assert!(report.verified > 0, "{report:?}");
}

#[test]
fn what_does_not_come_back_is_an_error() {
    let case = Case {
        drain: Some(Duration::from_secs(10)),
        time: Duration::from_secs(4),
        ..down_for(Duration::from_secs(1000))
    };
    let error = case.run(Recorder::off).expect_err("nothing gets through");
    let StorageError::Initiator { place: 0, source } = error else {
        panic!("{error}");
    };
    assert!(matches!(source, InitiatorError::CutOff { .. }), "{source}");
    let patient = Case {
        drain: None,
        ..case
    };
    let error = patient
        .run(Recorder::off)
        .expect_err("nothing gets through");
    let said = error.to_string();
    assert!(
        said.contains("was lost (the target does not respond, not even to a NOP-Out)")
            && said.contains("not recovered within 120 s: the last attempt failed: login did not"),
        "{said}"
    );
}
