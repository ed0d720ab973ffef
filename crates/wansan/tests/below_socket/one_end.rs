//! The split by the records of one end alone: of each I/O it is what the records of both ends tell of that
//! end, and what lies beyond it is their rest.

use std::collections::HashMap;
use std::process::Command;

use libtest_mimic::Failed;
use tempfile::TempDir;
use wansan_insight::below::{Leg, Recorded, Split, Splits, splits};
use wansan_insight::join::join;
use wansan_insight::{Cell, Window};
use wansan_trace::event::Crossing;
use wansan_trace::file::{Kind, Row, Table};
use wansan_trace::{Direction, Instant, Layer, NameId};

use crate::loopback::{keep_stamping, load, target};
use crate::{WANSAN, adds_up, read};

/// By so much two ways to tell a time may differ for each message, beside what they say themselves.
const APART_NS: u64 = 250_000;

/// Both ends of a cell, each by itself: the host whose records they are, and the layers.
const ENDS: [(Recorded, &str, &[Layer]); 2] = [
    (
        Recorded::Initiator,
        "client",
        &[
            Layer::App,
            Layer::Scsi,
            Layer::Queue,
            Layer::Window,
            Layer::Socket,
        ],
    ),
    (
        Recorded::Target,
        "storage",
        &[Layer::Target, Layer::Device, Layer::Store],
    ),
];

/// The rows of a table that a host has recorded.
fn of_host<T: Kind + Copy>(table: Option<&Table<T>>, host: &str) -> Option<Table<T>> {
    let table = table?;
    let rows = table.rows.iter();
    let is_of_it = |row: &&Row<T>| table.names.get(row.host).contains(host);
    Some(Table {
        rows: rows.filter(is_of_it).copied().collect(),
        names: table.names.clone(),
        dropped: table.dropped.clone(),
    })
}

/// A cell as one end alone has recorded it.
fn alone(cell: &Cell, host: &str, layers: &[Layer]) -> Cell {
    let mut crossings = Vec::new();
    for task in &cell.joined.tasks {
        for &layer in layers {
            let times = [
                (Direction::Enter, task.enter_ns(layer)),
                (Direction::Leave, task.leave_ns(layer)),
            ];
            for (direction, ns) in times {
                let Some(ns) = ns else { continue };
                let record = Crossing {
                    time: Instant::from_ns(ns),
                    session: task.session,
                    task: task.tag,
                    connection: task.connection,
                    layer,
                    direction,
                };
                let host = NameId::NONE;
                crossings.push(Row { host, record });
            }
        }
    }
    crossings.sort_by_key(|row| row.record.time);
    Cell {
        joined: join(&crossings),
        io_dropped: cell.io_dropped.clone(),
        pdu: of_host(cell.pdu.as_deref(), host).map(Table::into),
        connection: None,
        tcp: of_host(cell.tcp.as_ref(), host),
        stamp: of_host(cell.stamp.as_ref(), host),
        packet: None,
        carriers: Vec::new(),
        path: None,
        thread: None,
        request: None,
    }
}

/// All of a run.
const ALWAYS: Window = Window {
    from_ns: 0,
    to_ns: u64::MAX,
};

/// Compares what each end alone tells of I/Os with what both tell; returns what the target tells of them.
pub(crate) fn tells_the_same(cell: &Cell, whole: &Splits) -> Result<Splits, Failed> {
    let mut of_target = Splits::default();
    for (end, host, layers) in ENDS {
        // An I/O may be done for one end within the window, and not for the other.
        let told = splits(&alone(cell, host, layers), ALWAYS).ok_or("no stamps of one end")?;
        if told.recorded != end {
            return Err(format!("{end:?}: by the records of {:?}", told.recorded).into());
        }
        let of_end: HashMap<_, Split> = told
            .told
            .iter()
            .map(|split| ((split.session, split.task), *split))
            .collect();
        of_target = Splits {
            recorded: end,
            ..Splits::default()
        };
        for both in &whole.told {
            let split = of_end.get(&(both.session, both.task));
            let untold = &told.untold;
            let split = split.ok_or_else(|| format!("{end:?}: {both:?}, left out {untold:?}"))?;
            adds_up(split)?;
            let is_same = match end {
                Recorded::Initiator => is_same_at_initiator(split, both),
                Recorded::Target | Recorded::Both => is_same_at_target(split, both),
            };
            is_same.map_err(|part| format!("{end:?}, {part}: {split:?} is not of {both:?}"))?;
            of_target.told.push(*split);
        }
    }
    Ok(of_target)
}

