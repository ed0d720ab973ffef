//! How the window reacts to packets that are lost, marked or only reordered (`tcp_fastretrans_alert`, RFC 5681, RFC
//! 6675, RFC 6937, RFC 5682, RFC 3522).

use super::Sender;
use super::acknowledged::Flags;
use super::prr::Reduction;
use super::scoreboard::Id;
use super::timeout::Timer;
use crate::tcp::congestion::{Event, State};

impl Sender {
    /// Marks a packet as lost.
    pub(super) fn lose(&mut self, id: Id) -> bool {
        let is_new = self.board.lose(id);
        self.note_loss(u32::from(is_new));
        is_new
    }

    fn note_loss(&mut self, packets: u32) {
        self.window.lost = self.window.lost.wrapping_add(packets);
        if packets > 0 {
            // The losses may be anywhere in the scoreboard.
            self.hint = self.board.first_id();
        }
    }

    /// Detects losses when a packet sent later has arrived (`tcp_rack_mark_lost`). Returns whether a retransmission was
    /// lost.
    fn find_lost(&mut self, now_ns: u64) -> bool {
        let resent = self.board.resent;
        if std::mem::take(&mut self.rack.advanced) {
            self.detect(now_ns);
        }
        self.board.resent < resent
    }

    fn detect(&mut self, now_ns: u64) {
        let window_us = self.rack.window_us(&self.reordering(), self.board.sacked);
        let (lost, wait_us) = self.rack.detect(now_ns, &mut self.board, window_us);
        self.note_loss(lost);
        if let Some(wait_us) = wait_us {
            let at_ns = self
                .config
                .hz
                .expiry_ns(now_ns, wait_us + super::rtt::TIMEOUT_MIN_US);
            self.timer = Some((Timer::Reordering, at_ns));
            self.waits_for_reordering = true;
        }
    }

    /// The reordering timer has expired (`tcp_rack_reo_timeout`).
    pub(super) fn look_for_lost(&mut self, now_ns: u64) {
        let before = self.board.in_flight();
        self.detect(now_ns);
        if self.board.in_flight() != before && self.window.state != State::Recovery {
            self.enter_recovery(now_ns, false);
            if !self.law.sends_paced() {
                self.reduce(1, 0, Flags::default());
            }
        }
        if self.timer.is_none() {
            self.arm_timeout(now_ns);
        }
    }

    /// The window during a reduction (`tcp_cwnd_reduction`).
    pub(super) fn reduce(&mut self, acked: u32, lost: u32, flags: Flags) {
        let window = self.reduction.window(
            acked,
            lost,
            self.board.in_flight(),
            self.window.ssthresh,
            flags.advanced,
        );
        if let Some(cwnd) = window {
            self.window.cwnd = cwnd;
        }
    }

    pub(super) fn begin_undo(&mut self) {
        self.undo_from = Some(self.window.una);
        // Retransmissions in flight may still arrive.
        self.undo_resent = match self.board.resent {
            0 => -1,
            resent => i64::from(resent),
        };
    }

    fn begin_reduction(&mut self) {
        self.high = self.window.next;
        self.probe = None;
        self.window.count = 0;
        self.window.prior = self.window.cwnd;
        self.reduction = Reduction {
            from: self.window.cwnd,
            ..Reduction::default()
        };
        self.refresh();
        self.window.ssthresh = self.law.ssthresh(&self.window);
        self.must_say_cwr = self.uses_ecn;
    }

    fn end_reduction(&mut self, now_ns: u64) {
        if self.law.sends_paced() {
            return;
        }
        let is_set = self.window.ssthresh < crate::tcp::congestion::INFINITE;
        if is_set && (self.window.state == State::Cwr || self.undo_from.is_some()) {
            self.window.cwnd = self.window.ssthresh;
            self.used_ns = now_ns;
        }
        self.happens(now_ns, Event::CompleteCwr);
    }

    /// Begins a window reduction for an ECN mark (`tcp_enter_cwr`).
    pub(super) fn enter_cwr(&mut self, now_ns: u64) {
        self.prior_ssthresh = 0;
        if self.window.state < State::Cwr {
            self.undo_from = None;
            self.begin_reduction();
            self.set_state(now_ns, State::Cwr);
            self.counts.reductions += 1;
        }
    }

