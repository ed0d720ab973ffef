//! Which packet to send next (`tcp_write_xmit`, `tcp_xmit_retransmit_queue`).

use super::Sender;
use super::chrono::Busy;
use super::scoreboard::Packet;
use super::timeout::Timer;
use crate::tcp::congestion::{Event, INITIAL_WINDOW, State};
use crate::tcp::segment::Segment;

/// The window divided by this is worth sending at once (`tcp_tso_win_divisor`).
const WORTHWHILE: u64 = 3;

/// Log2 of the RTT in microseconds that halves the extra burst of short paths (`tcp_tso_rtt_log`).
const BURST_RTT_LOG: u32 = 9;

/// Pacing begins with this segment of a connection.
const UNPACED_SEGMENTS: u64 = 10;

/// How long after the last packet a burst may be deferred.
const DEFER_NS: u64 = 1_000_000;

impl Sender {
    /// The next packet that may be sent now, if any.
    pub fn transmit(&mut self, now_ns: u64) -> Option<Segment> {
        if !self.is_established {
            return None;
        }
        let segment = self.next_segment(now_ns);
        match &segment {
            Some(_) => self.has_sent = true,
            None => self.pause(now_ns),
        }
        segment
    }

    fn next_segment(&mut self, now_ns: u64) -> Option<Segment> {
        if self.window.is_paced && now_ns < self.window.departure_ns {
            return None;
        }
        if std::mem::take(&mut self.window_probe_due) {
            // An already acknowledged sequence number makes the peer announce its window (`tcp_xmit_probe_skb`).
            return Some(Segment {
                seq: self.window.una - 1,
                ..Segment::default()
            });
        }
        if std::mem::take(&mut self.probe_due) {
            return self.probe_tail(now_ns);
        }
        if !self.new_first
            && let Some(segment) = self.resend_lost(now_ns)
        {
            return Some(segment);
        }
        self.send_new(now_ns)
    }

    /// Does what the kernel does when it has sent all that it may.
    fn pause(&mut self, now_ns: u64) {
        self.burst = 0;
        self.new_first = false;
        self.paused_ns = now_ns;
        let is_limited = self.was_limited || self.board.in_flight() >= self.window.cwnd;
        let has_sent = std::mem::take(&mut self.has_sent);
        if has_sent && !std::mem::take(&mut self.has_probed) {
            self.schedule_probe(now_ns, false);
        }
        if has_sent || is_limited {
            self.validate(now_ns, is_limited);
        }
        self.was_limited = false;
        if std::mem::take(&mut self.checks_space) && self.buffer.was_full() {
            self.make_room();
        }
        let waits = self.waits_for();
        self.chrono.set(now_ns, waits);
        self.probe_window(now_ns);
    }

    /// Grows the buffer for a waiting program, unless the window is full and more data would only be queued
    /// (`tcp_new_space`, `tcp_should_expand_sndbuf`).
    fn make_room(&mut self) {
        if self.board.in_flight() < self.window.cwnd {
            self.expand_buffer();
        }
        self.buffer.settle();
    }

    /// Expands the buffer to as many packets as the window may need (`tcp_sndbuf_expand`).
    pub(super) fn expand_buffer(&mut self) {
        let packets = self
            .window
            .cwnd
            .max(INITIAL_WINDOW)
            .max(self.reordering + 1);
        self.buffer.expand(self.law.sndbuf_expand(), packets);
    }

    /// What limits the sender when it has sent all that it may.
    fn waits_for(&mut self) -> Option<Busy> {
        let is_window_limited = std::mem::take(&mut self.is_window_limited);
        let unsent = self.end().saturating_sub(self.window.next);
        if unsent == 0 && self.board.is_empty() {
            return None;
        }
        let has_window = self.board.packets_out() < self.window.cwnd;
        Some(match is_window_limited {
            true => Busy::PeersWindow,
            false if unsent == 0 && has_window && self.buffer.was_full() => Busy::Buffer,
            false => Busy::Sending,
        })
    }

