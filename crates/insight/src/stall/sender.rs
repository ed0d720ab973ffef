//! Finds what each segment waited for, by replaying one direction of a connection as its sender saw it: the data from
//! its program, the data acknowledged, and the right edge of the receive window.

use std::collections::VecDeque;

use crate::traffic::FlowDirection;

use super::congestion_window::{Bounds, CongestionWindow};
use super::conversation::{Announced, Conversation, Segment, Times};
use super::outstanding::{Acknowledged, Outstanding, Sent};
use super::{Cause, Role, Shown, Stall};

/// Shorter waits cannot be distinguished from scheduling delays on a busy computer.
const LEAST_STALL_NS: u64 = 500_000;
/// Waits shorter than 1/`ROUND_TRIP_PARTS` of a round trip are the normal spacing of acknowledgements.
const ROUND_TRIP_PARTS: u64 = 4;
/// An acknowledgement that leaves more than this after its data was delayed on purpose. The shortest delayed-ACK timer
/// in use is that of Linux, 40 ms; a busy computer is late by less than this.
const KEPT_BACK_NS: u64 = 30_000_000;
/// Data sent within this time after an acknowledgement was released by it.
const RELEASE_NS: u64 = 1_000_000;
/// The same where times at the ends are estimated from the minimum transit time.
const ESTIMATED_RELEASE_NS: u64 = 4_000_000;
/// Acknowledgements that arrive within this time after a first one count as one with it.
const TOGETHER_NS: u64 = 100_000;
/// The shortest idle time after which senders slow-start again: the minimum retransmission timeout in use (RFC 5681
/// §4.1; RFC 6298 §2.4 requires one second).
const IDLE_NS: u64 = 200_000_000;
/// A retransmission by timeout comes at least this much later than the last acknowledgement.
const FEEDBACK_NS: u64 = 100_000_000;

/// The stalls of both directions.
#[must_use]
pub fn stalls(conversation: &Conversation) -> Vec<Stall> {
    let ways = [FlowDirection::ToTarget, FlowDirection::ToInitiator];
    let least_ns = conversation.least_transits_ns();
    let round_trip_ns = least_ns.iter().sum();
    let may_stall = |way: &FlowDirection| may_stall(conversation, *way, round_trip_ns);
    let of_way = |way| {
        let transit_ns = least_ns[way as usize];
        Sender::new(conversation, way, transit_ns, round_trip_ns).replay()
    };
    { ways.into_iter() }
        .filter(may_stall)
        .flat_map(of_way)
        .collect()
}

/// The minimum length of a sender's wait that counts as a stall.
fn least_stall_ns(round_trip_ns: u64) -> u64 {
    LEAST_STALL_NS.max(round_trip_ns / ROUND_TRIP_PARTS)
}

/// Whether any segment in that direction is a retransmission, or left so long after both the previous segment and the
/// time its PDU was passed to TCP that it may have waited. Without such a segment, a replay finds nothing.
fn may_stall(conversation: &Conversation, way: FlowDirection, round_trip_ns: u64) -> bool {
    let least_ns = least_stall_ns(round_trip_ns);
    let (mut next, mut sent_ns) = (0, 0);
    let segments = conversation.segments.iter();
    let mut sent = segments.filter(|segment| segment.way == way && segment.payload_bytes > 0);
    sent.any(|segment| {
        let (place, since_ns) = (segment.place.max(next), sent_ns);
        if segment.end() <= next {
            return true;
        }
        (next, sent_ns) = (segment.end(), segment.sent_ns);
        segment.sent_ns.saturating_sub(since_ns) >= least_ns
            && conversation.pdu_at(way, place).is_some_and(|pdu| {
                let from_ns = pdu.at_ns.max(since_ns);
                segment.sent_ns.saturating_sub(from_ns) >= least_ns
            })
    })
}

