//! The store's service times and number of servers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use wansan_insight::join::Task;
use wansan_insight::population::Population;
use wansan_insight::served::Served;
use wansan_insight::{Cell, CellSummary, Window};
use wansan_trace::Layer;
use wansan_workload::service::{Service, ServiceTime};

/// A store that takes less than this for 19 of 20 operations responds at once.
const AT_ONCE_NS: u64 = 200_000;
/// One in this many answers counts as fast.
const FAST_PART: usize = 20;
/// Maximum number of service times kept; they are used in turn.
const MOST_TIMES: usize = 65_536;
/// An operation waits for a server, not for a late program, if it waits for at least the mean service time divided by
/// this.
const WAIT_PART: u64 = 10;
/// Operations take similar times if the median exceeds the minimum by at most the minimum divided by this.
const ALIKE_PART: u64 = 4;
/// The number of servers is derived from waits if there are at least this many, and one per so many operations: fewer
/// waits are due to a late program.
const TELLING_WAITS: usize = 10;
const TELLING_PART: usize = 20;

/// The store's service times and its number of servers.
pub(super) fn service(
    cell: &Cell,
    is_read: &dyn Fn(&Task) -> bool,
    recorded: &CellSummary,
    unknown: &mut Vec<String>,
) -> Option<Service> {
    let tasks = cell.joined.tasks.iter();
    let shown = Served::of(&cell.joined, cell.pdu.as_deref());
    let mut spans: Vec<(u64, u64)> = tasks.filter_map(|task| shown.piece_ns(task)).collect();
    spans.sort_unstable();
    let done = |(_, leave_ns): &(u64, u64)| recorded.window.contains(*leave_ns);
    let took_ns = spans.iter().filter(|span| done(span));
    let took_ns = took_ns.map(|(enter, leave)| leave.saturating_sub(*enter));
    let in_turn_ns: Vec<u64> = took_ns.take(MOST_TIMES).collect();
    if in_turn_ns.is_empty() {
        return by_answers(cell, is_read, recorded, unknown);
    }
    let at_once = in_turn_ns.iter().filter(|ns| **ns < AT_ONCE_NS).count();
    if at_once * 20 >= in_turn_ns.len() * 19 {
        return None;
    }
    let mean_ns = in_turn_ns.iter().sum::<u64>() / in_turn_ns.len() as u64;
    let servers = servers(cell, &shown, recorded.window, mean_ns / WAIT_PART).unwrap_or_else(|| {
        let most = most_at_once(&spans);
        unknown.push(format!(
            "how many operations the store serves at once: assumed to be the most that it did, {most}"
        ));
        most
    });
    let servers = u32::try_from(servers).unwrap_or(u32::MAX);
    let servers = servers.clamp(1, ServiceTime::MAX_SERVERS);
    let ends_ns = ends_of_service(&spans, servers as usize);
    let served = spans.iter().zip(ends_ns).filter(|(span, _)| done(span));
    let served = served.map(|((enter_ns, _), end_ns)| end_ns.saturating_sub(*enter_ns));
    Some(Service {
        times: served
            .take(MOST_TIMES)
            .map(|ns| Duration::from_nanos(ns.max(1)))
            .collect(),
        servers,
    })
}

/// Where the store recorded nothing, the service time is estimated from how fast the target answered reads. That of
/// fast answers is used for all, since others may have waited for each other or for room in TCP.
fn by_answers(
    cell: &Cell,
    is_read: &dyn Fn(&Task) -> bool,
    recorded: &CellSummary,
    unknown: &mut Vec<String>,
) -> Option<Service> {
    let tasks = cell.joined.tasks.iter();
    // A write waits for its data, which is no work of the store.
    let reads = tasks.filter(|task| is_read(task));
    let spans = reads.filter_map(|task| task.both_ns(Layer::Target));
    let spans: Vec<(u64, u64)> = spans
        .filter(|(_, leave_ns)| recorded.window.contains(*leave_ns))
        .collect();
    let took_ns = sorted_times_ns(&spans);
    let fast_ns = took_ns.get(took_ns.len() / FAST_PART).copied();
    let fast_ns = fast_ns.filter(|ns| *ns >= AT_ONCE_NS);
    let Some(fast_ns) = fast_ns else {
        unknown.push("the store's service time: assumed to be 0".to_owned());
        return None;
    };
    let servers = u32::try_from(most_at_once(&spans)).unwrap_or(u32::MAX);
    unknown.push(format!(
        "the store's service time: assumed to be {:.3} ms for all, in which the target answered one of {FAST_PART} commands, {servers} at once",
        fast_ns as f64 / 1e6,
    ));
    Some(Service {
        times: [Duration::from_nanos(fast_ns)].into(),
        servers: servers.clamp(1, ServiceTime::MAX_SERVERS),
    })
}

