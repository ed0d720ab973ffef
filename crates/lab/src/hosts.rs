//! Real computers as hosts: reached by the user's own `ssh`, each with an agent (`wansan lab attend`) for as
//! long as the run takes, which starts programs, hands over what they record, and leaves nothing behind.
//!
//! ```text
//!   lab ── ssh ── sh on the host ── wansan lab attend ── wansan target, bench, relay, stream
//!    requests ──►  (removes the       (kills its programs
//!    ◄── replies    folder)            when its input ends)
//! ```
//!
//! - [`agent`]: the far end;
//! - `ssh`: how it is called, and what to do about what it says;
//! - `connection`: the near end, for one host;
//! - `peer`: one host by itself, beside this one;
//! - `protocol`: what both say;
//! - `witness`: what the I/Os of a cell say about how far the hosts' clocks are apart ([`wansan_insight::clock`]).

mod agent;
mod connection;
mod peer;
mod protocol;
mod ssh;
mod witness;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use wansan_insight::clock::{Bound, Estimate};
use wansan_schema::{ClockFacts, HostFacts, NodeFacts};
use wansan_trace::clock::OtherClock;
use wansan_trace::file::{self, FileError};

use crate::plan::{Cell, RealHost, RecordKind};
use crate::world::Process;

pub use agent::attend;
pub(crate) use agent::sha256_of;
use connection::Connection;
pub use peer::Peer;
use protocol::Hello;
pub(crate) use protocol::Watched;

/// How hosts are reached.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// ssh's configuration, where it is not the user's own.
    pub ssh_config: Option<PathBuf>,
    /// Whether `wansan` is installed on the hosts, and is not to be copied there.
    pub is_installed: bool,
}

/// Why real computers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    /// There is no ssh here.
    #[error("cannot start ssh: {0}; install OpenSSH's client (Debian: openssh-client)")]
    NoSsh(io::Error),
    /// The connection could not be made, or is lost.
    #[error("host `{host}` (ssh {ssh}): {said}; {remedy}")]
    Lost {
        /// The host.
        host: String,
        /// What ssh calls it.
        ssh: String,
        /// The last that ssh, or the host, said.
        said: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// It does not answer.
    #[error("host `{host}` did not answer within {} s; see what it is busy with", limit.as_secs())]
    Silent {
        /// The host.
        host: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// It is another kind of computer.
    #[error(
        "host `{host}` is {there}, and this wansan is for {here}: install one that runs there, of the same \
         version, and add --no-copy"
    )]
    Foreign {
        /// The host.
        host: String,
        /// Its system and architecture.
        there: String,
        /// Those here.
        here: String,
    },
    /// What is installed there is not what runs here.
    #[error(
        "host `{host}` has wansan {there} installed, and this is {here}: install the same there, or leave \
         --no-copy out"
    )]
    Version {
        /// The host.
        host: String,
        /// Version and commit there.
        there: String,
        /// Those here.
        here: String,
    },
    /// The copy is not what was sent.
    #[error(
        "host `{host}`: the copy of wansan there differs from the one here; see whether its disk is sound"
    )]
    Copy {
        /// The host.
        host: String,
    },
    /// The program that is to be copied cannot be read.
    #[error("cannot read {}, which is to be copied to the hosts: {source}", path.display())]
    OwnProgram {
        /// It.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The plan gives it an address that it does not have.
    #[error(
        "host `{host}` does not have the address {address} that the plan gives it: correct `address` of its [[host]]"
    )]
    Address {
        /// The host.
        host: String,
        /// The address.
        address: String,
    },
    /// It lacks a congestion control, or its user may not choose it.
    #[error("host `{host}`: congestion control '{control}' {what}")]
    CongestionControl {
        /// The host.
        host: String,
        /// The control.
        control: String,
        /// What is wrong, and what to do about it.
        what: String,
    },
    /// What was recorded there did not come.
    #[error("host `{host}`: its records cannot be had: {reason}")]
    Records {
        /// The host.
        host: String,
        /// Why.
        reason: String,
    },
    /// Its clock was set while a cell ran.
    #[error(
        "host `{host}`: its clock is not even enough to join records by: is CLOCK_MONOTONIC steered there?"
    )]
    Clock {
        /// The host.
        host: String,
    },
    /// It says what an agent does not say.
    #[error(
        "host `{host}` says {said}, which the lab does not understand: something else answers there"
    )]
    Nonsense {
        /// The host.
        host: String,
        /// What it said.
        said: String,
    },
    /// The run was asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// All hosts of a run, with an agent on each.
#[derive(Debug)]
pub(crate) struct Fleet {
    hosts: Vec<Attended>,
}

/// A host with an agent.
#[derive(Debug)]
pub(crate) struct Attended {
    connection: Connection,
    hello: Box<Hello>,
}

