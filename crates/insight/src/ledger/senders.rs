//! What stopped the senders of connections, from TCP_INFO samples or, without any, from packets.

use foldhash::HashMap;

use wansan_trace::event::Tcp;
use wansan_trace::file::Table;
use wansan_trace::{ConnectionId, NameId, SessionId};

use super::round_trips::RoundTrips;
use super::timeline::Timeline;
use super::{Source, clocked};
use crate::below::Ends;
use crate::cause::Cause;
use crate::cell::Cell;
use crate::join::Task;
use crate::stall::Conversation;
use crate::traffic::FlowDirection;
use crate::window::Window;

/// TCP counts the time for which it was limited in ticks of up to 10 ms, so its counters are compared over at least
/// this interval.
const COUNTED_NS: u64 = 20_000_000;

/// A send buffer that limits the sender is full again within this time or a round trip, whichever is longer: samples in
/// between may miss it.
const FULL_LATELY_NS: u64 = 100_000_000;

/// The sending end of one direction of a session's connection.
pub(super) type SenderKey = (SessionId, ConnectionId, FlowDirection);

/// An interval with one cause.
pub(super) type Step = (u64, u64, Cause);

/// What is known about one sending end.
#[derive(Debug)]
pub(super) struct Sender {
    source: Source,
    /// The intervals in which something stopped it, in order of time.
    steps: Vec<Step>,
    /// Mean time between samples.
    interval_ns: u64,
    /// Bytes that its peer acknowledged in the window.
    acked_bytes: u64,
    /// The intervals in which packets show a long queue in front of a full link, in order of time.
    long_queues: Vec<Step>,
}

/// All sending ends of a cell.
#[derive(Debug, Default)]
pub(super) struct Senders {
    found: HashMap<SenderKey, Sender>,
}

impl Senders {
    pub(super) fn of(
        cell: &Cell,
        window: Window,
        conversations: &[Conversation],
        round_trips: &RoundTrips,
    ) -> Senders {
        let by_packets = || Senders::by_packets(conversations, round_trips, window);
        let Some(tcp) = &cell.tcp else {
            return by_packets();
        };
        let sampled = Senders::sampled(cell, tcp, window);
        // A capture may include TCP_INFO samples of one end; that kernel knows better than packets show.
        let is_captured = cell.connection.is_none();
        let mut senders = match is_captured {
            true => by_packets(),
            false => Senders::default(),
        };
        for (key, mut sampled) in sampled.found {
            if let Some(by_packets) = senders.found.get(&key) {
                sampled.see_links(by_packets);
            }
            senders.found.insert(key, sampled);
        }
        senders
    }

    fn by_packets(
        conversations: &[Conversation],
        round_trips: &RoundTrips,
        window: Window,
    ) -> Senders {
        let each = conversations.iter().flat_map(|conversation| {
            let [there_ns, back_ns] = round_trips.transits_ns(conversation);
            let round_trip_ns = there_ns + back_ns;
            let senders = clocked::senders(conversation, round_trip_ns, window);
            senders.map(|(way, sender)| {
                let key = (conversation.session, conversation.connection, way);
                (key, sender)
            })
        });
        Senders {
            found: each.collect(),
        }
    }

    fn sampled(cell: &Cell, tcp: &Table<Tcp>, window: Window) -> Senders {
        let mut samples: HashMap<(SessionId, ConnectionId, NameId), Vec<&Tcp>> = HashMap::default();
        for row in &tcp.rows {
            let key = (row.record.session, row.record.connection, row.host);
            samples.entry(key).or_default().push(&row.record);
        }
        let ways = ways(cell, tcp, &samples);
        let mut senders = Senders::default();
        for ((session, connection, host), samples) in samples {
            if let Some(way) = ways.get(&(session, host)) {
                let sender = Sender::of(&samples, window);
                senders.found.insert((session, connection, *way), sender);
            }
        }
        senders
    }

    /// Bytes acknowledged in the window in this direction.
    pub(super) fn acked_bytes(&self, key: &SenderKey) -> u64 {
        self.found.get(key).map_or(0, |sender| sender.acked_bytes)
    }

