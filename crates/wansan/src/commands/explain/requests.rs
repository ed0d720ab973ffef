//! Requests of programs to attached disks, and their waits.

use std::io::{self, Write};

use wansan_insight::cause::Cause;
use wansan_insight::ledger::RequestUse;
use wansan_trace::event::RequestWait;

use super::super::grid::{grid, right};

/// Most causes listed per kind of request.
const MOST_CAUSES: usize = 4;

/// Prints a table of them after `before`, and where their time went.
pub(super) fn print(out: &mut dyn Write, before: &str, requests: &[RequestUse]) -> io::Result<()> {
    if requests.is_empty() {
        return Ok(());
    }
    let waits: Vec<RequestWait> = RequestWait::ALL
        .into_iter()
        .filter(|wait| requests.iter().any(|one| one.waits_for.contains_key(wait)))
        .collect();
    let fixed = [
        "request", "per s", "MB/s", "open", "mean\nms", "p99\nms", "hits\n%",
    ];
    let mut header: Vec<String> = fixed.map(str::to_owned).into();
    header.extend(
        waits
            .iter()
            .map(|wait| format!("{}\n%", wait.name().replace('_', " "))),
    );
    let mut table = grid(header);
    for one in requests {
        let mut row = vec![
            one.kind.name().to_owned(),
            format!("{:.0}", one.per_s),
            format!("{:.1}", one.bytes_per_s / 1e6),
            format!("{:.1}", one.in_flight_mean),
            format!("{:.3}", one.latency.mean_ns / 1e6),
            format!("{:.3}", one.latency.p99_ns as f64 / 1e6),
            format!("{:.1}", one.hit_share * 100.0),
        ];
        row.extend(waits.iter().map(|wait| {
            let share = one.waits_for.get(wait);
            share.map_or_else(String::new, |share| format!("{:.1}", share * 100.0))
        }));
        table.add_row(row);
    }
    right(&mut table, 1..fixed.len() + waits.len());
    writeln!(
        out,
        "{before}requests of programs, and the share of their time that they waited for what:"
    )?;
    writeln!(out, "{table}\n")?;
    for one in requests {
        let parts = causes(one);
        if !parts.is_empty() {
            writeln!(out, "  {}: {}", one.kind.name(), parts.join(", "))?;
        }
    }
    writeln!(out)
}

/// Describes the causes that took most of the time.
fn causes(one: &RequestUse) -> Vec<String> {
    let mean_ns = |cause: Cause| one.waits.mean_ns(cause);
    let mut causes: Vec<Cause> = Cause::ALL
        .into_iter()
        .filter(|cause| mean_ns(*cause) > 0.0)
        .collect();
    causes.sort_by(|a, b| mean_ns(*b).total_cmp(&mean_ns(*a)));
    let part = |cause: Cause| {
        let share = mean_ns(cause) / one.waits.latency_ns.max(1.0);
        format!("{} {:.1} %", cause.name().replace('_', " "), share * 100.0)
    };
    causes.into_iter().take(MOST_CAUSES).map(part).collect()
}
