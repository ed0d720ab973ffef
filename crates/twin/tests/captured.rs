//! Twins made from packets and PDUs alone.

use std::time::Duration;

use wansan_insight::Cell;
use wansan_insight::join::Task;
use wansan_insight::stall::Times;
use wansan_insight::wire::Begin;
use wansan_trace::{Layer, NameId};
use wansan_twin::knob::Setting;
use wansan_twin::replay::{ReplayError, measure};
use wansan_twin::{Reading, Twin, Unfit};

use super::recording::World;

/// Maximum error of a prediction against the run of the changed plan.
const MOST_OFF: f64 = 0.1;

/// The records of a world, without those that a capture lacks.
fn captured(world: &World<'_>) -> Cell {
    let (_, mut cell, _) = world.cell();
    (
        cell.connection,
        cell.tcp,
        cell.path,
        cell.stamp,
        cell.thread,
    ) = (None, None, None, None, None);
    for row in cell.packet.iter_mut().flat_map(|table| &mut table.rows) {
        row.record.path = NameId::NONE;
    }
    cell
}

fn world<'a>(target: &'a str, workload: &'a str) -> World<'a> {
    World {
        path: "delay = \"20ms\"\nrate = \"300Mbit/s\"\nqueue = \"4MiB\"",
        target,
        initiator: "",
        workload,
        more: "",
    }
}

/// Predicts the effect of a command window and a load of 64 from the packets of a run with 16 of both.
fn holds(operation: &str, change: impl FnOnce(&mut Cell)) {
    let workload =
        |parallel: u32| format!("op = \"{operation}\"\nblock = \"16KiB\"\nparallel = {parallel}");
    let (few, many) = (workload(16), workload(64));
    let mut cell = captured(&world(
        "luns = [\"memory:64MiB\"]\ncommand_window = 16",
        &few,
    ));
    change(&mut cell);
    let twin = Twin::of(Reading::of_packets(cell, true).unwrap(), &|| true).unwrap();
    let change = [("target.command_window", "64"), ("workload.parallel", "64")];
    let change = change.map(|(parameter, value)| Setting::new(parameter, value));
    let told = twin.predict(&[change.to_vec()], &|_, _| true).unwrap();
    assert!(told.fits, "{operation}: {:#?}", told.compared);
    let (after, ..) = world("luns = [\"memory:64MiB\"]\ncommand_window = 64", &many).cell();
    let off = told.predictions[0].bytes_per_s.median / after - 1.0;
    assert!(
        off.abs() <= MOST_OFF,
        "{operation}: {:+.1} % off",
        off * 100.0
    );
}

#[test]
fn a_window_that_is_full_of_reads_or_writes() {
    holds("read", |_| ());
    holds("write", |_| ());
}

#[test]
fn a_session_that_logged_in_before_the_capture_began() {
    holds("read", |cell| {
        for carrier in &mut cell.carriers {
            (carrier.shifts, carrier.begin) = ([None; 2], None);
        }
    });
}

#[test]
fn a_closed_loop_is_one_where_the_capture_begins_amid_its_ios() {
    let mut world = world(
        "luns = [\"memory:64MiB\"]\ncommand_window = 16",
        "op = \"read\"\nblock = \"16KiB\"\nparallel = 16",
    );
    // On this link I/Os are so far apart that the first ones look paced.
    world.path = "delay = \"20ms\"\nrate = \"100Mbit/s\"\nqueue = \"4MiB\"";
    let mut cell = captured(&world);
    let begins_ns = cell.joined.records.from_ns + 1_000_000_000;
    let joined = &mut cell.joined;
    let entered_ns = |task: &Task| task.enter_ns(Layer::App);
    joined
        .tasks
        .retain(|task| entered_ns(task).is_some_and(|ns| ns >= begins_ns));
    for carrier in &mut cell.carriers {
        carrier.begin = Some(Begin {
            first: [0; 2],
            mss_bytes: [1448; 2],
            times: Times::ByAcknowledgements,
        });
    }
    let setup = Reading::of_packets(cell, true).unwrap().setup;
    assert_eq!(setup.initiators[0].load.rate_per_s, None);
}

