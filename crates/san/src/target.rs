//! The target server: threads that serve sessions over real sockets from real stores.
//!
//! Each session belongs to one thread, which owns its state, so nothing on an I/O's way is locked.
//! Threads talk by mail ([`mailbox`]): a new connection goes to the thread with the next number, and
//! from there to the one that owns the session which it wants to join; a reset of a unit goes to all.

mod access;
mod lobby;
mod login;
mod mailbox;
mod reactor;
mod registry;
mod seat;
mod serve;
mod sessions;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wansan_iscsi::keys::{Wanted, WantedError};
use wansan_iscsi::login::chap::TargetAccounts;
use wansan_iscsi::scsi::{
    DeviceError, Geometry, GeometryError, Identity, LogicalUnit, TargetDevice,
};
use wansan_iscsi::target::{Memory, SessionConfig};
use wansan_iscsi::text::send_targets::is_iscsi_name;
use wansan_tcp::congestion::{self, CongestionError};
use wansan_trace::{Kinds, Recorder};

use crate::machine;
use crate::store::{LunSpec, OpenError, OpenedStore, Pool, Store};
use crate::url::ISCSI_PORT;
pub use access::{Access, NamePattern, NamePatternError, Network, NetworkError};
use mailbox::{Mail, Mailbox};
use reactor::Reactor;
use registry::Registry;
use seat::Seats;

/// What a target serves, and how.
#[derive(Debug, Clone)]
pub struct TargetConfig {
    /// Where to listen: `ADDRESS:PORT`; port 0 takes a free one.
    pub listen: String,
    /// The target's iSCSI name.
    pub name: String,
    /// Its logical units, numbered from 0.
    pub luns: Vec<LunSpec>,
    /// Commands of one session that may be in hand at once, 1 to 65,536.
    pub command_window: u32,
    /// What to negotiate for.
    pub wanted: Wanted,
    /// Whom it lets in by CHAP; without it, nobody has to prove anything.
    pub chap: Option<Arc<TargetAccounts>>,
    /// Who may see and use it.
    pub access: Access,
    /// The kernel's congestion control for connections, or its default.
    pub congestion_control: Option<String>,
    /// Threads that serve sessions, at least 1.
    pub threads: usize,
    /// What to record.
    pub kinds: Kinds,
    /// Memory for each thread's records, in bytes.
    pub record_bytes: usize,
    /// How often TCP_INFO of each connection is recorded.
    pub tcp_interval: Duration,
    /// Is told, in one line, of connections that end in trouble.
    pub report: fn(&str),
}

