//! Measures the paths between real hosts before any other traffic.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use wansan_schema::{CellFacts, MeasuredPath, StreamReport};
use wansan_settings::quantity::{Size, SomeTime, Span};
use wansan_settings::usual;
use wansan_stream::{LoadSettings, ReceiveSettings, SendSettings};

use super::CellError;
use super::program::{self, Event, Program};
use super::routers::{self, Routers};
use super::site::Place;
use crate::hosts::{Attended, Fleet};
use crate::patience;
use crate::plan::{Cell, STREAM_PORT, Scenario};
use crate::processors::Processors;

/// Duration of the measurement of each direction.
const TIME: Duration = Duration::from_secs(2);
/// Interval between marks: short enough to get some back even at a megabit per second.
const MARK_EVERY: Size = Size(64 << 10);
/// Time limit after the measurement.
const LIMIT: Duration = Duration::from_secs(60);
/// Payload of a full segment at an MTU of 1,500 bytes, with timestamps.
const SEGMENT_BYTES: f64 = 1448.0;

/// Measures every path of a cell in both directions, one after the other. Routers forward packets without emulation,
/// and every packet of their paths must pass them.
pub(super) fn measure(
    fleet: &Fleet,
    cell: &Cell,
    program: &Path,
    stop: &AtomicBool,
) -> Result<Vec<MeasuredPath>, CellError> {
    let routers = Routers::start(fleet, cell, program, true, stop)?;
    let measured = each(fleet, &cell.scenario, program, stop);
    if matches!(measured, Err(CellError::Interrupted)) {
        return measured;
    }
    let carried = routers.end(&mut CellFacts::default())?;
    // If nothing arrives, this is the reason.
    routers::have_all(fleet, cell, &carried.unwrap_or_default().paths)?;
    measured
}

fn each(
    fleet: &Fleet,
    scenario: &Scenario,
    program: &Path,
    stop: &AtomicBool,
) -> Result<Vec<MeasuredPath>, CellError> {
    let mut measured = Vec::new();
    for link in &scenario.links {
        let host = |node: usize| {
            let host = fleet.host(&scenario.topology.nodes[node].name);
            host.expect("all nodes are hosts")
        };
        // Real hosts are named individually.
        let (near, far) = (host(link.near[0]), host(link.far[0]));
        for [from, to] in [[near, far], [far, near]] {
            let report = stream(from, to, &link.name, program, stop)?;
            measured.push(result(&link.name, from, to, &report));
        }
    }
    Ok(measured)
}

/// Sends one stream from host to host, as fast as possible.
fn stream(
    from: &Attended,
    to: &Attended,
    path: &str,
    program: &Path,
    stop: &AtomicBool,
) -> Result<StreamReport, CellError> {
    let address = SocketAddr::from((to.spec().address, STREAM_PORT)).to_string();
    let mut unwatched = Processors::new(&[], 0);
    let receives = ReceiveSettings {
        listen: address.clone(),
        json: true,
        taking: usual(),
    };
    let title = |does: &str, host: &Attended| {
        let name = &host.spec().name;
        format!("[[path]] `{path}`: the program that {does} on `{name}`")
    };
    let receiver = Program::new(program, &["stream", "receive"], &receives);
    let title_of_receiver = title("receives", to);
    let mut receiver = receiver.start(&Place::Host(to), &title_of_receiver, &mut unwatched)?;
    let line = receiver.line_unless(stop, "listen", LIMIT)?;
    let line = line.ok_or(CellError::Interrupted)?;
    program::expect_event(&title_of_receiver, Event::Listening, &line)?;
    let mut load = LoadSettings {
        flows: 1,
        time: Some(SomeTime(TIME)),
        warmup: Span(Duration::ZERO),
        json: true,
        ..usual()
    };
    load.stream.every = MARK_EVERY;
    let sends = SendSettings { to: address, load };
    let title_of_sender = title("sends", from);
    let sender = Program::new(program, &["stream", "send"], &sends);
    let mut sender = sender.start(&Place::Host(from), &title_of_sender, &mut unwatched)?;
    // Its only output is the result.
    let line = sender.line_unless(stop, "measure", LIMIT)?;
    let line = line.ok_or(CellError::Interrupted)?;
    sender.succeed(LIMIT)?;
    receiver.terminate();
    receiver.succeed(patience::END)?;
    program::stream_report(&title_of_sender, &[line])
}

fn result(path: &str, from: &Attended, to: &Attended, report: &StreamReport) -> MeasuredPath {
    let latency = report.latency_ns.as_ref();
    let retransmits = report.flows.iter().map(|flow| flow.retransmits).sum();
    let bytes: u64 = report.flows.iter().map(|flow| flow.bytes).sum();
    let segments = bytes as f64 / SEGMENT_BYTES;
    MeasuredPath {
        path: path.to_owned(),
        from: from.spec().name.clone(),
        to: to.spec().name.clone(),
        rtt_min_ns: latency.map(|latency| latency.min),
        rtt_p50_ns: latency.map(|latency| latency.p50),
        bytes_per_s: report.bytes_per_s,
        retransmits,
        lost_share: (bytes > 0).then(|| retransmits as f64 / segments),
        elapsed_s: report.elapsed_s,
    }
}
