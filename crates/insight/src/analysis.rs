//! A cell's records looked at once: what its numbers and its charts are both made of.

use std::collections::BTreeMap;

use wansan_trace::SessionId;

use crate::cell::Cell;
use crate::ledger::{Ledger, WaitUse};
use crate::stall::{self, Stall};
use crate::traffic::Traffic;
use crate::window::Window;

/// A cell with the stalls and the waits of its I/Os, over a window.
#[derive(Debug)]
pub struct Analysis<'a> {
    pub(crate) cell: &'a Cell,
    pub(crate) window: Window,
    pub(crate) traffic: Traffic,
    /// The stalls that ended in the window, by the time at which they began.
    pub(crate) stalls: Vec<Stall>,
    pub(crate) ledger: Ledger<'a>,
}

impl<'a> Analysis<'a> {
    /// Of a cell over `window`, or over the time of full load when none is given (see
    /// [`Joined::busy_window`](crate::join::Joined::busy_window)).
    #[must_use]
    pub fn of(cell: &'a Cell, window: Option<Window>) -> Analysis<'a> {
        let window = window.unwrap_or_else(|| cell.joined.busy_window());
        let traffic = Traffic::of(cell);
        let conversations = stall::view::conversations(cell, &traffic);
        let stalls = stall::stalls(cell, &conversations, window);
        let ledger = Ledger::of(cell, window, &stalls, &conversations);
        Analysis {
            cell,
            window,
            traffic,
            stalls,
            ledger,
        }
    }

    /// What the I/Os of each session waited for.
    #[must_use]
    pub fn waits_by_session(&self) -> BTreeMap<SessionId, WaitUse> {
        WaitUse::by_session(&self.ledger)
    }
}