/// One acknowledgement, or several that arrived together, and the sender's state before the first.
#[derive(Debug, Clone, Copy)]
struct Release {
    first_ns: u64,
    last_ns: u64,
    /// The last of them.
    by: Segment,
    /// The position acknowledged before.
    una: u64,
    /// The right edge of the receive window before.
    edge: Option<Announced>,
    /// Bounds on the congestion window before.
    window: Bounds,
    /// The number of outstanding segments before.
    out: u64,
    /// Whether one of them was short.
    short_was_out: bool,
    /// The newest segment that it acknowledges; `None` if it only moves the window.
    newest: Option<Segment>,
    /// When the first segment that it acknowledges arrived.
    oldest_ns: Option<u64>,
    /// When, before the first of them, TCP last reported that it had sent all the data passed to it. Later reports may
    /// cover data that these acknowledgements released.
    all_sent_ns: Option<u64>,
}

/// A loss under recovery.
#[derive(Debug, Clone, Copy)]
struct Episode {
    /// The position whose acknowledgement ends the recovery.
    until: u64,
    /// The index of its stall, if its cause is known.
    stall: Option<usize>,
}

/// An event at a sender. At equal times, arrivals sort before the transmissions that they trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Window(u64),
    AllSent,
    Hears(usize),
    Sends(usize),
}

/// Whether a segment is inside the receive window; `None` if that is not known.
fn reaches(edge: Announced, segment: &Segment) -> Option<bool> {
    match edge {
        Announced::Exactly(edge) => Some(segment.end() <= edge),
        Announced::AtLeast(edge) => (segment.end() <= edge).then_some(true),
    }
}

/// One direction's sender.
struct Sender<'a> {
    conversation: &'a Conversation,
    way: FlowDirection,
    mss: u64,
    round_trip_ns: u64,
    /// How soon after an acknowledgement data must be sent to count as released by it.
    release_ns: u64,
    /// Whether the estimated transit time may include the delay of delayed acknowledgements.
    hides_delays: bool,
    una: u64,
    /// The stream position after the last byte sent.
    next: u64,
    /// The right edge of the receive window; `None` before it has been announced.
    edge: Option<Announced>,
    /// The right edge before each of the newest acknowledgements, with their times.
    edges: VecDeque<(u64, Option<Announced>)>,
    out: Outstanding,
    released: Option<Release>,
    /// When segments arrive from the receiver, and the position that each acknowledges.
    heard: Vec<(u64, u64)>,
    /// When new data was last sent.
    sent_ns: u64,
    /// When new data that was captured was last sent.
    seen_ns: u64,
    /// When the latest new data reached the receiver; `None` if it was lost.
    arrived_ns: Option<u64>,
    window: CongestionWindow,
    /// When TCP last reported that it had sent all the data passed to it.
    all_sent_ns: Option<u64>,
    episode: Option<Episode>,
    /// When the recovery from the last loss ended.
    recovered_ns: u64,
    /// The time of the last retransmission, and whether its bytes had arrived before.
    again: Option<(u64, bool)>,
    stalls: Vec<Stall>,
}

impl<'a> Sender<'a> {
    fn new(
        conversation: &'a Conversation,
        way: FlowDirection,
        transit_ns: u64,
        round_trip_ns: u64,
    ) -> Self {
        let mss = conversation.mss_bytes(way);
        Sender {
            conversation,
            way,
            mss,
            round_trip_ns,
            release_ns: match conversation.times {
                Times::Seen => RELEASE_NS,
                Times::ByHandshake | Times::ByAcknowledgements => {
                    let part_ns = round_trip_ns / ROUND_TRIP_PARTS;
                    ESTIMATED_RELEASE_NS.min(part_ns).max(RELEASE_NS)
                }
            },
            hides_delays: conversation.times == Times::ByAcknowledgements
                && 2 * transit_ns >= KEPT_BACK_NS,
            una: 0,
            next: 0,
            edge: None,
            edges: VecDeque::new(),
            out: Outstanding::new(mss),
            released: None,
            heard: Vec::new(),
            sent_ns: 0,
            seen_ns: 0,
            arrived_ns: None,
            window: CongestionWindow::new(mss),
            all_sent_ns: None,
            episode: None,
            recovered_ns: 0,
            again: None,
            stalls: Vec::new(),
        }
    }

