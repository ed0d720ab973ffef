//! One connection of an initiator's session: its two byte streams and its StatSN.

use std::collections::VecDeque;
use std::time::Duration;

use wansan_trace::event::PduDirection;
use wansan_trace::{ConnectionId, Direction, Instant, Layer, Recorder, SessionId, TaskTag};

use crate::arrival::Arrivals;
use crate::keys::ConnectionParameters;
use crate::record::{keeps_pdu, pdu_record};
use crate::sequence::Sn;
use crate::wire::{Bhs, Lun, Receiver, Snack, Transmitter};

use super::liveness::Liveness;
use super::snack::Came;
use super::tally::Population;

/// One connection in full feature phase.
///
/// Input goes through [`Connection::space`] and [`Connection::filled`], output through [`Connection::pending`] and
/// [`Connection::sent`]; the session handles the rest.
#[derive(Debug)]
pub struct Connection {
    pub(super) receiver: Receiver,
    pub(super) arrivals: Arrivals,
    pub(super) link: Link,
}

/// The sending half and the state of a connection, separate from the receiver, whose buffer a PDU borrows while it is
/// handled.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: ConnectionId,
    pub(super) session: SessionId,
    pub(super) transmitter: Transmitter,
    pub(super) parameters: ConnectionParameters,
    /// Lost PDUs are requested again (error recovery level 1 and above).
    pub(super) recovers: bool,
    pub(super) leaving: Leaving,
    /// The StatSN before which all were received, with all data of their tasks.
    pub(super) exp_stat_sn: Sn,
    /// The StatSNs received.
    pub(super) stat_sns: Came,
    /// Those of tasks with missing data.
    pub(super) held: Vec<(TaskTag, Sn)>,
    /// Queued SNACKs.
    pub(super) snacks: VecDeque<Snack>,
    /// Commands that the target has lost, to be resent unchanged.
    pub(super) retries: VecDeque<TaskTag>,
    /// Tasks that owe Data-Out on this connection, each once, in turn.
    pub(super) turns: VecDeque<TaskTag>,
    /// Answers due to the target's pings, oldest first.
    pub(super) pongs: VecDeque<Pong>,
    pub(super) liveness: Liveness,
    /// When it was last pinged for [`Schedule::Earliest`](super::Schedule::Earliest).
    pub(super) probed_at: Option<Instant>,
    /// Commands that the socket has not accepted completely: the end of their PDU, and the task.
    commands: VecDeque<(u64, TaskTag)>,
    /// The number of those.
    pub(super) waiting: Population,
}

/// State of a logout that the target requested (RFC 7143 §11.9.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    No,
    /// It gets no new commands, and is logged out when none is outstanding.
    Wanted,
    /// The Logout Request is outstanding.
    Asked,
}

/// The answer to a ping from the target (RFC 7143 §11.18).
#[derive(Debug)]
pub(super) struct Pong {
    pub(super) lun: Lun,
    pub(super) transfer_tag: u32,
    pub(super) data: Vec<u8>,
}

impl Connection {
    /// A connection that has just logged in, with the buffers of its login.
    pub(super) fn new(
        id: ConnectionId,
        session: SessionId,
        receiver: Receiver,
        transmitter: Transmitter,
        parameters: ConnectionParameters,
        exp_stat_sn: Sn,
        recovers: bool,
    ) -> Self {
        Connection {
            receiver,
            arrivals: Arrivals::default(),
            link: Link {
                id,
                session,
                transmitter,
                parameters,
                recovers,
                leaving: Leaving::No,
                exp_stat_sn,
                stat_sns: Came::from(exp_stat_sn.0),
                held: Vec::new(),
                snacks: VecDeque::new(),
                retries: VecDeque::new(),
                turns: VecDeque::new(),
                pongs: VecDeque::new(),
                commands: VecDeque::new(),
                waiting: Population::default(),
                liveness: Liveness::new(),
                probed_at: None,
            },
        }
    }

    /// The connection's CID.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.link.id
    }

    /// The values in force for the connection.
    #[must_use]
    pub fn parameters(&self) -> &ConnectionParameters {
        &self.link.parameters
    }

    /// Room for bytes from the socket; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        self.receiver.space()
    }

    /// `bytes` of [`Connection::space`] were read from the socket at `now`.
    pub fn filled(&mut self, bytes: usize, now: Instant) {
        self.arrivals.read(bytes, now);
        self.link.liveness.received(now);
        self.receiver.filled(bytes);
    }

    /// Bytes that the socket has accepted since the TCP connection began, login included.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.link.transmitter.sent_end()
    }

    /// Bytes read from the socket since the TCP connection began.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.receiver.received_end()
    }

    /// PDUs received, and PDUs queued for sending.
    #[must_use]
    pub fn pdus(&self) -> u64 {
        self.receiver.pdus() + self.link.transmitter.pdus()
    }

    /// Evidence other than received bytes shows at `now` that the target is alive, such as TCP
    /// acknowledgements.
    pub fn heard(&mut self, now: Instant) {
        self.link.liveness.heard(now);
    }

    /// Takes a round-trip time measured by other means than a NOP-Out.
    pub fn round_trip_measured(&mut self, round_trip: Duration) {
        self.link.liveness.measured(round_trip);
    }

    /// Bytes for the socket.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        self.link.transmitter.pending()
    }

    /// The socket accepted `bytes` of [`Connection::pending`] at `now`.
    pub fn sent(&mut self, bytes: usize, now: Instant, trace: &mut Recorder) {
        let link = &mut self.link;
        link.transmitter.sent(bytes);
        let sent_end = link.transmitter.sent_end();
        while let Some(&(end, task)) = link.commands.front() {
            if end > sent_end {
                break;
            }
            link.commands.pop_front();
            link.waiting.leave(now);
            trace.crossing(
                now,
                link.session,
                link.id,
                task,
                Layer::Socket,
                Direction::Enter,
            );
        }
    }
}

impl Link {
    /// Queues a PDU for sending.
    pub(super) fn push(&mut self, bhs: &Bhs, data: &[u8], now: Instant, trace: &mut Recorder) {
        let offset = self.transmitter.queued_end();
        self.transmitter.push(bhs, data);
        if keeps_pdu(trace, bhs) {
            let mut record =
                pdu_record(now, self.session, self.id, PduDirection::Sent, bhs, offset);
            record.data_bytes = data.len() as u32;
            trace.pdu(record);
        }
    }

    /// Notes that the PDU just queued is `task`'s command, to record when the socket accepts it.
    pub(super) fn command_queued(&mut self, task: TaskTag, now: Instant) {
        self.waiting.enter(now);
        self.commands
            .push_back((self.transmitter.queued_end(), task));
    }

    /// Whether anything is due to the target here.
    pub(super) fn owes(&self) -> bool {
        let Link {
            pongs,
            snacks,
            retries,
            turns,
            ..
        } = self;
        !(pongs.is_empty() && snacks.is_empty() && retries.is_empty() && turns.is_empty())
    }

    /// Whether the connection takes a command now.
    pub(super) fn takes_commands(&self) -> bool {
        self.has_room() && self.stays()
    }

    /// Whether it is not about to close.
    pub(super) fn stays(&self) -> bool {
        self.leaving == Leaving::No
    }

    /// Whether another PDU may be queued: unsent data is bounded.
    pub(super) fn has_room(&self) -> bool {
        self.transmitter.pending().len() < SEND_BACKLOG_BYTES
    }
}

/// No new PDU is queued while this much is unsent. Enough to amortize the fixed cost of a system call; small enough
/// that a command does not wait behind much data.
const SEND_BACKLOG_BYTES: usize = 256 * 1024;
