//! The congestion window, and the algorithms that change it.
//!
//! The interface is that of `struct tcp_congestion_ops`: the sender decides when to call an algorithm, and the
//! algorithm sets the size of the window. [`Law`] is an enum of all algorithms; [`pacing`] is the pacing rate for those
//! that do not set their own.

pub mod bbr;
pub mod cubic;
pub mod highspeed;
mod law;
pub mod loaded;
pub mod pacing;
pub mod reno;
pub mod scalable;
pub mod vegas;
pub mod westwood;
mod windowed_max;

#[cfg(test)]
mod flow;

pub use law::Law;

use super::rate::Sample;

/// Initial threshold: slow start lasts until the first loss (TCP_INFINITE_SSTHRESH).
pub const INFINITE: u32 = 0x7fff_ffff;

/// The initial window, in packets (RFC 6928).
pub const INITIAL_WINDOW: u32 = 10;

/// Congestion states of a sender (`enum tcp_ca_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum State {
    /// Normal operation.
    #[default]
    Open,
    /// Some acknowledgements are duplicates or carry SACK blocks.
    Disorder,
    /// The window is being reduced for an ECN mark or local congestion.
    Cwr,
    /// Fast recovery is in progress.
    Recovery,
    /// The retransmission timer has expired.
    Loss,
}

/// Events reported to an algorithm (`enum tcp_ca_event`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The first transmission with nothing in flight.
    TransmitStart,
    /// The window restarts after an idle period.
    Restart,
    /// The end of a reduction.
    CompleteCwr,
    /// The retransmission timer has expired.
    Loss,
}

/// The congestion window of a connection, and the state that algorithms see. Counts are in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The congestion window.
    pub cwnd: u32,
    /// Acknowledged packets not yet turned into growth (`snd_cwnd_cnt`).
    pub count: u32,
    /// The slow start threshold.
    pub ssthresh: u32,
    /// Upper bound of the window.
    pub clamp: u32,
    /// The window before the last reduction.
    pub prior: u32,
    /// Whether the window, not the application, limited the last flight (`tcp_is_cwnd_limited`).
    pub is_limited: bool,
    /// The state of the sender.
    pub state: State,
    /// Data bytes of a packet.
    pub mss: u32,
    /// Data bytes of the largest packet that the sender hands to its device (`sk_gso_max_size`).
    pub burst_bytes: u64,
    /// The smoothed RTT, in microseconds; 0 before the first sample.
    pub srtt_us: u64,
    /// The minimum RTT of the last five minutes (`tcp_min_rtt`), in microseconds.
    pub min_rtt_us: Option<u64>,
    /// Packets in flight.
    pub in_flight: u32,
    /// Packets sent and not yet cumulatively acknowledged (`packets_out`).
    pub outstanding: u32,
    /// Packets delivered so far.
    pub delivered: u32,
    /// When the last of them was delivered, in nanoseconds (`delivered_mstamp`).
    pub delivered_ns: u64,
    /// Packets marked as lost so far.
    pub lost: u32,
    /// The sender is application-limited until `delivered` exceeds this count (`app_limited`); 0 if it is not.
    pub app_limited_until: u32,
    /// The first unacknowledged sequence number (SND.UNA).
    pub una: u64,
    /// The next sequence number to send (SND.NXT).
    pub next: u64,
    /// When data was last sent, in nanoseconds (`lsndtime`).
    pub last_sent_ns: u64,
    /// When pacing lets the next packet depart, in nanoseconds (`tcp_wstamp_ns`).
    pub departure_ns: u64,
    /// Whether packets are paced, by the algorithm's request or by the queueing discipline (`sk_pacing_status`).
    pub is_paced: bool,
    /// The pacing rate (`sk_pacing_rate`); without pacing it only sets the burst size. `None` before the first.
    pub pacing_bytes_per_s: Option<u64>,
}

impl Window {
    /// The window of a new connection with packets of `mss` data bytes.
    #[must_use]
    pub fn new(mss: u32) -> Self {
        Window {
            cwnd: INITIAL_WINDOW,
            count: 0,
            ssthresh: INFINITE,
            clamp: u32::MAX,
            prior: 0,
            is_limited: false,
            state: State::Open,
            mss,
            burst_bytes: pacing::GSO_BYTES,
            srtt_us: 0,
            min_rtt_us: None,
            in_flight: 0,
            outstanding: 0,
            delivered: 0,
            delivered_ns: 0,
            lost: 0,
            app_limited_until: 0,
            una: 0,
            next: 0,
            last_sent_ns: 0,
            departure_ns: 0,
            is_paced: false,
            pacing_bytes_per_s: None,
        }
    }

    /// Whether it is in slow start (`tcp_in_slow_start`).
    #[must_use]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Slow start (`tcp_slow_start`, RFC 5681 §3.1): one packet per acknowledged packet, up to the threshold. Returns
    /// the rest of `acked`, for congestion avoidance.
    fn slow_start(&mut self, acked: u32) -> u32 {
        let cwnd = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd.min(self.clamp);
        left
    }

    /// Additive increase (`tcp_cong_avoid_ai`): one packet for every `per` acknowledged packets.
    fn increase(&mut self, per: u32, acked: u32) {
        // Credit from a time of larger `per` yields only one packet.
        if self.count >= per {
            self.count = 0;
            self.cwnd += 1;
        }
        self.count += acked;
        self.cwnd += self.count / per;
        self.count %= per;
        self.cwnd = self.cwnd.min(self.clamp);
    }
}

/// What an acknowledgement reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Acked {
    /// Now, in nanoseconds.
    pub now_ns: u64,
    /// Its rate sample, with the number of newly acknowledged packets.
    pub sample: Sample,
}
