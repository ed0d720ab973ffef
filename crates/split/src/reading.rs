//! TCP state of one side of a flow.

/// Some fields of TCP_INFO (tcp(7), `struct tcp_info` of linux/tcp.h). Times are in ns; counts are since the
/// connection began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// Congestion window in segments.
    pub cwnd_packets: u32,
    /// Send MSS, in bytes without options.
    pub mss_bytes: u32,
    /// MSS advertised to the peer, in bytes without options.
    pub advertised_mss_bytes: u32,
    /// Smoothed round-trip time; 0 before the first measurement.
    pub srtt_ns: u64,
    /// Recent minimum round-trip time; 0 before the first measurement.
    pub min_rtt_ns: u64,
    /// Receiver-side round-trip time estimate; 0 before any data arrived. It is too long if the peer pauses.
    pub receiver_rtt_ns: u64,
    /// The window offered by the peer, in bytes.
    pub peer_window_bytes: u32,
    /// The window last offered to the peer, in bytes; `None` where the kernel does not report it.
    pub offered_window_bytes: Option<u32>,
    /// Pacing rate; `u64::MAX` if unlimited.
    pub pacing_bytes_per_s: u64,
    /// Bytes acknowledged by the peer.
    pub acked_bytes: u64,
    /// Bytes received in order.
    pub received_bytes: u64,
    /// Bytes written but not yet sent.
    pub unsent_bytes: u32,
    /// Time with data to send.
    pub busy_ns: u64,
    /// The part of the busy time in which the peer's receive window limited the sender.
    pub rwnd_limited_ns: u64,
    /// Whether ECN was negotiated.
    pub has_ecn: bool,
}

impl Reading {
    /// The rate at which the connection can send, in bytes per second: one window per round-trip time (Little's law),
    /// at most the pacing rate; 0 before the first measurement. Unlike a delivery rate, it does not depend on whether
    /// there is anything to send.
    #[must_use]
    pub fn sending_bytes_per_s(&self) -> u64 {
        let congestion = u64::from(self.cwnd_packets) * u64::from(self.mss_bytes);
        let window = congestion.min(self.peer_window_bytes.into());
        let round_trips = window.saturating_mul(1_000_000_000);
        let rate = round_trips.checked_div(self.srtt_ns).unwrap_or(0);
        rate.min(self.pacing_bytes_per_s)
    }
}

/// Use of a side's receive buffer, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// In-order data not yet read.
    pub unread_bytes: u64,
    /// Memory used by received data, including out-of-order segments.
    pub taken_bytes: u32,
    /// Buffer size, in memory.
    pub buffer_bytes: u32,
}
