//! The numbers of one cell.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use wansan_schema::{BelowSocket, StallUse};
use wansan_trace::Layer;
use wansan_trace::event::Role;

use crate::analysis::Analysis;
use crate::below;
use crate::cell::Cell;
use crate::command_window::CommandWindowUse;
use crate::connections::{ConnectionUse, connection_uses};
use crate::join::{Joined, Task};
use crate::latency::Latency;
use crate::ledger::{RequestUse, WaitUse, request_uses, stall_use};
use crate::little::{self, LittleCheck};
use crate::load::{LoadUse, load_use};
use crate::opcode::R2T;
use crate::packet_gap::{PacketGaps, packet_gaps};
use crate::path::{PathUse, path_use};
use crate::population::Population;
use crate::processors::{ProgramUse, program_uses};
use crate::r2t::{R2tUse, r2t_use};
use crate::transport::{TransportUse, transport_use};
use crate::waiting::{Parts, Sums};
use crate::window::Window;

/// The population of one layer, and the time spent getting into and out of it.
///
/// Times are means over the I/Os completed in the window; the ways in and out and the service time, summed over all
/// layers, are the mean latency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerUse {
    /// The layer.
    pub layer: Layer,
    /// Mean in flight.
    pub in_flight_mean: f64,
    /// Maximum in flight; unknown from a sample of the I/Os.
    pub in_flight_max: Option<u64>,
    /// Mean number of I/Os that had entered the layer above but not this one.
    pub waiting_in_mean: f64,
    /// From entering the layer above to entering this one.
    pub way_in_ns: f64,
    /// From leaving this layer to leaving the layer above.
    pub way_out_ns: f64,
    /// Time in this layer of I/Os that went no deeper: its service.
    pub service_ns: f64,
    /// Little's law at this layer.
    pub little: LittleCheck,
}

/// Some I/Os: those of one session, or all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scope {
    /// I/Os completed in the window with all crossings recorded.
    pub ios: u64,
    /// I/Os completed in the window per second, including those that began before the recording; 0 if there are only
    /// such I/Os.
    pub iops: f64,
    /// Their latency at the top layer.
    pub latency: Latency,
    /// The layers that were recorded, top to bottom.
    pub layers: Vec<LayerUse>,
    /// The share of the window in which at least one I/O waited to get from the device server
    /// into the store; unknown from a sample of the I/Os.
    pub store_queue_share: Option<f64>,
}

impl Scope {
    /// The layer's numbers, if it was recorded.
    #[must_use]
    pub fn layer(&self, layer: Layer) -> Option<&LayerUse> {
        self.layers.iter().find(|held| held.layer == layer)
    }

    /// The recorded layer just above.
    #[must_use]
    pub fn above(&self, layer: Layer) -> Option<&LayerUse> {
        self.layers.iter().rev().find(|held| held.layer < layer)
    }
}

/// One session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionUse {
    /// ISID/TSIH.
    pub session: String,
    /// Its I/Os.
    pub scope: Scope,
    /// How its application submits I/Os; unknown from a sample of them.
    pub load: Option<LoadUse>,
    /// How it used its command window, if its PDUs were recorded.
    pub command_window: Option<CommandWindowUse>,
    /// Its connections, by CID, if it has several.
    pub connections: Vec<ConnectionUse>,
    /// The cost of R2Ts for its writes, if its target's PDUs show any R2T.
    pub r2t: Option<R2tUse>,
}

/// What is missing from the records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    /// I/Os that started before the recording or had not completed at its end.
    pub incomplete_ios: u64,
    /// Missing crossings of I/Os that are complete at the top.
    pub missing_crossings: u64,
    /// Duplicate crossings.
    pub repeated_crossings: u64,
    /// Sessions without an I/O in the sample, if a sample was recorded.
    pub unsampled_sessions: u64,
    /// Records that recorders lost because their memory was full, by kind and host.
    pub dropped: BTreeMap<String, BTreeMap<String, u64>>,
}

