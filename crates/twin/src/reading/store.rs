//! How the store serves.

use std::time::Duration;

use wansan_insight::{Cell, CellSummary};
use wansan_trace::Layer;
use wansan_workload::service::{Service, ServiceTime};

/// A store that takes less than this for 19 of 20 operations answers at once.
const AT_ONCE_NS: u64 = 200_000;
/// So many times are kept; they are taken in turn.
const MOST_TIMES: usize = 65_536;
/// The store's queue shows its servers where it is there for this share of the time.
const SEEN_SHARE: f64 = 0.01;

/// The times that the store took for operations, and its servers: as many as it ever served at once.
pub(super) fn service(
    cell: &Cell,
    recorded: &CellSummary,
    unknown: &mut Vec<String>,
) -> Option<Service> {
    let tasks = cell.joined.tasks.iter();
    let spans = tasks.filter_map(|task| task.both_ns(Layer::Store));
    let done = spans.filter(|(_, leave_ns)| recorded.window.contains(*leave_ns));
    let took_ns = done.map(|(enter, leave)| leave.saturating_sub(enter));
    let in_turn_ns: Vec<u64> = took_ns.take(MOST_TIMES).collect();
    if in_turn_ns.is_empty() {
        unknown.push("the store's time: it is taken to answer at once".to_owned());
        return None;
    }
    let at_once = in_turn_ns.iter().filter(|ns| **ns < AT_ONCE_NS).count();
    if at_once * 20 >= in_turn_ns.len() * 19 {
        return None;
    }
    let store = recorded.total.layer(Layer::Store)?;
    let servers = u32::try_from(store.in_flight_max.max(1)).unwrap_or(u32::MAX);
    if recorded.total.store_queue_share < SEEN_SHARE {
        unknown.push(format!(
            "how many operations the store serves at once: {servers} is the most that it was seen to, and taken as all"
        ));
    }
    Some(Service {
        times: in_turn_ns
            .into_iter()
            .map(|ns| Duration::from_nanos(ns.max(1)))
            .collect(),
        servers: servers.min(ServiceTime::MAX_SERVERS),
    })
}
