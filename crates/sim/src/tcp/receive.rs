//! The receiving half of a connection: reassembly, the window, and acknowledgements.
//!
//! Follows `tcp_rcv_established`, `tcp_data_queue` and `tcp_cleanup_rbuf` of Linux 6.18 with that version's buffer
//! autotuning (`tcp_rcvbuf_grow` after "tcp: fix too slow tcp_rcvbuf_grow() action"; without the
//! `tcp_rcvbuf_low_rtt` and `tcp_comp_sack_rtt_percent` of 6.19). All segments take its slow path, with the same
//! acknowledgements. Not implemented: PAWS, urgent data, RST, memory pressure, `tcp_shrink_window`.
//!
//! - `config`: settings;
//! - `buffer`: the window that the buffer allows, and its growth;
//! - `autotune`: the receiver's RTT estimate, and the data received in it;
//! - `reassembly`: data behind holes; `blocks`: how SACK reports it;
//! - `acknowledge`: when to send ACKs.

use wansan_path::Ecn;

use self::acknowledge::{Acknowledge, QUICK_FEW, QUICK_MOST, Sending};
use self::autotune::{Demand, RoundTrip};
use self::blocks::Blocks;
use self::buffer::{Buffer, FIELD_MOST};
use self::reassembly::Reassembly;
use super::segment::{Range, Segment};

mod acknowledge;
mod autotune;
mod blocks;
mod buffer;
pub mod config;
mod reassembly;
#[cfg(test)]
mod tests;

pub use self::config::{Opening, ReceiveConfig, Truesize};

/// Segments are taken to be no larger before one has come (TCP_MSS_DEFAULT).
const MSS_DEFAULT: u32 = 536;

/// The least size of a full segment (TCP_MIN_MSS).
const MSS_LEAST: u32 = 88;

/// The header that every segment has, with timestamps.
const HEADER_BYTES: u32 = 32;

/// Smaller segments than this do not make the window grow.
const GROWING_BYTES: u32 = 128;

/// Segments without data out of the window are answered so often at most (`tcp_invalid_ratelimit`).
const ANSWER_NS: u64 = 500_000_000;

/// What has happened since the connection began, in segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// That came behind a hole (`rcv_ooopack`).
    pub out_of_order: u64,
    /// All of whose data had come before.
    pub duplicates: u64,
    /// That did not lie in the window (RFC 9293 §3.10.7.4), or met a closed one.
    pub out_of_window: u64,
    /// That were dropped since the buffer was full (`TCPRcvQDrop`, `TCPOFODrop`).
    pub dropped: u64,
    /// Times that data behind holes was dropped, which had been reported by SACK (`OfoPruned`).
    pub pruned: u64,
    /// With CE.
    pub marked: u64,
}

/// The state of a receiver, as `ss` and records of `tcp` tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveInfo {
    /// The window that was advertised last, in bytes (`tcpi_rcv_wnd`).
    pub window_bytes: u64,
    /// The greatest that would be now (`tcpi_rcv_ssthresh`).
    pub ssthresh_bytes: u64,
    /// The most that a round trip brought (`tcpi_rcv_space`).
    pub space_bytes: u64,
    /// The receive buffer, with overhead (`sk_rcvbuf`).
    pub buffer_bytes: u64,
    /// What of it is used (`sk_rmem_alloc`).
    pub memory_bytes: u64,
    /// The size of full segments (`tcpi_rcv_mss`).
    pub mss_bytes: u32,
    /// The round trip as the receiver estimates it (`tcpi_rcv_rtt`).
    pub round_trip_us: Option<u64>,
    /// Acknowledgements that compression spared (`TCPAckCompressed`).
    pub spared_acknowledgements: u64,
    /// Counts.
    pub counts: Counts,
}

/// In-order data that was not read, and its memory.
#[derive(Debug, Default)]
struct Unread {
    bytes: u64,
    memory: u64,
}

impl Unread {
    fn add(&mut self, bytes: u64, memory: u64) {
        if bytes > 0 {
            self.bytes += bytes;
            self.memory += memory;
        }
    }

