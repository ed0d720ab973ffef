//! A thread's survey of all its flows, some per turn: querying the kernel takes microseconds per flow, and tens of
//! milliseconds for thousands, during which no flow would make progress.

use std::cmp::Reverse;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use wansan_trace::clock;

use crate::backlog::{Backlog, BacklogSum};
use crate::flow::Flow;
use crate::snapshot::{FlowSnapshot, Part, of_flow};
use crate::table::{Key, Table};

/// Flows that a thread reports one by one: those with the highest rate, or the largest backlog. The others
/// count in the sums only.
const MOST_FLOWS: usize = 256;
/// Duration of a turn, exceeded by one flow at most.
const TURN: Duration = Duration::from_micros(500);

/// A survey in progress.
#[derive(Debug)]
pub(crate) struct Survey {
    asker: SyncSender<Part>,
    /// Index of the next entry of the table.
    next: usize,
    /// By direction.
    backlogs: [BacklogSum; 2],
    /// Keys of the flows to report, each with its weight.
    heaviest: Vec<(u64, Key)>,
    reported: Vec<FlowSnapshot>,
}

impl Survey {
    /// A survey that sends its result to `asker`.
    pub(crate) fn new(asker: SyncSender<Part>) -> Survey {
        Survey {
            asker,
            next: 0,
            backlogs: Default::default(),
            heaviest: Vec::new(),
            reported: Vec::new(),
        }
    }

    /// Does one turn. Returns the survey if it needs another; the last turn sends the result.
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
        // The receiver may be gone.
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
        if self.heaviest.len() >= 2 * MOST_FLOWS {
            self.keep_heaviest();
        }
    }

    fn keep_heaviest(&mut self) {
        if self.heaviest.len() > MOST_FLOWS {
            let heaviest = &mut self.heaviest;
            heaviest.select_nth_unstable_by_key(MOST_FLOWS, |(weight, _)| Reverse(*weight));
            heaviest.truncate(MOST_FLOWS);
        }
    }
}
