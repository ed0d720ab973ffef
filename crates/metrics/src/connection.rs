//! Metrics of a TCP connection, as rows of families: several programs serve them, each under a prefix and with
//! labels of its own.

use wansan_trace::event::Tcp;

use crate::family;

/// A metric of a connection: the end of its family's name, its help, its value; `None` where it has none.
pub type Row = family::Row<Tcp, Option<f64>>;

/// Prometheus counts in seconds.
fn seconds(ns: u64) -> Option<f64> {
    Some(ns as f64 / 1e9)
}

/// Congestion window.
pub const CWND: Row = ("cwnd_packets", "Congestion window in segments", |tcp| {
    Some(tcp.cwnd_packets.into())
});
/// Smoothed round-trip time.
pub const ROUND_TRIP: Row = ("round_trip_seconds", "Smoothed round-trip time", |tcp| {
    seconds(tcp.srtt_ns)
});
/// Minimum round-trip time.
pub const ROUND_TRIP_MIN: Row = (
    "round_trip_min_seconds",
    "Minimum round-trip time of the last minutes",
    |tcp| seconds(tcp.min_rtt_ns),
);
/// Window advertised by the peer.
pub const RWND: Row = ("rwnd_bytes", "Window advertised by the peer", |tcp| {
    Some(tcp.rwnd_bytes.into())
});
/// Delivery rate.
pub const DELIVERY: Row = (
    "delivery_bytes_per_second",
    "Delivery rate as last measured",
    |tcp| Some(tcp.delivery_bytes_per_s as f64),
);

/// Time with data to send.
pub const BUSY: Row = ("busy_seconds", "Time with data to send", |tcp| {
    seconds(tcp.busy_ns)
});
/// Time limited by the peer's receive window.
pub const RWND_LIMITED: Row = (
    "rwnd_limited_seconds",
    "Part of it limited by the peer's receive window",
    |tcp| seconds(tcp.rwnd_limited_ns),
);
/// Time limited by a full send buffer.
pub const SNDBUF_LIMITED: Row = (
    "sndbuf_limited_seconds",
    "Part of it limited by a full send buffer",
    |tcp| seconds(tcp.sndbuf_limited_ns),
);
/// Segments retransmitted.
pub const RETRANSMITS: Row = ("retransmits", "Segments retransmitted", |tcp| {
    Some(tcp.retransmits.into())
});
/// Segments acknowledged with ECE.
pub const DELIVERED_CE: Row = (
    "delivered_ce",
    "Segments that the peer acknowledged with ECE",
    |tcp| Some(tcp.delivered_ce.into()),
);