    /// Whether at least as many bytes were acknowledged in this direction as in the other, and any at all.
    pub(super) fn sends_most(&self, key: &SenderKey) -> bool {
        let (session, connection, way) = *key;
        let other = match way {
            FlowDirection::ToTarget => FlowDirection::ToInitiator,
            FlowDirection::ToInitiator => FlowDirection::ToTarget,
        };
        let bytes = self.acked_bytes(key);
        bytes > 0 && bytes >= self.acked_bytes(&(session, connection, other))
    }

    /// All sending ends.
    pub(super) fn keys(&self) -> impl Iterator<Item = &SenderKey> {
        self.found.keys()
    }

    /// What stopped the initiator of a session with one connection, as its kernel knows, in order of time.
    pub(super) fn initiator_steps(&self, session: SessionId) -> &[Step] {
        let found = self.found.iter();
        let mut own =
            found.filter(|((of, _, way), _)| *of == session && *way == FlowDirection::ToTarget);
        match (own.next(), own.next()) {
            // Packets alone do not show whether a sender had anything to send.
            (Some((_, sender)), None) if sender.source == Source::TcpInfo => &sender.steps,
            _ => &[],
        }
    }

    /// Attributes an I/O's unknown waits to what stopped the senders.
    pub(super) fn explain(&self, task: &Task, timeline: &mut Timeline) {
        for way in [FlowDirection::ToTarget, FlowDirection::ToInitiator] {
            let sender = self.found.get(&(task.session, task.connection, way));
            if let Some(sender) = sender.filter(|sender| !sender.steps.is_empty()) {
                timeline.explain(
                    way,
                    |from_ns, to_ns| sender.causes(from_ns, to_ns),
                    sender.interval_ns,
                    sender.source,
                );
            }
        }
    }
}

/// The direction in which each host sends in each session, from PDUs. Without PDUs, the end with more acknowledged
/// bytes is the target, as most workloads read.
fn ways(
    cell: &Cell,
    tcp: &Table<Tcp>,
    samples: &HashMap<(SessionId, ConnectionId, NameId), Vec<&Tcp>>,
) -> HashMap<(SessionId, NameId), FlowDirection> {
    let mut acked: HashMap<(SessionId, NameId), u64> = HashMap::default();
    for ((session, _, host), samples) in samples {
        let most = samples.iter().map(|sample| sample.acked_bytes).max();
        *acked.entry((*session, *host)).or_default() += most.unwrap_or(0);
    }
    let ends = cell.pdu.as_deref().map(Ends::of);
    let mut of_file = ends.as_ref().map(|ends| ends.of_file(&tcp.names));
    let way = |&(session, host): &(SessionId, NameId)| match &mut of_file {
        Some(ends) => ends.sends(session, host),
        None => {
            let own = acked[&(session, host)];
            let others = acked
                .iter()
                .filter(|((of, other), _)| *of == session && *other != host);
            match others
                .map(|(_, bytes)| *bytes)
                .max()
                .is_some_and(|most| most > own)
            {
                true => FlowDirection::ToTarget,
                false => FlowDirection::ToInitiator,
            }
        }
    };
    let keys: Vec<(SessionId, NameId)> = acked.keys().copied().collect();
    let ways: Vec<FlowDirection> = keys.iter().map(way).collect();
    keys.into_iter().zip(ways).collect()
}

impl Sender {
    /// A sender known from packets.
    pub(super) fn by_packets(steps: Vec<Step>, long_queues: Vec<Step>, acked_bytes: u64) -> Sender {
        Sender {
            source: Source::Packets,
            steps,
            interval_ns: 0,
            acked_bytes,
            long_queues,
        }
    }

