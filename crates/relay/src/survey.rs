//! A thread's look at all of its flows, at some in each turn: the kernel takes microseconds to tell of a flow,
//! and tens of milliseconds for thousands of them, in which nobody's bytes would move.

use std::cmp::Reverse;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use wansan_trace::clock;

use crate::backlog::{Backlog, BacklogSum};
use crate::flow::Flow;
use crate::snapshot::{FlowSnapshot, Part, of_flow};
use crate::table::{Key, Table};

/// Flows that a thread tells of: those that move most now, or have most waiting. The others are in the sums
/// only.
const FLOWS_TOLD: usize = 256;
/// What a turn takes, and one flow more.
const TURN: Duration = Duration::from_micros(500);

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
    reported: Vec<FlowSnapshot>,
}

impl Survey {
    /// For whoever waits at the other end of that channel.
    pub(crate) fn new(asker: SyncSender<Part>) -> Survey {
        Survey {
            asker,
            next: 0,
            backlogs: Default::default(),
            heaviest: Vec::new(),
            reported: Vec::new(),
        }
    }

    /// Takes one turn. The survey, where another turn is needed; the last one gives the asker its part.
    pub(crate) fn turn(mut self, flows: &Table<Flow>) -> Option<Survey> {
        let end = clock::now() + TURN;
        while let Some((key, flow)) = flows.next(self.next) {
            self.next = key.place() + 1;
            self.weigh(key, flow);
            if clock::now() >= end {
                return Some(self);
            }
        }
        self.keep_heaviest();
        while let Some((_, key)) = self.heaviest.pop() {
            // Some have ended since.
            self.reported.extend(flows.get(key).map(of_flow));
            if clock::now() >= end {
                return Some(self);
            }
        }
        // Whoever asked may have gone.
        let _ = self.asker.send(Part {
            backlogs: self.backlogs,
            flows: self.reported,
        });
        None
    }

    fn weigh(&mut self, key: Key, flow: &Flow) {
        let mut weight = flow.recent.bytes(clock::now());
        for (place, sum) in self.backlogs.iter_mut().enumerate() {
            let [from, to] = [place, 1 - place].map(|side| &flow.sides[side]);
            let backlog = Backlog::measure(from, &flow.directions[place], to);
            sum.add(&backlog);
            weight += backlog.bytes();
        }
        self.heaviest.push((weight, key));
        if self.heaviest.len() >= 2 * FLOWS_TOLD {
            self.keep_heaviest();
        }
    }

    fn keep_heaviest(&mut self) {
        if self.heaviest.len() > FLOWS_TOLD {
            let heaviest = &mut self.heaviest;
            heaviest.select_nth_unstable_by_key(FLOWS_TOLD, |(weight, _)| Reverse(*weight));
            heaviest.truncate(FLOWS_TOLD);
        }
    }
}
