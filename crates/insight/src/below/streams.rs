//! When a byte of a connection's stream passed from one program to the other.

use foldhash::{HashMap, HashSet};
use std::collections::BTreeSet;

use wansan_iscsi::wire::BHS_BYTES;
use wansan_trace::event::{Pdu, PduDirection, Stamp};
use wansan_trace::file::{Names, Table};
use wansan_trace::{ConnectionId, NameId, SessionId};

use super::chain::Message;
use super::{DISORDER_NS, Recorded};
use crate::opcode;
use crate::pdu_stream::BEYOND_BYTES;
use crate::traffic::FlowDirection;

/// Bytes that TCP does not hold are sent within the call, or this much later.
const AT_ONCE_NS: u64 = 200_000;

/// When a byte passed each point, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    /// At its sender.
    pub(super) left: Left,
    /// At its receiver.
    pub(super) came: Came,
}

impl Times {
    /// Uncertainty of the departure and arrival times.
    pub(super) fn uncertain_ns(&self) -> u64 {
        self.left.uncertain_ns + self.came.uncertain_ns
    }
}

/// When a byte left its sender, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Left {
    /// When the send buffer took it.
    pub(super) handed_ns: u64,
    /// When TCP gave it to the queueing discipline.
    pub(super) scheduled_ns: u64,
    /// When the device got it.
    pub(super) departed_ns: u64,
    /// Uncertainty of the departure time.
    pub(super) uncertain_ns: u64,
    /// Whether Nagle's algorithm was enabled.
    pub(super) nagle: bool,
}

/// When a byte reached its receiver, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Came {
    /// When the kernel got it.
    pub(super) arrived_ns: u64,
    /// When the program read it.
    pub(super) read_ns: u64,
    /// Uncertainty of the arrival time.
    pub(super) uncertain_ns: u64,
}

/// The earliest time at which a byte can have arrived, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Soonest {
    first_ns: u64,
    /// The same if it was lost and retransmitted.
    again_ns: u64,
}

impl Soonest {
    /// For a byte that arrives no earlier than `first_ns`, or `repair_ns` later if it was retransmitted.
    pub(super) fn of(first_ns: u64, repair_ns: u64) -> Soonest {
        Soonest {
            first_ns,
            again_ns: first_ns + repair_ns,
        }
    }
}

/// One direction of a session's connection.
type Key = (SessionId, ConnectionId, FlowDirection);

/// All streams of a cell.
#[derive(Debug, Default)]
pub(super) struct Streams {
    found: HashMap<Key, Stream>,
}

/// The records of one stream. A connection that was set up again begins another one, so each list holds successive
/// streams.
#[derive(Debug, Default)]
struct Stream {
    calls: Vec<Vec<Stamp>>,
    /// Those of `calls` with a known departure.
    departures: Vec<Vec<Stamp>>,
    reads: Vec<Vec<Stamp>>,
    /// The time at which each PDU was queued (with records of one end only, also received), and its offset.
    pdus: Vec<Vec<(u64, u64)>>,
    /// Minimum path delay of bytes with their own stamps.
    least_path_ns: u64,
}