    /// Retransmits a lost packet, if the window has room (RFC 6675 §5 (C)).
    fn resend_lost(&mut self, now_ns: u64) -> Option<Segment> {
        if self.window.state < State::Recovery
            || self.board.lost == 0
            || self.board.in_flight() >= self.window.cwnd
        {
            return None;
        }
        let first = self.board.first_id();
        // The hint was acknowledged in the meantime.
        if self.hint.wrapping_sub(first) > self.board.packets_out() {
            self.hint = first;
        }
        loop {
            let packet = self.board.get(self.hint)?;
            if packet.is_lost && !packet.is_resent {
                break;
            }
            self.hint = self.hint.wrapping_add(1);
        }
        let segment = self.resend(now_ns, self.hint);
        // The timeout counts from the latest transmission of the head.
        if self.hint == first && !matches!(self.timer, Some((Timer::Reordering, _))) {
            self.restart_timeout(now_ns);
        }
        segment
    }

    /// Retransmits a packet.
    pub(super) fn resend(&mut self, now_ns: u64, id: u32) -> Option<Segment> {
        let packet = *self.board.get(id)?;
        let snapshot = self.snapshot();
        self.board.resend(id, now_ns, snapshot);
        self.resent_ms
            .get_or_insert_with(|| Segment::timestamp_ms(now_ns));
        self.undo_resent = self.undo_resent.max(0) + 1;
        self.counts.resent += 1;
        if self.is_reducing() {
            self.reduction.sent += 1;
        }
        if self.timer.is_none() {
            self.arm_timeout(now_ns);
        }
        Some(self.out(now_ns, packet.seq, packet.bytes, packet.length))
    }

    /// Sends new data, if both windows, Nagle's algorithm and TSO deferral allow it.
    fn send_new(&mut self, now_ns: u64) -> Option<Segment> {
        let next = self.window.next;
        let unsent = self.written.saturating_sub(next);
        let bytes = self.next_bytes();
        let is_fin = self.is_shut && next <= self.written && unsent == u64::from(bytes);
        if unsent == 0 && !is_fin {
            return None;
        }
        let in_flight = self.board.in_flight();
        if in_flight >= self.window.cwnd {
            self.was_limited = true;
            return None;
        }
        if next + u64::from(bytes) > self.window_end() {
            self.is_window_limited = true;
            return None;
        }
        if self.burst == 0 {
            self.burst = self.next_burst(now_ns, is_fin)?;
            self.is_long_burst = self.burst > 1;
        }
        self.burst -= 1;
        let segment = self.send(now_ns, bytes, is_fin);
        // A burst goes down the stack as one packet, which ends with PSH (`__tcp_transmit_skb`).
        let ends_burst = self.burst == 0 && self.is_long_burst;
        Some(Segment {
            push: segment.push || ends_burst,
            ..segment
        })
    }

    /// Unsent bytes up to the end of the next buffered packet: where the program has ended it, or the end of all data.
    fn unsent_of_packet(&self) -> u64 {
        let end = self.packet_ends.front().unwrap_or(&self.written);
        end.saturating_sub(self.window.next)
    }

    /// Data bytes of the next packet on the path.
    pub(super) fn next_bytes(&self) -> u32 {
        self.unsent_of_packet().min(u64::from(self.config.mss)) as u32
    }

