//! A relay's backlog, from its `tcp` records, in which each flow is a session: connection 0 is the client's, connection
//! 1 the target's.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use wansan_trace::event::{Tcp, TcpEvent};
use wansan_trace::file::Table;
use wansan_trace::{ConnectionId, SessionId};

use crate::window::Window;

const CLIENT: ConnectionId = ConnectionId(0);
const TARGET: ConnectionId = ConnectionId(1);

/// The hosts that recorded as relays: only relays report unread bytes.
#[must_use]
pub fn relays(table: &Table<Tcp>) -> BTreeSet<&str> {
    let waited = table.rows.iter().filter(|row| row.record.unread_bytes > 0);
    waited.map(|row| table.names.get(row.host)).collect()
}

/// A relay's backlog in the direction that carried more bytes: data in receive queues and in the relay's memory, and
/// unsent data in send queues.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BacklogUse {
    /// All flows together, mean of the samples.
    pub mean_bytes: f64,
    /// 99th percentile of the samples.
    pub p99_bytes: u64,
    /// Maximum.
    pub max_bytes: u64,
    /// Time until a byte that arrives as a sample is taken has been sent: mean over all flows' samples. For a byte not
    /// sent by the end of the flow's records, the remainder is extrapolated at the flow's mean rate.
    pub mean_ns: f64,
    /// 99th percentile of these times.
    pub p99_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Throughput in that direction over the window.
    pub bytes_per_s: f64,
}

/// One direction of a flow at one moment.
#[derive(Debug, Clone, Copy)]
struct Sample {
    time_ns: u64,
    waiting_bytes: u64,
    /// Since the connection began, not counting retransmissions.
    sent_bytes: u64,
}

/// One direction: each flow's samples, by time.
#[derive(Default)]
struct DirectionSamples(BTreeMap<SessionId, Vec<Sample>>);

impl DirectionSamples {
    /// Adds a sample from both connections of a flow at one moment.
    fn add(&mut self, from: &Tcp, to: &Tcp) {
        let samples = self.0.entry(to.session).or_default();
        // Segments in flight may be shorter than the MSS: keeps the estimate from decreasing.
        let before = samples.last().map_or(0, |sample| sample.sent_bytes);
        let in_flight = u64::from(to.in_flight_packets) * u64::from(to.mss_bytes);
        samples.push(Sample {
            time_ns: to.time.ns(),
            waiting_bytes: u64::from(from.unread_bytes) + u64::from(to.unsent_bytes),
            sent_bytes: to.acked_bytes.saturating_add(in_flight).max(before),
        });
    }

    /// Bytes sent in the window.
    fn sent_bytes(&self, window: Window) -> u64 {
        let of_flow = |samples: &Vec<Sample>| {
            let mut inside = samples.iter().filter(|one| window.contains(one.time_ns));
            let first = inside.next()?;
            Some(inside.next_back()?.sent_bytes - first.sent_bytes)
        };
        self.0.values().filter_map(of_flow).sum()
    }

    /// The backlog of all flows together at each sample time in the window. A flow that has ended counts as empty.
    fn sums(&self, window: Window) -> Vec<u64> {
        let mut moments: BTreeMap<u64, Vec<(SessionId, u64, bool)>> = BTreeMap::new();
        for (flow, samples) in &self.0 {
            for (place, sample) in samples.iter().enumerate() {
                let is_last = place + 1 == samples.len();
                let moment = moments.entry(sample.time_ns).or_default();
                moment.push((*flow, sample.waiting_bytes, is_last));
            }
        }
        let mut waits: BTreeMap<SessionId, u64> = BTreeMap::new();
        let mut sums = Vec::new();
        for (time_ns, moment) in moments {
            waits.extend(moment.iter().map(|(flow, bytes, _)| (*flow, *bytes)));
            if window.contains(time_ns) {
                sums.push(waits.values().sum());
            }
            for (flow, ..) in moment.iter().filter(|(.., is_last)| *is_last) {
                waits.remove(flow);
            }
        }
        sums
    }

    /// How long a byte waits that arrives as a sample is taken, for all samples in the window.
    fn waits_ns(&self, window: Window) -> Vec<u64> {
        let of_flow = |samples| waits_ns(samples, window);
        self.0
            .values()
            .map(Vec::as_slice)
            .flat_map(of_flow)
            .collect()
    }
}

