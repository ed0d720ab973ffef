//! How many sockets a process may have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of descriptors that this process may have open to what it is allowed to raise
/// it to, and returns what it is then: a server has one for each connection, and the usual soft limit
/// of 1024 is for programs that use `select`.
#[must_use]
pub fn raise() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let now = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    now.map_or(usize::MAX, |now| usize::try_from(now).unwrap_or(usize::MAX))
}
