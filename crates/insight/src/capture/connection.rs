//! One captured TCP connection: its segments in the order in which they were seen, and its PDUs.

use foldhash::HashSet;
use std::collections::VecDeque;
use std::net::SocketAddr;

use wansan_trace::{ConnectionId, SessionId};

use super::framing::{Found, Framing, are_foreign};
use super::login::Login;
use super::passing::CapturingSocket;
use super::pieces::Pieces;
use super::segment::{Options, Segment};

/// TCP FIN flag.
const FIN: u8 = 0x01;
/// TCP SYN flag.
const SYN: u8 = 0x02;
/// TCP ACK flag.
const ACK: u8 = 0x10;
/// TCP flags SYN, FIN and RST: a segment with any of them is not a pure ACK.
const NOT_PURE: u8 = 0x07;
/// Maximum unacknowledged segments timed per stream, for round trips by acknowledgement.
const MOST_TIMED: usize = 4096;
/// TCP timestamps remembered per stream. They tick in milliseconds, and the newest are echoed.
const MOST_STAMPED: usize = 64;
/// Maximum open sequence holes tracked per stream.
const MOST_HOLES: usize = 1024;
/// A segment that fills a hole within this time, and within half a round trip, was reordered, not lost.
const REORDERED_NS: u64 = 3_000_000;

/// Marks an unknown stream position.
const NOWHERE: u64 = u64::MAX;

/// A captured segment. There is one for each frame, so it is kept small.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// Its frame's number; 0 for bytes that the capture has missed, as later segments show.
    pub(super) frame: u64,
    pub(super) time_ns: u64,
    /// The end that sent it, as an index into [`Connection::ends`].
    from: u8,
    place: u64,
    acked: u64,
    payload_bytes: u32,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u8,
    pub(super) window: u16,
    pub(super) ecn: u8,
    pub(super) ip_bytes: u16,
    pub(super) is_lost: bool,
    /// To be ignored: it was presumed lost, but was only reordered or missed by the capture.
    pub(super) is_void: bool,
}

impl Seen {
    /// A segment from the end `from`, whose stream positions are not yet known.
    fn of(segment: &Segment<'_>, from: usize, frame: u64, time_ns: u64) -> Seen {
        Seen {
            frame,
            time_ns,
            from: from as u8,
            place: NOWHERE,
            acked: NOWHERE,
            payload_bytes: u32::try_from(segment.payload_bytes).unwrap_or(u32::MAX),
            seq: segment.seq,
            ack: segment.ack,
            flags: segment.flags,
            window: segment.window,
            ecn: segment.ecn,
            ip_bytes: segment.ip_bytes,
            is_lost: false,
            is_void: false,
        }
    }

    /// The end that sent it, as an index into [`Connection::ends`].
    pub(super) fn from(&self) -> usize {
        usize::from(self.from)
    }

    /// Its position in its stream, if known.
    pub(super) fn place(&self) -> Option<u64> {
        (self.place != NOWHERE).then_some(self.place)
    }

    /// Position in the other stream up to which it acknowledges.
    pub(super) fn acked(&self) -> Option<u64> {
        (self.acked != NOWHERE).then_some(self.acked)
    }

    /// TCP payload, in bytes.
    pub(super) fn payload_bytes(&self) -> u64 {
        u64::from(self.payload_bytes)
    }

    /// Start and end of its payload in the stream, if it has any and is not ignored.
    pub(super) fn payload(&self) -> Option<(u64, u64)> {
        let place = self
            .place()
            .filter(|_| self.payload_bytes > 0 && !self.is_void)?;
        Some((place, place + self.payload_bytes()))
    }