    fn replay(mut self) -> Vec<Stall> {
        let segments = &self.conversation.segments;
        let mut events: Vec<(u64, Event)> = Vec::with_capacity(segments.len());
        let own = |segment: &Segment| segment.way == self.way;
        let placed = || segments.iter().enumerate();
        let sent = placed().filter(|(_, segment)| own(segment) && segment.payload_bytes > 0);
        events.extend(sent.map(|(place, segment)| (segment.sent_ns, Event::Sends(place))));
        let heard = placed().filter(|(_, segment)| !own(segment));
        events.extend(
            heard.filter_map(|(place, segment)| Some((segment.arrived_ns?, Event::Hears(place)))),
        );
        let samples = self.conversation.windows.iter();
        let of_way = samples.filter(|sampled| sampled.way == self.way);
        for sampled in of_way {
            events.push((sampled.at_ns, Event::Window(sampled.window_bytes)));
            if sampled.is_all_sent {
                events.push((sampled.at_ns, Event::AllSent));
            }
        }
        // Each kind is sorted already, or nearly so: the stable sort merges such runs.
        events.sort();
        let heard = events.iter().filter_map(|(time_ns, event)| match event {
            Event::Hears(place) => Some((*time_ns, segments[*place].acked)),
            _ => None,
        });
        self.heard = heard.collect();
        for (time_ns, event) in events {
            match event {
                Event::Window(bytes) => self.window.told(bytes),
                Event::AllSent => self.all_sent_ns = Some(time_ns),
                Event::Hears(place) => self.hear(time_ns, segments[place]),
                Event::Sends(place) if segments[place].end() > self.next => {
                    self.send(segments[place]);
                }
                Event::Sends(place) => self.send_again(segments[place]),
            }
        }
        self.stalls
    }

    /// A segment arrived from the receiver.
    fn hear(&mut self, now_ns: u64, segment: Segment) {
        if segment.acked < self.una {
            return;
        }
        let edge = Some(match segment.window {
            Announced::Exactly(bytes) => Announced::Exactly(segment.acked + bytes),
            Announced::AtLeast(bytes) => Announced::AtLeast(segment.acked + bytes),
        });
        if segment.acked == self.una && edge == self.edge {
            return;
        }
        let out = self.out.len() as u64;
        let acknowledged = self.out.acknowledge(segment.acked);
        let Acknowledged {
            newest, oldest_ns, ..
        } = acknowledged;
        let mut release = Release {
            first_ns: now_ns,
            last_ns: now_ns,
            by: segment,
            una: self.una,
            edge: self.edge,
            window: self.window.now,
            out,
            short_was_out: acknowledged.short_was_out,
            newest,
            oldest_ns,
            all_sent_ns: self.all_sent_ns,
        };
        if let Some(before) = self.released
            && now_ns - before.first_ns <= TOGETHER_NS
            && self.sent_ns <= before.first_ns
        {
            release = Release {
                last_ns: now_ns,
                by: segment,
                newest,
                oldest_ns,
                ..before
            };
        }
        self.released = Some(release);
        let acked = segment.acked.min(self.next);
        if acked > self.una {
            self.window
                .acknowledged(acked - self.una, acknowledged.segments);
        }
        self.una = acked;
        self.edges.push_back((now_ns, self.edge));
        while self
            .edges
            .front()
            .is_some_and(|(at_ns, _)| at_ns + self.release_ns < now_ns)
        {
            self.edges.pop_front();
        }
        self.edge = edge;
        if self
            .episode
            .is_some_and(|episode| self.una >= episode.until)
        {
            self.episode = None;
            self.recovered_ns = now_ns;
        }
    }

