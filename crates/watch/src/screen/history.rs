//! The last seconds of each connection, in time steps.

use std::collections::{HashMap, VecDeque};

use wansan_trace::event::{Tcp, TcpEvent};

use crate::board::Board;

/// Most steps kept.
const MOST_STEPS: usize = 100;

/// Most events kept.
const MOST_EVENTS: usize = 8;

/// The history of one connection.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    /// The congestion window at the end of each step, in segments.
    pub(super) cwnd_packets: VecDeque<u64>,
    /// The smoothed round-trip time at the end of each step, in µs.
    pub(super) srtt_us: VecDeque<u64>,
    /// A mark for each step's event; a blank for none.
    pub(super) marks: VecDeque<char>,
    /// The last events, oldest first.
    pub(super) events: VecDeque<Tcp>,
    /// The event of the current step.
    mark: Option<TcpEvent>,
}

/// The histories of all connections, by cookie.
#[derive(Debug, Clone, Default)]
pub(super) struct Histories {
    pub(super) of: HashMap<u64, History>,
}

/// The mark of an event; `None` for events that do not cut the window.
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

/// Appends a value and drops the oldest above the limit.
fn keep<T>(kept: &mut VecDeque<T>, value: T, most: usize) {
    if kept.len() == most {
        kept.pop_front();
    }
    kept.push_back(value);
}

impl Histories {
    /// Records an event.
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

    /// Ends a step.
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
