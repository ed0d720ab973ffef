//! The target server: threads that serve sessions over real sockets from real stores.
//!
//! Each session belongs to one thread, which owns its state, so no lock is on the I/O path. Threads exchange messages
//! ([`mail`]): a new connection goes to the threads in turn, and from there to the owner of the session that it joins;
//! a reset of a unit goes to all.

mod access;
mod directory;
mod gathering;
mod life;
mod lobby;
mod login;
mod mail;
mod opening;
mod reactor;
mod registry;
mod seat;
mod sending;
mod serve;
mod sessions;
mod sharing;
mod snapshot;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::thread;
use std::time::Duration;

use wansan_iscsi::keys::WantedError;
use wansan_iscsi::scsi::{DeviceError, GeometryError};
use wansan_iscsi::target::Memory;
use wansan_iscsi::text::send_targets::{ISCSI_PORT, is_iscsi_name};
use wansan_server::{Mailboxes, Threads, descriptors};
use wansan_tcp::address::AddressError;
use wansan_tcp::congestion::{self, CongestionError};
use wansan_trace::{Kinds, Recorder, clock};

use crate::store::{OpenError, Pool};
pub use access::{Access, NamePattern, NamePatternError};
use directory::Directory;
pub use directory::{Discovery, Offer, TargetSpec};
use mail::Mail;
use opening::Before;
use reactor::Reactor;
use registry::Registry;
use seat::Seats;
pub use sending::Sending;
use snapshot::Logins;
pub use snapshot::{ConnectionSnapshot, Observer, SessionSnapshot, Snapshot, UnitSnapshot};
pub use wansan_server::Changes;

/// The settings of a target server.
#[derive(Debug, Clone)]
pub struct TargetConfig {
    /// The portals to listen on, at least one: `ADDRESS:PORT`; port 0 picks a free port.
    pub listen: Vec<String>,
    /// The targets, all reachable through every portal.
    pub offer: Offer,
    /// TCP congestion control of the connections; the system default if `None`.
    pub congestion_control: Option<String>,
    /// Threads that serve sessions, at least 1.
    pub threads: usize,
    /// What to record.
    pub kinds: Kinds,
    /// Memory for each thread's records, in bytes.
    pub record_bytes: usize,
    /// How often TCP_INFO of each connection is recorded.
    pub tcp_interval: Duration,
    /// Called with one line for each connection that fails.
    pub report: fn(&str),
}

/// Why a target could not be started.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// An invalid iSCSI name.
    #[error(
        "'{name}' is not an iSCSI name: write iqn.YEAR-MONTH.DOMAIN:ANYTHING, with your domain reversed and a month in which you owned it, such as {}, or eui. or naa. followed by 16 (naa. also 32) hex digits; at most 223 bytes, no blanks (RFC 7143 §4.2.7, RFC 3721 §1.1)",
        near_name(name)
    )]
    Name {
        /// The given name.
        name: String,
    },
    /// No logical unit.
    #[error("target {name}: a target needs at least one LUN, for example memory:1GiB")]
    NoLun {
        /// The target's name.
        name: String,
    },
    /// No target.
    #[error("no target to serve; define at least one")]
    NoTarget,
    /// A duplicate target name.
    #[error("duplicate target name {name}; rename one")]
    Twice {
        /// The name.
        name: String,
    },
    /// The LUNs of a target with sessions cannot change.
    #[error(
        "target {name}: its LUNs cannot change while initiators are logged in; log them out first"
    )]
    InUse {
        /// The target's name.
        name: String,
    },
    /// Two LUNs share one file.
    #[error("LUN {spec}: another LUN has the same file; give each its own")]
    OneFile {
        /// The later one.
        spec: String,
    },
    /// The file of a new LUN is in use by another target with sessions.
    #[error(
        "LUN {spec}: target {name} still serves this file to initiators that are logged in; log \
         them out first"
    )]
    Held {
        /// The LUN.
        spec: String,
        /// The target.
        name: String,
    },
    /// The file of a LUN is open with other options.
    #[error(
        "LUN {spec}: its file is open as {held}, and options can change only while it is closed: remove the LUN, reload, then add it again"
    )]
    OtherOptions {
        /// The LUN.
        spec: String,
        /// The options that it was opened with.
        held: String,
    },
    /// No portal.
    #[error("no portal to listen at: name at least one ADDRESS:PORT")]
    NoPortal,
    /// A store could not be opened.
    #[error("LUN {spec}: {source}")]
    Open {
        /// The LUN.
        spec: String,
        /// The cause.
        source: OpenError,
    },
    /// A store's size is not valid for a disk.
    #[error("LUN {spec}: {source}")]
    Geometry {
        /// The LUN.
        spec: String,
        /// The cause.
        source: GeometryError,
    },
    /// The logical units do not form a valid device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A setting is out of its range.
    #[error(transparent)]
    Wanted(#[from] WantedError),
    /// An invalid portal.
    #[error(
        "'{address}' is not an ADDRESS:PORT to listen at: write {}",
        near_portal(address)
    )]
    Portal {
        /// The given address.
        address: String,
    },
    /// Listening on the portal failed.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// The congestion control is not available.
    #[error(transparent)]
    Congestion(#[from] CongestionError),
    /// The operating system provides no thread or descriptor.
    #[error("cannot start the target's threads: {0}")]
    Machine(#[from] io::Error),
}

/// A running target.
#[derive(Debug)]
pub struct Target {
    shared: Arc<Shared>,
    threads: Threads<Mail, Recorder>,
    /// Dropped after the threads that use it.
    _pool: Arc<Pool>,
}

/// State shared by all threads of a target.
#[derive(Debug)]
struct Shared {
    /// The portals, in the order given.
    addresses: Vec<SocketAddr>,
    /// Read at login only.
    directory: RwLock<Arc<Directory>>,
    /// Memory limit of all sessions together.
    memory: Arc<Memory>,
    registry: Registry,
    seats: Seats,
    /// Connections per thread that may wait to log in.
    waiting_places: usize,
    logins: Logins,
    /// The target accepts no new sessions any more.
    drains: AtomicBool,
    mailboxes: Arc<Mailboxes<Mail>>,
    tcp_interval: Duration,
    report: fn(&str),
}

impl Shared {
    /// The present directory.
    fn directory(&self) -> Arc<Directory> {
        Arc::clone(&self.held_directory())
    }

    /// The directory, locked against changes while this is held.
    fn held_directory(&self) -> RwLockReadGuard<'_, Arc<Directory>> {
        let directory = self.directory.read();
        directory.unwrap_or_else(PoisonError::into_inner)
    }
}

