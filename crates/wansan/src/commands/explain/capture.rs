//! What a capture tells.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;
use wansan_insight::CellSummary;
use wansan_insight::capture::{
    Capture, CaptureEnd, CapturedConnection, End, MOST_KEPT, MissingEnds, UnreadLink, finding,
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
    unpaired: u64,
    missing_ends: MissingEnds,
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
        unpaired: capture.unpaired,
        missing_ends: capture.missing_ends,
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
        CaptureEnd::CutOff => writeln!(out, "The file is truncated after frame {frames}.")?,
        CaptureEnd::Damaged(reason) => {
            writeln!(out, "The file is corrupt after frame {frames}: {reason}.")?;
        }
        CaptureEnd::Full => writeln!(
            out,
            "Only the first {MOST_KEPT} segments and PDUs are analysed, up to frame {frames}."
        )?,
    }
    if let Some(unread) = unread_in_words(explanation.unread) {
        writeln!(out, "There are {unread}.")?;
    }
    for connection in explanation.connections {
        print_connection(out, connection)?;
    }
    if explanation.summary.total.ios > 0 {
        print_ios(out, explanation)?;
    }
    if explanation.unpaired > 0 {
        writeln!(
            out,
            "I/Os excluded, as their command or status is not in the capture: {}.",
            explanation.unpaired,
        )?;
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

fn print_ios(out: &mut dyn Write, explanation: &Explanation<'_>) -> io::Result<()> {
    let summary = &explanation.summary;
    let total = &summary.total;
    let in_flight = total.layers.first().map_or(0.0, |held| held.in_flight_mean);
    writeln!(
        out,
        "\nI/Os: {}, {:.0} IOPS, {in_flight:.1} in flight on average; latency {:.2} ms mean, \
         {:.2} ms p50, {:.2} ms p99.",
        total.ios,
        total.iops,
        total.latency.mean_ns / 1e6,
        total.latency.p50_ns as f64 / 1e6,
        total.latency.p99_ns as f64 / 1e6,
    )?;
    let open = explanation.missing_ends;
    if open.ios > 0 {
        writeln!(
            out,
            "The last bytes of {} I/Os are not in the capture: they took up to {:.2} ms longer on average.",
            open.ios,
            open.later_ns / 1e6,
        )?;
    }
    if let Some(stalls) = &summary.stalls {
        let is_filtered = explanation.connections.iter().any(|of| of.filtered);
        let least = if is_filtered { "at least " } else { "" };
        writeln!(
            out,
            "Round trips per I/O: {least}{:.2}.",
            stalls.round_trips
        )?;
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
        "  minimum RTT from the capture point{}: to the initiator {}, to the target {}",
        if connection.filtered {
            " (upper bounds)"
        } else {
            ""
        },
        round_trip(connection.initiator_round_trip_ns),
        round_trip(connection.target_round_trip_ns),
    )?;
    let [by_initiator, by_target] = connection.sent_again;
    writeln!(
        out,
        "  {} segments; retransmitted: {by_initiator} by the initiator, {by_target} by the target; \
         {} missing from the capture",
        connection.segments, connection.missed,
    )?;
    match connection.unheard {
        None => {}
        Some(End::Initiator) => writeln!(
            out,
            "  the capture has no segments from the initiator: its commands, write data and ACKs \
             are unknown, and so are the times of I/Os, round trips and stalls; capture both \
             directions"
        )?,
        Some(End::Target) => writeln!(
            out,
            "  the capture has no segments from the target: its responses, read data and ACKs are \
             unknown, and so are the times of I/Os, round trips and stalls; capture both directions"
        )?,
    }
    if connection.hidden > 0 {
        writeln!(
            out,
            "  PDUs that start in bytes missing from the capture, and are unknown: {}; capture whole \
             frames, all of them",
            connection.hidden,
        )?;
    }
    if connection.filtered {
        writeln!(
            out,
            "  the capture seems filtered: it has gaps and no pure ACKs, so windows, losses, exact RTTs \
             and stalls in TCP are unknown; capture all frames (`tcpdump -w FILE port {}`), without a \
             display filter",
            connection.target.port(),
        )?;
    }
    let pdus = connection
        .pdus
        .iter()
        .map(|(name, count)| format!("{count} {name}"));
    writeln!(out, "  PDUs: {}", pdus.collect::<Vec<_>>().join(", "))
}
