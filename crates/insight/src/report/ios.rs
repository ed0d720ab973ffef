//! The I/Os whose packets a diagram shows, with their accounts in the ledger of waits.

use foldhash::HashSet;

use wansan_schema::tables;
use wansan_trace::{SessionId, TaskTag};

use super::packets::micros;
use crate::cell::Cell;
use crate::ledger::{Account, Ledger, Wait};
use crate::traffic::{Content, Traffic};
use crate::transfer::{Stretch, Transfer};

/// Most I/Os that are shown with a diagram: a line each.
const MAX_IOS: usize = 16;

tables! {
    /// An I/O whose packets are shown.
    ShownIo {
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

/// An I/O's tag in its session, which others had before and have after it.
pub(super) type Tag = (SessionId, TaskTag);

/// The accounts of the I/Os whose packets a stretch shows, in the order in which they began: of `named` and of
/// those whose packets come first.
pub(super) fn shown(
    cell: &Cell,
    ledger: &Ledger<'_>,
    traffic: &Traffic,
    stretch: &Stretch,
    named: Option<Tag>,
) -> Vec<ShownIo> {
    let (Some(top), Some(last)) = (cell.joined.top(), stretch.packets.last()) else {
        return Vec::new();
    };
    let of_packet = |packet: &Transfer| match traffic.flows[packet.flow].content {
        Content::Session(session, _) => packet.task().map(|task| (session, task)),
        Content::Tcp | Content::Encrypted => None,
    };
    let mut tags: HashSet<Tag> = named.into_iter().collect();
    for tag in stretch.packets.iter().filter_map(of_packet) {
        if tags.len() == MAX_IOS {
            break;
        }
        tags.insert(tag);
    }
    let is_shown =
        |(enter_ns, leave_ns): (u64, u64)| enter_ns <= last.ended_ns && leave_ns >= stretch.from_ns;
    let tasks = cell.joined.tasks.iter().filter(|task| {
        tags.contains(&(task.session, task.tag)) && task.both_ns(top).is_some_and(is_shown)
    });
    let mut accounts: Vec<Account> = tasks.filter_map(|task| ledger.account(task)).collect();
    accounts.sort_by_key(|account| account.waits.first().map(|first| first.from_ns));
    // A tag that is used again names several.
    accounts.truncate(MAX_IOS);
    let show = |account: Account| ShownIo {
        task: account.task.0,
        waits: waits(&account.waits, stretch.from_ns),
    };
    accounts.into_iter().map(show).collect()
}

/// Waits as the page draws them: those of one cause at one layer that follow each other are one.
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
mod tests {
    use wansan_trace::Layer;

    use super::*;
    use crate::cause::Cause;
    use crate::ledger::Source;

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
}