    /// Packets are freed as a whole, here in proportion: exact for packets of one size that are read as a whole.
    fn read(&mut self, bytes: u64) {
        let left = self.bytes - bytes;
        self.memory = (self.memory * left).div_ceil(self.bytes);
        self.bytes = left;
    }
}

/// The receiving half.
///
/// In go [`on_segment`](Self::on_segment) for all that arrives, [`read`](Self::read) for the program, and what the
/// sending half knows: [`set_round_trip`](Self::set_round_trip), [`on_sent_data`](Self::on_sent_data). After each,
/// and when it is due, [`acknowledge_at`](Self::acknowledge_at) says when a segment has to be sent for the
/// receiver's sake; any segment that is sent meanwhile does as well. Each goes through [`fill`](Self::fill).
/// Times never go back.
#[derive(Debug)]
pub struct Receiver {
    opening: Opening,
    wants_ecn: bool,
    truesize: Truesize,
    buffer: Buffer,
    reassembly: Reassembly,
    blocks: Blocks,
    unread: Unread,
    acknowledge: Acknowledge,
    round_trip: RoundTrip,
    demand: Demand,
    /// Whether both ends have agreed.
    is_established: bool,
    /// The next that is expected (RCV.NXT).
    next: u64,
    /// The next that is read (`copied_seq`).
    copied: u64,
    /// What the last segment acknowledged (`rcv_wup`), and the window with it (RCV.WND).
    acknowledged: u64,
    window: u64,
    /// The data of a full segment, as the peer sends it (`rcv_mss`), and of the last smaller one.
    rcv_mss: u32,
    last_size: u32,
    /// The timestamp to echo (TS.Recent).
    ts_recent: u32,
    uses_ecn: bool,
    /// Whether packets that are capable of ECN have come.
    has_seen_ecn: bool,
    /// Whether ECE is sent, until CWR comes.
    demands_cwr: bool,
    /// A FIN that lies behind a hole.
    fin: Option<u64>,
    is_finished: bool,
    /// The time of the last segment, which autotuning goes by (`tcp_mstamp`).
    stamp_us: u64,
    answered_ns: Option<u64>,
    counts: Counts,
}

impl Receiver {
    /// The receiver of a new connection, to which no SYN has come.
    #[must_use]
    pub fn new(config: &ReceiveConfig, opening: Opening) -> Self {
        let (buffer, window) = Buffer::new(config, opening);
        let hint = config.mss.min((window / 2) as u32).min(MSS_DEFAULT);
        Receiver {
            opening,
            wants_ecn: config.ecn,
            truesize: config.truesize,
            reassembly: Reassembly::default(),
            blocks: Blocks::default(),
            unread: Unread::default(),
            acknowledge: Acknowledge::new(
                config.hz,
                config.comp_sack_delay_ns,
                config.comp_sack_nr,
            ),
            round_trip: RoundTrip::default(),
            demand: Demand::default(),
            is_established: false,
            next: 0,
            copied: 0,
            acknowledged: 0,
            window,
            rcv_mss: hint.max(MSS_LEAST),
            last_size: 0,
            ts_recent: 0,
            uses_ecn: false,
            has_seen_ecn: false,
            demands_cwr: false,
            fin: None,
            is_finished: false,
            stamp_us: 0,
            answered_ns: None,
            counts: Counts::default(),
            buffer,
        }
    }

