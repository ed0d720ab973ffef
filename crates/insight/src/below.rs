//! Splits the time below the socket of each I/O, by the kernel's time stamps.
//!
//! An I/O's last response waited for a request, that request perhaps for an R2T, and so on back to the
//! command. Along this chain the last byte of each PDU passes from one program to the other:
//! it waits for space in the send buffer, then there for a window or for Nagle's algorithm, then in the
//! device's queue; it is on the path; it waits in the receive buffer. The rest of the latency is
//! spent in the two programs. The parts are contiguous, so they add up exactly to the latency.
//!
//! If only one end has records, the same is derived for that end, and all time beyond it is one remainder.
//!
//! - `streams` looks up when a byte of a stream passed each of these points;
//! - `chain` finds the PDUs that an I/O waited for;
//! - `send_buffer` finds why the send buffer held bytes;
//! - `one_end` splits I/Os with records of one end only;
//! - `crossings` adds the layers `tcp_initiator` and `tcp_target` to I/Os;
//! - [`below_socket`] summarizes a cell.
//!
//! An I/O with missing or contradictory stamps or PDUs is not split: the reason
//! is counted. The rules are in `docs/internals/below-the-socket.md`.

mod chain;
mod crossings;
mod one_end;
mod send_buffer;
mod streams;
mod usage;

use std::collections::BTreeMap;

use wansan_trace::{Layer, SessionId, TaskTag};

use crate::cause::Cause;
use crate::cell::Cell;
use crate::join::Task;
use crate::traffic::FlowDirection;
use crate::wait::{Source, Wait};
use crate::window::Window;

use chain::{Chains, Message};
pub(crate) use crossings::derive;
use one_end::OneEnd;
use send_buffer::Senders;
pub(crate) use streams::Ends;
use streams::{Left, Streams};
pub use usage::{below_socket, from_splits, sentence};

/// Maximum tolerated disorder of times, as threads record them slightly late. Beyond it, they contradict each other.
const DISORDER_NS: u64 = 1_000_000;

/// Which ends have recorded PDUs and stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recorded {
    /// Both ends.
    #[default]
    Both,
    /// The initiator only.
    Initiator,
    /// The target only.
    Target,
}

/// The parts of the time on the way from one program to the other, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Leg {
    /// In the sending program, until the send buffer had room.
    pub no_room_ns: u64,
    /// The part of it while everything in the full buffer was in flight: the buffer is too small for the path.
    pub no_room_buffer_ns: u64,
    /// The part of it while bytes in the buffer waited for the congestion window.
    pub no_room_cwnd_ns: u64,
    /// The part of it while they waited for the receive window.
    pub no_room_rwnd_ns: u64,
    /// In the send buffer, held by the congestion window or by pacing.
    pub cwnd_ns: u64,
    /// In the send buffer, held by the receive window.
    pub rwnd_ns: u64,
    /// In the send buffer, as a short segment held by Nagle's algorithm.
    pub nagle_ns: u64,
    /// In the send buffer for another or an unknown reason.
    pub other_ns: u64,
    /// In the device queue: from the queueing discipline to the device.
    pub device_queue_ns: u64,
    /// On the path, until the receiving kernel had it, including loss recovery.
    pub path_ns: u64,
    /// In the receive buffer, until the program read it.
    pub receive_buffer_ns: u64,
}

impl Leg {
    /// Adds a wait in this direction.
    fn add(&mut self, wait: &Wait) {
        let ns = wait.length_ns();
        let is_without_room = [NO_ROOM_TO_TARGET, NO_ROOM_TO_INITIATOR].contains(&wait.layer);
        let part = match wait.cause {
            Cause::DeviceQueue => &mut self.device_queue_ns,
            Cause::ReceiveBuffer => &mut self.receive_buffer_ns,
            _ if wait.layer == ON_THE_PATH => &mut self.path_ns,
            _ if is_without_room => {
                self.no_room_ns += ns;
                match wait.cause {
                    Cause::SendBuffer => &mut self.no_room_buffer_ns,
                    Cause::CongestionWindow => &mut self.no_room_cwnd_ns,
                    Cause::ReceiveWindow => &mut self.no_room_rwnd_ns,
                    _ => return,
                }
            }
            Cause::CongestionWindow => &mut self.cwnd_ns,
            Cause::ReceiveWindow => &mut self.rwnd_ns,
            Cause::Nagle => &mut self.nagle_ns,
            _ => &mut self.other_ns,
        };
        *part += ns;
    }