    /// Sends new data.
    pub(super) fn send(&mut self, now_ns: u64, bytes: u32, is_fin: bool) -> Segment {
        let seq = self.window.next;
        let length = bytes + u32::from(is_fin);
        if self.board.is_empty() {
            if self.window.in_flight == 0 {
                self.happens(now_ns, Event::TransmitStart);
            }
            self.first_sent_ns = now_ns;
            self.window.delivered_ns = now_ns;
        }
        let snapshot = self.snapshot();
        let is_first = self.board.is_empty();
        self.board
            .push(Packet::new(seq, length, bytes, now_ns, snapshot));
        self.window.next += u64::from(length);
        let next = self.window.next;
        let ends_packet = self.packet_ends.front().is_some_and(|end| *end <= next);
        if ends_packet {
            self.packet_ends.pop_front();
            self.gathered_from = next;
        }
        if bytes < self.config.mss {
            self.small = self.window.next;
        }
        if self.is_reducing() {
            self.reduction.sent += 1;
        }
        if is_first || self.timer.is_none() {
            self.arm_timeout(now_ns);
        }
        self.window.in_flight = self.board.in_flight();
        self.window.outstanding = self.board.packets_out();
        let segment = self.out(now_ns, seq, bytes, length);
        Segment {
            cwr: self.uses_ecn && std::mem::take(&mut self.must_say_cwr),
            push: segment.push || ends_packet,
            ..segment
        }
    }

    /// A segment of data to be sent, with its pacing accounted for.
    fn out(&mut self, now_ns: u64, seq: u64, bytes: u32, length: u32) -> Segment {
        self.counts.sent += 1;
        self.window.last_sent_ns = now_ns;
        if let (true, Some(rate)) = (self.window.is_paced, self.window.pacing_bytes_per_s) {
            let took_ns = u64::from(bytes) * 1_000_000_000 / rate.max(1);
            self.owed_ns += took_ns;
            // A burst is sent at once and paced afterwards, except for the first segments of a connection. Lateness is
            // credited, up to half of the burst's time (`tcp_update_skb_after_send`).
            if self.burst == 0 {
                let owed_ns = std::mem::take(&mut self.owed_ns);
                let late_ns = now_ns.saturating_sub(self.window.departure_ns);
                self.window.departure_ns = now_ns.max(self.window.departure_ns);
                if self.counts.sent >= UNPACED_SEGMENTS {
                    self.window.departure_ns += owed_ns - late_ns.min(owed_ns / 2);
                }
            }
        }
        Segment {
            seq,
            bytes,
            fin: length > bytes,
            push: seq + u64::from(bytes) == self.written,
            ..Segment::default()
        }
    }

    /// How many packets to send in one burst, if any may be sent.
    fn next_burst(&mut self, now_ns: u64, is_fin: bool) -> Option<u32> {
        let mss = u64::from(self.config.mss);
        let unsent = self.unsent_of_packet();
        let is_last = self.window.next + unsent == self.written;
        let in_flight = self.board.in_flight();
        let room = u64::from(self.window.cwnd - in_flight);
        let quota = room.min(u64::from((self.window.cwnd >> 1).max(1)));
        let most = self.burst_packets();
        let packets = unsent.div_ceil(mss).max(1);
        if packets == 1 {
            let is_partial = unsent < mss;
            // Minshall's variant: only an unacknowledged small packet holds back the next (`tcp_nagle_check`).
            let holds = is_partial
                && is_last
                && !is_fin
                && !self.config.nodelay
                && !self.board.is_empty()
                && self.small > self.window.una;
            return (!holds).then_some(1);
        }
        if self.defers(now_ns, u64::from(most)) {
            return None;
        }
        let peer = (self.window_end() - self.window.next) / mss;
        let whole = unsent / mss;
        Some(
            quota
                .min(u64::from(most))
                .min(peer.max(1))
                .min(whole.max(1)) as u32,
        )
    }

    /// Maximum packets of a burst (`tcp_tso_autosize`): a millisecond at the pacing rate, and more on short paths.
    fn burst_packets(&self) -> u32 {
        let mss = u64::from(self.config.mss);
        let largest = self.window.burst_bytes;
        let mut bytes = self.window.pacing_bytes_per_s.unwrap_or(u64::MAX) >> 10;
        let shift = self.trips.least_us().unwrap_or(u64::MAX) >> BURST_RTT_LOG;
        if shift < 32 {
            bytes = bytes.saturating_add(largest >> shift);
        }
        let packets = bytes.min(largest) / mss;
        let least = u64::from(self.law.min_tso_segments(&self.window));
        packets.max(least).min((largest / mss).max(1)) as u32
    }

