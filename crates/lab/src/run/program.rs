//! The programs on the hosts: their settings and their output.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use wansan_iscsi::text::send_targets::ISCSI_PORT;
use wansan_relay::{ListenerConfig, RelayFile, RelaySettings};
use wansan_san::settings::{
    BenchSettings, InitiatorSettings, TargetFile, TargetSettings, UnitsSettings,
};
use wansan_san::store::{Backing, LunSpec};
use wansan_san::url::IscsiUrl;
use wansan_san::{Route, settings};
use wansan_schema::{BenchReport, CellFacts, RelayEnd, StreamReport};
use wansan_settings::quantity::{SomeTime, Span};
use wansan_settings::record::{KindSettings, RecordSettings};
use wansan_settings::{Text, usual};
use wansan_stream::{LoadSettings, ReceiveSettings, SendSettings, TakingSettings};
use wansan_trace::event::Role;
use wansan_workload::sequence::Operation;

use super::CellError;
use super::carry::Carried;
use super::site::Place;
use crate::hosts::Watched;
use crate::patience;
use crate::plan::{Document, Initiator, Receiver, RecordKind, Relay, Stream, TargetTable};
use crate::processors::Processors;
use crate::record::recorded_as;
use crate::world::Process;

/// Common inputs of a cell's programs.
pub(super) struct Programs<'a> {
    /// The `wansan` binary.
    pub(super) binary: &'a Path,
    /// The cell's plan.
    pub(super) document: &'a Document,
    /// Folder for records.
    pub(super) folder: &'a Path,
    /// Seed of the first initiator's I/O sequence and content; the others' follow it.
    pub(super) seed: u64,
}

/// A `wansan` command that reads its settings from standard input.
pub(super) struct Program {
    binary: PathBuf,
    arguments: Vec<String>,
    /// In JSON, on one line.
    settings: String,
    /// How its threads are recorded, if they are.
    watched: Option<(&'static str, Role)>,
}

/// No waiting.
const AT_ONCE: Span = Span(Duration::ZERO);

/// Events that programs report before they end.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// A target accepts connections.
    Listening,
    /// A bench is logged in, and begins when released.
    Ready,
}

impl Program {
    /// `BINARY COMMAND` with these settings.
    pub(super) fn new(binary: &Path, command: &[&str], settings: &impl Serialize) -> Program {
        Program::by_lab(binary, &[command, &["--settings", "-"]].concat(), settings)
    }

    /// The same for a command that only the lab starts, and that takes nothing but settings.
    pub(super) fn by_lab(binary: &Path, words: &[&str], settings: &impl Serialize) -> Program {
        let mut line = serde_json::to_string(settings).expect("settings are plain data");
        line.push('\n');
        Program {
            binary: binary.to_owned(),
            arguments: words.iter().map(|word| (*word).to_owned()).collect(),
            settings: line,
            watched: None,
        }
    }

    /// Starts it at `place`; its threads are recorded there, or by `processors`.
    pub(super) fn start(
        self,
        place: &Place<'_>,
        title: &str,
        processors: &mut Processors,
    ) -> Result<Process, CellError> {
        let mut process = self.start_held(place, title, processors)?;
        process.release();
        Ok(process)
    }

    /// Starts it like [`Program::start`], held until released.
    pub(super) fn start_held(
        self,
        place: &Place<'_>,
        title: &str,
        processors: &mut Processors,
    ) -> Result<Process, CellError> {
        match place {
            Place::Node(node) => {
                let mut command = Command::new(self.binary);
                command.args(self.arguments);
                let process = node.start_held(title, command, self.settings.into_bytes())?;
                if let Some((what, role)) = self.watched {
                    processors.watch(node.name(), what, role, process.id());
                }
                Ok(process)
            }
            Place::Host(host) => {
                let watched = self.watched.map(|(what, role)| Watched::new(what, role));
                Ok(host.start(title, self.arguments, self.settings, watched)?)
            }
        }
    }

