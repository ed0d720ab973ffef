//! When an acknowledgement is sent (`icsk_ack`).
//!
//! Follows `tcp_event_data_recv`, `__tcp_ack_snd_check`, `tcp_send_delayed_ack`, `tcp_delack_timer_handler` and
//! `tcp_event_ack_sent` of Linux 6.18, which count in ticks of the kernel's clock; a delayed acknowledgement
//! (RFC 1122 §4.2.3.2) waits between 40 and 200 ms.

use crate::tcp::jiffies::Hz;

/// So many acknowledgements in a row are sent at once (TCP_MAX_QUICKACKS).
pub(super) const QUICK_MOST: u32 = 16;

/// So many when the peer's window may have become small.
pub(super) const QUICK_FEW: u32 = 2;

/// So many duplicates are never compressed: the sender needs them for fast retransmission
/// (TCP_FASTRETRANS_THRESH).
const DUPLICATES_AT_ONCE: u32 = 3;

/// Acknowledgements with SACK blocks wait for a twentieth of the round trip.
const COMPRESSED_SHARE: u64 = 20;

/// What is known of the round trip by sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sending {
    /// The smoothed round trip, once there is a sample.
    pub(super) srtt_us: Option<u64>,
    /// The retransmission timeout.
    pub(super) rto_ns: u64,
}

/// Acknowledgements that are due, and what decides when.
#[derive(Debug)]
pub(super) struct Acknowledge {
    hz: Hz,
    comp_sack_delay_ns: u64,
    comp_sack_nr: u32,
    pub(super) sending: Sending,
    /// So many more are sent at once.
    quick: u32,
    /// Whether data goes both ways: acknowledgements wait for it ("pingpong").
    is_interactive: bool,
    /// The delay, in ticks (`ato`); 0 before the first data.
    delay: u64,
    /// When the last data came, in ticks.
    received: u64,
    /// Something is to be acknowledged.
    pub(super) is_scheduled: bool,
    /// A segment came that was not full, or pushed.
    is_pushed: bool,
    /// Another did.
    is_pushed_again: bool,
    /// One acknowledgement must not wait.
    pub(super) is_urgent: bool,
    /// There was no memory for a segment: the window is closed once.
    pub(super) is_out_of_memory: bool,
    /// The delayed acknowledgement, in ticks.
    timer: Option<u64>,
    /// Since when one is to be sent.
    since_ns: Option<u64>,
    /// Those that became one with the one that waits until `compressed_until_ns`.
    compressed: u32,
    compressed_until_ns: Option<u64>,
    /// Those that were sent at once since what is expected last changed.
    duplicates: u32,
    duplicates_of: u64,
    /// Acknowledgements that others made needless by compression (`TCPAckCompressed`).
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

    /// The part of a second in jiffies.
    fn part(&self, parts: u64) -> u64 {
        u64::from(self.hz.0) / parts
    }

    /// The least delay (TCP_ATO_MIN, TCP_DELACK_MIN): 40 ms.
    fn least(&self) -> u64 {
        self.part(25)
    }

    /// The longest in a session that goes both ways (TCP_DELACK_MAX): 200 ms.
    fn most(&self) -> u64 {
        self.part(5)
    }

    fn rto(&self) -> u64 {
        self.hz.at(self.sending.rto_ns)
    }

