//! What a capture tells.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;
use wansan_insight::CellSummary;
use wansan_insight::capture::{
    Capture, CaptureEnd, CapturedConnection, End, MOST_SEGMENTS, UnreadLink, finding,
    unread_in_words,
};

use super::stalls;
use crate::commands::{print_json, print_text};

/// Everything that is printed with `--json`.
#[derive(Serialize)]
struct Explanation<'a> {
    frames: u64,
    unread: &'a [UnreadLink],
    seconds: f64,
    end: &'a CaptureEnd,
    connections: &'a [CapturedConnection],
    other_connections: usize,
    finding: String,
    summary: CellSummary,
}

/// Explains the capture in `file`.
///
/// # Errors
/// When it cannot be read, is no capture, or holds no PDUs.
pub(super) fn explain(file: &Path, json: bool) -> Result<ExitCode> {
    let capture = Capture::read(file)?;
    let summary = capture.summarise();
    let explanation = Explanation {
        frames: capture.frames,
        unread: &capture.unread,
        seconds: capture.span.seconds(),
        end: &capture.end,
        connections: &capture.connections,
        other_connections: capture.others,
        finding: finding(&summary),
        summary,
    };
    if json {
        print_json(&serde_json::to_string_pretty(&explanation)?)?;
    } else {
        print_text(|out| print(out, file, &explanation))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(out: &mut dyn Write, file: &Path, explanation: &Explanation<'_>) -> io::Result<()> {
    let Explanation {
        frames, seconds, ..
    } = explanation;
    let others = match explanation.other_connections {
        0 => String::new(),
        others => format!(", {others} without"),
    };
    let connections = explanation.connections.len();
    let of_iscsi = if connections == 1 {
        "connection"
    } else {
        "connections"
    };
    writeln!(
        out,
        "{}: {frames} frames in {seconds:.3} s; {connections} {of_iscsi} with iSCSI{others}.",
        file.display(),
    )?;
    match explanation.end {
        CaptureEnd::Whole => {}
        CaptureEnd::CutOff => writeln!(out, "It is cut off behind frame {frames}.")?,
        CaptureEnd::Damaged(reason) => {
            writeln!(out, "It is damaged behind frame {frames}: {reason}.")?;
        }
        CaptureEnd::Full => writeln!(
            out,
            "Only its first {MOST_SEGMENTS} segments are explained, up to frame {frames}."
        )?,
    }
    if let Some(unread) = unread_in_words(explanation.unread) {
        writeln!(out, "There are {unread}.")?;
    }
    for connection in explanation.connections {
        print_connection(out, connection)?;
    }
    if explanation.summary.total.ios > 0 {
        print_ios(out, &explanation.summary)?;
    }
    for session in &explanation.summary.sessions {
        if let Some(window) = session.command_window {
            writeln!(
                out,
                "Command window of session {}: at most {} commands; closed {:.0} % of the time.",
                session.session,
                window.slots,
                window.closed_share * 100.0,
            )?;
        }
    }
    writeln!(out)?;
    stalls::print(out, "", "frame", &explanation.summary)?;
    writeln!(out, "{}", explanation.finding)
}

fn print_ios(out: &mut dyn Write, summary: &CellSummary) -> io::Result<()> {
    let total = &summary.total;
    let in_flight = total.layers.first().map_or(0.0, |held| held.in_flight_mean);
    writeln!(
        out,
        "\nI/Os: {}, {:.0} a second, {in_flight:.1} in flight on average; {:.2} ms each, half of them up \
         to {:.2} ms, 99 in 100 up to {:.2} ms.",
        total.ios,
        total.iops,
        total.latency.mean_ns / 1e6,
        total.latency.p50_ns as f64 / 1e6,
        total.latency.p99_ns as f64 / 1e6,
    )?;
    if let Some(stalls) = &summary.stalls {
        writeln!(out, "Round trips of an I/O: {:.2}.", stalls.round_trips)?;
    }
    Ok(())
}

fn print_connection(out: &mut dyn Write, connection: &CapturedConnection) -> io::Result<()> {
    writeln!(
        out,
        "\nSession {}, connection {}: {} to {}",
        connection.session, connection.connection, connection.initiator, connection.target,
    )?;
    if let (Some(initiator), Some(target)) = (&connection.initiator_name, &connection.target_name) {
        writeln!(out, "  {initiator} to {target}")?;
    }
    let round_trip = |of: Option<u64>| {
        of.map_or_else(
            || "unknown".to_owned(),
            |ns| format!("{:.3} ms", ns as f64 / 1e6),
        )
    };
    writeln!(
        out,
        "  least round trip from here: to the initiator {}, to the target {}",
        round_trip(connection.initiator_round_trip_ns),
        round_trip(connection.target_round_trip_ns),
    )?;
    let [by_initiator, by_target] = connection.sent_again;
    writeln!(
        out,
        "  {} segments; sent again {by_initiator} by the initiator, {by_target} by the target; {} \
         missing in the capture",
        connection.segments, connection.missed,
    )?;
    match connection.unheard {
        None => {}
        Some(End::Initiator) => writeln!(
            out,
            "  nothing that the initiator sent is in the capture: its commands, the data of its writes and \
             its acknowledgements are not known, nor how long an I/O, a round trip or a stall took; \
             capture both directions"
        )?,
        Some(End::Target) => writeln!(
            out,
            "  nothing that the target sent is in the capture: its answers, the data of reads and its \
             acknowledgements are not known, nor how long an I/O, a round trip or a stall took; capture \
             both directions"
        )?,
    }
    if connection.hidden > 0 {
        writeln!(
            out,
            "  PDUs began in what was cut off from frames {} times, and are not known; capture whole \
             frames",
            connection.hidden,
        )?;
    }
    let pdus = connection
        .pdus
        .iter()
        .map(|(name, count)| format!("{count} {name}"));
    writeln!(out, "  PDUs: {}", pdus.collect::<Vec<_>>().join(", "))
}