    /// The sum of all parts.
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
    /// From the top layer's entry to its exit; with the target's records only, from the command's arrival to the last
    /// response's departure.
    pub latency_ns: u64,
    /// In the initiator's program, above the socket.
    pub initiator_ns: u64,
    /// In the target's program.
    pub target_ns: u64,
    /// Beyond the only end with records: on the path in both directions, and at the other end with its buffers; 0 if
    /// both ends have records.
    pub beyond_ns: u64,
    /// On the way to the target: the sum over all requests that were waited for.
    pub to_target: Leg,
    /// On the way to the initiator: the sum over all answers that were waited for.
    pub to_initiator: Leg,
    /// Round trips: one, and one for each R2T that was waited for.
    pub round_trips: u32,
    /// How much of it may belong to the part before or after the one it is counted in, because a stamp was of a
    /// nearby byte.
    pub uncertain_ns: u64,
}

impl Split {
    /// Sums up an I/O's waits.
    fn of(task: &Task, io: &IoWaits) -> Split {
        let mut split = Split {
            session: task.session,
            task: task.tag,
            latency_ns: io.latency_ns(),
            initiator_ns: 0,
            target_ns: 0,
            beyond_ns: 0,
            to_target: Leg::default(),
            to_initiator: Leg::default(),
            round_trips: io.round_trips,
            uncertain_ns: io.uncertain_ns,
        };
        for wait in &io.waits {
            let ns = wait.length_ns();
            match (wait.way, wait.cause) {
                (Some(FlowDirection::ToTarget), _) => split.to_target.add(wait),
                (Some(FlowDirection::ToInitiator), _) => split.to_initiator.add(wait),
                (None, Cause::Initiator) => split.initiator_ns += ns,
                (None, Cause::Target) => split.target_ns += ns,
                (None, _) => split.beyond_ns += ns,
            }
        }
        split
    }

    /// The sum of all parts.
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
    /// A part of the I/O was sent twice, because its connection or a PDU was lost.
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

    /// In words, following a number of I/Os.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Untold::NoStamp => "without a kernel time stamp",
            Untold::NoPdu => "with a PDU that one end did not record",
            Untold::SentAgain => "with retransmitted data",
            Untold::Disorder => "with contradictory time stamps",
        }
    }
}

/// The I/Os of a cell that completed in a window: those that were split, and the number of the others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Splits {
    /// The ends whose records they are derived from.
    pub recorded: Recorded,
    /// The split I/Os, in order.
    pub told: Vec<Split>,
    /// Number of I/Os that were not split, by reason.
    pub untold: BTreeMap<Untold, u64>,
}

/// Splits the I/Os of `cell` that completed in `window`; `None` if stamps or PDUs were not recorded.
#[must_use]
pub fn splits(cell: &Cell, window: Window) -> Option<Splits> {
    let splitter = Splitter::of(cell)?;
    let top = cell.joined.top()?;
    let mut splits = Splits {
        recorded: splitter.recorded,
        ..Splits::default()
    };
    for task in &cell.joined.tasks {
        let Some(span_ns) = task
            .both_ns(top)
            .filter(|(_, leave_ns)| window.contains(*leave_ns))
        else {
            continue;
        };
        match splitter.split(task, span_ns) {
            Ok(io) => splits.told.push(Split::of(task, &io)),
            Err(untold) => *splits.untold.entry(untold).or_default() += 1,
        }
    }
    Some(splits)
}