    fn of(samples: &[&Tcp], window: Window) -> Sender {
        let mut sender = Sender {
            source: Source::TcpInfo,
            steps: Vec::new(),
            interval_ns: 0,
            acked_bytes: 0,
            long_queues: Vec::new(),
        };
        let mut widest_bytes = 0;
        // The newest sample at least `COUNTED_NS` before `after`, or the first.
        let mut base = 0;
        // When the send buffer was last full.
        let mut full_ns = None;
        for (place, pair) in samples.windows(2).enumerate() {
            let (before, after) = (pair[0], pair[1]);
            widest_bytes = widest_bytes.max(before.rwnd_bytes);
            let (from_ns, to_ns) = (before.time.ns(), after.time.ns());
            // A damaged file may have samples in any order.
            if from_ns >= to_ns {
                continue;
            }
            while base < place && samples[base + 1].time.ns() + COUNTED_NS <= to_ns {
                base += 1;
            }
            if is_full(after) {
                full_ns = Some(to_ns);
            }
            let lately_ns = FULL_LATELY_NS.max(after.srtt_ns);
            let was_full =
                full_ns.is_some_and(|full_ns| to_ns.saturating_sub(full_ns) <= lately_ns);
            let mut start_ns = from_ns;
            for (cause, share) in stops(samples[base], after, widest_bytes, was_full) {
                let length_ns = ((to_ns - from_ns) as f64 * share).round() as u64;
                let end_ns = start_ns.saturating_add(length_ns).min(to_ns);
                match sender.steps.last_mut() {
                    Some(last) if last.1 == start_ns && last.2 == cause => last.1 = end_ns,
                    _ if start_ns < end_ns => sender.steps.push((start_ns, end_ns, cause)),
                    _ => {}
                }
                start_ns = end_ns;
            }
        }
        if let (Some(first), Some(last)) = (samples.first(), samples.last()) {
            let span_ns = last.time.ns().saturating_sub(first.time.ns());
            sender.interval_ns = span_ns / (samples.len() as u64 - 1).max(1);
        }
        let inside = samples
            .iter()
            .filter(|sample| window.contains(sample.time.ns()));
        let acked = inside.map(|sample| sample.acked_bytes);
        let (least, most) = acked.fold((u64::MAX, 0), |(least, most), bytes| {
            (bytes.min(least), bytes.max(most))
        });
        sender.acked_bytes = most.saturating_sub(least);
        sender
    }

    /// Where packets show a full link, which no sender knows of, a congestion-limited sender waits for that link. So does
    /// one with a full send buffer, if the queue is long: more in flight would only lengthen it.
    fn see_links(&mut self, by_packets: &Sender) {
        let mut seen: Vec<Step> = Vec::with_capacity(self.steps.len());
        for (from_ns, to_ns, cause) in std::mem::take(&mut self.steps) {
            let mut at_ns = from_ns;
            let steps = match cause {
                Cause::CongestionWindow => &by_packets.steps[..],
                Cause::SendBuffer => &by_packets.long_queues,
                _ => &[],
            };
            let steps = within(steps, from_ns, to_ns);
            for full in steps.filter(|(_, _, cause)| *cause == Cause::PathQueue) {
                seen.extend((at_ns < full.0).then_some((at_ns, full.0, cause)));
                seen.push(full);
                at_ns = full.1;
            }
            seen.extend((at_ns < to_ns).then_some((at_ns, to_ns, cause)));
        }
        self.steps = seen;
    }

    /// The causes within an interval, in order of time; gaps between them are unknown.
    pub(super) fn causes(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = Step> + '_ {
        within(&self.steps, from_ns, to_ns)
    }
}

/// The parts of steps that lie in an interval.
fn within(steps: &[Step], from_ns: u64, to_ns: u64) -> impl Iterator<Item = Step> + '_ {
    let first = steps.partition_point(|step| step.1 <= from_ns);
    let steps = steps[first..].iter();
    steps
        .take_while(move |step| step.0 < to_ns)
        .map(move |&(start_ns, end_ns, cause)| (start_ns.max(from_ns), end_ns.min(to_ns), cause))
}

/// Whether the send buffer is at least 90 % full: the program has written until there was no room, or soon will have.
fn is_full(sample: &Tcp) -> bool {
    u64::from(sample.send_memory_bytes) * 10 >= u64::from(sample.send_buffer_bytes) * 9
}

