//! The load of the applications: their I/Os and when they submitted them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use wansan_insight::join::Task;
use wansan_insight::load::load_use;
use wansan_insight::opcode::{DATA_IN, DATA_OUT, SCSI_COMMAND};
use wansan_insight::population::Population;
use wansan_insight::{Cell, Window};
use wansan_iscsi::initiator::part_bytes;
use wansan_iscsi::record::keys_of;
use wansan_trace::event::{Pdu, PduDirection, Role};
use wansan_trace::{SessionId, TaskTag};
use wansan_workload::sequence::{Listed, Operation, Pattern};
use wansan_workload::{Limit, LoadConfig};

use super::Unfit;

/// The share of a load's I/Os that may differ in length, for I/Os of its set-up.
const OTHER_SHARE: f64 = 0.01;
/// The maximum number of I/Os listed, to be submitted in turn, if lengths or directions differ; later ones are
/// dropped.
const MOST_LISTED: usize = 65_536;
/// Their lengths must be multiples of this.
const LEAST_BLOCK_BYTES: u64 = 512;
/// Fewer I/Os than this give too coarse a rate: one more or less changes it by over a tenth.
const FEW: usize = 10;
/// I/Os submitted within this time of each other count as submitted together.
const TOGETHER_NS: u64 = 20_000;

/// One session's load.
pub(super) struct SessionLoad {
    pub(super) session: SessionId,
    /// When its first I/O was submitted.
    pub(super) began_ns: u64,
    /// Data of the I/Os that completed in the window.
    pub(super) done_bytes: u64,
    pub(super) config: LoadConfig,
}

/// An I/O that moves data.
struct Io {
    submitted_ns: u64,
    done_ns: u64,
    is_write: bool,
    bytes: u64,
}

/// Loads of all sessions with I/Os in the window.
pub(super) fn loads(cell: &Cell, moved: &Moved, window: Window) -> Result<Vec<SessionLoad>, Unfit> {
    let mut sessions: BTreeMap<SessionId, Vec<Io>> = BTreeMap::new();
    for task in &cell.joined.tasks {
        if let Some(io) = moved.io(cell, task) {
            sessions.entry(task.session).or_default().push(io);
        }
    }
    let loads = sessions.into_iter().filter_map(|(session, ios)| {
        let in_window = |io: &Io| window.overlap_ns(io.submitted_ns, io.done_ns) > 0;
        ios.iter().any(in_window).then(|| {
            let ios = whole(cell, session, ios);
            load(session, &ios, window, cell.has_begin(session))
        })
    });
    let loads: Vec<SessionLoad> = loads.collect::<Result<_, _>>()?;
    match loads.is_empty() {
        true => Err(Unfit::NoInitiator),
        false => Ok(loads),
    }
}

/// The data of each task, by its PDUs. Initiators reuse a tag as soon as its task ends, so the time of a PDU decides
/// which task it belongs to.
pub(super) struct Moved {
    /// In order of time.
    of: HashMap<(SessionId, TaskTag), Vec<Segment>>,
}

/// A data segment of a PDU.
struct Segment {
    at_ns: u64,
    /// 0 for data that is read, 1 for data that is written.
    way: usize,
    /// 0 if recorded as sent, 1 if recorded as received.
    end: usize,
    bytes: u64,
}

impl Moved {
    pub(super) fn of(cell: &Cell) -> Moved {
        let mut of: HashMap<_, Vec<Segment>> = HashMap::new();
        let pdus = cell.pdu.iter().flat_map(|table| &table.rows);
        for pdu in pdus.map(|row| &row.record).filter(|pdu| pdu.data_bytes > 0) {
            if let Some(way) = way(pdu) {
                of.entry((pdu.session, pdu.task))
                    .or_default()
                    .push(Segment {
                        at_ns: pdu.time.ns(),
                        way,
                        end: usize::from(pdu.direction == PduDirection::Received),
                        bytes: u64::from(pdu.data_bytes),
                    });
            }
        }
        for segments in of.values_mut() {
            segments.sort_by_key(|segment| segment.at_ns);
        }
        Moved { of }
    }

    /// Whether a task reads data.
    pub(super) fn is_read(&self, cell: &Cell, task: &Task) -> bool {
        self.io(cell, task).is_some_and(|io| !io.is_write)
    }