/// Which hosts are the initiators and targets of which sessions, derived from their PDUs: the initiator sends
/// requests, the target answers.
#[derive(Debug, Default)]
pub(crate) struct Ends<'a> {
    initiators: BTreeSet<(SessionId, &'a str)>,
    targets: BTreeSet<(SessionId, &'a str)>,
}

impl<'a> Ends<'a> {
    /// Builds this from all PDUs.
    pub(crate) fn of(pdus: &'a Table<Pdu>) -> Ends<'a> {
        let mut ends = Ends::default();
        for row in &pdus.rows {
            let named = (row.record.session, pdus.names.get(row.host));
            match recorded_by(&row.record) {
                FlowDirection::ToTarget => ends.initiators.insert(named),
                FlowDirection::ToInitiator => ends.targets.insert(named),
            };
        }
        ends
    }

    /// Which ends have recorded both PDUs and stamps.
    pub(super) fn recorded(&self, stamps: &Table<Stamp>) -> Recorded {
        let rows = stamps.rows.iter().map(|row| (row.record.session, row.host));
        let stamped: HashSet<(SessionId, NameId)> = rows.collect();
        let has_any = |ends: &BTreeSet<(SessionId, &str)>| {
            let mut stamped = stamped.iter();
            stamped.any(|(session, host)| ends.contains(&(*session, stamps.names.get(*host))))
        };
        match (has_any(&self.initiators), has_any(&self.targets)) {
            (true, false) => Recorded::Initiator,
            (false, true) => Recorded::Target,
            (true, true) | (false, false) => Recorded::Both,
        }
    }

    /// The same for a file in which hosts have other IDs.
    pub(crate) fn of_file<'b>(&'b self, names: &'b Names) -> EndsOfFile<'b> {
        EndsOfFile {
            ends: self,
            names,
            known: HashMap::default(),
        }
    }
}

/// [`Ends`] by the IDs of one file.
pub(crate) struct EndsOfFile<'a> {
    ends: &'a Ends<'a>,
    names: &'a Names,
    known: HashMap<(SessionId, NameId), FlowDirection>,
}

impl EndsOfFile<'_> {
    /// The direction in which a host sends in a session.
    pub(crate) fn sends(&mut self, session: SessionId, host: NameId) -> FlowDirection {
        *self.known.entry((session, host)).or_insert_with(|| {
            let name = self.names.get(host);
            if self.ends.initiators.contains(&(session, name)) {
                FlowDirection::ToTarget
            } else {
                FlowDirection::ToInitiator
            }
        })
    }
}

impl Streams {
    /// Builds the streams from stamps and PDUs in time order; only PDUs of the ends in `recorded` count.
    pub(super) fn of(
        stamps: &Table<Stamp>,
        pdus: &Table<Pdu>,
        ends: &Ends<'_>,
        recorded: Recorded,
    ) -> Streams {
        let mut ends = ends.of_file(&stamps.names);
        let mut streams = Streams::default();
        for row in &stamps.rows {
            let stamp = row.record;
            let sends = ends.sends(stamp.session, row.host);
            let sent = stamp.direction == PduDirection::Sent;
            let way = match sends {
                FlowDirection::ToTarget if sent => FlowDirection::ToTarget,
                FlowDirection::ToInitiator if !sent => FlowDirection::ToTarget,
                _ => FlowDirection::ToInitiator,
            };
            let key = (stamp.session, stamp.connection, way);
            let stream = streams.found.entry(key).or_default();
            if sent {
                follow(&mut stream.calls, stamp, |call| call.stream_end);
            } else {
                follow(&mut stream.reads, stamp, |read| read.stream_end);
            }
        }
        let pdus = pdus.rows.iter().map(|row| &row.record);
        for pdu in pdus.filter(|pdu| recorded.is_told_by(pdu)) {
            // If both ends have records, the sender's comes first.
            let is_first = recorded != Recorded::Both || pdu.direction == PduDirection::Sent;
            let key = (pdu.session, pdu.connection, way(pdu));
            if let Some(stream) = streams.found.get_mut(&key).filter(|_| is_first) {
                let known = (pdu.time.ns(), pdu.stream_offset);
                follow(&mut stream.pdus, known, |(_, offset)| *offset);
            }
        }
        for stream in streams.found.values_mut() {
            stream.measure();
        }
        streams
    }

    /// When the last byte of a message passed each point; `None` if a stamp is missing.
    pub(super) fn times(&self, message: &Message) -> Option<Times> {
        let stream = self.stream(message)?;
        stream.times(message.queued_ns, stream.end_of(message))
    }

    /// When the last byte of a message left, by its sender's records alone; `None` if a stamp is missing. It left by
    /// `latest_ns`.
    pub(super) fn left(&self, message: &Message, latest_ns: u64) -> Option<Left> {
        let stream = self.stream(message)?;
        stream.left(message.queued_ns, stream.end_of(message), latest_ns)
    }

    /// When the last byte of a message was acknowledged, if it was.
    pub(super) fn acknowledged_ns(&self, message: &Message) -> Option<u64> {
        let stream = self.stream(message)?;
        let (_, call) = stream.call_of(message.queued_ns, stream.end_of(message))?;
        Some(call.acknowledged.ns()).filter(|ns| *ns > 0)
    }