    fn enter_recovery(&mut self, now_ns: u64, by_mark: bool) {
        self.prior_ssthresh = 0;
        self.begin_undo();
        if !self.is_reducing() {
            if !by_mark {
                self.prior_ssthresh = self.current_ssthresh();
            }
            self.begin_reduction();
        }
        self.set_state(now_ns, State::Recovery);
        self.counts.recoveries += 1;
    }

    /// Enters Open if nothing is missing, else Disorder (`tcp_try_keep_open`).
    fn keep_open(&mut self, now_ns: u64) {
        let is_clean = self.board.sacked + self.board.lost == 0 && !self.has_resent();
        let state = if is_clean {
            State::Open
        } else {
            State::Disorder
        };
        if self.window.state != state {
            self.set_state(now_ns, state);
            self.high = self.window.next;
        }
    }

    /// Whether the reduction was spurious: all retransmissions were duplicates, or the acknowledgement is for the
    /// original transmission (`tcp_may_undo`).
    fn may_undo(&self, flags: Flags) -> bool {
        self.undo_from.is_some() && (self.undo_resent == 0 || self.is_of_first(flags))
    }

    /// Whether the echoed timestamp is older than the first retransmission (Eifel, RFC 3522 §3.2).
    fn is_of_first(&self, flags: Flags) -> bool {
        self.resent_ms
            .is_some_and(|resent| (flags.echo.wrapping_sub(resent) as i32) < 0)
    }

    /// Undoes a reduction (`tcp_undo_cwnd_reduction`).
    fn undo(&mut self, now_ns: u64, unmark: bool) {
        if unmark {
            self.board.lose_nothing();
        }
        if self.prior_ssthresh > 0 {
            self.window.cwnd = self.law.undo(&self.window);
            if self.prior_ssthresh > self.window.ssthresh {
                self.window.ssthresh = self.prior_ssthresh;
                self.must_say_cwr = false;
            }
        }
        self.used_ns = now_ns;
        self.undo_from = None;
        self.rack.advanced = true;
        self.counts.undone += 1;
    }

    /// Ends a recovery, and undoes it if it was spurious (`tcp_try_undo_recovery`).
    fn finish_recovery(&mut self, now_ns: u64, flags: Flags) {
        if self.may_undo(flags) {
            self.undo(now_ns, false);
        } else {
            self.rack.recovered();
        }
        self.set_state(now_ns, State::Open);
    }

    /// Undoes a recovery that a partial acknowledgement shows to be spurious (`tcp_try_undo_partial`).
    fn undo_partial(&mut self, now_ns: u64, flags: Flags) -> bool {
        if self.undo_from.is_none() || !self.is_of_first(flags) {
            return false;
        }
        self.see_reordering(flags.prior_una);
        if self.board.resent > 0 {
            return true;
        }
        self.forget_resent();
        self.undo(now_ns, true);
        self.keep_open(now_ns);
        true
    }

    /// Undoes a spurious timeout; returns whether it did (`tcp_try_undo_loss`).
    fn undo_loss(&mut self, now_ns: u64, flags: Flags, by_frto: bool) -> bool {
        if !by_frto && !self.may_undo(flags) {
            return false;
        }
        self.undo(now_ns, true);
        self.timeouts = 0;
        self.set_state(now_ns, State::Open);
        true
    }

    /// Updates the reordering degree: data at `low` arrived after higher data was SACKed (`tcp_check_sack_reordering`).
    pub(super) fn see_reordering(&mut self, low: u64) {
        let distance = self.highest_sacked.saturating_sub(low);
        if self.highest_sacked <= low {
            return;
        }
        let packets = distance.div_ceil(u64::from(self.config.mss)) as u32;
        if packets > self.reordering {
            self.reordering = packets.min(300);
        }
        self.has_reordered = true;
    }

    /// Forgets the time of the first retransmission unless [`has_resent`](Self::has_resent).
    fn forget_resent(&mut self) {
        if !self.has_resent() {
            self.resent_ms = None;
        }
    }

    /// Whether any retransmissions are in flight, or the head was ever retransmitted (`tcp_any_retrans_done`).
    fn has_resent(&self) -> bool {
        let head = self.board.head();
        self.board.resent > 0 || head.is_some_and(|head| head.was_resent)
    }

