//! The congestion window, and the algorithms that change it.
//!
//! The interface is that of `struct tcp_congestion_ops`: the sender decides when to call an algorithm, which decides
//! the size of the window. [`Law`] is all of them in one type; [`pacing`] is the pacing rate for
//! those that do not set one themselves.

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
    /// Data bytes of the largest packet that the sender gives to its device (`sk_gso_max_size`).
    pub burst_bytes: u64,
    /// The smoothed round trip, in microseconds; 0 before the first sample.
    pub srtt_us: u64,
    /// The least round trip of the last five minutes (`tcp_min_rtt`), in microseconds.
    pub min_rtt_us: Option<u64>,
    /// Packets in flight.
    pub in_flight: u32,
    /// Packets that were sent and are not acknowledged cumulatively (`packets_out`).
    pub outstanding: u32,
    /// Packets that were ever delivered.
    pub delivered: u32,
    /// When the last of them was, in nanoseconds (`delivered_mstamp`).
    pub delivered_ns: u64,
    /// Packets that were ever marked as lost.
    pub lost: u32,
    /// Samples of packets that were sent before so many were delivered are of an application that had not enough
    /// (`app_limited`); 0 where it has.
    pub app_limited_until: u32,
    /// The first sequence number that is not acknowledged.
    pub una: u64,
    /// The next to be sent.
    pub next: u64,
    /// When data was last sent, in nanoseconds (`lsndtime`).
    pub last_sent_ns: u64,
    /// When pacing lets the next packet go, in nanoseconds (`tcp_wstamp_ns`).
    pub departure_ns: u64,
    /// Whether packets are paced, by the law's wish or by the queueing discipline (`sk_pacing_status`).
    pub is_paced: bool,
    /// The pacing rate (`sk_pacing_rate`), by which packets are paced or else only gathered into larger ones;
    /// `None` before there is one.
    pub pacing_bytes_per_s: Option<u64>,
}

impl Window {
    /// That of a new connection with packets of `mss` data bytes.
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

    /// Slow start (`tcp_slow_start`, RFC 5681 §3.1): a packet more for each that was acknowledged, up to the
    /// threshold. What is left over of `acked` belongs to congestion avoidance.
    fn slow_start(&mut self, acked: u32) -> u32 {
        let cwnd = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd.min(self.clamp);
        left
    }

    /// Additive increase (`tcp_cong_avoid_ai`): a packet more for every `per` that were acknowledged.
    fn increase(&mut self, per: u32, acked: u32) {
        // What was counted while `per` was larger gives one packet and no more.
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

/// What has come with an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Acked {
    /// Now, in nanoseconds.
    pub now_ns: u64,
    /// Its rate sample, with how many packets it newly acknowledges.
    pub sample: Sample,
}
