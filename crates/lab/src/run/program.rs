//! The command lines of the programs on the hosts, and what they say.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::CellError;
use crate::plan::{Document, Initiator, RecordKind};
use crate::world::Node;

/// The port of iSCSI (RFC 7143 §4.2.7.1, "iscsi-target").
const ISCSI_PORT: u16 = 3260;

/// What a program of a cell needs to know.
pub(super) struct Programs<'a> {
    /// The `wansan` binary.
    pub(super) binary: &'a Path,
    /// The cell's plan.
    pub(super) document: &'a Document,
    /// Where records go.
    pub(super) folder: &'a Path,
}

impl Programs<'_> {
    /// `wansan target` on `host`.
    pub(super) fn target(&self, host: &Node) -> Command {
        let target = &self.document.target;
        let address = match (host.interfaces(), &host.spec().addresses[..]) {
            ([only], []) => only.address,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        let mut command = Command::new(self.binary);
        command
            .arg("target")
            .args(["--listen", &format!("{address}:{ISCSI_PORT}")])
            .args(["--name", &target.name])
            .args(["--command-window", &target.command_window.to_string()]);
        for lun in &target.luns {
            command.args(["--lun", &lun.to_string()]);
        }
        self.finish(command, host.name())
    }

    /// `wansan bench` for `initiator` on `host`.
    pub(super) fn bench(&self, initiator: &Initiator, host: &Node, seed: u64) -> Command {
        let connections = &initiator.connections;
        let address = connections[0].target;
        let workload = &self.document.workload;
        let target = &self.document.target.name;
        let mut command = Command::new(self.binary);
        command
            .arg("bench")
            .arg(format!("iscsi://{address}:{ISCSI_PORT}/{target}/0"))
            .args(["--op", workload.op.name()])
            .args(["--pattern", workload.pattern.name()])
            .args(["--block", &workload.block.to_string()])
            .args(["--parallel", &workload.parallel.to_string()])
            .args(["--time", &workload.time.to_string()])
            .args(["--warmup", &workload.warmup.to_string()])
            .args(["--seed", &seed.to_string()]);
        if let Some(rate) = workload.rate {
            command.args(["--rate", &rate.0.to_string()]);
        }
        if workload.batch {
            command.arg("--batch");
        }
        if workload.verify {
            command.arg("--verify");
        }
        // One connection over one path needs no more than the URL.
        if connections.len() > 1 || connections[0].way.is_some() {
            for connection in connections {
                let to = SocketAddrV4::new(connection.target, ISCSI_PORT);
                let from = connection.source;
                let from = match from.port() {
                    0 => from.ip().to_string(),
                    _ => from.to_string(),
                };
                command.args(["--route", &format!("{from}->{to}")]);
            }
            command.args(["--schedule", initiator.schedule.name()]);
        }
        self.finish(command, host.name())
    }

    /// What all programs are told alike.
    fn finish(&self, mut command: Command, host: &str) -> Command {
        let trace = &self.document.trace;
        let kinds: Vec<&str> = trace
            .kinds
            .iter()
            .filter(|kind| matches!(kind, RecordKind::Io | RecordKind::Pdu | RecordKind::Tcp))
            .map(|kind| kind.name())
            .collect();
        if !kinds.is_empty() {
            command
                .arg("--record")
                .arg(self.folder)
                .args(["--host", host])
                .args(["--record-kinds", &kinds.join(",")])
                .args(["--record-memory", &trace.memory.to_string()]);
        }
        let session = &self.document.session;
        let yes_or_no = |yes| if yes { "yes" } else { "no" };
        command
            .args(["--header-digest", session.header_digest.name()])
            .args(["--data-digest", session.data_digest.name()])
            .args(["--initial-r2t", yes_or_no(session.initial_r2t)])
            .args(["--immediate-data", yes_or_no(session.immediate_data)])
            .args(["--first-burst", &session.first_burst.to_string()])
            .args(["--max-burst", &session.max_burst.to_string()])
            .args([
                "--max-recv-data-segment",
                &session.max_recv_data_segment.to_string(),
            ])
            .args([
                "--max-outstanding-r2t",
                &session.max_outstanding_r2t.to_string(),
            ])
            .args([
                "--congestion-control",
                &self.document.tcp.congestion_control,
            ])
            .arg("--json");
        command
    }
}

/// A command line as a person would type it.
pub(super) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    words.join(" ")
}

/// Checks the line that a target prints once it listens.
pub(super) fn expect_listening(title: &str, line: &str) -> Result<(), CellError> {
    let said: Option<Value> = serde_json::from_str(line).ok();
    match said.as_ref().and_then(|said| said.get("event")) {
        Some(event) if event == "listening" => Ok(()),
        _ => Err(babble(title, "`listening` event", line)),
    }
}

/// The object that a bench prints at its end, with its host added.
pub(super) fn report(title: &str, host: &str, lines: &[String]) -> Result<Value, CellError> {
    let last = lines.last().map_or("", String::as_str);
    match serde_json::from_str(last) {
        Ok(Value::Object(mut report)) if report.contains_key("iops") => {
            report.insert("host".to_owned(), host.into());
            Ok(Value::Object(report))
        }
        _ => Err(babble(title, "report of a bench", last)),
    }
}

fn babble(title: &str, awaited: &'static str, said: &str) -> CellError {
    CellError::Babble {
        title: title.to_owned(),
        awaited,
        said: said.chars().take(200).collect(),
    }
}
