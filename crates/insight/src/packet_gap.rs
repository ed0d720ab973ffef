//! The gaps between consecutive data packets as they leave the target: the spacing of a burst after per-packet work
//! such as encryption.
//!
//! A gap is the time between two packets with payload of one flow, from the target, at the
//! point where the flow's packets first reach an emulated path. Only gaps inside a burst count. A burst
//! ends when a packet with payload goes the other way, which is a new command or its data, and with
//! a pause of more than half of the flow's minimum RTT (at least [`LEAST_PAUSE_NS`]),
//! which is an exhausted window or an idle application. If tunnels carry data,
//! the encrypted packets count, not the inner ones.

use wansan_trace::NameId;
use wansan_trace::event::Packet;

use crate::cell::Cell;
use crate::packets::Packets;
use crate::traffic::{self, Content, FlowDirection, Traffic};
use crate::window::Window;

/// The shortest pause that ends a burst.
pub const LEAST_PAUSE_NS: u64 = 1_000_000;
/// Number of reported quantiles, evenly spaced from 0 to 1.
pub const QUANTILES: usize = 51;

wansan_schema::tables! {
    /// Gaps between data packets of a burst from the target.
    PacketGaps {
        /// How many there are.
        gaps: u64,
        /// Their mean.
        mean_ns: f64,
        /// Half of them are at most this long. 0 where segmentation offload hands packets over together.
        p50_ns: u64,
        /// Nine in ten are at most this long.
        p90_ns: u64,
        /// The minimum and the maximum gap, and quantiles at equal steps between them.
        quantiles_ns: Vec<u64>,
    }
}

/// The gaps in the window; `None` if there are none or no packets were recorded.
#[must_use]
pub fn packet_gaps(cell: &Cell, traffic: &Traffic, window: Window) -> Option<PacketGaps> {
    let packets = cell.packet.as_ref()?;
    let is_inside =
        |packet: &Packet| window.contains(packet.time.ns()) && traffic::carries_data(packet);
    let mut contents = traffic.flows.iter().map(|flow| flow.content);
    let has_tunnels = contents.any(|content| content == Content::Encrypted);
    let mut tunnels = false;
    if has_tunnels {
        packets.for_each(|packet| tunnels |= is_inside(packet) && traffic::is_encrypted(packet));
    }
    let pauses_ns = pauses_ns(packets, traffic);
    // The path where the flow's packets first appeared, and the time of the last packet in the current burst.
    let mut first_path: Vec<Option<NameId>> = vec![None; traffic.flows.len()];
    let mut last_ns: Vec<Option<u64>> = vec![None; traffic.flows.len()];
    let mut gaps_ns = Vec::new();
    packets.for_each_of_flows(traffic, |_, (flow, way), packet| {
        if !is_inside(packet) {
            return;
        }
        if (traffic.flows[flow].content == Content::Encrypted) != tunnels {
            return;
        }
        if way == FlowDirection::ToTarget {
            last_ns[flow] = None;
            return;
        }
        if *first_path[flow].get_or_insert(packet.path) != packet.path {
            return;
        }
        let time_ns = packet.time.ns();
        if let Some(before_ns) = last_ns[flow].replace(time_ns) {
            let gap_ns = time_ns - before_ns;
            if gap_ns <= pauses_ns[flow] {
                gaps_ns.push(gap_ns);
            }
        }
    });
    distribution(gaps_ns)
}

/// The pause that ends a burst of each flow. The minimum RTT is the sum of the shortest path transits of both
/// directions.
fn pauses_ns(packets: &Packets, traffic: &Traffic) -> Vec<u64> {
    let shortest_ns = packets.least_transits_ns(traffic);
    shortest_ns
        .into_iter()
        .map(|[there, back]| there.unwrap_or(0) + back.unwrap_or(0))
        .map(|round_trip_ns| (round_trip_ns / 2).max(LEAST_PAUSE_NS))
        .collect()
}

/// The distribution by nearest rank; `None` if empty.
fn distribution(mut gaps_ns: Vec<u64>) -> Option<PacketGaps> {
    if gaps_ns.is_empty() {
        return None;
    }
    gaps_ns.sort_unstable();
    let count = gaps_ns.len();
    let sum: u128 = gaps_ns.iter().map(|&ns| u128::from(ns)).sum();
    let rank = |part: usize, of: usize| gaps_ns[(count * part).div_ceil(of).max(1) - 1];
    Some(PacketGaps {
        gaps: count as u64,
        mean_ns: sum as f64 / count as f64,
        p50_ns: rank(50, 100),
        p90_ns: rank(90, 100),
        quantiles_ns: (0..QUANTILES).map(|i| rank(i, QUANTILES - 1)).collect(),
    })
}