    /// The segment cut to the payload from `from` to `to`.
    pub(super) fn part(&self, from: u64, to: u64) -> Seen {
        let left_out_bytes = self.payload_bytes() - (to - from);
        let ip_bytes = match u64::from(self.ip_bytes) {
            // The capture missed the segment, and so every part of it.
            0 => 0,
            whole => whole.saturating_sub(left_out_bytes).max(to - from),
        };
        let before = self.place().map_or(0, |place| from - place);
        Seen {
            place: from,
            payload_bytes: (to - from) as u32,
            seq: self.seq.wrapping_add(before as u32),
            ip_bytes: ip_bytes as u16,
            ..*self
        }
    }
}

/// A gap in the sequence space: bytes that were not seen although later ones were.
#[derive(Debug, Clone, Copy)]
struct Hole {
    place: u64,
    end: u64,
    since_ns: u64,
    /// Index of the placeholder for these bytes among the connection's segments.
    seen: usize,
}

/// An acknowledgement beyond what was seen. Either the capture has missed the data, or the frame is damaged; later
/// segments decide which.
#[derive(Debug, Clone, Copy)]
struct Claim {
    ack: u32,
    time_ns: u64,
    /// Index of its segment among the connection's.
    seen: usize,
}

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Stream {
    /// Sequence number of the first byte.
    pub(super) base: Option<u32>,
    highest: u64,
    /// Its end, once its sender has sent a FIN.
    end: Option<u64>,
    pub(super) framing: Framing,
    /// TCP options of its sender's SYN.
    pub(super) options: Option<Options>,
    /// Highest position acknowledged, as far as seen.
    acked: u64,
    /// The newest acknowledgement beyond what was seen, until it is confirmed or rejected.
    claim: Option<Claim>,
    /// End position and time of each segment that awaits its acknowledgement.
    timed: VecDeque<(u64, u64)>,
    /// Timestamp values that its sender used, each with the time at which the first segment with it passed; they
    /// await their echo.
    stamped: VecDeque<(u32, u64)>,
    /// Minimum round trip from the capture point to the receiver, by acknowledgements.
    acked_ns: Option<u64>,
    /// The same by echoed timestamps (RFC 7323 §4).
    echoed_ns: Option<u64>,
    holes: Vec<Hole>,
    /// The PDUs found in it.
    pub(super) pdus: Pieces<Found>,
    /// Number of retransmitted segments.
    pub(super) sent_again: u64,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// The sender of the SYN, if it was seen, and the other end.
    pub(super) ends: [SocketAddr; 2],
    /// Whether its SYN was seen.
    pub(super) has_begun: bool,
    /// Its session and CID, once it has PDUs.
    pub(super) session: Option<(SessionId, ConnectionId)>,
    /// The stream that each end sends.
    pub(super) streams: [Stream; 2],
    pub(super) seen: Pieces<Seen>,
    /// Segments that the capture marks as dropped: they went no further than where they were seen.
    pub(super) lost: Vec<Seen>,
    /// Sending end and start position of each dropped segment.
    lost_places: HashSet<(usize, u64)>,
    pub(super) login: Login,
    /// Gaps in the captured streams that were acknowledged: data that the capture has missed.
    pub(super) missed: u64,
    /// Whether a pure ACK was seen.
    has_pure_acks: bool,
    /// For each end, whether its own host captures.
    pub(super) is_captured_at: [bool; 2],
}

impl Stream {
    fn new(is_beginning: bool) -> Stream {
        Stream {
            base: None,
            highest: 0,
            end: None,
            framing: Framing::new(is_beginning),
            options: None,
            acked: 0,
            claim: None,
            timed: VecDeque::new(),
            stamped: VecDeque::new(),
            acked_ns: None,
            echoed_ns: None,
            holes: Vec::new(),
            pdus: Pieces::default(),
            sent_again: 0,
        }
    }

    /// The same stream in the next part of the capture.
    fn next_part(&self) -> Stream {
        Stream {
            options: self.options,
            framing: self.framing.next_part(),
            ..Stream::new(false)
        }
    }