/// One cell in numbers; see [`summarise`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellSummary {
    /// The window that the numbers cover.
    pub window: Window,
    /// If a sample of the I/Os was recorded, one in this many. Rates and mean populations are of all I/Os, as estimated from
    /// the recorded ones; counts, latencies and extremes are of these.
    pub sampled_one_in: Option<f64>,
    /// All sessions together.
    pub total: Scope,
    /// Each session.
    pub sessions: Vec<SessionUse>,
    /// TCP, each end of each connection.
    pub transport: Vec<TransportUse>,
    /// The emulated paths.
    pub paths: Vec<PathUse>,
    /// The programs on hosts and routers, by the busiest thread of each, if these were sampled.
    pub programs: Vec<ProgramUse>,
    /// The gaps between data packets as they left the target, if any were recorded.
    pub packet_gaps: Option<PacketGaps>,
    /// What the I/Os waited for.
    pub waits: WaitUse,
    /// Requests of programs to attached disks, by operation, if recorded.
    pub requests: Vec<RequestUse>,
    /// The cost of stalls, if packets and PDUs were recorded.
    pub stalls: Option<StallUse>,
    /// The latency below the socket, if stamps and PDUs were recorded.
    pub below_socket: Option<BelowSocket>,
    /// What is missing from the records.
    pub losses: Losses,
}

impl CellSummary {
    /// Mean in flight by layer, all sessions together.
    #[must_use]
    pub fn in_flight(&self) -> BTreeMap<&'static str, f64> {
        let pair = |held: &LayerUse| (held.layer.name(), held.in_flight_mean);
        self.total.layers.iter().map(pair).collect()
    }
}

/// Reduces a cell to numbers over `window`, or over the time of full load if `None` (see [`Joined::busy_window`]).
#[must_use]
pub fn summarise(cell: &Cell, window: Option<Window>) -> CellSummary {
    Analysis::of(cell, window).summary()
}

impl Analysis<'_> {
    /// The cell in numbers.
    #[must_use]
    pub fn summary(&self) -> CellSummary {
        summary(self)
    }
}

fn summary(analysis: &Analysis<'_>) -> CellSummary {
    let (cell, window) = (analysis.cell, analysis.window);
    let joined = &cell.joined;
    let windows = analysis.ledger.command_windows();
    let waits = WaitUse::of(&analysis.ledger);
    let mut asked = cell
        .pdu
        .as_ref()
        .filter(|pdus| pdus.has(R2T))
        .map(|table| r2t_use(&table.rows, window))
        .unwrap_or_default();
    let mut sessions = Vec::new();
    let mut total = Sums::NONE;
    let mut all_latencies_ns = Vec::new();
    let mut there: Vec<&[Population]> = Vec::new();
    let is_complete = joined.is_complete();
    let by_session = joined.by_session();
    for (session, tasks) in &by_session {
        // A session without I/Os in the window would lower the means per session.
        let is_there = |&(from_ns, to_ns): &(u64, u64)| window.overlap_ns(from_ns, to_ns) > 0;
        if !top_spans(tasks, joined).iter().any(is_there) {
            continue;
        }
        let (sums, latencies_ns) = add_up(tasks, joined, window);
        let held = &analysis.held().by_session[session][..];
        there.push(held);
        total.merge(&sums);
        all_latencies_ns.extend_from_slice(&latencies_ns);
        sessions.push(SessionUse {
            session: session.to_string(),
            scope: scope(tasks, joined, window, held, &sums, latencies_ns),
            load: is_complete
                .then(|| load_use(&top_spans(tasks, joined), window, cell.has_begin(*session))),
            command_window: windows.get(session).copied(),
            connections: connection_uses(tasks, joined, cell.pdu.as_ref(), window),
            r2t: asked.remove(session),
        });
    }
    let everything = || {
        let tasks: Vec<&Task> = joined.tasks.iter().collect();
        let held = match there.len() == analysis.held().by_session.len() {
            true => Cow::Borrowed(&analysis.held().all[..]),
            false => (0..joined.layers.len())
                .map(|place| Population::sum(there.iter().map(|held| &held[place])))
                .collect(),
        };
        scope(&tasks, joined, window, &held, &total, all_latencies_ns)
    };
    CellSummary {
        window,
        sampled_one_in: (!joined.is_complete()).then_some(joined.weights.mean()),
        total: match &sessions[..] {
            [only] if by_session.len() == 1 => only.scope.clone(),
            _ => everything(),
        },
        sessions,
        transport: cell
            .tcp
            .as_ref()
            .map(|table| transport_use(table, window))
            .unwrap_or_default(),
        paths: cell
            .path
            .as_ref()
            .map(|table| path_use(table, window))
            .unwrap_or_default(),
        programs: cell
            .thread
            .as_ref()
            .map(|table| program_uses(table, window))
            .unwrap_or_default(),
        packet_gaps: packet_gaps(cell, &analysis.traffic, window),
        requests: request_uses(&analysis.ledger),
        stalls: stall_use(cell, window, &analysis.stalls, &waits),
        waits,
        below_socket: below::below_socket(cell, window),
        losses: Losses {
            incomplete_ios: joined.incomplete,
            missing_crossings: joined.missing_crossings,
            repeated_crossings: joined.repeated_crossings,
            unsampled_sessions: unsampled_sessions(cell),
            dropped: cell.dropped(),
        },
    }
}

