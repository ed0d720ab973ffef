//! Parts of hand-made conversations.

use wansan_insight::stall::{Announced, Queued, Segment};
use wansan_insight::traffic::FlowDirection;
use wansan_trace::TaskTag;

const DATA_IN: u8 = 0x25;

/// A segment that arrives after `one_way_ns`.
pub(crate) fn segment(
    packet: usize,
    way: FlowDirection,
    (sent_ns, one_way_ns): (u64, u64),
    (place, payload_bytes): (u64, u64),
    acked: u64,
) -> Segment {
    Segment {
        packet,
        sent_ns,
        arrived_ns: Some(sent_ns + one_way_ns),
        way,
        place,
        payload_bytes,
        acked,
        window: Announced::Exactly(1 << 20),
        is_seen: true,
    }
}

/// A Data-In of the first task, passed to TCP at `at_ns`.
pub(crate) fn data_in(at_ns: u64, offset: u64) -> Queued {
    Queued {
        at_ns,
        offset,
        task: TaskTag(1),
        opcode: DATA_IN,
    }
}