    /// A segment arrives, in a packet with this codepoint. What it acknowledges is the sending half's matter, which
    /// goes first.
    pub fn on_segment(&mut self, now_ns: u64, segment: &Segment, ecn: Ecn) {
        self.stamp_us = now_ns / 1000;
        if segment.syn {
            self.on_syn(now_ns, segment);
            return;
        }
        if self.next == 0 {
            return;
        }
        if !self.is_established {
            self.establish(now_ns);
        }
        if !self.is_acceptable(segment) {
            self.refuse(now_ns, segment);
            return;
        }
        // RFC 7323 §4.3, rule 2: of what was acknowledged last, and never back.
        if segment.seq <= self.acknowledged
            && segment.ts_value.wrapping_sub(self.ts_recent) as i32 >= 0
        {
            self.ts_recent = segment.ts_value;
        }
        if segment.cwr {
            self.demands_cwr = false;
            // The sender's window may be down to a packet.
            self.acknowledge.is_urgent |= segment.end() > segment.seq;
        }
        let is_full = segment.end() - segment.seq >= u64::from(self.rcv_mss);
        self.round_trip.on_echo(
            Segment::timestamp_ms(now_ns),
            segment.ts_echo,
            is_full,
            self.readable_bytes() == 0,
        );
        self.queue(now_ns, segment, ecn);
        if self.acknowledge.is_scheduled {
            self.decide(now_ns);
        }
    }

    fn on_syn(&mut self, now_ns: u64, segment: &Segment) {
        if self.next > 0 {
            // Once more, since what answered it was lost (RFC 5961 §4.2).
            self.acknowledge.send(now_ns);
            return;
        }
        self.next = segment.seq + 1;
        self.copied = self.next;
        self.acknowledged = self.next;
        self.ts_recent = segment.ts_value;
        // RFC 3168 §6.1.1: ECE and CWR ask, ECE alone agrees.
        let is_asked = self.opening == Opening::Passive;
        self.uses_ecn = self.wants_ecn && segment.ece && segment.cwr == is_asked;
        if self.opening == Opening::Active {
            self.establish(now_ns);
            self.acknowledge.send(now_ns);
        }
    }

    fn establish(&mut self, now_ns: u64) {
        self.is_established = true;
        self.acknowledge.begin(now_ns);
        let demand = self.buffer.first_demand(self.window);
        self.demand = Demand::begin(demand, self.copied, self.stamp_us);
    }

    /// RFC 9293 §3.10.7.4, first check, as `tcp_sequence` has it: a FIN may lie beyond the window, and data as well
    /// while nothing waits to be read.
    fn is_acceptable(&self, segment: &Segment) -> bool {
        let right = self.next + self.window_left();
        let is_beyond = segment.end() - u64::from(segment.fin) > right;
        segment.end() >= self.acknowledged
            && (!is_beyond || segment.seq <= right && self.readable_bytes() == 0)
    }

    /// A segment that is not acceptable is answered (`tcp_send_dupack`).
    fn refuse(&mut self, now_ns: u64, segment: &Segment) {
        let is_duplicate = segment.end() > segment.seq && segment.seq < self.next;
        match is_duplicate {
            true => self.counts.duplicates += 1,
            false => self.counts.out_of_window += 1,
        }
        if segment.bytes == 0 {
            if self
                .answered_ns
                .is_some_and(|at_ns| now_ns - at_ns < ANSWER_NS)
            {
                return;
            }
            self.answered_ns = Some(now_ns);
        }
        if is_duplicate {
            self.enter_quick(QUICK_MOST);
            self.blocks.forget_duplicate();
            let to = segment.end().min(self.next);
            self.blocks.set_duplicate(Range {
                from: segment.seq,
                to,
            });
        }
        self.acknowledge.send(now_ns);
    }

    /// `tcp_data_queue`.
    fn queue(&mut self, now_ns: u64, segment: &Segment, ecn: Ecn) {
        let Range { from, to } = Range {
            from: segment.seq,
            to: segment.end(),
        };
        // Nothing comes after a FIN, but retransmissions.
        if from == to || self.is_finished && from >= self.next {
            return;
        }
        if ecn == Ecn::Congestion {
            self.counts.marked += u64::from(segment.packets());
        }
        self.blocks.forget_duplicate();
        if to <= self.next {
            self.counts.duplicates += 1;
            self.blocks.set_duplicate(Range { from, to });
            self.answer_quickly();
            return;
        }
        let is_in_order = from <= self.next;
        if from < self.next {
            self.blocks.set_duplicate(Range {
                from,
                to: self.next,
            });
        }
        let left = self.window_left();
        let is_refused = match is_in_order {
            // A FIN alone takes no room.
            true => left == 0 && segment.bytes > 0,
            false => from >= self.next + left,
        };
        if is_refused {
            self.counts.out_of_window += 1;
            self.answer_quickly();
            return;
        }
        let memory = self.truesize.of_segment(segment);
        if is_in_order {
            self.queue_in_order(now_ns, segment, memory, ecn);
        } else {
            self.queue_out_of_order(now_ns, segment, memory, ecn);
        }
    }

