//! Both halves of one end of a connection, and its handshake.

use wansan_path::Ecn;

use crate::tcp::congestion::Law;
use crate::tcp::receive::{Opening, ReceiveConfig, Receiver};
use crate::tcp::segment::Segment;
use crate::tcp::send::{SendConfig, Sender};

/// Time until the first SYN is retransmitted (RFC 6298 §2.1).
const SYN_TIMEOUT_NS: u64 = 1_000_000_000;

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    opening: Opening,
    sender: Sender,
    receiver: Receiver,
    state: Handshake,
    /// When the SYN was first sent, and when it is next due.
    syn_ns: u64,
    syn_due_ns: Option<u64>,
    syns: u32,
    wants_ecn: bool,
    /// Whether the final ACK of the handshake is still to be sent.
    owes_last: bool,
    /// Whether an RST is still to be sent, and whether one was received.
    owes_reset: bool,
    was_reset: bool,
}

/// Progress of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handshake {
    /// Nothing has been received: the passive end listens, the active one sends its SYN.
    Begun,
    /// The passive end has received the SYN, and answers it.
    Answered,
    Done,
    /// Only RSTs are sent: this end or the peer has aborted the connection.
    Closed,
}

impl Connection {
    /// An end that sends the SYN at `now_ns`, or waits for one.
    #[must_use]
    pub fn new(
        opening: Opening,
        send: SendConfig,
        receive: &ReceiveConfig,
        law: Law,
        now_ns: u64,
    ) -> Connection {
        Connection {
            opening,
            sender: Sender::new(send, law),
            receiver: Receiver::new(receive, opening),
            state: Handshake::Begun,
            syn_ns: now_ns,
            syn_due_ns: (opening == Opening::Active).then_some(now_ns),
            syns: 0,
            wants_ecn: send.ecn,
            owes_last: false,
            owes_reset: false,
            was_reset: false,
        }
    }

    /// The sending half.
    #[must_use]
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// The receiving half.
    #[must_use]
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    pub(crate) fn sender_mut(&mut self) -> &mut Sender {
        &mut self.sender
    }

    pub(crate) fn receiver_mut(&mut self) -> &mut Receiver {
        &mut self.receiver
    }

