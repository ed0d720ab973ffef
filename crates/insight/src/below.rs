//! Where the time below the socket goes, I/O by I/O, told from the kernel's stamps.
//!
//! An I/O's last answer waited for a request, that request perhaps for an R2T, and so on back to the
//! command. Along this chain each PDU passes, with its last byte, from one program to the other:
//! it waits for room in the send buffer, then there for a window or for Nagle's algorithm, then in the
//! device's queue; it is on the path; it waits in the receive buffer. What is left of the latency is
//! spent in the two programs. The parts add up to the latency exactly, as each begins where the one
//! before ends.
//!
//! Where only one end has recorded anything, the same is told of that end, and all that lies beyond it is
//! one rest.
//!
//! - `streams` looks up when a byte of a stream passed each of these places;
//! - `chain` finds the PDUs that an I/O waited for;
//! - `held` says what the send buffer held bytes for;
//! - `one_end` splits what one end has recorded alone;
//! - `crossings` adds the layers `tcp_initiator` and `tcp_target` to I/Os;
//! - [`BelowSocket`] puts a cell into numbers.
//!
//! An I/O whose stamps or PDUs are not all there, or contradict each other, is not split: the reason
//! is counted. The rules are in `docs/internals/below-the-socket.md`.

mod chain;
mod crossings;
mod held;
mod one_end;
mod streams;
mod usage;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wansan_trace::{SessionId, TaskTag};

use crate::cell::Cell;
use crate::join::Task;
use crate::traffic::Way;
use crate::window::Window;

use chain::{Chains, Message};
pub(crate) use crossings::derive;
use held::Senders;
use one_end::OneEnd;
use streams::{Ends, Left, Streams};
pub use usage::{BelowSocket, LegUse, StampCount};

/// Stamps that are out of order by more than this are not believed: threads write down times a
/// little late.
const DISORDER_NS: u64 = 1_000_000;

/// Which ends have recorded PDUs and stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recorded {
    /// The initiator's and the target's.
    #[default]
    Both,
    /// The initiator's alone.
    Initiator,
    /// The target's alone.
    Target,
}

/// Parts of the way from one program to the other, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Leg {
    /// With the sending program, until the send buffer had room.
    pub no_room_ns: u64,
    /// So much of that while all that the buffer has room for was in flight: it is too small for the path.
    pub no_room_buffer_ns: u64,
    /// So much of that while the buffer's own bytes waited for the congestion window.
    pub no_room_cwnd_ns: u64,
    /// So much of that while they waited for the receiver's window.
    pub no_room_rwnd_ns: u64,
    /// In the send buffer while the congestion window, or what paces it, let nothing out.
    pub cwnd_ns: u64,
    /// In the send buffer while the receiver's window let nothing out.
    pub rwnd_ns: u64,
    /// In the send buffer while Nagle's algorithm held a short segment.
    pub nagle_ns: u64,
    /// In the send buffer for none of these, or for what nobody can tell.
    pub other_ns: u64,
    /// In the device's queue: from the queueing discipline to the device.
    pub device_queue_ns: u64,
    /// On the path, until the receiving kernel had it; losses and their repair are part of it.
    pub path_ns: u64,
    /// In the receive buffer, until the program read it.
    pub receive_buffer_ns: u64,
}

impl Leg {
    /// All parts together.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.no_room_ns
            + self.cwnd_ns
            + self.rwnd_ns
            + self.nagle_ns
            + self.other_ns
            + self.device_queue_ns
            + self.path_ns
            + self.receive_buffer_ns
    }
}

/// The parts of one I/O's latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Its session.
    pub session: SessionId,
    /// Its tag there.
    pub task: TaskTag,
    /// From the top layer's entry to its exit; of an I/O that only its target has recorded, from the
    /// command's arrival to the last answer's departure.
    pub latency_ns: u64,
    /// In the initiator's program: above the socket.
    pub initiator_ns: u64,
    /// In the target's program.
    pub target_ns: u64,
    /// Beyond the only end that has recorded it: on the path, both ways, and with the other end and its
    /// buffers; 0 where both have.
    pub beyond_ns: u64,
    /// On the way to the target, all requests that were waited for together.
    pub to_target: Leg,
    /// On the way to the initiator, all answers that were waited for together.
    pub to_initiator: Leg,
    /// Round trips: one, and one for each R2T that was waited for.
    pub round_trips: u32,
    /// How much of it may belong to the part before or after the one that it is counted to, as a
    /// stamp was of another byte near by.
    pub uncertain_ns: u64,
}

impl Split {
    /// Of an I/O of which nothing is told yet.
    fn of(task: &Task) -> Split {
        Split {
            session: task.session,
            task: task.tag,
            latency_ns: 0,
            initiator_ns: 0,
            target_ns: 0,
            beyond_ns: 0,
            to_target: Leg::default(),
            to_initiator: Leg::default(),
            round_trips: 0,
            uncertain_ns: 0,
        }
    }

    /// All parts together.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.initiator_ns
            + self.target_ns
            + self.beyond_ns
            + self.to_target.total_ns()
            + self.to_initiator.total_ns()
    }
}

/// Why an I/O was not split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Untold {
    /// The kernel gave no stamp for a byte, or it was lost.
    NoStamp,
    /// A PDU was not recorded at an end that has recorded others.
    NoPdu,
    /// A part of the I/O was sent twice: its connection was lost, or a PDU.
    SentAgain,
    /// Times contradict each other.
    Disorder,
}

