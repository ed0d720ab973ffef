//! A path whose delay changes during the measurement: the longer propagation time after it is not waiting.

use std::collections::BTreeMap;

use wansan_insight::cause::Cause;
use wansan_insight::finding::{Limit, Observed};
use wansan_insight::{Cell, explain, summarise};
use wansan_trace::event::Path;
use wansan_trace::{
    ConnectionId, Direction, Instant, Kinds, Layer, Recorder, SessionId, TaskTag, file,
};

const MS: u64 = 1_000_000;
/// When the delay changes.
const CHANGE_NS: u64 = 400 * MS;
const END_NS: u64 = 1_200 * MS;

/// The one-way delay for a packet sent at `at_ns`.
fn delay_ns(at_ns: u64) -> u64 {
    if at_ns < CHANGE_NS { 5 * MS } else { 50 * MS }
}

/// One I/O at a time, each of which waits `waits_ns` at the target.
fn cell(waits_ns: impl Fn(u32) -> u64) -> Cell {
    let mut recorder = Recorder::new(Kinds::ALL, 8 * Recorder::MIN_BYTES);
    let mut cross = |ns, task, layer, direction| {
        let (session, connection) = (SessionId(1), ConnectionId(0));
        let at = Instant::from_ns(ns);
        recorder.crossing(at, session, connection, TaskTag(task), layer, direction);
    };
    let (mut now_ns, mut task) = (0, 0);
    while now_ns < END_NS {
        cross(now_ns, task, Layer::App, Direction::Enter);
        cross(now_ns, task, Layer::Window, Direction::Enter);
        let there_ns = now_ns + delay_ns(now_ns) + waits_ns(task);
        cross(there_ns, task, Layer::Target, Direction::Enter);
        cross(there_ns, task, Layer::Target, Direction::Leave);
        now_ns = there_ns + delay_ns(there_ns);
        cross(now_ns, task, Layer::Window, Direction::Leave);
        cross(now_ns, task, Layer::App, Direction::Leave);
        task += 1;
    }
    for name in ["wan:forward", "wan:back"] {
        let path = recorder.name(name);
        for ms in (0..END_NS / MS).step_by(10) {
            recorder.path(Path {
                time: Instant::from_ns(ms * MS),
                path,
                delay_ns: delay_ns(ms * MS),
                ..Path::BLANK
            });
        }
    }
    let folder = tempfile::tempdir().unwrap();
    file::write_part(folder.path(), "client", &[recorder]).unwrap();
    file::merge_parts(folder.path()).unwrap();
    Cell::read(folder.path()).unwrap()
}

#[test]
fn a_longer_path_is_no_waiting() {
    let summary = summarise(&cell(|_| 0), None);
    let target = summary.total.layer(Layer::Target).unwrap();
    assert!(target.way_in_ns > 10.0 * MS as f64);
    let waited_ns = summary.waits.mean_ns(Cause::Unknown);
    assert!(waited_ns < 1.0, "{waited_ns}");
    let observed = Observed {
        cell: 0,
        parameters: BTreeMap::new(),
        summary,
    };
    assert_eq!(explain(&[observed]).limit, Limit::TooFewIos);
}

#[test]
fn waiting_before_and_after_a_change_is_still_seen() {
    // Every other I/O waits.
    let summary = summarise(&cell(|task| u64::from(task % 2) * 8 * MS), None);
    let waited_ns = summary.waits.mean_ns(Cause::Unknown);
    assert!((3.5e6..4.5e6).contains(&waited_ns), "{waited_ns}");
}