/// A target could not be started.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Not a name.
    #[error(
        "'{name}' is no iSCSI name: write iqn.YEAR-MONTH.DOMAIN:ANYTHING, the domain backwards and \
         a month in which it was yours, such as {}, or eui. or naa. and 16 (naa. also 32) hex \
         digits; 223 bytes at most, no blanks (RFC 7143 §4.2.7, RFC 3721 §1.1)",
        near_name(name)
    )]
    Name {
        /// What was given.
        name: String,
    },
    /// No logical unit.
    #[error("a target needs at least one LUN, for example memory:1GiB")]
    NoLun,
    /// A store could not be opened.
    #[error("LUN {spec}: {source}")]
    Open {
        /// Which.
        spec: String,
        /// Why.
        source: OpenError,
    },
    /// A store's size makes no disk.
    #[error("LUN {spec}: {source}")]
    Geometry {
        /// Which.
        spec: String,
        /// Why.
        source: GeometryError,
    },
    /// The logical units make no device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A setting is out of its range.
    #[error(transparent)]
    Wanted(#[from] WantedError),
    /// The portal lacks its port, or is otherwise none.
    #[error(
        "'{address}' is no ADDRESS:PORT to listen at: write {}",
        near_portal(address)
    )]
    Portal {
        /// What was given.
        address: String,
    },
    /// The portal cannot be had.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The congestion control cannot be had.
    #[error(transparent)]
    Congestion(#[from] CongestionError),
    /// The machine gives no thread or descriptor.
    #[error("cannot start the target's threads: {0}")]
    Machine(#[from] io::Error),
}

/// A running target.
#[derive(Debug)]
pub struct Target {
    address: SocketAddr,
    threads: Vec<(Arc<Mailbox>, JoinHandle<Recorder>)>,
    /// Dropped after the threads that use it.
    _pool: Arc<Pool>,
}

/// What all threads of a target share; none of it changes while it runs.
struct Shared {
    name: String,
    address: SocketAddr,
    wanted: Wanted,
    chap: Option<Arc<TargetAccounts>>,
    access: Access,
    session: SessionConfig,
    /// By the places of their units in the device.
    stores: Arc<[Arc<dyn Store>]>,
    registry: Registry,
    seats: Seats,
    /// Connections of each thread that may wait to log in.
    waiting_places: usize,
    mailboxes: Vec<Arc<Mailbox>>,
    tcp_interval: Duration,
    report: fn(&str),
}

/// All portals of a target are one group (RFC 7143 §13.9).
const PORTAL_GROUP_TAG: u16 = 1;

/// What all sessions together may hold: as much as the largest writes of a few sessions, or the
/// ordinary I/O of very many, and little beside what a computer that serves disks has.
const SESSIONS_BYTES: usize = 1 << 30;

/// Threads of the pool that runs what may block. Disks take a queue of about this depth well.
const STORE_THREADS: usize = 16;

impl Target {
    /// Opens the stores, listens and starts to serve.
    ///
    /// # Errors
    /// [`TargetError`] says what is wrong; nothing is left behind.
    pub fn start(config: &TargetConfig) -> Result<Target, TargetError> {
        if !is_iscsi_name(&config.name) {
            return Err(TargetError::Name {
                name: config.name.clone(),
            });
        }
        if config.luns.is_empty() {
            return Err(TargetError::NoLun);
        }
        config.wanted.check()?;
        let listener = listen(&config.listen)?;
        if let Some(name) = &config.congestion_control {
            // Accepted connections inherit it.
            congestion::choose(&listener, name)?;
        }
        let address = listener.local_addr()?;
        let (device, opened) = open_luns(config)?;
        let pool = Arc::new(Pool::start(STORE_THREADS)?);
        let mailboxes = (0..config.threads.max(1))
            .map(|_| Mailbox::new().map(Arc::new))
            .collect::<Result<Vec<_>, _>>()?;
        let shared = Arc::new(Shared {
            name: config.name.clone(),
            address,
            wanted: config.wanted.clone(),
            chap: config.chap.clone(),
            access: config.access.clone(),
            session: SessionConfig {
                device: Arc::new(device),
                command_window: config.command_window,
                memory: Memory::new(SESSIONS_BYTES),
            },
            stores: opened
                .iter()
                .map(|opened| Arc::clone(opened.store()))
                .collect(),
            registry: Registry::default(),
            seats: Seats::default(),
            waiting_places: lobby::places(config.threads, machine::raise_descriptors()),
            mailboxes,
            tcp_interval: config.tcp_interval,
            report: config.report,
        });
        let mut target = Target {
            address,
            threads: Vec::new(),
            _pool: Arc::clone(&pool),
        };
        let mut listener = Some(listener);
        for (number, mailbox) in shared.mailboxes.iter().enumerate() {
            let trace = Recorder::new(config.kinds, config.record_bytes);
            let reactor = Reactor::new(number, Arc::clone(&shared), listener.take(), &pool, trace)?;
            let thread = thread::Builder::new()
                .name(format!("target-{number}"))
                .spawn(move || reactor.run())?;
            target.threads.push((Arc::clone(mailbox), thread));
        }
        for opened in opened {
            opened.keep();
        }
        Ok(target)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes all connections, ends the threads and gives their records.
    #[must_use]
    pub fn stop(mut self) -> Vec<Recorder> {
        self.end()
    }

    fn end(&mut self) -> Vec<Recorder> {
        for (mailbox, _) in &self.threads {
            mailbox.put(Mail::Stop);
        }
        // A thread that panicked has said so already; its records are lost with it.
        self.threads
            .drain(..)
            .filter_map(|(_, thread)| thread.join().ok())
            .collect()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.end();
    }
}

/// An iSCSI name near to what was given for one.
fn near_name(given: &str) -> String {
    let blank = |c: char| c.is_whitespace() || c.is_control();
    let near = given.trim().to_lowercase().replace(blank, "-");
    let inside = format!("iqn.2026-01.net.example:{near}");
    [near, inside]
        .into_iter()
        .find(|name| is_iscsi_name(name))
        .unwrap_or_else(|| "iqn.2026-01.net.example:disk".to_owned())
}

/// A portal near to what was given for one.
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
    let port = address
        .rsplit_once(':')
        .map(|(_, port)| port.parse::<u16>());
    let is_address = address.parse::<IpAddr>().is_ok();
    if is_address || !matches!(port, Some(Ok(_))) || address.starts_with(':') {
        return Err(TargetError::Portal {
            address: address.to_owned(),
        });
    }
    let failed = |source| TargetError::Listen {
        address: address.to_owned(),
        source,
    };
    let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_err(failed)?.collect();
    let listener = TcpListener::bind(&addresses[..]).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

fn open_luns(config: &TargetConfig) -> Result<(TargetDevice, Vec<OpenedStore>), TargetError> {
    let mut units = Vec::new();
    let mut stores = Vec::new();
    for (number, spec) in (0..).zip(&config.luns) {
        let opened = spec.open().map_err(|source| TargetError::Open {
            spec: spec.to_string(),
            source,
        })?;
        let store = opened.store();
        let burst_bytes = config.wanted.max_burst_bytes;
        let geometry =
            Geometry::new(store.size_bytes(), spec.block_bytes, burst_bytes).map_err(|source| {
                TargetError::Geometry {
                    spec: spec.to_string(),
                    source,
                }
            })?;
        let identity = Identity {
            target_name: config.name.clone(),
            portal_group_tag: PORTAL_GROUP_TAG,
            number,
        };
        // Only what lies in memory alone has no cache in front of it.
        let write_cache = !store.is_memory();
        units.push(LogicalUnit {
            identity,
            geometry,
            write_cache,
            read_only: spec.read_only,
            thin: spec.thin,
            keeps_reservations: false,
        });
        stores.push(opened);
    }
    Ok((TargetDevice::new(units)?, stores))
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
