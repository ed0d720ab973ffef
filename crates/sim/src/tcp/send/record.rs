//! A sender's TCP_INFO, as a record.

use wansan_trace::event::{CongestionState, Ecn, Tcp};
use wansan_trace::{ConnectionId, Instant, SessionId};

use super::Sender;

impl Sender {
    /// The record at `now_ns`.
    #[must_use]
    pub fn record(&self, now_ns: u64, session: SessionId, connection: ConnectionId) -> Tcp {
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let window = &self.window;
        let [busy_ns, rwnd_limited_ns, sndbuf_limited_ns] = self.chrono.totals_ns(now_ns);
        Tcp {
            time: Instant::from_ns(now_ns),
            session,
            connection,
            congestion_state: CongestionState(window.state as u8),
            cwnd_packets: window.cwnd,
            ssthresh_packets: window.ssthresh,
            mss_bytes: self.config.mss,
            in_flight_packets: window.outstanding,
            srtt_ns: self.trips.smoothed_us() * 1_000,
            min_rtt_ns: self.trips.least_us().unwrap_or(0) * 1_000,
            rwnd_bytes: narrow(self.peer_window),
            unsent_bytes: narrow(self.unsent_bytes()),
            acked_bytes: self.acknowledged_bytes(),
            pacing_bytes_per_s: window.pacing_bytes_per_s.unwrap_or(u64::MAX),
            busy_ns,
            rwnd_limited_ns,
            sndbuf_limited_ns,
            retransmits: narrow(self.counts.resent),
            timeouts: narrow(self.counts.timeouts),
            send_memory_bytes: narrow(self.buffer.memory_bytes()),
            send_buffer_bytes: narrow(self.buffer.limit_bytes()),
            ecn: match self.uses_ecn {
                true => Ecn::Negotiated,
                false => Ecn::Off,
            },
            ..Tcp::BLANK
        }
    }
}