/// Sessions that connections were recorded of, but no I/O of the sample.
fn unsampled_sessions(cell: &Cell) -> u64 {
    if cell.joined.is_complete() {
        return 0;
    }
    let connections = cell.connection.iter().flat_map(|table| &table.rows);
    let sessions: BTreeSet<_> = connections
        .map(|row| row.record)
        .filter(|record| matches!(record.role, Role::Initiator | Role::Target))
        .map(|record| record.session)
        .collect();
    let is_missing = |session: &&_| cell.joined.sessions.binary_search(session).is_err();
    sessions.iter().filter(is_missing).count() as u64
}

fn top_spans(tasks: &[&Task], joined: &Joined) -> Vec<(u64, u64)> {
    let Some(top) = joined.top() else {
        return Vec::new();
    };
    let span = |task: &&Task| task.span_ns(top, joined.records);
    tasks.iter().filter_map(span).collect()
}

/// Sums over the I/Os of one session that were completed in the window, and their latencies.
fn add_up(tasks: &[&Task], joined: &Joined, window: Window) -> (Sums, Vec<u64>) {
    let mut sums = Sums::NONE;
    let mut latencies_ns = Vec::new();
    for task in tasks {
        let done_ns = joined.top().and_then(|top| task.leave_ns(top));
        let Some(parts) = Parts::of(task, &joined.layers) else {
            continue;
        };
        if done_ns.is_some_and(|done_ns| window.contains(done_ns)) {
            sums.add(&parts);
            latencies_ns.push(parts.latency_ns);
        }
    }
    (sums, latencies_ns)
}

fn scope(
    tasks: &[&Task],
    joined: &Joined,
    window: Window,
    held: &[Population],
    sums: &Sums,
    latencies_ns: Vec<u64>,
) -> Scope {
    let is_complete = joined.is_complete();
    let mean = |sum: u128| sum as f64 / sums.ios.max(1) as f64;
    let weight = |task: &Task| joined.weights.of_session(task.session);
    let done = tasks.iter().filter(|task| {
        let done_ns = joined.top().and_then(|top| task.leave_ns(top));
        done_ns.is_some_and(|ns| window.contains(ns))
    });
    let layers = joined
        .layers
        .iter()
        .zip(held)
        .map(|(&layer, held)| {
            let depth = layer.depth();
            let waited_ns = |tasks: &[&Task]| -> f64 {
                let spans = joined.way_in_spans(tasks, layer);
                let inside = spans.map(|(from_ns, to_ns)| window.overlap_ns(from_ns, to_ns));
                inside.map(u128::from).sum::<u128>() as f64
            };
            let all_waited_ns = match is_complete {
                true => waited_ns(tasks),
                false => { tasks.iter() }.fold(0.0, |all_ns, task| {
                    all_ns + weight(task) * waited_ns(std::slice::from_ref(task))
                }),
            };
            let little = little::check(tasks.iter().copied(), layer, joined, window);
            LayerUse {
                layer,
                in_flight_mean: little.in_flight_mean,
                in_flight_max: is_complete.then(|| held.max(window)),
                waiting_in_mean: all_waited_ns / window.length_ns().max(1) as f64,
                way_in_ns: mean(sums.way_in_ns[depth]),
                way_out_ns: mean(sums.way_out_ns[depth]),
                service_ns: mean(sums.last_ns[depth]),
                little,
            }
        })
        .collect();
    Scope {
        ios: sums.ios,
        iops: match sums.ios {
            0 => 0.0,
            _ => done.fold(0.0, |all, task| all + weight(task)) / window.seconds().max(1e-9),
        },
        latency: Latency::of(latencies_ns),
        layers,
        store_queue_share: is_complete.then(|| {
            let waiting = Population::of(joined.way_in_spans(tasks, Layer::Store));
            waiting.share(window, |count| count > 0)
        }),
    }
}
