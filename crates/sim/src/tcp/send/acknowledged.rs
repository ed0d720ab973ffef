//! Processing of acknowledgements (`tcp_ack`).

use super::Sender;
use super::scoreboard::{Id, Packet};
use crate::tcp::congestion::{Acked, State};
use crate::tcp::rate::{Sample, Snapshot};
use crate::tcp::segment::{Range, SACK_BLOCKS, Sack, Segment};

/// The effects of an acknowledgement.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flags {
    /// It cumulatively acknowledges new data.
    pub(super) advanced: bool,
    /// Its SACK blocks cover new data.
    pub(super) data_sacked: bool,
    /// It is a pure duplicate acknowledgement.
    pub(super) is_duplicate: bool,
    /// Data below `high` that was never retransmitted has arrived (`FLAG_ORIG_SACK_ACKED`).
    pub(super) original_arrived: bool,
    /// A DSACK reports duplicate data.
    pub(super) dsack: bool,
    /// ECE.
    pub(super) ece: bool,
    /// Its TSecr.
    pub(super) echo: u32,
    /// SND.UNA before it.
    pub(super) prior_una: u64,
}

/// Data collected from the packets that an acknowledgement covers.
#[derive(Debug, Default)]
struct Gathered {
    /// Whether it cumulatively acknowledges a retransmitted packet.
    has_resent: bool,
    /// The end of the highest SACKed packet before this acknowledgement (`prior_fack`).
    prior_highest_sacked: u64,
    /// Send times of the first and last cumulatively acknowledged packets that were sent once and not SACKed before.
    first_ns: Option<u64>,
    last_ns: Option<u64>,
    /// The same for newly SACKed packets.
    sacked_first_ns: Option<u64>,
    sacked_last_ns: Option<u64>,
    /// The most recently sent of all: send time, end, snapshot, and whether it was retransmitted.
    newest: Option<(u64, u64, Snapshot, bool)>,
    /// The lowest sequence number that arrived after a higher one.
    reordered: Option<u64>,
    delivered: u32,
    /// Packets acknowledged cumulatively.
    packets: u32,
}

impl Gathered {
    fn delivered(&mut self, packet: &Packet) {
        self.delivered += 1;
        let (sent_ns, end) = (packet.sent_ns, packet.end());
        let is_newer = self
            .newest
            .is_none_or(|(newest_ns, newest_end, ..)| (sent_ns, end) > (newest_ns, newest_end));
        if is_newer {
            self.newest = Some((sent_ns, end, packet.snapshot, packet.was_resent));
        }
    }

    fn reordered(&mut self, seq: u64) {
        self.reordered = Some(self.reordered.map_or(seq, |low| low.min(seq)));
    }
}

fn elapsed_us(now_ns: u64, since_ns: u64) -> u64 {
    now_ns.saturating_sub(since_ns) / 1_000
}

impl Sender {
    /// Processes what a segment says about data that this end has sent. The receiving half processes it afterwards.
    pub fn on_segment(&mut self, now_ns: u64, segment: &Segment) {
        let (ack, prior_una) = (segment.ack, self.window.una);
        if !self.is_established || ack > self.window.next {
            return;
        }
        let prior_in_flight = self.board.in_flight();
        let prior_lost = self.window.lost;
        let mut flags = Flags {
            advanced: ack > prior_una,
            echo: segment.ts_echo,
            prior_una,
            ece: self.uses_ecn && segment.ece,
            ..Flags::default()
        };
        let has_new_window = ack >= prior_una && self.take_window(segment);
        // What this acknowledgement itself SACKs does not show that the data it acknowledges was reordered.
        let mut gathered = Gathered {
            prior_highest_sacked: self.highest_sacked,
            ..Gathered::default()
        };
        self.take_sack(now_ns, segment, &mut flags, &mut gathered);
        if ack < prior_una {
            return;
        }
        let prior_sacked = self.board.sacked;
        if flags.advanced {
            self.take_ack(now_ns, ack, &mut flags, &mut gathered);
        }
        flags.is_duplicate =
            !flags.advanced && !flags.data_sacked && segment.bytes == 0 && !has_new_window;
        let rtt_us = self.take_round_trip(now_ns, segment, &flags, &gathered);
        self.window.delivered = self.window.delivered.wrapping_add(gathered.delivered);
        if gathered.delivered > 0 {
            self.window.delivered_ns = now_ns;
        }
        if let Some(low) = gathered.reordered {
            self.see_reordering(low);
        }
        self.rack.adapt(
            flags.dsack,
            gathered
                .newest
                .map_or(0, |(_, _, snapshot, _)| snapshot.delivered),
            self.window.delivered,
        );
        self.refresh();
        self.settle_probe(now_ns, ack, flags);
        if flags.advanced {
            self.timeouts = 0;
            self.trips.backoff = 0;
        } else if self.board.is_empty() && prior_in_flight == 0 && has_new_window {
            self.trips.backoff = 0;
            self.timer = None;
        }
        let mut sample = self.rate(now_ns, &gathered);
        sample.rtt_us = rtt_us;
        sample.acked_sacked = gathered.delivered;
        sample.prior_in_flight = prior_in_flight;
        // The only packet in flight may have been acknowledged with a delay.
        sample.is_ack_delayed = gathered.packets == 1
            && prior_sacked == 0
            && ack - prior_una < u64::from(self.config.mss)
            && sample.prior_delivered.wrapping_add(1) == self.window.delivered
            && !flags.ece;
        if flags.advanced || flags.data_sacked {
            self.law
                .on_acked(&mut self.window, &Acked { now_ns, sample });
        }
        let is_dubious = flags.is_duplicate
            || flags.data_sacked
            || flags.ece
            || flags.dsack
            || self.window.state != State::Open;
        self.waits_for_reordering = false;
        if is_dubious {
            self.alert(now_ns, flags);
        }
        if flags.advanced && !self.waits_for_reordering {
            self.rearm(now_ns);
        }
        sample.losses = self.window.lost.wrapping_sub(prior_lost);
        self.refresh();
        self.control(now_ns, sample, flags);
        self.checks_space = true;
        if self.window.next == self.window.una && self.timer.is_some() && self.board.is_empty() {
            self.timer = None;
        }
    }