    /// When the last byte of a message arrived, by its receiver's records alone; `None` if a stamp is missing. It
    /// arrived no earlier than `soonest`.
    pub(super) fn came(&self, message: &Message, soonest: Soonest) -> Option<Came> {
        let stream = self.stream(message)?;
        // The program may have recorded the PDU after its last read.
        let since_ns = message.queued_ns.saturating_sub(DISORDER_NS);
        stream.came(since_ns, stream.end_of(message), soonest)
    }

    /// Like [`Streams::times`], for the last byte of the message's header.
    pub(super) fn header_times(&self, message: &Message) -> Option<Times> {
        let end = message.offset + BHS_BYTES as u64;
        self.stream(message)?.times(message.queued_ns, end)
    }

    /// Like [`Streams::times`], for the message's first byte.
    pub(super) fn first_times(&self, message: &Message) -> Option<Times> {
        let end = message.offset + 1;
        self.stream(message)?.times(message.queued_ns, end)
    }

    fn stream(&self, message: &Message) -> Option<&Stream> {
        let key = (message.session, message.connection, message.way);
        self.found.get(&key)
    }
}

/// The direction of a PDU.
pub(super) fn way(pdu: &Pdu) -> FlowDirection {
    if opcode::is_request(pdu.opcode) {
        FlowDirection::ToTarget
    } else {
        FlowDirection::ToInitiator
    }
}

/// The direction in which the end that recorded a PDU sends.
fn recorded_by(pdu: &Pdu) -> FlowDirection {
    match (pdu.direction, way(pdu)) {
        (PduDirection::Sent, way) => way,
        (PduDirection::Received, FlowDirection::ToTarget) => FlowDirection::ToInitiator,
        (PduDirection::Received, FlowDirection::ToInitiator) => FlowDirection::ToTarget,
    }
}

impl Recorded {
    /// Whether one of these ends recorded a PDU.
    pub(super) fn is_told_by(self, pdu: &Pdu) -> bool {
        match self {
            Recorded::Both => true,
            Recorded::Initiator => recorded_by(pdu) == FlowDirection::ToTarget,
            Recorded::Target => recorded_by(pdu) == FlowDirection::ToInitiator,
        }
    }
}

/// Appends the next record in time: to the last stream, or to a new one if its offset does not increase.
fn follow<T>(streams: &mut Vec<Vec<T>>, next: T, place: impl Fn(&T) -> u64) {
    let goes_on = |last: &Vec<T>| last.last().is_some_and(|last| place(last) < place(&next));
    match streams.last_mut() {
        Some(last) if goes_on(last) => last.push(next),
        _ => streams.push(vec![next]),
    }
}

/// Index of the first of successive streams that has a record at or after `at_ns`.
fn at<T>(streams: &[Vec<T>], at_ns: u64, time_ns: impl Fn(&T) -> u64) -> Option<usize> {
    let was_there = |stream: &Vec<T>| stream.last().is_some_and(|last| time_ns(last) >= at_ns);
    streams.iter().position(was_there)
}

impl Stream {
    /// Where a message ends: at the start of the next one, which accounts for digests and padding. If that was not
    /// recorded, as in a sample of the I/Os, with its data.
    fn end_of(&self, message: &Message) -> u64 {
        let stream = at(&self.pdus, message.queued_ns, |(at_ns, _)| *at_ns);
        let pdus = stream.map_or(&[][..], |stream| &self.pdus[stream]);
        let next = pdus.partition_point(|(_, offset)| *offset <= message.offset);
        let least = message.offset + BHS_BYTES as u64 + u64::from(message.data_bytes);
        let next = pdus.get(next).map(|(_, offset)| *offset);
        next.filter(|offset| (least..=least + BEYOND_BYTES).contains(offset))
            .unwrap_or(least)
    }

    /// Collects the known departures, and measures the minimum path delay from bytes that have their own stamps at
    /// both ends: the last one of a read, and of a call that TCP did not hold.
    fn measure(&mut self) {
        let is_known = |call: &Stamp| call.departed.ns() > 0;
        let known = |calls: &Vec<Stamp>| calls.iter().copied().filter(is_known).collect();
        self.departures = self.calls.iter().map(known).collect();
        let path_ns = |call: &Stamp| {
            let (reads, place) = self.reads_to(call.time.ns(), call.stream_end)?;
            let read = reads.get(place)?;
            let is_held = call.scheduled.ns() > call.time.ns() + AT_ONCE_NS;
            let both = read.stream_end == call.stream_end && call.scheduled.ns() > 0 && !is_held;
            let path_ns = read.arrived.ns().checked_sub(call.departed.ns())?;
            both.then_some(path_ns)
        };
        let least_ns = self.departures.iter().flatten().filter_map(path_ns).min();
        self.least_path_ns = least_ns.unwrap_or(0);
    }