/// All portals of a target are one group (RFC 7143 §13.9).
const PORTAL_GROUP_TAG: u16 = 1;

/// Memory limit of all sessions together: enough for the largest writes of a few sessions, or the ordinary I/O of very
/// many, and little compared with the memory of a storage server.
const SESSIONS_BYTES: usize = 1 << 30;

/// Threads of the pool for operations that may block. Disks perform well at about this queue depth.
const STORE_THREADS: usize = 16;

impl Target {
    /// Opens the stores, listens and starts serving.
    ///
    /// # Errors
    /// [`TargetError`]; nothing stays open.
    pub fn start(config: &TargetConfig) -> Result<Target, TargetError> {
        if config.listen.is_empty() {
            return Err(TargetError::NoPortal);
        }
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for portal in &config.listen {
            let listener = listen(portal)?;
            if let Some(name) = &config.congestion_control {
                // Accepted connections inherit it.
                congestion::choose(&listener, name)?;
            }
            addresses.push(listener.local_addr()?);
            listeners.push(listener);
        }
        let memory = Memory::new(SESSIONS_BYTES);
        let (directory, unsettled) = Directory::new(&config.offer, &Before::nothing(), &memory)?;
        let pool = Arc::new(Pool::start(STORE_THREADS)?);
        let mailboxes = Arc::new(Mailboxes::new(config.threads)?);
        directory.set_bells(&mailboxes);
        let shared = Arc::new(Shared {
            addresses,
            directory: RwLock::new(Arc::new(directory)),
            memory,
            registry: Registry::default(),
            seats: Seats::default(),
            waiting_places: lobby::places(config.threads, descriptors::raise()),
            logins: Logins::default(),
            drains: AtomicBool::new(false),
            mailboxes,
            tcp_interval: config.tcp_interval,
            report: config.report,
        });
        let mut target = Target {
            shared: Arc::clone(&shared),
            threads: Threads::new(Arc::clone(&shared.mailboxes)),
            _pool: Arc::clone(&pool),
        };
        for number in 0..shared.mailboxes.count() {
            let trace = Recorder::new(config.kinds, config.record_bytes);
            // The first one accepts for all.
            let listeners = std::mem::take(&mut listeners);
            let reactor = Reactor::new(number, Arc::clone(&shared), listeners, &pool, trace)?;
            target.threads.spawn(format!("target-{number}"), reactor)?;
        }
        for opened in unsettled.opened {
            opened.keep();
        }
        Ok(target)
    }

