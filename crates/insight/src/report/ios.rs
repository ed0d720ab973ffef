//! The I/Os whose packets a diagram shows, with their waits from the ledger.

use foldhash::HashSet;

use wansan_schema::tables;
use wansan_trace::{SessionId, TaskTag};

use super::packets::micros;
use super::sessions::SessionNames;
use crate::cell::Cell;
use crate::join::Task;
use crate::ledger::{Account, Ledger, Wait};
use crate::stall::Stall;
use crate::traffic::{Content, Traffic};
use crate::transfer::{Stretch, Transfer};

/// Maximum number of I/Os shown with a diagram, one line each.
const MAX_IOS: usize = 16;

tables! {
    /// An I/O whose packets are shown.
    ShownIo {
        /// Its session, as the names of flows begin.
        session: String,
        /// Its Initiator Task Tag.
        task: u32,
        /// Its waits, which follow each other and cover its latency.
        waits: Vec<ShownWait>,
    }

    /// A stretch of an I/O's latency with one cause.
    ShownWait {
        /// The cause.
        cause: String,
        /// The layer that had the I/O meanwhile.
        layer: String,
        /// From when on, in µs since the diagram's beginning; below 0 before it.
        from_us: f64,
        /// Until when.
        to_us: f64,
        /// How much of it may belong to the waits beside it, in µs.
        uncertain_us: f64,
    }
}

/// The accounts of the I/Os whose packets are in `stretch`, by start time: the I/O that `stall` stopped and those whose
/// packets come first.
pub(super) fn shown(
    cell: &Cell,
    ledger: &Ledger<'_>,
    traffic: &Traffic,
    stretch: &Stretch,
    stall: Option<&Stall>,
) -> Vec<ShownIo> {
    let (Some(top), Some(last)) = (cell.joined.top(), stretch.packets.last()) else {
        return Vec::new();
    };
    let of_packet = |packet: &Transfer| match traffic.flows[packet.flow].content {
        Content::Session(session, _) => packet.task().map(|task| (session, task)),
        Content::Tcp | Content::Encrypted => None,
    };
    let stalled = stall.map(|stall| (stall.session, stall.task));
    let mut tags: HashSet<(SessionId, TaskTag)> = stalled.into_iter().collect();
    for tag in stretch.packets.iter().filter_map(of_packet) {
        if tags.len() == MAX_IOS {
            break;
        }
        tags.insert(tag);
    }
    let overlaps = |task: &Task, from_ns: u64, to_ns: u64| {
        let span = task.both_ns(top);
        span.is_some_and(|(enter_ns, leave_ns)| enter_ns <= to_ns && leave_ns >= from_ns)
    };
    let is_stalled = |task: &Task| {
        stall.is_some_and(|stall| {
            (task.session, task.tag) == (stall.session, stall.task)
                && overlaps(task, stall.from_ns, stall.to_ns)
        })
    };
    let tasks = cell.joined.tasks.iter().filter(|task| {
        tags.contains(&(task.session, task.tag)) && overlaps(task, stretch.from_ns, last.ended_ns)
    });
    let mut tasks: Vec<&Task> = tasks.collect();
    // A reused tag may match more I/Os than there are lanes: the stalled one is sorted first, so that it is kept.
    tasks.sort_by_key(|task| (!is_stalled(task), task.enter_ns(top)));
    let accounts = tasks.into_iter().filter_map(|task| ledger.account(task));
    let mut accounts: Vec<Account> = accounts.take(MAX_IOS).collect();
    accounts.sort_by_key(|account| account.waits.first().map(|first| first.from_ns));
    let names = SessionNames::of(cell.connection.as_ref());
    let show = |account: Account| ShownIo {
        session: names.name(account.session),
        task: account.task.0,
        waits: waits(&account.waits, stretch.from_ns),
    };
    accounts.into_iter().map(show).collect()
}

/// Waits as the page draws them: consecutive waits with the same cause and layer are merged.
fn waits(waits: &[Wait], begin_ns: u64) -> Vec<ShownWait> {
    let since = |at_ns: u64| match at_ns.checked_sub(begin_ns) {
        Some(after_ns) => micros(after_ns),
        None => -micros(begin_ns - at_ns),
    };
    let alike = |one: &Wait, other: &Wait| (one.cause, one.layer) == (other.cause, other.layer);
    let show = |waits: &[Wait]| {
        let (first, last) = (waits.first()?, waits.last()?);
        let uncertain_ns: u64 = waits.iter().map(|wait| wait.uncertain_ns).sum();
        Some(ShownWait {
            cause: first.cause.name().to_owned(),
            layer: first.layer.name().to_owned(),
            from_us: since(first.from_ns),
            to_us: since(last.to_ns),
            uncertain_us: micros(uncertain_ns),
        })
    };
    waits.chunk_by(alike).filter_map(show).collect()
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests write the records that they read back"
)]
mod tests {
    use wansan_trace::event::Verdict;
    use wansan_trace::{ConnectionId, Direction, Instant, Kinds, Layer, Recorder, file};