    /// The connection begins.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.received = self.hz.at(now_ns);
    }

    /// The next acknowledgements are not delayed, for as many as the sender may have in half of its window
    /// (`tcp_incr_quickack`).
    fn be_quick(&mut self, window: u64, rcv_mss: u32, most: u32) {
        let half = window / (2 * u64::from(rcv_mss));
        let wanted = match half {
            0 => 2,
            half => half.min(u64::from(most)) as u32,
        };
        self.quick = self.quick.max(wanted.min(most));
    }

    /// The same for a sender that may be in trouble: the session counts as one-way, its delay as the least
    /// (`tcp_enter_quickack_mode`).
    pub(super) fn enter_quick(&mut self, window: u64, rcv_mss: u32, most: u32) {
        self.be_quick(window, rcv_mss, most);
        self.is_interactive = false;
        self.delay = self.least();
    }

    /// There is little room in the buffer: acknowledgements may be delayed again.
    pub(super) fn stop_quick(&mut self) {
        self.quick = 0;
    }

    /// The window grows: one more acknowledgement tells the sender at once (`quick |= 1`).
    pub(super) fn tell_window(&mut self) {
        self.quick |= 1;
    }

    /// Whether the next is not delayed (`tcp_in_quickack_mode`).
    pub(super) fn is_quick(&self) -> bool {
        self.quick > 0 && !self.is_interactive
    }

    /// A FIN has come: nothing more will.
    pub(super) fn be_interactive(&mut self) {
        self.is_interactive = true;
    }

    /// A segment came that was pushed, or that is smaller than others (`ICSK_ACK_PUSHED`).
    pub(super) fn push(&mut self, is_small: bool) {
        self.is_pushed_again |= is_small && self.is_pushed;
        self.is_pushed = true;
    }

    /// Whether reading everything is to be announced at once.
    pub(super) fn is_reading_told(&self) -> bool {
        self.is_pushed_again || self.is_pushed && !self.is_interactive
    }

    /// Data has come in order: the delay follows the time between segments.
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
            // The sender should have started its window again.
            self.be_quick(window, rcv_mss, QUICK_MOST);
        }
        self.received = now;
    }

    /// Data was sent: an answer within the delay means that data goes both ways (`tcp_event_data_sent`, with
    /// `tcp_pingpong_thresh` at its 1).
    pub(super) fn on_sent_data(&mut self, now_ns: u64) {
        if self.hz.at(now_ns) - self.received < self.delay {
            self.is_interactive = true;
        }
    }

    /// An acknowledgement is sent now.
    pub(super) fn send(&mut self, now_ns: u64) {
        self.since_ns.get_or_insert(now_ns);
    }

    /// One is sent now if some wait to be compressed (`tcp_sack_compress_send_ack`).
    pub(super) fn send_compressed(&mut self, now_ns: u64) {
        if self.compressed > 0 {
            self.send(now_ns);
        }
    }

    /// One is sent later, unless one is almost due (`tcp_send_delayed_ack`).
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
        // Below the least timeout of a sender, which is as long as the longest delay.
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

    /// Data behind a hole is acknowledged: the first three times at once, then once for all within `delay_ns` or a
    /// twentieth of the round trip. The kernel's timer has a slack of 100 µs, of which nothing is used here.
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
            // No estimate makes no delay, as `rcv_rtt_est` of 0 does.
            let round_trip_us = round_trip_us.unwrap_or(0);
            let shorter_us = self
                .sending
                .srtt_us
                .map_or(round_trip_us, |us| us.min(round_trip_us));
            let delay_ns = (shorter_us * 1000 / COMPRESSED_SHARE).min(self.comp_sack_delay_ns);
            self.compressed_until_ns = Some(now_ns + delay_ns);
        }
    }

    /// When an acknowledgement is to be sent: a time that is not later than now, a deadline, or none.
    pub(super) fn at_ns(&self) -> Option<u64> {
        // The timer wheel rounds up, so that none is early.
        let timer_ns = self.timer.map(|ticks| (ticks + 1) * self.hz.tick_ns());
        [self.since_ns, self.compressed_until_ns, timer_ns]
            .into_iter()
            .flatten()
            .min()
    }

    /// A segment is sent, which acknowledges.
    pub(super) fn on_sent(&mut self, now_ns: u64) {
        let is_timed_out = self
            .timer
            .is_some_and(|ticks| (ticks + 1) * self.hz.tick_ns() <= now_ns);
        if is_timed_out && self.is_scheduled && self.compressed == 0 && self.since_ns.is_none() {
            // The delay was too short for the data that it waited for, or there is none to wait for.
            match self.is_interactive {
                true => self.delay = self.least(),
                false => self.delay = (self.delay << 1).min(self.rto()),
            }
            self.is_interactive = false;
        }
        // Where the timer of those that wait sends it, it is one of them.
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
        // In the tick that began at 1000 ms.
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
        // 260 ms by doubling, 196 ms by the least timeout.
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
