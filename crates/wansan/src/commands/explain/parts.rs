//! Explains a capture in parts.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use wansan_insight::CellSummary;
use wansan_insight::capture::{Capture, CapturedConnection, MissingEnds, UnreadLink, finding};
use wansan_trace::units::format_iops;

use super::super::grid::{grid, right};

/// A part of a capture, as long as can be explained at once.
#[derive(Serialize)]
pub(super) struct Part {
    /// Times of its first and last frame, since 1970.
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    finding: String,
    pub(super) summary: CellSummary,
}

impl Part {
    /// Total time of its I/Os.
    fn io_ns(&self) -> f64 {
        let total = &self.summary.total;
        total.ios as f64 * total.latency.mean_ns
    }
}

/// A read capture: its parts, and facts about all of them.
#[derive(Default)]
pub(super) struct Read {
    pub(super) parts: Vec<Part>,
    pub(super) connections: Vec<CapturedConnection>,
    pub(super) others: usize,
    pub(super) unread: Vec<UnreadLink>,
    pub(super) unpaired: u64,
    pub(super) in_progress: u64,
    pub(super) missing_ends: MissingEnds,
}

impl Read {
    pub(super) fn take(&mut self, capture: &Capture) {
        let summary = capture.summarise();
        self.parts.push(Part {
            from_ns: capture.span.from_ns,
            to_ns: capture.span.to_ns,
            finding: finding(&summary),
            summary,
        });
        for connection in &capture.connections {
            let is_known = |known: &&mut CapturedConnection| known.is_same(connection);
            match self.connections.iter_mut().find(is_known) {
                Some(known) => known.merge(connection),
                None => self.connections.push(connection.clone()),
            }
        }
        // The count carries over from part to part.
        self.others = self.others.max(capture.others);
        capture.unread.clone_into(&mut self.unread);
        self.unpaired += capture.unpaired;
        self.in_progress += capture.in_progress;
        self.missing_ends.merge(&capture.missing_ends);
    }
}

/// The finding without its numbers.
fn kind(part: &Part) -> &str {
    let end = part.finding.find(|c: char| c.is_ascii_digit());
    &part.finding[..end.unwrap_or(part.finding.len())]
}

/// The part with the most I/O time.
fn longest<'p>(parts: impl IntoIterator<Item = &'p Part>) -> &'p Part {
    parts
        .into_iter()
        .max_by(|one, other| one.io_ns().total_cmp(&other.io_ns()))
        .expect("there is a part")
}

/// Groups consecutive parts with findings of one kind, each with the number of its first part.
fn alike(parts: &[Part]) -> impl Iterator<Item = (usize, &[Part])> {
    let runs = parts.chunk_by(|one, other| kind(one) == kind(other));
    runs.scan(1, |next, run| {
        let first = *next;
        *next += run.len();
        Some((first, run))
    })
}

/// The finding that accounts for the most I/O time.
pub(super) fn finding_of(parts: &[Part]) -> String {
    let mut kinds: BTreeMap<&str, Vec<&Part>> = BTreeMap::new();
    for part in parts {
        kinds.entry(kind(part)).or_default().push(part);
    }
    let io_ns = |parts: &[&Part]| parts.iter().map(|part| part.io_ns()).sum::<f64>();
    let all_ns: f64 = kinds.values().map(|parts| io_ns(parts)).sum();
    let most = kinds
        .into_values()
        .max_by(|one, other| io_ns(one).total_cmp(&io_ns(other)));
    let Some(most) = most else {
        return String::new();
    };
    let finding = &longest(most.iter().copied()).finding;
    match (parts.len(), most.len()) {
        (1, _) => finding.clone(),
        (all, some) if all == some => format!("In all parts, as in the longest: {finding}"),
        _ => {
            let share = 100.0 * io_ns(&most) / all_ns;
            format!(
                "In parts with {share:.0} % of the I/Os' time, as in the longest of them: {finding}"
            )
        }
    }
}

/// Prints the parts, one line each, with their explanations.
pub(super) fn print(out: &mut dyn Write, parts: &[Part]) -> io::Result<()> {
    let first_ns = parts.first().map_or(0, |part| part.from_ns);
    let mut table = grid([
        "part", "from s", "seconds", "I/Os", "IOPS", "mean ms", "p99 ms",
    ]);
    for (number, part) in (1..).zip(parts) {
        let total = &part.summary.total;
        let seconds = |ns: u64| format!("{:.3}", ns as f64 / 1e9);
        table.add_row(vec![
            u32::to_string(&number),
            seconds(part.from_ns.saturating_sub(first_ns)),
            seconds(part.to_ns.saturating_sub(part.from_ns)),
            total.ios.to_string(),
            format_iops(total.iops),
            format!("{:.2}", total.latency.mean_ns / 1e6),
            format!("{:.2}", total.latency.p99_ns as f64 / 1e6),
        ]);
    }
    right(&mut table, [0, 1, 2, 3, 4, 5, 6]);
    writeln!(out, "{table}\n")?;
    for (first, alike) in alike(parts) {
        let last = first + alike.len() - 1;
        let numbers = match alike.len() {
            1 => format!("Part {first}"),
            _ => format!("Parts {first} to {last}"),
        };
        writeln!(out, "{numbers}: {}", longest(alike).finding)?;
    }
    writeln!(out)
}
