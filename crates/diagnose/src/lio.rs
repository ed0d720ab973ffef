//! The targets of the kernel (LIO), as configfs has them: `/sys/kernel/config/target/iscsi`.

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
    /// Where it listens.
    pub portals: Vec<SocketAddr>,
    /// The command window of sessions whose initiator has no entry of its own.
    pub default_cmdsn_depth: Option<u64>,
    /// Initiators with an entry, and the command window that it gives them.
    pub initiators: Vec<(String, Option<u64>)>,
    /// InitialR2T, ImmediateData, MaxOutstandingR2T, FirstBurstLength and MaxBurstLength as offered.
    pub parameters: Vec<(String, String)>,
}

/// What sessions of writes depend on.
const PARAMETERS: [&str; 5] = [
    "InitialR2T",
    "ImmediateData",
    "MaxOutstandingR2T",
    "FirstBurstLength",
    "MaxBurstLength",
];

/// All portal groups below `sys`, where sysfs is mounted.
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
    let parameters = PARAMETERS.iter().filter_map(|name| {
        let value = text(&at.join("param"), name)?;
        Some(((*name).to_owned(), value))
    });
    PortalGroup {
        target: target.to_owned(),
        tag,
        portals: portals.filter_map(|(name, _)| name.parse().ok()).collect(),
        default_cmdsn_depth: number(&at.join("attrib"), "default_cmdsn_depth"),
        initiators: initiators
            .map(|(name, at)| (name, number(&at, "cmdsn_depth")))
            .collect(),
        parameters: parameters.collect(),
    }
}
