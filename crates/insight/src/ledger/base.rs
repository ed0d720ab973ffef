//! Where an I/O was, from layer crossings.

use foldhash::{HashMap, HashSet};
use std::collections::BTreeMap;

use wansan_trace::event::{Pdu, PduDirection};
use wansan_trace::{Layer, SessionId};

use super::timeline::Timeline;
use super::{Source, Wait};
use crate::cause::Cause;
use crate::cell::Cell;
use crate::command_window::{CommandWindowUse, command_window_uses};
use crate::join::Task;
use crate::opcode::{DATA_OUT, SCSI_COMMAND};
use crate::population::Population;
use crate::served::Served;
use crate::traffic::FlowDirection;
use crate::waiting::Parts;
use crate::window::Window;

/// A store that holds fewer I/Os than this on average is idle: what waits above it waits for something else, such as
/// room to send the answer.
const IDLE_STORE_IN_FLIGHT: f64 = 0.8;
/// A store whose mean service time is this many times the minimum has an internal queue.
const CROWDED_SERVICE_RATIO: f64 = 2.0;

/// What the crossings of all I/Os together show.
#[derive(Debug, Default)]
pub(super) struct Base {
    /// How sessions used their command windows.
    pub(super) windows: BTreeMap<SessionId, CommandWindowUse>,
    /// Sessions that write.
    writes: HashSet<SessionId>,
    /// Whether only a sample of the I/Os was recorded.
    is_sample: bool,
    /// Whether the store is idle most of the time.
    is_store_idle: bool,
    /// The minimum time that the store took for an I/O, of sessions that keep more than one in it on average and whose
    /// mean is at least `CROWDED_SERVICE_RATIO` times that minimum.
    crowded_least_ns: HashMap<SessionId, u64>,
    served: Served,
}

impl Base {
    pub(super) fn of(cell: &Cell, window: Window) -> Base {
        let mut base = Base {
            is_sample: !cell.joined.is_complete(),
            ..Base::default()
        };
        let mut see = |pdu: &Pdu| {
            let is_write = pdu.opcode == DATA_OUT
                || pdu.opcode == SCSI_COMMAND && pdu.data_bytes > 0
                || pdu.opcode == crate::opcode::R2T && pdu.direction == PduDirection::Sent;
            if is_write {
                base.writes.insert(pdu.session);
            }
        };
        { cell.pdu.iter() }.for_each(|pdus| pdus.for_each(|_, pdu| see(pdu)));
        base.windows = command_window_uses(cell, window, &base.writes);
        base.is_store_idle = true;
        // Captures do not show the store; it is taken as idle.
        if cell.joined.layers.contains(&Layer::Store) {
            base.served = Served::of(&cell.joined, cell.pdu.as_deref());
            base.see_store(cell, window);
        }
        base
    }

    fn see_store(&mut self, cell: &Cell, window: Window) {
        let joined = &cell.joined;
        let lengths = joined.tasks.iter().map(|task| self.served.length_ns(task));
        let lengths: Vec<Option<u64>> = lengths.collect();
        let tasks = || joined.tasks.iter().zip(&lengths);
        let spans = tasks().filter_map(|(task, served_ns)| {
            let (enter_ns, leave_ns) = task.span_ns(Layer::Store, joined.records)?;
            // An unfinished I/O is in the store until the end.
            let end_ns = served_ns.map_or(leave_ns, |ns| enter_ns.saturating_add(ns));
            Some((enter_ns, end_ns))
        });
        let in_flight = Population::of(spans).mean(window) * joined.weights.mean();
        self.is_store_idle = in_flight < IDLE_STORE_IN_FLIGHT;
        let mut served: HashMap<SessionId, (u64, u64, u64)> = HashMap::default();
        for (task, took_ns) in tasks() {
            if let Some(took_ns) = *took_ns {
                let (least_ns, sum_ns, count) =
                    served.entry(task.session).or_insert((u64::MAX, 0, 0));
                *least_ns = took_ns.min(*least_ns);
                *sum_ns = sum_ns.saturating_add(took_ns);
                *count += 1;
            }
        }
        for (session, (least_ns, sum_ns, count)) in served {
            let mean_ns = sum_ns as f64 / count as f64;
            let has_several =
                sum_ns as f64 * joined.weights.mean() > joined.records.length_ns() as f64;
            if has_several && mean_ns >= CROWDED_SERVICE_RATIO * least_ns as f64 {
                self.crowded_least_ns.insert(session, least_ns);
            }
        }
    }

