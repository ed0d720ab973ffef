//! `wansan lab carry`: the emulator on a real router, started there by the lab's agent. It does not change the router's
//! configuration, so that nothing remains however it ends: its sockets capture the packets between hosts on both sides,
//! which the router's kernel drops as long as it does not forward, and send them on according to the plan.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::getppid;
use serde::{Deserialize, Serialize};
use wansan_mistake::Mistake;
use wansan_path::Effects;
use wansan_schema::{CellFacts, PathResult};
use wansan_trace::file::{self, FileError};

use super::emulation::{self, Ports};
use super::{CellError, cell};
use crate::emulator::{Emulator, EmulatorError, Port, Routed};
use crate::engine::{self, MAX_ORDER_BYTES};
use crate::lines;
use crate::plan::{Cell, RealHost, Scenario};
use crate::record::{add_statistics, recorded_as};
use crate::world::{NoWay, way_to};

/// How often it checks whether to stop.
const POLL: Duration = Duration::from_millis(20);
/// Suffix of its host's name, for an emulator's records.
const WAN: &str = "wan";

/// A router's settings, on the first line of standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Carriage {
    /// Its name in the plan.
    pub(super) router: String,
    /// The resolved plan of the cell, as TOML.
    pub(super) document: String,
    /// The files that the plan names.
    pub(super) files: BTreeMap<String, String>,
    /// The number of the repetition.
    pub(super) repeat: u32,
    /// Whether packets are forwarded without emulation, to measure the paths themselves.
    pub(super) is_bare: bool,
    /// Folder for its records.
    pub(super) records: PathBuf,
}

/// Its results, on the last line of standard output.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Carried {
    /// Results of each direction of its paths.
    pub(super) carried: Vec<PathResult>,
    /// Facts about its emulator.
    pub(super) facts: CellFacts,
}

/// Why a router cannot carry packets.
#[derive(Debug, thiserror::Error)]
pub enum CarryError {
    /// Its settings cannot be read.
    #[error("`wansan lab run` starts it on a plan's routers: {0}")]
    Settings(io::Error),
    /// Its output cannot be written.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    /// This wansan does not accept the plan.
    #[error("{0}")]
    Plan(Mistake),
    /// The plan's files cannot be stored while it is parsed.
    #[error("cannot keep the plan's files in {}: {source}", folder.display())]
    Files {
        /// The folder.
        folder: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A host is not reachable.
    #[error("it cannot reach host `{host}`: {source}")]
    NoWay {
        /// The host.
        host: String,
        /// The reason.
        source: NoWay,
    },
    /// The kernel also forwards packets.
    #[error(
        "its kernel forwards packets from {interface}, so that they would be forwarded twice: stop that there while the \
         plan runs, by `sysctl net.ipv4.conf.{}.forwarding=0`", interface.replace('.', "/")
    )]
    Forwards {
        /// The interface.
        interface: String,
    },
    /// The emulator cannot run.
    #[error("{source}{}", remedy(source))]
    Emulator {
        /// The error.
        #[from]
        source: EmulatorError,
    },
    /// Its records cannot be written.
    #[error(transparent)]
    Records(#[from] FileError),
    /// Its captures or its paths cannot be set up.
    #[error(transparent)]
    Cell(Box<CellError>),
}

fn remedy(error: &EmulatorError) -> &'static str {
    match error {
        EmulatorError::EnvironmentLacks { source, .. }
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            "; a packet socket needs CAP_NET_RAW: log in as root there, or give that to an installed wansan by `setcap \
             cap_net_raw+ep` and add --no-copy"
        }
        _ => "",
    }
}

/// Carries packets according to standard input until `stop` is set.
///
/// # Errors
/// [`CarryError`].
pub fn carry(stop: &AtomicBool) -> Result<(), CarryError> {
    let agent = getppid();
    let settings = lines::read(&mut io::stdin().lock(), MAX_ORDER_BYTES);
    let settings: Option<Carriage> = settings.map_err(CarryError::Settings)?;
    let lacks = || CarryError::Settings(io::ErrorKind::UnexpectedEof.into());
    let settings = settings.ok_or_else(lacks)?;
    let mut cell = cell_of(&settings)?;
    if settings.is_bare {
        for link in &mut cell.scenario.links {
            for direction in [&mut link.forward, &mut link.back] {
                direction.effects = Effects::default();
            }
        }
    }
    let ports = ports(&cell.scenario, &settings.router)?;
    let trace = &cell.document.trace;
    let kinds = match settings.is_bare {
        true => &[][..],
        false => &trace.kinds,
    };
    let recorder = emulation::recorder(kinds, trace.memory.0);
    let seed = cell::seed(&cell);
    // Paths of real hosts are not captured.
    let (config, _) = emulation::config(ports, &cell.scenario, seed, recorder, &settings.records)
        .map_err(|error| CarryError::Cell(Box::new(error)))?;
    let emulator = Emulator::start_here(config)?;
    say(&serde_json::json!({ "event": "listening" }))?;
    // A process with file capabilities gets no signal when the agent is killed (prctl(2), PR_SET_PDEATHSIG).
    while !stop.load(Ordering::Relaxed) && getppid() == agent {
        thread::sleep(POLL);
    }
    let report = emulator.stop()?;
    let mut facts = CellFacts::default();
    add_statistics(&mut facts, &report.statistics);
    let paths = report.statistics.paths.iter();
    let carried = paths.map(PathResult::from).collect();
    if !settings.is_bare {
        let host = recorded_as(&settings.router, WAN);
        file::write_part(&settings.records, &host, &[report.recorder])?;
    }
    say(&Carried { carried, facts })
}

fn say(said: &impl Serialize) -> Result<(), CarryError> {
    lines::write(&mut io::stdout().lock(), said).map_err(CarryError::Output)
}

/// The cell in the settings. The plan's files exist while it is parsed.
fn cell_of(settings: &Carriage) -> Result<Cell, CarryError> {
    let folder = settings.records.with_file_name("plan");
    let failed = |source| CarryError::Files {
        folder: folder.clone(),
        source,
    };
    fs::create_dir(&folder).map_err(failed)?;
    let unpacked = engine::unpack(&settings.files, &folder).map_err(failed);
    let cell = unpacked.and_then(|()| {
        let cell = Cell::alone(&settings.document, settings.repeat, &folder);
        cell.map_err(CarryError::Plan)
    });
    fs::remove_dir_all(&folder).map_err(failed)?;
    cell
}

/// How a router reaches both ends of each of its paths.
fn ports(scenario: &Scenario, router: &str) -> Result<Ports, CarryError> {
    let mut ports = Ports::default();
    let router = scenario.node(router);
    let links = scenario.links.iter().enumerate();
    for (network, link) in links.filter(|(_, link)| link.router == Some(router)) {
        for node in link.members() {
            let RealHost { name, address, .. } = &scenario.hosts[node];
            let way = way_to(*address).map_err(|source| CarryError::NoWay {
                host: name.clone(),
                source,
            })?;
            let forwards = format!("/proc/sys/net/ipv4/conf/{}/forwarding", way.interface);
            if fs::read_to_string(forwards).is_ok_and(|text| text.trim() != "0") {
                return Err(CarryError::Forwards {
                    interface: way.interface,
                });
            }
            let port = Port {
                interface: way.interface,
                host_mac: way.next_mac,
                routed: Some(Routed {
                    host: *address,
                    own_mac: way.own_mac,
                }),
            };
            ports.add((network, node), port);
        }
    }
    Ok(ports)
}
