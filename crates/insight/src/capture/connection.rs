//! One captured TCP connection: its segments in the order in which they were seen, and its PDUs.

use foldhash::HashSet;
use std::collections::VecDeque;
use std::net::SocketAddr;

use wansan_trace::{ConnectionId, SessionId};

use super::framing::{Found, Framing, are_foreign};
use super::login::Login;
use super::pieces::Pieces;
use super::segment::{Options, Segment};

/// TCP flags.
const FIN: u8 = 0x01;
/// TCP flags.
const SYN: u8 = 0x02;
/// TCP flags.
const ACK: u8 = 0x10;
/// TCP flags: SYN, FIN and RST take part in no acknowledgement by itself.
const NOT_PURE: u8 = 0x07;
/// Segments that are remembered to see how long their acknowledgements take.
const MOST_TIMED: usize = 4096;
/// Time stamps that are remembered: they tick in milliseconds, and the newest are echoed.
const MOST_STAMPED: usize = 64;
/// Holes that are looked at until they are filled.
const MOST_HOLES: usize = 1024;
/// What comes so soon behind what was sent after it, and sooner than half a round trip, came out of order
/// and was not lost.
const REORDERED_NS: u64 = 3_000_000;

/// Stands for a place that is not known.
const NOWHERE: u64 = u64::MAX;

/// A segment as it was seen. There are as many of them as frames.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// Its frame's number; 0 of one that passed unseen, as later ones have told.
    pub(super) frame: u64,
    pub(super) time_ns: u64,
    /// The end that sent it: its place in [`Connection::ends`].
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
    /// It is left out: what was taken for lost was only late, or the capture has missed it.
    pub(super) is_void: bool,
}

impl Seen {
    /// A segment from that end, whose places are not known yet.
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

    /// The end that sent it: its place in [`Connection::ends`].
    pub(super) fn from(&self) -> usize {
        usize::from(self.from)
    }

    /// Where it stands in its stream, if that is known.
    pub(super) fn place(&self) -> Option<u64> {
        (self.place != NOWHERE).then_some(self.place)
    }

    /// Up to where it acknowledges the other stream.
    pub(super) fn acked(&self) -> Option<u64> {
        (self.acked != NOWHERE).then_some(self.acked)
    }

    /// TCP payload, in bytes.
    pub(super) fn payload_bytes(&self) -> u64 {
        u64::from(self.payload_bytes)
    }

    /// Where its payload begins and ends, if it has one.
    pub(super) fn payload(&self) -> Option<(u64, u64)> {
        let place = self
            .place()
            .filter(|_| self.payload_bytes > 0 && !self.is_void)?;
        Some((place, place + self.payload_bytes()))
    }