    /// Position of a sequence number, unwrapped relative to the highest one so far. `None` if it lies before the
    /// stream's beginning, or while that is unknown.
    fn place(&self, seq: u32) -> Option<u64> {
        let expected = self.base?.wrapping_add(self.highest as u32);
        let ahead = i64::from(seq.wrapping_sub(expected) as i32);
        self.highest.checked_add_signed(ahead)
    }

    /// The same for a segment of this stream. The first one seen sets the stream's beginning: its own sequence
    /// number, or an earlier acknowledgement, as the bytes between the two were in flight.
    fn begun_place(&mut self, seq: u32) -> Option<u64> {
        let acked = self.claim.map(|claim| claim.ack);
        let begun = acked.filter(|acked| seq.wrapping_sub(*acked).cast_signed() >= 0);
        self.base.get_or_insert(begun.unwrap_or(seq));
        self.place(seq)
    }

    /// The highest position that may be acknowledged, given what was seen: a FIN also occupies a sequence number
    /// (RFC 9293 §3.4).
    fn sent(&self) -> u64 {
        let end = self.end.map_or(0, |end| end + 1);
        self.highest.max(end)
    }

    /// Whether `ack` acknowledges more than was seen.
    fn is_beyond(&self, ack: u32) -> bool {
        self.base.is_none() || self.place(ack).is_some_and(|place| place > self.sent())
    }

    fn time(&mut self, end: u64, now_ns: u64) {
        if self.timed.len() < MOST_TIMED {
            self.timed.push_back((end, now_ns));
        }
    }

    /// Takes a round-trip sample from the newest timed segment that ends at or before `place` and passed by `now_ns`,
    /// and removes the acknowledged ones.
    fn timed_until(&mut self, place: u64, now_ns: u64) {
        let mut newest = None;
        let is_it = |(end, sent_ns): &(u64, u64)| *end <= place && *sent_ns <= now_ns;
        while self.timed.front().is_some_and(is_it) {
            newest = self.timed.pop_front();
        }
        if let Some((_, sent_ns)) = newest {
            lower(&mut self.acked_ns, now_ns.saturating_sub(sent_ns));
        }
    }

    /// Remembers a timestamp value of this stream at its first appearance.
    fn stamp(&mut self, value: u32, now_ns: u64) {
        if self.stamped.back().is_none_or(|(last, _)| *last != value) {
            if self.stamped.len() == MOST_STAMPED {
                self.stamped.pop_front();
            }
            self.stamped.push_back((value, now_ns));
        }
    }

    /// Takes a round-trip sample from a timestamp echoed in the other direction. The echoing segment left after the
    /// first segment with that timestamp had arrived. So pure ACKs also time the way to the sender whose data they
    /// release, and back.
    fn echoed(&mut self, value: u32, now_ns: u64) {
        let given = self.stamped.iter().position(|(given, _)| *given == value);
        if let Some(given) = given {
            let given_ns = self.stamped[given].1;
            lower(&mut self.echoed_ns, now_ns.saturating_sub(given_ns));
            // The value itself stays: a later echo of it takes longer and does not lower the minimum.
            self.stamped.drain(..given);
        }
    }
}

/// Keeps the minimum.
fn lower(least_ns: &mut Option<u64>, took_ns: u64) {
    *least_ns = Some(least_ns.map_or(took_ns, |least_ns| least_ns.min(took_ns)));
}

impl Connection {
    /// A connection of which this is the first segment seen, whether or not it is a SYN.
    pub(super) fn new(segment: &Segment<'_>) -> Connection {
        let has_begun = segment.flags & SYN != 0;
        let is_answer = segment.flags & (SYN | ACK) == SYN | ACK;
        let ends = [segment.source, segment.destination];
        let [one, other] = ends;
        Connection {
            ends: if is_answer { [other, one] } else { ends },
            has_begun,
            session: None,
            streams: [Stream::new(has_begun), Stream::new(has_begun)],
            seen: Pieces::default(),
            lost: Vec::new(),
            lost_places: HashSet::default(),
            login: Login::default(),
            missed: 0,
            has_pure_acks: false,
            is_captured_at: [false; 2],
        }
    }

