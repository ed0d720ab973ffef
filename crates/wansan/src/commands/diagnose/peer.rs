//! The other end of the path: runs the same diagnosis there, with the times of each I/O.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wansan_diagnose::Diagnosis;
use wansan_insight::both_ends::{PassedIo, join};
use wansan_lab::hosts::{Peer, Reach};
use wansan_lab::world::Process;
use wansan_trace::units::format_duration;

use super::DiagnoseArgs;
use crate::commands::print_json;

/// Most I/Os whose times are kept.
pub(super) const MOST_IOS: usize = 100_000;
/// I/Os per line, which must be shorter than a message of the agent.
const LINE_IOS: usize = 5000;
/// Time for the other end to start, and to end after this one.
const LIMIT: Duration = Duration::from_secs(60);

/// A line of `--each-io` output.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line<D, I> {
    /// Packets are captured from now on.
    Watching,
    /// Times of some I/Os.
    Ios(I),
    /// The diagnosis; the last line.
    Diagnosis(D),
}

/// Prints that the watch has begun.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn say_begun() -> Result<()> {
    print_json(&serde_json::to_string(&Line::<(), ()>::Watching)?)
}

/// Prints the diagnosis and the I/Os' times.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn say(diagnosis: &Diagnosis, ios: &[PassedIo]) -> Result<()> {
    for some in ios.chunks(LINE_IOS) {
        print_json(&serde_json::to_string(&Line::<(), _>::Ios(some))?)?;
    }
    print_json(&serde_json::to_string(&Line::<_, ()>::Diagnosis(
        diagnosis,
    ))?)
}

/// A diagnosis running at the other end.
pub(super) struct Peering {
    destination: String,
    process: Process,
    /// Keeps the program there running.
    _peer: Peer,
}

/// The result from the other end.
#[derive(Serialize)]
pub(super) struct OtherEnd {
    host: String,
    /// In the format of `wansan diagnose --json` there.
    diagnosis: Value,
}

impl Peering {
    /// Starts it.
    ///
    /// # Errors
    /// The host cannot be reached, or cannot capture packets.
    pub(super) fn begin(
        args: &DiagnoseArgs,
        destination: &str,
        ports: &BTreeSet<u16>,
        stop: &AtomicBool,
    ) -> Result<Peering> {
        let program = std::env::current_exe().context("cannot find the wansan binary")?;
        let reach = Reach {
            ssh_config: args.ssh_config.clone(),
            is_installed: args.no_copy,
        };
        let peer = Peer::reach(destination, &program, &reach, stop)?;
        let fixed = ["diagnose", "--json", "--each-io", "--for"];
        let mut arguments: Vec<String> = fixed.map(str::to_owned).to_vec();
        arguments.push(format_duration(args.time()));
        for port in ports {
            arguments.extend(["--port".to_owned(), port.to_string()]);
        }
        let title = format!("wansan diagnose on {destination}");
        let mut process = peer.start(&title, arguments)?;
        process.line_unless(stop, "begin to watch", LIMIT)?;
        Ok(Peering {
            destination: destination.to_owned(),
            process,
            _peer: peer,
        })
    }

    /// Waits for its end, and adds the combined view of both ends to the sessions here.
    ///
    /// # Errors
    /// The connection is lost, or the answer is not wansan's.
    pub(super) fn end(
        mut self,
        diagnosis: &mut Diagnosis,
        ios: &[PassedIo],
        stop: &AtomicBool,
    ) -> Result<OtherEnd> {
        if stop.load(Ordering::Relaxed) {
            self.process.terminate();
        }
        let mut theirs: Vec<PassedIo> = Vec::new();
        let told = loop {
            let line = self.process.line("say what it saw", LIMIT)?;
            let line: Line<Value, Vec<PassedIo>> =
                serde_json::from_str(&line).with_context(|| {
                    format!("{} sent output that is not wansan's", self.destination)
                })?;
            match line {
                Line::Watching => {}
                Line::Ios(some) => theirs.extend(some),
                Line::Diagnosis(told) => break told,
            }
        };
        let of = |ios: &[PassedIo], ends: &[(SocketAddr, SocketAddr)]| -> Vec<PassedIo> {
            let ios = ios.iter().copied();
            ios.filter(|io| ends.contains(&(io.initiator, io.target)))
                .collect()
        };
        for session in &mut diagnosis.sessions {
            let ends = &session.connections;
            session.both_ends = join(&of(ios, ends), &of(&theirs, ends));
        }
        Ok(OtherEnd {
            host: self.destination,
            diagnosis: told,
        })
    }
}

impl OtherEnd {
    /// Prints its finding on each session, and the changes to make there.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let each = |value: &Value| value.as_array().cloned().unwrap_or_default();
        writeln!(out, "\nAt the other end, {}:", self.host)?;
        let sessions = each(&self.diagnosis["sessions"]);
        if sessions.is_empty() {
            writeln!(out, "  no I/O began and ended meanwhile")?;
        }
        for session in sessions {
            writeln!(out, "  {}", text(&session["finding"]))?;
            for change in each(&session["changes"]) {
                writeln!(out, "  {}:", text(&change["what"]))?;
                for command in each(&change["commands"]) {
                    writeln!(out, "      {}", text(&command))?;
                }
            }
        }
        Ok(())
    }
}
