//! The real computers of a plan, and what in a plan they do not support.

use std::net::Ipv4Addr;

use wansan_mistake::Mistake;
use wansan_settings::usual;

use crate::plan::document::{
    Document, EmulatorKind, HostTable, PathTable, TcpTable, WorldKind, WorldTable,
};

/// A real computer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealHost {
    /// Its name in the plan.
    pub name: String,
    /// Its name for `ssh`; it neither begins with a hyphen nor contains a password.
    pub ssh: String,
    /// The address at which others reach it and its programs listen.
    pub address: Ipv4Addr,
}

/// The computers of a world of real hosts, in plan order; empty in another world. Fails with the first thing that such
/// a world does not support.
pub(super) fn resolve(document: &Document, text: &str) -> Result<Vec<RealHost>, Mistake> {
    if document.world.kind != WorldKind::Hosts {
        return Ok(Vec::new());
    }
    world(document, text)?;
    tcp(&document.tcp, text)?;
    for (place, path) in document.path.iter().enumerate() {
        let here = |key: &str, mistake: Mistake| {
            let line = key.split('.').next().unwrap_or_default();
            mistake.in_table(text, "path", place, line)
        };
        if path.capture.is_any() {
            let why = "nothing is captured between real hosts";
            let key = format!("path.{}.capture", path.name);
            return Err(here("capture", refused(&key, why, NETNS)));
        }
        match (&path.router, path.first_effect()) {
            (None, Some(key)) => return Err(here(&key, as_it_is(path, &key))),
            (None, None) => {}
            (Some(router), _) => {
                let checked = emulated(path, router, &document.path);
                checked.map_err(|mistake| here("router", mistake))?;
            }
        }
    }
    let mut hosts: Vec<RealHost> = Vec::new();
    for (place, table) in document.host.iter().enumerate() {
        let real = host(table, &hosts);
        hosts.push(real.map_err(|(key, mistake)| mistake.in_table(text, "host", place, key))?);
    }
    Ok(hosts)
}

