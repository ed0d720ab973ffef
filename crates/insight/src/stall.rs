//! Stalls: stretches of time in which an I/O could have gone on and did not, each with its cause,
//! what it cost and the packets that show it.
//!
//! [`Conversation`] is what is known of one TCP connection: the segments with the times at which they
//! left one end and came to the other, and the PDUs with the times at which their sender gave them
//! to TCP. [`view`] makes it out of a cell's records. Then
//!
//! - [`sender`] replays each direction as its sender saw it, and asks of each segment that left
//!   later than it could have what it waited for;
//! - [`session`] looks at the waits above TCP: for R2Ts, for the command window, for commands on
//!   other connections;
//! - [`StallUse`] puts the stalls of a cell into numbers.
//!
//! The rules are in `docs/internals/stalls.md`. They come from RFC 896 and RFC 1122 §4.2.3 (Nagle's algorithm,
//! delayed acknowledgements, windows), RFC 5681 (slow start, idle connections) and RFC 6298
//! (retransmission timeouts), not from what one kernel does.

mod congestion_window;
pub mod conversation;
pub mod sender;
pub mod session;
pub mod usage;
pub mod view;

use serde::{Deserialize, Serialize};
use wansan_trace::{SessionId, TaskTag};

use crate::cell::Cell;
use crate::traffic::Way;
use crate::window::Window;
pub use conversation::{Announced, Conversation, Queued, Sampled, Segment, Times};
pub use usage::{CauseUse, Example, NO_CAUSE, StallUse};

/// Why an I/O did not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Nagle's algorithm held a short segment until what was sent before it was acknowledged, which
    /// happened at once (RFC 896, RFC 1122 §4.2.3.4): one more round trip.
    Nagle,
    /// The receiver kept an acknowledgement back, for which the sender's window waited (RFC 1122
    /// §4.2.3.2).
    DelayedAck,
    /// Both: the short segment waited for an acknowledgement that the receiver kept back.
    NagleAgainstDelayedAck,
    /// The answer or the data were more than the congestion window let out at once, so that they took
    /// further round trips (RFC 5681 §3.1).
    ExtraRoundTrips,
    /// The same after an idle time, before which the window was larger (RFC 5681 §4.1).
    SlowStartAfterIdle,
    /// The receiver's window was closed or shorter than what was to be sent (RFC 9293 §3.8.6).
    ReceiveWindow,
    /// The sender's program had more, and the send buffer no room for it until something was acknowledged.
    SendBuffer,
    /// A lost segment was sent again because later ones were acknowledged (RFC 5681 §3.2).
    FastRetransmit,
    /// A lost segment was sent again only when the timer had run out, although something had been
    /// sent behind it, or because it was lost twice (RFC 6298).
    RetransmissionTimeout,
    /// Nothing was sent behind a lost segment, so that only a timer could find it (RFC 8985 §7).
    TailLoss,
    /// The initiator had data for a write and waited to be asked for them (RFC 7143 §11.8).
    R2tWait,
    /// The command waited for a place in the command window (RFC 7143 §4.2.2.1).
    CommandWindow,
    /// The command waited at the target for one with a lower CmdSN on another connection (RFC 7143
    /// §4.2.2.1).
    RouteLockstep,
}

impl Cause {
    /// All causes.
    pub const ALL: [Cause; 13] = [
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

    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Nagle => "nagle",
            Cause::DelayedAck => "delayed_ack",
            Cause::NagleAgainstDelayedAck => "nagle_against_delayed_ack",
            Cause::ExtraRoundTrips => "extra_round_trips",
            Cause::SlowStartAfterIdle => "slow_start_after_idle",
            Cause::ReceiveWindow => "receive_window",
            Cause::SendBuffer => "send_buffer",
            Cause::FastRetransmit => "fast_retransmit",
            Cause::RetransmissionTimeout => "retransmission_timeout",
            Cause::TailLoss => "tail_loss",
            Cause::R2tWait => "r2t_wait",
            Cause::CommandWindow => "command_window",
            Cause::RouteLockstep => "route_lockstep",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Cause> {
        Cause::ALL.into_iter().find(|cause| cause.name() == name)
    }

    /// As an engineer would say it of an I/O.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Cause::Nagle => "Nagle's algorithm held a short segment for a round trip",
            Cause::DelayedAck => "the sender waited for a delayed acknowledgement",
            Cause::NagleAgainstDelayedAck => {
                "Nagle's algorithm held a short segment while the receiver delayed the \
                 acknowledgement that would have released it"
            }
            Cause::ExtraRoundTrips => "the congestion window let out only a part at once",
            Cause::SlowStartAfterIdle => "the congestion window had shrunk while nothing was sent",
            Cause::ReceiveWindow => "the receiver's window was closed or too small",
            Cause::SendBuffer => "the send buffer had no room for more",
            Cause::FastRetransmit => "a lost segment was sent again",
            Cause::RetransmissionTimeout => "a lost segment waited for the retransmission timer",
            Cause::TailLoss => "the last segment was lost, which only a timer could tell",
            Cause::R2tWait => "the initiator waited for an R2T",
            Cause::CommandWindow => "the command window was closed",
            Cause::RouteLockstep => "a command with a lower CmdSN was late on another connection",
        }
    }
}

/// A packet's part in a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It left late.
    Held,
    /// It had been sent before and its acknowledgement was waited for.
    WaitedFor,
    /// It brought what the sender waited for.
    Released,
    /// It was lost.
    Lost,
}

impl Role {
    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Role::Held => "left late",
            Role::WaitedFor => "waited for",
            Role::Released => "released it",
            Role::Lost => "lost",
        }
    }
}

/// A packet that shows a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// What it has to do with it.
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

/// A stretch of time in which an I/O could have gone on and did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stall {
    /// Why.
    pub cause: Cause,
    /// The session of the I/O.
    pub session: SessionId,
    /// The I/O's task.
    pub task: TaskTag,
    /// Who waited: the one who sends this way.
    pub way: Way,
    /// From when on it could have gone on.
    pub from_ns: u64,
    /// When it went on.
    pub to_ns: u64,
    /// The packets that show it; none where it shows in PDUs alone.
    pub evidence: Vec<Shown>,
}

impl Stall {
    /// What it cost the I/O, in ns.
    #[must_use]
    pub fn cost_ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// The stalls of a cell that ended in `window`, by the time at which they began.
#[must_use]
pub fn stalls(cell: &Cell, window: Window) -> Vec<Stall> {
    let conversations = view::conversations(cell);
    let mut found: Vec<Stall> = conversations.iter().flat_map(sender::stalls).collect();
    found.extend(session::stalls(cell, &conversations));
    found.retain(|stall| window.contains(stall.to_ns));
    found.sort_by_key(|stall| (stall.from_ns, stall.to_ns));
    found
}
