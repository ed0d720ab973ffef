//! What the applications asked for, and when.

use std::collections::{BTreeMap, HashMap};

use wansan_insight::join::Task;
use wansan_insight::load::load_use;
use wansan_insight::opcode::{DATA_IN, DATA_OUT, SCSI_COMMAND};
use wansan_insight::population::Population;
use wansan_insight::{Cell, Window};
use wansan_iscsi::initiator::part_bytes;
use wansan_iscsi::record::keys_of;
use wansan_trace::event::{Pdu, PduDirection, Role};
use wansan_trace::{Layer, SessionId, TaskTag};
use wansan_workload::sequence::{Operation, Pattern};
use wansan_workload::{Limit, LoadConfig};

use super::Unfit;

/// The share of a load's I/Os that may have another length: those of its set-up.
const OTHER_SHARE: f64 = 0.01;
/// Reads among the I/Os of a mix: from and to.
const MIX_READS: (f64, f64) = (0.6, 0.8);
/// I/Os that are submitted within this time of each other are submitted together.
const TOGETHER_NS: u64 = 20_000;

/// One session's load.
pub(super) struct SessionLoad {
    pub(super) session: SessionId,
    /// When its first I/O was submitted.
    pub(super) began_ns: u64,
    pub(super) config: LoadConfig,
}

/// An I/O that moves data.
struct Io {
    submitted_ns: u64,
    done_ns: u64,
    is_write: bool,
    bytes: u64,
}

/// The loads of all sessions that had I/Os in the window.
pub(super) fn loads(cell: &Cell, window: Window) -> Result<Vec<SessionLoad>, Unfit> {
    let moved = Moved::of(cell);
    let mut sessions: BTreeMap<SessionId, Vec<Io>> = BTreeMap::new();
    for task in &cell.joined.tasks {
        if let Some(io) = moved.io(cell, task) {
            sessions.entry(task.session).or_default().push(io);
        }
    }
    let loads = sessions.into_iter().filter_map(|(session, ios)| {
        let in_window = |io: &Io| window.overlap_ns(io.submitted_ns, io.done_ns) > 0;
        ios.iter()
            .any(in_window)
            .then(|| load(cell, session, &ios, window))
    });
    let loads: Vec<SessionLoad> = loads.collect::<Result<_, _>>()?;
    match loads.is_empty() {
        true => Err(Unfit::NoInitiator),
        false => Ok(loads),
    }
}

/// Data of each task, by its PDUs.
struct Moved {
    /// Read and written, as the sender and as the receiver recorded it.
    of: HashMap<(SessionId, TaskTag), [[u64; 2]; 2]>,
}

impl Moved {
    fn of(cell: &Cell) -> Moved {
        let mut of: HashMap<_, [[u64; 2]; 2]> = HashMap::new();
        let pdus = cell.pdu.iter().flat_map(|table| &table.rows);
        for pdu in pdus.map(|row| &row.record).filter(|pdu| pdu.data_bytes > 0) {
            if let Some(way) = way(pdu) {
                let end = usize::from(pdu.direction == PduDirection::Received);
                let bytes = of.entry((pdu.session, pdu.task)).or_default();
                bytes[way][end] += u64::from(pdu.data_bytes);
            }
        }
        Moved { of }
    }

    /// A task as an I/O; `None` of one that moves no data.
    fn io(&self, cell: &Cell, task: &Task) -> Option<Io> {
        let moved = self.of.get(&(task.session, task.tag))?;
        let [read, written] = moved.map(|ends| ends[0].max(ends[1]));
        let (submitted_ns, done_ns) = task.span_ns(Layer::App, cell.joined.records)?;
        Some(Io {
            submitted_ns,
            done_ns,
            is_write: written > 0,
            bytes: read.max(written),
        })
    }
}

/// 0 of data that is read, 1 of data that is written.
fn way(pdu: &Pdu) -> Option<usize> {
    match pdu.opcode {
        DATA_IN => Some(0),
        SCSI_COMMAND | DATA_OUT => Some(1),
        _ => None,
    }
}