    /// Updates the peer's window (RFC 9293 §3.10.7.4, `tcp_may_update_window`); returns whether it has changed.
    fn take_window(&mut self, segment: &Segment) -> bool {
        let is_newer = segment.ack > self.window.una
            || segment.seq > self.window_seq
            || (segment.seq == self.window_seq && segment.window_bytes > self.peer_window);
        if !is_newer {
            return false;
        }
        self.window_seq = segment.seq;
        let has_changed = self.peer_window != segment.window_bytes;
        self.peer_window = segment.window_bytes;
        self.buffer.see_window(segment.window_bytes);
        has_changed
    }

    /// Processes the SACK blocks (RFC 2018, RFC 2883, `tcp_sacktag_write_queue`).
    fn take_sack(
        &mut self,
        now_ns: u64,
        segment: &Segment,
        flags: &mut Flags,
        gathered: &mut Gathered,
    ) {
        let blocks = segment.sack.blocks();
        let Some(&first) = blocks.first() else {
            self.last_sack = Sack::default();
            return;
        };
        let within = |outer: &Range| first.from >= outer.from && first.to <= outer.to;
        let is_dsack = first.from < segment.ack || blocks.get(1).is_some_and(within);
        if is_dsack {
            flags.dsack = true;
            // One of this reduction's retransmissions was unnecessary.
            if self.undo_from.is_some_and(|from| first.to > from) && self.undo_resent > 0 {
                self.undo_resent -= 1;
            }
        }
        let mut rest = [Range::default(); SACK_BLOCKS];
        let rest = &mut rest[..blocks.len() - usize::from(is_dsack)];
        rest.copy_from_slice(&blocks[usize::from(is_dsack)..]);
        // Sorted by sequence: a lower block listed after a higher one is no reordering.
        rest.sort_unstable_by_key(|block| block.from);
        for &block in &*rest {
            self.take_block(now_ns, block, flags, gathered);
        }
        self.last_sack = segment.sack;
    }

    /// Processes a SACK block, except for what the last acknowledgement already reported.
    fn take_block(
        &mut self,
        now_ns: u64,
        block: Range,
        flags: &mut Flags,
        gathered: &mut Gathered,
    ) {
        let known = self.last_sack;
        let known = known
            .blocks()
            .iter()
            .find(|known| known.from >= block.from && known.to <= block.to);
        match known {
            Some(known) => {
                self.take_range(now_ns, block.from, known.from, flags, gathered);
                self.take_range(now_ns, known.to, block.to, flags, gathered);
            }
            None => self.take_range(now_ns, block.from, block.to, flags, gathered),
        }
    }

    fn take_range(
        &mut self,
        now_ns: u64,
        from: u64,
        to: u64,
        flags: &mut Flags,
        gathered: &mut Gathered,
    ) {
        if from >= to {
            return;
        }
        let mut id: Id = self.board.find(from);
        while let Some(&packet) = self.board.get(id) {
            if packet.end() > to || packet.seq < from {
                break;
            }
            if !packet.is_sacked {
                self.take_sacked(now_ns, id, &packet, flags, gathered);
            }
            id = id.wrapping_add(1);
        }
    }

