//! Stalls: intervals in which an I/O made no progress although it could, each with its cause,
//! its cost and the packets that show it.
//!
//! [`Conversation`] describes one TCP connection: the segments with the times at which they
//! left one end and reached the other, and the PDUs with the times at which their sender passed them
//! to TCP. [`view`] builds it from a cell's records. Then
//!
//! - [`sender`] replays each direction as its sender saw it, and finds what each delayed segment waited
//!   for;
//! - [`session`] finds the waits above TCP: for R2Ts, for the command window, for commands on
//!   other connections;
//!
//! The rules are in `docs/internals/stalls.md`. They come from RFC 896 and RFC 1122 §4.2.3 (Nagle's algorithm,
//! delayed acknowledgements, windows), RFC 5681 (slow start, idle connections) and RFC 6298
//! (retransmission timeouts), not from the behaviour of one kernel.

mod congestion_window;
pub mod conversation;
mod outstanding;
pub mod sender;
pub mod session;
pub mod view;

use wansan_trace::{SessionId, TaskTag};

pub use crate::cause::Cause;
use crate::cell::Cell;
use crate::traffic::FlowDirection;
use crate::wait::Source;
use crate::window::Window;
pub use conversation::{Announced, Conversation, Queued, Sampled, Segment, Times};

/// The causes that a stall may have.
pub const CAUSES: [Cause; 13] = [
    Cause::Nagle,
    Cause::DelayedAck,
    Cause::NagleAgainstDelayedAck,
    Cause::ExtraRoundTrips,
    Cause::SlowStartAfterIdle,
    Cause::ReceiveWindow,
    Cause::SendBuffer,
    Cause::FastRetransmit,
    Cause::RetransmissionTimeout,
    Cause::TailLoss,
    Cause::R2tWait,
    Cause::CommandWindow,
    Cause::RouteLockstep,
];

/// A packet's role in a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// It left late.
    Held,
    /// It had been sent before, and the sender waited for its acknowledgement.
    WaitedFor,
    /// It brought what the sender waited for.
    Released,
    /// It was lost.
    Lost,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 4] = [Role::Held, Role::WaitedFor, Role::Released, Role::Lost];

    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Role::Held => "held",
            Role::WaitedFor => "waited_for",
            Role::Released => "released",
            Role::Lost => "lost",
        }
    }

    /// Its description in words.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Role::Held => "left late",
            Role::WaitedFor => "waited for",
            Role::Released => "released it",
            Role::Lost => "lost",
        }
    }
}

/// A packet that shows a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// Its role in the stall.
    pub role: Role,
    /// Its row in `packet.parquet`, from 0.
    pub packet: usize,
    /// When it left its sender.
    pub sent_ns: u64,
}

impl Shown {
    fn of(role: Role, segment: &Segment) -> Shown {
        Shown {
            role,
            packet: segment.packet,
            sent_ns: segment.sent_ns,
        }
    }
}

/// An interval in which an I/O could have made progress and did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stall {
    /// Why.
    pub cause: Cause,
    /// The session of the I/O.
    pub session: SessionId,
    /// The I/O's task.
    pub task: TaskTag,
    /// The direction whose sender waited.
    pub way: FlowDirection,
    /// When it could have continued.
    pub from_ns: u64,
    /// When it continued.
    pub to_ns: u64,
    /// The packets that show it; none if only PDUs do.
    pub evidence: Vec<Shown>,
}

impl Stall {
    /// What it is derived from.
    #[must_use]
    pub fn source(&self) -> Source {
        match self.cause {
            Cause::R2tWait | Cause::CommandWindow | Cause::RouteLockstep => Source::Pdus,
            _ => Source::Packets,
        }
    }

    /// What it cost the I/O, in ns.
    #[must_use]
    pub fn cost_ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// The stalls of a cell that ended in `window`, in order of their start.
#[must_use]
pub fn stalls(cell: &Cell, conversations: &[Conversation], window: Window) -> Vec<Stall> {
    let mut found: Vec<Stall> = conversations.iter().flat_map(sender::stalls).collect();
    found.extend(session::stalls(cell, conversations));
    found.retain(|stall| window.contains(stall.to_ns));
    found.sort_by_key(|stall| (stall.from_ns, stall.to_ns));
    found
}
