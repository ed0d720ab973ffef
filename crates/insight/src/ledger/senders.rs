//! What stopped the sending ends of connections, by samples of TCP_INFO.

use foldhash::HashMap;

use wansan_trace::event::Tcp;
use wansan_trace::file::Table;
use wansan_trace::{ConnectionId, NameId, SessionId};

use super::timeline::Timeline;
use crate::below::Ends;
use crate::cause::Cause;
use crate::cell::Cell;
use crate::join::Task;
use crate::traffic::FlowDirection;
use crate::window::Window;

/// TCP counts the time for which it was stopped in ticks of up to 10 ms: its counters are compared over so
/// long at least.
const COUNTED_NS: u64 = 20_000_000;

/// The sending end of one direction of a session's connection.
pub(super) type SenderKey = (SessionId, ConnectionId, FlowDirection);

/// A stretch of time with one cause.
type Step = (u64, u64, Cause);

/// What is known of one sending end.
#[derive(Debug, Default)]
struct Sender {
    /// When something stopped it, by time.
    steps: Vec<Step>,
    /// Mean time between samples.
    interval_ns: u64,
    /// Bytes that its peer acknowledged in the window.
    acked_bytes: u64,
}

/// All sending ends of a cell.
#[derive(Debug, Default)]
pub(super) struct Senders {
    found: HashMap<SenderKey, Sender>,
}

impl Senders {
    pub(super) fn of(cell: &Cell, window: Window) -> Senders {
        let Some(tcp) = &cell.tcp else {
            return Senders::default();
        };
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

    /// Bytes that were acknowledged in the window of what went that way.
    pub(super) fn acked_bytes(&self, key: &SenderKey) -> u64 {
        self.found.get(key).map_or(0, |sender| sender.acked_bytes)
    }

    /// Whether more was acknowledged of what goes that way than of what goes the other.
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

    /// Says what stopped the senders in an I/O's waits that are unknown.
    pub(super) fn explain(&self, task: &Task, timeline: &mut Timeline) {
        for way in [FlowDirection::ToTarget, FlowDirection::ToInitiator] {
            let sender = self.found.get(&(task.session, task.connection, way));
            if let Some(sender) = sender.filter(|sender| !sender.steps.is_empty()) {
                timeline.explain(
                    way,
                    |from_ns, to_ns| sender.causes(from_ns, to_ns),
                    sender.interval_ns,
                );
            }
        }
    }
}

/// Which way each host sends in each session: by the PDUs; without any, the end of which more bytes were
/// acknowledged is the target, as most loads read.
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
    let ends = cell.pdu.as_ref().map(Ends::of);
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
    fn of(samples: &[&Tcp], window: Window) -> Sender {
        let mut sender = Sender::default();
        let mut widest_bytes = 0;
        // The newest sample from which on TCP's counters say enough.
        let mut base = 0;
        for (place, pair) in samples.windows(2).enumerate() {
            let (before, after) = (pair[0], pair[1]);
            widest_bytes = widest_bytes.max(before.rwnd_bytes);
            let (from_ns, to_ns) = (before.time.ns(), after.time.ns());
            // A damaged file may have them in any order.
            if from_ns >= to_ns {
                continue;
            }
            while base < place && samples[base + 1].time.ns() + COUNTED_NS <= to_ns {
                base += 1;
            }
            let Some(cause) = stopped_by(samples[base], after, widest_bytes) else {
                continue;
            };
            match sender.steps.last_mut() {
                Some(last) if last.1 == from_ns && last.2 == cause => last.1 = to_ns,
                _ => sender.steps.push((from_ns, to_ns, cause)),
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

    /// The causes in a stretch of time, by time; what lies between them is unknown.
    fn causes(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = Step> + '_ {
        let first = self.steps.partition_point(|step| step.1 <= from_ns);
        let steps = self.steps[first..]
            .iter()
            .take_while(move |step| step.0 < to_ns);
        steps.map(move |&(start_ns, end_ns, cause)| {
            (start_ns.max(from_ns), end_ns.min(to_ns), cause)
        })
    }
}

/// Whether all that the send buffer has room for is on its way, so that the program waits for an
/// acknowledgement before it can add to it: Linux wakes it when a third is free (`sk_stream_is_writeable`).
fn is_all_of_a_full_buffer_sent(sample: &Tcp) -> bool {
    let is_full =
        u64::from(sample.send_memory_bytes) * 3 >= u64::from(sample.send_buffer_bytes) * 2;
    is_full
        && sample.send_buffer_bytes > 0
        && sample.in_flight_packets > 0
        && sample.unsent_bytes <= sample.mss_bytes
}

/// What stopped a sender for most of the time between two samples. Its own counters say it of the receive
/// window and of the send buffer; with neither in the way, what waits unsent behind segments in flight
/// waits for congestion control. With nothing in flight no window is full: it waits for a device or a timer
/// then.
///
/// A window that is narrower by half than it was before shows a receiver that does not read what came.
fn stopped_by(before: &Tcp, after: &Tcp, widest_bytes: u32) -> Option<Cause> {
    let passed_ns = after.time.ns().saturating_sub(before.time.ns());
    let most_of = |counter: fn(&Tcp) -> u64| {
        counter(after).saturating_sub(counter(before)) * 2 >= passed_ns.max(1)
    };
    if most_of(|sample| sample.rwnd_limited_ns) {
        let is_narrow = after.rwnd_bytes < widest_bytes / 2;
        Some(if is_narrow {
            Cause::ReceiveBuffer
        } else {
            Cause::ReceiveWindow
        })
    } else if most_of(|sample| sample.sndbuf_limited_ns) || is_all_of_a_full_buffer_sent(after) {
        Some(Cause::SendBuffer)
    } else if after.unsent_bytes > after.mss_bytes && after.in_flight_packets > 0 {
        Some(Cause::CongestionWindow)
    } else {
        None
    }
}
