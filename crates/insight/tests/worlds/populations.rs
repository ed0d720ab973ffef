//! Populations, waiting and Little's law on simulated worlds, and the results for damaged or incomplete records.

use super::simulation::{MS, US, World, observe, play};
use proptest::prelude::*;
use wansan_insight::join::join;
use wansan_insight::traffic::FlowDirection;
use wansan_insight::{Cell, CellSummary, ReadError, Window, explain, summarise};
use wansan_trace::event::Crossing;
use wansan_trace::file::{self, Row};
use wansan_trace::{ConnectionId, Direction, Instant, Kinds, Layer, Recorder, SessionId, TaskTag};

fn summary(world: &World) -> CellSummary {
    let folder = tempfile::tempdir().unwrap();
    observe(world, folder.path()).summary
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * b.abs()
}

#[test]
fn populations_are_those_of_the_world() {
    let summary = summary(&World {
        parallel: 112,
        command_window: 100,
        jitter_ns: 0,
        ..World::wan()
    });
    let total = &summary.total;
    let mean = |layer| total.layer(layer).unwrap().in_flight_mean;
    assert!(close(mean(Layer::App), 112.0, 0.01), "{}", mean(Layer::App));
    assert!(close(mean(Layer::Window), 100.0, 0.01));
    let window = total.layer(Layer::Window).unwrap();
    assert_eq!(window.in_flight_max, Some(100));
    assert_eq!(total.layer(Layer::Queue).unwrap().in_flight_max, Some(112));
    assert!(close(window.waiting_in_mean, 12.0, 0.02));
    let used = summary.sessions[0].command_window.unwrap();
    assert_eq!(used.slots, 100);
    assert!(used.closed_while_waiting_share > Some(0.99), "{used:?}");
    assert_eq!(summary.losses.missing_crossings, 0);
    // I/Os in flight when the records ended.
    assert!(summary.losses.incomplete_ios > 0 && summary.losses.incomplete_ios <= 112);
    // Half the round trip each way, none of it waiting.
    let target = total.layer(Layer::Target).unwrap();
    assert!(close(target.way_in_ns, 16.0 * MS as f64, 0.001));
    let onward = summary
        .waits
        .sums
        .iter()
        .filter(|sum| sum.way == Some(FlowDirection::ToTarget));
    let waited_ns: f64 = onward
        .filter(|sum| !sum.is_crossing())
        .map(|sum| sum.mean_ns)
        .sum();
    assert!(waited_ns < US as f64, "{:?}", summary.waits.sums);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// N = X·W at each layer, parts of the latency add up, and the share of the latency spent
    /// waiting for a layer is the share of the population that waits there.
    #[test]
    fn littles_law_holds(
        sessions in 1usize..3,
        parallel in 1usize..60,
        command_window in 1u32..60,
        one_way_us in 10u64..4_000,
        link_us in 1u64..400,
        servers in 1usize..8,
        service_us in 1u64..500,
        jitter_us in 0u64..300,
    ) {
        let world = World {
            sessions, parallel, command_window, servers,
            one_way_ns: one_way_us * US,
            link_ns: link_us * US,
            service_ns: service_us * US,
            jitter_ns: jitter_us * US,
            duration_ns: 60 * MS,
            ..World::wan()
        };
        let folder = tempfile::tempdir().unwrap();
        play(&world, folder.path());
        let cell = Cell::read(folder.path()).unwrap();
        let summary = summarise(&cell, None);
        for scope in summary.sessions.iter().map(|s| &s.scope).chain([&summary.total]) {
            for held in &scope.layers {
                prop_assert!(held.little.agrees, "{} {:?}", held.layer, held.little);
            }
            let parts: f64 = scope.layers.iter().map(|l| l.way_in_ns + l.way_out_ns + l.service_ns).sum();
            prop_assert!((parts - scope.latency.mean_ns).abs() < 1.0);
            let mut above = f64::INFINITY;
            for held in &scope.layers {
                prop_assert!(held.in_flight_mean <= above + 1e-9);
                above = held.in_flight_mean;
            }
        }
        let app = summary.total.layer(Layer::App).unwrap();
        prop_assert!(app.in_flight_max <= Some((sessions * parallel) as u64));
        let window = summary.total.layer(Layer::Window).unwrap();
        prop_assert!(window.in_flight_max <= Some(sessions as u64 * u64::from(command_window)));
        let store = summary.total.layer(Layer::Store).unwrap();
        prop_assert!(store.in_flight_max <= Some(servers as u64));
        // `explain` never panics and always returns a sentence.
        let finding = explain(&[wansan_insight::Observed {
            cell: 0,
            parameters: Default::default(),
            summary,
        }]);
        prop_assert!(finding.sentence.ends_with('.'));
    }
}

/// The window begins exactly when the first of few I/Os leaves.
#[test]
fn littles_law_holds_at_the_windows_edge() {
    let summary = summary(&World {
        parallel: 1,
        command_window: 1,
        one_way_ns: 114 * US,
        link_ns: 90 * US,
        servers: 1,
        service_ns: 176 * US,
        jitter_ns: 154 * US,
        duration_ns: 60 * MS,
        ..World::wan()
    });
    assert!(summary.total.layer(Layer::App).is_some());
    for held in &summary.total.layers {
        assert!(held.little.agrees, "{} {:?}", held.layer, held.little);
    }
}