    /// Bytes left in the next buffered packet: the program's data is gathered into packets of maximum size
    /// (`tcp_xmit_size_goal`), from which bursts are cut.
    fn buffered_packet(&self) -> u64 {
        let goal = self.buffer.packet_bytes();
        goal - (self.window.next - self.gathered_from) % goal
    }

    /// Whether to wait for the next acknowledgement and send a larger burst (`tcp_tso_should_defer`).
    fn defers(&mut self, now_ns: u64, most: u64) -> bool {
        let mss = u64::from(self.config.mss);
        if self.window.state >= State::Recovery
            || now_ns.saturating_sub(self.window.last_sent_ns) > DEFER_NS
        {
            return false;
        }
        let by_peer = self.window_end().saturating_sub(self.window.next);
        let by_window = u64::from(self.window.cwnd - self.board.in_flight()) * mss;
        let limit = by_peer.min(by_window);
        let packet = self.unsent_of_packet().min(self.buffered_packet());
        let is_last = self.window.next + packet == self.written;
        // A packet that others follow gets no more data, and can be sent as it is.
        if limit >= most * mss || (!is_last && limit >= packet) {
            return false;
        }
        let window = self.peer_window.min(u64::from(self.window.cwnd) * mss);
        if limit >= window / WORTHWHILE {
            return false;
        }
        let Some(head) = self.board.head() else {
            return false;
        };
        // The next acknowledgement would come too late.
        let srtt_ns = self.trips.smoothed_ns();
        if head.sent_ns + srtt_ns > now_ns + DEFER_NS.min(srtt_ns / 2) {
            return false;
        }
        if limit <= packet {
            match by_window < by_peer {
                true => self.was_limited = true,
                false => self.is_window_limited = true,
            }
            return true;
        }
        // Wait for more data, unless none will be added.
        !self.is_shut && self.packet_ends.is_empty()
    }

    /// Records whether the window or the application limited this flight, and shrinks an unused window
    /// (`tcp_cwnd_validate`).
    fn validate(&mut self, now_ns: u64, is_limited: bool) {
        let out = self.board.packets_out();
        if self.window.una >= self.usage_until
            || is_limited
            || (!self.usage_was_limited && out > self.most_out)
        {
            self.usage_was_limited = is_limited;
            self.most_out = out;
            self.usage_until = self.window.next;
        }
        if self.is_limited() {
            self.used = 0;
            self.used_ns = now_ns;
            return;
        }
        self.used = self.used.max(out);
        let is_over = now_ns.saturating_sub(self.used_ns) >= self.trips.timeout_us() * 1_000;
        if self.config.slow_start_after_idle && is_over && !self.law.sends_paced() {
            self.shrink_to_used(now_ns);
        }
    }

    /// Whether the window limits the sender, or soon would (`tcp_is_cwnd_limited`).
    pub(super) fn is_limited(&self) -> bool {
        self.usage_was_limited
            || (self.window.in_slow_start() && self.window.cwnd < 2 * self.most_out)
    }

    /// Reduces a window that the application has not used for an RTO halfway to what was used
    /// (`tcp_cwnd_application_limited`).
    fn shrink_to_used(&mut self, now_ns: u64) {
        if self.window.state == State::Open && !self.buffer.was_full() {
            let used = self.used.max(crate::tcp::congestion::INITIAL_WINDOW);
            if used < self.window.cwnd {
                self.window.ssthresh = self.current_ssthresh();
                self.window.cwnd = self.window.cwnd.midpoint(used);
            }
        }
        self.used = 0;
        self.used_ns = now_ns;
    }
}
