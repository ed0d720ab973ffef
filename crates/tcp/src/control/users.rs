//! Users of a congestion control: the connections of all network namespaces that can be entered.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::linux::fs::MetadataExt;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::congestion;
use crate::diag::{Diag, DiagError};

/// Where `ip netns` keeps named namespaces.
const NAMED: &str = "/run/netns";

/// Counting connections failed.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// INET_DIAG failed.
    #[error(transparent)]
    Diag(#[from] DiagError),
    /// /proc, or a namespace file, cannot be read.
    #[error("cannot list the network namespaces of /proc: {0}")]
    Namespaces(#[from] io::Error),
}

/// Users of a congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Users {
    /// Connections.
    pub connections: usize,
    /// Network namespaces whose default it is (`net.ipv4.tcp_congestion_control`). It stays their default after it is
    /// unloaded.
    pub namespaces: usize,
}

/// The users of each congestion control, by its name, in this network namespace, in named ones (`ip netns`), and in
/// those of all processes that this process may enter (CAP_SYS_ADMIN).
///
/// # Errors
/// [`UsersError`] when this process's own namespace cannot be queried.
pub fn users() -> Result<BTreeMap<String, Users>, UsersError> {
    let mut counts = BTreeMap::new();
    let own = File::open("/proc/thread-self/ns/net")?;
    count(&mut counts)?;
    let mut seen = vec![own.metadata()?.st_ino()];
    for namespace in namespaces()? {
        let inode = namespace.metadata()?.st_ino();
        if seen.contains(&inode) {
            continue;
        }
        seen.push(inode);
        // A thread enters the namespace and ends there, so that this thread stays in its own.
        let there = thread::spawn(move || -> Option<BTreeMap<String, Users>> {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), kind).ok()?;
            let mut counts = BTreeMap::new();
            count(&mut counts).ok()?;
            Some(counts)
        });
        for (name, users) in there.join().ok().flatten().unwrap_or_default() {
            let all = counts.entry(name).or_default();
            all.connections += users.connections;
            all.namespaces += users.namespaces;
        }
    }
    Ok(counts)
}

/// Counts connections of the calling thread's namespace.
fn count(counts: &mut BTreeMap<String, Users>) -> Result<(), UsersError> {
    for sighting in Diag::open()?.dump(None)? {
        let users = counts.entry(sighting.congestion_control).or_default();
        users.connections += 1;
    }
    counts
        .entry(congestion::by_default()?)
        .or_default()
        .namespaces += 1;
    Ok(())
}

/// Named network namespaces, and those of all visible processes, once per process. Threads can have their own, as the
/// lab's do.
fn namespaces() -> io::Result<impl Iterator<Item = File>> {
    let tasks = fs::read_dir("/proc")?
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit())
        .filter_map(|process| fs::read_dir(process.path().join("task")).ok())
        .flat_map(Iterator::flatten);
    let named = fs::read_dir(NAMED).into_iter().flatten().flatten();
    let paths = tasks.map(|task| task.path().join("ns/net"));
    Ok(paths
        .chain(named.map(|entry| entry.path()))
        .filter_map(|path| File::open(path).ok()))
}
