//! The ledger of waits: every moment of every I/O's latency, attributed to exactly one cause.
//!
//! [`Ledger::of`] analyses a cell's records once;
//! [`Ledger::account`] then gives one I/O's waits, which are
//! contiguous from its entry at the top layer to its exit. Producers refine them in a
//! fixed order; later ones have better information and replace earlier estimates:
//!
//! 1. layer [`crossings`](self) show where the I/O was;
//! 2. the kernel's stamps split the time below the socket ([`crate::below`]);
//! 3. PDUs show the waits for R2Ts and for commands with lower CmdSNs;
//! 4. a replay of packets shows what TCP waited for ([`crate::stall`]);
//! 5. TCP_INFO samples show what stopped the sender in the remaining time; without samples, packets do;
//! 6. shared resources: bytes in front of a saturated link, a saturated VPN or a CPU-bound program wait for that
//!    resource, whichever window or buffer holds them.
//!
//! Unexplained time is [`Cause::Unknown`](crate::cause::Cause::Unknown). The path's minimum latency is
//! [`Cause::Propagation`](crate::cause::Cause::Propagation), and the time of the I/O's bytes at the link's rate
//! [`Cause::Transmission`](crate::cause::Cause::Transmission).
//!
//! Requests of programs to attached disks have accounts too ([`RequestAccount`]): while a request waits for the disk,
//! its causes are those of the I/O that carries it.
//!
//! Findings, stalls, charts and sentences are sums over the ledger ([`WaitUse`]).

mod base;
mod bytes;
mod clocked;
mod link;
mod overlays;
mod paths;
mod requests;
mod round_trips;
mod sampling;
mod senders;
mod stalls;
mod timeline;
mod transit;
mod usage;

use std::collections::BTreeMap;

use wansan_trace::{ConnectionId, SessionId, TaskTag};

use crate::cause::Cause;
use crate::cell::Cell;
use crate::command_window::CommandWindowUse;
use crate::join::Task;
use crate::path::delay_changes_ns;
use crate::processors::program_uses;
use crate::stall::{Conversation, Stall};
pub use crate::wait::{Source, Wait};
use crate::waiting::Parts;
use crate::window::Window;

use base::Base;
use bytes::{DataBytes, LinksNs};
use overlays::Overlays;
use paths::Paths;
pub use requests::{RequestAccount, RequestUse, request_uses};
use round_trips::RoundTrips;
pub use sampling::FEWEST_IOS;
pub(crate) use sampling::STANDARD_ERRORS;
use senders::Senders;
pub use stalls::{NO_CAUSE, cost_of, stall_use};
use timeline::Timeline;
use transit::Transits;
pub use usage::{CauseSum, WaitUse};

/// One I/O's waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its session.
    pub session: SessionId,
    /// Its connection.
    pub connection: ConnectionId,
    /// Its Initiator Task Tag.
    pub task: TaskTag,
    /// Its waits, which are contiguous.
    pub waits: Vec<Wait>,
}

impl Account {
    /// The I/O's latency.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        latency_ns(&self.waits)
    }
}

/// The latency covered by these waits.
fn latency_ns(waits: &[Wait]) -> u64 {
    match (waits.first(), waits.last()) {
        (Some(first), Some(last)) => last.to_ns - first.from_ns,
        _ => 0,
    }
}

/// What is known about a cell's waits. See the module's documentation.
#[derive(Debug)]
pub struct Ledger<'a> {
    cell: &'a Cell,
    window: Window,
    base: Base,
    overlays: Overlays<'a>,
    bytes: DataBytes,
    senders: Senders,
    paths: Paths,
    transits: Transits,
}

