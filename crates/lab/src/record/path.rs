//! What a cell's paths did, and what was changed of them.

use std::fmt;

use serde::{Deserialize, Serialize};
use wansan_path::Tally;

use crate::emulator::{ElementStatistics, PathStatistics};

/// One direction of a path over a cell. Bytes are those of layer 2: the Ethernet frame without
/// preamble, checksum and gap, and `overhead_bytes` for each packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathResult {
    /// Its name, such as `upper:forward`.
    pub name: String,
    /// Bytes of layer 2 that count for each packet beyond its Ethernet frame.
    pub overhead_bytes: u32,
    /// Whether it is down, or was at the end.
    pub is_down: bool,
    /// Packets that came in.
    pub in_packets: u64,
    /// Their bytes.
    pub in_bytes: u64,
    /// Packets that came out.
    pub out_packets: u64,
    /// Their bytes.
    pub out_bytes: u64,
    /// Packets that were dropped, whatever by.
    pub dropped_packets: u64,
    /// Those dropped by the queue, or by a full delay line.
    pub queue_drops: u64,
    /// Those taken by random or listed loss.
    pub loss_drops: u64,
    /// Those lost because the path was down.
    pub outage_drops: u64,
    /// Packets marked with CE.
    pub marked_packets: u64,
    /// Copies made.
    pub duplicated_packets: u64,
    /// Packets with a spoiled bit.
    pub corrupted_packets: u64,
    /// Packets held back so that others overtake them.
    pub reordered_packets: u64,
    /// Packets that wait for the link, or did at the end.
    pub queue_packets: u64,
    /// Their bytes.
    pub queue_bytes: u64,
    /// The most packets that ever waited.
    pub queue_high_water_packets: u64,
    /// The most bytes that ever waited.
    pub queue_high_water_bytes: u64,
    /// The delay that is asked for, or was at the end.
    pub delay_asked_ns: u64,
    /// What half of the packets were to be delayed at most, as jitter drew it for each, since the
    /// delay was last changed; null when none has left since.
    pub delay_asked_p50_ns: Option<u64>,
    /// The same for 99 of 100 packets.
    pub delay_asked_p99_ns: Option<u64>,
    /// How long half of these packets were delayed at most until they were handed to the kernel.
    pub delay_achieved_p50_ns: Option<u64>,
    /// The same for 99 of 100 packets.
    pub delay_achieved_p99_ns: Option<u64>,
    /// The rate that is asked for, or was at the end; null when it is unlimited.
    pub rate_asked_bits_per_s: Option<u64>,
    /// The most that came out in any half second since the rate was last changed; null when it did
    /// not last as long.
    pub rate_achieved_bits_per_s: Option<u64>,
    /// Its elements, the first one nearest the sender.
    pub elements: Vec<ElementResult>,
}

/// One element of a direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElementResult {
    /// Its name, such as `link`.
    pub name: String,
    /// Packets that came in.
    pub in_packets: u64,
    /// Their bytes.
    pub in_bytes: u64,
    /// Packets that went on.
    pub out_packets: u64,
    /// Their bytes.
    pub out_bytes: u64,
    /// Packets that it dropped.
    pub dropped_packets: u64,
    /// Packets that it marked with CE.
    pub marked_packets: u64,
    /// Copies that it made.
    pub duplicated_packets: u64,
    /// Packets that it spoiled.
    pub corrupted_packets: u64,
    /// Packets that it held back so that others overtake them.
    pub reordered_packets: u64,
    /// Packets that it holds, or did at the end; for a link, those that wait.
    pub depth_packets: u64,
    /// Their bytes.
    pub depth_bytes: u64,
    /// The most packets that it ever held.
    pub high_water_packets: u64,
    /// The most bytes that it ever held.
    pub high_water_bytes: u64,
    /// Time for which a link was sending.
    pub busy_ns: u64,
}