    use super::*;
    use crate::cause::Cause;
    use crate::ledger::Source;
    use crate::traffic::{Flow, FlowDirection};
    use crate::window::Window;

    #[test]
    fn waits_of_one_cause_at_one_layer_are_one() {
        let wait = |from_ns, to_ns, layer, cause, source| Wait {
            from_ns,
            to_ns,
            layer,
            way: None,
            cause,
            source,
            uncertain_ns: 100,
        };
        let (queue, wire) = (Layer::Queue, Layer::Wire);
        let waits = waits(
            &[
                wait(1_000, 3_000, queue, Cause::CommandWindow, Source::Crossings),
                wait(3_000, 6_000, queue, Cause::CommandWindow, Source::Pdus),
                wait(6_000, 6_500, wire, Cause::Propagation, Source::Crossings),
                wait(6_500, 8_000, wire, Cause::PathQueue, Source::Resources),
            ],
            5_000,
        );
        let drawn: Vec<_> = waits
            .iter()
            .map(|wait| (&*wait.cause, &*wait.layer, wait.from_us, wait.to_us))
            .collect();
        let expected = [
            ("command_window", "queue", -4.0, 1.0),
            ("propagation", "wire", 1.0, 1.5),
            ("path_queue", "wire", 1.5, 3.0),
        ];
        assert_eq!(drawn, expected);
        assert_eq!(waits[0].uncertain_us, 0.2);
    }

    const SESSION: SessionId = SessionId(1);
    const TAG: TaskTag = TaskTag(7);
    const IO_NS: u64 = 1_000_000;
    const IOS: u64 = 40;

    /// Consecutive I/Os that all use one tag.
    fn one_tag() -> Cell {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = Recorder::new(Kinds::ALL, Recorder::MIN_BYTES);
        for io in 0..IOS {
            let steps = [
                (0, Layer::App, Direction::Enter),
                (1, Layer::Store, Direction::Enter),
                (IO_NS - 2, Layer::Store, Direction::Leave),
                (IO_NS - 1, Layer::App, Direction::Leave),
            ];
            for (after_ns, layer, direction) in steps {
                let now = Instant::from_ns(io * IO_NS + after_ns);
                recorder.crossing(now, SESSION, ConnectionId(0), TAG, layer, direction);
            }
        }
        file::write_part(folder.path(), "host", &[recorder]).unwrap();
        file::merge_parts(folder.path()).unwrap();
        Cell::read(folder.path()).unwrap()
    }

    #[test]
    fn the_stalled_io_is_shown_among_more_of_its_tag_than_have_room() {
        let cell = one_tag();
        let whole = Window {
            from_ns: 0,
            to_ns: IOS * IO_NS,
        };
        let ledger = Ledger::of(&cell, whole, &[], &[]);
        let end = "10.0.0.1:3260".parse().unwrap();
        let mut traffic = Traffic::default();
        traffic.flows.push(Flow {
            content: Content::Session(SESSION, ConnectionId(0)),
            initiator: end,
            target: end,
        });
        let stretch = Stretch {
            from_ns: 0,
            packets: vec![Transfer {
                packet: 0,
                sent_ns: 0,
                ended_ns: whole.to_ns,
                verdict: Verdict::Delivered,
                flow: 0,
                way: FlowDirection::ToTarget,
                place: None,
                acked: None,
                payload_bytes: 0,
                flags: 0,
                data: false,
                ce: false,
                carried: None,
                begins: Vec::new(),
            }],
        };
        let stalled = IOS - 1;
        let stall = Stall {
            cause: Cause::TailLoss,
            session: SESSION,
            task: TAG,
            way: FlowDirection::ToTarget,
            from_ns: stalled * IO_NS + 10,
            to_ns: stalled * IO_NS + 20,
            evidence: Vec::new(),
        };
        let ios = shown(&cell, &ledger, &traffic, &stretch, Some(&stall));
        let began_us: Vec<f64> = ios.iter().map(|io| io.waits[0].from_us).collect();
        let first = (0..MAX_IOS as u64 - 1).chain([stalled]);
        assert_eq!(began_us, Vec::from_iter(first.map(|io| micros(io * IO_NS))));
        assert_eq!(ios[0].session, format!("session {SESSION}"));
    }
}
