//! How the store serves.

use std::time::Duration;

use wansan_insight::{Cell, CellSummary};
use wansan_trace::Layer;
use wansan_workload::service::ServiceTime;

/// A store that takes less than this for nearly all operations answers at once.
const AT_ONCE_NS: u64 = 200_000;
/// The store's queue shows its servers where it is there for this share of the time.
const SEEN_SHARE: f64 = 0.01;

/// The time that the store takes for an operation, and its servers: as many as it ever served at once.
pub(super) fn service(
    cell: &Cell,
    recorded: &CellSummary,
    unknown: &mut Vec<String>,
) -> Option<ServiceTime> {
    let tasks = cell.joined.tasks.iter();
    let spans = tasks.filter_map(|task| task.both_ns(Layer::Store));
    let done = spans.filter(|(_, leave_ns)| recorded.window.contains(*leave_ns));
    let mut took_ns: Vec<u64> = done.map(|(enter, leave)| leave.saturating_sub(enter)).collect();
    if took_ns.is_empty() {
        unknown.push("the store's time: it is taken to answer at once".to_owned());
        return None;
    }
    took_ns.sort_unstable();
    let rank = |percent: usize| took_ns[(took_ns.len() - 1) * percent / 100];
    if rank(95) < AT_ONCE_NS {
        return None;
    }
    let store = recorded.total.layer(Layer::Store)?;
    let servers = u32::try_from(store.in_flight_max.max(1)).unwrap_or(u32::MAX);
    if recorded.total.store_queue_share < SEEN_SHARE {
        unknown.push(format!(
            "how many operations the store serves at once: {servers} is the most that it was seen to, and taken as all"
        ));
    }
    let mean_ns = took_ns.iter().sum::<u64>() / took_ns.len() as u64;
    let spread = rank(95) - rank(5);
    if spread * 10 > mean_ns {
        unknown.push(format!(
            "the distribution of the store's times is taken as their mean ({:.2} ms; one in twenty is below {:.2} ms, one above {:.2} ms)",
            mean_ns as f64 / 1e6,
            rank(5) as f64 / 1e6,
            rank(95) as f64 / 1e6,
        ));
    }
    Some(ServiceTime {
        time: Duration::from_nanos(mean_ns),
        servers: servers.min(ServiceTime::MAX_SERVERS),
    })
}