/// What a sender knows of a leg: room, the send buffer and the device.
fn sending_ns(leg: &Leg) -> u64 {
    leg.total_ns() - leg.path_ns - leg.receive_buffer_ns
}

/// Compares parts of an I/O by one end with those by both.
fn compare(split: &Split, both: &Split, parts: &[(&'static str, u64, u64)]) -> Result<(), String> {
    let messages = 2 * u64::from(both.round_trips);
    let apart_ns = split.uncertain_ns + both.uncertain_ns + messages * APART_NS;
    for (name, one_ns, both_ns) in parts {
        if one_ns.abs_diff(*both_ns) > apart_ns {
            return Err(format!("{name}: {one_ns} ns, {both_ns} ns"));
        }
    }
    match split.round_trips == both.round_trips {
        true => Ok(()),
        false => Err("round trips".to_owned()),
    }
}

fn is_same_at_initiator(split: &Split, both: &Split) -> Result<(), String> {
    let (out, back) = (&both.to_target, &both.to_initiator);
    let beyond_ns =
        out.path_ns + out.receive_buffer_ns + both.target_ns + sending_ns(back) + back.path_ns;
    let parts = [
        ("latency", split.latency_ns, both.latency_ns),
        ("initiator", split.initiator_ns, both.initiator_ns),
        ("sending", sending_ns(&split.to_target), sending_ns(out)),
        ("beyond", split.beyond_ns, beyond_ns),
        (
            "receive buffer",
            split.to_initiator.receive_buffer_ns,
            back.receive_buffer_ns,
        ),
    ];
    compare(split, both, &parts)
}

fn is_same_at_target(split: &Split, both: &Split) -> Result<(), String> {
    let parts = [
        ("target", split.target_ns, both.target_ns),
        (
            "sending",
            sending_ns(&split.to_initiator),
            sending_ns(&both.to_initiator),
        ),
        (
            "receive buffer",
            split.to_target.receive_buffer_ns,
            both.to_target.receive_buffer_ns,
        ),
    ];
    compare(split, both, &parts)
}

/// What `wansan explain` says of a folder with the records of one end.
pub(crate) fn explained() -> Result<(), Failed> {
    let _kept = keep_stamping();
    let folders = [TempDir::new()?, TempDir::new()?];
    let disk = target(folders[1].path())?;
    load(&disk.url(0), folders[0].path(), &["--count", "2000"])?;
    assert!(disk.stop().unwrap().success());
    for (folder, [own, rest, lacks]) in folders.iter().zip([
        [
            "in the initiator",
            "on the path, both ways, and with the target",
            "the target has no records here: `wansan target --record",
        ],
        [
            "in the target",
            "from the arrival of an I/O's command to the departure of its answer",
            "the initiator has no records here: `wansan bench --record",
        ],
    ]) {
        let (cell, _) = read(folder.path())?;
        let told = splits(&cell, cell.joined.records).ok_or("no stamps were recorded")?;
        assert!(told.told.len() >= 1_900, "{:?}", told.untold);
        told.told.iter().try_for_each(adds_up)?;
        let output = Command::new(WANSAN)
            .arg("explain")
            .arg(folder.path())
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        for part in [own, rest, lacks] {
            assert!(said.contains(part), "no '{part}' in: {said}");
        }
    }
    Ok(())
}