fn load(cell: &Cell, session: SessionId, ios: &[Io], window: Window) -> Result<SessionLoad, Unfit> {
    let unfit = |what: String| Unfit::Load { session, what };
    // Not those whose data was still on its way when the recording ended.
    let done: Vec<&Io> = ios
        .iter()
        .filter(|io| window.contains(io.done_ns))
        .collect();
    let mut lengths: BTreeMap<u64, usize> = BTreeMap::new();
    for io in &done {
        *lengths.entry(io.bytes).or_default() += 1;
    }
    let usual = lengths.iter().max_by_key(|(_, count)| **count);
    let (&bytes, &count) = usual.ok_or_else(|| unfit("completed no I/O".to_owned()))?;
    if (done.len() - count) as f64 > OTHER_SHARE * done.len() as f64 {
        let by_parts = match done.iter().any(|io| io.is_write) {
            true => " (long writes count by the parts that the initiator makes of them)",
            false => "",
        };
        return Err(unfit(format!(
            "has I/Os of {} lengths{by_parts}",
            lengths.len()
        )));
    }
    let reads = done.iter().filter(|io| !io.is_write).count() as f64 / done.len() as f64;
    let operation = match reads {
        1.0 => Operation::Read,
        0.0 => Operation::Write,
        share if share > MIX_READS.0 && share < MIX_READS.1 => Operation::Mix,
        share => return Err(unfit(format!("is a mix with {:.0} % reads", share * 100.0))),
    };
    // What set the session up came before, with other lengths.
    let own: Vec<&Io> = ios
        .iter()
        .filter(|io| io.bytes == bytes || io.done_ns >= window.to_ns)
        .collect();
    let parts = match operation {
        Operation::Write => parts(cell, session, bytes, &own),
        _ => 1,
    };
    let spans: Vec<(u64, u64)> = own.iter().map(|io| (io.submitted_ns, io.done_ns)).collect();
    let shape = load_use(&spans, window);
    let most = Population::of(spans.iter().copied()).max(window);
    let parallel = usize::try_from(most.div_ceil(parts)).unwrap_or(usize::MAX);
    let begun = spans
        .iter()
        .filter(|(from_ns, _)| window.contains(*from_ns));
    let rate_per_s = begun.count() as f64 / parts as f64 / window.seconds().max(1e-9);
    let is_closed = shape.closed_loop || shape.batches || parts > 1;
    Ok(SessionLoad {
        session,
        began_ns: spans
            .iter()
            .map(|span| span.0)
            .min()
            .unwrap_or(window.from_ns),
        config: LoadConfig {
            operation,
            pattern: Pattern::Random,
            block_bytes: u32::try_from(bytes * parts)
                .map_err(|_| unfit("has I/Os beyond 4 GiB".to_owned()))?,
            parallel,
            batch: shape.batches && parts == 1 && parallel > 1,
            limit: Limit::Count(0),
            warmup: std::time::Duration::ZERO,
            drain: None,
            rate_per_s: (!is_closed).then_some(rate_per_s),
            seed: 0,
            verify: false,
        },
    })
}

/// How many parts the initiator has made of each write: its [`Splitter`](wansan_iscsi::initiator::Splitter)
/// submits those of one write together.
fn parts(cell: &Cell, session: SessionId, bytes: u64, ios: &[&Io]) -> u64 {
    let connections = cell.connection.iter().flat_map(|table| &table.rows);
    let mut keys = connections
        .map(|row| &row.record)
        .filter(|record| record.session == session && record.role == Role::Initiator);
    let keys = keys.find_map(keys_of);
    if keys.is_none_or(|(keys, _)| part_bytes(&keys) as u64 != bytes) {
        return 1;
    }
    let mut submitted_ns: Vec<u64> = ios.iter().map(|io| io.submitted_ns).collect();
    submitted_ns.sort_unstable();
    let together = submitted_ns.chunk_by(|one, next| next - one <= TOGETHER_NS);
    together
        .map(<[u64]>::len)
        .fold(0, |all, size| divisor(all, size as u64))
        .max(1)
}

/// The greatest common divisor.
fn divisor(one: u64, other: u64) -> u64 {
    match other {
        0 => one,
        _ => divisor(other, one % other),
    }
}
