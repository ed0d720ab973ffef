//! The delivery rate (net/ipv4/tcp_rate.c; draft-cheng-iccrg-delivery-rate-estimation).

/// What was known of delivery when a packet was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Packets that had been delivered.
    pub delivered: u32,
    /// When the last of them was, in nanoseconds.
    pub delivered_ns: u64,
    /// When the first packet of the flight was sent, in nanoseconds.
    pub first_sent_ns: u64,
    /// Whether the application had not enough to fill the window.
    pub is_app_limited: bool,
}

/// A sample that an acknowledgement gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// Packets that had been delivered when the newest of those that it acknowledges was sent.
    pub prior_delivered: u32,
    /// Packets that were delivered since; `None` where no rate is known.
    pub delivered: Option<u32>,
    /// The longer of the time for sending and the time for acknowledging them, in microseconds.
    pub interval_us: u64,
    /// The round trip of a packet that was sent once, in microseconds.
    pub rtt_us: Option<u64>,
    /// Packets newly acknowledged, cumulatively or selectively.
    pub acked_sacked: u32,
    /// Packets newly marked as lost.
    pub losses: u32,
    /// Packets in flight before the acknowledgement.
    pub prior_in_flight: u32,
    /// Whether the sample is of a time in which the application had not enough.
    pub is_app_limited: bool,
    /// Whether the newest of them was retransmitted.
    pub is_retransmit: bool,
    /// Whether it acknowledges with a delay (RFC 1122 §4.2.3.2): no good sample of a round trip.
    pub is_ack_delayed: bool,
}
