//! Statistics of a cell's paths.

use wansan_path::Tally;
use wansan_schema::{ElementResult, PathResult};

use crate::emulator::{ElementStatistics, PathStatistics};

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
