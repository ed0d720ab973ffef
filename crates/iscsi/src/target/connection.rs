//! One connection of a target's session: its two byte streams, its StatSN, its queued work.

use std::collections::VecDeque;

use wansan_trace::event::PduDirection;
use wansan_trace::{ConnectionId, Instant, Recorder, SessionId, TaskTag};

use super::kept::Kept;
use super::memory::Share;
use super::meter::ConnectionMeter;
use crate::keys::ConnectionParameters;
use crate::record::{keeps_pdu, pdu_record};
use crate::sequence::Sn;
use crate::text::exchange::Responder;
use crate::wire::{Bhs, Receiver, Transmitter};

/// No read is started while this much is unsent: enough to keep a fast path busy between two system calls.
const SEND_BACKLOG_BYTES: usize = 1024 * 1024;

/// No read is started while this much is outstanding at stores: enough large reads to keep a device busy.
const STORE_BACKLOG_BYTES: usize = 4 * 1024 * 1024;

/// No more input is taken while this much is unsent: a peer that sends requests and never reads is no longer served
/// instead of filling the memory.
const SEND_LIMIT_BYTES: usize = 4 * 1024 * 1024;

/// One connection in full feature phase.
///
/// Input goes through [`Connection::space`] and [`Connection::filled`], output through [`Connection::pending`] and
/// [`Connection::sent`]; the session handles the rest.
#[derive(Debug)]
pub struct Connection {
    pub(super) receiver: Receiver,
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
    pub(super) stat_sn: Sn,
    /// ExpStatSN of its first Login Request.
    pub(super) login_exp_stat_sn: Sn,
    /// The part of the session's share of memory charged for this connection's future output.
    charged_bytes: usize,
    /// The target's memory does not cover it.
    pub(super) short: bool,
    /// Tasks queued for a store, oldest first.
    pub(super) ready: VecDeque<TaskTag>,
    pub(super) text: Responder,
    /// A ping from the target is unanswered.
    pub(super) pinged: bool,
    /// It is about to close: input is ignored.
    pub(super) ended: bool,
    /// It is logged out, and the response waits for stores: input is ignored.
    pub(super) leaving: bool,
    /// Responses that the initiator has not acknowledged; `None` at error recovery level 0.
    pub(super) kept: Option<Kept>,
    /// Its socket is gone, and its tasks wait until then to move to another connection.
    pub(super) lost_until: Option<Instant>,
    pub(super) meter: ConnectionMeter,
}

impl Connection {
    /// A connection that has just logged in, with the buffers of its login.
    pub(super) fn new(
        id: ConnectionId,
        session: SessionId,
        receiver: Receiver,
        transmitter: Transmitter,
        parameters: ConnectionParameters,
        (stat_sn, login_exp_stat_sn): (Sn, Sn),
    ) -> Self {
        Connection {
            receiver,
            link: Link {
                id,
                session,
                transmitter,
                parameters,
                stat_sn,
                login_exp_stat_sn,
                charged_bytes: 0,
                short: false,
                ready: VecDeque::new(),
                text: Responder::default(),
                pinged: false,
                ended: false,
                leaving: false,
                kept: None,
                lost_until: None,
                meter: ConnectionMeter::default(),
            },
        }
    }

    /// Its socket is gone; its tasks are kept until `until`.
    pub(super) fn lose(&mut self, until: Instant) {
        self.receiver = Receiver::new();
        self.link.transmitter = Transmitter::new();
        self.link.ready.clear();
        self.link.text = Responder::default();
        self.link.lost_until = Some(until);
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

    /// `bytes` of [`Connection::space`] were read from the socket.
    pub fn filled(&mut self, bytes: usize) {
        self.link.meter.received_bytes += bytes as u64;
        self.receiver.filled(bytes);
    }

    /// The minimum number of missing bytes of the PDU being received: before they arrive, none of it is handled.
    #[must_use]
    pub fn missing_bytes(&self) -> usize {
        self.receiver.missing_bytes()
    }

    /// Bytes for the socket: all pending ones, or those of one PDU
    /// ([`SessionConfig::join_sends`](super::SessionConfig::join_sends)).
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        self.link.transmitter.next_write()
    }

