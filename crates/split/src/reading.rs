//! What TCP says of one side of a flow.

/// Some of TCP_INFO (tcp(7), `struct tcp_info` of linux/tcp.h). Times are in ns, counts since the connection began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// Congestion window in segments.
    pub cwnd_packets: u32,
    /// Segments that are sent, in bytes without options.
    pub mss_bytes: u32,
    /// Segments that the peer may send, in bytes without options.
    pub advertised_mss_bytes: u32,
    /// Smoothed round-trip time; 0 before the first measurement.
    pub srtt_ns: u64,
    /// The shortest round-trip time of late; 0 before the first measurement.
    pub min_rtt_ns: u64,
    /// The round-trip time as this end knows it from what it receives; 0 before anything came. With a peer that
    /// pauses it is too long.
    pub receiver_rtt_ns: u64,
    /// The window that the peer offers, in bytes.
    pub peer_window_bytes: u32,
    /// The window that the peer was offered last, in bytes; `None` where the kernel does not tell it.
    pub offered_window_bytes: Option<u32>,
    /// The pacing rate; `u64::MAX`: unlimited.
    pub pacing_bytes_per_s: u64,
    /// Bytes that the peer has acknowledged.
    pub acked_bytes: u64,
    /// Bytes that have come in order.
    pub received_bytes: u64,
    /// Bytes that were written and not sent yet.
    pub unsent_bytes: u32,
    /// The time with data to send.
    pub busy_ns: u64,
    /// The part of it in which the peer's window stopped the sender.
    pub rwnd_limited_ns: u64,
    /// Whether ECN was negotiated.
    pub has_ecn: bool,
}

impl Reading {
    /// Bytes per second that the connection can send: its window in a round-trip time (Little's law),
    /// at most its pacing rate; 0 before the first measurement. Unlike a delivery rate it is the same
    /// whether or not there is something to send.
    #[must_use]
    pub fn sending_bytes_per_s(&self) -> u64 {
        let congestion = u64::from(self.cwnd_packets) * u64::from(self.mss_bytes);
        let window = congestion.min(self.peer_window_bytes.into());
        let round_trips = window.saturating_mul(1_000_000_000);
        let rate = round_trips.checked_div(self.srtt_ns).unwrap_or(0);
        rate.min(self.pacing_bytes_per_s)
    }
}

/// What is taken of a side's receive buffer, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Data that have arrived in order and were not read.
    pub unread_bytes: u64,
    /// Memory that they take, with segments which came before their turn.
    pub taken_bytes: u32,
    /// The buffer, in memory.
    pub buffer_bytes: u32,
}
