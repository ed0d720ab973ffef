//! The congestion window, and the laws that change it.
//!
//! The split is that of `struct tcp_congestion_ops`: the sender decides when a law is asked, a law decides how
//! large the window becomes.

use super::rate::Sample;

/// No threshold yet: slow start goes on until the first loss (TCP_INFINITE_SSTHRESH).
pub const INFINITE: u32 = 0x7fff_ffff;

/// The window that a connection begins with, in packets (RFC 6928).
pub const INITIAL_WINDOW: u32 = 10;

/// States of a sender (`enum tcp_ca_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum State {
    /// Nothing is wrong.
    #[default]
    Open,
    /// Some acknowledgements are duplicates or have SACK blocks.
    Disorder,
    /// The window shrinks for a mark or for a full device.
    Cwr,
    /// Fast retransmission is under way.
    Recovery,
    /// The retransmission timer has run out.
    Loss,
}

/// What happens to a window (`enum tcp_ca_event`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The first transmission when nothing was in flight.
    TransmitStart,
    /// The window starts again after an idle time.
    Restart,
    /// The end of a reduction.
    CompleteCwr,
    /// The timer has run out.
    Loss,
}

/// The congestion window of a connection, and what laws know of it. Counts are packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The window.
    pub cwnd: u32,
    /// Acknowledged packets that have not yet made it larger (`snd_cwnd_cnt`).
    pub count: u32,
    /// Below it, slow start.
    pub ssthresh: u32,
    /// It never is larger.
    pub clamp: u32,
    /// What it was before the last reduction.
    pub prior: u32,
    /// Whether the window, and not the application, held the last flight (`tcp_is_cwnd_limited`).
    pub is_limited: bool,
    /// The state of the sender.
    pub state: State,
    /// Data bytes of a packet.
    pub mss: u32,
    /// The smoothed round trip, in microseconds; 0 before the first sample.
    pub srtt_us: u64,
    /// The least round trip of the last five minutes (`tcp_min_rtt`), in microseconds.
    pub min_rtt_us: Option<u64>,
    /// Packets in flight.
    pub in_flight: u32,
    /// Packets that were ever delivered.
    pub delivered: u32,
    /// The first sequence number that is not acknowledged.
    pub una: u64,
    /// The next to be sent.
    pub next: u64,
    /// At most so many bytes are sent in a second, where packets are paced.
    pub pacing_bytes_per_s: Option<u64>,
}

/// What has come with an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Acked {
    /// Now, in nanoseconds.
    pub now_ns: u64,
    /// Packets that are newly acknowledged cumulatively.
    pub packets: u32,
    /// Its rate sample.
    pub sample: Sample,
}