    /// The read calls, and the index of the one that read the byte before `end`.
    fn reads_to(&self, since_ns: u64, end: u64) -> Option<(&[Stamp], usize)> {
        let reads = &self.reads[at(&self.reads, since_ns, |read| read.time.ns())?];
        let place = reads.partition_point(|read| read.stream_end < end);
        Some((reads, place))
    }

    /// When the byte before `end`, queued at `queued_ns`, passed each point.
    fn times(&self, queued_ns: u64, end: u64) -> Option<Times> {
        let (reads, place) = self.reads_to(queued_ns, end)?;
        let read = reads.get(place)?;
        let came_ns = match read.stream_end == end {
            true => read.arrived.ns().min(read.time.ns()),
            false => read.time.ns(),
        };
        // No byte is faster than the minimum path delay.
        let latest_ns = came_ns.saturating_sub(self.least_path_ns);
        let left = self.left(queued_ns, end, latest_ns)?;
        let soonest = Soonest::of(left.departed_ns + self.least_path_ns, self.least_path_ns);
        let came = self.came(queued_ns, end, soonest)?;
        Some(Times { left, came })
    }

    /// When the byte before `end` arrived: after `since_ns`, and no earlier than `soonest`.
    fn came(&self, since_ns: u64, end: u64, soonest: Soonest) -> Option<Came> {
        let (reads, place) = self.reads_to(since_ns, end)?;
        let read = reads.get(place).filter(|read| read.arrived.ns() > 0)?;
        let read_ns = read.time.ns();
        let stamped_ns = read.arrived.ns().min(read_ns);
        let (mut arrived_ns, mut uncertain_ns) = (stamped_ns, 0);
        if read.stream_end != end {
            // The stamp is of the last segment that was read. The byte arrived before it, or after it if it was
            // retransmitted to fill a hole.
            arrived_ns = stamped_ns.max(soonest.first_ns).min(read_ns);
            let before = place.checked_sub(1).map(|place| reads[place].arrived.ns());
            let earliest_ns = before.unwrap_or(0).max(soonest.first_ns).min(arrived_ns);
            uncertain_ns = arrived_ns - earliest_ns;
            if stamped_ns < soonest.first_ns || read_ns >= soonest.again_ns {
                uncertain_ns = uncertain_ns.max(read_ns - arrived_ns);
            }
        }
        Some(Came {
            arrived_ns,
            read_ns,
            uncertain_ns,
        })
    }

    /// The send call with the byte before `end`, queued at `queued_ns`, and the index of its stream.
    fn call_of(&self, queued_ns: u64, end: u64) -> Option<(usize, &Stamp)> {
        let stream = at(&self.calls, queued_ns, |call| call.time.ns())?;
        let calls = &self.calls[stream];
        let call = calls.get(calls.partition_point(|call| call.stream_end < end))?;
        Some((stream, call))
    }

