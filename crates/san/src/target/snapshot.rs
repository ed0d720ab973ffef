//! A target's counters and state at one moment: each thread replies to a message with its own part, so that counting
//! needs neither locks nor atomic operations.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use wansan_iscsi::scsi::Identity;
use wansan_iscsi::target::{ConnectionMeter, SessionMeter, UnitMeter};
use wansan_tcp::TcpInfo;
use wansan_trace::{ConnectionId, SessionId};

use super::Shared;
use super::mail::Mail;
use super::reactor::Reactor;
use super::sessions::Served;

/// A target's counters, collected from its threads one after the other.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// One per logical unit, by target and LUN.
    pub units: Vec<UnitSnapshot>,
    /// One per session, by id.
    pub sessions: Vec<SessionSnapshot>,
    /// Successful logins.
    pub logins: u64,
    /// Failed logins.
    pub failed_logins: u64,
    /// Connections refused because too many were open.
    pub turned_away: u64,
}

/// A logical unit's counters, over all sessions since the target began.
#[derive(Debug, Clone)]
pub struct UnitSnapshot {
    /// The target's iSCSI name.
    pub target: String,
    /// LUN.
    pub number: u16,
    /// Its counters.
    pub meter: UnitMeter,
}

/// A session.
#[derive(Debug, Clone)]
pub struct SessionSnapshot {
    /// The target's iSCSI name; empty for a discovery session.
    pub target: String,
    /// The initiator's.
    pub initiator: String,
    /// ISID and TSIH.
    pub id: SessionId,
    /// Its counters.
    pub meter: SessionMeter,
    /// Its connections.
    pub connections: Vec<ConnectionSnapshot>,
}

/// A connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionSnapshot {
    /// CID.
    pub id: ConnectionId,
    /// The initiator's address.
    pub initiator: SocketAddr,
    /// Its counters.
    pub meter: ConnectionMeter,
    /// Smoothed round-trip time from TCP, in ns.
    pub srtt_ns: u64,
}

/// Counters of logins, which are rare enough to be shared by all threads.
#[derive(Debug, Default)]
pub(super) struct Logins {
    pub(super) done: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) turned_away: AtomicU64,
}

impl Logins {
    /// Increments a counter.
    pub(super) fn count(which: &AtomicU64) {
        // It guards no other data.
        which.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counters of ended sessions, by logical unit. No more entries than units served.
#[derive(Debug, Clone, Default)]
pub(super) struct Retired(HashMap<Identity, UnitMeter>);

impl Retired {
    /// Adds a session's counters.
    pub(super) fn add(&mut self, served: &Served) {
        for (identity, meter) in served.session.unit_meters() {
            if let Some(sum) = self.0.get_mut(identity) {
                sum.add(meter);
            } else {
                self.0.insert(identity.clone(), *meter);
            }
        }
    }
}

/// One thread's part of a snapshot.
#[derive(Debug)]
pub(super) struct Part {
    units: Retired,
    sessions: Vec<(SessionId, SessionMeter, Vec<ConnectionSnapshot>)>,
}

impl Reactor {
    /// Sends this thread's part of a snapshot to the requester.
    pub(super) fn tell(&mut self, asker: &SyncSender<Part>) {
        let Reactor {
            peers,
            sessions,
            context,
            ..
        } = self;
        let mut units = context.retired.clone();
        let mut told = Vec::new();
        for (_, served) in sessions.iter_mut() {
            units.add(served);
            let slots: Vec<(usize, u16)> = served.slots().collect();
            let connections = slots.into_iter().filter_map(|(place, slot)| {
                let peer = peers.get(usize::from(slot))?.as_ref()?;
                let connection = served.session.connection(place)?;
                Some(ConnectionSnapshot {
                    id: connection.id(),
                    initiator: peer.seat.initiator,
                    meter: connection.meter(),
                    srtt_ns: TcpInfo::of(&peer.stream).map_or(0, |info| info.srtt_ns()),
                })
            });
            let connections = connections.collect();
            told.push((served.session.id(), served.session.meter(), connections));
        }
        // A requester that is gone does not need it.
        let _ = asker.try_send(Part {
            units,
            sessions: told,
        });
    }
}

/// Reads the counters of a running target from another thread.
#[derive(Debug, Clone)]
pub struct Observer {
    pub(super) shared: Arc<Shared>,
}

impl Observer {
    /// How long to wait for threads to reply; missing parts are left out.
    const PATIENCE: Duration = Duration::from_secs(1);

    /// Collects the counters of all threads; threads that have ended are skipped.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let shared = &self.shared;
        let parts = shared.mailboxes.ask(Self::PATIENCE, Mail::Snapshot);
        let mut units: HashMap<Identity, UnitMeter> = HashMap::new();
        let mut snapshot = Snapshot {
            logins: shared.logins.done.load(Ordering::Relaxed),
            failed_logins: shared.logins.failed.load(Ordering::Relaxed),
            turned_away: shared.logins.turned_away.load(Ordering::Relaxed),
            ..Snapshot::default()
        };
        let names = shared.registry.names();
        for part in parts {
            for (identity, meter) in part.units.0 {
                units.entry(identity).or_default().add(&meter);
            }
            for (id, meter, connections) in part.sessions {
                let (initiator, target) = names.get(&id).cloned().unwrap_or_default();
                snapshot.sessions.push(SessionSnapshot {
                    target,
                    initiator,
                    id,
                    meter,
                    connections,
                });
            }
        }
        let units = units.into_iter().map(|(identity, meter)| UnitSnapshot {
            target: identity.target_name,
            number: identity.number,
            meter,
        });
        snapshot.units = units.collect();
        let by_lun = |unit: &UnitSnapshot| (unit.target.clone(), unit.number);
        snapshot.units.sort_by_key(by_lun);
        snapshot.sessions.sort_by_key(|session| session.id.0);
        snapshot
    }
}
