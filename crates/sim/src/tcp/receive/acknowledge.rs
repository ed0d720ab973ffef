//! When to send acknowledgements (`icsk_ack`).
//!
//! Follows `tcp_event_data_recv`, `__tcp_ack_snd_check`, `tcp_send_delayed_ack`, `tcp_delack_timer_handler` and
//! `tcp_event_ack_sent` of Linux 6.18, which count in ticks of the kernel's clock; a delayed acknowledgement
//! (RFC 1122 §4.2.3.2) waits between 40 and 200 ms.

use crate::tcp::jiffies::Hz;

/// Maximum number of quick acknowledgements in a row (TCP_MAX_QUICKACKS).
pub(super) const QUICK_MOST: u32 = 16;

/// The same when the peer's window may have become small.
pub(super) const QUICK_FEW: u32 = 2;

/// Duplicate acknowledgements that are never compressed: the sender needs them for fast retransmit
/// (TCP_FASTRETRANS_THRESH).
const DUPLICATES_AT_ONCE: u32 = 3;

/// Acknowledgements with SACK blocks are delayed by the round trip divided by this.
const COMPRESSED_SHARE: u64 = 20;

/// The sending half's RTT state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sending {
    /// The smoothed RTT, once there is a sample.
    pub(super) srtt_us: Option<u64>,
    /// The retransmission timeout.
    pub(super) rto_ns: u64,
}

/// Pending acknowledgements, and the state that schedules them.
#[derive(Debug)]
pub(super) struct Acknowledge {
    hz: Hz,
    comp_sack_delay_ns: u64,
    comp_sack_nr: u32,
    pub(super) sending: Sending,
    /// Quick acknowledgements left.
    quick: u32,
    /// Whether the session is interactive ("pingpong"): acknowledgements wait for data to piggyback on.
    is_interactive: bool,
    /// The delayed-ACK timeout, in ticks (`ato`); 0 before the first data.
    delay: u64,
    /// When the last data arrived, in ticks.
    received: u64,
    /// An acknowledgement is owed (`ICSK_ACK_SCHED`).
    pub(super) is_scheduled: bool,
    /// A segment that was not full, or had PSH, has arrived (`ICSK_ACK_PUSHED`).
    is_pushed: bool,
    /// Another one that was not full followed (`ICSK_ACK_PUSHED2`).
    is_pushed_again: bool,
    /// The next acknowledgement must not be delayed (`ICSK_ACK_NOW`).
    pub(super) is_urgent: bool,
    /// There was no memory for a segment: the next window advertised is zero (`ICSK_ACK_NOMEM`).
    pub(super) is_out_of_memory: bool,
    /// When the delayed acknowledgement is due, in ticks.
    timer: Option<u64>,
    /// Since when an immediate acknowledgement has been due.
    since_ns: Option<u64>,
    /// Acknowledgements compressed into the one due at `compressed_until_ns`.
    compressed: u32,
    compressed_until_ns: Option<u64>,
    /// Duplicate acknowledgements sent at once for the expected sequence number `duplicates_of`.
    duplicates: u32,
    duplicates_of: u64,
    /// Acknowledgements saved by compression (`TCPAckCompressed`).
    pub(super) spared: u64,
}

impl Acknowledge {
    pub(super) fn new(hz: Hz, comp_sack_delay_ns: u64, comp_sack_nr: u32) -> Self {
        Acknowledge {
            hz,
            comp_sack_delay_ns,
            comp_sack_nr,
            // TCP_TIMEOUT_INIT, RFC 6298 §2.1.
            sending: Sending {
                srtt_us: None,
                rto_ns: 1_000_000_000,
            },
            quick: 0,
            is_interactive: false,
            delay: 0,
            received: 0,
            is_scheduled: false,
            is_pushed: false,
            is_pushed_again: false,
            is_urgent: false,
            is_out_of_memory: false,
            timer: None,
            since_ns: None,
            compressed: 0,
            compressed_until_ns: None,
            duplicates: 0,
            duplicates_of: 0,
            spared: 0,
        }
    }

