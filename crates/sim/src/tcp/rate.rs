//! The delivery rate (net/ipv4/tcp_rate.c; draft-cheng-iccrg-delivery-rate-estimation).

/// The delivery state when a packet was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Packets delivered by then.
    pub delivered: u32,
    /// When the last of them was delivered, in nanoseconds.
    pub delivered_ns: u64,
    /// When the first packet of the flight was sent, in nanoseconds.
    pub first_sent_ns: u64,
    /// Whether the sender was application-limited.
    pub is_app_limited: bool,
}

/// The rate sample of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// Packets delivered by the time the most recently sent of those that it acknowledges was sent.
    pub prior_delivered: u32,
    /// Packets delivered since; `None` if no rate is known.
    pub delivered: Option<u32>,
    /// The longer of the send interval and the acknowledgement interval, in microseconds.
    pub interval_us: u64,
    /// The RTT sample for congestion control, in microseconds, if there is one.
    pub rtt_us: Option<u64>,
    /// Packets newly acknowledged, cumulatively or selectively.
    pub acked_sacked: u32,
    /// Packets newly marked as lost.
    pub losses: u32,
    /// Packets in flight before the acknowledgement.
    pub prior_in_flight: u32,
    /// Whether the sender was application-limited during the sample.
    pub is_app_limited: bool,
    /// Whether the most recently sent of them was retransmitted.
    pub is_retransmit: bool,
    /// Whether the acknowledgement may be delayed (RFC 1122 §4.2.3.2), which makes its RTT sample unreliable.
    pub is_ack_delayed: bool,
}
