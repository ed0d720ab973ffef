//! Segments in flight.

use wansan_insight::stall::{Announced, Segment};
use wansan_insight::traffic::FlowDirection;

/// One direction: a delay behind a link that serialises segments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lane {
    pub(crate) delay_ns: u64,
    pub(crate) ns_per_byte: f64,
    busy_until_ns: u64,
}

/// Bytes of headers that the link sends with each segment.
const HEADER_BYTES: u64 = 66;

impl Lane {
    pub(crate) fn new(delay_ns: u64, ns_per_byte: f64) -> Lane {
        Lane {
            delay_ns,
            ns_per_byte,
            busy_until_ns: 0,
        }
    }

    /// The arrival time of a segment sent at `now_ns`.
    pub(crate) fn carry(&mut self, now_ns: u64, payload_bytes: u64) -> u64 {
        let bytes = (payload_bytes + HEADER_BYTES) as f64;
        let begins_ns = self.busy_until_ns.max(now_ns);
        self.busy_until_ns = begins_ns + (bytes * self.ns_per_byte) as u64;
        self.busy_until_ns + self.delay_ns
    }
}

/// A segment as an end sends it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing {
    pub(crate) way: FlowDirection,
    pub(crate) place: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) acked: u64,
    pub(crate) window_bytes: u64,
    /// Arrival times of the newest and the oldest data whose acknowledgement was owed, if one was.
    pub(crate) kept_since_ns: Option<(u64, u64)>,
    /// Whether it is a window update, sent because the application has read data.
    pub(crate) is_update: bool,
}

impl Outgoing {
    pub(crate) fn seen(&self, packet: usize, sent_ns: u64, arrived_ns: Option<u64>) -> Segment {
        Segment {
            packet,
            sent_ns,
            arrived_ns,
            way: self.way,
            place: self.place,
            payload_bytes: self.payload_bytes,
            acked: self.acked,
            window: Announced::Exactly(self.window_bytes),
            is_seen: true,
        }
    }
}
