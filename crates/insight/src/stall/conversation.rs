//! The segments and PDUs of one TCP connection that carries I/Os.

use wansan_trace::{ConnectionId, SessionId, TaskTag};

use crate::traffic::FlowDirection;
pub use crate::wire::Times;

/// One segment, as both ends saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Its row in `packet.parquet`, from 0.
    pub packet: usize,
    /// When it left its sender; for one that was not captured, the latest time at which it can have left.
    pub sent_ns: u64,
    /// When it reached its receiver; `None` if it was lost.
    pub arrived_ns: Option<u64>,
    /// Its direction.
    pub way: FlowDirection,
    /// The position of its payload in its direction's stream, from 0.
    pub place: u64,
    /// TCP payload, in bytes.
    pub payload_bytes: u64,
    /// The position up to which it acknowledges the other direction's stream.
    pub acked: u64,
    /// The receive window that it announces.
    pub window: Announced,
    /// Whether it was captured itself; otherwise later segments show that there was one.
    pub is_seen: bool,
}

/// A receive window, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// Exactly this size.
    Exactly(u64),
    /// This size or larger: its scale (RFC 7323 §2.2) is not known.
    AtLeast(u64),
}

impl Segment {
    /// The stream position after its payload.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.place + self.payload_bytes
    }
}

/// A PDU that its sender passed to TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    /// When it was passed.
    pub at_ns: u64,
    /// The position of its first byte in its direction's stream.
    pub offset: u64,
    /// Its Initiator Task Tag.
    pub task: TaskTag,
    /// Its opcode.
    pub opcode: u8,
}

/// A sampled congestion window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampled {
    /// When it was sampled.
    pub at_ns: u64,
    /// The direction whose sender has this window.
    pub way: FlowDirection,
    /// The window, in bytes.
    pub window_bytes: u64,
    /// Whether the send buffer held no unsent data.
    pub is_all_sent: bool,
}

/// One connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// The session.
    pub session: SessionId,
    /// The connection.
    pub connection: ConnectionId,
    /// Its segments, in the order in which they were sent.
    pub segments: Vec<Segment>,
    /// PDUs that the initiator passed to TCP, by stream position.
    pub requests: Vec<Queued>,
    /// PDUs that the target passed to TCP, by stream position.
    pub answers: Vec<Queued>,
    /// Congestion windows as TCP reported them, in order of time.
    pub windows: Vec<Sampled>,
    /// The longest payload of a segment that the initiator may send; 0 when it is not known.
    pub request_mss_bytes: u64,
    /// The longest payload of a segment that the target may send; 0 when it is not known.
    pub answer_mss_bytes: u64,
    /// Where the times at both ends come from.
    pub times: Times,
}

impl Conversation {
    /// The PDUs passed to TCP in that direction.
    #[must_use]
    pub fn queued(&self, way: FlowDirection) -> &[Queued] {
        match way {
            FlowDirection::ToTarget => &self.requests,
            FlowDirection::ToInitiator => &self.answers,
        }
    }

    /// The PDU that contains a byte of that direction's stream.
    #[must_use]
    pub fn pdu_at(&self, way: FlowDirection, place: u64) -> Option<&Queued> {
        let queued = self.queued(way);
        let after = queued.partition_point(|pdu| pdu.offset <= place);
        queued.get(after.checked_sub(1)?)
    }

    /// The longest payload of a segment in that direction: as TCP reports it, or else the longest one seen.
    #[must_use]
    pub fn mss_bytes(&self, way: FlowDirection) -> u64 {
        let known = match way {
            FlowDirection::ToTarget => self.request_mss_bytes,
            FlowDirection::ToInitiator => self.answer_mss_bytes,
        };
        if known > 0 {
            return known;
        }
        let segments = self.segments.iter().filter(|segment| segment.way == way);
        let longest = segments.map(|segment| segment.payload_bytes).max();
        longest.unwrap_or(0)
    }

    /// The minimum transit time of a packet to the target, and of one to the initiator.
    #[must_use]
    pub fn least_transits_ns(&self) -> [u64; 2] {
        least_transits_ns(&self.segments)
    }
}

/// The minimum transit time of a segment to the target, and of one to the initiator; 0 if none arrived.
pub(super) fn least_transits_ns(segments: &[Segment]) -> [u64; 2] {
    let mut least_ns = [None; 2];
    for segment in segments {
        if let Some(arrived_ns) = segment.arrived_ns {
            let took_ns = arrived_ns.saturating_sub(segment.sent_ns);
            let least_ns = least_ns[segment.way as usize].get_or_insert(took_ns);
            *least_ns = took_ns.min(*least_ns);
        }
    }
    least_ns.map(|least_ns| least_ns.unwrap_or(0))
}