    /// A second divided by `parts`, in jiffies.
    fn part(&self, parts: u64) -> u64 {
        u64::from(self.hz.0) / parts
    }

    /// The minimum delay (TCP_ATO_MIN, TCP_DELACK_MIN): 40 ms.
    fn least(&self) -> u64 {
        self.part(25)
    }

    /// The maximum delay (TCP_DELACK_MAX): 200 ms.
    fn most(&self) -> u64 {
        self.part(5)
    }

    fn rto(&self) -> u64 {
        self.hz.at(self.sending.rto_ns)
    }

    /// Starts the clock of a new connection.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.received = self.hz.at(now_ns);
    }

    /// Grants quick acknowledgements for the full segments in half a window, 2 if there are none, at most `most`
    /// (`tcp_incr_quickack`).
    fn be_quick(&mut self, window: u64, rcv_mss: u32, most: u32) {
        let half = window / (2 * u64::from(rcv_mss));
        let wanted = match half {
            0 => 2,
            half => half.min(u64::from(most)) as u32,
        };
        self.quick = self.quick.max(wanted.min(most));
    }

    /// The same for a sender that may be in trouble; also leaves interactive mode and sets the delay to the minimum
    /// (`tcp_enter_quickack_mode`).
    pub(super) fn enter_quick(&mut self, window: u64, rcv_mss: u32, most: u32) {
        self.be_quick(window, rcv_mss, most);
        self.is_interactive = false;
        self.delay = self.least();
    }

    /// Ends quick acknowledgements, as the buffer is nearly full.
    pub(super) fn stop_quick(&mut self) {
        self.quick = 0;
    }

    /// Announces a larger window with a quick acknowledgement (`quick |= 1`).
    pub(super) fn tell_window(&mut self) {
        self.quick |= 1;
    }

    /// Whether the next acknowledgement is quick (`tcp_in_quickack_mode`).
    pub(super) fn is_quick(&self) -> bool {
        self.quick > 0 && !self.is_interactive
    }

    /// Enters interactive mode: a FIN has arrived, and no more data will.
    pub(super) fn be_interactive(&mut self) {
        self.is_interactive = true;
    }

    /// Notes a segment with PSH, or smaller than a full one (`ICSK_ACK_PUSHED`).
    pub(super) fn push(&mut self, is_small: bool) {
        self.is_pushed_again |= is_small && self.is_pushed;
        self.is_pushed = true;
    }

    /// Whether to acknowledge at once when everything has been read.
    pub(super) fn is_reading_told(&self) -> bool {
        self.is_pushed_again || self.is_pushed && !self.is_interactive
    }

    /// Adapts the delay to the time between in-order segments.
    pub(super) fn on_data(&mut self, now_ns: u64, window: u64, rcv_mss: u32) {
        let now = self.hz.at(now_ns);
        let least = self.least();
        let gap = now - self.received;
        if self.delay == 0 {
            self.be_quick(window, rcv_mss, QUICK_MOST);
            self.delay = least;
        } else if gap <= least / 2 {
            self.delay = (self.delay >> 1) + least / 2;
        } else if gap < self.delay {
            self.delay = ((self.delay >> 1) + gap).min(self.rto());
        } else if gap > self.rto() {
            // The sender should have restarted its window.
            self.be_quick(window, rcv_mss, QUICK_MOST);
        }
        self.received = now;
    }

    /// Data was sent: a reply within the delay makes the session interactive (`tcp_event_data_sent`, with
    /// `tcp_pingpong_thresh` at its default of 1).
    pub(super) fn on_sent_data(&mut self, now_ns: u64) {
        if self.hz.at(now_ns) - self.received < self.delay {
            self.is_interactive = true;
        }
    }

    /// Makes an acknowledgement due now.
    pub(super) fn send(&mut self, now_ns: u64) {
        self.since_ns.get_or_insert(now_ns);
    }

    /// Makes the compressed acknowledgement due now, if there is one (`tcp_sack_compress_send_ack`).
    pub(super) fn send_compressed(&mut self, now_ns: u64) {
        if self.compressed > 0 {
            self.send(now_ns);
        }
    }

    /// Delays an acknowledgement, or makes it due now if one is almost due (`tcp_send_delayed_ack`).
    pub(super) fn send_later(&mut self, now_ns: u64) {
        let mut delay = self.delay;
        if delay > self.least() {
            let longest = match self.is_interactive || self.is_pushed {
                true => self.most(),
                false => self.part(2),
            };
            let by_round_trip = self
                .sending
                .srtt_us
                .map(|us| self.hz.from_us(us).max(self.least()));
            delay = delay.min(by_round_trip.unwrap_or(longest).min(longest));
        }
        // Stay below the minimum RTO of a sender, which equals the maximum delay.
        delay = delay.min(self.most().max(2) - 1);
        let now = self.hz.at(now_ns);
        let mut timer = now + delay;
        if let Some(earlier) = self.timer {
            if earlier <= now + (delay >> 2) {
                self.send(now_ns);
                return;
            }
            timer = timer.min(earlier);
        }
        self.is_scheduled = true;
        self.timer = Some(timer);
    }

    /// Acknowledges out-of-order data: the first three times at once, then compressed into one acknowledgement within
    /// `comp_sack_delay_ns` or a twentieth of the round trip. The kernel's timer has a slack of 100 µs, which is not
    /// used here.
    pub(super) fn send_with_blocks(&mut self, now_ns: u64, next: u64, round_trip_us: Option<u64>) {
        if self.compressed >= self.comp_sack_nr {
            self.send(now_ns);
            return;
        }
        if self.duplicates_of != next {
            self.duplicates_of = next;
            self.duplicates = 0;
        }
        if self.duplicates < DUPLICATES_AT_ONCE {
            self.duplicates += 1;
            self.send(now_ns);
            return;
        }
        self.compressed += 1;
        if self.compressed_until_ns.is_none() {
            // Without an estimate there is no delay, as with a `rcv_rtt_est` of 0.
            let round_trip_us = round_trip_us.unwrap_or(0);
            let shorter_us = self
                .sending
                .srtt_us
                .map_or(round_trip_us, |us| us.min(round_trip_us));
            let delay_ns = (shorter_us * 1000 / COMPRESSED_SHARE).min(self.comp_sack_delay_ns);
            self.compressed_until_ns = Some(now_ns + delay_ns);
        }
    }

    /// When an acknowledgement is due: immediately if that is not later than now, else at a deadline, or not at all.
    pub(super) fn at_ns(&self) -> Option<u64> {
        // The timer wheel rounds up, so that no timer is early.
        let timer_ns = self.timer.map(|ticks| (ticks + 1) * self.hz.tick_ns());
        [self.since_ns, self.compressed_until_ns, timer_ns]
            .into_iter()
            .flatten()
            .min()
    }

    /// A segment that carries an acknowledgement is sent.
    pub(super) fn on_sent(&mut self, now_ns: u64) {
        let is_timed_out = self
            .timer
            .is_some_and(|ticks| (ticks + 1) * self.hz.tick_ns() <= now_ns);
        if is_timed_out && self.is_scheduled && self.compressed == 0 && self.since_ns.is_none() {
            // The delay expired: it was too short, or, in interactive mode, there is no data to wait for.
            match self.is_interactive {
                true => self.delay = self.least(),
                false => self.delay = (self.delay << 1).min(self.rto()),
            }
            self.is_interactive = false;
        }
        // If the compression timer sends it, it is itself one of the compressed.
        let is_one_of_them =
            self.since_ns.is_none() && self.compressed_until_ns.is_some_and(|at| at <= now_ns);
        self.spared += u64::from(self.compressed - u32::from(is_one_of_them));
        if self.quick > 0 && self.is_scheduled {
            self.quick -= 1;
            if self.quick == 0 {
                self.delay = self.least();
            }
        }
        self.compressed = 0;
        self.compressed_until_ns = None;
        self.since_ns = None;
        self.timer = None;
        self.is_scheduled = false;
        self.is_pushed = false;
        self.is_pushed_again = false;
        self.is_urgent = false;
        self.is_out_of_memory = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn engine() -> Acknowledge {
        Acknowledge::new(Hz::default(), MS, 44)
    }

    #[test]
    fn a_delayed_acknowledgement_waits_at_least_40_ms_and_a_tick_at_most_longer() {
        let mut engine = engine();
        engine.on_data(1_003 * MS, 65_536, 1448);
        engine.send_later(1_003 * MS);
        // Counted from the tick that began at 1000 ms.
        assert_eq!(engine.at_ns(), Some(1_044 * MS));
    }

    #[test]
    fn one_that_is_almost_due_is_sent_with_the_next_data() {
        let mut engine = engine();
        engine.on_data(0, 65_536, 1448);
        engine.send_later(0);
        engine.send_later(28 * MS);
        assert_eq!(engine.at_ns(), Some(44 * MS));
        // Within a quarter of 10 ticks.
        engine.send_later(32 * MS);
        assert_eq!(engine.at_ns(), Some(32 * MS));
    }

    #[test]
    fn a_miss_doubles_the_delay_up_to_the_time_out_and_the_round_trip_bounds_it() {
        let mut engine = engine();
        engine.on_data(0, 65_536, 1448);
        engine.quick = 0;
        engine.send_later(0);
        engine.on_sent(44 * MS);
        engine.send_later(100 * MS);
        assert_eq!(engine.at_ns(), Some(184 * MS));
        engine.on_sent(184 * MS);
        engine.sending = Sending {
            srtt_us: Some(60_000),
            rto_ns: 260 * MS,
        };
        engine.send_later(200 * MS);
        assert_eq!(engine.at_ns(), Some(264 * MS));
        engine.on_sent(264 * MS);
        engine.sending.srtt_us = None;
        engine.send_later(300 * MS);
        // 260 ms by doubling, limited to 196 ms by the minimum RTO.
        assert_eq!(engine.at_ns(), Some(500 * MS));
    }

    #[test]
    fn an_answer_within_the_delay_makes_the_session_interactive_until_one_is_missed() {
        let mut engine = engine();
        engine.on_data(0, 65_536, 1448);
        assert!(engine.is_quick());
        engine.on_sent_data(39 * MS);
        assert!(!engine.is_quick());
        engine.send_later(50 * MS);
        engine.on_sent(92 * MS);
        assert!(engine.is_quick());
        engine.on_sent_data(40 * MS);
        assert!(engine.is_quick());
    }

    #[test]
    fn quick_acknowledgements_are_counted_and_few_at_a_small_window() {
        let mut engine = engine();
        engine.on_data(0, 1448, 1448);
        for left in [true, false] {
            engine.is_scheduled = true;
            engine.on_sent(0);
            assert_eq!(engine.is_quick(), left);
        }
        engine.enter_quick(10_000_000, 1448, QUICK_FEW);
        assert_eq!(engine.quick, 2);
        engine.on_data(2_000 * MS, 10_000_000, 1448);
        assert_eq!(
            engine.quick, QUICK_MOST,
            "after an idle time longer than the timeout"
        );
    }

    #[test]
    fn data_behind_a_hole_is_told_three_times_at_once_and_then_compressed() {
        let mut engine = engine();
        for _ in 0..3 {
            engine.send_with_blocks(7, 1, Some(10_000));
            assert_eq!(engine.at_ns(), Some(7));
            engine.on_sent(7);
        }
        for at_ns in 100..144 {
            engine.send_with_blocks(at_ns, 1, Some(10_000));
            // A twentieth of 10 ms.
            assert_eq!(engine.at_ns(), Some(500_100));
        }
        engine.send_with_blocks(200, 1, Some(10_000));
        assert_eq!(engine.at_ns(), Some(200));
        engine.on_sent(200);
        assert_eq!(engine.spared, 44);
        engine.send_with_blocks(300, 1, Some(1_000_000));
        assert_eq!(engine.at_ns(), Some(MS + 300));
        engine.send_with_blocks(400, 2, Some(1_000_000));
        assert_eq!(engine.at_ns(), Some(400), "another hole");
    }
}