    /// The same connection in the next part of the capture.
    pub(super) fn next_part(&self) -> Connection {
        Connection {
            ends: self.ends,
            has_begun: false,
            session: self.session,
            streams: self.streams.each_ref().map(Stream::next_part),
            seen: Pieces::default(),
            lost: Vec::new(),
            lost_places: HashSet::default(),
            login: self.login.clone(),
            missed: 0,
            has_pure_acks: self.has_pure_acks,
            is_captured_at: self.is_captured_at,
        }
    }

    /// Whether a display filter seems to have removed the segments in which no PDU begins: there are holes that were
    /// acknowledged, but no pure ACKs.
    pub(super) fn is_filtered(&self) -> bool {
        self.missed > 0 && !self.has_pure_acks
    }

    /// Minimum round trip from the capture point to the receiver of what the end `from` sends; `None` if unknown.
    /// Timestamps are not used if segments were filtered out, as the first segment with a timestamp may be missing.
    pub(super) fn round_trip_ns(&self, from: usize) -> Option<u64> {
        let stream = &self.streams[from];
        let echoed_ns = stream.echoed_ns.filter(|_| !self.is_filtered());
        stream.acked_ns.into_iter().chain(echoed_ns).min()
    }

    /// Ends the capture of this connection.
    pub(super) fn finish(&mut self) {
        for of in [0, 1] {
            // Nothing contradicts the acknowledgement.
            if let Some(claim) = self.streams[of].claim.take() {
                self.confirm(of, claim);
            }
        }
        for stream in &mut self.streams {
            stream.framing.finish(&mut self.login, &mut stream.pdus);
        }
    }

    /// Whether this segment is a SYN that begins another connection between the same ends.
    pub(super) fn is_over(&self, segment: &Segment<'_>) -> bool {
        let is_first = segment.is_syn();
        let from = self.end_of(segment);
        let base = self.streams[from].base;
        is_first && base.is_some_and(|base| base != segment.seq.wrapping_add(1))
    }

    /// Whether no PDUs can be found in it. If its SYN was seen, it must begin with a PDU.
    pub(super) fn is_foreign(&self) -> bool {
        if self.session.is_some() {
            return false;
        }
        if self.streams.iter().any(|stream| stream.pdus.len() > 0) {
            return false;
        }
        let [one, other] = self.streams.each_ref().map(|stream| &stream.framing);
        match self.has_begun {
            true => one.searched().max(other.searched()) > 0,
            false => are_foreign([one, other]),
        }
    }

    fn end_of(&self, segment: &Segment<'_>) -> usize {
        usize::from(segment.source != self.ends[0])
    }

    /// If the capturing host's socket is an end, takes its window scales. Options from a SYN take precedence.
    pub(super) fn know_socket(&mut self, socket: &CapturingSocket) {
        let scales = socket.scales;
        let [local, remote] = socket.ends;
        let (own, scales) = match self.ends {
            ends if ends == [local, remote] => (0, scales),
            ends if ends == [remote, local] => (1, [scales[1], scales[0]]),
            _ => return,
        };
        self.is_captured_at[own] = true;
        for (stream, scale) in self.streams.iter_mut().zip(scales) {
            stream.options.get_or_insert(Options {
                shift: Some(u32::from(scale)),
                ..Options::default()
            });
        }
    }

    /// Whether a segment carries or acknowledges new data, so that it cannot be a copy of a known one.
    pub(super) fn goes_on(&self, segment: &Segment<'_>) -> bool {
        let from = self.end_of(segment);
        let is_beyond = |stream: &Stream, place: u64, seq: u32| {
            let newest = stream.base.map(|base| base.wrapping_add(place as u32));
            newest.is_some_and(|newest| seq.wrapping_sub(newest).cast_signed() > 0)
        };
        let (own, other) = (&self.streams[from], &self.streams[1 - from]);
        let end = segment.seq.wrapping_add(segment.payload_bytes as u32);
        let is_claimed = other.claim.is_some_and(|claim| claim.ack == segment.ack);
        segment.payload_bytes > 0 && is_beyond(own, own.highest, end)
            || segment.flags & ACK != 0 && !is_claimed && is_beyond(other, other.acked, segment.ack)
    }