impl Fleet {
    /// Connects to `hosts`, which run `program`, a `wansan`. The calling thread has to outlive the value.
    pub(crate) fn connect(
        hosts: &[RealHost],
        program: &Path,
        reach: &Reach,
        stop: &AtomicBool,
    ) -> Result<Fleet, HostsError> {
        let own = Own::of(program, reach)?;
        let config = reach.ssh_config.as_deref();
        let opened = hosts
            .iter()
            .map(|host| Connection::open(host, config, own.copied_bytes()));
        // All greet meanwhile.
        let opened = opened.collect::<Result<Vec<_>, _>>()?;
        let mut fleet = Fleet { hosts: Vec::new() };
        for connection in opened {
            let host = own.attend(connection, stop)?;
            if !host.connection.has_its_address(stop)? {
                return Err(HostsError::Address {
                    host: host.spec().name.clone(),
                    address: host.spec().address.to_string(),
                });
            }
            fleet.hosts.push(host);
        }
        Ok(fleet)
    }

    /// The host of that name.
    pub(crate) fn host(&self, name: &str) -> Option<&Attended> {
        self.hosts.iter().find(|host| host.spec().name == name)
    }

    /// Whether the hosts have the congestion controls of the cells, and their users may choose these.
    pub(crate) fn check(&self, cells: &[Cell]) -> Result<(), HostsError> {
        for cell in cells {
            for control in cell.congestion_controls() {
                self.hosts.iter().try_for_each(|host| host.check(control))?;
            }
        }
        Ok(())
    }

    /// What is known of the hosts.
    pub(crate) fn facts(&self) -> Vec<HostFacts> {
        self.hosts.iter().map(Attended::facts).collect()
    }

    /// Has all hosts get ready for a cell.
    pub(crate) fn begin(&self, cell: &Cell) -> Result<(), HostsError> {
        let trace = &cell.document.trace;
        let is_recorded = trace.kinds.contains(&RecordKind::Thread);
        let memory_bytes = is_recorded.then_some(trace.memory.0);
        let mut hosts = self.hosts.iter();
        hosts.try_for_each(|host| host.connection.begin(memory_bytes))
    }

    /// The hosts of a cell.
    pub(crate) fn nodes(&self) -> Vec<NodeFacts> {
        self.hosts.iter().map(Attended::node).collect()
    }

    /// Has everything that the hosts recorded of a cell come to `folder`, where it is joined by this computer's
    /// clock; what their clocks show.
    pub(crate) fn collect(
        &self,
        folder: &Path,
        target: Option<&str>,
        stop: &AtomicBool,
    ) -> Result<Clocks, CollectError> {
        let mut parts: BTreeMap<PathBuf, &str> = BTreeMap::new();
        for host in &self.hosts {
            let files = host.connection.collect(folder, stop)?;
            parts.extend(files.into_iter().map(|path| (path, &*host.spec().name)));
        }
        let clocks = self.clocks(&parts, target)?;
        let clock_of = |path: &Path| {
            let host = parts.get(path)?;
            Some(clocks.of(host))
        };
        file::merge_parts_of(folder, &clock_of)?;
        Ok(clocks)
    }

    /// The clocks of all hosts. Those that have I/Os with the target's host are known by that one's, as those say
    /// more than exchanges over ssh, which nobody but the lab needs to be exact.
    fn clocks(
        &self,
        parts: &BTreeMap<PathBuf, &str>,
        target: Option<&str>,
    ) -> Result<Clocks, CollectError> {
        let of_target = target.map(|target| witness::crossings(parts, target));
        let of_target = of_target.transpose()?;
        let mut clocks = Clocks::default();
        for host in &self.hosts {
            let name = &host.spec().name;
            let exchanges: Vec<Bound> = host
                .connection
                .exchanges()
                .iter()
                .map(|it| Bound::of_inner([it.sent, it.received], [it.read; 2]))
                .collect();
            let by_exchanges = Estimate::from_bounds(&exchanges);
            let by_exchanges =
                by_exchanges.ok_or_else(|| HostsError::Clock { host: name.clone() })?;
            clocks.0.insert(
                name.clone(),
                Known {
                    here: by_exchanges,
                    by_packets: None,
                },
            );
        }
        let (Some(target), Some(of_target)) = (target, of_target) else {
            return Ok(clocks);
        };
        let through = clocks.0.get(target).map(|known| known.here);
        for host in self.hosts.iter().filter(|host| host.spec().name != target) {
            let name = &host.spec().name;
            let own = witness::crossings(parts, name)?;
            let seen = Estimate::from_bounds(&witness::bounds(&own, &of_target));
            if let (Some(seen), Some(through), Some(known)) =
                (seen, through, clocks.0.get_mut(name))
            {
                *known = Known {
                    here: seen.through(through),
                    by_packets: Some((target.to_owned(), seen)),
                };
            }
        }
        Ok(clocks)
    }
}

