//! A thread's look at all of its flows, at some in each turn: the kernel takes microseconds to tell of a flow,
//! and tens of milliseconds for thousands of them, in which nobody's bytes would move.

use std::cmp::Reverse;
use std::sync::mpsc::SyncSender;

use wansan_trace::clock;

use crate::backlog::{Backlog, BacklogSum};
use crate::flow::Flow;
use crate::meter::Meter;
use crate::snapshot::{FlowSnapshot, Part, told};
use crate::table::{Key, Table};

/// Flows that a thread tells of: those that move most now, or have most waiting. The others are in the sums
/// only.
const FLOWS_TOLD: usize = 256;
/// Flows whose backlogs are looked at in one turn.
const WEIGHED_AT_ONCE: usize = 64;
/// Flows that are told of in one turn, which takes longer.
const TOLD_AT_ONCE: usize = 16;

/// A look that is under way.
#[derive(Debug)]
pub(crate) struct Survey {
    asker: SyncSender<Part>,
    /// The first place of the table that was not looked at.
    next: usize,
    /// By their directions.
    backlogs: [BacklogSum; 2],
    /// Those of the flows to tell of, with what makes them so.
    heaviest: Vec<(u64, Key)>,
    told: Vec<FlowSnapshot>,
}

impl Survey {
    /// For whoever waits at the other end of that channel.
    pub(crate) fn new(asker: SyncSender<Part>) -> Survey {
        Survey {
            asker,
            next: 0,
            backlogs: Default::default(),
            heaviest: Vec::new(),
            told: Vec::new(),
        }
    }

    /// Takes one turn. The survey, where another turn is needed; the last one gives the asker its part.
    pub(crate) fn turn(mut self, flows: &Table<Flow>, meter: &Meter) -> Option<Survey> {
        if self.next < flows.places() {
            self.weigh(flows);
        } else if !self.heaviest.is_empty() {
            let rest = self.heaviest.len().saturating_sub(TOLD_AT_ONCE);
            let keys = self.heaviest.drain(rest..);
            // Some have ended since.
            let flows = keys.filter_map(|(_, key)| flows.get(key));
            self.told.extend(flows.map(told));
        }
        if self.next < flows.places() || !self.heaviest.is_empty() {
            return Some(self);
        }
        // Whoever asked may have gone.
        let _ = self.asker.send(Part {
            meter: *meter,
            backlogs: self.backlogs,
            flows: self.told,
        });
        None
    }

    fn weigh(&mut self, flows: &Table<Flow>) {
        let now = clock::now();
        let end = self.next + WEIGHED_AT_ONCE;
        for (key, flow) in flows.within(self.next..end) {
            let mut weight = flow.recent.bytes(now);
            for (place, sum) in self.backlogs.iter_mut().enumerate() {
                let [from, to] = [place, 1 - place].map(|side| &flow.sides[side]);
                let backlog = Backlog::measure(from, &flow.directions[place], to);
                sum.add(&backlog);
                weight += backlog.bytes();
            }
            self.heaviest.push((weight, key));
        }
        self.next = end;
        if self.heaviest.len() > FLOWS_TOLD {
            let heaviest = &mut self.heaviest;
            heaviest.select_nth_unstable_by_key(FLOWS_TOLD, |(weight, _)| Reverse(*weight));
            heaviest.truncate(FLOWS_TOLD);
        }
    }
}