/// How long a byte waits that arrives as a sample of a flow is taken: until the bytes sent reach those sent and waiting
/// at that time. Sent bytes are interpolated linearly between samples.
fn waits_ns(samples: &[Sample], window: Window) -> Vec<u64> {
    let [first, .., last] = samples else {
        return Vec::new();
    };
    let rate =
        (last.sent_bytes - first.sent_bytes) as f64 / (last.time_ns - first.time_ns).max(1) as f64;
    let mut waits = Vec::new();
    for (place, sample) in samples.iter().enumerate() {
        if !window.contains(sample.time_ns) {
            continue;
        }
        let goal = sample.sent_bytes.saturating_add(sample.waiting_bytes);
        let later = &samples[place..];
        let (since, missing, rate) = match later.partition_point(|one| one.sent_bytes < goal) {
            0 => (sample.time_ns, 0, rate),
            next if next < later.len() => {
                let (before, after) = (later[next - 1], later[next]);
                let passed = (after.time_ns - before.time_ns).max(1);
                let grown = (after.sent_bytes - before.sent_bytes) as f64;
                let missing = goal - before.sent_bytes;
                (before.time_ns, missing, grown / passed as f64)
            }
            _ => (last.time_ns, goal - last.sent_bytes, rate),
        };
        // If nothing was ever sent, it waited at least until the end.
        let rest = match rate > 0.0 {
            true => missing as f64 / rate,
            false => 0.0,
        };
        waits.push(since - sample.time_ns + rest.round() as u64);
    }
    waits
}

/// The backlog of the relay that recorded as `host`; `None` when it recorded nothing in the window.
#[must_use]
pub fn backlog_use(table: &Table<Tcp>, host: &str, window: Window) -> Option<BacklogUse> {
    of_records(samples(table, host), window)
}

/// How often the relay that recorded as `host` began to signal ECE in the window, to either side.
#[must_use]
pub fn ece_signals(table: &Table<Tcp>, host: &str, window: Window) -> u64 {
    let mut sides: BTreeMap<(SessionId, ConnectionId), [u32; 2]> = BTreeMap::new();
    for tcp in samples(table, host) {
        if window.contains(tcp.time.ns()) {
            let known = sides.entry((tcp.session, tcp.connection));
            known.or_insert([tcp.ece_signals; 2])[1] = tcp.ece_signals;
        }
    }
    let counts = sides
        .values()
        .map(|[first, last]| u64::from(last.saturating_sub(*first)));
    counts.sum()
}

fn samples<'a>(table: &'a Table<Tcp>, host: &str) -> impl Iterator<Item = &'a Tcp> {
    let rows = table.rows.iter();
    let of_host = rows.filter(move |row| table.names.get(row.host) == host);
    let records = of_host.map(|row| &row.record);
    records.filter(|tcp| tcp.event == TcpEvent::Sample)
}

/// The backlog of the relay that made these records.
fn of_records<'a>(records: impl Iterator<Item = &'a Tcp>, window: Window) -> Option<BacklogUse> {
    let (mut onward, mut back) = (DirectionSamples::default(), DirectionSamples::default());
    let mut clients: BTreeMap<SessionId, &Tcp> = BTreeMap::new();
    for tcp in records {
        match tcp.connection {
            CLIENT => {
                clients.insert(tcp.session, tcp);
            }
            // Both sides are sampled at the same moment, this one last.
            TARGET => {
                if let Some(client) = clients.get(&tcp.session) {
                    onward.add(client, tcp);
                    back.add(tcp, client);
                }
            }
            _ => {}
        }
    }
    let [sent, sent_back] = [&onward, &back].map(|way| way.sent_bytes(window));
    let way = if sent >= sent_back { onward } else { back };
    let (mut sums, mut waits) = (way.sums(window), way.waits_ns(window));
    sums.sort_unstable();
    waits.sort_unstable();
    Some(BacklogUse {
        mean_bytes: mean(&sums)?,
        p99_bytes: p99(&sums)?,
        max_bytes: *sums.last()?,
        mean_ns: mean(&waits)?,
        p99_ns: p99(&waits)?,
        max_ns: *waits.last()?,
        bytes_per_s: sent.max(sent_back) as f64 / window.seconds().max(1e-9),
    })
}