/// A change of a path while a cell ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathChange {
    /// The statement.
    pub statement: String,
    /// `plan`, or `hand` when it came by `wansan path set`.
    pub asked_by: String,
    /// When the plan wanted it, from the start of the initiators; null for what came by hand.
    pub planned_ns: Option<u64>,
    /// When it was made, from the start of the initiators; null when it was not.
    pub made_after_ns: Option<u64>,
    /// When it was made, CLOCK_MONOTONIC.
    pub made_at_ns: Option<u64>,
    /// Why it was not made.
    pub refused: Option<String>,
}

impl PathChange {
    /// Whether it came by `wansan path set`, which the plan does not know of.
    #[must_use]
    pub fn is_by_hand(&self) -> bool {
        self.planned_ns.is_none()
    }
}

/// In one line.
impl fmt::Display for PathChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statement = &self.statement;
        match (self.made_after_ns, &self.refused) {
            (Some(after_ns), _) => write!(f, "at {:.3}s {statement}", after_ns as f64 / 1e9)?,
            (None, Some(reason)) => write!(f, "not made: {statement}: {reason}")?,
            (None, None) => write!(f, "to be made: {statement}")?,
        }
        if self.is_by_hand() {
            f.write_str(" (by hand)")?;
        }
        Ok(())
    }
}

impl From<&PathStatistics> for PathResult {
    fn from(path: &PathStatistics) -> PathResult {
        let counters = &path.counters;
        let drops = [
            counters.dropped_by_queue,
            counters.dropped_by_delay_line,
            counters.dropped_by_loss,
            counters.dropped_by_outage,
        ];
        let [queue, line, loss, outage] = drops.map(|dropped| dropped.packets);
        PathResult {
            name: path.name.clone(),
            overhead_bytes: path.overhead_bytes,
            is_down: path.is_down,
            in_packets: counters.entered.packets,
            in_bytes: counters.entered.bytes,
            out_packets: counters.delivered.packets,
            out_bytes: counters.delivered.bytes,
            dropped_packets: queue + line + loss + outage,
            queue_drops: queue + line,
            loss_drops: loss,
            outage_drops: outage,
            marked_packets: counters.marked.packets,
            duplicated_packets: counters.duplicated.packets,
            corrupted_packets: counters.corrupted.packets,
            reordered_packets: counters.held_back.packets,
            queue_packets: counters.queued.packets,
            queue_bytes: counters.queued.bytes,
            queue_high_water_packets: counters.queued_high_water.packets,
            queue_high_water_bytes: counters.queued_high_water.bytes,
            delay_asked_ns: path.delay_ns,
            delay_asked_p50_ns: path.delay_asked_ns.map(|[p50, _]| p50),
            delay_asked_p99_ns: path.delay_asked_ns.map(|[_, p99]| p99),
            delay_achieved_p50_ns: path.delay_achieved_ns.map(|[p50, _]| p50),
            delay_achieved_p99_ns: path.delay_achieved_ns.map(|[_, p99]| p99),
            rate_asked_bits_per_s: path.bits_per_s,
            rate_achieved_bits_per_s: path.peak_bits_per_s,
            elements: path.elements.iter().map(ElementResult::from).collect(),
        }
    }
}

impl From<&ElementStatistics> for ElementResult {
    fn from(element: &ElementStatistics) -> ElementResult {
        let packets = |tally: Tally| tally.packets;
        ElementResult {
            name: element.name.clone(),
            in_packets: packets(element.entered),
            in_bytes: element.entered.bytes,
            out_packets: packets(element.left),
            out_bytes: element.left.bytes,
            dropped_packets: packets(element.dropped),
            marked_packets: packets(element.marked),
            duplicated_packets: packets(element.duplicated),
            corrupted_packets: packets(element.corrupted),
            reordered_packets: packets(element.held_back),
            depth_packets: packets(element.depth),
            depth_bytes: element.depth.bytes,
            high_water_packets: packets(element.high_water),
            high_water_bytes: element.high_water.bytes,
            busy_ns: element.busy_ns,
        }
    }
}