#[test]
fn a_load_that_fills_the_path_has_the_rate_at_which_data_is_acknowledged() {
    let cell = captured(&world(
        "luns = [\"memory:64MiB\"]",
        "op = \"read\"\nblock = \"256KiB\"\nparallel = 16",
    ));
    let setup = Reading::of_packets(cell, true).unwrap().setup;
    let rates = setup.directions.iter().filter_map(|it| it.rate_bits_per_s);
    let rate = rates.max().unwrap() as f64;
    assert!((rate / 300e6 - 1.0).abs() < 0.1, "{rate}");
}

#[test]
fn ios_that_take_longer_than_what_was_captured_are_said_to() {
    let cell = captured(&world(
        "luns = [\"memory:64MiB\"]",
        "op = \"read\"\nblock = \"4KiB\"\nparallel = 1",
    ));
    let mut setup = Reading::of_packets(cell, true).unwrap().setup;
    // An I/O takes 40 ms.
    setup.time = Duration::from_millis(1);
    let refused = measure(&setup, 1, &|| true).unwrap_err();
    assert!(matches!(refused, ReplayError::NoIos(_)), "{refused}");
    let said = refused.to_string();
    assert!(
        said.contains("within the 0.001 s") && said.contains("capture"),
        "{said}"
    );
}

#[test]
fn what_is_no_connection_of_a_session_is_refused() {
    let mut cell = captured(&world(
        "luns = [\"memory:64MiB\"]",
        "op = \"read\"\nblock = \"4KiB\"\nparallel = 1",
    ));
    cell.carriers.clear();
    assert_eq!(
        Reading::of_packets(cell, true).unwrap_err(),
        Unfit::Filtered
    );
}

#[test]
fn nagle_against_delayed_acknowledgements() {
    let separate = |nagle: bool| {
        format!(
            "luns = [\"memory:64MiB\"]\nnagle = {nagle}\nstatus = \"separate\"\njoin_sends = false"
        )
    };
    let (stalling, without) = (separate(true), separate(false));
    let workload = "op = \"read\"\nblock = \"1KiB\"\nparallel = 1";
    // A round trip of 30 ms or more could itself be the delay of an acknowledgement, without a captured SYN.
    let world = |target| World {
        path: "delay = \"1ms\"",
        ..world(target, workload)
    };
    let recorded = world(&stalling);
    // As if the connection had begun before the capture: no SYN shows how long segments may be.
    let mut begun = captured(&recorded);
    let packets = begun.packet.iter().flat_map(|table| &table.rows);
    let packets: Vec<_> = packets.map(|row| row.record).collect();
    for carrier in &mut begun.carriers {
        let first = [carrier.initiator, carrier.target].map(|end| {
            let first = packets.iter().find(|packet| packet.source == end);
            first.unwrap().seq.wrapping_add(1)
        });
        carrier.shifts = [None; 2];
        carrier.begin = Some(Begin {
            first,
            mss_bytes: [48, 48 + 1024],
            times: Times::ByAcknowledgements,
        });
    }
    let quick = World {
        initiator: "delayed_ack = \"quick\"",
        ..world(&stalling)
    };
    let changes = [
        (("target.nagle", "false"), world(&without)),
        (("initiator.delayed_ack", "quick"), quick),
    ];
    let readings = [
        recorded.record().1,
        Reading::of_packets(captured(&recorded), true),
        Reading::of_packets(begun, true),
    ];
    for reading in readings {
        let twin = Twin::of(reading.unwrap(), &|| true).unwrap();
        for ((parameter, value), changed) in &changes {
            let change = vec![Setting::new(parameter, value)];
            let told = twin.predict(&[change], &|_, _| true).unwrap();
            assert!(told.fits, "{:#?}", told.compared);
            let (after, ..) = changed.cell();
            let predicted = told.predictions[0].bytes_per_s.median;
            let off = predicted / after - 1.0;
            assert!(
                off.abs() <= MOST_OFF,
                "{parameter}: {:+.1} % off",
                off * 100.0
            );
        }
    }
}