    /// Whether the handshake is done.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.state == Handshake::Done
    }

    /// Writes for the program; returns how many bytes there was room for.
    pub fn write(&mut self, now_ns: u64, bytes: u64) -> u64 {
        self.sender.write(now_ns, bytes)
    }

    /// Reads for the program; returns how many bytes there were.
    pub fn read(&mut self, now_ns: u64, bytes: u64) -> u64 {
        self.receiver.read(now_ns, bytes)
    }

    /// Ends writing: a FIN follows.
    pub fn shut(&mut self) {
        self.sender.shut();
    }

    /// Aborts the connection (RFC 9293 §3.10.5), with an RST to the peer if it was established.
    pub fn abort(&mut self) {
        self.owes_reset = self.state == Handshake::Done;
        self.close();
    }

    fn close(&mut self) {
        self.state = Handshake::Closed;
        self.syn_due_ns = None;
    }

    /// Whether the peer has aborted the connection.
    #[must_use]
    pub fn was_reset(&self) -> bool {
        self.was_reset
    }

    /// Processes a segment that arrives in a packet with this ECN codepoint.
    pub fn on_segment(&mut self, now_ns: u64, segment: &Segment, ecn: Ecn) {
        if segment.rst {
            self.was_reset |= self.state != Handshake::Closed;
            self.close();
            return;
        }
        if self.state == Handshake::Closed {
            // The connection no longer exists (RFC 9293 §3.10.7.1).
            self.owes_reset = true;
            return;
        }
        if segment.syn {
            self.on_syn(now_ns, segment, ecn);
            return;
        }
        if self.state == Handshake::Answered && segment.ack >= 1 {
            self.establish(now_ns, segment);
        }
        self.sender.on_segment(now_ns, segment);
        let (srtt_us, rto_ns) = self.sender.round_trip();
        self.receiver
            .set_round_trip((srtt_us > 0).then_some(srtt_us), rto_ns);
        self.receiver.on_segment(now_ns, segment, ecn);
    }

    fn on_syn(&mut self, now_ns: u64, segment: &Segment, ecn: Ecn) {
        match (self.opening, self.state) {
            (Opening::Passive, Handshake::Begun) => {
                self.receiver.on_segment(now_ns, segment, ecn);
                self.state = Handshake::Answered;
                self.syn_due_ns = Some(now_ns);
            }
            (Opening::Active, Handshake::Begun) => {
                self.receiver.on_segment(now_ns, segment, ecn);
                self.establish(now_ns, segment);
                self.owes_last = true;
            }
            // The SYN was retransmitted, as its answer was lost.
            (Opening::Passive, Handshake::Answered) => self.syn_due_ns = Some(now_ns),
            _ => self.receiver.acknowledge_now(now_ns),
        }
    }

    fn establish(&mut self, now_ns: u64, segment: &Segment) {
        self.state = Handshake::Done;
        self.syn_due_ns = None;
        // A retransmitted SYN gives no RTT sample (Karn).
        let rtt_us = (self.syns == 1).then(|| (now_ns - self.syn_ns) / 1_000);
        let uses_ecn = self.wants_ecn && self.receiver.uses_ecn();
        self.sender
            .establish(now_ns, segment.window_bytes, rtt_us, uses_ecn);
    }

    /// When to call [`on_timer`](Self::on_timer), then [`transmit`](Self::transmit), if no segment arrives before.
    #[must_use]
    pub fn next_timer(&self) -> Option<u64> {
        if self.state == Handshake::Closed {
            return None;
        }
        let times = [
            self.syn_due_ns,
            self.sender.next_timer(),
            self.receiver.acknowledge_at(),
        ];
        times.into_iter().flatten().min()
    }

    /// Runs the timers that are due.
    pub fn on_timer(&mut self, now_ns: u64) {
        if self.state != Handshake::Closed {
            self.sender.on_timer(now_ns);
        }
    }

    /// The next packet that may be sent now, and its ECN codepoint; call until there is none.
    pub fn transmit(&mut self, now_ns: u64) -> Option<(Segment, Ecn)> {
        if self.state == Handshake::Closed {
            let reset = Segment {
                seq: self.sender.window().next,
                rst: true,
                ..Segment::default()
            };
            return std::mem::take(&mut self.owes_reset).then_some((reset, Ecn::NotCapable));
        }
        if self.state != Handshake::Done {
            return self.transmit_syn(now_ns);
        }
        // The handshake completes before any data is sent.
        if std::mem::take(&mut self.owes_last) {
            return Some((self.acknowledgement(now_ns), Ecn::NotCapable));
        }
        let next = self.sender.window().next;
        if let Some(mut segment) = self.sender.transmit(now_ns) {
            self.receiver.fill(now_ns, &mut segment);
            self.receiver.on_sent_data(now_ns);
            // Retransmissions are not ECN-capable (RFC 3168 §6.1.5).
            let capable = self.sender.uses_ecn() && segment.bytes > 0 && segment.seq >= next;
            let ecn = if capable {
                Ecn::Capable0
            } else {
                Ecn::NotCapable
            };
            return Some((segment, ecn));
        }
        let is_due = |at_ns: u64| at_ns <= now_ns;
        if !self.receiver.acknowledge_at().is_some_and(is_due) {
            return None;
        }
        Some((self.acknowledgement(now_ns), Ecn::NotCapable))
    }

    /// A segment without data.
    fn acknowledgement(&mut self, now_ns: u64) -> Segment {
        let mut segment = Segment {
            seq: self.sender.window().next,
            ..Segment::default()
        };
        self.receiver.fill(now_ns, &mut segment);
        segment
    }

    fn transmit_syn(&mut self, now_ns: u64) -> Option<(Segment, Ecn)> {
        if self.syn_due_ns.is_none_or(|due_ns| due_ns > now_ns) {
            return None;
        }
        if self.syns == 0 {
            self.syn_ns = now_ns;
        }
        self.syn_due_ns = Some(now_ns + (SYN_TIMEOUT_NS << self.syns.min(6)));
        self.syns += 1;
        let is_answer = self.state == Handshake::Answered;
        let mut segment = Segment {
            syn: true,
            // RFC 3168 §6.1.1: the SYN requests ECN with both flags, the SYN-ACK accepts with ECE.
            ece: self.wants_ecn && (!is_answer || self.receiver.uses_ecn()),
            cwr: self.wants_ecn && !is_answer,
            ..Segment::default()
        };
        self.receiver.fill(now_ns, &mut segment);
        Some((segment, Ecn::NotCapable))
    }
}
