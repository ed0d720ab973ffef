//! The WAN with the kernel's emulator, sch_netem, for plans with `world.emulator = "netem"`.
//!
//! Frames of a path enter one interface of the WAN and leave by another. On the entry interface, a filter (clsact,
//! matchall) redirects all of them to the other one (mirred); there netem is the root qdisc, and applies the
//! direction's parameters:
//!
//! ```text
//!   host "client" ═══ h1  ingress ── matchall, mirred ──► netem ── h2 ═══ host "storage"
//! ```
//!
//! [`NetemSetting`] has its parameters for a direction, and reports what in a plan it does not support. Everything is
//! set and read with tc(8) in the WAN's namespace, and disappears with that namespace.

mod statistics;
mod tc;

use std::io;
use std::path::PathBuf;

use wansan_schema::NetemResult;

use crate::plan::{self, NetemSetting, Scenario, Side};
use crate::world::{Namespace, World, WorldError};

use statistics::Counted;

/// Paths emulated by netem, for the lifetime of their world.
#[derive(Debug)]
pub struct Netem {
    tc: PathBuf,
    directions: Vec<Direction>,
    /// Every command, as executed.
    commands: Vec<String>,
}

/// One direction of a path.
#[derive(Debug)]
struct Direction {
    name: String,
    /// The interface by which its frames leave.
    device: String,
    setting: NetemSetting,
}

/// Why netem cannot emulate the paths.
#[derive(Debug, thiserror::Error)]
pub enum NetemError {
    /// tc(8) is not installed.
    #[error("`world.emulator = \"netem\"` needs tc: install it with `apt-get install iproute2`")]
    ProgramMissing,
    /// A kernel module is missing.
    #[error(
        "`world.emulator = \"netem\"` needs {parts}, and this kernel has none: load it with `sudo \
         modprobe -a {parts}`, or leave `emulator` out for wansan's own"
    )]
    KernelLacks {
        /// The modules, one of which is missing.
        parts: &'static str,
    },
    /// tc or the kernel rejected a command.
    #[error("`{command}`: {said}")]
    Refused {
        /// The command.
        command: String,
        /// tc's message, in one line.
        said: String,
    },
    /// No namespace can be created for a trial.
    #[error(transparent)]
    World(#[from] WorldError),
    /// tc could not be started.
    #[error("cannot run {}: {source}", program.display())]
    NotRun {
        /// Where it is.
        program: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// Checks, in a temporary namespace, that this machine has everything to emulate paths with netem.
/// [`crate::world::isolate`] has to have been called.
///
/// # Errors
/// [`NetemError`].
pub fn check() -> Result<(), NetemError> {
    let tc = tc::find()?;
    let trial = Namespace::new("netem's trial")?;
    tc::run(&trial, &tc, "qdisc add dev lo root netem delay 1ms", QDISC)?;
    for (command, parts) in switching("lo", "lo") {
        tc::run(&trial, &tc, &command, parts)?;
    }
    Ok(())
}

/// The qdisc's module.
const QDISC: &str = "sch_netem";

/// The commands, each with the modules it needs, that redirect frames from the interface `from` to the interface `to`.
fn switching(from: &str, to: &str) -> [(String, &'static str); 2] {
    [
        (format!("qdisc add dev {from} clsact"), "sch_ingress"),
        (
            format!(
                "filter add dev {from} ingress protocol all matchall action mirred egress redirect \
                 dev {to}"
            ),
            "cls_matchall act_mirred",
        ),
    ]
}

impl Netem {
    /// Sets up netem for the paths of `world`, which is built from `scenario`. `seed` seeds its random numbers,
    /// differently per direction, if tc supports that.
    ///
    /// # Errors
    /// [`NetemError`].
    ///
    /// # Panics
    /// A scenario that the plan check excludes: one with a path that netem cannot emulate.
    pub fn start(world: &World, scenario: &Scenario, seed: u64) -> Result<Netem, NetemError> {
        let tc = tc::find()?;
        let mut netem = Netem {
            directions: Vec::new(),
            commands: Vec::new(),
            tc,
        };
        let takes_seed = tc::takes_seed(world.wan(), &netem.tc)?;
        let mut passages = Vec::new();
        for (network, link) in scenario.links.iter().enumerate() {
            let ([near], [far]) = (&link.near[..], &link.far[..]) else {
                panic!("netem joins two nodes");
            };
            if link.wire {
                continue;
            }
            let device = |node: usize| {
                let interface = world.nodes()[node].interface(network);
                let interface = interface.and_then(|interface| interface.wan_interface.clone());
                interface.expect("the path is no wire")
            };
            let (near, far) = (device(*near), device(*far));
            let [forward, back] = Side::BOTH.map(|side| side.of(&link.name));
            passages.push((forward, &link.forward, near.clone(), far.clone()));
            passages.push((back, &link.back, far, near));
        }
        for (place, (name, planned, _, to)) in passages.iter().enumerate() {
            let seed = takes_seed.then(|| seed.wrapping_add(place as u64));
            let direction = netem.direction(scenario, name, planned, to, seed);
            let command = format!("qdisc add dev {to} root netem {}", direction.setting);
            netem.run(world.wan(), &command, QDISC)?;
            netem.directions.push(direction);
        }
        for (_, _, from, to) in &passages {
            for (command, parts) in switching(from, to) {
                netem.run(world.wan(), &command, parts)?;
            }
        }
        Ok(netem)
    }

    fn direction(
        &self,
        scenario: &Scenario,
        name: &str,
        planned: &plan::Direction,
        device: &str,
        seed: Option<u64>,
    ) -> Direction {
        let setting = NetemSetting::of(planned, scenario.topology.mtu_bytes);
        let setting = setting.expect("the plan says nothing that netem cannot do");
        Direction {
            name: name.to_owned(),
            device: device.to_owned(),
            setting: setting.seeded(seed),
        }
    }

    fn run(
        &mut self,
        wan: &Namespace,
        command: &str,
        parts: &'static str,
    ) -> Result<(), NetemError> {
        tc::run(wan, &self.tc, command, parts)?;
        self.commands.push(format!("tc {command}"));
        Ok(())
    }

    /// The setup commands, in order.
    #[must_use]
    pub fn commands(&self) -> &[String] {
        &self.commands
    }

    /// The counters of each direction since its start.
    ///
    /// # Errors
    /// [`NetemError`] if tc does not report them.
    pub fn results(&self, wan: &Namespace) -> Result<Vec<NetemResult>, NetemError> {
        let directions = self.directions.iter();
        directions
            .map(|direction| {
                let command = format!("-s -j qdisc show dev {} root", direction.device);
                let printed = tc::run(wan, &self.tc, &command, "sch_netem")?;
                let counted = Counted::read(&printed).ok_or_else(|| NetemError::Refused {
                    command: format!("tc {command}"),
                    said: "no counters of netem among what it says".to_owned(),
                })?;
                Ok(NetemResult {
                    name: direction.name.clone(),
                    setting: direction.setting.to_string(),
                    limit_packets: direction.setting.limit_packets(),
                    seed: counted.options.seed,
                    out_packets: counted.packets,
                    out_bytes: counted.bytes,
                    dropped_packets: counted.drops,
                    held_packets: counted.qlen,
                    held_bytes: counted.backlog,
                })
            })
            .collect()
    }
}
