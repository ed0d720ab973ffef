//! The sending half of a connection: transmission, pacing and loss detection
//! (net/ipv4/tcp_output.c, tcp_input.c).

mod acknowledged;
mod buffer;
mod chrono;
mod output;
mod prr;
mod rack;
mod record;
mod recovery;
mod rtt;
mod scoreboard;
#[cfg(test)]
mod tests;
mod timeout;

pub use buffer::BufferConfig;

use std::collections::VecDeque;

use super::congestion::{Event, Law, State, Window};
use super::jiffies::Hz;
use super::rate::Snapshot;
use super::segment::Sack;
use buffer::Buffer;
use chrono::Chrono;
use prr::Reduction;
use rack::{Rack, Reordering};
use rtt::RoundTrips;
use scoreboard::{Id, Scoreboard};
use timeout::Timer;

/// The reordering degree, in packets, before any was seen (`tcp_reordering`; RFC 5681 §3.2).
const REORDERING: u32 = 3;

/// The settings of a sender. The defaults are those of Linux 6.18.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendConfig {
    /// Data bytes of a full packet with timestamps.
    pub mss: u32,
    /// The send buffer.
    pub buffer: BufferConfig,
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// TCP_NOTSENT_LOWAT: the maximum of unsent bytes that the program may write; `None` if only the buffer limits
    /// them.
    pub most_unsent_bytes: Option<u64>,
    /// Whether this end is willing to use ECN.
    pub ecn: bool,
    /// `net.ipv4.tcp_slow_start_after_idle`.
    pub slow_start_after_idle: bool,
    /// The kernel's clock tick.
    pub hz: Hz,
}

impl Default for SendConfig {
    fn default() -> Self {
        SendConfig {
            mss: 1448,
            buffer: BufferConfig::default(),
            nodelay: false,
            most_unsent_bytes: None,
            ecn: false,
            slow_start_after_idle: true,
            hz: Hz::default(),
        }
    }
}

/// What a sender has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendCounts {
    /// Packets sent, including retransmissions.
    pub sent: u64,
    /// Packets retransmitted.
    pub resent: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fast recoveries.
    pub recoveries: u64,
    /// Window reductions for ECN marks.
    pub reductions: u64,
    /// Reductions undone.
    pub undone: u64,
    /// Tail loss probes.
    pub probes: u64,
}

/// The sending half.
///
/// Call [`write`](Sender::write) for the program, [`on_segment`](Sender::on_segment) for every arriving segment, and
/// [`on_timer`](Sender::on_timer) when [`next_timer`](Sender::next_timer) is due. After each, call
/// [`transmit`](Sender::transmit) until it returns no packet. Times never go back.
#[derive(Debug)]
pub struct Sender {
    config: SendConfig,
    law: Law,
    window: Window,
    board: Scoreboard,
    buffer: Buffer,
    trips: RoundTrips,
    rack: Rack,
    reduction: Reduction,
    counts: SendCounts,
    /// The end of the data written, and whether a FIN follows it.
    written: u64,
    is_shut: bool,
    /// Where the current run of buffered packets begins: data written after all before it was sent, or after an ended
    /// packet.
    gathered_from: u64,
    /// Ends of the buffered packets that get no more data (`eor`), in order; none has been sent up to its end.
    packet_ends: VecDeque<u64>,
    /// The peer's window, beyond `una`.
    peer_window: u64,
    /// The sequence number of the segment that advertised it (`snd_wl1`).
    window_seq: u64,
    is_established: bool,
    uses_ecn: bool,
    must_say_cwr: bool,
    /// The reordering degree in packets, and whether reordering was seen.
    reordering: u32,
    has_reordered: bool,
    /// Where a reduction ends (`high_seq`).
    high: u64,
    /// Undo: the first sequence number of the reduction, its retransmissions not reported by DSACK (−1 before any), and
    /// the threshold before it.
    undo_from: Option<u64>,
    undo_resent: i64,
    prior_ssthresh: u32,
    /// The timestamp of the first retransmission (`retrans_stamp`).
    resent_ms: Option<u32>,
    /// Whether F-RTO is checking if a timeout was spurious (RFC 5682).
    is_frto: bool,
    /// Whether new data is sent before retransmissions (`REXMIT_NEW`).
    new_first: bool,
    /// Where to start looking for lost packets (`retransmit_skb_hint`).
    hint: Id,
    /// The outstanding tail loss probe: where it ends, and whether it is a retransmission.
    probe: Option<(u64, bool)>,
    probe_due: bool,
    timer: Option<(Timer, u64)>,
    timeouts: u32,
    /// When the first packet of the flight was sent, in nanoseconds.
    first_sent_ns: u64,
    /// The end of the last small packet (`snd_sml`, Minshall).
    small: u64,
    /// Packets left in the current burst, and whether any packet was sent since the last pause.
    burst: u32,
    has_sent: bool,
    /// An acknowledgement arrived: there may be room for the program.
    checks_space: bool,
    has_probed: bool,
    /// When there was last nothing to send.
    paused_ns: u64,
    was_limited: bool,
    usage_was_limited: bool,
    /// Whether the peer's window limited the last flight.
    is_window_limited: bool,
    chrono: Chrono,
    /// Whether a zero-window probe is due.
    window_probe_due: bool,
    /// Pacing time accumulated by the current burst.
    owed_ns: u64,
    /// The end of the highest SACKed packet.
    highest_sacked: u64,
    /// Whether the current acknowledgement has set the reordering timer.
    waits_for_reordering: bool,
    /// Whether the current burst has several packets.
    is_long_burst: bool,
    // Congestion window validation as in Linux (RFC 2861, the predecessor of RFC 7661).
    usage_until: u64,
    most_out: u32,
    used: u32,
    used_ns: u64,
    /// Blocks of the last SACK.
    last_sack: Sack,
}

