//! A hand-made capture without a handshake in which all acknowledgements were delayed: the round trip is overestimated,
//! so that acknowledgements seem to reach the sender after the segments that they triggered.

use wansan_insight::stall::sender::stalls;
use wansan_insight::stall::{Cause, Conversation, Segment, Times};
use wansan_insight::traffic::FlowDirection;
use wansan_trace::{ConnectionId, SessionId};

use super::by_hand::{data_in, segment};

const MS: u64 = 1_000_000;
/// The assumed one-way delay.
const ONE_WAY_NS: u64 = 60 * MS;
const PDU_BYTES: u64 = 1448;

/// The first of two Data-In is lost. It is retransmitted at `again_ms`, and the acknowledgement that shows the second
/// one's arrival seems to arrive at `heard_ms`.
fn told(second_ms: u64, heard_ms: u64, again_ms: u64, times: Times) -> Option<Cause> {
    let queued = |offset| data_in(1000 * MS, offset);
    let (there, back) = (FlowDirection::ToInitiator, FlowDirection::ToTarget);
    let heard_ns = heard_ms * MS - ONE_WAY_NS;
    let mut segments = vec![
        segment(0, back, (900 * MS, ONE_WAY_NS), (0, 48), 0),
        Segment {
            arrived_ns: None,
            ..segment(1, there, (1000 * MS, ONE_WAY_NS), (0, PDU_BYTES), 48)
        },
        segment(
            2,
            there,
            (second_ms * MS, ONE_WAY_NS),
            (PDU_BYTES, PDU_BYTES),
            48,
        ),
        segment(3, back, (heard_ns, ONE_WAY_NS), (48, 0), 0),
        segment(4, there, (again_ms * MS, ONE_WAY_NS), (0, PDU_BYTES), 48),
    ];
    segments.sort_by_key(|segment| segment.sent_ns);
    let conversation = Conversation {
        session: SessionId(1),
        connection: ConnectionId(0),
        segments,
        requests: Vec::new(),
        answers: vec![queued(0), queued(PDU_BYTES)],
        windows: Vec::new(),
        request_mss_bytes: 1448,
        answer_mss_bytes: 1448,
        times,
    };
    let found = stalls(&conversation);
    assert!(found.len() <= 1, "{found:?}");
    found.first().map(|stall| stall.cause)
}

#[test]
fn what_no_timer_is_short_enough_for_was_heard_of() {
    let cause = told(1001, 1125, 1030, Times::ByAcknowledgements);
    assert_eq!(cause, Some(Cause::FastRetransmit));
}

#[test]
fn a_timer_is_not_told_where_what_was_heard_may_have_come_before() {
    let cause = |times| told(1150, 1315, 1220, times);
    assert_eq!(cause(Times::ByAcknowledgements), None);
    let late = |times| told(1001, 1321, 1220, times);
    assert_eq!(late(Times::ByAcknowledgements), None);
    assert_eq!(late(Times::ByHandshake), Some(Cause::RetransmissionTimeout));
}

#[test]
fn a_timer_is_told_where_nothing_can_have_come_before() {
    let cause = told(1001, 1121, 1500, Times::ByAcknowledgements);
    assert_eq!(cause, Some(Cause::RetransmissionTimeout));
}
