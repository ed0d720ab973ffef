//! The minimum round trips of captured connections.

use foldhash::HashMap;

use wansan_trace::{ConnectionId, SessionId};

use crate::cell::Cell;
use crate::stall::Conversation;

/// Where an acknowledgement covers nothing but retransmissions, Linux measures by timestamps (RFC 7323 §4), in ticks of a
/// millisecond: its round trip may be too short by one tick.
const TICK_NS: u64 = 1_000_000;

/// Upper bounds of connections' minimum round trips, as an end's kernel has measured them.
///
/// The kernel keeps the minimum of the last minutes (`tcp_min_rtt_wlen`), including the time before the capture: a queue
/// that was never empty during the capture is part of every round trip in it.
#[derive(Debug, Default)]
pub(super) struct RoundTrips {
    most_ns: HashMap<(SessionId, ConnectionId), u64>,
}

impl RoundTrips {
    /// From the TCP_INFO samples of a capture. Programs' own records are left out: with a relay on the path, an end's TCP
    /// does not measure the whole of it.
    pub(super) fn of(cell: &Cell) -> RoundTrips {
        let mut round_trips = RoundTrips::default();
        let samples = cell.tcp.iter().filter(|_| cell.connection.is_none());
        for sample in samples.flat_map(|table| &table.rows).map(|row| &row.record) {
            if sample.min_rtt_ns > 0 {
                let key = (sample.session, sample.connection);
                let least_ns = round_trips.most_ns.entry(key).or_insert(u64::MAX);
                *least_ns = sample.min_rtt_ns.saturating_add(TICK_NS).min(*least_ns);
            }
        }
        round_trips
    }

    /// The minimum transit time of a packet to the target, and of one to the initiator: those of the packets, in
    /// proportion shorter if the kernel has measured a shorter round trip.
    pub(super) fn transits_ns(&self, conversation: &Conversation) -> [u64; 2] {
        let seen_ns = conversation.least_transits_ns();
        let round_trip_ns: u64 = seen_ns.iter().sum();
        let key = (conversation.session, conversation.connection);
        match self.most_ns.get(&key) {
            Some(most_ns) if *most_ns < round_trip_ns => seen_ns.map(|seen_ns| {
                let share = seen_ns as f64 / round_trip_ns as f64;
                (share * *most_ns as f64) as u64
            }),
            _ => seen_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stall::{Announced, Segment, Times};
    use crate::traffic::FlowDirection;

    #[test]
    fn a_shorter_round_trip_than_any_in_the_packets_is_divided_as_theirs() {
        let segment = |way, took_ns: u64| Segment {
            packet: 0,
            sent_ns: 1000,
            arrived_ns: Some(1000 + took_ns),
            way,
            place: 0,
            payload_bytes: 48,
            acked: 0,
            window: Announced::Exactly(1000),
            is_seen: true,
        };
        let conversation = Conversation {
            session: SessionId(1),
            connection: ConnectionId(0),
            segments: vec![
                segment(FlowDirection::ToTarget, 30),
                segment(FlowDirection::ToInitiator, 90),
            ],
            requests: Vec::new(),
            answers: Vec::new(),
            windows: Vec::new(),
            request_mss_bytes: 0,
            answer_mss_bytes: 0,
            times: Times::Seen,
        };
        let transits_ns = |most_ns: &[u64]| {
            let key = (SessionId(1), ConnectionId(0));
            let round_trips = RoundTrips {
                most_ns: most_ns.iter().map(|ns| (key, *ns)).collect(),
            };
            round_trips.transits_ns(&conversation)
        };
        assert_eq!(transits_ns(&[]), [30, 90]);
        assert_eq!(transits_ns(&[40]), [10, 30]);
        assert_eq!(transits_ns(&[400]), [30, 90]);
    }
}