/// A mistake with its key.
type Wrong = (&'static str, Mistake);

/// Worlds that support what real computers do not.
const NETNS_OR_SIM: &str = "`world.kind = \"netns\"` and `\"sim\"` can";
const NETNS: &str = "`world.kind = \"netns\"` can";

fn refused(key: &str, why: &str, who_can: &str) -> Mistake {
    Mistake::new(format!("`{key}`: {why}; {who_can}"))
}

fn world(document: &Document, text: &str) -> Result<(), Mistake> {
    let WorldTable { emulator, mtu, .. } = document.world;
    let in_world = |key: &str, why: &str, who_can: &str| {
        refused(&format!("world.{key}"), why, who_can).in_section(text, "world", key)
    };
    if emulator != EmulatorKind::User {
        let why = "nothing is emulated between real hosts";
        return Err(in_world("emulator", why, NETNS));
    }
    if mtu != usual::<WorldTable>().mtu {
        let why = "real hosts keep the MTU of their interfaces";
        return Err(in_world("mtu", why, NETNS_OR_SIM));
    }
    if !document.timeline.is_empty() {
        let why = "paths between real hosts are not changed while they run";
        return Err(refused("timeline", why, NETNS_OR_SIM).in_list(text, "timeline", 0));
    }
    if !document.router.is_empty() {
        let why = "packets between real hosts go the way that their network sends them";
        let mistake = refused("router", why, NETNS_OR_SIM);
        return Err(mistake.in_table(text, "router", 0, "name"));
    }
    Ok(())
}

/// Rejects settings of a host's kernel: an aborted run could not restore them.
fn tcp(table: &TcpTable, text: &str) -> Result<(), Mistake> {
    let defaults: TcpTable = usual();
    let keys = [
        ("rmem", "net.ipv4.tcp_rmem", table.rmem != defaults.rmem),
        ("wmem", "net.ipv4.tcp_wmem", table.wmem != defaults.wmem),
        ("ecn", "net.ipv4.tcp_ecn", table.ecn != defaults.ecn),
    ];
    if let Some((key, sysctl, _)) = keys.into_iter().find(|(_, _, is_set)| *is_set) {
        let why = format!("real hosts keep their kernels' settings: set `{sysctl}` there");
        let mistake = refused(&format!("tcp.{key}"), &why, NETNS_OR_SIM);
        return Err(mistake.in_section(text, "tcp", key));
    }
    if table.control != usual() {
        let why = "a congestion control of real hosts is loaded there, by `wansan cc load`";
        let mistake = refused("tcp.control", why, NETNS_OR_SIM);
        return Err(mistake.in_section(text, "tcp", "control"));
    }
    Ok(())
}

/// The mistake for a path with an effect at that key, which must have none.
fn as_it_is(path: &PathTable, key: &str) -> Mistake {
    let why = "a path between real hosts is as it is, but where a host that it names as its `router` emulates it";
    refused(&format!("path.{}.{key}", path.name), why, NETNS_OR_SIM)
}

/// Checks that a router can emulate a path: it identifies the packets between both ends by their addresses.
fn emulated(path: &PathTable, router: &str, all: &[PathTable]) -> Result<(), Mistake> {
    let name = &path.name;
    if path.between.0.iter().any(|end| end == router) {
        return Err(Mistake::new(format!(
            "[[path]] `{name}` router = \"{router}\" is one of its ends: packets that it sends itself go through no \
             router; name a host between both"
        )));
    }
    let ends = |path: &PathTable| {
        let mut ends = path.between.0.clone();
        ends.sort();
        ends
    };
    let mut others = all.iter().filter(|other| other.name != *name);
    match others.find(|other| ends(other) == ends(path)) {
        Some(other) => Err(Mistake::new(format!(
            "[[path]] `{name}` router: `{}` joins the same hosts, and packets do not show which of the two they take",
            other.name
        ))),
        None => Ok(()),
    }
}

fn host(table: &HostTable, others: &[RealHost]) -> Result<RealHost, Wrong> {
    let name = &table.name;
    let wrong = |key, what: String| (key, Mistake::new(format!("[[host]] `{name}` {what}")));
    if table.count != 1 {
        let what = "count: real hosts are named one by one, each with its address";
        return Err(wrong("count", what.to_owned()));
    }
    let ssh = table.ssh.as_ref().unwrap_or(name);
    if let Some(what) = misnamed(ssh) {
        return Err(wrong("ssh", format!("ssh: {what}")));
    }
    let Some(address) = table.address else {
        let what = "has no `address`, at which the other hosts of a world of `hosts` reach it";
        return Err(wrong("name", what.to_owned()));
    };
    if address.is_unspecified() || address.is_multicast() || address.is_broadcast() {
        let what = format!("address = \"{address}\" is not that of one computer");
        return Err(wrong("address", what));
    }
    if let Some(other) = others.iter().find(|other| other.address == address) {
        let what = format!("address = \"{address}\" is that of `{}`", other.name);
        return Err(wrong("address", what));
    }
    Ok(RealHost {
        name: name.clone(),
        ssh: ssh.clone(),
        address,
    })
}

/// Why `ssh` would misinterpret a destination; `None` if it would not.
fn misnamed(destination: &str) -> Option<&'static str> {
    let user = destination.rsplit_once('@').map_or("", |(user, _)| user);
    let user = user.strip_prefix("ssh://").unwrap_or(user);
    if destination.is_empty() || destination.starts_with('-') {
        return Some("write USER@HOST, or a name of ssh's configuration");
    }
    if destination.len() > 255
        || destination.contains(|c: char| c.is_whitespace() || c.is_control())
    {
        return Some("a destination has at most 255 characters and no spaces");
    }
    if user.contains(':') {
        return Some("a password does not belong into a plan: have ssh log in with a key");
    }
    None
}