/// Duration of each span, shortest first.
fn sorted_times_ns(spans: &[(u64, u64)]) -> Vec<u64> {
    let mut took_ns: Vec<u64> = spans
        .iter()
        .map(|(enter, leave)| leave.saturating_sub(*enter))
        .collect();
    took_ns.sort_unstable();
    took_ns
}

/// The maximum number of operations served at once. If all take similar times, each counts as slightly shorter than
/// the shortest one: beyond that, the program was late to notice its end, and the next had already begun.
fn most_at_once(spans: &[(u64, u64)]) -> u64 {
    let took_ns = sorted_times_ns(spans);
    let (least_ns, median_ns) = (took_ns[0], took_ns[took_ns.len() / 2]);
    let longest_ns = match median_ns <= least_ns + least_ns / ALIKE_PART {
        true => least_ns - least_ns / (4 * ALIKE_PART),
        false => u64::MAX,
    };
    let served = spans
        .iter()
        .map(|&(enter_ns, leave_ns)| (enter_ns, leave_ns.min(enter_ns.saturating_add(longest_ns))));
    let always = Window {
        from_ns: 0,
        to_ns: u64::MAX,
    };
    Population::of(served).max(always)
}

/// When each operation ended at `servers` servers. The spans, sorted, have the times at which operations began and at
/// which their ends were noticed: if a program is late to notice, the server has already begun the next operation.
fn ends_of_service(spans: &[(u64, u64)], servers: usize) -> Vec<u64> {
    let took_ns = spans
        .iter()
        .map(|(enter, leave)| leave.saturating_sub(*enter));
    let least_ns = took_ns.min().unwrap_or(0);
    let mut ends_ns: Vec<u64> = spans.iter().map(|(_, leave_ns)| *leave_ns).collect();
    // Indices of the operations in service, and the same ordered by when their ends were noticed.
    let (mut busy, mut by_leave) = (BTreeSet::new(), BTreeSet::new());
    for (place, &(enter_ns, leave_ns)) in spans.iter().enumerate() {
        if let Some(&first) = busy.first()
            && busy.len() == servers
        {
            // Of those in service for at least the minimum time, the one whose end was noticed first is over.
            let had_time = |place: usize| enter_ns.saturating_sub(spans[place].0) >= least_ns;
            let mut early = by_leave.iter().map(|&(_, place)| place);
            let over = match had_time(first) {
                true => early.find(|&place| had_time(place)).unwrap_or(first),
                false => first,
            };
            busy.remove(&over);
            by_leave.remove(&(spans[over].1, over));
            ends_ns[over] = ends_ns[over].min(enter_ns);
        }
        busy.insert(place);
        by_leave.insert((leave_ns, place));
    }
    ends_ns
}

/// The number of operations that the store serves while others wait for it for `least_ns` or longer; `None` if waits
/// are rare. It is the median over time: when a program is late to notice an end, the next operation has already
/// begun.
fn servers(cell: &Cell, shown: &Served, window: Window, least_ns: u64) -> Option<u64> {
    let tasks = || cell.joined.tasks.iter();
    let waits = tasks().filter_map(|task| {
        let (from_ns, to_ns) = (task.enter_ns(Layer::Device)?, task.enter_ns(Layer::Store)?);
        let waits = window.contains(from_ns) && to_ns.saturating_sub(from_ns) >= least_ns;
        waits.then_some((from_ns, to_ns))
    });
    let waits: Vec<(u64, u64)> = waits.collect();
    let began = tasks().filter_map(|task| task.enter_ns(Layer::Store));
    let began = began.filter(|enter_ns| window.contains(*enter_ns)).count();
    if waits.len() < TELLING_WAITS.max(began / TELLING_PART) {
        return None;
    }
    let waiting = Population::of(waits);
    let served = Population::of(tasks().filter_map(|task| shown.piece_ns(task)));
    let mut served_ns: BTreeMap<u64, u64> = BTreeMap::new();
    for wait in waiting.steps(window).filter(|step| step.count > 0) {
        let meanwhile = Window {
            from_ns: wait.from_ns,
            to_ns: wait.to_ns,
        };
        for step in served.steps(meanwhile) {
            *served_ns.entry(step.count).or_default() += step.to_ns - step.from_ns;
        }
    }
    let all_ns: u64 = served_ns.values().sum();
    let mut passed_ns = 0;
    let median = served_ns.into_iter().find(|(_, ns)| {
        passed_ns += ns;
        passed_ns * 2 >= all_ns
    });
    median.map(|(count, _)| count.max(1))
}

