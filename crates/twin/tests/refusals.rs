//! Recordings of which no twin can be made.

use wansan_insight::Cell;
use wansan_trace::{ConnectionId, Direction, Instant, Kinds, Layer, Recorder, SessionId, TaskTag};
use wansan_twin::{Reading, Unfit};

/// A recording of one I/O with layer crossings only.
fn one_io(kinds: Kinds) -> Recorder {
    let mut recorder = Recorder::new(kinds, Recorder::MIN_BYTES);
    for (ns, direction) in [(1, Direction::Enter), (9, Direction::Leave)] {
        let ids = (SessionId(1 << 16), ConnectionId(0), TaskTag(1));
        recorder.crossing(
            Instant::from_ns(ns),
            ids.0,
            ids.1,
            ids.2,
            Layer::App,
            direction,
        );
    }
    recorder
}

/// Why a recording has no twin, in one line.
fn refusal(recorder: &Recorder) -> Unfit {
    let cell = Cell::gather(&[("client", recorder)]).expect("I/Os are recorded");
    let unfit = Reading::of(&cell, None).expect_err("it cannot be simulated");
    assert!(!unfit.to_string().contains('\n'), "{unfit}");
    unfit
}

const KINDS: Kinds = Kinds {
    io: true,
    pdu: true,
    connection: true,
    ..Kinds::NONE
};

#[test]
fn missing_records_are_named() {
    let without_pdu = Kinds {
        pdu: false,
        ..KINDS
    };
    assert_eq!(refusal(&one_io(without_pdu)), Unfit::Missing("pdu"));
    let without_connection = Kinds {
        connection: false,
        ..KINDS
    };
    let refused = refusal(&one_io(without_connection));
    assert_eq!(refused, Unfit::Missing("connection"));
    assert!(refused.to_string().contains("`connection`"), "{refused}");
}

#[test]
fn records_that_were_lost_are_counted() {
    let mut recorder = one_io(KINDS);
    for tag in 0..1_000_000 {
        let ids = (SessionId(1 << 16), ConnectionId(0), TaskTag(tag));
        let at = Instant::from_ns(10 + u64::from(tag));
        recorder.crossing(at, ids.0, ids.1, ids.2, Layer::App, Direction::Enter);
    }
    assert!(matches!(refusal(&recorder), Unfit::Lost(1.., "io")));
}
