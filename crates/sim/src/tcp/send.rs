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

/// Packets by which one may be late before any reordering was seen (`tcp_reordering`; RFC 5681 §3.2).
const REORDERING: u32 = 3;

/// The settings of a sender. The defaults are those of Linux 6.18.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendConfig {
    /// Data bytes of a full packet, which has timestamps.
    pub mss: u32,
    /// Its buffer.
    pub buffer: BufferConfig,
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// TCP_NOTSENT_LOWAT: the program writes no more while so many bytes were not sent; `None` where only the
    /// buffer bounds them.
    pub most_unsent_bytes: Option<u64>,
    /// Whether this end would use ECN.
    pub ecn: bool,
    /// `net.ipv4.tcp_slow_start_after_idle`.
    pub slow_start_after_idle: bool,
    /// Ticks of the kernel's clock.
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

/// What a sender has done so far. Counts are packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendCounts {
    /// Sent, those that were retransmitted among them.
    pub sent: u64,
    /// Sent again.
    pub resent: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Fast recoveries.
    pub recoveries: u64,
    /// Reductions for marks and full devices.
    pub reductions: u64,
    /// Reductions that were taken back.
    pub undone: u64,
    /// Probes of the tail.
    pub probes: u64,
}

/// The sending half.
///
/// In go [`write`](Sender::write) for the program, [`on_segment`](Sender::on_segment) for all that arrives, and
/// [`on_timer`](Sender::on_timer) when [`next_timer`](Sender::next_timer) is due. After each,
/// [`transmit`](Sender::transmit) gives packets until it gives none. Times never go back.
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
    /// The end of what was written, and whether it ends with a FIN.
    written: u64,
    is_shut: bool,
    /// Where the buffer's packets begin: what was written when all before had been sent, or after a packet that was ended.
    gathered_from: u64,
    /// Where packets of the buffer end that get no more data (`eor`), in order; none of them is sent to there.
    packet_ends: VecDeque<u64>,
    /// What the peer takes beyond `una`.
    peer_window: u64,
    /// The segment that said it (`snd_wl1`).
    window_seq: u64,
    is_established: bool,
    uses_ecn: bool,
    must_say_cwr: bool,
    /// Packets by which one may be late, and whether one was.
    reordering: u32,
    has_reordered: bool,
    /// Where a reduction ends (`high_seq`).
    high: u64,
    /// Undo: the first sequence number of the reduction, packets that were retransmitted in it and not reported
    /// twice (−1 before any), and the threshold before it.
    undo_from: Option<u64>,
    undo_resent: i64,
    prior_ssthresh: u32,
    /// The timestamp of the first retransmission (`retrans_stamp`).
    resent_ms: Option<u32>,
    /// Whether F-RTO looks whether a timeout was right (RFC 5682).
    is_frto: bool,
    /// Whether new data goes before what was lost (`REXMIT_NEW`).
    new_first: bool,
    /// Where to look for what was lost (`retransmit_skb_hint`).
    hint: Id,
    /// The probe of the tail under way: where it ends, and whether it was retransmitted.
    probe: Option<(u64, bool)>,
    probe_due: bool,
    timer: Option<(Timer, u64)>,
    timeouts: u32,
    /// When the first packet of the flight was sent, in nanoseconds.
    first_sent_ns: u64,
    /// The end of the last small packet (`snd_sml`, Minshall).
    small: u64,
    /// Packets left of a burst that was decided on, and whether one was sent since the last pause.
    burst: u32,
    has_sent: bool,
    /// Something was acknowledged: there may be room for the program.
    checks_space: bool,
    has_probed: bool,
    /// When there was nothing to be sent last.
    paused_ns: u64,
    was_limited: bool,
    usage_was_limited: bool,
    /// Whether the peer's window stopped the last flight.
    is_window_limited: bool,
    chrono: Chrono,
    /// Whether the peer is to be asked for its window now.
    window_probe_due: bool,
    /// Time that the burst under way owes to pacing.
    owed_ns: u64,
    /// The end of the highest packet that a SACK covers.
    highest_sacked: u64,
    /// Whether the acknowledgement at hand has set the timer of reordering.
    waits_for_reordering: bool,
    /// Whether the burst under way has several packets.
    is_long_burst: bool,
    // Validation of the window (RFC 7661's predecessor, RFC 2861, as Linux has it).
    usage_until: u64,
    most_out: u32,
    used: u32,
    used_ns: u64,
    /// Blocks of the last SACK.
    last_sack: Sack,
}

