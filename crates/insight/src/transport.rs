//! The behaviour of the kernel's TCP in the measured window, for each end of each connection.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wansan_trace::event::{Tcp, TcpEvent};
use wansan_trace::file::Table;
use wansan_trace::{ConnectionId, NameId, SessionId};

use crate::congestion::{Cut, cuts};
use crate::window::Window;

/// How one end of one connection performed as a sender.
///
/// Shares are of the time between the first and the last sample in the window unless stated otherwise, 0 to 1. Means
/// are over samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransportUse {
    /// The host that sends and took the samples.
    pub host: String,
    /// The session, as ISID/TSIH.
    pub session: String,
    /// The connection's CID.
    pub connection: u16,
    /// Samples in the window.
    pub samples: u64,
    /// Bytes that the other end acknowledged.
    pub acked_bytes: u64,
    /// Time with data to send.
    pub busy_share: f64,
    /// Time limited by the other end's receive window.
    pub rwnd_limited_share: f64,
    /// Time limited by its own full send buffer.
    pub sndbuf_limited_share: f64,
    /// The share of the intervals between samples in which data waited to be sent although neither a window nor a
    /// buffer of an end limited it: congestion control held it back.
    pub congestion_limited_share: f64,
    /// Mean congestion window, in segments.
    pub cwnd_packets: f64,
    /// Mean number of segments in flight (sent, not acknowledged).
    pub in_flight_packets: f64,
    /// Mean number of unsent bytes in the send buffer.
    pub unsent_bytes: f64,
    /// Minimum receive window that the other end advertised, in bytes.
    pub rwnd_min_bytes: u32,
    /// Mean smoothed round-trip time.
    pub srtt_ns: f64,
    /// Minimum round-trip time of the connection so far.
    pub min_rtt_ns: u64,
    /// Mean delivery rate, bytes per second.
    pub delivery_bytes_per_s: f64,
    /// Standard deviation of the delivery rate over its mean.
    pub delivery_variation: f64,
    /// Segments retransmitted.
    pub retransmits: u32,
    /// Reductions of the congestion window without a loss.
    pub cwr_events: u64,
    /// Fast recoveries.
    pub recovery_events: u64,
    /// Retransmission timeouts.
    pub loss_events: u64,
}

/// The use of all sampled connection ends, by host, session and connection.
#[must_use]
pub fn transport_use(table: &Table<Tcp>, window: Window) -> Vec<TransportUse> {
    let mut ends: BTreeMap<(NameId, SessionId, ConnectionId), Vec<&Tcp>> = BTreeMap::new();
    for row in &table.rows {
        let record = &row.record;
        ends.entry((row.host, record.session, record.connection))
            .or_default()
            .push(record);
    }
    ends.into_iter()
        .filter_map(|((host, session, connection), records)| {
            let mut found = one_end(&records, window)?;
            table.names.get(host).clone_into(&mut found.host);
            found.session = session.to_string();
            found.connection = connection.0;
            Some(found)
        })
        .collect()
}