    /// New data leaves.
    fn send(&mut self, segment: Segment) {
        let now_ns = segment.sent_ns;
        let is_idle = self.out.is_empty();
        if is_idle && self.next > 0 {
            let again_ns = self.again.map_or(0, |(at_ns, _)| at_ns);
            // Time in which data was held back is not idle time.
            let pdu = self.conversation.pdu_at(self.way, segment.place);
            let ready_ns = pdu.map_or(now_ns, |pdu| pdu.at_ns.min(now_ns));
            let idle_ns = ready_ns.saturating_sub(self.sent_ns.max(again_ns));
            if idle_ns >= IDLE_NS {
                self.window.idle();
            }
        }
        if let Some(mut stall) = self.waited(&segment) {
            self.blame_kept_back(&mut stall);
            self.stalls.push(stall);
        }
        self.next = segment.end();
        self.sent_ns = now_ns;
        self.arrived_ns = segment.arrived_ns;
        self.window.in_flight(self.next - self.una);
        if segment.is_seen {
            self.seen_ns = now_ns;
        }
        self.out.push(Sent {
            segment,
            since_ns: self.seen_ns,
            is_again: false,
        });
    }

    fn least_ns(&self) -> u64 {
        least_stall_ns(self.round_trip_ns)
    }

    /// The stall that ends with this segment of new data, if one does.
    fn waited(&self, segment: &Segment) -> Option<Stall> {
        let now_ns = segment.sent_ns;
        // While data is in flight, the time is the path's, not the sender's.
        let path_is_empty = self.arrived_ns.is_none_or(|arrived_ns| arrived_ns < now_ns);
        let free_ns = self.sent_ns.max(self.recovered_ns);
        if !path_is_empty || now_ns.saturating_sub(free_ns) < self.least_ns() {
            return None;
        }
        let pdu = self
            .conversation
            .pdu_at(self.way, segment.place.max(self.next))?;
        let from_ns = pdu.at_ns.max(free_ns);
        let gap_ns = now_ns.saturating_sub(from_ns);
        let late_ns = match (segment.arrived_ns, self.arrived_ns) {
            (Some(this_ns), Some(last_ns)) => this_ns.saturating_sub(last_ns),
            _ => gap_ns,
        };
        if gap_ns.min(late_ns) < self.least_ns() {
            return None;
        }
        let release = self.released.filter(|release| {
            release.first_ns >= from_ns && now_ns - release.last_ns <= self.release_ns
        })?;
        if self.hides_delays {
            return None;
        }
        let cause = match self.again.filter(|(at_ns, _)| *at_ns > from_ns) {
            Some((_, true)) => Cause::RetransmissionTimeout,
            // A loss has its own stall.
            _ if self.episode.is_some() => return None,
            // Data that TCP did not have yet was not held by a window.
            _ if release.all_sent_ns >= Some(from_ns + LEAST_STALL_NS) => Cause::SendBuffer,
            _ => self.cause(segment, &release)?,
        };
        let mut evidence = vec![
            Shown::of(Role::Held, segment),
            Shown::of(Role::Released, &release.by),
        ];
        evidence.extend(
            release
                .newest
                .map(|newest| Shown::of(Role::WaitedFor, &newest)),
        );
        Some(Stall {
            cause,
            session: self.conversation.session,
            task: pdu.task,
            way: self.way,
            from_ns,
            to_ns: now_ns,
            evidence,
        })
    }