impl Sender {
    /// The sender of a connection that is yet to be made.
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

    /// The handshake is done: the peer takes `peer_window` bytes, and it took so long a round trip.
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

    /// The program writes as much of `bytes` as there is room for; how much that is.
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

    /// What was written last ends a packet of the buffer (MSG_EOR): nothing that is written later goes into it.
    pub fn end_packet(&mut self) {
        let is_new = self.packet_ends.back() != Some(&self.written);
        if is_new && self.window.next < self.written {
            self.packet_ends.push_back(self.written);
        }
    }

    /// Whether the program may write (`sk_stream_is_writeable`): with TCP_NOTSENT_LOWAT once half of it is free
    /// (`tcp_stream_memory_free`).
    #[must_use]
    pub fn is_writable(&self) -> bool {
        let most = self.config.most_unsent_bytes;
        self.buffer.is_writable() && most.is_none_or(|most| 2 * self.unsent_bytes() < most)
    }

    /// Sets TCP_NOTSENT_LOWAT, in bytes.
    pub fn set_most_unsent(&mut self, bytes: u64) {
        self.config.most_unsent_bytes = Some(bytes);
    }

    /// Bytes that were written and not sent.
    #[must_use]
    pub fn unsent_bytes(&self) -> u64 {
        self.written.saturating_sub(self.window.next)
    }

    /// What may be written yet before too much is not sent.
    fn unsent_room(&self) -> u64 {
        let most = self.config.most_unsent_bytes;
        most.map_or(u64::MAX, |most| most.saturating_sub(self.unsent_bytes()))
    }

    /// No more is written: a FIN follows.
    pub fn shut(&mut self) {
        self.is_shut = true;
    }

    /// The congestion window and what goes with it.
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

    /// The least round trip of the last minutes in microseconds, if one was measured.
    #[must_use]
    pub fn least_round_trip_us(&self) -> Option<u64> {
        self.trips.least_us()
    }

    /// The smoothed round trip in microseconds, 0 before the first, and the retransmission timeout in nanoseconds.
    #[must_use]
    pub fn round_trip(&self) -> (u64, u64) {
        (self.trips.smoothed_us(), self.trips.timeout_us() * 1_000)
    }

    /// Bytes that were written and are not acknowledged.
    #[must_use]
    pub fn unacknowledged_bytes(&self) -> u64 {
        self.written.saturating_sub(self.window.una)
    }

    /// Bytes that were acknowledged.
    #[must_use]
    pub fn acknowledged_bytes(&self) -> u64 {
        self.window.una.saturating_sub(1).min(self.written - 1)
    }

    /// The end of all that is to be sent.
    fn end(&self) -> u64 {
        self.written + u64::from(self.is_shut)
    }

    /// The last sequence number that the peer takes, and one.
    fn window_end(&self) -> u64 {
        self.window.una + self.peer_window
    }

    /// Brings what laws see up to date.
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

    /// The threshold without a reduction: three quarters of the window, or what it was (`tcp_current_ssthresh`).
    fn current_ssthresh(&self) -> u32 {
        if self.is_reducing() {
            self.window.ssthresh
        } else {
            let cwnd = self.window.cwnd;
            self.window.ssthresh.max((cwnd >> 1) + (cwnd >> 2))
        }
    }

    /// Whether the window shrinks (`tcp_in_cwnd_reduction`).
    fn is_reducing(&self) -> bool {
        matches!(self.window.state, State::Cwr | State::Recovery)
    }

    /// The application has not enough to fill the window (`tcp_rate_check_app_limited`).
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

    /// After an idle time longer than the timeout the window starts again from the initial one (RFC 5681 §4.1,
    /// `tcp_cwnd_restart`).
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