    /// The part of its payload from one place to another.
    pub(super) fn part(&self, from: u64, to: u64) -> Seen {
        let left_out_bytes = self.payload_bytes() - (to - from);
        let ip_bytes = match u64::from(self.ip_bytes) {
            // It was not seen, nor is any of it.
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

/// Bytes that were not seen although later ones were.
#[derive(Debug, Clone, Copy)]
struct Hole {
    place: u64,
    end: u64,
    since_ns: u64,
    /// What stands for them among the segments.
    seen: usize,
}

/// An acknowledgement of more than was seen. The capture has missed what it acknowledges, or the frame is damaged: what
/// comes next tells.
#[derive(Debug, Clone, Copy)]
struct Claim {
    ack: u32,
    time_ns: u64,
    /// Its segment's place among those of the connection.
    seen: usize,
}

/// What one end sends.
#[derive(Debug)]
pub(super) struct Stream {
    /// Sequence number of the first byte.
    pub(super) base: Option<u32>,
    highest: u64,
    /// Where it ends, once its sender has said so.
    end: Option<u64>,
    pub(super) framing: Framing,
    /// What its sender's SYN says.
    pub(super) options: Option<Options>,
    /// Up to where it has been acknowledged, as far as that was seen.
    acked: u64,
    /// The newest acknowledgement of more than was seen, until it is known what to make of it.
    claim: Option<Claim>,
    /// Ends of what was seen, with the times, to be acknowledged.
    timed: VecDeque<(u64, u64)>,
    /// Time stamps that its sender gave, with when the first segment of each passed, to be echoed.
    stamped: VecDeque<(u32, u64)>,
    /// The least time from here to the receiver and back, by what was acknowledged.
    acked_ns: Option<u64>,
    /// The same by the time stamps that were echoed.
    echoed_ns: Option<u64>,
    holes: Vec<Hole>,
    /// Its PDUs.
    pub(super) pdus: Vec<Found>,
    /// Segments that were retransmitted.
    pub(super) sent_again: u64,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// The end that sent the SYN, if that was seen, and the other.
    pub(super) ends: [SocketAddr; 2],
    /// Whether its beginning was seen.
    pub(super) has_begun: bool,
    /// Which session it is of, and its CID, once it has PDUs.
    pub(super) session: Option<(SessionId, ConnectionId)>,
    /// What each end sends.
    pub(super) streams: [Stream; 2],
    pub(super) seen: Pieces<Seen>,
    /// Segments of which the capture says that they went no further than where they were seen.
    pub(super) lost: Vec<Seen>,
    /// Where they began, by the end that sent them.
    lost_places: HashSet<(usize, u64)>,
    pub(super) login: Login,
    /// Segments that the capture has missed: acknowledged, and never seen.
    pub(super) missed: u64,
    /// Whether an acknowledgement without data was seen.
    has_pure_acks: bool,
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
            pdus: Vec::new(),
            sent_again: 0,
        }
    }

    /// The same in the part of a capture that follows.
    fn next_part(&self) -> Stream {
        Stream {
            options: self.options,
            framing: self.framing.next_part(),
            ..Stream::new(false)
        }
    }

    /// The place of a sequence number, near the highest one so far: they wrap. `None` before the stream's beginning, and while
    /// that is not known.
    fn place(&self, seq: u32) -> Option<u64> {
        let expected = self.base?.wrapping_add(self.highest as u32);
        let ahead = i64::from(seq.wrapping_sub(expected) as i32);
        self.highest.checked_add_signed(ahead)
    }

    /// The same of a segment that its sender sent: where none was seen before, the stream begins there, or at what was
    /// acknowledged before, as the rest was under way.
    fn begun_place(&mut self, seq: u32) -> Option<u64> {
        let acked = self.claim.map(|claim| claim.ack);
        let begun = acked.filter(|acked| seq.wrapping_sub(*acked).cast_signed() >= 0);
        self.base.get_or_insert(begun.unwrap_or(seq));
        self.place(seq)
    }

    /// Up to where it may be acknowledged by what was seen of it: a FIN takes a place as well (RFC 9293 §3.4).
    fn sent(&self) -> u64 {
        let end = self.end.map_or(0, |end| end + 1);
        self.highest.max(end)
    }

    /// Whether this acknowledges more than was seen.
    fn is_beyond(&self, ack: u32) -> bool {
        self.base.is_none() || self.place(ack).is_some_and(|place| place > self.sent())
    }

    fn time(&mut self, end: u64, now_ns: u64) {
        if self.timed.len() < MOST_TIMED {
            self.timed.push_back((end, now_ns));
        }
    }

    /// What was timed up to `place`, and was sent by then, is acknowledged.
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

    /// A segment passes with this time stamp.
    fn stamp(&mut self, value: u32, now_ns: u64) {
        if self.stamped.back().is_none_or(|(last, _)| *last != value) {
            if self.stamped.len() == MOST_STAMPED {
                self.stamped.pop_front();
            }
            self.stamped.push_back((value, now_ns));
        }
    }

    /// A segment passes in the other direction that echoes this time stamp: it left its sender when a
    /// segment that bears the stamp had come there. So acknowledgements without data time the way to
    /// the one that they release, and back.
    fn echoed(&mut self, value: u32, now_ns: u64) {
        let given = self.stamped.iter().position(|(given, _)| *given == value);
        if let Some(given) = given {
            let given_ns = self.stamped[given].1;
            lower(&mut self.echoed_ns, now_ns.saturating_sub(given_ns));
            // The next echo of it says less.
            self.stamped.drain(..given);
        }
    }
}

/// Keeps the least.
fn lower(least_ns: &mut Option<u64>, took_ns: u64) {
    *least_ns = Some(least_ns.map_or(took_ns, |least_ns| least_ns.min(took_ns)));
}

impl Connection {
    /// A connection that begins with this segment, or of which this one was seen first.
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
        }
    }

    /// The same connection in the part of a capture that follows.
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
        }
    }

    /// Whether a display filter seems to have removed the segments in which no PDU begins: there are holes
    /// that were acknowledged, and no acknowledgement without data.
    pub(super) fn is_filtered(&self) -> bool {
        self.missed > 0 && !self.has_pure_acks
    }

    /// The least time from here to the receiver of what the end `from` sends and back; `None` when nothing
    /// tells. Where segments were left out, nobody knows which one was the first with a time stamp.
    pub(super) fn round_trip_ns(&self, from: usize) -> Option<u64> {
        let stream = &self.streams[from];
        let echoed_ns = stream.echoed_ns.filter(|_| !self.is_filtered());
        stream.acked_ns.into_iter().chain(echoed_ns).min()
    }

    /// The capture has ended.
    pub(super) fn finish(&mut self) {
        for of in [0, 1] {
            // Nothing speaks against it.
            if let Some(claim) = self.streams[of].claim.take() {
                self.confirm(of, claim);
            }
        }
        for stream in &mut self.streams {
            stream.framing.finish(&mut self.login, &mut stream.pdus);
        }
    }

    /// Whether this SYN begins another connection between the same ends.
    pub(super) fn is_over(&self, segment: &Segment<'_>) -> bool {
        let is_first = segment.is_syn();
        let from = self.end_of(segment);
        let base = self.streams[from].base;
        is_first && base.is_some_and(|base| base != segment.seq.wrapping_add(1))
    }

    /// Whether it carries no PDUs that can be found. One whose beginning was seen begins with a PDU.
    pub(super) fn is_foreign(&self) -> bool {
        if self.session.is_some() {
            return false;
        }
        if self.streams.iter().any(|stream| !stream.pdus.is_empty()) {
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

    /// Windows between these ends are shifted by that much, each in the place of its end. What a SYN has said stands.
    pub(super) fn know_scales(&mut self, ends: [SocketAddr; 2], scales: [u8; 2]) {
        let scales = match ends {
            ends if ends == self.ends => scales,
            [one, other] if [other, one] == self.ends => [scales[1], scales[0]],
            _ => return,
        };
        for (stream, scale) in self.streams.iter_mut().zip(scales) {
            stream.options.get_or_insert(Options {
                shift: Some(u32::from(scale)),
                ..Options::default()
            });
        }
    }

    /// Whether a segment carries or acknowledges what none has before it: then it was not seen before.
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

    /// A segment passes.
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

    /// A segment comes, and goes no further.
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

    /// A segment that was seen before went no further.
    pub(super) fn lose_seen(&mut self, seen: usize) {
        if let Some(seen) = self.seen.get_mut(seen) {
            seen.is_lost = true;
        }
    }

    /// Segments and PDUs that are kept.
    pub(super) fn kept(&self) -> usize {
        let pdus = self.streams.iter().map(|stream| stream.pdus.len());
        self.seen.len() + self.lost.len() + pdus.sum::<usize>()
    }

    /// The receiver of what `of` sends acknowledges again. It acknowledges no less than before, unless the frame in which it did
    /// so was damaged: that one went no further.
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

    /// What was acknowledged had come, though it was not seen.
    fn confirm(&mut self, of: usize, claim: Claim) {
        self.streams[of].base.get_or_insert(claim.ack);
        let acked = self.acknowledges(of, claim.ack, claim.time_ns);
        self.seen[claim.seen].acked = acked.unwrap_or(NOWHERE);
    }

    /// The stream of `of` is acknowledged; up to which place.
    fn acknowledges(&mut self, of: usize, ack: u32, now_ns: u64) -> Option<u64> {
        let stream = &mut self.streams[of];
        let place = stream.place(ack)?;
        stream.timed_until(place, now_ns);
        // A FIN's place holds no byte.
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

    /// Payload passes.
    fn carries(&mut self, from: usize, place: u64, now_ns: u64, segment: &Segment<'_>) {
        let end = place + segment.payload_bytes;
        let claim = self.streams[from].claim;
        let claimed = claim.and_then(|claim| self.streams[from].place(claim.ack));
        if claimed.is_some_and(|claimed| place >= claimed)
            && let Some(claim) = self.streams[from].claim.take()
        {
            // Its sender has gone on there.
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
            // Nobody can tell which of them is acknowledged (RFC 6298 §3).
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
