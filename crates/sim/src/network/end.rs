//! Ends of connections, and the operations of programs on them.

use std::net::SocketAddr;

use wansan_path::Ecn;

use super::hop::Hop;
use super::lost::Losses;
use super::pause::Coming;
use crate::tcp::connection::Connection;
use crate::tcp::segment::Segment;

/// What a program does with its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Reads all that is there, from a time on.
    Sink {
        /// That time, in nanoseconds.
        from_ns: u64,
    },
    /// Writes so many bytes as fast as there is room, then ends the stream.
    Source {
        /// Bytes that are left.
        bytes: u64,
    },
    /// Is the caller's: [`Network::run`] says when it may read or write.
    Callers,
}

/// An end of a connection, its program and the way to its peer.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) connection: Connection,
    pub(super) program: Program,
    pub(crate) peer: u32,
    pub(super) route: Vec<Hop>,
    /// The link into which its host sends.
    pub(super) access: u32,
    /// What has arrived and its TCP has not taken.
    pub(super) arrived: Vec<(Segment, Ecn)>,
    pub(super) actor: u32,
    pub(super) host: u32,
    /// Its place among the standstills, if its host has any.
    pub(super) standstill: Option<usize>,
    /// The pauses that what comes here begins.
    pub(super) coming: Coming,
    /// Of a caller's program: whether it reads, whether it waits for room, whether that it may go on is yet
    /// to be reported.
    pub(super) reads: bool,
    pub(super) wants_room: bool,
    pub(super) is_ready: bool,
    /// Whether its program knows that the peer has sent all, or has aborted the connection.
    pub(super) knows_end: bool,
    /// What it sends and links lose.
    pub(super) losses: Losses,
    /// What has the peer asked by ECE to slow down, if anything does.
    pub(super) ece: Option<wansan_split::Receiver>,
    /// Its own address and the peer's, for records.
    pub(crate) addresses: Option<[SocketAddr; 2]>,
}

impl End {
    /// The sequence numbers of the next byte that its program writes, and of the next that it expects.
    pub(super) fn places(&self) -> [u64; 2] {
        let sender = self.connection.sender();
        let next_seq = sender.window().una + sender.unacknowledged_bytes();
        [next_seq, 1 + self.connection.receiver().received_bytes()]
    }

    /// Whether a caller's program has something to do.
    pub(super) fn may_go_on(&self) -> bool {
        let connection = &self.connection;
        if connection.was_reset() {
            return self.program == Program::Callers && self.reads && !self.knows_end;
        }
        self.program == Program::Callers
            && connection.is_established()
            && (self.reads && connection.receiver().readable_bytes() > 0
                || self.reads && !self.knows_end && self.has_ended()
                || self.wants_room && connection.sender().is_writable())
    }

    /// Data have come: asks the peer to slow down, where its orders say so.
    pub(super) fn judge(&mut self, now_ns: u64) {
        let Some(ece) = &mut self.ece else { return };
        let (sender, receiver) = (self.connection.sender(), self.connection.receiver());
        let arrival = wansan_split::Arrival {
            received_bytes: receiver.received_bytes(),
            unread_bytes: receiver.readable_bytes(),
            min_rtt_ns: sender.window().min_rtt_us.map(|us| us * 1_000),
            advertised_mss_bytes: receiver.advertised_mss(),
            is_signalling: receiver.demands_cwr(),
        };
        if receiver.uses_ecn() && ece.on_segment(&arrival, now_ns) {
            self.connection.receiver_mut().demand_cwr();
        }
    }

    /// Whether all was read, up to the peer's FIN.
    pub(super) fn has_ended(&self) -> bool {
        let receiver = self.connection.receiver();
        receiver.is_finished() && receiver.readable_bytes() == 0
    }

    /// When it has something to do next.
    pub(super) fn next_ns(&self, now_ns: u64) -> Option<u64> {
        let timer = self.connection.next_timer();
        match self.program {
            Program::Sink { from_ns } if from_ns > now_ns => {
                Some(timer.map_or(from_ns, |timer| timer.min(from_ns)))
            }
            _ => timer,
        }
    }

    /// Whether its program did anything.
    pub(super) fn run_program(&mut self, now_ns: u64) -> bool {
        if self.program == Program::Callers {
            return false;
        }
        let readable = match self.program {
            Program::Sink { from_ns } if from_ns > now_ns => 0,
            _ => self.connection.receiver().readable_bytes(),
        };
        if readable > 0 {
            self.connection.read(now_ns, readable);
        }
        let mut has_written = false;
        if let Program::Source { bytes } = &mut self.program
            && *bytes > 0
            && self.connection.is_established()
            && self.connection.sender().is_writable()
        {
            let taken = self.connection.write(now_ns, *bytes);
            *bytes -= taken;
            has_written = taken > 0;
            if *bytes == 0 {
                self.connection.shut();
            }
        }
        readable > 0 || has_written
    }
}