    /// A task as an I/O; `None` if it moves no data.
    fn io(&self, cell: &Cell, task: &Task) -> Option<Io> {
        let segments = self.of.get(&(task.session, task.tag))?;
        let (submitted_ns, done_ns) = task.span_ns(cell.joined.top()?, cell.joined.records)?;
        let first = segments.partition_point(|segment| segment.at_ns < submitted_ns);
        let own = segments[first..]
            .iter()
            .take_while(|segment| segment.at_ns <= done_ns);
        let mut moved = [[0_u64; 2]; 2];
        for segment in own {
            moved[segment.way][segment.end] += segment.bytes;
        }
        let [read, written] = moved.map(|ends| ends[0].max(ends[1]));
        (read.max(written) > 0).then_some(Io {
            submitted_ns,
            done_ns,
            is_write: written > 0,
            bytes: read.max(written),
        })
    }
}

/// 0 for data that is read, 1 for data that is written.
fn way(pdu: &Pdu) -> Option<usize> {
    match pdu.opcode {
        DATA_IN => Some(0),
        SCSI_COMMAND | DATA_OUT => Some(1),
        _ => None,
    }
}

fn load(
    session: SessionId,
    ios: &[Io],
    window: Window,
    has_begin: bool,
) -> Result<SessionLoad, Unfit> {
    let unfit = |what: String| Unfit::Load { session, what };
    // Excludes those whose data was still in flight when the recording ended.
    let done: Vec<&Io> = ios
        .iter()
        .filter(|io| window.contains(io.done_ns))
        .collect();
    let done_bytes = done.iter().map(|io| io.bytes).sum();
    // Other I/Os in between, such as multipath's checks, are not part of the load.
    let all = done.len();
    let done: Vec<&Io> = done
        .into_iter()
        .filter(|io| io.bytes.is_multiple_of(LEAST_BLOCK_BYTES))
        .collect();
    if (all - done.len()) as f64 > OTHER_SHARE * all as f64 {
        return Err(unfit(format!(
            "has I/Os that are no multiple of {LEAST_BLOCK_BYTES} bytes"
        )));
    }
    let mut lengths: BTreeMap<u64, usize> = BTreeMap::new();
    for io in &done {
        *lengths.entry(io.bytes).or_default() += 1;
    }
    let usual = lengths.iter().max_by_key(|(_, count)| **count);
    let (&usual_bytes, &count) = usual.ok_or_else(|| unfit("completed no I/O".to_owned()))?;
    let has_one_length = (done.len() - count) as f64 <= OTHER_SHARE * done.len() as f64;
    let writes = done.iter().filter(|io| io.is_write).count();
    let operation = match writes {
        0 => Operation::Read,
        all if all == done.len() => Operation::Write,
        _ => Operation::Mix,
    };
    let is_listed = !has_one_length || operation == Operation::Mix;
    let bytes = match is_listed {
        true => lengths.keys().copied().max().unwrap_or(usual_bytes),
        false => usual_bytes,
    };
    // Session set-up comes before, with I/Os of other lengths.
    let own: Vec<&Io> = ios
        .iter()
        .filter(|io| is_listed || io.bytes == bytes || io.done_ns >= window.to_ns)
        .collect();
    let listed = match is_listed {
        true => listed(&done).map_err(unfit)?,
        false => Arc::default(),
    };
    let spans: Vec<(u64, u64)> = own.iter().map(|io| (io.submitted_ns, io.done_ns)).collect();
    let shape = load_use(&spans, window, has_begin);
    let most = Population::of(spans.iter().copied()).max(window);
    let parallel = usize::try_from(most).unwrap_or(usize::MAX);
    let is_closed = shape.closed_loop || shape.batches;
    // The load waits for completions, so it is not paced, but does not submit all that it could.
    let follows = shape.follows_completions && (shape.is_pinned() || shape.is_prompt());
    if !is_closed && follows {
        let what = "waits for its I/Os to be done, and for something else besides";
        return Err(unfit(what.to_owned()));
    }
    Ok(SessionLoad {
        session,
        began_ns: spans
            .iter()
            .map(|span| span.0)
            .min()
            .unwrap_or(window.from_ns),
        done_bytes,
        config: LoadConfig {
            operation,
            pattern: Pattern::Random,
            block_bytes: u32::try_from(bytes)
                .map_err(|_| unfit("has I/Os beyond 4 GiB".to_owned()))?,
            listed,
            parallel,
            batch: shape.batches && parallel > 1,
            limit: Limit::Count(0),
            warmup: std::time::Duration::ZERO,
            drain: None,
            rate_per_s: (!is_closed).then(|| rate_per_s(&spans, window)),
            seed: 0,
            verify: false,
        },
    })
}