/// The layer of an I/O that waits for room in the initiator's send buffer.
const NO_ROOM_TO_TARGET: Layer = Layer::Window;
/// The layer of an I/O whose answer waits for room in the target's send buffer.
const NO_ROOM_TO_INITIATOR: Layer = Layer::Target;
/// The layer of an I/O that is on the path.
const ON_THE_PATH: Layer = Layer::Wire;

/// The waits of one I/O below the socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IoWaits {
    /// Contiguous waits. With records of one end only, time beyond it has the cause [`Cause::Unknown`] and no
    /// direction.
    pub(crate) waits: Vec<Wait>,
    /// See [`Split::round_trips`].
    round_trips: u32,
    /// See [`Split::uncertain_ns`].
    uncertain_ns: u64,
}

impl IoWaits {
    fn latency_ns(&self) -> u64 {
        match (self.waits.first(), self.waits.last()) {
            (Some(first), Some(last)) => last.to_ns - first.from_ns,
            _ => 0,
        }
    }
}

/// Splits I/Os by a cell's stamps, PDUs and TCP samples.
#[derive(Debug)]
pub(crate) struct Splitter<'a> {
    recorded: Recorded,
    streams: Streams,
    chains: Chains,
    senders: Senders<'a>,
}

impl<'a> Splitter<'a> {
    /// `None` when stamps or PDUs were not recorded.
    pub(crate) fn of(cell: &'a Cell) -> Option<Splitter<'a>> {
        let (stamps, pdus) = (cell.stamp.as_ref()?, cell.pdu.as_ref()?);
        let ends = Ends::of(pdus);
        let recorded = ends.recorded(stamps);
        Some(Splitter {
            recorded,
            streams: Streams::of(stamps, pdus, &ends, recorded),
            chains: Chains::of(&pdus.rows, recorded),
            senders: Senders::of(cell.tcp.as_ref(), &ends),
        })
    }

    /// Splits an I/O that was in the top layer during `span_ns`.
    pub(crate) fn split(&self, task: &Task, span_ns: (u64, u64)) -> Result<IoWaits, Untold> {
        let one_end = OneEnd {
            streams: &self.streams,
            chains: &self.chains,
            senders: &self.senders,
        };
        match self.recorded {
            Recorded::Both => self.both(task, span_ns),
            Recorded::Initiator => one_end.at_initiator(task, span_ns),
            Recorded::Target => one_end.at_target(task, span_ns),
        }
    }

    fn both(&self, task: &Task, (enter_ns, leave_ns): (u64, u64)) -> Result<IoWaits, Untold> {
        let mut cut = Cut::new(enter_ns, leave_ns);
        for message in self.chains.of_task(task, (enter_ns, leave_ns))? {
            let times = self.streams.times(message).ok_or(Untold::NoStamp)?;
            match message.way {
                FlowDirection::ToTarget => {
                    cut.io.round_trips += 1;
                    cut.initiator(message.queued_ns)?;
                }
                FlowDirection::ToInitiator => cut.target(message.queued_ns)?,
            }
            depart(&mut cut, message, &times.left, &self.senders)?;
            cut.path(times.came.arrived_ns, message.way, times.uncertain_ns())?;
            cut.read(times.came.read_ns, message.way)?;
        }
        cut.initiator(leave_ns)?;
        Ok(cut.io)
    }
}

/// Adds a message's waits from the sending program to the path.
fn depart(
    cut: &mut Cut,
    message: &Message,
    left: &Left,
    senders: &Senders<'_>,
) -> Result<(), Untold> {
    let (no_room, buffer) = match message.way {
        FlowDirection::ToTarget => (NO_ROOM_TO_TARGET, Layer::Socket),
        FlowDirection::ToInitiator => (NO_ROOM_TO_INITIATOR, Layer::TcpTarget),
    };
    let way = Some(message.way);
    let span_ns = (cut.last_ns, cut.inside(left.handed_ns)?);
    for (cause, to_ns) in senders.no_room(message, left.nagle, span_ns) {
        cut.to(to_ns, no_room, way, cause)?;
    }
    let span_ns = (cut.last_ns, cut.inside(left.scheduled_ns)?);
    for (cause, to_ns) in senders.held(message, left.nagle, span_ns) {
        cut.to(to_ns, buffer, way, cause)?;
    }
    cut.to(left.departed_ns, buffer, way, Cause::DeviceQueue)
}

/// Cuts an I/O's time into contiguous pieces.
struct Cut {
    last_ns: u64,
    end_ns: u64,
    io: IoWaits,
}

impl Cut {
    fn new(begin_ns: u64, end_ns: u64) -> Cut {
        Cut {
            last_ns: begin_ns,
            end_ns,
            io: IoWaits {
                waits: Vec::new(),
                round_trips: 0,
                uncertain_ns: 0,
            },
        }
    }

