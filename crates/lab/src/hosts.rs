//! Real computers as hosts: reached by the user's own `ssh`, each with an agent (`wansan lab attend`) during the run,
//! which starts programs, sends back their records, and removes everything afterwards.
//!
//! ```text
//!   lab ── ssh ── sh on the host ── wansan lab attend ── wansan target, bench, relay, stream
//!    requests ──►  (removes the       (kills its programs
//!    ◄── replies    folder)            when its input ends)
//! ```
//!
//! - [`agent`]: the remote side;
//! - `ssh`: how ssh is called, and remedies for its errors;
//! - `connection`: the local side, for one host;
//! - `peer`: a single host, beside this one;
//! - `protocol`: the messages between the two;
//! - `witness`: bounds on the offset between hosts' clocks, from the I/Os of a cell ([`wansan_insight::clock`]).

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
    /// ssh's configuration file, if not the user's default.
    pub ssh_config: Option<PathBuf>,
    /// Whether `wansan` is installed on the hosts, so that it need not be copied.
    pub is_installed: bool,
}

/// Why real computers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    /// ssh is not installed here.
    #[error("cannot start ssh: {0}; install OpenSSH's client (Debian: openssh-client)")]
    NoSsh(io::Error),
    /// The connection failed or is lost.
    #[error("host `{host}` (ssh {ssh}): {said}; {remedy}")]
    Lost {
        /// The host.
        host: String,
        /// Its name for ssh.
        ssh: String,
        /// The last output of ssh or the host.
        said: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// It does not answer.
    #[error("host `{host}` did not answer within {} s; check its load", limit.as_secs())]
    Silent {
        /// The host.
        host: String,
        /// The timeout.
        limit: Duration,
    },
    /// Its platform differs.
    #[error(
        "host `{host}` is {there}, and this wansan is for {here}: install one that runs there, of the same \
         version, and add --no-copy"
    )]
    Foreign {
        /// The host.
        host: String,
        /// Its system and architecture.
        there: String,
        /// System and architecture here.
        here: String,
    },
    /// It has another build of wansan installed.
    #[error(
        "host `{host}` has wansan {there} installed, and this is {here}: install the same there, or leave \
         --no-copy out"
    )]
    Version {
        /// The host.
        host: String,
        /// Version and commit there.
        there: String,
        /// Version and commit here.
        here: String,
    },
    /// The copied program differs from the original.
    #[error("host `{host}`: the copy of wansan there differs from the one here; check its disk")]
    Copy {
        /// The host.
        host: String,
    },
    /// The program's own file cannot be read.
    #[error("cannot read {}, which has to be copied to the hosts: {source}", path.display())]
    OwnProgram {
        /// Its path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// It does not have the address that the plan gives it.
    #[error(
        "host `{host}` does not have the address {address} in the plan: correct `address` of its [[host]]"
    )]
    Address {
        /// The host.
        host: String,
        /// The address.
        address: String,
    },
    /// A congestion control is missing, or its user may not choose it.
    #[error("host `{host}`: congestion control '{control}' {what}")]
    CongestionControl {
        /// The host.
        host: String,
        /// The congestion control.
        control: String,
        /// The error, and a remedy.
        what: String,
    },
    /// Its records could not be fetched.
    #[error("host `{host}`: its records cannot be fetched: {reason}")]
    Records {
        /// The host.
        host: String,
        /// The reason.
        reason: String,
    },
    /// Its clock was adjusted during a cell.
    #[error(
        "host `{host}`: its clock is too irregular to merge records: is CLOCK_MONOTONIC being adjusted there?"
    )]
    Clock {
        /// The host.
        host: String,
    },
    /// It sent something that is not the agent's protocol.
    #[error(
        "host `{host}` says {said}, which the lab does not understand: something else answers there"
    )]
    Nonsense {
        /// The host.
        host: String,
        /// Its output.
        said: String,
    },
    /// The run was interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// All hosts of a run, each with an agent.
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
        // All connect concurrently.
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

    /// Checks that the hosts have the cells' congestion controls and that their users may choose them.
    pub(crate) fn check(&self, cells: &[Cell]) -> Result<(), HostsError> {
        for cell in cells {
            for control in cell.congestion_controls() {
                self.hosts.iter().try_for_each(|host| host.check(control))?;
            }
        }
        Ok(())
    }

    /// Facts about the hosts.
    pub(crate) fn facts(&self) -> Vec<HostFacts> {
        self.hosts.iter().map(Attended::facts).collect()
    }

    /// Prepares all hosts for a cell.
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

    /// Fetches all hosts' records of a cell into `folder` and merges them on this computer's clock; returns the clocks.
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

    /// Estimates all hosts' clocks. For hosts that exchange I/Os with the target's host, these give a better estimate
    /// than exchanges over ssh, whose accuracy matters to the lab only.
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

/// Why the records of a cell cannot be merged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CollectError {
    #[error(transparent)]
    Hosts(#[from] HostsError),
    #[error(transparent)]
    Files(#[from] FileError),
}

/// The hosts' clocks in a cell.
#[derive(Debug, Default)]
pub(crate) struct Clocks(BTreeMap<String, Known>);

#[derive(Debug, Clone)]
struct Known {
    here: Estimate,
    /// The host that it is estimated relative to, and the estimate.
    by_packets: Option<(String, Estimate)>,
}

impl Clocks {
    /// The clock of a host; this computer's for any other name.
    pub(crate) fn of(&self, host: &str) -> OtherClock {
        let known = self.0.get(host).map(|known| known.here);
        known.unwrap_or(Estimate::SAME).clock
    }

    /// Facts for the manifest.
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

/// The `wansan` that all hosts run.
struct Own<'a> {
    program: &'a Path,
    /// Length and SHA-256 if it is copied.
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

    /// Starts an agent at the remote side of a connection.
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
    /// Its entry in the plan.
    pub(crate) fn spec(&self) -> &RealHost {
        self.connection.host()
    }

    /// The folder of its programs' records.
    pub(crate) fn records(&self) -> &Path {
        &self.hello.records
    }

    /// Starts `wansan` with these arguments and with `settings` on its standard input, which stays open.
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