/// Whether all the data of a full send buffer is in flight, so that the program must wait for an acknowledgement before
/// it can write more: Linux wakes it when a third is free (`sk_stream_is_writeable`).
fn is_all_of_a_full_buffer_sent(sample: &Tcp) -> bool {
    let is_unwritable =
        u64::from(sample.send_memory_bytes) * 3 >= u64::from(sample.send_buffer_bytes) * 2;
    is_unwritable
        && sample.send_buffer_bytes > 0
        && sample.in_flight_packets > 0
        && sample.unsent_bytes <= sample.mss_bytes
}

/// How long pacing takes to send all unsent data, in ns, if both windows have room for it.
fn paced_ns(sample: &Tcp) -> Option<f64> {
    let in_flight = u64::from(sample.in_flight_packets);
    let mss_bytes = u64::from(sample.mss_bytes);
    let of_own = u64::from(sample.cwnd_packets).saturating_sub(in_flight) * mss_bytes;
    let of_peer = u64::from(sample.rwnd_bytes).saturating_sub(in_flight * mss_bytes);
    let unsent_bytes = u64::from(sample.unsent_bytes);
    let rate = sample.pacing_rate_bytes_per_s().filter(|rate| *rate > 0);
    let rate = rate.filter(|_| unsent_bytes <= of_own.min(of_peer))?;
    Some(unsent_bytes as f64 * 1e9 / rate as f64)
}

/// What stopped a sender between two samples, with each cause's share of the time. TCP's counters give the receive
/// window and the send buffer. In the remaining time, unsent data behind segments in flight waits for the fuller of the
/// peer's window and the congestion window. With nothing in flight, no window is full: the data waits for a device or a
/// timer. If both windows have room for all of it, only pacing limits it, and it waits no longer than that takes:
/// samples come right after a program has written.
///
/// A receive window of less than half its earlier maximum shows a receiver that does not read what arrived.
///
/// A program waits for buffer space only after it has found none: `was_full` tells whether the send buffer was full
/// recently.
fn stops(
    before: &Tcp,
    after: &Tcp,
    widest_bytes: u32,
    was_full: bool,
) -> impl Iterator<Item = (Cause, f64)> {
    let passed_ns = after.time.ns().saturating_sub(before.time.ns()).max(1) as f64;
    let share = |counter: fn(&Tcp) -> u64| {
        counter(after).saturating_sub(counter(before)) as f64 / passed_ns
    };
    let receiver = match after.rwnd_bytes < widest_bytes / 2 {
        true => Cause::ReceiveBuffer,
        false => Cause::ReceiveWindow,
    };
    let by_receiver = share(|sample| sample.rwnd_limited_ns).min(1.0);
    let by_buffer = share(|sample| sample.sndbuf_limited_ns).min(1.0 - by_receiver);
    let rest = if was_full && is_all_of_a_full_buffer_sent(after) {
        Some((Cause::SendBuffer, 1.0))
    } else if after.unsent_bytes > after.mss_bytes && after.in_flight_packets > 0 {
        let in_flight_bytes = f64::from(after.in_flight_packets) * f64::from(after.mss_bytes);
        let of_peer = in_flight_bytes / f64::from(after.rwnd_bytes.max(1));
        let of_own = f64::from(after.in_flight_packets) / f64::from(after.cwnd_packets.max(1));
        let fuller = match of_peer > of_own {
            true => receiver,
            false => Cause::CongestionWindow,
        };
        let most = paced_ns(after).map_or(1.0, |paced_ns| paced_ns / passed_ns);
        Some((fuller, most))
    } else {
        None
    };
    let counted = [(receiver, by_receiver), (Cause::SendBuffer, by_buffer)];
    let rest = rest.map(|(cause, most)| (cause, f64::min(1.0 - by_receiver - by_buffer, most)));
    counted
        .into_iter()
        .chain(rest)
        .filter(|(_, share)| *share > 0.0)
}

#[cfg(test)]
mod tests {
    use wansan_trace::Instant;

    use super::*;

    /// Two samples 20 ms apart, of a sender with more data than it may send.
    fn samples(rwnd_limited_ns: u64, in_flight_packets: u32) -> [Tcp; 2] {
        let before = Tcp {
            time: Instant::from_ns(0),
            mss_bytes: 1000,
            cwnd_packets: 100,
            rwnd_bytes: 50_000,
            in_flight_packets,
            unsent_bytes: 90_000,
            send_buffer_bytes: 200_000,
            send_memory_bytes: 190_000,
            ..Tcp::BLANK
        };
        let after = Tcp {
            time: Instant::from_ns(20_000_000),
            rwnd_limited_ns,
            ..before
        };
        [before, after]
    }