    fn queue_in_order(&mut self, now_ns: u64, segment: &Segment, memory: u64, ecn: Ecn) {
        if !self.has_room(segment.seq) {
            self.acknowledge.is_out_of_memory = true;
            self.acknowledge.is_urgent = true;
            self.acknowledge.is_scheduled = true;
            if self.readable_bytes() > 0 && segment.bytes > 0 {
                self.counts.dropped += 1;
                return;
            }
        }
        let old_next = self.next;
        self.take(segment.end(), segment.fin, memory);
        if segment.bytes > 0 {
            self.on_data(now_ns, segment, memory, ecn);
        }
        if segment.fin {
            self.finish();
        }
        if !self.reassembly.is_empty() {
            self.fill_hole(old_next.max(segment.end()));
        }
        self.blocks.remove_until(self.next);
    }

    /// What lay behind a hole follows (`tcp_ofo_queue`); `segment_end` is where the one that filled it ends.
    fn fill_hole(&mut self, segment_end: u64) {
        while let Some(piece) = self.reassembly.take(self.next) {
            let Range { from, to } = piece.range;
            if from < segment_end {
                self.blocks.set_duplicate(Range {
                    from,
                    to: to.min(segment_end),
                });
            }
            if to > self.next {
                let is_last = self.fin.is_some_and(|fin| fin < to);
                self.take(to, is_last, piece.memory);
                if is_last {
                    self.finish();
                }
            }
        }
        // RFC 5681 §4.2: at once when all holes are filled.
        self.acknowledge.is_urgent |= self.reassembly.is_empty();
    }

    /// All up to `to` is in order, the last of it a FIN or not.
    fn take(&mut self, to: u64, is_fin: bool, memory: u64) {
        self.unread.add(to - self.next - u64::from(is_fin), memory);
        self.next = to;
        self.is_finished |= is_fin;
    }

    /// `tcp_fin`.
    fn finish(&mut self) {
        self.acknowledge.is_scheduled = true;
        self.acknowledge.be_interactive();
        self.reassembly.clear();
        self.blocks.clear();
    }

    /// `tcp_event_data_recv`.
    fn on_data(&mut self, now_ns: u64, segment: &Segment, memory: u64, ecn: Ecn) {
        self.acknowledge.is_scheduled = true;
        self.measure(segment, memory);
        let is_all_read = self.readable_bytes() == 0;
        self.round_trip
            .on_data(self.stamp_us, self.next, self.window, is_all_read);
        self.acknowledge.on_data(now_ns, self.window, self.rcv_mss);
        self.on_codepoint(ecn);
        if segment.bytes >= GROWING_BYTES {
            self.offer_more(segment.bytes, memory);
        }
    }

    /// `tcp_data_queue_ofo`.
    fn queue_out_of_order(&mut self, now_ns: u64, segment: &Segment, memory: u64, ecn: Ecn) {
        self.on_codepoint(ecn);
        if !self.has_room(segment.seq) {
            self.counts.dropped += 1;
            return;
        }
        self.measure(segment, memory);
        self.acknowledge.is_scheduled = true;
        self.counts.out_of_order += u64::from(segment.packets());
        let range = Range {
            from: segment.seq,
            to: segment.end(),
        };
        if segment.fin {
            self.fin = Some(range.to - 1);
        }
        let inserted = self.reassembly.insert(range, memory);
        if let Some(duplicate) = inserted.duplicate {
            self.blocks.set_duplicate(duplicate);
        }
        if self.blocks.add(range) {
            // The kernel sends one before this segment and decides anew for it; here it takes part.
            self.acknowledge.send_compressed(now_ns);
        }
        match inserted.is_old {
            true => self.counts.duplicates += 1,
            false => self.offer_more(segment.bytes, memory),
        }
        let beyond = self.reassembly.end().unwrap_or(self.next) - self.next;
        self.buffer
            .grow(self.demand.bytes, self.demand.bytes, beyond);
    }