fn row(ns: u64, tag: u32, layer: Layer, direction: Direction) -> Row<Crossing> {
    Row {
        host: wansan_trace::NameId(0),
        record: Crossing {
            time: Instant::from_ns(ns),
            session: SessionId(1),
            task: TaskTag(tag),
            connection: ConnectionId(1),
            layer,
            direction,
        },
    }
}

#[test]
fn tags_used_again_are_other_ios() {
    use Direction::{Enter, Leave};
    // A foreign initiator: only the target's layers, one tag used three times; the second use begins before the store
    // has recorded the end of the first.
    let rows = [
        row(0, 5, Layer::Target, Enter),
        row(1, 5, Layer::Device, Enter),
        row(10, 5, Layer::Target, Leave),
        row(20, 5, Layer::Target, Enter),
        row(21, 5, Layer::Device, Leave),
        row(22, 5, Layer::Device, Enter),
        row(30, 5, Layer::Device, Leave),
        row(31, 5, Layer::Target, Leave),
        row(40, 5, Layer::Target, Enter),
    ];
    let joined = join(&rows);
    let spans: Vec<_> = joined
        .tasks
        .iter()
        .map(|task| (task.both_ns(Layer::Target), task.both_ns(Layer::Device)))
        .collect();
    assert_eq!(
        spans,
        [
            (Some((0, 10)), Some((1, 21))),
            (Some((20, 31)), Some((22, 30))),
            (None, None)
        ]
    );
    assert_eq!(joined.incomplete, 1);
    assert_eq!(joined.layers, [Layer::Target, Layer::Device]);
}

#[test]
fn the_end_of_an_io_that_began_before_the_records_is_not_the_next_ones() {
    use Direction::{Enter, Leave};
    let rows = [
        row(100, 5, Layer::Window, Leave),
        row(2000, 5, Layer::Window, Enter),
        row(2050, 5, Layer::Window, Leave),
    ];
    let joined = join(&rows);
    let spans: Vec<_> = joined
        .tasks
        .iter()
        .map(|task| task.both_ns(Layer::Window))
        .collect();
    assert_eq!(spans, [None, Some((2000, 2050))]);
    assert_eq!((joined.incomplete, joined.repeated_crossings), (1, 0));
}

#[test]
fn ios_cut_off_at_either_end_are_in_flight_to_the_edge() {
    use Direction::{Enter, Leave};
    let rows = [
        row(100, 1, Layer::App, Leave),
        row(110, 2, Layer::App, Enter),
        row(150, 2, Layer::App, Leave),
        row(160, 3, Layer::App, Enter),
        row(199, 4, Layer::App, Enter),
    ];
    let joined = join(&rows);
    assert_eq!(joined.incomplete, 3);
    let spans: Vec<_> = joined
        .tasks
        .iter()
        .map(|task| task.span_ns(Layer::App, joined.records).unwrap())
        .collect();
    assert_eq!(spans, [(100, 100), (110, 150), (160, 200), (199, 200)]);
    assert_eq!(
        joined.busy_window(),
        Window {
            from_ns: 100,
            to_ns: 199
        }
    );
}

#[test]
fn records_that_were_dropped_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::new(Kinds::ALL, Recorder::MIN_BYTES);
    for ns in 0..1_000_000u64 {
        let tag = TaskTag((ns / 2) as u32);
        let direction = if ns % 2 == 0 {
            Direction::Enter
        } else {
            Direction::Leave
        };
        let now = Instant::from_ns(ns);
        recorder.crossing(
            now,
            SessionId(1),
            ConnectionId(1),
            tag,
            Layer::App,
            direction,
        );
    }
    let lost = recorder.io.dropped();
    assert!(lost > 0);
    file::write_part(folder.path(), "initiator-0", &[recorder]).unwrap();
    file::merge_parts(folder.path()).unwrap();
    let cell = Cell::read(folder.path()).unwrap();
    let summary = summarise(&cell, None);
    assert_eq!(summary.losses.dropped["io"]["initiator-0"], lost);
    let finding = explain(&[wansan_insight::Observed {
        cell: 3,
        parameters: Default::default(),
        summary,
    }]);
    let told = format!("cell 3: initiator-0 lost {lost} io records");
    assert!(
        finding.evidence.iter().any(|line| line.starts_with(&told)),
        "{:?}",
        finding.evidence
    );
}

#[test]
fn folders_without_records_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = Cell::read(folder.path()).unwrap_err();
    assert!(matches!(error, ReadError::NoIo(_)));
    let shown = folder.path().display().to_string();
    assert!(error.to_string().contains(&shown));
    std::fs::write(folder.path().join("io.parquet"), "PAR1PAR1").unwrap();
    let error = Cell::read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("io.parquet is damaged"), "{error}");
}
