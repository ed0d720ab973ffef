//! Sessions of the kernel's initiator, from sysfs: `/sys/class/iscsi_session` and the devices below it.

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
    /// The initiator's name.
    pub initiator: Option<String>,
    /// The number of its SCSI host.
    pub host: Option<u32>,
    /// Command slots of the host (`node.session.cmds_max` minus the reserved ones).
    pub can_queue: Option<u64>,
    /// Its negotiated parameters.
    pub keys: Keys,
    /// Its connections.
    pub connections: Vec<KernelConnection>,
    /// Its disks, by LUN.
    pub disks: Vec<Disk>,
}

/// A connection of a session of open-iscsi.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KernelConnection {
    /// The address connected to, which a redirection may have changed.
    pub target: SocketAddr,
    /// The portal in its record, as `iscsiadm -p` takes it.
    pub portal: SocketAddr,
    /// This host's port.
    pub local_port: Option<u16>,
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

/// Reads all sessions below `sys`, the mount point of sysfs.
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
        connections: connections(sys, session),
        disks: disks(&device),
    })
}

fn connections(sys: &Path, session: u32) -> Vec<KernelConnection> {
    let prefix = format!("connection{session}:");
    let all = entries(&sys.join("class/iscsi_connection")).into_iter();
    let own = all.filter(|(name, _)| name.starts_with(&prefix));
    let connections = own.filter_map(|(_, at)| {
        let of = |address, port| {
            let address: IpAddr = number(&at, address)?;
            Some(SocketAddr::new(address, number(&at, port)?))
        };
        let connected = of("address", "port");
        let recorded = of("persistent_address", "persistent_port");
        Some(KernelConnection {
            target: connected.or(recorded)?,
            portal: recorded.or(connected)?,
            local_port: number(&at, "local_port").filter(|port| *port != 0),
        })
    });
    connections.collect()
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Creates attribute files in a new folder.
    fn attributes(folder: &Path, values: &[(&str, &str)]) {
        fs::create_dir_all(folder).unwrap();
        for (name, value) in values {
            fs::write(folder.join(name), format!("{value}\n")).unwrap();
        }
    }

    /// A session of SCSI host 3 with a connection and a disk below dm-multipath, laid out as Linux 6.1 does.
    fn tree(sys: &Path) {
        let device = sys.join("devices/platform/host3/session2");
        let session = device.join("iscsi_session/session2");
        attributes(
            &session,
            &[
                ("targetname", "iqn.2026-11.net.example:vault"),
                ("initiatorname", "iqn.1993-08.org.debian:01:guest"),
                ("initial_r2t", "0"),
                ("immediate_data", "1"),
                ("max_outstanding_r2t", "1"),
                ("first_burst_len", "262144"),
                ("max_burst_len", "1048576"),
                ("username", "(null)"),
            ],
        );
        symlink(&device, session.join("device")).unwrap();
        let connection = device.join("connection2:0/iscsi_connection/connection2:0");
        attributes(
            &connection,
            &[
                ("address", "10.0.0.9"),
                ("port", "3261"),
                ("persistent_address", "10.0.0.1"),
                ("persistent_port", "3260"),
                ("local_port", "40000"),
            ],
        );
        let host = sys.join("devices/platform/host3/scsi_host/host3");
        attributes(&host, &[("can_queue", "113")]);
        let unit = device.join("target3:0:0/3:0:0:7");
        let disk = unit.join("block/sdc");
        attributes(&unit, &[("queue_depth", "32")]);
        attributes(
            &disk.join("queue"),
            &[
                ("nr_requests", "64"),
                ("read_ahead_kb", "128"),
                ("scheduler", "none [mq-deadline]"),
            ],
        );
        attributes(
            &disk,
            &[("stat", "8 0 64 40 2 0 16 20 0 60 60"), ("dev", "8:32")],
        );
        attributes(&disk.join("holders/dm-1"), &[("dev", "254:1")]);
        attributes(
            &disk.join("holders/dm-1/dm"),
            &[("uuid", "mpath-36001405"), ("name", "mpatha")],
        );
        for (class, at) in [
            ("iscsi_session/session2", &session),
            ("iscsi_connection/connection2:0", &connection),
            ("scsi_host/host3", &host),
            ("block/sdc", &disk),
        ] {
            let class = sys.join("class").join(class);
            fs::create_dir_all(class.parent().unwrap()).unwrap();
            symlink(at, class).unwrap();
        }
    }

    #[test]
    fn a_session_is_found_with_its_limits_its_portal_and_its_disk() {
        let sys = tempfile::tempdir().unwrap();
        tree(sys.path());
        let found = sessions(sys.path());
        let [session] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!((session.number, session.host), (2, Some(3)));
        assert_eq!(session.target, "iqn.2026-11.net.example:vault");
        assert_eq!(session.can_queue, Some(113));
        let connection = KernelConnection {
            target: "10.0.0.9:3261".parse().unwrap(),
            portal: "10.0.0.1:3260".parse().unwrap(),
            local_port: Some(40_000),
        };
        assert_eq!(session.connections, [connection]);
        let keys = session.keys;
        assert_eq!(
            (keys.initial_r2t, keys.immediate_data),
            (Some(false), Some(true))
        );
        assert_eq!(keys.first_burst_bytes, Some(262_144));
        let [disk] = &session.disks[..] else {
            panic!("{session:?}");
        };
        assert_eq!((disk.name.as_str(), disk.lun), ("sdc", 7));
        assert_eq!((disk.queue_depth, disk.nr_requests), (Some(32), Some(64)));
        assert_eq!(disk.scheduler.as_deref(), Some("mq-deadline"));
        let above = disk.multipath.as_ref().unwrap();
        assert_eq!(
            (above.name.as_str(), above.device.as_str()),
            ("mpatha", "dm-1")
        );
        let device = |major, minor| Some(crate::tracepoints::device_number(major, minor));
        assert_eq!((disk.number, above.number), (device(8, 32), device(254, 1)));
        let used = disk
            .counters(sys.path())
            .unwrap()
            .since(&crate::block::Counters::default());
        assert_eq!((used.ios(), used.latency_ns()), (10, Some(6e6)));
    }

    #[test]
    fn a_host_without_open_iscsi_has_no_sessions() {
        let sys = tempfile::tempdir().unwrap();
        assert_eq!(sessions(sys.path()), []);
    }
}
