//! The last seconds of each connection, in steps.

use std::collections::{HashMap, VecDeque};

use wansan_trace::event::{Tcp, TcpEvent};

use crate::board::Board;

/// Steps that are kept.
const MOST_STEPS: usize = 100;

/// Events that are kept.
const MOST_EVENTS: usize = 8;

/// One connection's.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    /// The window at the end of each step, in segments.
    pub(super) cwnd_packets: VecDeque<u64>,
    /// The smoothed round-trip time there, in µs.
    pub(super) srtt_us: VecDeque<u64>,
    /// A sign of what happened in each step; a blank for nothing.
    pub(super) marks: VecDeque<char>,
    /// The last events, oldest first.
    pub(super) events: VecDeque<Tcp>,
    /// What happened in the step that is not over.
    mark: Option<TcpEvent>,
}

/// Those of all connections, by cookie.
#[derive(Debug, Clone, Default)]
pub(super) struct Histories {
    pub(super) of: HashMap<u64, History>,
}

/// The sign of an event; those without one are no cuts.
pub(super) fn sign(event: TcpEvent) -> Option<char> {
    match event {
        TcpEvent::Cwr => Some('c'),
        TcpEvent::CwrByEce => Some('e'),
        TcpEvent::CwrByDevice => Some('d'),
        TcpEvent::Recovery => Some('R'),
        TcpEvent::Loss => Some('L'),
        TcpEvent::Undo => Some('u'),
        TcpEvent::Sample
        | TcpEvent::Retransmit
        | TcpEvent::Change
        | TcpEvent::Begin
        | TcpEvent::End => None,
    }
}

/// Appends to what is kept, in place of the oldest when there are too many.
fn keep<T>(kept: &mut VecDeque<T>, value: T, most: usize) {
    if kept.len() == most {
        kept.pop_front();
    }
    kept.push_back(value);
}

impl Histories {
    /// Something happened.
    pub(super) fn event(&mut self, record: &Tcp) {
        let cookie = record.session.0;
        if record.event == TcpEvent::End {
            self.of.remove(&cookie);
        } else if sign(record.event).is_some() {
            let history = self.of.entry(cookie).or_default();
            history.mark = Some(record.event);
            keep(&mut history.events, *record, MOST_EVENTS);
        }
    }

    /// A step is over.
    pub(super) fn step(&mut self, board: &Board) {
        for (cookie, entry) in &board.entries {
            let history = self.of.entry(*cookie).or_default();
            let cwnd_packets = u64::from(entry.last.cwnd_packets);
            keep(&mut history.cwnd_packets, cwnd_packets, MOST_STEPS);
            keep(&mut history.srtt_us, entry.last.srtt_ns / 1000, MOST_STEPS);
            let mark = history.mark.take().and_then(sign).unwrap_or(' ');
            keep(&mut history.marks, mark, MOST_STEPS);
        }
    }
}