    /// Segments become larger, or stay smaller twice: the size of full ones is another (`tcp_measure_rcv_mss`).
    fn measure(&mut self, segment: &Segment, memory: u64) {
        let last_size = std::mem::take(&mut self.last_size);
        let size = segment.full_bytes();
        if size >= self.rcv_mss {
            if size > self.rcv_mss {
                self.buffer.measure(segment.bytes, memory, self.window);
                self.demand.bytes = self.demand.bytes.min(self.buffer.clamp);
            }
            self.rcv_mss = size.min(self.buffer.mss());
            if segment.push {
                self.acknowledge.push(false);
            }
            return;
        }
        let with_options = size + segment.header_bytes();
        let is_plain = !segment.push && !segment.fin;
        if with_options >= MSS_DEFAULT + 20 || with_options >= MSS_LEAST + 20 && is_plain {
            // Without a change of the options: a block more makes the data smaller.
            self.last_size = with_options - HEADER_BYTES;
            if self.last_size == last_size {
                self.rcv_mss = last_size;
                return;
            }
        }
        self.acknowledge.push(true);
    }

    /// `tcp_data_ecn_check`.
    fn on_codepoint(&mut self, ecn: Ecn) {
        if !self.uses_ecn {
            return;
        }
        match ecn {
            // Retransmissions are not ECN-capable (RFC 3168 §6.1.5).
            Ecn::NotCapable if self.has_seen_ecn => self.enter_quick(QUICK_FEW),
            Ecn::Congestion if !self.demands_cwr => {
                self.enter_quick(QUICK_FEW);
                self.demands_cwr = true;
            }
            _ => {}
        }
        self.has_seen_ecn |= ecn.is_capable();
    }

    fn offer_more(&mut self, data_bytes: u32, memory: u64) {
        let used = self.memory();
        if self
            .buffer
            .offer_more(data_bytes, memory, used, self.rcv_mss)
        {
            self.acknowledge.tell_window();
        }
    }

    fn enter_quick(&mut self, most: u32) {
        self.acknowledge
            .enter_quick(self.window, self.rcv_mss, most);
    }

    fn answer_quickly(&mut self) {
        self.enter_quick(QUICK_MOST);
        self.acknowledge.is_scheduled = true;
    }

    /// Whether the buffer takes one more packet, at `seq`; makes room if it can (`tcp_try_rmem_schedule`,
    /// `tcp_prune_queue`).
    fn has_room(&mut self, seq: u64) -> bool {
        if self.memory() <= self.buffer.limit {
            return true;
        }
        self.acknowledge.stop_quick();
        self.buffer.overrun(self.memory());
        if self.memory() <= self.buffer.limit {
            return true;
        }
        let (buffer, unread) = (&self.buffer, &mut self.unread);
        self.reassembly
            .collapse(|data, memory| buffer.collapsed(data, memory));
        unread.memory = buffer.collapsed(unread.bytes, unread.memory);
        let fits = |behind: u64| unread.memory + behind <= buffer.limit;
        if fits(self.reassembly.memory()) {
            return true;
        }
        if self
            .reassembly
            .prune(seq, self.rcv_mss, buffer.limit >> 3, fits)
        {
            self.counts.pruned += 1;
            // RFC 2018 §8: what was reported may be dropped, and is reported no longer.
            self.blocks.clear();
            self.fin = self
                .fin
                .filter(|fin| self.reassembly.end().is_some_and(|end| *fin < end));
        }
        self.memory() <= self.buffer.limit
    }

