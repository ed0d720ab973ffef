//! Stalls of I/Os, a line per cause.

use std::io::{self, Write};

use wansan_insight::CellSummary;
use wansan_insight::stall::{Cause, Role};
use wansan_schema::ShownPacket;

/// Prints the stalls of a cell, each line after `before`; `unit` is what packets are counted in.
pub(super) fn print(
    out: &mut dyn Write,
    before: &str,
    unit: &str,
    summary: &CellSummary,
) -> io::Result<()> {
    let Some(stalls) = &summary.stalls else {
        return Ok(());
    };
    for of_cause in &stalls.causes {
        let cause = Cause::by_name(&of_cause.cause);
        let packets: Vec<String> = of_cause
            .example
            .packets
            .iter()
            .map(|shown| packet(shown, unit, summary.window.from_ns))
            .collect();
        writeln!(
            out,
            "{before}{:.3} ms per I/O: {} ({} of {} I/Os{}{}).",
            of_cause.cost_ns / 1e6,
            cause.map_or("", Cause::in_words),
            of_cause.ios,
            stalls.ios,
            if packets.is_empty() { "" } else { "; such as " },
            packets.join(", "),
        )?;
    }
    match stalls.causes.len() {
        0 => Ok(()),
        _ => writeln!(out),
    }
}

/// Describes a packet that shows a stall. Frames of a capture count from 1: one that was not captured has no number.
fn packet(shown: &ShownPacket, unit: &str, from_ns: u64) -> String {
    let at_ms = (shown.sent_ns as f64 - from_ns as f64) / 1e6;
    let role = Role::ALL.into_iter().find(|role| role.name() == shown.role);
    let role = role.map_or("", Role::in_words);
    match (unit, shown.packet) {
        ("frame", 0) => format!("a segment that was not captured ({role} at {at_ms:.3} ms)"),
        (unit, number) => format!("{unit} {number} ({role} at {at_ms:.3} ms)"),
    }
}
