//! A host at the other end of a path, whose program works with one here.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::connection::Connection;
use super::{Attended, HostsError, Own, Reach};
use crate::plan::RealHost;
use crate::world::Process;

/// A host with an agent; dropping it ends the agent.
#[derive(Debug)]
pub struct Peer(Attended);

impl Peer {
    /// Connects to `destination`, in `ssh`'s syntax, which runs `program`, a `wansan`. The calling thread has to
    /// outlive the value.
    ///
    /// # Errors
    /// It cannot be reached, or `program` does not run there.
    pub fn reach(
        destination: &str,
        program: &Path,
        reach: &Reach,
        stop: &AtomicBool,
    ) -> Result<Peer, HostsError> {
        let host = RealHost {
            name: destination.to_owned(),
            ssh: destination.to_owned(),
            // Its programs do not listen.
            address: Ipv4Addr::UNSPECIFIED,
        };
        let own = Own::of(program, reach)?;
        let config = reach.ssh_config.as_deref();
        let connection = Connection::open(&host, config, own.copied_bytes())?;
        Ok(Peer(own.attend(connection, stop)?))
    }

    /// Starts `wansan` there with these arguments; its output is read from the returned process.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn start(&self, title: &str, arguments: Vec<String>) -> Result<Process, HostsError> {
        self.0.start(title, arguments, String::new(), None)
    }
}
