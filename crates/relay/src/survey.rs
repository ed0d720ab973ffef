//! A thread's look at all of its flows, at some in each turn: asking the kernel
//! takes microseconds for a flow, and tens of milliseconds for thousands, in which no flow would make progress.

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
    /// Keys of the flows to report, each with its weight.
    heaviest: Vec<(u64, Key)>,
    reported: Vec<FlowSnapshot>,
}

impl Survey {
    /// A survey whose result goes to `asker`.
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
