//! Why a send buffer held bytes, and why it was full, derived from the sending end's TCP samples.
//!
//! While bytes are held, or the buffer is full, the programs sample TCP at once and then every millisecond, in
//! addition to the periodic samples. A sample applies until the next one; the first also applies to the time before
//! it.

use foldhash::HashMap;

use wansan_trace::event::Tcp;
use wansan_trace::file::Table;
use wansan_trace::{ConnectionId, SessionId};

use super::chain::Message;
use super::streams::Ends;
use crate::cause::Cause;
use crate::traffic::FlowDirection;

/// A sample applies to a span that begins or ends this close to it.
const REACH_NS: u64 = 2_000_000;

/// What holds the first unsent byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Cwnd,
    Rwnd,
    Nagle,
    /// No byte is unsent: everything in the buffer is in flight.
    Nothing,
    Other,
}

/// The TCP samples of a cell's sending ends, by time.
#[derive(Debug, Default)]
pub(super) struct Senders<'a> {
    found: HashMap<(SessionId, ConnectionId, FlowDirection), Vec<&'a Tcp>>,
    /// TCP's minimum RTT of each, in ns.
    round_trips_ns: HashMap<(SessionId, ConnectionId, FlowDirection), u64>,
}

impl<'a> Senders<'a> {
    /// Builds this from all samples.
    pub(super) fn of(tcp: Option<&'a Table<Tcp>>, ends: &Ends<'_>) -> Senders<'a> {
        let mut senders = Senders::default();
        if let Some(table) = tcp {
            let mut ends = ends.of_file(&table.names);
            for row in &table.rows {
                let record = &row.record;
                let way = ends.sends(record.session, row.host);
                let key = (record.session, record.connection, way);
                senders.found.entry(key).or_default().push(record);
                if record.min_rtt_ns > 0 {
                    let least_ns = senders.round_trips_ns.entry(key).or_insert(u64::MAX);
                    *least_ns = record.min_rtt_ns.min(*least_ns);
                }
            }
        }
        senders
    }

    /// The minimum RTT measured by TCP at the end that sends in that direction, in ns; 0 if unknown.
    pub(super) fn round_trip_ns(&self, message: &Message, sends: FlowDirection) -> u64 {
        let key = (message.session, message.connection, sends);
        self.round_trips_ns.get(&key).copied().unwrap_or(0)
    }

    /// Why the send buffer held `message` during a span: successive causes, each with the time at which it ends.
    /// `nagle` says whether Nagle's algorithm was enabled.
    pub(super) fn held(
        &self,
        message: &Message,
        nagle: bool,
        span_ns: (u64, u64),
    ) -> Vec<(Cause, u64)> {
        let holds = |sample: &Tcp| sample.unsent_bytes > 0;
        self.causes(message, nagle, span_ns, holds, |holder| match holder {
            Holder::Cwnd => Cause::CongestionWindow,
            Holder::Rwnd => Cause::ReceiveWindow,
            Holder::Nagle => Cause::Nagle,
            Holder::Nothing | Holder::Other => Cause::Unknown,
        })
    }

    /// Why the send buffer had no room for `message` during a span, in the same form.
    pub(super) fn no_room(
        &self,
        message: &Message,
        nagle: bool,
        span_ns: (u64, u64),
    ) -> Vec<(Cause, u64)> {
        self.causes(
            message,
            nagle,
            span_ns,
            |_| true,
            |holder| match holder {
                Holder::Nothing => Cause::SendBuffer,
                Holder::Cwnd => Cause::CongestionWindow,
                Holder::Rwnd => Cause::ReceiveWindow,
                Holder::Nagle | Holder::Other => Cause::Unknown,
            },
        )
    }

    /// The causes by the samples for which `tell` holds; the whole span is unknown if there are none.
    fn causes(
        &self,
        message: &Message,
        nagle: bool,
        (from_ns, to_ns): (u64, u64),
        tell: impl Fn(&Tcp) -> bool,
        cause: impl Fn(Holder) -> Cause,
    ) -> Vec<(Cause, u64)> {
        let steps = self.steps(message, nagle, (from_ns, to_ns), tell);
        if steps.is_empty() {
            return vec![(Cause::Unknown, to_ns)];
        }
        let mut at_ns = from_ns;
        let ends = steps.into_iter().map(|(holder, ns)| {
            at_ns += ns;
            (cause(holder), at_ns)
        });
        ends.collect()
    }

    /// The successive holders and their durations, by the samples for which `tell` holds.
    fn steps(
        &self,
        message: &Message,
        nagle: bool,
        (from_ns, to_ns): (u64, u64),
        tell: impl Fn(&Tcp) -> bool,
    ) -> Vec<(Holder, u64)> {
        let key = (message.session, message.connection, message.way);
        let Some(samples) = self.found.get(&key).filter(|_| from_ns < to_ns) else {
            return Vec::new();
        };
        let first = samples.partition_point(|sample| sample.time.ns() + REACH_NS < from_ns);
        let near = samples[first..].iter();
        let near = near.take_while(|sample| sample.time.ns() <= to_ns + REACH_NS);
        let mut steps: Vec<(u64, Holder)> = near
            .filter(|sample| tell(sample))
            .map(|sample| (sample.time.ns(), holder(sample, nagle)))
            .collect();
        // Without a sample inside the span, the newest before it applies, or else the oldest after it.
        let before = steps.partition_point(|(at_ns, _)| *at_ns <= from_ns);
        let inside = steps.partition_point(|(at_ns, _)| *at_ns <= to_ns);
        if inside > before {
            steps = steps[before..inside].to_vec();
        } else if before > 0 {
            steps = steps[before - 1..before].to_vec();
        } else {
            steps.truncate(1);
        }
        let mut last_ns = from_ns;
        let ends = steps.iter().skip(1).map(|(at_ns, _)| *at_ns).chain([to_ns]);
        let lasting = steps.iter().zip(ends).map(|((_, holder), end_ns)| {
            let ns = end_ns - std::mem::replace(&mut last_ns, end_ns);
            (*holder, ns)
        });
        lasting.collect()
    }
}