#[cfg(test)]
mod tests {
    use wansan_trace::{ConnectionId, Direction, Instant, Kinds, Recorder, SessionId, TaskTag};

    use super::*;

    const MS: u64 = 1_000_000;

    /// The number of servers derived from 400 operations of 2 ms, of which two reach the store each ms, and one in
    /// `each` has waited for 1 ms before.
    fn shown(each: u32) -> Option<u64> {
        let kinds = Kinds {
            io: true,
            ..Kinds::NONE
        };
        let mut recorder = Recorder::new(kinds, 64 << 20);
        for number in 0..400 {
            let stored = u64::from(number / 2 + 2) * MS;
            let came = stored - u64::from(number % each == 0) * MS;
            let times = [
                (came, Layer::Device, Direction::Enter),
                (stored, Layer::Store, Direction::Enter),
                (stored + 2 * MS, Layer::Store, Direction::Leave),
                (stored + 2 * MS, Layer::Device, Direction::Leave),
            ];
            let ids = (SessionId(1), ConnectionId(0), TaskTag(number));
            for (ns, layer, direction) in times {
                let at = Instant::from_ns(ns);
                recorder.crossing(at, ids.0, ids.1, ids.2, layer, direction);
            }
        }
        let cell = Cell::gather(&[("target", &recorder)]).expect("I/Os are recorded");
        let window = Window {
            from_ns: 0,
            to_ns: 1000 * MS,
        };
        servers(
            &cell,
            &Served::of(&cell.joined, cell.pdu.as_deref()),
            window,
            MS / 5,
        )
    }

    #[test]
    fn servers_are_known_where_operations_wait_for_them_and_not_for_a_late_program() {
        assert_eq!(shown(1), Some(4));
        assert_eq!(shown(25), None);
    }

    #[test]
    fn operations_are_served_at_once_while_they_take_what_all_take() {
        // Two servers with operations of 4, which begin the next one before the program notices the end of the last.
        let late: Vec<(u64, u64)> = (0..20)
            .map(|n| (n / 2 * 4, n / 2 * 4 + 4 + n % 3 / 2))
            .collect();
        assert_eq!(most_at_once(&late), 2);
        // Operations of varied lengths do not show how late.
        let unlike = [(0, 1), (0, 9), (1, 7), (2, 3), (3, 8)];
        assert_eq!(most_at_once(&unlike), 3);
    }

    #[test]
    fn a_server_that_has_begun_another_operation_was_done_with_the_one_before() {
        // One server with operations of 2 noticed late, and two with one noticed very late.
        let one = [(0, 2), (2, 5), (4, 6), (6, 9)];
        assert_eq!(ends_of_service(&one, 1), [2, 4, 6, 9]);
        let two = [(0, 2), (1, 9), (2, 4), (3, 5), (4, 6), (5, 7)];
        assert_eq!(ends_of_service(&two, 2), [2, 3, 4, 5, 6, 7]);
        // With as many servers as were ever busy, none was noticed late.
        assert_eq!(ends_of_service(&two, 3), two.map(|(_, leave)| leave));
        // The long operation continues, since the short one is noticed slightly late.
        let unlike = [(0, 90), (0, 21), (20, 31)];
        assert_eq!(ends_of_service(&unlike, 2), [90, 20, 31]);
        assert!(ends_of_service(&[], 1).is_empty());
    }
}
