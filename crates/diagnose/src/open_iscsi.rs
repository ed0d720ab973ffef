//! The sessions of the kernel's initiator, as sysfs has them: `/sys/class/iscsi_session` and what hangs on it.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use serde::Serialize;

use crate::attributes::{entries, flag, number, numbered, text};
use crate::block::Disk;

/// A session of open-iscsi.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KernelSession {
    /// Its number, as in `iscsiadm -m session -r NUMBER`.
    pub number: u32,
    /// The target's name.
    pub target: String,
    /// The initiator's.
    pub initiator: Option<String>,
    /// The number of its SCSI host.
    pub host: Option<u32>,
    /// Commands that the host has room for (`node.session.cmds_max`, less what it keeps for itself).
    pub can_queue: Option<u64>,
    /// What the session has agreed on.
    pub keys: Keys,
    /// Where its connections lead.
    pub portals: Vec<SocketAddr>,
    /// Its disks, by LUN.
    pub disks: Vec<Disk>,
}

/// Operational parameters of a session (RFC 7143 §13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Keys {
    /// InitialR2T.
    pub initial_r2t: Option<bool>,
    /// ImmediateData.
    pub immediate_data: Option<bool>,
    /// MaxOutstandingR2T.
    pub max_outstanding_r2t: Option<u64>,
    /// FirstBurstLength.
    pub first_burst_bytes: Option<u64>,
    /// MaxBurstLength.
    pub max_burst_bytes: Option<u64>,
}

/// All sessions below `sys`, where sysfs is mounted.
#[must_use]
pub fn sessions(sys: &Path) -> Vec<KernelSession> {
    let folder = sys.join("class/iscsi_session");
    let found = entries(&folder).into_iter().filter_map(|(name, path)| {
        let number = numbered(&name, "session")?;
        session(sys, number, &path)
    });
    let mut found: Vec<KernelSession> = found.collect();
    found.sort_by_key(|session| session.number);
    found
}

fn session(sys: &Path, session: u32, at: &Path) -> Option<KernelSession> {
    let device = fs::canonicalize(at.join("device")).ok()?;
    // .../hostH/sessionN
    let host = device.parent()?.file_name()?.to_str();
    let host = host.and_then(|name| numbered(name, "host"));
    let of_host = host.map(|host| sys.join(format!("class/scsi_host/host{host}")));
    Some(KernelSession {
        number: session,
        target: text(at, "targetname")?,
        initiator: text(at, "initiatorname"),
        host,
        can_queue: of_host.and_then(|folder| number(&folder, "can_queue")),
        keys: Keys {
            initial_r2t: flag(at, "initial_r2t"),
            immediate_data: flag(at, "immediate_data"),
            max_outstanding_r2t: number(at, "max_outstanding_r2t"),
            first_burst_bytes: number(at, "first_burst_len"),
            max_burst_bytes: number(at, "max_burst_len"),
        },
        portals: portals(sys, session),
        disks: disks(&device),
    })
}

fn portals(sys: &Path, session: u32) -> Vec<SocketAddr> {
    let prefix = format!("connection{session}:");
    let connections = entries(&sys.join("class/iscsi_connection")).into_iter();
    let portals = connections.filter(|(name, _)| name.starts_with(&prefix));
    let portals = portals.filter_map(|(_, at)| {
        // Where it is connected to, which a redirection may have changed; else where it was told to go.
        let of = |address, port| {
            let address: IpAddr = number(&at, address)?;
            Some(SocketAddr::new(address, number(&at, port)?))
        };
        of("address", "port").or_else(|| of("persistent_address", "persistent_port"))
    });
    portals.collect()
}

/// The disks below a session's device: `targetH:C:T/H:C:T:L/block/NAME`.
fn disks(device: &Path) -> Vec<Disk> {
    let targets = entries(device).into_iter();
    let targets = targets.filter(|(name, _)| name.starts_with("target"));
    let units = targets.flat_map(|(_, target)| entries(&target));
    let disks = units.filter_map(|(name, unit)| {
        let lun = name.rsplit_once(':')?.1.parse().ok()?;
        let (disk, _) = entries(&unit.join("block")).into_iter().next()?;
        Some(Disk::of(disk, lun, &unit))
    });
    let mut disks: Vec<Disk> = disks.collect();
    disks.sort_by_key(|disk| disk.lun);
    disks
}
