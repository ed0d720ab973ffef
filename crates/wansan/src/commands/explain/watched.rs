//! Explains a folder recorded by a watch: TCP's own statistics of each connection.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;
use wansan_insight::backlog::{BacklogUse, backlog_use, relays};
use wansan_insight::run::CellTcp;
use wansan_insight::watched::{SenderLimit, Watched, watched};
use wansan_insight::window::Window;
use wansan_schema::Parameters;
use wansan_trace::event::Tcp;
use wansan_trace::file::{Dropped, Table};

use crate::commands::{print_json, print_text};

/// The output of `--json`.
#[derive(Serialize)]
struct Explanation<'a> {
    connections: Vec<Watched>,
    dropped: &'a Dropped,
}

/// Explains the `tcp` records of a watch in `folder`.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn explain(folder: &Path, table: &Table<Tcp>, json: bool) -> Result<ExitCode> {
    let explanation = Explanation {
        connections: watched(table),
        dropped: &table.dropped,
    };
    if json {
        print_json(&serde_json::to_string_pretty(&explanation)?)?;
    } else {
        print_text(|out| print(out, folder, &explanation))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One cell of a run that measured streams.
#[derive(Serialize)]
struct Streams<'a> {
    cell: u64,
    parameters: &'a Parameters,
    /// Backlogs of relays, by the relays' names in records.
    backlogs: BTreeMap<&'a str, BacklogUse>,
    connections: Vec<Watched>,
    dropped: &'a Dropped,
}

/// Explains a run that measured streams and had no I/Os.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn explain_cells(cells: &[CellTcp<'_>], json: bool) -> Result<ExitCode> {
    let whole = Window {
        from_ns: 0,
        to_ns: u64::MAX,
    };
    let cells: Vec<Streams<'_>> = cells
        .iter()
        .map(|(cell, table)| Streams {
            cell: cell.cell,
            parameters: &cell.parameters,
            backlogs: relays(table)
                .into_iter()
                .filter_map(|host| {
                    let window = cell.window.unwrap_or(whole);
                    Some((host, backlog_use(table, host, window)?))
                })
                .collect(),
            connections: watched(table),
            dropped: &table.dropped,
        })
        .collect();
    if json {
        print_json(&serde_json::to_string_pretty(&cells)?)?;
    } else {
        print_text(|out| cells.iter().try_for_each(|cell| print_cell(out, cell)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_cell(out: &mut dyn Write, cell: &Streams<'_>) -> io::Result<()> {
    let set: Vec<String> = cell
        .parameters
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    writeln!(
        out,
        "Cell {} ({}): no I/Os, {} connection endpoints.",
        cell.cell,
        if set.is_empty() {
            "as the plan says".to_owned()
        } else {
            set.join(", ")
        },
        cell.connections.len()
    )?;
    for (host, backlog) in &cell.backlogs {
        writeln!(
            out,
            "{host}: backlog {:.0} bytes mean, {} p99, {} max, at {:.1} Mbit/s; queueing delay \
             {:.3} ms mean, {:.3} ms p99, {:.3} ms max",
            backlog.mean_bytes,
            backlog.p99_bytes,
            backlog.max_bytes,
            backlog.bytes_per_s * 8.0 / 1e6,
            backlog.mean_ns / 1e6,
            backlog.p99_ns as f64 / 1e6,
            backlog.max_ns as f64 / 1e6
        )?;
    }
    for connection in &cell.connections {
        print_connection(out, connection)?;
    }
    writeln!(out)
}

fn print(out: &mut dyn Write, folder: &Path, explanation: &Explanation<'_>) -> io::Result<()> {
    match explanation.connections.len() {
        0 => writeln!(
            out,
            "{}: the TCP records hold no connection: record again while one is open (wansan watch \
             --record FOLDER; select it with --port, --pid, --netns or a filter expression)",
            folder.display()
        )?,
        ends => writeln!(
            out,
            "Only TCP was recorded, at {ends} connection endpoints; nothing is known of I/Os. What \
             limited each as a sender:"
        )?,
    }
    for (host, count) in explanation.dropped.iter().filter(|(_, count)| **count > 0) {
        writeln!(
            out,
            "{count} records of {host} were dropped: its record memory was full."
        )?;
    }
    for connection in &explanation.connections {
        print_connection(out, connection)?;
    }
    Ok(())
}

fn print_connection(out: &mut dyn Write, connection: &Watched) -> io::Result<()> {
    let way = if connection.is_traced {
        "traced"
    } else {
        "sampled"
    };
    let rate = connection.sender.as_ref().map_or(0.0, |sender| {
        sender.acked_bytes as f64 * 8.0 / 1e6 / connection.seconds.max(1e-9)
    });
    writeln!(
        out,
        "\n{}: {} ({:.3} s, {way}, {rate:.1} Mbit/s)",
        connection.host, connection.ends, connection.seconds
    )?;
    let (Some(sender), Some(limit)) = (&connection.sender, connection.limit) else {
        return writeln!(out, "  too short to analyse: fewer than two samples");
    };
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    writeln!(
        out,
        "  {}: busy (data to send) {} of the time; limited by its congestion window {}, by the \
         peer's receive window {}, by its send buffer {}",
        SenderLimit::in_words(limit),
        percent(sender.busy_share),
        percent(sender.congestion_limited_share),
        percent(sender.rwnd_limited_share),
        percent(sender.sndbuf_limited_share),
    )?;
    writeln!(
        out,
        "  {} bytes acknowledged; cwnd {:.1} segments, {:.1} in flight; RTT {:.3} ms (minimum \
         {:.3} ms); {} segments retransmitted",
        sender.acked_bytes,
        sender.cwnd_packets,
        sender.in_flight_packets,
        sender.srtt_ns / 1e6,
        sender.min_rtt_ns as f64 / 1e6,
        sender.retransmits,
    )?;
    writeln!(
        out,
        "  window reductions: {} without loss, {} by fast recovery, {} by a timeout",
        sender.cwr_events, sender.recovery_events, sender.loss_events,
    )?;
    if connection.events.is_empty() {
        return Ok(());
    }
    let events = connection
        .events
        .iter()
        .map(|(name, count)| format!("{count} {name}"));
    writeln!(out, "  events: {}", events.collect::<Vec<_>>().join(", "))
}
