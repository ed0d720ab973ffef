//! The kernel's targets (LIO), from configfs: `/sys/kernel/config/target/iscsi`.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use serde::Serialize;

use crate::attributes::{entries, number, numbered, text};

/// A target portal group of LIO.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PortalGroup {
    /// The target's name.
    pub target: String,
    /// The group's tag.
    pub tag: u32,
    /// Its listening addresses.
    pub portals: Vec<SocketAddr>,
    /// The command window for initiators without an ACL.
    pub default_cmdsn_depth: Option<u64>,
    /// Initiators with an ACL.
    pub initiators: Vec<Acl>,
    /// Its LUNs.
    pub units: Vec<Unit>,
}

/// A LUN of a portal group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unit {
    /// Its number, which an ACL may remap.
    pub lun: u64,
    /// Its store, named as in `targetcli` without the kind: `iblock_0/disk`.
    pub store: String,
    /// The file or device that backs it.
    pub path: Option<String>,
}

/// An initiator's ACL in a portal group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Acl {
    /// The initiator's name.
    pub initiator: String,
    /// The command window for the initiator.
    pub cmdsn_depth: Option<u64>,
    /// Whether the initiator has a session.
    pub has_session: bool,
}

/// Reads all portal groups below `sys`, the mount point of sysfs.
#[must_use]
pub fn portal_groups(sys: &Path) -> Vec<PortalGroup> {
    let targets = entries(&sys.join("kernel/config/target/iscsi")).into_iter();
    let targets = targets.filter(|(name, _)| {
        ["iqn.", "eui.", "naa."]
            .iter()
            .any(|kind| name.starts_with(kind))
    });
    let groups = targets.flat_map(|(target, at)| {
        let groups = entries(&at).into_iter();
        groups.filter_map(move |(name, at)| {
            let tag = numbered(&name, "tpgt_")?;
            Some(portal_group(&target, tag, &at))
        })
    });
    groups.collect()
}

fn portal_group(target: &str, tag: u32, at: &Path) -> PortalGroup {
    let portals = entries(&at.join("np")).into_iter();
    let initiators = entries(&at.join("acls")).into_iter();
    PortalGroup {
        target: target.to_owned(),
        tag,
        portals: portals.filter_map(|(name, _)| name.parse().ok()).collect(),
        default_cmdsn_depth: number(&at.join("attrib"), "default_cmdsn_depth"),
        initiators: initiators
            .map(|(initiator, at)| Acl {
                initiator,
                cmdsn_depth: number(&at, "cmdsn_depth"),
                // "No active iSCSI Session for Initiator Endpoint: …"
                has_session: text(&at, "info").is_some_and(|info| !info.starts_with("No active")),
            })
            .collect(),
        units: units(at),
    }
}

/// `lun/lun_N` has a link to its store, `target/core/KIND_HBA/NAME`.
fn units(group: &Path) -> Vec<Unit> {
    let units = entries(&group.join("lun")).into_iter();
    let units = units.filter_map(|(name, at)| {
        let lun = name.strip_prefix("lun_")?.parse().ok()?;
        let stores = entries(&at).into_iter();
        let mut stores = stores.filter_map(|(_, link)| {
            let store = fs::read_link(&link).ok()?;
            let name = store.file_name()?.to_str()?.to_owned();
            let kind = store.parent()?.file_name()?.to_str()?.to_owned();
            Some((format!("{kind}/{name}"), fs::canonicalize(link).ok()?))
        });
        let (store, at) = stores.next()?;
        Some(Unit {
            lun,
            store,
            path: text(&at, "udev_path"),
        })
    });
    units.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn portal_groups_are_found_with_their_windows_and_acls() {
        let sys = tempfile::tempdir().unwrap();
        let iscsi = sys.path().join("kernel/config/target/iscsi");
        let group = iscsi.join("iqn.2003-01.org.linux-iscsi.host:disk/tpgt_2");
        // Entries beside targets are ignored.
        for folder in ["np/10.0.0.1:3260", "np/[fd00::1]:3260", "attrib"] {
            fs::create_dir_all(group.join(folder)).unwrap();
        }
        fs::create_dir_all(iscsi.join("discovery_auth")).unwrap();
        let acl = group.join("acls/iqn.1993-08.org.debian:01:guest");
        fs::create_dir_all(&acl).unwrap();
        fs::write(group.join("attrib/default_cmdsn_depth"), "64\n").unwrap();
        fs::write(acl.join("cmdsn_depth"), "16\n").unwrap();
        fs::write(acl.join("info"), "InitiatorName: iqn.1993\n").unwrap();
        let store = sys.path().join("kernel/config/target/core/iblock_0/disk");
        fs::create_dir_all(&store).unwrap();
        fs::write(store.join("udev_path"), "/dev/vdb\n").unwrap();
        fs::create_dir_all(group.join("lun/lun_3/statistics")).unwrap();
        symlink(&store, group.join("lun/lun_3/3f2a")).unwrap();
        let found = portal_groups(sys.path());
        let [group] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(group.target, "iqn.2003-01.org.linux-iscsi.host:disk");
        assert_eq!((group.tag, group.default_cmdsn_depth), (2, Some(64)));
        let portals = ["10.0.0.1:3260", "[fd00::1]:3260"];
        assert_eq!(group.portals, portals.map(|portal| portal.parse().unwrap()));
        let acl = Acl {
            initiator: "iqn.1993-08.org.debian:01:guest".to_owned(),
            cmdsn_depth: Some(16),
            has_session: true,
        };
        assert_eq!(group.initiators, [acl]);
        let unit = Unit {
            lun: 3,
            store: "iblock_0/disk".to_owned(),
            path: Some("/dev/vdb".to_owned()),
        };
        assert_eq!(group.units, [unit]);
    }
}
