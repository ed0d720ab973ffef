//! Ends of connections, and what programs do with them.

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
    /// Reads all that is available, from a time on.
    Sink {
        /// That time, in nanoseconds.
        from_ns: u64,
    },
    /// Writes this many bytes as fast as there is room, then closes.
    Source {
        /// Bytes left to write.
        bytes: u64,
    },
    /// Driven by the caller: [`Network::run`] says when it can read or write.
    Callers,
}

/// An end of a connection, with its program and the route to its peer.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) connection: Connection,
    pub(super) program: Program,
    pub(crate) peer: u32,
    pub(super) route: Vec<Hop>,
    /// The link into which its host sends.
    pub(super) access: u32,
    /// What has arrived at the host and TCP has not processed yet.
    pub(super) arrived: Vec<(Segment, Ecn)>,
    pub(super) actor: u32,
    pub(super) host: u32,
    /// Its index in the network's standstills, if its host has pauses.
    pub(super) standstill: Option<usize>,
    /// Pauses that packets arriving here begin.
    pub(super) coming: Coming,
    /// For a caller's program: whether it reads, whether it waits for room, and whether it is queued to be reported as
    /// ready.
    pub(super) reads: bool,
    pub(super) wants_room: bool,
    pub(super) is_ready: bool,
    /// Whether its program knows that the peer has closed or reset the connection.
    pub(super) knows_end: bool,
    /// Packets of this end that links are to lose.
    pub(super) losses: Losses,
    /// Signals ECE to the peer, if ordered.
    pub(super) ece: Option<wansan_split::Receiver>,
    /// Its own address and the peer's, for records.
    pub(crate) addresses: Option<[SocketAddr; 2]>,
}

impl End {
    /// The sequence number of the next byte that its program writes, and of the next byte that it expects.
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

    /// Data has arrived: signals ECE to the peer if the orders say so.
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

    /// Whether the program has read everything up to the peer's FIN.
    pub(super) fn has_ended(&self) -> bool {
        let receiver = self.connection.receiver();
        receiver.is_finished() && receiver.readable_bytes() == 0
    }

    /// When the next timer is due, or its program starts reading.
    pub(super) fn next_ns(&self, now_ns: u64) -> Option<u64> {
        let timer = self.connection.next_timer();
        match self.program {
            Program::Sink { from_ns } if from_ns > now_ns => {
                Some(timer.map_or(from_ns, |timer| timer.min(from_ns)))
            }
            _ => timer,
        }
    }

    /// Runs its program; returns whether it read or wrote anything.
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