    /// The socket accepted `bytes` of [`Connection::pending`].
    pub fn sent(&mut self, bytes: usize) {
        let meter = &mut self.link.meter;
        let pending_bytes = self.link.transmitter.pending().len();
        meter.send_queue_bytes_max = meter.send_queue_bytes_max.max(pending_bytes);
        meter.sent_bytes += bytes as u64;
        self.link.transmitter.sent(bytes);
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

    /// Its counters.
    #[must_use]
    pub fn meter(&self) -> ConnectionMeter {
        self.link.meter
    }

    /// Whether more may be read from the socket; false while too much is unsent.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.link.hears()
    }
}

impl Link {
    pub(super) fn hears(&self) -> bool {
        let pending_bytes = self.transmitter.pending().len();
        !self.ended
            && !self.leaving
            && !self.is_lost()
            && (pending_bytes == 0 || !self.short && pending_bytes < SEND_LIMIT_BYTES)
    }

    /// Whether its socket is gone while its tasks are kept.
    pub(super) fn is_lost(&self) -> bool {
        self.lost_until.is_some()
    }

    /// Whether another read may be started while `at_store_bytes` are outstanding at stores.
    pub(super) fn has_room(&self, at_store_bytes: usize) -> bool {
        let unsent_bytes = self.transmitter.pending().len();
        let is_bounded = unsent_bytes < SEND_BACKLOG_BYTES && at_store_bytes < STORE_BACKLOG_BYTES;
        !self.is_lost() && (unsent_bytes + at_store_bytes == 0 || !self.short && is_bounded)
    }

    /// Updates the charge for this connection's output, while `at_store_bytes` are outstanding at stores; returns
    /// whether the target's memory covers it.
    pub(super) fn settle(&mut self, share: &mut Share, at_store_bytes: usize) -> bool {
        if self.short {
            self.transmitter.shrink();
        }
        let held_bytes = self.transmitter.buffer_bytes() + at_store_bytes;
        if held_bytes == self.charged_bytes && !self.short {
            return true;
        }
        if held_bytes > self.charged_bytes {
            self.short = !share.take(held_bytes - self.charged_bytes);
        } else {
            share.give(self.charged_bytes - held_bytes);
            self.short = false;
        }
        if !self.short {
            self.charged_bytes = held_bytes;
        }
        !self.short
    }

    /// Releases the connection's charge when it is gone.
    pub(super) fn discharge(&mut self, share: &mut Share) {
        share.give(std::mem::take(&mut self.charged_bytes));
    }

    /// Takes the StatSN for a PDU with a status, and increments it.
    pub(super) fn take_stat_sn(&mut self) -> Sn {
        let stat_sn = self.stat_sn;
        self.stat_sn = stat_sn.next();
        stat_sn
    }

    /// Queues a PDU for sending.
    pub(super) fn push(&mut self, bhs: &Bhs, data: &[u8], now: Instant, trace: &mut Recorder) {
        if self.is_lost() {
            return;
        }
        let offset = self.transmitter.queued_end();
        self.transmitter.push(bhs, data);
        self.record(bhs, data.len(), offset, now, trace);
    }

    /// Records a PDU queued at `offset` of the stream.
    pub(super) fn record(
        &self,
        bhs: &Bhs,
        data_bytes: usize,
        offset: u64,
        now: Instant,
        trace: &mut Recorder,
    ) {
        if keeps_pdu(trace, bhs) {
            let mut record =
                pdu_record(now, self.session, self.id, PduDirection::Sent, bhs, offset);
            record.data_bytes = data_bytes as u32;
            trace.pdu(record);
        }
    }
}
