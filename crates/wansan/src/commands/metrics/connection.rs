//! What TCP says of a connection, as rows of families: several commands tell of connections, each by
//! names and labels of its own.

use wansan_trace::event::Tcp;

use super::family;

/// The end of a family's name; `None` where there is no value.
pub(in crate::commands) type Row = family::Row<Tcp, Option<f64>>;

/// What is counted in nanoseconds is told in seconds.
fn seconds(ns: u64) -> Option<f64> {
    Some(ns as f64 / 1e9)
}

pub(in crate::commands) const CWND: Row =
    ("cwnd_packets", "Congestion window in segments", |tcp| {
        Some(tcp.cwnd_packets.into())
    });
pub(in crate::commands) const ROUND_TRIP: Row =
    ("round_trip_seconds", "Smoothed round-trip time", |tcp| {
        seconds(tcp.srtt_ns)
    });
pub(in crate::commands) const ROUND_TRIP_MIN: Row = (
    "round_trip_min_seconds",
    "Minimum round-trip time of the last minutes",
    |tcp| seconds(tcp.min_rtt_ns),
);
pub(in crate::commands) const RWND: Row = ("rwnd_bytes", "Window advertised by the peer", |tcp| {
    Some(tcp.rwnd_bytes.into())
});
pub(in crate::commands) const DELIVERY: Row = (
    "delivery_bytes_per_second",
    "Delivery rate as last measured",
    |tcp| Some(tcp.delivery_bytes_per_s as f64),
);

pub(in crate::commands) const BUSY: Row = ("busy_seconds", "Time with data to send", |tcp| {
    seconds(tcp.busy_ns)
});
pub(in crate::commands) const RWND_LIMITED: Row = (
    "rwnd_limited_seconds",
    "Part of it limited by the peer's receive window",
    |tcp| seconds(tcp.rwnd_limited_ns),
);
pub(in crate::commands) const SNDBUF_LIMITED: Row = (
    "sndbuf_limited_seconds",
    "Part of it limited by a full send buffer",
    |tcp| seconds(tcp.sndbuf_limited_ns),
);
pub(in crate::commands) const RETRANSMITS: Row = ("retransmits", "Segments retransmitted", |tcp| {
    Some(tcp.retransmits.into())
});
pub(in crate::commands) const DELIVERED_CE: Row = (
    "delivered_ce",
    "Segments that the peer acknowledged with ECE",
    |tcp| Some(tcp.delivered_ce.into()),
);