/// The use of one end from its records, which are sorted by time; `None` if fewer than two samples are in the window.
fn one_end(records: &[&Tcp], window: Window) -> Option<TransportUse> {
    let inside: Vec<&Tcp> = records
        .iter()
        .copied()
        .filter(|record| window.contains(record.time.ns()))
        .collect();
    let samples: Vec<&Tcp> = inside
        .iter()
        .copied()
        .filter(|record| record.event == TcpEvent::Sample)
        .collect();
    let (first, last) = (samples.first()?, samples.last()?);
    let passed_ns = (last.time - first.time).as_nanos() as f64;
    if passed_ns <= 0.0 {
        return None;
    }
    let share = |counter: fn(&Tcp) -> u64| {
        (counter(last).saturating_sub(counter(first)) as f64 / passed_ns).min(1.0)
    };
    let mean = |value: fn(&Tcp) -> f64| {
        samples.iter().map(|sample| value(sample)).sum::<f64>() / samples.len() as f64
    };
    let cuts: Vec<Cut> = cuts(records)
        .filter(|(time_ns, _)| window.contains(*time_ns))
        .map(|(_, cut)| cut)
        .collect();
    let count = |of| cuts.iter().filter(|cut| **cut == of).count() as u64;
    let delivery_bytes_per_s = mean(|sample| sample.delivery_bytes_per_s as f64);
    let variance = samples
        .iter()
        .map(|sample| (sample.delivery_bytes_per_s as f64 - delivery_bytes_per_s).powi(2))
        .sum::<f64>()
        / samples.len() as f64;
    Some(TransportUse {
        host: String::new(),
        session: String::new(),
        connection: 0,
        samples: samples.len() as u64,
        acked_bytes: last.acked_bytes.saturating_sub(first.acked_bytes),
        busy_share: share(|sample| sample.busy_ns),
        rwnd_limited_share: share(|sample| sample.rwnd_limited_ns),
        sndbuf_limited_share: share(|sample| sample.sndbuf_limited_ns),
        congestion_limited_share: congestion_limited_share(&samples),
        cwnd_packets: mean(|sample| f64::from(sample.cwnd_packets)),
        in_flight_packets: mean(|sample| f64::from(sample.in_flight_packets)),
        unsent_bytes: mean(|sample| f64::from(sample.unsent_bytes)),
        rwnd_min_bytes: samples.iter().map(|s| s.rwnd_bytes).min().unwrap_or(0),
        srtt_ns: mean(|sample| sample.srtt_ns as f64),
        min_rtt_ns: last.min_rtt_ns,
        delivery_bytes_per_s,
        delivery_variation: variance.sqrt() / delivery_bytes_per_s.max(1.0),
        retransmits: last.retransmits.saturating_sub(first.retransmits),
        cwr_events: count(Cut::Cwr),
        recovery_events: count(Cut::Recovery),
        loss_events: count(Cut::Loss),
    })
}

/// The ratio of the round-trip time to its minimum that indicates a standing queue.
const INFLATED_RTT_RATIO: f64 = 1.25;
/// A delivery rate that varies by less than this share is taken for a link's rate.
const FLAT_DELIVERY_VARIATION: f64 = 0.1;
/// A sender that is stopped for this share of the time is limited by whatever stops it.
const STOPPED_SHARE: f64 = 0.5;
/// A sender that has data to send for this share of the time counts as always busy.
const BUSY_SHARE: f64 = 0.95;

impl TransportUse {
    /// The ratio of the round-trip time to its minimum.
    #[must_use]
    pub fn rtt_ratio(&self) -> f64 {
        self.srtt_ns / self.min_rtt_ns.max(1) as f64
    }
}

/// Whether a sender's TCP indicates a full link where no path was sampled: a standing queue inflates the round-trip
/// time, and a link's rate shows as a nearly constant delivery rate.
pub(crate) fn is_behind_a_full_link(sender: &TransportUse) -> bool {
    sender.rtt_ratio() >= INFLATED_RTT_RATIO
        && sender.delivery_variation <= FLAT_DELIVERY_VARIATION
        && sender.rwnd_limited_share.max(sender.sndbuf_limited_share) < STOPPED_SHARE
        && sender.busy_share >= BUSY_SHARE
}

/// The share of intervals between samples at whose end more than a segment waited unsent behind others in flight, and
/// in which the receive window limited the sender for less than half of the time. With nothing in flight no window is
/// full: unsent data then waits for a device or a timer.
fn congestion_limited_share(samples: &[&Tcp]) -> f64 {
    let limited = samples
        .windows(2)
        .filter(|pair| {
            let passed_ns = (pair[1].time - pair[0].time).as_nanos() as u64;
            let rwnd_ns = pair[1]
                .rwnd_limited_ns
                .saturating_sub(pair[0].rwnd_limited_ns);
            let waits = pair[1].unsent_bytes > pair[1].mss_bytes && pair[1].in_flight_packets > 0;
            waits && rwnd_ns * 2 < passed_ns
        })
        .count();
    limited as f64 / (samples.len() - 1).max(1) as f64
}