impl Untold {
    /// All reasons.
    pub const ALL: [Untold; 4] = [
        Untold::NoStamp,
        Untold::NoPdu,
        Untold::SentAgain,
        Untold::Disorder,
    ];

    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Untold::NoStamp => "no_stamp",
            Untold::NoPdu => "no_pdu",
            Untold::SentAgain => "sent_again",
            Untold::Disorder => "disorder",
        }
    }

    /// In words, of some I/Os.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Untold::NoStamp => "without a stamp of the kernel",
            Untold::NoPdu => "with a PDU that an end has not recorded",
            Untold::SentAgain => "of which something was sent twice",
            Untold::Disorder => "whose stamps contradict each other",
        }
    }
}

/// The I/Os of a cell that were completed in a window: those that were split, and how many were not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Splits {
    /// Whose records they are told from.
    pub recorded: Recorded,
    /// In the order of the I/Os.
    pub told: Vec<Split>,
    /// How many were not split, by the reason.
    pub untold: BTreeMap<Untold, u64>,
}

/// Splits the I/Os of `cell` that were completed in `window`; `None` when stamps or PDUs were not
/// recorded.
#[must_use]
pub fn splits(cell: &Cell, window: Window) -> Option<Splits> {
    let (stamps, pdus) = (cell.stamp.as_ref()?, cell.pdu.as_ref()?);
    let top = cell.joined.top()?;
    let ends = Ends::of(pdus);
    let recorded = ends.recorded(stamps);
    let streams = Streams::of(stamps, pdus, &ends, recorded);
    let chains = Chains::of(&pdus.rows, recorded);
    let senders = Senders::of(cell.tcp.as_ref(), &ends);
    let one_end = OneEnd {
        streams: &streams,
        chains: &chains,
        senders: &senders,
    };
    let mut splits = Splits {
        recorded,
        ..Splits::default()
    };
    for task in &cell.joined.tasks {
        let Some((enter_ns, leave_ns)) = task.both_ns(top) else {
            continue;
        };
        if !window.contains(leave_ns) {
            continue;
        }
        let span_ns = (enter_ns, leave_ns);
        let outcome = match recorded {
            Recorded::Both => split(task, span_ns, &streams, &chains, &senders),
            Recorded::Initiator => one_end.at_initiator(task, span_ns),
            Recorded::Target => one_end.at_target(task, span_ns),
        };
        match outcome {
            Ok(split) => splits.told.push(split),
            Err(untold) => *splits.untold.entry(untold).or_default() += 1,
        }
    }
    Some(splits)
}

fn split(
    task: &Task,
    (enter_ns, leave_ns): (u64, u64),
    streams: &Streams,
    chains: &Chains,
    senders: &Senders<'_>,
) -> Result<Split, Untold> {
    let chain = chains.of_task(task, (enter_ns, leave_ns))?;
    let mut split = Split::of(task);
    split.latency_ns = leave_ns - enter_ns;
    let mut cut = Cut {
        last_ns: enter_ns,
        end_ns: leave_ns,
    };
    for message in chain {
        let times = streams.times(message).ok_or(Untold::NoStamp)?;
        let leg = match message.way {
            Way::ToTarget => {
                split.round_trips += 1;
                split.initiator_ns += cut.to(message.queued_ns)?;
                &mut split.to_target
            }
            Way::ToInitiator => {
                split.target_ns += cut.to(message.queued_ns)?;
                &mut split.to_initiator
            }
        };
        depart(leg, &mut cut, message, &times.left, senders)?;
        leg.path_ns += cut.to(times.came.arrived_ns)?;
        leg.receive_buffer_ns += cut.to(times.came.read_ns)?;
        split.uncertain_ns += times.uncertain_ns();
    }
    split.initiator_ns += cut.to(leave_ns)?;
    Ok(split)
}

/// Adds a message's way from its sender's program to the path.
fn depart(
    leg: &mut Leg,
    cut: &mut Cut,
    message: &Message,
    left: &Left,
    senders: &Senders<'_>,
) -> Result<(), Untold> {
    let queued_ns = cut.last_ns;
    let no_room_ns = cut.to(left.handed_ns)?;
    let full = senders.full(message, left.nagle, (queued_ns, queued_ns + no_room_ns));
    leg.no_room_ns += no_room_ns;
    leg.no_room_buffer_ns += full.buffer_ns;
    leg.no_room_cwnd_ns += full.cwnd_ns;
    leg.no_room_rwnd_ns += full.rwnd_ns;
    let from_ns = cut.last_ns;
    let held_ns = cut.to(left.scheduled_ns)?;
    let held = senders.held(message, left.nagle, (from_ns, from_ns + held_ns));
    leg.cwnd_ns += held.cwnd_ns;
    leg.rwnd_ns += held.rwnd_ns;
    leg.nagle_ns += held.nagle_ns;
    leg.other_ns += held_ns - held.cwnd_ns - held.rwnd_ns - held.nagle_ns;
    leg.device_queue_ns += cut.to(left.departed_ns)?;
    Ok(())
}

/// Cuts an I/O's time into pieces, one after the other.
struct Cut {
    last_ns: u64,
    end_ns: u64,
}

impl Cut {
    /// The piece from the last cut to `at_ns`.
    fn to(&mut self, at_ns: u64) -> Result<u64, Untold> {
        let inside_ns = at_ns.clamp(self.last_ns, self.end_ns);
        if inside_ns.abs_diff(at_ns) > DISORDER_NS {
            return Err(Untold::Disorder);
        }
        Ok(inside_ns - std::mem::replace(&mut self.last_ns, inside_ns))
    }
}