    /// Takes a segment that passes the capture point.
    pub(super) fn see(&mut self, frame: u64, now_ns: u64, segment: &Segment<'_>) {
        let from = self.end_of(segment);
        self.has_pure_acks |= segment.payload_bytes == 0 && segment.flags & NOT_PURE == 0;
        if segment.flags & SYN != 0 {
            let stream = &mut self.streams[from];
            stream.base = Some(segment.seq.wrapping_add(1));
            stream.options = Some(segment.options);
            stream.time(0, now_ns);
        }
        if let Some((value, echo)) = segment.stamps {
            self.streams[from].stamp(value, now_ns);
            self.streams[1 - from].echoed(echo, now_ns);
        }
        let is_ack = segment.flags & ACK != 0;
        if is_ack {
            self.settle(1 - from, segment.ack);
        }
        let is_claim = is_ack && self.streams[1 - from].is_beyond(segment.ack);
        let acked = match is_ack && !is_claim {
            true => self.acknowledges(1 - from, segment.ack, now_ns),
            false => None,
        };
        let place = match segment.flags & SYN {
            0 => self.streams[from].begun_place(segment.seq),
            _ => None,
        };
        if segment.flags & FIN != 0 {
            self.streams[from].end = place.map(|place| place + segment.payload_bytes);
        }
        if let Some(place) = place.filter(|_| segment.payload_bytes > 0) {
            self.carries(from, place, now_ns, segment);
        }
        self.seen.push(Seen {
            place: place.unwrap_or(NOWHERE),
            acked: acked.unwrap_or(NOWHERE),
            ..Seen::of(segment, from, frame, now_ns)
        });
        if is_claim {
            self.streams[1 - from].claim = Some(Claim {
                ack: segment.ack,
                time_ns: now_ns,
                seen: self.seen.len() - 1,
            });
        }
    }

    /// Takes a segment that the capture marks as dropped.
    pub(super) fn lose(&mut self, frame: u64, now_ns: u64, segment: &Segment<'_>) {
        let from = self.end_of(segment);
        let place = self.streams[from].begun_place(segment.seq);
        self.lost_places.extend(place.map(|place| (from, place)));
        self.lost.push(Seen {
            place: { place.filter(|_| segment.flags & SYN == 0) }.unwrap_or(NOWHERE),
            is_lost: true,
            ..Seen::of(segment, from, frame, now_ns)
        });
    }

    /// Marks a segment that was already seen as dropped.
    pub(super) fn lose_seen(&mut self, seen: usize) {
        if let Some(seen) = self.seen.get_mut(seen) {
            seen.is_lost = true;
        }
    }

    /// Number of segments and PDUs kept.
    pub(super) fn kept(&self) -> usize {
        let pdus = self.streams.iter().map(|stream| stream.pdus.len());
        self.seen.len() + self.lost.len() + pdus.sum::<usize>()
    }

    /// Settles a pending acknowledgement of the stream `of` by the next one. Acknowledgements do not decrease, so a
    /// lower one shows that the earlier frame was damaged and was discarded.
    fn settle(&mut self, of: usize, ack: u32) {
        let stream = &mut self.streams[of];
        let Some(claim) = stream.claim.take() else {
            return;
        };
        let is_less = ack.wrapping_sub(claim.ack).cast_signed() < 0;
        match is_less && stream.is_beyond(claim.ack) {
            true => self.seen[claim.seen].is_lost = true,
            false => self.confirm(of, claim),
        }
    }