impl Sender {
    /// The sender of a connection that is not yet established.
    #[must_use]
    pub fn new(config: SendConfig, law: Law) -> Sender {
        let mut window = Window::new(config.mss);
        window.burst_bytes = config.buffer.burst_bytes();
        window.is_paced = law.sends_paced();
        Sender {
            law,
            window,
            board: Scoreboard::default(),
            buffer: Buffer::new(config.buffer, config.mss),
            trips: RoundTrips::default(),
            rack: Rack::default(),
            reduction: Reduction::default(),
            counts: SendCounts::default(),
            written: 1,
            is_shut: false,
            gathered_from: 1,
            packet_ends: VecDeque::new(),
            peer_window: 0,
            window_seq: 0,
            is_established: false,
            uses_ecn: false,
            must_say_cwr: false,
            reordering: REORDERING,
            has_reordered: false,
            high: 0,
            undo_from: None,
            undo_resent: -1,
            prior_ssthresh: 0,
            resent_ms: None,
            is_frto: false,
            new_first: false,
            hint: 0,
            probe: None,
            probe_due: false,
            timer: None,
            timeouts: 0,
            first_sent_ns: 0,
            small: 0,
            burst: 0,
            has_sent: false,
            checks_space: false,
            has_probed: false,
            paused_ns: 0,
            was_limited: false,
            usage_was_limited: false,
            is_window_limited: false,
            chrono: Chrono::default(),
            window_probe_due: false,
            owed_ns: 0,
            highest_sacked: 0,
            waits_for_reordering: false,
            is_long_burst: false,
            usage_until: 0,
            most_out: 0,
            used: 0,
            used_ns: 0,
            last_sack: Sack::default(),
            config,
        }
    }

    /// Completes the handshake, with the peer's window in bytes and the RTT that the handshake took.
    pub fn establish(
        &mut self,
        now_ns: u64,
        peer_window: u64,
        rtt_us: Option<u64>,
        uses_ecn: bool,
    ) {
        self.is_established = true;
        self.uses_ecn = uses_ecn && self.config.ecn;
        (self.window.una, self.window.next) = (1, 1);
        self.peer_window = peer_window;
        self.buffer.see_window(peer_window);
        (self.used_ns, self.window.last_sent_ns) = (now_ns, now_ns);
        self.window.delivered_ns = now_ns;
        self.high = 1;
        self.usage_until = 1;
        if let Some(rtt_us) = rtt_us {
            self.trips.measure(now_ns, rtt_us, rtt_us, 1, 1);
        }
        self.refresh();
        self.law.init(&mut self.window, now_ns);
        self.expand_buffer();
        self.pace();
    }

    /// Writes as much of `bytes` as there is room for; returns how much that is.
    pub fn write(&mut self, now_ns: u64, bytes: u64) -> u64 {
        self.limit_by_application();
        self.restart_after_idle(now_ns);
        if self.window.next >= self.written {
            self.gathered_from = self.written;
        }
        let taken = self.buffer.take(bytes, self.unsent_room());
        self.written += taken;
        taken
    }

    /// Ends the last buffered packet (MSG_EOR): nothing written later goes into it.
    pub fn end_packet(&mut self) {
        let is_new = self.packet_ends.back() != Some(&self.written);
        if is_new && self.window.next < self.written {
            self.packet_ends.push_back(self.written);
        }
    }

    /// Whether the program may write (`sk_stream_is_writeable`): with TCP_NOTSENT_LOWAT, only while less than half of
    /// it is unsent (`tcp_stream_memory_free`).
    #[must_use]
    pub fn is_writable(&self) -> bool {
        let most = self.config.most_unsent_bytes;
        self.buffer.is_writable() && most.is_none_or(|most| 2 * self.unsent_bytes() < most)
    }

    /// Sets TCP_NOTSENT_LOWAT, in bytes.
    pub fn set_most_unsent(&mut self, bytes: u64) {
        self.config.most_unsent_bytes = Some(bytes);
    }

    /// Bytes written and not yet sent.
    #[must_use]
    pub fn unsent_bytes(&self) -> u64 {
        self.written.saturating_sub(self.window.next)
    }

    /// Bytes that may be written before TCP_NOTSENT_LOWAT is reached.
    fn unsent_room(&self) -> u64 {
        let most = self.config.most_unsent_bytes;
        most.map_or(u64::MAX, |most| most.saturating_sub(self.unsent_bytes()))
    }