    /// Its portals, in the order given.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.shared.addresses
    }

    /// Applies a new set of targets and settings to later logins. Existing sessions keep what they
    /// logged in to. Unchanged LUNs keep their data, and the LUNs of a removed target that still
    /// has sessions are reused if the target is added again.
    ///
    /// # Errors
    /// [`TargetError`]; nothing changes then. The LUNs of a target with sessions cannot change.
    pub fn reload(&mut self, offer: &Offer) -> Result<Changes, TargetError> {
        let old = self.shared.directory();
        let is_in_use = |name: &str| self.shared.registry.has_sessions(name);
        let before = old.before(&is_in_use);
        let (new, unsettled) = Directory::new(offer, &before, &self.shared.memory)?;
        new.set_bells(&self.shared.mailboxes);
        let changes = new.changes(&old);
        let mut directory = self
            .shared
            .directory
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        // An initiator may have logged in while the stores were opened; now none can.
        if let Some(name) = new.renewed(&old).find(|name| is_in_use(name)) {
            return Err(TargetError::InUse {
                name: name.to_owned(),
            });
        }
        unsettled.inherit(&is_in_use)?;
        *directory = Arc::new(new);
        for opened in unsettled.opened {
            opened.keep();
        }
        Ok(changes)
    }

    /// A handle that reads its counters from other threads.
    #[must_use]
    pub fn observer(&self) -> Observer {
        Observer {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Accepts no new sessions and asks all initiators to log out (RFC 7143 §11.9.1). Waits until they have, at most
    /// for `patience`, or until `hurries` returns true; returns whether they have.
    pub fn drain(&self, patience: Duration, mut hurries: impl FnMut() -> bool) -> bool {
        /// How often to check whether the sessions are gone.
        const STEP: Duration = Duration::from_millis(10);
        let deadline = clock::now() + patience;
        self.shared.drains.store(true, Ordering::Relaxed);
        let seconds = u16::try_from(patience.as_secs().max(1)).unwrap_or(u16::MAX);
        self.shared.mailboxes.send_all(|| Mail::Drain(seconds));
        while !self.shared.registry.is_empty() {
            if hurries() || clock::now() >= deadline {
                return false;
            }
            thread::sleep(STEP);
        }
        true
    }

    /// Closes all connections, ends the threads and returns their records.
    #[must_use]
    pub fn stop(mut self) -> Vec<Recorder> {
        self.threads.stop()
    }
}

/// A valid iSCSI name close to the given one.
fn near_name(given: &str) -> String {
    let blank = |c: char| c.is_whitespace() || c.is_control();
    let near = given.trim().to_lowercase().replace(blank, "-");
    let inside = format!("iqn.2026-01.net.example:{near}");
    [near, inside]
        .into_iter()
        .find(|name| is_iscsi_name(name))
        .unwrap_or_else(|| "iqn.2026-01.net.example:disk".to_owned())
}

/// A valid portal close to the given one.
fn near_portal(given: &str) -> String {
    let bare = given.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return SocketAddr::new(address, ISCSI_PORT).to_string();
    }
    let host = match given.rsplit_once(':') {
        Some((host, _)) => host,
        None => given,
    };
    let host = if host.is_empty() { "127.0.0.1" } else { host };
    format!("{host}:{ISCSI_PORT}")
}

fn listen(address: &str) -> Result<TcpListener, TargetError> {
    let failed = |source| TargetError::Listen {
        address: address.to_owned(),
        source,
    };
    let addresses = wansan_tcp::address::resolve(address).map_err(|error| match error {
        AddressError::Form => TargetError::Portal {
            address: address.to_owned(),
        },
        AddressError::Resolver(source) => failed(source),
    })?;
    let listener = TcpListener::bind(&addresses[..]).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearly_right_is_named() {
        for (given, near) in [
            ("127.0.0.1", "127.0.0.1:3260"),
            ("127.0.0.1:", "127.0.0.1:3260"),
            ("127.0.0.1:99999", "127.0.0.1:3260"),
            (":3260", "127.0.0.1:3260"),
            ("::1", "[::1]:3260"),
            ("[::1]", "[::1]:3260"),
            ("localhost", "localhost:3260"),
        ] {
            let error = listen(given).map(drop).unwrap_err().to_string();
            assert!(error.contains(given) && error.contains(near), "{error}");
        }
        for (given, near) in [
            ("my disk", "iqn.2026-01.net.example:my-disk"),
            ("IQN.2026-11.org.foo:x", "iqn.2026-11.org.foo:x"),
            ("", "iqn.2026-01.net.example:"),
        ] {
            let name = given.to_owned();
            let error = TargetError::Name { name }.to_string();
            assert!(error.contains(near), "{error}");
        }
    }
}