    /// `__tcp_ack_snd_check`.
    fn decide(&mut self, now_ns: u64) {
        let is_second = self.next - self.acknowledged > u64::from(self.rcv_mss)
            && (self.readable_bytes() == 0 || self.next_window() >= self.window);
        if is_second || self.acknowledge.is_quick() || self.acknowledge.is_urgent {
            self.acknowledge.send(now_ns);
        } else if self.reassembly.is_empty() {
            self.acknowledge.send_later(now_ns);
        } else {
            self.acknowledge
                .send_with_blocks(now_ns, self.next, self.round_trip.us());
        }
    }

    /// The program reads up to `bytes`; returns how many there were.
    pub fn read(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let bytes = bytes.min(self.readable_bytes());
        if bytes == 0 {
            return 0;
        }
        // The kernel looks after each packet that is copied; only the first look of a read can tell anything new.
        let first = bytes.min(u64::from(self.rcv_mss));
        self.copied += first;
        if let Some(round_trip_us) = self.round_trip.us() {
            let unread = self.next - self.copied;
            let before = self.demand.bytes;
            if let Some(demand) =
                self.demand
                    .on_read(self.stamp_us, round_trip_us, self.copied, unread)
            {
                self.demand.bytes = demand;
                let beyond = self.reassembly.end().map_or(0, |end| end - self.next);
                self.buffer.grow(before, demand, beyond);
            }
        }
        self.copied += bytes - first;
        self.unread.read(bytes);
        self.tell_reading(now_ns);
        bytes
    }

    /// Whether a read is announced to the peer (`__tcp_cleanup_rbuf`).
    fn tell_reading(&mut self, now_ns: u64) {
        let is_owed = self.acknowledge.is_scheduled
            && (self.next - self.acknowledged > u64::from(self.rcv_mss)
                || self.acknowledge.is_reading_told() && self.memory() == 0);
        let left = self.window_left();
        let is_wider = || !self.is_finished && 2 * left <= self.buffer.clamp;
        if is_owed {
            self.acknowledge.send(now_ns);
        } else if is_wider() {
            let window = self.next_window();
            if window > 0 && window >= 2 * left {
                self.acknowledge.send(now_ns);
            }
        }
    }

    /// Sets the buffer as SO_RCVBUF does, of so many bytes and twice the memory, which no longer changes.
    pub fn set_buffer(&mut self, bytes: u64) {
        self.buffer.set(bytes);
    }

    /// Bounds the window that is offered, in bytes (TCP_WINDOW_CLAMP).
    pub fn set_window_clamp(&mut self, bytes: u64) {
        self.buffer.set_clamp(bytes, self.window);
    }

    /// Has ECE sent until CWR comes.
    pub fn demand_cwr(&mut self) {
        self.demands_cwr = true;
    }

    /// Whether ECE is sent, until CWR comes.
    #[must_use]
    pub fn demands_cwr(&self) -> bool {
        self.demands_cwr
    }

    /// Bytes that have come in order; a FIN counts as one.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// The MSS advertised to the peer, less timestamps.
    #[must_use]
    pub fn advertised_mss(&self) -> u32 {
        self.buffer.mss()
    }

    /// In-order bytes that were not read.
    #[must_use]
    pub fn readable_bytes(&self) -> u64 {
        self.unread.bytes
    }

    /// Whether all has come up to the peer's FIN.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// The next sequence number that is expected.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether both ends use ECN.
    #[must_use]
    pub fn uses_ecn(&self) -> bool {
        self.uses_ecn
    }

    /// The scale of its windows.
    #[must_use]
    pub fn window_scale(&self) -> u8 {
        self.buffer.scale
    }

    /// When a segment is to be sent to acknowledge: at a time that is not later than now, at a deadline, or not.
    #[must_use]
    pub fn acknowledge_at(&self) -> Option<u64> {
        self.acknowledge.at_ns()
    }