    /// Why a segment waited until `release` arrived.
    fn cause(&self, segment: &Segment, release: &Release) -> Option<Cause> {
        let sure = release.edge.and_then(|edge| reaches(edge, segment));
        if sure == Some(false) {
            return Some(Cause::ReceiveWindow);
        }
        // If the window has only just opened, or is not known, it may be the cause.
        let now_ns = segment.sent_ns;
        let recent = self
            .edges
            .iter()
            .find(|(at_ns, _)| at_ns + self.release_ns >= now_ns);
        let recent = recent.map_or(release.edge, |(_, edge)| *edge);
        if sure.is_none() || recent.and_then(|edge| reaches(edge, segment)) != Some(true) {
            return None;
        }
        let in_flight = self.next - release.una;
        if in_flight == 0 {
            return None;
        }
        let would_be = in_flight + segment.payload_bytes;
        let may_fit = would_be <= release.window.most;
        // A segment that was not captured may have left before the release, if the window allowed it.
        if !segment.is_seen && may_fit {
            return None;
        }
        if segment.payload_bytes < self.mss {
            // A congestion window counts bytes, or segments of any length.
            let most_would_be = would_be.max((release.out + 1) * self.mss);
            if most_would_be <= release.window.least {
                // Nagle's algorithm (RFC 896) waits until all data is acknowledged, its milder variants only for short
                // segments.
                let released = release.short_was_out || self.una == self.next;
                return released.then_some(Cause::Nagle);
            }
        }
        // A short segment that the window may have allowed waited for something else.
        if may_fit && segment.payload_bytes < self.mss {
            return None;
        }
        let before_idle = self.window.before_idle;
        if would_be <= before_idle.least {
            Some(Cause::SlowStartAfterIdle)
        } else {
            (would_be > before_idle.most).then_some(Cause::ExtraRoundTrips)
        }
    }

    /// If the acknowledgement that ended a stall was delayed, counts that as a cause too.
    fn blame_kept_back(&mut self, stall: &mut Stall) {
        let Some(release) = self.released else { return };
        let arrived_ns = release.newest.and_then(|newest| newest.arrived_ns);
        let Some(arrived_ns) = arrived_ns else { return };
        let kept_from_ns = arrived_ns.max(stall.from_ns);
        let kept_ns = release.by.sent_ns.saturating_sub(kept_from_ns);
        // The delayed-ACK timer starts at the first unacknowledged segment.
        let oldest_ns = release.oldest_ns.unwrap_or(arrived_ns);
        let is_kept_back = release.by.sent_ns.saturating_sub(oldest_ns) >= KEPT_BACK_NS;
        if !is_kept_back || kept_ns < self.least_ns() {
            return;
        }
        match stall.cause {
            Cause::Nagle => stall.cause = Cause::NagleAgainstDelayedAck,
            Cause::ExtraRoundTrips
            | Cause::SlowStartAfterIdle
            | Cause::ReceiveWindow
            | Cause::SendBuffer => {
                // Without the delay, the stall would have been this much shorter.
                let delayed = Stall {
                    cause: Cause::DelayedAck,
                    from_ns: kept_from_ns,
                    to_ns: release.by.sent_ns,
                    ..stall.clone()
                };
                stall.from_ns += kept_ns;
                self.stalls.push(delayed);
            }
            _ => {}
        }
    }

    /// Data is retransmitted.
    fn send_again(&mut self, segment: Segment) {
        let now_ns = segment.sent_ns;
        let covers =
            |sent: &&Sent| sent.segment.place < segment.end() && segment.place < sent.segment.end();
        let earlier: Vec<Sent> = self.out.iter().filter(covers).copied().collect();
        let had_arrived =
            earlier.is_empty() || earlier.iter().any(|sent| sent.segment.arrived_ns.is_some());
        self.again = Some((now_ns, had_arrived));
        if had_arrived && self.is_feedback(now_ns, segment.place) == Some(false) {
            // The timeout was spurious, but the sender does not know that.
            self.window.lost();
        } else {
            self.window.perhaps_lost();
        }
        if !had_arrived && let Some(lost) = earlier.last().copied() {
            self.recover(now_ns, &lost, &segment);
        }
        self.out.push(Sent {
            segment,
            since_ns: now_ns,
            is_again: true,
        });
    }