    /// Accepts a pending acknowledgement: the data arrived, though the capture missed it.
    fn confirm(&mut self, of: usize, claim: Claim) {
        self.streams[of].base.get_or_insert(claim.ack);
        let acked = self.acknowledges(of, claim.ack, claim.time_ns);
        self.seen[claim.seen].acked = acked.unwrap_or(NOWHERE);
    }

    /// Applies an acknowledgement to the stream `of`; returns its position.
    fn acknowledges(&mut self, of: usize, ack: u32, now_ns: u64) -> Option<u64> {
        let stream = &mut self.streams[of];
        let place = stream.place(ack)?;
        stream.timed_until(place, now_ns);
        // A FIN occupies a sequence number, but carries no byte.
        let known = stream.end.map_or(place, |end| place.min(end));
        stream
            .framing
            .acknowledged(&mut self.login, known, &mut stream.pdus);
        for hole in stream.holes.extract_if(.., |hole| hole.end <= place) {
            self.seen[hole.seen].is_void = true;
            self.missed += 1;
        }
        stream.highest = stream.highest.max(place);
        stream.acked = stream.acked.max(place);
        Some(place)
    }

    /// Takes the payload of a segment.
    fn carries(&mut self, from: usize, place: u64, now_ns: u64, segment: &Segment<'_>) {
        let end = place + segment.payload_bytes;
        let claim = self.streams[from].claim;
        let claimed = claim.and_then(|claim| self.streams[from].place(claim.ack));
        if claimed.is_some_and(|claimed| place >= claimed)
            && let Some(claim) = self.streams[from].claim.take()
        {
            // Its sender has continued from the acknowledged position.
            self.confirm(from, claim);
        }
        let round_trips_ns = [0, 1].map(|from| self.round_trip_ns(from));
        let round_trip_ns: u64 = round_trips_ns.into_iter().flatten().sum();
        let stream = &mut self.streams[from];
        let is_new = end > stream.highest;
        if is_new && place > stream.highest && stream.holes.len() < MOST_HOLES {
            stream.holes.push(Hole {
                place: stream.highest,
                end: place,
                since_ns: now_ns,
                seen: self.seen.len(),
            });
            let missing_bytes = place - stream.highest;
            self.seen.push(Seen {
                place: stream.highest,
                payload_bytes: u32::try_from(missing_bytes).unwrap_or(u32::MAX),
                seq: segment.seq.wrapping_sub(missing_bytes as u32),
                ecn: 0,
                ip_bytes: 0,
                is_lost: true,
                ..Seen::of(segment, from, 0, now_ns)
            });
        }
        let late_ns = match round_trip_ns {
            0 => REORDERED_NS,
            round_trip_ns => REORDERED_NS.min(round_trip_ns / 2),
        };
        let (mut fills, mut was_lost) = (false, self.lost_places.contains(&(from, place)));
        for hole in stream
            .holes
            .extract_if(.., |h| place < h.end && h.place < end)
        {
            fills = true;
            let is_reordered = now_ns.saturating_sub(hole.since_ns) < late_ns;
            self.seen[hole.seen].is_void |= is_reordered;
            was_lost |= !is_reordered;
        }
        if is_new {
            stream.highest = end;
            stream.time(end, now_ns);
        } else {
            // After a retransmission, an acknowledgement is ambiguous (Karn's algorithm, RFC 6298 §3).
            stream.timed.retain(|(timed, _)| *timed <= place);
        }
        stream.sent_again += u64::from(was_lost || !is_new && !fills);
        let (seen, length) = (segment.payload, segment.payload_bytes);
        stream
            .framing
            .feed(&mut self.login, place, seen, length, &mut stream.pdus);
        let [first, second] = &mut self.streams;
        let (own, other) = match from {
            0 => (first, second),
            _ => (second, first),
        };
        other.framing.learn_from(&own.framing);
    }
}

#[cfg(test)]
mod tests;