    /// Ends writing: a FIN follows.
    pub fn shut(&mut self) {
        self.is_shut = true;
    }

    /// The congestion window and related state.
    #[must_use]
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// What it has done so far.
    #[must_use]
    pub fn counts(&self) -> SendCounts {
        self.counts
    }

    /// Whether both ends use ECN.
    #[must_use]
    pub fn uses_ecn(&self) -> bool {
        self.uses_ecn
    }

    /// The minimum RTT of the last five minutes in microseconds, if one was measured.
    #[must_use]
    pub fn least_round_trip_us(&self) -> Option<u64> {
        self.trips.least_us()
    }

    /// The smoothed RTT in microseconds, 0 before the first, and the retransmission timeout in nanoseconds.
    #[must_use]
    pub fn round_trip(&self) -> (u64, u64) {
        (self.trips.smoothed_us(), self.trips.timeout_us() * 1_000)
    }

    /// Bytes written and not yet acknowledged.
    #[must_use]
    pub fn unacknowledged_bytes(&self) -> u64 {
        self.written.saturating_sub(self.window.una)
    }

    /// Bytes acknowledged.
    #[must_use]
    pub fn acknowledged_bytes(&self) -> u64 {
        self.window.una.saturating_sub(1).min(self.written - 1)
    }

    /// The end of all data to be sent, including a FIN.
    fn end(&self) -> u64 {
        self.written + u64::from(self.is_shut)
    }

    /// The right edge of the peer's window.
    fn window_end(&self) -> u64 {
        self.window.una + self.peer_window
    }

    /// Updates the state that algorithms see.
    fn refresh(&mut self) {
        self.window.in_flight = self.board.in_flight();
        self.window.outstanding = self.board.packets_out();
        self.window.srtt_us = self.trips.smoothed_us();
        self.window.min_rtt_us = self.trips.least_us();
    }

    fn pace(&mut self) {
        if !self.law.sends_paced() {
            self.window.pacing_bytes_per_s = Some(super::congestion::pacing::rate(&self.window));
        }
    }

    fn reordering(&self) -> Reordering {
        Reordering {
            is_seen: self.has_reordered,
            in_recovery: self.window.state >= State::Recovery,
            packets: self.reordering,
            least_us: self.trips.least_us(),
            smoothed_us: self.trips.smoothed_us(),
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            delivered: self.window.delivered,
            delivered_ns: self.window.delivered_ns,
            first_sent_ns: self.first_sent_ns,
            is_app_limited: self.window.app_limited_until != 0,
        }
    }

    fn set_state(&mut self, now_ns: u64, state: State) {
        self.law.on_state(&mut self.window, state, now_ns);
        self.window.state = state;
    }

    fn happens(&mut self, now_ns: u64, event: Event) {
        self.law.on_event(&mut self.window, event, now_ns);
    }

    /// The threshold, but outside of a reduction at least three quarters of the window (`tcp_current_ssthresh`).
    fn current_ssthresh(&self) -> u32 {
        if self.is_reducing() {
            self.window.ssthresh
        } else {
            let cwnd = self.window.cwnd;
            self.window.ssthresh.max((cwnd >> 1) + (cwnd >> 2))
        }
    }

    /// Whether a window reduction is in progress (`tcp_in_cwnd_reduction`).
    fn is_reducing(&self) -> bool {
        matches!(self.window.state, State::Cwr | State::Recovery)
    }

    /// Marks the sender application-limited if it has too little data to fill the window
    /// (`tcp_rate_check_app_limited`).
    fn limit_by_application(&mut self) {
        let unsent = self.written.saturating_sub(self.window.next);
        if unsent < u64::from(self.config.mss)
            && self.board.in_flight() < self.window.cwnd
            && self.board.lost <= self.board.resent
        {
            let until = self.window.delivered.wrapping_add(self.board.in_flight());
            self.window.app_limited_until = until.max(1);
        }
    }

    /// After an idle period longer than the RTO, halves the window for each RTO of it, down to the initial window (RFC
    /// 5681 §4.1, `tcp_cwnd_restart`).
    fn restart_after_idle(&mut self, now_ns: u64) {
        let rto_ns = self.trips.timeout_us() * 1_000;
        let mut idle_ns = now_ns.saturating_sub(self.window.last_sent_ns);
        if !self.config.slow_start_after_idle
            || self.law.sends_paced()
            || !self.board.is_empty()
            || self.window.next > self.window.una
            || idle_ns <= rto_ns
        {
            return;
        }
        self.happens(now_ns, Event::Restart);
        self.window.ssthresh = self.current_ssthresh();
        let least = super::congestion::INITIAL_WINDOW.min(self.window.cwnd);
        while idle_ns > rto_ns && self.window.cwnd > least {
            idle_ns -= rto_ns;
            self.window.cwnd >>= 1;
        }
        self.window.cwnd = self.window.cwnd.max(least);
        self.used = 0;
        self.used_ns = now_ns;
    }
}