/// Why the records of a cell are not joined.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CollectError {
    #[error(transparent)]
    Hosts(#[from] HostsError),
    #[error(transparent)]
    Files(#[from] FileError),
}

/// What the hosts' clocks showed in a cell.
#[derive(Debug, Default)]
pub(crate) struct Clocks(BTreeMap<String, Known>);

#[derive(Debug, Clone)]
struct Known {
    here: Estimate,
    /// By the clock of which other host it is known, and how well.
    by_packets: Option<(String, Estimate)>,
}

impl Clocks {
    /// The clock of a host; this computer's own for one that is none of them.
    pub(crate) fn of(&self, host: &str) -> OtherClock {
        let known = self.0.get(host).map(|known| known.here);
        known.unwrap_or(Estimate::SAME).clock
    }

    /// What goes into the manifest.
    pub(crate) fn facts(&self) -> Vec<ClockFacts> {
        let facts = self.0.iter().map(|(host, known)| {
            let (by, to, estimate) = match &known.by_packets {
                Some((to, seen)) => ("packets", to.as_str(), seen),
                None => ("exchanges", "lab", &known.here),
            };
            ClockFacts {
                host: host.clone(),
                at_ns: known.here.clock.at.ns(),
                ahead_ns: known.here.clock.ahead_ns,
                drift_ppb: known.here.clock.drift_ppb,
                by: by.to_owned(),
                relative_to: to.to_owned(),
                error_ns: estimate.error_ns,
            }
        });
        facts.collect()
    }
}

/// The `wansan` that all hosts are to run.
struct Own<'a> {
    program: &'a Path,
    /// Of one that is copied: how long it is, and its SHA-256.
    copied: Option<(u64, String)>,
}

impl<'a> Own<'a> {
    fn of(program: &'a Path, reach: &Reach) -> Result<Own<'a>, HostsError> {
        let unread = |source| HostsError::OwnProgram {
            path: program.to_owned(),
            source,
        };
        let copied = match reach.is_installed {
            true => None,
            false => {
                let bytes = program.metadata().map_err(unread)?.len();
                Some((bytes, sha256_of(program).map_err(unread)?))
            }
        };
        Ok(Own { program, copied })
    }

    fn copied_bytes(&self) -> Option<u64> {
        self.copied.as_ref().map(|(bytes, _)| *bytes)
    }

    /// Has an agent of it at the far end of a connection.
    fn attend(
        &self,
        mut connection: Connection,
        stop: &AtomicBool,
    ) -> Result<Attended, HostsError> {
        let (system, machine) = connection.greeting(stop)?;
        let host = connection.host().name.clone();
        if self.copied.is_some() {
            let name = rustix::system::uname();
            let here = [name.sysname(), name.machine()].map(|word| word.to_string_lossy());
            if here != [system.as_str(), machine.as_str()] {
                return Err(HostsError::Foreign {
                    host,
                    there: format!("{system} {machine}"),
                    here: here.join(" "),
                });
            }
            connection.copy(self.program, stop)?;
        }
        let hello = connection.hello(stop)?;
        let there = format!("{} ({})", hello.version, hello.commit);
        let here = format!("{} ({})", env!("CARGO_PKG_VERSION"), env!("WANSAN_COMMIT"));
        match &self.copied {
            Some((_, sha256)) if *sha256 != hello.sha256 => return Err(HostsError::Copy { host }),
            None if there != here => return Err(HostsError::Version { host, there, here }),
            _ => {}
        }
        Ok(Attended { connection, hello })
    }
}

impl Attended {
    /// What the plan says of it.
    pub(crate) fn spec(&self) -> &RealHost {
        self.connection.host()
    }

    /// Where its programs record.
    pub(crate) fn records(&self) -> &Path {
        &self.hello.records
    }

    /// Starts `wansan` with these arguments, and with `settings` on its standard input, which stays open.
    pub(crate) fn start(
        &self,
        title: &str,
        arguments: Vec<String>,
        settings: String,
        watched: Option<Watched>,
    ) -> Result<Process, HostsError> {
        self.connection.start(title, arguments, settings, watched)
    }

    fn check(&self, control: &str) -> Result<(), HostsError> {
        let machine = &self.hello.machine;
        let has = |list: &str| list.split_whitespace().any(|name| name == control);
        let what = if !has(&machine.congestion_controls_available) {
            let load = match control.starts_with("wansan_") {
                true => format!("`wansan cc load {control}`"),
                false => format!("`modprobe tcp_{control}`"),
            };
            format!("is not there: load it as root with {load}")
        } else if self.hello.uid != 0 && !has(&machine.congestion_controls_allowed) {
            "is not one that its user may choose: log in as root, or allow it with \
             `sysctl net.ipv4.tcp_allowed_congestion_control`"
                .to_owned()
        } else {
            return Ok(());
        };
        Err(HostsError::CongestionControl {
            host: self.spec().name.clone(),
            control: control.to_owned(),
            what,
        })
    }

    fn facts(&self) -> HostFacts {
        let Hello {
            version,
            commit,
            sha256,
            uid,
            machine,
            ..
        } = &*self.hello;
        HostFacts {
            host: self.spec().name.clone(),
            ssh: self.spec().ssh.clone(),
            uid: *uid,
            wansan_version: version.clone(),
            wansan_commit: commit.clone(),
            wansan_sha256: sha256.clone(),
            machine: machine.clone(),
        }
    }

    fn node(&self) -> NodeFacts {
        NodeFacts {
            name: self.spec().name.clone(),
            role: "host".to_owned(),
            address: self.spec().address.to_string(),
            settings: self.hello.settings.clone(),
            ..NodeFacts::default()
        }
    }
}