    fn stopped(samples: [Tcp; 2], was_full: bool) -> Vec<(Cause, f64)> {
        let [before, after] = samples;
        stops(&before, &after, 50_000, was_full).collect()
    }

    #[test]
    fn counters_have_their_share_and_the_fuller_window_the_rest() {
        use Cause::{CongestionWindow, ReceiveWindow};
        let of_peer = stopped(samples(5_000_000, 49), true);
        assert_eq!(of_peer, [(ReceiveWindow, 0.25), (ReceiveWindow, 0.75)]);
        let wide = |it: Tcp| Tcp {
            rwnd_bytes: 500_000,
            ..it
        };
        let of_own = stopped(samples(5_000_000, 99).map(wide), true);
        assert_eq!(of_own, [(ReceiveWindow, 0.25), (CongestionWindow, 0.75)]);
    }

    #[test]
    fn what_both_windows_have_room_for_waits_as_long_as_it_is_paced() {
        use Cause::CongestionWindow;
        let paced = |pacing_bytes_per_s| {
            samples(0, 200).map(|it| Tcp {
                cwnd_packets: 300,
                rwnd_bytes: 500_000,
                pacing_bytes_per_s,
                ..it
            })
        };
        // 90 kB, in 4 ms of 20 ms, and in 40 ms.
        assert_eq!(stopped(paced(22_500_000), false), [(CongestionWindow, 0.2)]);
        assert_eq!(stopped(paced(2_250_000), false), [(CongestionWindow, 1.0)]);
        let narrow = paced(22_500_000).map(|it| Tcp {
            cwnd_packets: 280,
            ..it
        });
        assert_eq!(stopped(narrow, false), [(CongestionWindow, 1.0)]);
    }

    #[test]
    fn what_a_full_buffer_has_sent_waits_for_room_however_fast_it_was_paced() {
        let sent = samples(0, 200).map(|it| Tcp {
            cwnd_packets: 300,
            rwnd_bytes: 500_000,
            pacing_bytes_per_s: 22_500_000,
            unsent_bytes: it.mss_bytes,
            send_memory_bytes: 120_000,
            send_buffer_bytes: 128_000,
            ..it
        });
        assert_eq!(stopped(sent, true), [(Cause::SendBuffer, 1.0)]);
    }

    #[test]
    fn a_congestion_window_waits_for_a_full_link_and_a_send_buffer_for_a_long_queue() {
        use Cause::{CongestionWindow, PathQueue, SendBuffer};
        let mut sampled = Sender::by_packets(
            vec![
                (0, 50, CongestionWindow),
                (50, 90, SendBuffer),
                (90, 120, CongestionWindow),
            ],
            Vec::new(),
            0,
        );
        let packets = Sender::by_packets(
            vec![
                (10, 20, PathQueue),
                (20, 40, CongestionWindow),
                (40, 100, PathQueue),
            ],
            vec![(40, 70, PathQueue)],
            0,
        );
        sampled.see_links(&packets);
        let seen = [
            (0, 10, CongestionWindow),
            (10, 20, PathQueue),
            (20, 40, CongestionWindow),
            (40, 50, PathQueue),
            (50, 70, PathQueue),
            (70, 90, SendBuffer),
            (90, 100, PathQueue),
            (100, 120, CongestionWindow),
        ];
        assert_eq!(sampled.steps, seen);
    }

    #[test]
    fn a_program_waits_for_room_only_after_it_found_none() {
        let all_sent = |it: Tcp| Tcp {
            unsent_bytes: 0,
            send_memory_bytes: 150_000,
            ..it
        };
        let waits = samples(0, 20).map(all_sent);
        assert_eq!(stopped(waits, true), [(Cause::SendBuffer, 1.0)]);
        assert_eq!(stopped(waits, false), []);
    }
}
