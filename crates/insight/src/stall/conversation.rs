//! The segments and PDUs of one TCP connection that carries I/Os.

use wansan_trace::{ConnectionId, SessionId, TaskTag};

use crate::traffic::FlowDirection;
pub use crate::wire::Times;

/// One segment, as both ends saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Its row in `packet.parquet`, from 0.
    pub packet: usize,
    /// When it left its sender; of one that was not seen, when it had left at the latest.
    pub sent_ns: u64,
    /// When it reached its receiver; `None` if it was lost.
    pub arrived_ns: Option<u64>,
    /// Where it goes.
    pub way: FlowDirection,
    /// Where its payload begins in its direction's stream, from 0.
    pub place: u64,
    /// TCP payload, in bytes.
    pub payload_bytes: u64,
    /// Up to where it acknowledges the other direction's stream.
    pub acked: u64,
    /// The receive window that it announces.
    pub window: Announced,
    /// Whether it was seen itself; else what was behind it has told that there was one.
    pub is_seen: bool,
}

/// A receive window, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// So large.
    Exactly(u64),
    /// So large or larger: its scale (RFC 7323 §2.2) is not known.
    AtLeast(u64),
}

impl Segment {
    /// The place behind its payload.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.place + self.payload_bytes
    }
}

/// A PDU that its sender gave to TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    /// When.
    pub at_ns: u64,
    /// Where it begins in its direction's stream.
    pub offset: u64,
    /// Its Initiator Task Tag.
    pub task: TaskTag,
    /// Its opcode.
    pub opcode: u8,
}

/// A congestion window at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampled {
    /// When.
    pub at_ns: u64,
    /// Of the end that sends this way.
    pub way: FlowDirection,
    /// The window, in bytes.
    pub window_bytes: u64,
    /// Whether the send buffer held nothing that had not been sent.
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
    /// What the initiator gave to TCP, by place.
    pub requests: Vec<Queued>,
    /// What the target gave to TCP, by place.
    pub answers: Vec<Queued>,
    /// Congestion windows as TCP told them, in bytes, by time.
    pub windows: Vec<Sampled>,
    /// The longest payload of a segment that the initiator may send; 0 when it is not known.
    pub request_mss_bytes: u64,
    /// The longest payload of a segment that the target may send; 0 when it is not known.
    pub answer_mss_bytes: u64,
    /// Where the times at both ends are from.
    pub times: Times,
}

impl Conversation {
    /// What went that way.
    #[must_use]
    pub fn queued(&self, way: FlowDirection) -> &[Queued] {
        match way {
            FlowDirection::ToTarget => &self.requests,
            FlowDirection::ToInitiator => &self.answers,
        }
    }

    /// The PDU in which a byte of that way's stream stands.
    #[must_use]
    pub fn pdu_at(&self, way: FlowDirection, place: u64) -> Option<&Queued> {
        let queued = self.queued(way);
        let after = queued.partition_point(|pdu| pdu.offset <= place);
        queued.get(after.checked_sub(1)?)
    }

    /// The longest payload of a segment that way: as TCP says, or as was seen.
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

    /// The minimum time of a packet to the target, and of one back.
    #[must_use]
    pub fn least_round_trip_ns(&self) -> u64 {
        self.least_transit_ns(FlowDirection::ToTarget)
            + self.least_transit_ns(FlowDirection::ToInitiator)
    }

    /// The minimum time of a packet in that direction.
    #[must_use]
    pub fn least_transit_ns(&self, way: FlowDirection) -> u64 {
        let segments = self.segments.iter().filter(|segment| segment.way == way);
        segments
            .filter_map(|segment| Some(segment.arrived_ns?.saturating_sub(segment.sent_ns)))
            .min()
            .unwrap_or(0)
    }
}
