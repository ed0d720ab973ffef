//! The command lines of the programs on the hosts, and what they say.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::process::Command;

use serde::de::DeserializeOwned;
use serde_json::Value;
use wansan_san::store::{Backing, LunSpec};
use wansan_schema::{BenchReport, CellFacts, RelayEnd, StreamReport};

use super::CellError;
use crate::plan::{
    Document, ISCSI_PORT, Initiator, Op, Receiver, RecordKind, Relay, Stream, TargetTable,
};
use crate::world::Node;

/// What a program of a cell needs to know.
pub(super) struct Programs<'a> {
    /// The `wansan` binary.
    pub(super) binary: &'a Path,
    /// The cell's plan.
    pub(super) document: &'a Document,
    /// Where records go.
    pub(super) folder: &'a Path,
    /// Of the initiators' orders and content: that of the first; the others' follow it.
    pub(super) seed: u64,
}

/// How long the last I/Os of a cell whose path stays down are waited for.
const DRAIN: &str = "10s";

/// Connections that a target grants a session at least, as one that is started by hand does.
const LEAST_CONNECTIONS: usize = 32;

/// What programs say before they are done.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// A target takes connections.
    Listening,
    /// A bench has logged in, and begins when it is released.
    Ready,
}

impl Programs<'_> {
    /// `wansan target` on `host`, for sessions of as many connections as those of `initiators`.
    pub(super) fn target(
        &self,
        target: &TargetTable,
        host: &Node,
        initiators: &[Initiator],
    ) -> Command {
        let most = initiators.iter().map(|one| one.connections.len()).max();
        let connections = most.unwrap_or_default().max(LEAST_CONNECTIONS);
        let address = match (host.interfaces(), &host.spec().addresses[..]) {
            ([only], []) => only.address,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        let mut command = Command::new(self.binary);
        command
            .arg("target")
            .args(["--listen", &format!("{address}:{ISCSI_PORT}")])
            .args(["--name", &target.name])
            .args(["--command-window", &target.command_window.to_string()])
            .args(["--max-connections", &connections.to_string()])
            .args(["--nagle", on_or_off(target.nagle)])
            .args(["--status", target.status.name()])
            .args(["--join-sends", on_or_off(target.join_sends)])
            .args(["--delayed-ack", target.delayed_ack.name()])
            // Whoever can has logged out when it is told to end.
            .args(["--drain", "0s"]);
        for (number, lun) in target.luns.iter().enumerate() {
            let mut lun = lun.clone();
            if number == 0 {
                self.prepare(&mut lun);
            }
            command.args(["--lun", &lun.to_string()]);
        }
        self.finish(command, host.name())
    }

    /// Has LUN 0 in memory hold what reads that are verified are compared with.
    fn prepare(&self, lun: &mut LunSpec) {
        let workload = &self.document.workload;
        let is_compared = workload.verify && workload.op == Op::Read;
        if let Backing::Memory { content_seed, .. } = &mut lun.backing
            && is_compared
        {
            content_seed.get_or_insert(self.seed);
        }
    }

    /// `wansan bench` for `initiator`, the one at that place among all, on `host`.
    pub(super) fn bench(&self, initiator: &Initiator, host: &Node, place: u64) -> Command {
        let connections = &initiator.connections;
        let at = SocketAddrV4::new(connections[0].target, connections[0].port);
        let workload = &self.document.workload;
        let target = self.document.target.as_ref();
        let target = &target.expect("whoever has initiators has a target").name;
        let mut command = Command::new(self.binary);
        command
            .arg("bench")
            .arg(format!("iscsi://{at}/{target}/0"))
            .args(["--op", workload.op.name()])
            .args(["--pattern", workload.pattern.name()])
            .args(["--block", &workload.block.to_string()])
            .args(["--parallel", &workload.parallel.to_string()])
            .args(["--time", &workload.time.to_string()])
            .args(["--warmup", &workload.warmup.to_string()])
            .args(["--drain", DRAIN])
            .args(["--seed", &(self.seed + place).to_string()])
            .args(["--delayed-ack", initiator.delayed_ack.name()])
            .arg("--hold");
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
        if connections.len() > 1 || connections[0].route_place.is_some() {
            for connection in connections {
                let to = SocketAddrV4::new(connection.target, connection.port);
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

    /// `wansan relay`.
    pub(super) fn relay(&self, relay: &Relay) -> Command {
        let table = &relay.table;
        let mut command = Command::new(self.binary);
        command
            .arg("relay")
            .args(["--listen", &relay.listen.to_string()])
            .args(["--to", &relay.to.to_string()])
            .args(["--buffer", &table.buffer.to_string()])
            // What has not ended when all was measured is of no interest.
            .args(["--drain", "0s"]);
        if let Some(latency) = table.latency {
            command.args(["--latency", &latency.to_string()]);
        }
        if let Some(law) = &table.law {
            command.args(["--law", law]);
        }
        for (key, size) in [
            ("--ece-bound", table.ece_bound),
            ("--ece-ramp", table.ece_ramp),
            ("--ece-every", table.ece_every),
        ] {
            if let Some(size) = size {
                command.args([key, &size.to_string()]);
            }
        }
        for (name, side) in [("in", &table.r#in), ("out", &table.out)] {
            let mut option = |key: &str, value: Option<String>| {
                if let Some(value) = value {
                    command.args([&format!("--{name}-{key}"), &value]);
                }
            };
            let control = side.congestion_control.as_ref();
            option(
                "cc",
                Some(
                    control
                        .unwrap_or(&self.document.tcp.congestion_control)
                        .clone(),
                ),
            );
            option(
                "receive-buffer",
                side.receive_buffer.map(|size| size.to_string()),
            );
            option("send-buffer", side.send_buffer.map(|size| size.to_string()));
        }
        self.record_tcp(&mut command, &relay.host, &table.name);
        command.arg("--json");
        command
    }

    /// `wansan stream receive`.
    pub(super) fn receiver(&self, receiver: &Receiver) -> Command {
        let mut command = Command::new(self.binary);
        command
            .args(["stream", "receive"])
            .args(["--listen", &receiver.listen.to_string()]);
        if let Some(size) = receiver.receive_buffer {
            command.args(["--receive-buffer", &size.to_string()]);
        }
        command.arg("--json");
        command
    }

    /// `wansan stream send`.
    pub(super) fn sender(&self, stream: &Stream) -> Command {
        let table = &stream.table;
        let workload = &self.document.workload;
        let control = table.congestion_control.as_ref();
        let control = control.unwrap_or(&self.document.tcp.congestion_control);
        let mut command = Command::new(self.binary);
        command
            .args(["stream", "send", &stream.to.to_string()])
            .args(["--flows", &table.flows.to_string()])
            .args(["--time", &workload.time.to_string()])
            .args(["--warmup", &workload.warmup.to_string()])
            .args(["--every", &table.every.to_string()])
            .args(["--cc", control]);
        let mut option = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                command.args([key, &value]);
            }
        };
        option(
            "--send-buffer",
            table.send_buffer.map(|size| size.to_string()),
        );
        option("--unsent", table.unsent.map(|size| size.to_string()));
        let rate = table.rate.filter(|rate| rate.0.is_some());
        option("--rate", rate.map(|rate| rate.to_string()));
        self.record_tcp(&mut command, &stream.host, &table.name);
        command.args(["--hold", "--json"]);
        command
    }

    /// Has a program that records nothing but TCP do so, if that is wanted. Several may run on one host.
    fn record_tcp(&self, command: &mut Command, host: &str, name: &str) {
        let trace = &self.document.trace;
        if trace.kinds.contains(&RecordKind::Tcp) {
            command
                .arg("--record")
                .arg(self.folder)
                .args(["--host", &recorded_as(host, name)])
                .args(["--record-memory", &trace.memory.to_string()]);
        }
    }

    /// What targets and benches are told alike.
    fn finish(&self, mut command: Command, host: &str) -> Command {
        let trace = &self.document.trace;
        let kinds: Vec<&str> = trace
            .kinds
            .iter()
            .filter(|kind| kind.is_of_programs())
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
                "--error-recovery-level",
                &session.error_recovery_level.to_string(),
            ])
            .args([
                "--congestion-control",
                &self.document.tcp.congestion_control,
            ])
            .arg("--json");
        command
    }
}