/// I/Os submitted per second of the window; if only a few were, per second from the load's first I/O on.
fn rate_per_s(spans: &[(u64, u64)], window: Window) -> f64 {
    let submitted = |within: Window| {
        let begun = spans
            .iter()
            .filter(|(from_ns, _)| within.contains(*from_ns));
        begun.count()
    };
    let first_ns = spans.iter().map(|(from_ns, _)| *from_ns).min();
    let since_first = Window {
        from_ns: first_ns.map_or(window.from_ns, |first_ns| first_ns.min(window.from_ns)),
        ..window
    };
    let measured = match submitted(window) < FEW {
        true => since_first,
        false => window,
    };
    submitted(measured) as f64 / measured.seconds().max(1e-9)
}

/// List of these I/Os, in order.
fn listed(ios: &[&Io]) -> Result<Arc<[Listed]>, String> {
    let listed = ios.iter().take(MOST_LISTED).map(|io| {
        Ok(Listed {
            write: io.is_write,
            bytes: u32::try_from(io.bytes).map_err(|_| "has I/Os beyond 4 GiB".to_owned())?,
        })
    });
    listed.collect()
}

/// The I/Os in order of submission. Writes that the initiator's [`Splitter`](wansan_iscsi::initiator::Splitter) split,
/// and whose parts it submitted together, become one I/O each.
fn whole(cell: &Cell, session: SessionId, mut ios: Vec<Io>) -> Vec<Io> {
    ios.sort_by_key(|io| io.submitted_ns);
    let connections = cell.connection.iter().flat_map(|table| &table.rows);
    let mut keys = connections
        .map(|row| &row.record)
        .filter(|record| record.session == session && record.role == Role::Initiator);
    let Some((keys, _)) = keys.find_map(keys_of) else {
        return ios;
    };
    let is_part = |io: &Io| io.is_write && io.bytes == part_bytes(&keys) as u64;
    let submitted_ns: Vec<u64> = ios
        .iter()
        .filter(|io| is_part(io))
        .map(|io| io.submitted_ns)
        .collect();
    let together = submitted_ns.chunk_by(|one, next| next - one <= TOGETHER_NS);
    let parts = together
        .map(<[u64]>::len)
        .fold(0, |all, size| divisor(all, size as u64));
    if parts <= 1 {
        return ios;
    }
    let mut whole: Vec<Io> = Vec::new();
    // Index of the write that lacks parts, and how many it lacks.
    let mut open = (0, 0);
    for io in ios {
        match (is_part(&io), open) {
            (true, (place, missing @ 1..)) => {
                whole[place].bytes += io.bytes;
                whole[place].done_ns = whole[place].done_ns.max(io.done_ns);
                open = (place, missing - 1);
            }
            (true, _) => {
                open = (whole.len(), parts - 1);
                whole.push(io);
            }
            (false, _) => whole.push(io),
        }
    }
    whole
}

/// The greatest common divisor.
fn divisor(one: u64, other: u64) -> u64 {
    match other {
        0 => one,
        _ => divisor(other, one % other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_whose_ios_all_began_before_the_window_has_a_rate() {
        const SECOND_NS: u64 = 1_000_000_000;
        let window = Window {
            from_ns: 2 * SECOND_NS,
            to_ns: 4 * SECOND_NS,
        };
        let spans: Vec<(u64, u64)> = (0..30)
            .map(|number| (SECOND_NS + number, 3 * SECOND_NS))
            .collect();
        let rate = rate_per_s(&spans, window);
        assert!((rate - 10.0).abs() < 1e-6, "{rate}");
        // A few later ones have little effect.
        let later = |count| vec![(2 * SECOND_NS, 3 * SECOND_NS); count];
        let few = [&spans[..], &later(3)].concat();
        let rate = rate_per_s(&few, window);
        assert!((rate - 11.0).abs() < 1e-6, "{rate}");
        let many = [&spans[..], &later(FEW)].concat();
        let rate = rate_per_s(&many, window);
        assert!((rate - 5.0).abs() < 1e-6, "{rate}");
    }
}