    /// Records its shell command in `facts`, under its host's name and, if the host has several, its own.
    pub(super) fn note(&self, facts: &mut CellFacts, name: &str) {
        let words = std::iter::once(self.binary.to_string_lossy());
        let words = words.chain(self.arguments.iter().map(Into::into));
        let words: Vec<_> = words.collect();
        let settings = self.settings.trim_end().replace('\'', r"'\''");
        let line = format!("{} <<< '{settings}'", words.join(" "));
        facts.programs.insert(name.to_owned(), line);
    }
}

impl Programs<'_> {
    /// `wansan target` at `place`, for sessions with as many connections as those of `initiators`.
    pub(super) fn target(
        &self,
        target: &TargetTable,
        place: &Place<'_>,
        initiators: &[Initiator],
    ) -> Program {
        let address = place.listens_at();
        let mut luns = target.luns.clone();
        if let Some(first) = luns.first_mut() {
            self.prepare(first);
        }
        let session = &self.document.session;
        let mut served = UnitsSettings::new(&target.name, luns);
        // At least as many as a target started by hand grants.
        let most = initiators.iter().map(|one| one.connections.len()).max();
        let most = u16::try_from(most.unwrap_or_default()).unwrap_or(u16::MAX);
        served.max_connections = served.max_connections.max(most);
        served.window = target.window;
        served.sending = target.sending;
        served.negotiation = session.negotiation.clone();
        served.recovery = session.recovery;
        let settings = TargetSettings {
            file: TargetFile {
                listen: vec![format!("{address}:{ISCSI_PORT}")],
                discovery: usual(),
                target: vec![served],
            },
            process: settings::ProcessSettings {
                congestion_control: Some(self.document.tcp.congestion_control.clone()),
                // Programs that can log out have done so before they are asked to exit.
                drain: AT_ONCE,
                record: self.records(place),
                json: true,
                ..usual()
            },
        };
        let program = Program::new(self.binary, &["target"], &settings);
        Program {
            watched: Some(("target", Role::Target)),
            ..program
        }
    }

    /// Fills LUN 0, if in memory, with the content that verified reads are compared with.
    fn prepare(&self, lun: &mut LunSpec) {
        let load = &self.document.workload.load;
        let is_compared = load.verify && load.op == Operation::Read;
        if let Backing::Memory { content_seed, .. } = &mut lun.backing
            && is_compared
        {
            content_seed.get_or_insert(self.seed);
        }
    }

    /// `wansan bench` for `initiator`, number `number` of all, at `place`.
    pub(super) fn bench(&self, initiator: &Initiator, place: &Place<'_>, number: u64) -> Program {
        let Document {
            workload,
            session,
            tcp,
            target,
            ..
        } = self.document;
        let target = target.as_ref();
        let connections = &initiator.connections;
        let mut logs_in = InitiatorSettings::new(IscsiUrl {
            host: connections[0].target.to_string(),
            port: connections[0].port,
            target: target
                .expect("whoever has initiators has a target")
                .name
                .clone(),
            lun: 0,
        });
        logs_in.congestion_control = Some(tcp.congestion_control.clone());
        logs_in.negotiation = session.negotiation.clone();
        logs_in.acks = initiator.acks;
        logs_in.connections.recovery = session.recovery;
        // A single connection over a path needs only the URL.
        if connections.len() > 1 || connections[0].route_place.is_some() {
            logs_in.connections.schedule = initiator.schedule;
            let routes = connections.iter().map(|connection| Route {
                source: Some(SocketAddr::V4(connection.source)),
                host: connection.target.to_string(),
                port: connection.port,
            });
            logs_in.connections.route = routes.map(Text).collect();
        }
        let settings = BenchSettings {
            time: Some(SomeTime(workload.time.0)),
            count: None,
            warmup: workload.warmup,
            drain: Some(Span(patience::DRAIN)),
            seed: self.seed + number,
            hold: true,
            json: true,
            record: self.records(place),
            load: workload.load.clone(),
            tcp: usual(),
            initiator: logs_in,
        };
        let program = Program::new(self.binary, &["bench"], &settings);
        Program {
            watched: Some(("initiator", Role::Initiator)),
            ..program
        }
    }

    /// `wansan relay` at `place`.
    pub(super) fn relay(&self, relay: &Relay, place: &Place<'_>) -> Program {
        let (listen, to) = (relay.listen.to_string(), relay.to.to_string());
        let mut listener = ListenerConfig::new(&listen, &to);
        listener.flow = relay.table.flow(&self.document.tcp);
        let settings = RelaySettings {
            file: RelayFile {
                listener: vec![listener],
            },
            process: wansan_relay::ProcessSettings {
                // What is still open after the measurement does not matter.
                drain: AT_ONCE,
                record: self.tcp_records(place, &relay.table.name),
                json: true,
                ..usual()
            },
        };
        Program::new(self.binary, &["relay"], &settings)
    }

    /// `wansan stream receive`.
    pub(super) fn receiver(&self, receiver: &Receiver) -> Program {
        let settings = ReceiveSettings {
            listen: receiver.listen.to_string(),
            json: true,
            taking: TakingSettings {
                buffer: receiver.buffer,
                ..usual()
            },
        };
        Program::new(self.binary, &["stream", "receive"], &settings)
    }

    /// `wansan stream send` at `place`.
    pub(super) fn sender(&self, stream: &Stream, place: &Place<'_>) -> Program {
        let Stream { table, to, .. } = stream;
        let workload = &self.document.workload;
        let mut load = LoadSettings {
            flows: table.flows,
            time: Some(SomeTime(workload.time.0)),
            warmup: workload.warmup,
            hold: true,
            json: true,
            record: self.tcp_records(place, &table.name),
            stream: table.stream.clone(),
            ..usual()
        };
        let control = &self.document.tcp.congestion_control;
        let own = &mut load.stream.congestion_control;
        own.get_or_insert_with(|| control.clone());
        let to = to.to_string();
        Program::new(self.binary, &["stream", "send"], &SendSettings { to, load })
    }

    /// Record settings of a program with TCP records only. Several may run at one place.
    fn tcp_records(&self, place: &Place<'_>, name: &str) -> RecordSettings {
        let is_wanted = self.document.trace.kinds.contains(&RecordKind::Tcp);
        self.kept(is_wanted, place, &recorded_as(place.name(), name))
    }

    /// Record settings of a target or a bench.
    fn records(&self, place: &Place<'_>) -> KindSettings {
        let kinds = self.document.trace.kinds.iter();
        let kinds: Vec<_> = kinds.filter_map(|kind| kind.of_programs()).collect();
        KindSettings {
            place: self.kept(!kinds.is_empty(), place, place.name()),
            kinds,
            sample: 1,
        }
    }

    fn kept(&self, is_wanted: bool, place: &Place<'_>, host: &str) -> RecordSettings {
        let host = host
            .parse()
            .expect("a host's name has letters, digits and hyphens");
        RecordSettings {
            folder: is_wanted.then(|| place.records(self.folder).to_owned()),
            host: Some(Text(host)),
            memory: self.document.trace.memory,
        }
    }
}

/// Parses the line by which a program reports an event.
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

/// Parses a bench's final report; adds its host.
pub(super) fn report(title: &str, host: &str, lines: &[String]) -> Result<BenchReport, CellError> {
    let report: BenchReport = last_object(title, lines, "iops", "report of a bench")?;
    Ok(BenchReport {
        host: host.to_owned(),
        ..report
    })
}

/// Parses the final report of a sender of streams.
pub(super) fn stream_report(title: &str, lines: &[String]) -> Result<StreamReport, CellError> {
    last_object(title, lines, "fairness", "report of a stream")
}

/// Parses a relay's final report.
pub(super) fn relay_end(title: &str, lines: &[String]) -> Result<RelayEnd, CellError> {
    last_object(title, lines, "onward_bytes", "final report of a relay")
}

/// Parses a router's final report.
pub(super) fn carried(title: &str, lines: &[String]) -> Result<Carried, CellError> {
    last_object(title, lines, "carried", "final report of a router")
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