    /// The time clamped to the range from the last cut to the end; [`Untold::Disorder`] if that moves it by more than
    /// [`DISORDER_NS`].
    fn inside(&self, at_ns: u64) -> Result<u64, Untold> {
        let inside_ns = at_ns.clamp(self.last_ns, self.end_ns);
        match inside_ns.abs_diff(at_ns) > DISORDER_NS {
            true => Err(Untold::Disorder),
            false => Ok(inside_ns),
        }
    }

    /// Adds the piece from the last cut to `at_ns`.
    fn to(
        &mut self,
        at_ns: u64,
        layer: Layer,
        way: Option<FlowDirection>,
        cause: Cause,
    ) -> Result<(), Untold> {
        let to_ns = self.inside(at_ns)?;
        // A clamped time is uncertain by as much as it was moved.
        let moved_ns = to_ns.abs_diff(at_ns);
        self.io.uncertain_ns += moved_ns;
        let from_ns = std::mem::replace(&mut self.last_ns, to_ns);
        self.io.waits.push(Wait {
            from_ns,
            to_ns,
            layer,
            way,
            cause,
            source: Source::Stamps,
            uncertain_ns: moved_ns,
        });
        Ok(())
    }

    /// Adds time in the initiator's program until `at_ns`.
    fn initiator(&mut self, at_ns: u64) -> Result<(), Untold> {
        self.to(at_ns, Layer::Queue, None, Cause::Initiator)
    }

    /// Adds time in the target's program until `at_ns`.
    fn target(&mut self, at_ns: u64) -> Result<(), Untold> {
        self.to(at_ns, Layer::Device, None, Cause::Target)
    }

    /// Adds time beyond the only end with records until `at_ns`.
    fn beyond(&mut self, at_ns: u64) -> Result<(), Untold> {
        self.to(at_ns, ON_THE_PATH, None, Cause::Unknown)
    }

    /// Adds time on the path until `at_ns`, with the uncertainty of both of its ends.
    fn path(&mut self, at_ns: u64, way: FlowDirection, uncertain_ns: u64) -> Result<(), Untold> {
        self.to(at_ns, ON_THE_PATH, Some(way), Cause::Unknown)?;
        self.is_uncertain_by(uncertain_ns);
        Ok(())
    }

    /// Adds time in the receive buffer until `at_ns`.
    fn read(&mut self, at_ns: u64, way: FlowDirection) -> Result<(), Untold> {
        let layer = match way {
            FlowDirection::ToTarget => Layer::TcpTarget,
            FlowDirection::ToInitiator => Layer::Socket,
        };
        self.to(at_ns, layer, Some(way), Cause::ReceiveBuffer)
    }

    /// Notes how much of the last piece may belong to its neighbours.
    fn is_uncertain_by(&mut self, uncertain_ns: u64) {
        self.io.uncertain_ns += uncertain_ns;
        if let Some(last) = self.io.waits.last_mut() {
            last.uncertain_ns += uncertain_ns;
        }
    }
}
