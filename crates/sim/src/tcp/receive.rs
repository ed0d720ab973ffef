//! The receiving half of a connection: reassembly, the window, and acknowledgements.
//!
//! Follows `tcp_rcv_established`, `tcp_data_queue` and `tcp_cleanup_rbuf` of Linux 6.18 with that version's buffer
//! autotuning (`tcp_rcvbuf_grow` after "tcp: fix too slow tcp_rcvbuf_grow() action"; without the
//! `tcp_rcvbuf_low_rtt` and `tcp_comp_sack_rtt_percent` of 6.19). All segments take the slow path, which yields the
//! same acknowledgements. Not implemented: PAWS, urgent data, RST, memory pressure, `tcp_shrink_window`.
//!
//! - `config`: settings;
//! - `buffer`: the window that the buffer allows, and its growth;
//! - `autotune`: the receiver's RTT estimate, and the data read per RTT;
//! - `reassembly`: out-of-order data; `blocks`: how SACK reports it;
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

/// Maximum assumed segment size before the first segment (TCP_MSS_DEFAULT).
const MSS_DEFAULT: u32 = 536;

/// The minimum size of a full segment (TCP_MIN_MSS).
const MSS_LEAST: u32 = 88;

/// The TCP header with timestamps, which every segment has.
const HEADER_BYTES: u32 = 32;

/// Segments smaller than this do not grow the window.
const GROWING_BYTES: u32 = 128;

/// Minimum interval between answers to unacceptable segments without data (`tcp_invalid_ratelimit`).
const ANSWER_NS: u64 = 500_000_000;

/// Counts since the connection began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets received out of order (`rcv_ooopack`).
    pub out_of_order: u64,
    /// Segments whose data had all been received before.
    pub duplicates: u64,
    /// Segments outside the window (RFC 9293 §3.10.7.4), or that met a closed window.
    pub out_of_window: u64,
    /// Segments dropped because the buffer was full (`TCPRcvQDrop`, `TCPOFODrop`).
    pub dropped: u64,
    /// Times that out-of-order data already reported by SACK was dropped (`OfoPruned`).
    pub pruned: u64,
    /// Packets marked CE.
    pub marked: u64,
}

/// The state of a receiver, as `ss` and `tcp` records report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveInfo {
    /// The last advertised window, in bytes (`tcpi_rcv_wnd`).
    pub window_bytes: u64,
    /// The largest window that would be advertised (`tcpi_rcv_ssthresh`).
    pub ssthresh_bytes: u64,
    /// Maximum data read by the program in a round trip (`tcpi_rcv_space`).
    pub space_bytes: u64,
    /// The size of the receive buffer, including overhead (`sk_rcvbuf`).
    pub buffer_bytes: u64,
    /// Buffer memory in use (`sk_rmem_alloc`).
    pub memory_bytes: u64,
    /// The size of full segments (`tcpi_rcv_mss`).
    pub mss_bytes: u32,
    /// The receiver's RTT estimate (`tcpi_rcv_rtt`).
    pub round_trip_us: Option<u64>,
    /// Acknowledgements saved by compression (`TCPAckCompressed`).
    pub spared_acknowledgements: u64,
    /// Counts.
    pub counts: Counts,
}

/// In-order data not yet read, and its memory.
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

    /// Frees memory in proportion to the data. The kernel frees whole packets: equal for whole packets of one size.
    fn read(&mut self, bytes: u64) {
        let left = self.bytes - bytes;
        self.memory = (self.memory * left).div_ceil(self.bytes);
        self.bytes = left;
    }
}

/// The receiving half.
///
/// Call [`on_segment`](Self::on_segment) for every arriving segment, [`read`](Self::read) for the program, and, for the
/// sending half, [`set_round_trip`](Self::set_round_trip) and [`on_sent_data`](Self::on_sent_data). After each, and
/// when it is due, [`acknowledge_at`](Self::acknowledge_at) says when an acknowledgement must be sent; any segment sent
/// earlier serves as well. Each segment sent goes through [`fill`](Self::fill). Times never go back.
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
    /// Whether the handshake is complete.
    is_established: bool,
    /// The next sequence number expected (RCV.NXT).
    next: u64,
    /// The next sequence number to be read (`copied_seq`).
    copied: u64,
    /// The last acknowledgement sent (`rcv_wup`), and the window sent with it (RCV.WND).
    acknowledged: u64,
    window: u64,
    /// Estimated data bytes of the peer's full segments (`rcv_mss`), and those of the last smaller one.
    rcv_mss: u32,
    last_size: u32,
    /// The timestamp to echo (TS.Recent).
    ts_recent: u32,
    uses_ecn: bool,
    /// Whether ECN-capable packets have arrived.
    has_seen_ecn: bool,
    /// Whether ECE is being sent, until CWR arrives.
    demands_cwr: bool,
    /// The sequence number of an out-of-order FIN.
    fin: Option<u64>,
    is_finished: bool,
    /// The time of the last segment received or sent, which autotuning uses (`tcp_mstamp`).
    stamp_us: u64,
    answered_ns: Option<u64>,
    counts: Counts,
}

impl Receiver {
    /// The receiver of a new connection, before any SYN has arrived.
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

