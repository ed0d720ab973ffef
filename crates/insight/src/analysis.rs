//! The analysis of a cell's records that its summary and its charts share.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use wansan_trace::{Layer, SessionId};

use crate::cell::Cell;
use crate::join::{Joined, Task};
use crate::ledger::{Ledger, WaitUse};
use crate::population::Population;
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
    held: OnceCell<Held>,
}

/// The population of each recorded layer, top to bottom.
#[derive(Debug)]
pub(crate) struct Held {
    /// Per session.
    pub(crate) by_session: BTreeMap<SessionId, Vec<Population>>,
    /// Of all sessions.
    pub(crate) all: Vec<Population>,
}

impl Held {
    fn of(joined: &Joined) -> Held {
        let by_session: BTreeMap<SessionId, Vec<Population>> = { joined.by_session().into_iter() }
            .map(|(session, tasks)| (session, populations(&tasks, joined)))
            .collect();
        let all = (0..joined.layers.len())
            .map(|place| Population::sum(by_session.values().map(|held| &held[place])))
            .collect();
        Held { by_session, all }
    }
}

/// The population of `tasks` in each recorded layer.
fn populations(tasks: &[&Task], joined: &Joined) -> Vec<Population> {
    let held = |layer: &Layer| {
        let span = |task: &&Task| task.span_ns(*layer, joined.records);
        Population::of(tasks.iter().filter_map(span))
    };
    joined.layers.iter().map(held).collect()
}

impl<'a> Analysis<'a> {
    /// Analyses a cell over `window`, or over the time of full load if `None` (see
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
            held: OnceCell::new(),
        }
    }

    /// The layers' populations, computed on first use.
    pub(crate) fn held(&self) -> &Held {
        self.held.get_or_init(|| Held::of(&self.cell.joined))
    }

    /// What the I/Os of each session waited for.
    #[must_use]
    pub fn waits_by_session(&self) -> BTreeMap<SessionId, WaitUse> {
        WaitUse::by_session(&self.ledger)
    }
}