    fn take_sacked(
        &mut self,
        now_ns: u64,
        id: Id,
        packet: &Packet,
        flags: &mut Flags,
        gathered: &mut Gathered,
    ) {
        self.rack.arrived(now_ns, packet, self.trips.least_us());
        if !packet.was_resent {
            if packet.seq < self.highest_sacked {
                gathered.reordered(packet.seq);
            }
            flags.original_arrived |= packet.end() <= self.high;
            gathered.sacked_first_ns.get_or_insert(packet.sent_ns);
            gathered.sacked_last_ns = Some(packet.sent_ns);
        }
        self.board.sack(id);
        self.highest_sacked = self.highest_sacked.max(packet.end());
        flags.data_sacked = true;
        gathered.delivered(packet);
    }

    /// Processes the cumulative acknowledgement (`tcp_clean_rtx_queue`).
    fn take_ack(&mut self, now_ns: u64, ack: u64, flags: &mut Flags, gathered: &mut Gathered) {
        let prior_una = self.window.una;
        let before_written = self.written;
        while let Some(packet) = self.board.pop(ack) {
            gathered.packets += 1;
            if packet.was_resent {
                gathered.has_resent = true;
                if packet.is_resent || !packet.is_sacked {
                    self.rack.arrived(now_ns, &packet, self.trips.least_us());
                }
            } else if !packet.is_sacked {
                gathered.first_ns.get_or_insert(packet.sent_ns);
                gathered.last_ns = Some(packet.sent_ns);
                if packet.seq < gathered.prior_highest_sacked {
                    gathered.reordered(packet.seq);
                }
                flags.original_arrived |= packet.end() <= self.high;
                self.rack.arrived(now_ns, &packet, self.trips.least_us());
            }
            if !packet.is_sacked {
                gathered.delivered(&packet);
            }
        }
        self.window.una = ack;
        let data = |seq: u64| seq.min(before_written);
        self.buffer.free(data(ack) - data(prior_una));
    }

    /// Measures the RTT (`tcp_ack_update_rtt`); returns the sample for congestion control.
    fn take_round_trip(
        &mut self,
        now_ns: u64,
        segment: &Segment,
        flags: &Flags,
        gathered: &Gathered,
    ) -> Option<u64> {
        let since = |sent_ns: Option<u64>| sent_ns.map(|sent_ns| elapsed_us(now_ns, sent_ns));
        // Karn's algorithm applies to the whole acknowledgement (`FLAG_RETRANS_DATA_ACKED`).
        let unless_resent = |sent_ns: Option<u64>| sent_ns.filter(|_| !gathered.has_resent);
        let first_ns = unless_resent(gathered.first_ns);
        let last_ns = unless_resent(gathered.last_ns);
        let mut rtt_us = since(first_ns).or(since(gathered.sacked_first_ns));
        if rtt_us.is_none() && flags.advanced && segment.ts_echo > 0 {
            let now_ms = Segment::timestamp_ms(now_ns);
            rtt_us = Some(u64::from(now_ms.wrapping_sub(segment.ts_echo).max(1)) * 1_000);
        }
        let rtt_us = rtt_us?;
        let for_law = since(gathered.sacked_last_ns).or(since(last_ns));
        let for_law = for_law.or(Some(rtt_us));
        self.trips.measure(
            now_ns,
            rtt_us,
            for_law.unwrap_or(rtt_us),
            self.window.una,
            self.window.next,
        );
        for_law
    }

    /// The delivery rate sample (`tcp_rate_gen`).
    fn rate(&mut self, now_ns: u64, gathered: &Gathered) -> Sample {
        let limited = self.window.app_limited_until;
        if limited != 0 && self.window.delivered.wrapping_sub(limited) as i32 > 0 {
            self.window.app_limited_until = 0;
        }
        let Some((sent_ns, _, snapshot, was_resent)) = gathered.newest else {
            return Sample::default();
        };
        self.first_sent_ns = sent_ns;
        let sending_us = elapsed_us(sent_ns, snapshot.first_sent_ns);
        let acking_us = elapsed_us(now_ns, snapshot.delivered_ns);
        let interval_us = sending_us.max(acking_us);
        let is_plausible = self
            .trips
            .least_us()
            .is_none_or(|least| interval_us >= least);
        Sample {
            prior_delivered: snapshot.delivered,
            delivered: is_plausible.then(|| self.window.delivered.wrapping_sub(snapshot.delivered)),
            interval_us,
            is_app_limited: snapshot.is_app_limited,
            is_retransmit: was_resent,
            ..Sample::default()
        }
    }

    /// Updates the window (`tcp_cong_control`).
    fn control(&mut self, now_ns: u64, sample: Sample, flags: Flags) {
        let acked = Acked { now_ns, sample };
        if self.law.control(&mut self.window, &acked) {
            return;
        }
        if matches!(self.window.state, State::Cwr | State::Recovery) {
            self.reduce(sample.acked_sacked, sample.losses, flags);
        } else if flags.advanced || (self.reordering > super::REORDERING && flags.data_sacked) {
            self.window.is_limited = self.is_limited();
            self.law.avoid(&mut self.window, &acked);
            self.used_ns = now_ns;
        }
        self.pace();
    }
}