    /// Processes a segment that arrives in a packet with this ECN codepoint. The sending half must process its
    /// acknowledgement first.
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
        // RFC 7323 §4.3, rule 2: only from a segment at or below the last acknowledgement, and never backwards.
        if segment.seq <= self.acknowledged
            && segment.ts_value.wrapping_sub(self.ts_recent) as i32 >= 0
        {
            self.ts_recent = segment.ts_value;
        }
        if segment.cwr {
            self.demands_cwr = false;
            // The sender's window may be down to one packet.
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
            // A retransmitted SYN: its answer was lost (RFC 5961 §4.2).
            self.acknowledge.send(now_ns);
            return;
        }
        self.next = segment.seq + 1;
        self.copied = self.next;
        self.acknowledged = self.next;
        self.ts_recent = segment.ts_value;
        // RFC 3168 §6.1.1: ECE with CWR requests ECN, ECE alone accepts it.
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

    /// RFC 9293 §3.10.7.4, first check, as in `tcp_sequence`: a FIN may lie beyond the window, and so may the end of
    /// the data while nothing waits to be read.
    fn is_acceptable(&self, segment: &Segment) -> bool {
        let right = self.next + self.window_left();
        let is_beyond = segment.end() - u64::from(segment.fin) > right;
        segment.end() >= self.acknowledged
            && (!is_beyond || segment.seq <= right && self.readable_bytes() == 0)
    }

    /// Answers an unacceptable segment (`tcp_send_dupack`).
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
        // After a FIN, only retransmissions arrive.
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
            // A bare FIN needs no window.
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

    /// Queues in order the data above a hole (`tcp_ofo_queue`) filled by a segment that ends at `segment_end`.
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
        // RFC 5681 §4.2: acknowledge at once when the last hole is filled.
        self.acknowledge.is_urgent |= self.reassembly.is_empty();
    }

    /// Advances RCV.NXT to `to`; `is_fin` says whether the last sequence number is a FIN.
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
            // The kernel sends it before this segment and decides again for the segment; here one covers both.
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

    /// Updates the size of full segments after a larger segment or two smaller ones of equal size
    /// (`tcp_measure_rcv_mss`).
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
            // Normalized to plain options, since SACK blocks make the data of a full segment smaller.
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

    /// Whether the buffer can take another packet, at `seq`; makes room if possible (`tcp_try_rmem_schedule`,
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
            // RFC 2018 §8: SACKed data may be dropped, and is then no longer reported.
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

    /// Reads up to `bytes` for the program; returns how many were read.
    pub fn read(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let bytes = bytes.min(self.readable_bytes());
        if bytes == 0 {
            return 0;
        }
        // The kernel measures after each packet copied; only the first measurement of a read can change anything.
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

    /// Sends an acknowledgement after a read if it is worthwhile (`__tcp_cleanup_rbuf`).
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

    /// Fixes the buffer at twice `bytes` of memory, as SO_RCVBUFFORCE does: without the limit of `rmem_max`.
    pub fn set_buffer(&mut self, bytes: u64) {
        self.buffer.set(bytes);
    }

    /// Bounds the advertised window, in bytes (TCP_WINDOW_CLAMP).
    pub fn set_window_clamp(&mut self, bytes: u64) {
        self.buffer.set_clamp(bytes, self.window);
    }

    /// Sends ECE until CWR arrives.
    pub fn demand_cwr(&mut self) {
        self.demands_cwr = true;
    }

    /// Whether ECE is being sent, until CWR arrives.
    #[must_use]
    pub fn demands_cwr(&self) -> bool {
        self.demands_cwr
    }

    /// Bytes received in order; a FIN counts as one.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// The MSS advertised to the peer, less timestamps.
    #[must_use]
    pub fn advertised_mss(&self) -> u32 {
        self.buffer.mss()
    }

    /// In-order bytes not yet read.
    #[must_use]
    pub fn readable_bytes(&self) -> u64 {
        self.unread.bytes
    }

    /// Whether everything up to and including the peer's FIN has been received.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// The next sequence number expected (RCV.NXT).
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether both ends use ECN.
    #[must_use]
    pub fn uses_ecn(&self) -> bool {
        self.uses_ecn
    }

    /// The window scale of this end.
    #[must_use]
    pub fn window_scale(&self) -> u8 {
        self.buffer.scale
    }

    /// When an acknowledgement is due: immediately if that is not later than now, else at a deadline, or not at all.
    #[must_use]
    pub fn acknowledge_at(&self) -> Option<u64> {
        self.acknowledge.at_ns()
    }

    /// Makes an acknowledgement due at once: for a SYN after the handshake, or for TCP_QUICKACK.
    pub fn acknowledge_now(&mut self, now_ns: u64) {
        self.acknowledge.send(now_ns);
    }

    /// Sets the sending half's smoothed RTT and retransmission timeout.
    pub fn set_round_trip(&mut self, srtt_us: Option<u64>, rto_ns: u64) {
        self.acknowledge.sending = Sending { srtt_us, rto_ns };
    }

    /// Notes that data was sent, in a segment already filled.
    pub fn on_sent_data(&mut self, now_ns: u64) {
        self.acknowledge.on_sent_data(now_ns);
    }

    /// Writes acknowledgement, window, SACK blocks, ECE and timestamps into a segment that is sent now. A SYN gets an
    /// unscaled window, and its ECE and CWR are left alone.
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

    /// What is left of the last advertised window (`tcp_receive_window`).
    fn window_left(&self) -> u64 {
        (self.acknowledged + self.window).saturating_sub(self.next)
    }

    /// The window to advertise: never less than what is left of the last one, except that it is 0 when memory has run
    /// out (`tcp_select_window`; RFC 9293 §3.8.6).
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

    /// The window that the buffer has room for, with silly window avoidance (`__tcp_select_window`; RFC 9293
    /// §3.8.6.2.2).
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
            // Round up, so that a small window does not become zero.
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

    /// Memory in use.
    fn memory(&self) -> u64 {
        self.unread.memory + self.reassembly.memory()
    }

    /// The receiver's state.
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