/// The name in records of a relay or stream on a host. Neither name has an underscore.
pub(super) fn recorded_as(host: &str, name: &str) -> String {
    // Records take 64 letters, names have 32 at most.
    let mut whole = format!("{host}_{name}");
    whole.truncate(64);
    whole
}

/// As options take a switch.
const fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Writes down how a program was started, under the name of its host and, where that has several, its own.
pub(super) fn note(facts: &mut CellFacts, name: &str, command: &Command) {
    facts.programs.insert(name.to_owned(), shown(command));
}

/// A command line as a person would type it.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    words.join(" ")
}

/// Reads the line by which a program says that it is that far.
pub(super) fn expect_event(title: &str, event: Event, line: &str) -> Result<Value, CellError> {
    let said: Value = serde_json::from_str(line).unwrap_or_default();
    let (name, awaited) = match event {
        Event::Listening => ("listening", "`listening` event"),
        Event::Ready => ("ready", "`ready` event"),
    };
    match said["event"] == name {
        true => Ok(said),
        false => Err(babble(title, awaited, line)),
    }
}

/// What a bench says at its end, with its host.
pub(super) fn report(title: &str, host: &str, lines: &[String]) -> Result<BenchReport, CellError> {
    let report: BenchReport = last_object(title, lines, "iops", "report of a bench")?;
    Ok(BenchReport {
        host: host.to_owned(),
        ..report
    })
}

/// What a sender of streams says at its end.
pub(super) fn stream_report(title: &str, lines: &[String]) -> Result<StreamReport, CellError> {
    last_object(title, lines, "fairness", "report of a stream")
}

/// What a relay says at its end.
pub(super) fn relay_end(title: &str, lines: &[String]) -> Result<RelayEnd, CellError> {
    last_object(title, lines, "onward_bytes", "end of a relay")
}

fn last_object<T: DeserializeOwned>(
    title: &str,
    lines: &[String],
    has: &str,
    awaited: &'static str,
) -> Result<T, CellError> {
    let last = lines.last().map_or("", String::as_str);
    let said = serde_json::from_str(last)
        .ok()
        .filter(|said: &Value| said.get(has).is_some())
        .and_then(|said| serde_json::from_value(said).ok());
    said.ok_or_else(|| babble(title, awaited, last))
}

fn babble(title: &str, awaited: &'static str, said: &str) -> CellError {
    CellError::Babble {
        title: title.to_owned(),
        awaited,
        said: said.chars().take(200).collect(),
    }
}