    /// An acknowledgement is to be sent at once: for a FIN after this end's own, or for an unacceptable segment.
    pub fn acknowledge_now(&mut self, now_ns: u64) {
        self.acknowledge.send(now_ns);
    }

    /// What the sending half knows of the round trip: smoothed, and the retransmission timeout.
    pub fn set_round_trip(&mut self, srtt_us: Option<u64>, rto_ns: u64) {
        self.acknowledge.sending = Sending { srtt_us, rto_ns };
    }

    /// Data was sent, in a segment that was filled before.
    pub fn on_sent_data(&mut self, now_ns: u64) {
        self.acknowledge.on_sent_data(now_ns);
    }

    /// Writes acknowledgement, window, SACK blocks, ECE and timestamps into a segment that is sent now. A SYN gets its
    /// window, whose field has no scale; ECE and CWR of it are not touched.
    pub fn fill(&mut self, now_ns: u64, segment: &mut Segment) {
        segment.ack = self.next;
        segment.ts_value = Segment::timestamp_ms(now_ns);
        segment.ts_echo = self.ts_recent;
        if segment.syn {
            segment.window_bytes = self.window.min(FIELD_MOST);
            return;
        }
        self.stamp_us = now_ns / 1000;
        segment.window_bytes = self.select_window();
        segment.sack = self.blocks.report();
        segment.ece = self.demands_cwr;
        self.acknowledge.on_sent(now_ns);
    }

    /// How much of the last window is left (`tcp_receive_window`).
    fn window_left(&self) -> u64 {
        (self.acknowledged + self.window).saturating_sub(self.next)
    }

    /// The window that this segment advertises, never less than what is left of the last, but where a segment was
    /// dropped for want of memory (`tcp_select_window`; RFC 9293 §3.8.6).
    fn select_window(&mut self) -> u64 {
        let unit = 1 << self.buffer.scale;
        let left = self.window_left();
        let window = match self.acknowledge.is_out_of_memory {
            true => 0,
            false => match self.next_window() {
                less if less < left => left.next_multiple_of(unit),
                window => window,
            },
        };
        self.window = window;
        self.acknowledged = self.next;
        window.min(FIELD_MOST << self.buffer.scale) / unit * unit
    }

    /// The window that the buffer has room for, in steps that are worth a segment (`__tcp_select_window`; silly
    /// window avoidance of RFC 9293 §3.8.6.2.2).
    fn next_window(&mut self) -> u64 {
        let unit = 1_i64 << self.buffer.scale;
        let allowed = self.buffer.full_space() as i64;
        let full = allowed.min(self.buffer.clamp as i64);
        let mss = i64::from(self.rcv_mss).min(full);
        if mss <= 0 {
            return 0;
        }
        let mut free = self.buffer.space(self.memory());
        if free < full >> 1 {
            self.acknowledge.stop_quick();
            free &= -unit;
            if free < allowed >> 4 || free < mss {
                return 0;
            }
        }
        free = free.min(self.buffer.ssthresh as i64);
        if unit > 1 {
            // Upwards, lest a small window become none.
            return (free as u64).next_multiple_of(unit as u64);
        }
        let window = self.window as i64;
        let chosen = if window <= free - mss || window > free {
            free / mss * mss
        } else if mss == full && free > window + (full >> 1) {
            free
        } else {
            window
        };
        chosen as u64
    }

    /// The memory that is used.
    fn memory(&self) -> u64 {
        self.unread.memory + self.reassembly.memory()
    }

    /// Its state.
    #[must_use]
    pub fn info(&self) -> ReceiveInfo {
        ReceiveInfo {
            window_bytes: self.window,
            ssthresh_bytes: self.buffer.ssthresh,
            space_bytes: self.demand.bytes,
            buffer_bytes: self.buffer.limit,
            memory_bytes: self.memory(),
            mss_bytes: self.rcv_mss,
            round_trip_us: self.round_trip.us(),
            spared_acknowledgements: self.acknowledge.spared,
            counts: self.counts,
        }
    }
}
