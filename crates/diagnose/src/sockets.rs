//! The TCP connections of iSCSI on this host, and the processes that own them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use serde::Serialize;
use wansan_tcp::diag::{Connection, Diag, DiagError, SocketInfo};
use wansan_tcp::expression::Expression;

use crate::attributes::text;

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Owner {
    /// Its process ID.
    pub process: u32,
    /// Its name.
    pub name: String,
}

/// The sockets of connections with one of `ports` at either end.
///
/// # Errors
/// The kernel's error.
pub fn find(diag: &mut Diag, ports: &BTreeSet<u16>) -> Result<Vec<SocketInfo>, DiagError> {
    let any = ports
        .iter()
        .map(|port| Expression::port(*port))
        .reduce(Expression::or);
    match any {
        Some(any) => diag.dump(Some(&any)),
        None => Ok(Vec::new()),
    }
}

/// The owners of these sockets, by local and remote address. The kernel's own sockets have no owner; those of other
/// users are not visible without privileges.
#[must_use]
pub fn owners(
    proc: &Path,
    connections: &[Connection],
) -> BTreeMap<(SocketAddr, SocketAddr), Owner> {
    let wanted: BTreeMap<u32, &Connection> = connections
        .iter()
        .filter(|connection| connection.inode != 0)
        .map(|connection| (connection.inode, connection))
        .collect();
    let mut owners = BTreeMap::new();
    let processes = fs::read_dir(proc).into_iter().flatten().flatten();
    for process in processes {
        let at = process.path();
        let id = process.file_name().to_str().and_then(|id| id.parse().ok());
        let Some(id) = id else { continue };
        let files = fs::read_dir(at.join("fd")).into_iter().flatten().flatten();
        let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        for target in targets {
            let inode = target.to_str().and_then(|text| {
                let inode = text.strip_prefix("socket:[")?.strip_suffix(']')?;
                inode.parse::<u32>().ok()
            });
            let connection = inode.and_then(|inode| wanted.get(&inode));
            if let Some(connection) = connection
                && let Some(name) = text(&at, "comm")
            {
                let owner = Owner { process: id, name };
                owners.insert((connection.local, connection.remote), owner);
            }
        }
    }
    owners
}