    /// Processes a dubious acknowledgement (`tcp_fastretrans_alert`).
    pub(super) fn alert(&mut self, now_ns: u64, flags: Flags) {
        if flags.ece {
            self.prior_ssthresh = 0;
        }
        if self.window.state == State::Open {
            self.resent_ms = None;
        } else if self.window.una >= self.high {
            match self.window.state {
                State::Cwr if self.window.una != self.high => {
                    self.end_reduction(now_ns);
                    self.set_state(now_ns, State::Open);
                }
                State::Recovery => {
                    self.end_reduction(now_ns);
                    self.finish_recovery(now_ns, flags);
                }
                _ => {}
            }
        }
        match self.window.state {
            State::Recovery => {
                if flags.advanced && self.undo_partial(now_ns, flags) {
                    return;
                }
                if flags.dsack && self.undo_dsack(now_ns) {
                    self.keep_open(now_ns);
                }
                self.find_lost(now_ns);
                if self.window.state == State::Recovery {
                    return;
                }
                if self.board.lost == 0 {
                    self.try_open(now_ns, flags);
                    return;
                }
            }
            State::Loss => {
                self.after_timeout(now_ns, flags);
                let again = self.find_lost(now_ns);
                if self.window.state != State::Open && !again {
                    return;
                }
                if self.board.lost == 0 {
                    self.try_open(now_ns, flags);
                    return;
                }
            }
            State::Open | State::Disorder | State::Cwr => {
                if self.window.state <= State::Disorder {
                    self.undo_dsack(now_ns);
                }
                self.find_lost(now_ns);
                if self.board.lost == 0 {
                    self.try_open(now_ns, flags);
                    return;
                }
            }
        }
        self.enter_recovery(now_ns, flags.ece);
    }

    /// Undoes the reduction if all retransmissions were duplicates (`tcp_try_undo_dsack`).
    fn undo_dsack(&mut self, now_ns: u64) -> bool {
        let is_for_nothing = self.undo_from.is_some() && self.undo_resent == 0;
        if is_for_nothing {
            self.undo(now_ns, false);
        }
        is_for_nothing
    }

    /// Updates the state when nothing is marked as lost (`tcp_try_to_open`).
    fn try_open(&mut self, now_ns: u64, flags: Flags) {
        self.forget_resent();
        if flags.ece {
            self.enter_cwr(now_ns);
        }
        if self.window.state != State::Cwr {
            self.keep_open(now_ns);
        }
    }

    /// Processes an acknowledgement after a timeout (`tcp_process_loss`; F-RTO, RFC 5682 §3.1).
    fn after_timeout(&mut self, now_ns: u64, flags: Flags) {
        let is_recovered = self.window.una >= self.high;
        if flags.advanced && self.undo_loss(now_ns, flags, false) {
            return;
        }
        if self.is_frto {
            // Step 3.b: data that was never retransmitted has arrived.
            if flags.original_arrived && self.undo_loss(now_ns, flags, true) {
                return;
            }
            if self.window.next > self.high {
                if flags.data_sacked || flags.is_duplicate {
                    self.is_frto = false;
                }
            } else if flags.advanced && !is_recovered {
                self.high = self.window.next;
                // Step 2.b: new data will show whether the timeout was spurious.
                if self.window.next < self.written && self.window_end() > self.window.next {
                    self.new_first = true;
                    return;
                }
                self.is_frto = false;
            }
        }
        if is_recovered {
            self.finish_recovery(now_ns, flags);
        }
    }

    /// Checks an acknowledgement against the tail loss probe (RFC 8985 §7.4, `tcp_process_tlp_ack`).
    pub(super) fn settle_probe(&mut self, now_ns: u64, ack: u64, flags: Flags) {
        let Some((end, was_resent)) = self.probe else {
            return;
        };
        if ack < end {
            return;
        }
        if !was_resent || flags.dsack {
            self.probe = None;
        } else if ack > end {
            // The probe repaired a loss, which calls for one reduction.
            self.begin_reduction();
            self.set_state(now_ns, State::Cwr);
            self.end_reduction(now_ns);
            self.keep_open(now_ns);
        } else if !flags.advanced && !flags.data_sacked {
            self.probe = None;
        }
    }
}