    /// Puts an I/O's time into its timeline, cut at the crossings.
    pub(super) fn put(&self, task: &Task, parts: &Parts, timeline: &mut Timeline) -> Option<()> {
        let mut at_ns = task.enter_ns(parts.top)?;
        let mut add =
            |length_ns: u64, layer: Layer, (cause, way): (Cause, Option<FlowDirection>)| {
                timeline.push(Wait {
                    from_ns: at_ns,
                    to_ns: at_ns + length_ns,
                    layer,
                    way,
                    cause,
                    source: Source::Crossings,
                    uncertain_ns: 0,
                });
                at_ns += length_ns;
            };
        let passed = || {
            Layer::ALL
                .into_iter()
                .filter(|layer| parts.passed[layer.depth()])
        };
        let mut above = parts.top;
        for layer in passed().skip(1) {
            add(
                parts.way_in_ns[layer.depth()],
                above,
                self.way_in(task, layer),
            );
            above = layer;
        }
        let (last, last_ns) = parts.last;
        match last {
            Layer::Store => {
                let served_ns = self.served.length_ns(task).unwrap_or(last_ns);
                let served_ns = served_ns.min(last_ns);
                let least_ns = self.crowded_least_ns.get(&task.session);
                let queued_ns = least_ns.map_or(0, |least_ns| served_ns.saturating_sub(*least_ns));
                add(queued_ns, last, (Cause::StoreQueue, None));
                add(served_ns - queued_ns, last, (Cause::StoreService, None));
                // The data is ready, but TCP does not accept it.
                let to_initiator = (Cause::Unknown, Some(FlowDirection::ToInitiator));
                add(last_ns - served_ns, last, to_initiator);
            }
            _ => add(last_ns, last, self.inside(task, last)),
        }
        let mut below = last;
        for layer in passed().rev().filter(|layer| *layer < last) {
            add(parts.way_out_ns[below.depth()], layer, way_out(below));
            below = layer;
        }
        Some(())
    }

    /// Whether the session's commands wait for the command window.
    fn is_closed(&self, session: SessionId) -> bool {
        self.windows
            .get(&session)
            .is_some_and(|used| used.is_waited_for)
    }

    /// The cause of the time from the layer above to this one, and the direction of the bytes that waited.
    fn way_in(&self, task: &Task, layer: Layer) -> (Cause, Option<FlowDirection>) {
        let to_target = (Cause::Unknown, Some(FlowDirection::ToTarget));
        match layer {
            Layer::Cache | Layer::App | Layer::Scsi | Layer::Queue => (Cause::Initiator, None),
            Layer::Window if self.is_closed(task.session) => (Cause::CommandWindow, None),
            // In a sample, it may be the window for which it waits.
            Layer::Window if self.is_sample => (Cause::Unknown, None),
            // A command gets its CmdSN when TCP has room for it.
            Layer::Window => to_target,
            Layer::Socket
            | Layer::TcpInitiator
            | Layer::Wire
            | Layer::TcpTarget
            | Layer::Target => to_target,
            // The device server gets a write only together with its data.
            Layer::Device if self.writes.contains(&task.session) => to_target,
            Layer::Device => (Cause::Target, None),
            // The target does not access the store while it has no room for the answer.
            Layer::Store if self.is_store_idle => {
                (Cause::Unknown, Some(FlowDirection::ToInitiator))
            }
            Layer::Store => (Cause::StoreQueue, None),
        }
    }

    /// The cause of the I/O's time in the last recorded layer.
    fn inside(&self, task: &Task, layer: Layer) -> (Cause, Option<FlowDirection>) {
        match layer {
            Layer::Cache | Layer::App | Layer::Scsi | Layer::Queue => (Cause::Initiator, None),
            Layer::Target | Layer::Device => (Cause::Target, None),
            _ if self.writes.contains(&task.session) => {
                (Cause::Unknown, Some(FlowDirection::ToTarget))
            }
            _ => (Cause::Unknown, Some(FlowDirection::ToInitiator)),
        }
    }
}

/// The cause of the time from leaving this layer to leaving the one above.
fn way_out(layer: Layer) -> (Cause, Option<FlowDirection>) {
    match layer {
        Layer::Cache | Layer::App | Layer::Scsi | Layer::Queue | Layer::Window => {
            (Cause::Initiator, None)
        }
        Layer::Device => (Cause::Target, None),
        // Data that the store has returned but TCP does not accept keeps the device server waiting.
        Layer::Store
        | Layer::Target
        | Layer::TcpTarget
        | Layer::Wire
        | Layer::TcpInitiator
        | Layer::Socket => (Cause::Unknown, Some(FlowDirection::ToInitiator)),
    }
}
