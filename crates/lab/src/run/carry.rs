//! `wansan lab carry`: the emulator on a real router, as the lab's agent starts it there. It changes nothing of the
//! router, so that nothing stays when it ends, however that is: its sockets see the packets that hosts on both sides
//! send to each other, which the router's kernel drops as long as it does not forward, and send them on as a plan
//! says.

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

/// How often it looks whether it is to end.
const POLL: Duration = Duration::from_millis(20);
/// The name, behind that of its host, of an emulator's records.
const WAN: &str = "wan";

/// What a router is to do, on the first line of standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Carriage {
    /// Its name in the plan.
    pub(super) router: String,
    /// The plan of the cell, resolved, as TOML.
    pub(super) document: String,
    /// The files that the plan names.
    pub(super) files: BTreeMap<String, String>,
    /// Which repetition it is.
    pub(super) repeat: u32,
    /// Whether packets go on as they come, which shows what the paths are like without the emulator.
    pub(super) is_bare: bool,
    /// Where it records.
    pub(super) records: PathBuf,
}

/// What it has done, on the last line of standard output.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Carried {
    /// What each direction of its paths did.
    pub(super) carried: Vec<PathResult>,
    /// What is known of its emulator.
    pub(super) facts: CellFacts,
}

/// Why a router does not carry packets.
#[derive(Debug, thiserror::Error)]
pub enum CarryError {
    /// Its settings do not come.
    #[error("it is started by `wansan lab run` on a plan's routers: {0}")]
    Settings(io::Error),
    /// Nobody takes what it says.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    /// The plan is none of this wansan's.
    #[error("{0}")]
    Plan(Mistake),
    /// The plan's files cannot be kept for as long as it is read.
    #[error("cannot keep the plan's files in {}: {source}", folder.display())]
    Files {
        /// Where.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A host is not reached.
    #[error("it cannot reach host `{host}`: {source}")]
    NoWay {
        /// The host.
        host: String,
        /// Why.
        source: NoWay,
    },
    /// The kernel forwards packets, too.
    #[error(
        "its kernel forwards packets from {interface}, so that they would go both ways: stop that there while the \
         plan runs, by `sysctl net.ipv4.conf.{}.forwarding=0`", interface.replace('.', "/")
    )]
    Forwards {
        /// The interface.
        interface: String,
    },
    /// There is no emulator.
    #[error("{source}{}", remedy(source))]
    Emulator {
        /// Why.
        #[from]
        source: EmulatorError,
    },
    /// Its records cannot be written.
    #[error(transparent)]
    Records(#[from] FileError),
    /// Its captures or its paths cannot be made.
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

/// Carries packets as standard input says until `stop` is true.
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
    // One with capabilities of its own gets no signal when the agent is killed (prctl(2), PR_SET_PDEATHSIG).
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

/// The cell of the settings. The plan's files are there for as long as it is read.
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