    /// When the byte before `end`, queued at `queued_ns`, left: by `latest_ns`.
    ///
    /// No stamp is early, but some are late: Linux (6.10 and later) may send a byte at the front of a buffer together
    /// with the buffer before it, but stamps it with its own buffer.
    fn left(&self, queued_ns: u64, end: u64, latest_ns: u64) -> Option<Left> {
        let (stream, call) = self.call_of(queued_ns, end)?;
        let departures = &self.departures[stream];
        let next = departures.partition_point(|known| known.stream_end < end);
        let after = departures.get(next)?;
        let stamped_ns = after.departed.ns();
        let scheduled = Some(after.scheduled.ns()).filter(|ns| *ns > 0);
        let queue_ns = scheduled.map_or(0, |ns| stamped_ns.saturating_sub(ns));
        let left = |scheduled_ns: u64, departed_ns, uncertain_ns| Left {
            // The call may return after the byte has left.
            handed_ns: call.time.ns().min(scheduled_ns),
            scheduled_ns,
            departed_ns,
            uncertain_ns,
            nagle: call.nagle,
        };
        if after.stream_end == end && stamped_ns <= latest_ns.saturating_add(AT_ONCE_NS) {
            let uncertain_ns = stamped_ns.saturating_sub(latest_ns);
            return Some(left(stamped_ns - queue_ns, stamped_ns, uncertain_ns));
        }
        // It lies among bytes that left between two stamps, which are taken to have left at an even rate. The return
        // time of its call does not bound it: a thread woken as the byte left may have kept the caller off its CPU.
        let before = next.checked_sub(1).map(|before| &departures[before]);
        let before_ns = before.map_or(0, |before| before.departed.ns().min(latest_ns));
        let earliest_ns = before_ns.max(queued_ns);
        let stamped_ns = stamped_ns.max(earliest_ns);
        let bound_ns = stamped_ns.min(latest_ns.max(earliest_ns));
        let start = call.stream_end - u64::from(call.bytes);
        let from = before.map_or(start, |before| before.stream_end);
        let share = (end - from) as f64 / (after.stream_end - from) as f64;
        let even_ns = earliest_ns + ((stamped_ns - earliest_ns) as f64 * share) as u64;
        let departed_ns = even_ns.min(bound_ns);
        Some(left(
            departed_ns.saturating_sub(queue_ns).max(queued_ns),
            departed_ns,
            // If it seems to have left before it was queued, one of these times is wrong.
            (bound_ns - earliest_ns) + earliest_ns.saturating_sub(latest_ns),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wansan_trace::Instant;

    fn at_ns(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    fn call(time: u64, stream_end: u64, bytes: u32, scheduled: u64, departed: u64) -> Stamp {
        Stamp {
            time: at_ns(time),
            stream_end,
            bytes,
            scheduled: at_ns(scheduled),
            departed: at_ns(departed),
            ..Stamp::BLANK
        }
    }

    fn read(time: u64, stream_end: u64, arrived: u64) -> Stamp {
        Stamp {
            time: at_ns(time),
            stream_end,
            arrived: at_ns(arrived),
            direction: PduDirection::Received,
            ..Stamp::BLANK
        }
    }

    fn stream(calls: &[Stamp], reads: &[Stamp]) -> Stream {
        let mut stream = Stream::default();
        for stamp in calls {
            follow(&mut stream.calls, *stamp, |call| call.stream_end);
        }
        for stamp in reads {
            follow(&mut stream.reads, *stamp, |read| read.stream_end);
        }
        stream.measure();
        stream
    }

    #[test]
    fn a_byte_with_stamps_of_its_own_is_certain() {
        let stream = stream(
            &[call(105, 48, 48, 101, 102), call(210, 96, 48, 230, 240)],
            &[read(1_150, 48, 1_100), read(1_300, 96, 1_240)],
        );
        assert_eq!(stream.least_path_ns, 998);
        let first = stream.times(100, 48).unwrap();
        // The call returned after the byte had left.
        let places = [
            first.left.handed_ns,
            first.left.scheduled_ns,
            first.left.departed_ns,
        ];
        assert_eq!(places, [101, 101, 102]);
        assert_eq!((first.came.arrived_ns, first.came.read_ns), (1_100, 1_150));
        let second = stream.times(205, 96).unwrap();
        let places = [
            second.left.handed_ns,
            second.left.scheduled_ns,
            second.left.departed_ns,
        ];
        assert_eq!(places, [210, 230, 240]);
        assert_eq!((first.uncertain_ns(), second.uncertain_ns()), (0, 0));
    }

    #[test]
    fn a_byte_among_others_is_taken_for_even_and_says_how_sure_that_is() {
        // 100 bytes in one call, half of which arrived first.
        let stream = stream(
            &[call(100, 10, 10, 100, 100), call(110, 110, 100, 300, 300)],
            &[
                read(1_101, 10, 1_100),
                read(1_211, 60, 1_210),
                read(1_301, 110, 1_300),
            ],
        );
        let middle = stream.times(104, 60).unwrap();
        assert_eq!((middle.left.handed_ns, middle.left.departed_ns), (110, 202));
        assert_eq!(middle.came.arrived_ns, 1_210);
        // It left after it was queued, and early enough to arrive in time.
        assert_eq!(middle.uncertain_ns(), 210 - 104);
        let last = stream.times(105, 110).unwrap();
        assert_eq!((last.left.departed_ns, last.uncertain_ns()), (300, 0));
    }

    #[test]
    fn a_byte_that_filled_a_hole_came_after_those_behind_it_and_before_it_was_read() {
        // The receiver only: the stamp of the read says 1,210, when a segment behind the byte arrived, but the byte
        // was retransmitted and arrived at 2,600.
        let reads = [read(1_001, 10, 1_000), read(2_652, 110, 1_210)];
        let stream = stream(&[], &reads);
        let filled = stream.came(0, 60, Soonest::default()).unwrap();
        assert_eq!((filled.arrived_ns, filled.read_ns), (1_210, 2_652));
        assert_eq!(filled.uncertain_ns, 2_652 - 1_210);
        // An earliest time of 2,580 narrows it down.
        let filled = stream.came(0, 60, Soonest::of(2_580, 0)).unwrap();
        assert_eq!((filled.arrived_ns, filled.uncertain_ns), (2_580, 72));
        // A retransmission would have arrived after the read.
        let whole = stream.came(0, 60, Soonest::of(1_150, 2_000)).unwrap();
        assert_eq!((whole.arrived_ns, whole.uncertain_ns), (1_210, 60));
        let last = stream.came(0, 110, Soonest::default()).unwrap();
        assert_eq!((last.arrived_ns, last.uncertain_ns), (1_210, 0));
    }

    #[test]
    fn a_byte_that_seems_to_have_left_before_it_was_queued_is_uncertain_by_as_much() {
        // The minimum path delay is 1,000. The second byte range, whose own stamp is missing, arrived 510 too early
        // for the time when it was queued.
        let calls = [
            call(100, 10, 10, 100, 100),
            call(1_011, 60, 50, 0, 0),
            call(1_012, 110, 50, 1_012, 1_012),
        ];
        let reads = [
            read(1_101, 10, 1_100),
            read(1_501, 60, 1_500),
            read(2_013, 110, 2_012),
        ];
        let stream = stream(&calls, &reads);
        let second = stream.times(1_010, 60).unwrap();
        assert_eq!(second.left.departed_ns, 1_010);
        assert_eq!(second.came.arrived_ns, 1_500);
        assert_eq!(second.uncertain_ns(), 510);
    }

    #[test]
    fn a_call_that_returned_late_does_not_keep_its_bytes() {
        // The first bytes show a path delay of 1,000. The next 50 were read with later ones, and left long before
        // their call returned.
        let calls = [
            call(100, 10, 10, 100, 100),
            call(900, 60, 50, 0, 0),
            call(910, 110, 50, 905, 905),
        ];
        let reads = [read(1_101, 10, 1_100), read(1_906, 110, 1_905)];
        let stream = stream(&calls, &reads);
        let late = stream.times(200, 60).unwrap();
        assert!(late.left.departed_ns < 900, "{late:?}");
        assert!(late.left.handed_ns <= late.left.departed_ns);
        assert!(late.came.arrived_ns - late.left.departed_ns >= stream.least_path_ns);
    }

    #[test]
    fn a_stamp_that_is_missing_is_that_of_the_next_call_or_none() {
        let calls = [call(100, 48, 48, 0, 0), call(101, 96, 48, 150, 160)];
        let joined = stream(&calls, &[read(900, 96, 800)]);
        let first = joined.times(99, 48).unwrap();
        assert!(
            first.left.departed_ns <= 160 && first.left.departed_ns >= 100,
            "{first:?}"
        );
        assert!(
            stream(&calls[..1], &[read(900, 96, 800)])
                .times(99, 48)
                .is_none()
        );
        assert!(stream(&calls, &[read(900, 96, 0)]).times(99, 48).is_none());
        assert!(stream(&calls, &[]).times(99, 48).is_none());
        assert!(joined.times(99, 97).is_none());
    }

    #[test]
    fn a_connection_that_was_set_up_again_is_another_stream() {
        let stream = stream(
            &[call(100, 480, 48, 101, 102), call(900, 48, 48, 901, 902)],
            &[read(200, 480, 150), read(990, 48, 950)],
        );
        assert_eq!(stream.times(90, 480).unwrap().left.departed_ns, 102);
        assert_eq!(stream.times(890, 48).unwrap().left.departed_ns, 902);
        assert_eq!(stream.times(890, 480), None);
    }
}
