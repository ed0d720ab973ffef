//! Explains captures.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use serde::Serialize;
use signal_hook::consts::SIGINT;
use wansan_insight::CellSummary;
use wansan_insight::capture::{
    Capture, CaptureEnd, CapturedConnection, End, MissingEnds, UnreadLink, Whole, read_parts,
    read_stream, unread_in_words,
};

use wansan_trace::units::format_iops;

use super::parts::{self, Part};
use super::stalls;
use crate::commands::{print_json, print_text};

/// Standard input, as an argument and in messages.
pub(super) const STANDARD_INPUT: &str = "-";

/// The output of `--json`.
#[derive(Serialize)]
pub(super) struct Explanation {
    frames: u64,
    unread: Vec<UnreadLink>,
    seconds: f64,
    end: CaptureEnd,
    pub(super) connections: Vec<CapturedConnection>,
    other_connections: usize,
    unpaired: u64,
    in_progress: u64,
    missing_ends: MissingEnds,
    finding: String,
    /// For a capture explained as a whole.
    summary: Option<CellSummary>,
    /// For a capture explained in parts.
    parts: Vec<Part>,
}

/// Explains captures, which are read as one; `-` is standard input.
///
/// # Errors
/// One cannot be read or is not a capture, or none contains PDUs.
pub(super) fn explain(files: &[PathBuf], json: bool) -> Result<ExitCode> {
    let mut read = parts::Read::default();
    let mut take = |capture: Capture| read.take(&capture);
    let is_stream = files == [Path::new(STANDARD_INPUT)];
    let whole = match is_stream {
        true => {
            // Ctrl-C reaches the capturing program as well: what has arrived by then is explained. A second Ctrl-C ends
            // this program.
            let once = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&once))
                .and_then(|_| signal_hook::flag::register(SIGINT, once))
                .context("cannot wait for SIGINT")?;
            read_stream(io::stdin(), Path::new("standard input"), &mut take)?
        }
        false => read_parts(files, &mut take)?,
    };
    let name = match files {
        [_] if is_stream => "standard input".to_owned(),
        [file] => file.display().to_string(),
        files => format!("{} files", files.len()),
    };
    let explanation = explanation(read, &whole);
    if json {
        print_json(&serde_json::to_string_pretty(&explanation)?)?;
    } else {
        print_text(|out| print(out, &name, &explanation, &whole))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn explanation(read: parts::Read, whole: &Whole) -> Explanation {
    let parts::Read {
        mut parts,
        connections,
        others,
        unread,
        unpaired,
        in_progress,
        missing_ends,
    } = read;
    let from_ns = parts.iter().map(|part| part.from_ns).min().unwrap_or(0);
    let to_ns = parts.iter().map(|part| part.to_ns).max().unwrap_or(0);
    let finding = parts::finding_of(&parts);
    let summary = match parts.len() {
        1 => parts.pop().map(|part| part.summary),
        _ => None,
    };
    Explanation {
        frames: whole.frames,
        unread,
        seconds: to_ns.saturating_sub(from_ns) as f64 / 1e9,
        end: match &whole.ends[..] {
            [] => CaptureEnd::Whole,
            [(_, end, _), ..] => end.clone(),
        },
        connections,
        other_connections: others,
        unpaired,
        in_progress,
        missing_ends,
        finding,
        summary,
        parts,
    }
}

fn print(
    out: &mut dyn Write,
    name: &str,
    explanation: &Explanation,
    whole: &Whole,
) -> io::Result<()> {
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
        "{name}: {frames} frames in {seconds:.3} s; {connections} {of_iscsi} with iSCSI{others}.",
    )?;
    for (file, end, frames) in &whole.ends {
        let file = file.display();
        match end {
            CaptureEnd::CutOff => writeln!(out, "{file} is truncated after frame {frames}.")?,
            CaptureEnd::Damaged(reason) => {
                writeln!(out, "{file} is corrupt after frame {frames}: {reason}.")?;
            }
            // Parts have only their own limit.
            CaptureEnd::Whole | CaptureEnd::Full => {}
        }
    }
    if let Some(unread) = unread_in_words(&explanation.unread) {
        writeln!(out, "There are {unread}.")?;
    }
    for connection in &explanation.connections {
        print_connection(out, connection)?;
    }
    if let Some(summary) = &explanation.summary
        && summary.total.ios > 0
    {
        print_ios(out, explanation, summary)?;
    }
    let (of_another, end) = match explanation.parts.is_empty() {
        true => ("", "the capture's end"),
        false => (" or is in another part", "the end of their part"),
    };
    let excluded = [
        (
            explanation.unpaired,
            format!("whose command or status is not in the capture{of_another}"),
        ),
        (explanation.in_progress, format!("not answered by {end}")),
    ];
    let excluded = excluded.iter().filter(|(ios, _)| *ios > 0);
    let excluded: Vec<String> = excluded
        .map(|(ios, which)| format!("{ios} {which}"))
        .collect();
    if !excluded.is_empty() {
        writeln!(out, "I/Os excluded: {}.", excluded.join(", "))?;
    }
    let Some(summary) = &explanation.summary else {
        writeln!(out)?;
        parts::print(out, &explanation.parts)?;
        return writeln!(out, "{}", explanation.finding);
    };
    for session in &summary.sessions {
        if let Some(window) = session.command_window
            && let Some(closed_share) = window.closed_share
        {
            writeln!(
                out,
                "Command window of session {}: at most {} commands; closed {:.0} % of the time.",
                session.session,
                window.slots,
                closed_share * 100.0,
            )?;
        }
    }
    writeln!(out)?;
    stalls::print(out, "", "frame", summary)?;
    writeln!(out, "{}", explanation.finding)
}

fn print_ios(
    out: &mut dyn Write,
    explanation: &Explanation,
    summary: &CellSummary,
) -> io::Result<()> {
    let total = &summary.total;
    let in_flight = total.layers.first().map_or(0.0, |held| held.in_flight_mean);
    writeln!(
        out,
        "\nI/Os: {}, {} IOPS, {in_flight:.1} in flight on average; latency {:.2} ms mean, \
         {:.2} ms p50, {:.2} ms p99.",
        total.ios,
        format_iops(total.iops),
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