impl<'a> Ledger<'a> {
    /// Analyses the I/Os of `cell` that completed in `window`. `stalls` are among their waits; `conversations` are the
    /// connections that carried them, where packets were recorded.
    #[must_use]
    pub fn of(
        cell: &'a Cell,
        window: Window,
        stalls: &[Stall],
        conversations: &[Conversation],
    ) -> Ledger<'a> {
        let programs = cell
            .thread
            .as_ref()
            .map(|table| program_uses(table, window));
        let programs = programs.unwrap_or_default();
        let changes_ns = cell.path.as_ref().map(delay_changes_ns).unwrap_or_default();
        let round_trips = RoundTrips::of(cell);
        let senders = Senders::of(cell, window, conversations, &round_trips);
        let paths = Paths::of(cell, window, &senders, &programs);
        let mut ledger = Ledger {
            cell,
            window,
            base: Base::of(cell, window),
            overlays: Overlays::of(cell, stalls),
            bytes: DataBytes::of(cell, &paths),
            senders,
            paths,
            transits: Transits::new(cell, changes_ns, conversations, &round_trips),
        };
        // The path's minimum latency is taken over all I/Os, including those before the window.
        let mut transits = std::mem::take(&mut ledger.transits);
        let mut timeline = Timeline::default();
        for task in &cell.joined.tasks {
            if ledger.observe(task, &mut timeline).is_some() {
                transits.see(task, &timeline, &ledger.transmissions(task, &timeline));
            }
        }
        ledger.transits = transits;
        ledger
    }

    /// How sessions used their command windows, if their PDUs were recorded.
    #[must_use]
    pub fn command_windows(&self) -> &BTreeMap<SessionId, CommandWindowUse> {
        &self.base.windows
    }

    /// Calls `take` with each I/O that completed in the window and whose crossings were all recorded, and the waits of
    /// its account.
    pub(crate) fn each(&self, mut take: impl FnMut(&Task, &[Wait])) {
        let mut timeline = Timeline::default();
        for task in &self.cell.joined.tasks {
            if self.tell(task, &mut timeline).is_some() {
                take(task, timeline.waits());
            }
        }
    }

    /// What stopped the initiator of a session with one connection from sending what it had, if its kernel was sampled:
    /// intervals in order of time, each with its first nanosecond, the first one after it, and its cause.
    #[must_use]
    pub fn initiator_stopped(&self, session: SessionId) -> &[(u64, u64, Cause)] {
        self.senders.initiator_steps(session)
    }

    /// One I/O's account; `None` if it did not complete in the window or a crossing is missing.
    #[must_use]
    pub fn account(&self, task: &Task) -> Option<Account> {
        let mut timeline = Timeline::default();
        self.tell(task, &mut timeline)?;
        Some(Account {
            session: task.session,
            connection: task.connection,
            task: task.tag,
            waits: timeline.waits().to_vec(),
        })
    }

    /// Puts everything known about an I/O into its timeline, if it has an account.
    fn tell(&self, task: &Task, timeline: &mut Timeline) -> Option<()> {
        let done_ns = task.leave_ns(self.cell.joined.top()?)?;
        if !self.window.contains(done_ns) {
            return None;
        }
        self.observe(task, timeline)?;
        let transmissions = self.transmissions(task, timeline);
        self.transits
            .settle(task, timeline, &transmissions, &self.paths);
        self.senders.explain(task, timeline);
        self.paths.explain(task, timeline);
        timeline.settle_programs();
        Some(())
    }

    /// Fills an I/O's timeline with the waits that crossings, stamps, PDUs and packets show.
    fn observe(&self, task: &Task, timeline: &mut Timeline) -> Option<()> {
        timeline.clear();
        let parts = Parts::of(task, &self.cell.joined.layers)?;
        self.base.put(task, &parts, timeline)?;
        self.overlays.put(task, timeline);
        Some(())
    }

    /// How long the I/O's data takes at the rate of the links that carry it, in each direction.
    fn transmissions(&self, task: &Task, timeline: &Timeline) -> LinksNs {
        self.bytes
            .transmissions(task, timeline.span_ns(), &self.paths)
    }
}