    /// Whether the retransmission from `place` was triggered by something from the receiver; `None` if the times do not
    /// tell.
    fn is_feedback(&self, now_ns: u64, place: u64) -> Option<bool> {
        let soon_ns = LEAST_STALL_NS.max(FEEDBACK_NS.min(self.round_trip_ns / 3));
        let off_ns = match self.conversation.times {
            Times::Seen => 0,
            Times::ByHandshake | Times::ByAcknowledgements => soon_ns,
        };
        let first = self
            .heard
            .partition_point(|(at_ns, _)| at_ns + soon_ns < now_ns);
        let soon = &self.heard[first..];
        if soon
            .first()
            .is_some_and(|(at_ns, _)| *at_ns <= now_ns + off_ns)
        {
            return Some(true);
        }
        // The whole estimated round trip may be the delay of delayed acknowledgements, so that what was heard before
        // seems to come later. Only what acknowledges more did come later.
        let mut off = soon
            .iter()
            .take_while(|(at_ns, _)| *at_ns <= now_ns.saturating_add(self.round_trip_ns));
        let may_be = self.conversation.times == Times::ByAcknowledgements
            && off.any(|(_, acked)| *acked <= place);
        (!may_be).then_some(false)
    }

    /// How the sender learned of the loss of `lost`, which it retransmits; `None` if the times do not tell. `behind` is
    /// a later segment that arrived.
    fn cause_of_loss(&self, now_ns: u64, lost: &Sent, behind: Option<&Sent>) -> Option<Cause> {
        if lost.is_again {
            return Some(Cause::RetransmissionTimeout);
        }
        let Some(behind) = behind else {
            return Some(Cause::TailLoss);
        };
        // Times at the receiver may then be off by the delay of acknowledgements.
        let is_vague = self.conversation.times == Times::ByAcknowledgements;
        // Few retransmission timers are so short.
        if is_vague && now_ns.saturating_sub(lost.since_ns) < FEEDBACK_NS {
            return Some(Cause::FastRetransmit);
        }
        if behind.segment.arrived_ns >= Some(now_ns) {
            return (!is_vague).then_some(Cause::TailLoss);
        }
        let is_feedback = self.is_feedback(now_ns, lost.segment.place)?;
        Some(match is_feedback {
            true => Cause::FastRetransmit,
            false => Cause::RetransmissionTimeout,
        })
    }

    /// `lost` is retransmitted as `segment`.
    fn recover(&mut self, now_ns: u64, lost: &Sent, segment: &Segment) {
        if let Some(episode) = self.episode
            && !lost.is_again
        {
            if let Some(stall) = episode.stall {
                self.stalls[stall].to_ns = now_ns;
            }
            return;
        }
        let is_behind = |sent: &&Sent| {
            sent.segment.place >= lost.segment.end()
                && sent.segment.sent_ns >= lost.segment.sent_ns
                && sent.segment.arrived_ns.is_some()
        };
        let behind = self.out.iter().filter(is_behind);
        let behind = behind.min_by_key(|sent| sent.segment.arrived_ns).copied();
        let pdu = self.conversation.pdu_at(self.way, lost.segment.place);
        let Some(pdu) = pdu else { return };
        let mut evidence = vec![
            Shown::of(Role::Lost, &lost.segment),
            Shown::of(Role::Held, segment),
        ];
        let cause = self.cause_of_loss(now_ns, lost, behind.as_ref());
        let waited_for = behind.filter(|_| cause != Some(Cause::TailLoss));
        evidence.extend(waited_for.map(|sent| Shown::of(Role::WaitedFor, &sent.segment)));
        self.episode = Some(Episode {
            until: self.next,
            stall: cause.map(|_| self.stalls.len()),
        });
        self.window.lost();
        self.stalls.extend(cause.map(|cause| Stall {
            cause,
            session: self.conversation.session,
            task: pdu.task,
            way: self.way,
            from_ns: lost.segment.sent_ns,
            to_ns: now_ns,
            evidence,
        }));
    }
}
