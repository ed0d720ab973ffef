//! Waits from stamps, PDUs and packets, laid over those from crossings.

use foldhash::HashMap;
use smallvec::SmallVec;
use wansan_trace::{Layer, SessionId, TaskTag};

use super::timeline::Timeline;
use super::{Source, Wait};
use crate::below::Splitter;
use crate::cause::Cause;
use crate::cell::Cell;
use crate::join::Task;
use crate::opcode::R2T;
use crate::r2t::{self, R2tWait};
use crate::stall::Stall;

/// An I/O's tag in its session; a reused tag names several I/Os.
type Tag = (SessionId, TaskTag);

/// A wait that PDUs or packets show.
#[derive(Debug, Clone, Copy)]
struct Shown {
    span_ns: (u64, u64),
    cause: Cause,
    source: Source,
}

/// What stamps, PDUs and packets show about the I/Os of a cell.
#[derive(Debug)]
pub(super) struct Overlays<'a> {
    top: Option<Layer>,
    splitter: Option<Splitter<'a>>,
    /// Waits that PDUs show, by tag.
    by_pdus: HashMap<Tag, Waits>,
    /// Waits that packets show, by tag; they replace those of PDUs.
    by_packets: HashMap<Tag, Waits>,
}

/// Waits of the I/Os that used one tag, one after the other.
#[derive(Debug, Default)]
struct Waits {
    /// In order of their starts.
    shown: SmallVec<[Shown; 1]>,
    longest_ns: u64,
}

impl Waits {
    /// Those that may overlap an interval.
    fn within(&self, (from_ns, to_ns): (u64, u64)) -> impl Iterator<Item = &Shown> {
        let earliest_ns = from_ns.saturating_sub(self.longest_ns);
        let first = self
            .shown
            .partition_point(|shown| shown.span_ns.0 < earliest_ns);
        self.shown[first..]
            .iter()
            .take_while(move |shown| shown.span_ns.0 < to_ns)
    }
}

impl<'a> Overlays<'a> {
    pub(super) fn of(cell: &'a Cell, stalls: &[Stall]) -> Overlays<'a> {
        let mut overlays = Overlays {
            top: cell.joined.top(),
            splitter: Splitter::of(cell),
            by_pdus: HashMap::default(),
            by_packets: HashMap::default(),
        };
        let pdus = cell.pdu.as_ref().filter(|pdus| pdus.has(R2T));
        let pdus = pdus.map_or(&[][..], |table| &table.rows);
        // The target knows when it sent an R2T and when data arrived; the initiator's view is used only without its
        // records.
        let asked = r2t::waits(pdus);
        for wait in &asked {
            add(
                &mut overlays.by_pdus,
                (wait.session, wait.task),
                Shown::asked(wait),
            );
        }
        for stall in stalls {
            let tag = (stall.session, stall.task);
            match stall.source() {
                Source::Pdus if stall.cause == Cause::R2tWait && !asked.is_empty() => {}
                Source::Pdus => add(&mut overlays.by_pdus, tag, Shown::stall(stall)),
                _ => add(&mut overlays.by_packets, tag, Shown::stall(stall)),
            }
        }
        for waits in overlays
            .by_pdus
            .values_mut()
            .chain(overlays.by_packets.values_mut())
        {
            waits.shown.sort_by_key(|shown| shown.span_ns);
        }
        overlays
    }

    /// Applies what is known about an I/O to its timeline.
    pub(super) fn put(&self, task: &Task, timeline: &mut Timeline) {
        let split = self.splitter.as_ref().zip(self.top);
        let stamps =
            split.and_then(|(splitter, top)| splitter.split(task, task.both_ns(top)?).ok());
        for wait in stamps.iter().flat_map(|io| &io.waits) {
            timeline.change((wait.from_ns, wait.to_ns), |known| stamped(known, wait));
        }
        let span_ns = timeline.span_ns();
        for of in [&self.by_pdus, &self.by_packets] {
            let waits = of.get(&(task.session, task.tag));
            for shown in waits.into_iter().flat_map(|waits| waits.within(span_ns)) {
                timeline.change(shown.span_ns, |known| shown.put(known));
            }
        }
    }
}

fn add(to: &mut HashMap<Tag, Waits>, tag: Tag, shown: Shown) {
    let waits = to.entry(tag).or_default();
    let (from_ns, to_ns) = shown.span_ns;
    waits.longest_ns = to_ns.saturating_sub(from_ns).max(waits.longest_ns);
    waits.shown.push(shown);
}

/// Applies a wait that the kernel's stamps show to one that crossings show. Stamps do not cover the store, nor why a
/// command has no CmdSN.
fn stamped(known: &mut Wait, stamped: &Wait) {
    let is_known_better = [Cause::StoreService, Cause::StoreQueue, Cause::CommandWindow];
    if is_known_better.contains(&known.cause) {
        return;
    }
    let in_a_program = stamped.way.is_none();
    // A program may hold an I/O because TCP accepts nothing from it, as layer crossings show.
    let waits_for_tcp = known.way.is_some() && known.layer == Layer::Device;
    let says_more = match in_a_program {
        true => stamped.cause != Cause::Unknown && known.way.is_some() && !waits_for_tcp,
        false => true,
    };
    if says_more {
        known.layer = if in_a_program {
            known.layer
        } else {
            stamped.layer
        };
        known.way = stamped.way;
        known.cause = stamped.cause;
        known.source = Source::Stamps;
        known.uncertain_ns = stamped.uncertain_ns;
    }
}

impl Shown {
    fn asked(wait: &R2tWait) -> Shown {
        Shown {
            span_ns: (wait.from_ns, wait.to_ns),
            cause: Cause::R2tWait,
            source: Source::Pdus,
        }
    }

    fn stall(stall: &Stall) -> Shown {
        Shown {
            span_ns: (stall.from_ns, stall.to_ns),
            cause: stall.cause,
            source: stall.source(),
        }
    }

    /// Sets the cause of a wait within its interval. While a program or the store has an I/O, the I/O does not wait for
    /// TCP.
    fn put(&self, known: &mut Wait) {
        let is_told = known.way.is_some()
            || known.cause == Cause::CommandWindow && self.cause == Cause::CommandWindow
            // If nothing was recorded below the target, it holds a write while the write's data arrives.
            || known.cause == Cause::Target && self.cause == Cause::R2tWait;
        if is_told {
            known.cause = self.cause;
            known.source = self.source;
            known.uncertain_ns = 0;
        }
    }
}
