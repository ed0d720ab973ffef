//! A hand-made send buffer with room for one segment: the model's ends accept all data they are given.

use wansan_insight::stall::sender::stalls;
use wansan_insight::stall::{Cause, Conversation, Sampled, Times};
use wansan_insight::traffic::FlowDirection;
use wansan_trace::{ConnectionId, SessionId};

use super::by_hand::{data_in, segment};

const MS: u64 = 1_000_000;
const ONE_WAY_NS: u64 = 10 * MS;
const PDU_BYTES: u64 = 1072;

/// Two Data-In queued together; the second leaves on arrival of the first one's acknowledgement, which the receiver
/// delayed for 40 ms.
fn conversation(is_all_sent: bool) -> Conversation {
    let queued = |offset| data_in(100 * MS, offset);
    let (there, back) = (FlowDirection::ToInitiator, FlowDirection::ToTarget);
    Conversation {
        session: SessionId(1),
        connection: ConnectionId(0),
        segments: vec![
            segment(0, back, (80 * MS, ONE_WAY_NS), (0, 48), 0),
            segment(1, there, (100 * MS, ONE_WAY_NS), (0, PDU_BYTES), 48),
            segment(2, back, (150 * MS, ONE_WAY_NS), (48, 0), PDU_BYTES),
            segment(3, there, (160 * MS, ONE_WAY_NS), (PDU_BYTES, PDU_BYTES), 48),
        ],
        requests: Vec::new(),
        answers: vec![queued(0), queued(PDU_BYTES)],
        windows: vec![Sampled {
            at_ns: 120 * MS,
            way: there,
            window_bytes: 10 * 1448,
            is_all_sent,
        }],
        request_mss_bytes: 1448,
        answer_mss_bytes: 1448,
        times: Times::Seen,
    }
}

#[test]
fn what_tcp_did_not_have_waited_for_room() {
    let found = |is_all_sent| -> Vec<(Cause, u64)> {
        let found = stalls(&conversation(is_all_sent));
        found.iter().map(|s| (s.cause, s.cost_ns() / MS)).collect()
    };
    let delayed = (Cause::DelayedAck, 40);
    assert_eq!(found(true), [delayed, (Cause::SendBuffer, 20)]);
    // If TCP had the data already, Nagle's algorithm held it back.
    assert_eq!(found(false), [(Cause::NagleAgainstDelayedAck, 60)]);
}