fn mean(numbers: &[u64]) -> Option<f64> {
    let sum: f64 = numbers.iter().map(|number| *number as f64).sum();
    (!numbers.is_empty()).then(|| sum / numbers.len() as f64)
}

/// The 99th percentile of sorted numbers.
fn p99(sorted: &[u64]) -> Option<u64> {
    sorted
        .get((sorted.len() * 99).div_ceil(100).checked_sub(1)?)
        .copied()
}

#[cfg(test)]
mod tests {
    use wansan_trace::Instant;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn side(flow: u64, connection: ConnectionId, second: u64) -> Tcp {
        Tcp {
            time: Instant::from_ns(second * SECOND_NS),
            session: SessionId(flow),
            connection,
            mss_bytes: 100,
            ..Tcp::BLANK
        }
    }

    /// A flow's records at one second: `held` bytes wait in each of the two queues towards the target, and `sent` have
    /// been sent.
    fn onward(flow: u64, second: u64, held: u32, sent: u64) -> [Tcp; 2] {
        let client = Tcp {
            unread_bytes: held,
            // Belongs to the other direction.
            unsent_bytes: 77,
            ..side(flow, CLIENT, second)
        };
        let target = Tcp {
            unread_bytes: 99,
            unsent_bytes: held,
            acked_bytes: sent.saturating_sub(200),
            in_flight_packets: 2,
            ..side(flow, TARGET, second)
        };
        [client, target]
    }

    fn seconds(from: u64, to: u64) -> Window {
        Window {
            from_ns: from * SECOND_NS,
            to_ns: to * SECOND_NS + 1,
        }
    }

    #[test]
    fn the_backlog_is_that_of_the_busier_direction() {
        // Two flows of 1000 B/s each, with 10 and 20 s of data in their two queues.
        let of_flows = |second| {
            [1, 2].map(|flow| onward(flow, second, flow as u32 * 5000, 1000 + second * 1000))
        };
        let records: Vec<Tcp> = (0..=3).flat_map(of_flows).flatten().collect();
        let found = of_records(records.iter(), seconds(1, 3)).unwrap();
        assert_eq!(found.max_bytes, 30_000);
        assert_eq!(found.p99_bytes, 30_000);
        assert!((found.bytes_per_s - 2000.0).abs() < 1.0, "{found:?}");
        // The bytes are still waiting when the records end.
        assert_eq!(found.max_ns, 20 * SECOND_NS);
        assert!((found.mean_ns - 15e9).abs() < 1.0, "{found:?}");
        assert_eq!(of_records(records.iter(), seconds(7, 9)), None);
    }

    #[test]
    fn a_wait_is_as_long_as_it_took_then() {
        // 4000 bytes wait throughout; they drain at 4000 B/s, then at 1000 B/s for eight seconds.
        let sent = |second: u64| 1000 + 4000 * second.min(4) + 1000 * second.saturating_sub(4);
        let flow = |second| onward(1, second, 2000, sent(second));
        let records: Vec<Tcp> = (0..=12).flat_map(flow).collect();
        let waits = |from, to| of_records(records.iter(), seconds(from, to)).unwrap();
        let (fast, slow) = (waits(0, 3), waits(4, 8));
        assert_eq!(fast.max_ns, SECOND_NS);
        assert_eq!((slow.p99_ns, slow.max_ns), (4 * SECOND_NS, 4 * SECOND_NS));
        assert!((slow.mean_ns - 4e9).abs() < 1.0, "{slow:?}");
        // At the mean rate of all records every wait would appear to be 2 s.
        assert!((waits(0, 8).mean_ns - (4.0 * 1e9 + 5.0 * 4e9) / 9.0).abs() < 1.0);
    }

    #[test]
    fn a_flow_that_has_ended_holds_nothing() {
        let lasting = (0..=6).flat_map(|second| onward(1, second, 500, 1000 + second * 1000));
        let short = (0..=2).flat_map(|second| onward(2, second, 5000, 1000 + second * 1000));
        let mut records: Vec<Tcp> = lasting.chain(short).collect();
        records.sort_by_key(|record| record.time);
        let found = of_records(records.iter(), seconds(3, 6)).unwrap();
        assert_eq!((found.max_bytes, found.max_ns), (1000, SECOND_NS));
        let before = of_records(records.iter(), seconds(0, 2)).unwrap();
        assert_eq!(before.max_bytes, 11_000);
    }
}