/// What holds unsent bytes at a sample. First comes the receive window (RFC 9293 §3.8.6), then Nagle's algorithm,
/// which holds less than a segment while anything is in flight (RFC 1122 §4.2.3.4), then the congestion window
/// (RFC 5681 §3.1), which also stands for the pacing of full segments.
fn holder(sample: &Tcp, nagle: bool) -> Holder {
    let mss_bytes = u64::from(sample.mss_bytes);
    let out_bytes = u64::from(sample.in_flight_packets) * mss_bytes;
    let unsent_bytes = u64::from(sample.unsent_bytes);
    let is_full = sample.in_flight_packets >= sample.cwnd_packets;
    if unsent_bytes == 0 {
        Holder::Nothing
    } else if out_bytes + unsent_bytes.min(mss_bytes) > u64::from(sample.rwnd_bytes) {
        Holder::Rwnd
    } else if nagle && unsent_bytes < mss_bytes && sample.in_flight_packets > 0 && !is_full {
        Holder::Nagle
    } else if is_full || unsent_bytes >= mss_bytes {
        Holder::Cwnd
    } else {
        Holder::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wansan_trace::Instant;

    fn sample(at_ns: u64, unsent_bytes: u32, in_flight_packets: u32) -> Tcp {
        Tcp {
            time: Instant::from_ns(at_ns),
            unsent_bytes,
            in_flight_packets,
            cwnd_packets: 10,
            mss_bytes: 1_000,
            rwnd_bytes: 12_000,
            ..Tcp::BLANK
        }
    }

    #[test]
    fn a_sample_shows_what_holds() {
        let of = |unsent, out, nagle| holder(&sample(0, unsent, out), nagle);
        assert_eq!(of(50_000, 10, false), Holder::Cwnd);
        assert_eq!(of(50_000, 12, false), Holder::Rwnd);
        // The congestion window has room: a full segment is paced, a short one is held by Nagle's algorithm or for an
        // unknown reason.
        assert_eq!(of(50_000, 9, false), Holder::Cwnd);
        assert_eq!(of(500, 1, true), Holder::Nagle);
        assert_eq!(of(500, 1, false), Holder::Other);
        assert_eq!(of(500, 0, true), Holder::Other);
        assert_eq!(of(500, 10, true), Holder::Cwnd);
    }

    #[test]
    fn a_time_is_shared_out_among_the_samples_in_it() {
        const MS: u64 = 1_000_000;
        let samples = [
            sample(100 * MS, 50_000, 10),
            sample(110 * MS, 50_000, 12),
            sample(120 * MS, 50_000, 10),
            sample(300 * MS, 50_000, 10),
        ];
        let key = (SessionId(0), ConnectionId(0), FlowDirection::ToTarget);
        let senders = Senders {
            found: HashMap::from_iter([(key, samples.iter().collect())]),
            ..Senders::default()
        };
        let message = Message::blank(FlowDirection::ToTarget);
        let of = |causes: Vec<(Cause, u64)>| -> Vec<(Cause, u64)> {
            causes
                .into_iter()
                .map(|(cause, end_ns)| (cause, end_ns / MS))
                .collect()
        };
        let held = |from, to| of(senders.held(&message, false, (from * MS, to * MS)));
        use Cause::{CongestionWindow, ReceiveWindow, Unknown};
        let expected = [
            (CongestionWindow, 110),
            (ReceiveWindow, 120),
            (CongestionWindow, 130),
        ];
        assert_eq!(held(99, 130), expected);
        assert_eq!(held(111, 115), [(ReceiveWindow, 115)]);
        assert_eq!(held(121, 140), [(CongestionWindow, 140)]);
        // Without a sample near it, the cause is unknown.
        assert_eq!(held(200, 250), [(Unknown, 250)]);
        assert_eq!(held(297, 299), [(CongestionWindow, 299)]);
        let other_way = Message::blank(FlowDirection::ToInitiator);
        assert_eq!(senders.held(&other_way, false, (0, MS)), [(Unknown, MS)]);
    }

    #[test]
    fn a_buffer_without_room_is_too_small_or_waits_for_a_window_itself() {
        const MS: u64 = 1_000_000;
        let samples = [
            sample(100 * MS, 0, 8),
            sample(110 * MS, 50_000, 12),
            sample(130 * MS, 50_000, 10),
        ];
        let key = (SessionId(0), ConnectionId(0), FlowDirection::ToTarget);
        let senders = Senders {
            found: HashMap::from_iter([(key, samples.iter().collect())]),
            ..Senders::default()
        };
        let message = Message::blank(FlowDirection::ToTarget);
        let no_room = |from, to| senders.no_room(&message, false, (from * MS, to * MS));
        let expected = [
            (Cause::SendBuffer, 110 * MS),
            (Cause::ReceiveWindow, 130 * MS),
            (Cause::CongestionWindow, 140 * MS),
        ];
        assert_eq!(no_room(99, 140), expected);
        // A sample without unsent bytes does not apply to bytes that are held.
        let held = senders.held(&message, false, (101 * MS, 105 * MS));
        assert_eq!(held, [(Cause::Unknown, 105 * MS)]);
        assert_eq!(no_room(200, 210), [(Cause::Unknown, 210 * MS)]);
    }
}
