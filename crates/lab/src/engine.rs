//! Runs cells on the workers of a compute cluster of the user's: Dask.
//!
//! ```text
//!   lab ── python3, dask.py ── Dask's scheduler ── worker ── wansan lab cell
//!    orders ──►                                    (hands over the program and the order,
//!    ◄── folders of records, results               and keeps its input open while it is wanted)
//! ```
//!
//! A cell depends only on its order and on the program, so any worker may run it, and run it again after another has
//! failed. It returns the folder of a cell, and the data that a run needs from it.
//!
//! - [`order`]: the order for a cell, and its answer;
//! - [`cluster`]: the lab's side;
//! - `dask.py`: the connection to Dask.

mod cluster;
mod order;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

pub(crate) use cluster::{Cluster, Room, Said, Wish};
pub(crate) use order::{Answer, Hello, MAX_ORDER_BYTES, Order, unpack};

/// URL scheme of a scheduler's address.
const SCHEME: &str = "dask://";
/// The default port of a scheduler.
const PORT: u16 = 8786;

/// The scheduler of a Dask cluster: `dask://HOST[:PORT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    host: String,
    port: u16,
}

impl Engine {
    /// The address in Dask's format.
    pub(crate) fn scheduler(&self) -> String {
        format!("tcp://{}:{}", self.host, self.port)
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Engine, String> {
        let wrong = || {
            format!(
                "'{text}' is no engine: write the address of a Dask scheduler, {SCHEME}HOST or {SCHEME}HOST:PORT"
            )
        };
        let address = text.strip_prefix(SCHEME).ok_or_else(wrong)?;
        let address = address.strip_suffix('/').unwrap_or(address);
        // An IPv6 address is in brackets.
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong())?)
            }
            _ => (address, PORT),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if host.is_empty() || !host.chars().all(is_name) {
            return Err(wrong());
        }
        Ok(Engine {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}:{}", self.host, self.port)
    }
}

/// Why cells cannot run on an engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Python is not installed here.
    #[error(
        "cannot start python3, which speaks to {engine}: {source}; install it, with Dask (`pip install distributed`)"
    )]
    NoPython {
        /// The engine.
        engine: Engine,
        /// The error.
        source: io::Error,
    },
    /// Dask is not installed here.
    #[error(
        "python3, which speaks to {engine}, has no Dask ({said}): install it here too, in the workers' version (`pip install distributed`)"
    )]
    Lacking {
        /// The engine.
        engine: Engine,
        /// Python's error.
        said: String,
    },
    /// No scheduler answers.
    #[error(
        "no scheduler answers at {engine} ({said}): start one there with `dask scheduler`, or correct --on"
    )]
    Silent {
        /// The engine.
        engine: Engine,
        /// Dask's error.
        said: String,
    },
    /// A worker has another build of wansan installed.
    #[error(
        "worker {worker} has wansan {there} installed, and this is {here}: install the same build there, or leave \
         --no-copy out"
    )]
    Version {
        /// The worker's address.
        worker: String,
        /// Version and commit there.
        there: String,
        /// Version and commit here.
        here: String,
    },
    /// A worker cannot run the program.
    #[error(
        "worker {worker} cannot run this wansan ({said}): use workers of this computer's platform, or install wansan there and add --no-copy"
    )]
    Unfit {
        /// The worker's address.
        worker: String,
        /// The reason.
        said: String,
    },
    /// No worker accepts cells with namespaces.
    #[error(
        "no worker at {engine} takes cells in network namespaces: start one on each computer \
         with `dask worker … --resources netns=1`, or simulate them (--world sim)"
    )]
    NoNamespaces {
        /// The engine.
        engine: Engine,
    },
    /// The plan uses real hosts, which are reached from this computer only.
    #[error(
        "--on is for cells that may run anywhere, and the plan's world is one of real hosts: leave --on out"
    )]
    RealHosts,
    /// A file that the plan names cannot be sent with it.
    #[error(
        "the plan names the file `{name}`: with --on, its files have to be beside it or in folders below"
    )]
    FileElsewhere {
        /// Its name in the plan.
        name: String,
    },
    /// The connection is lost, or a component failed.
    #[error("lost {engine}: {said}; see the scheduler's log")]
    Lost {
        /// The engine.
        engine: Engine,
        /// The known details.
        said: String,
    },
    /// The program's own file cannot be read.
    #[error("cannot read {}, which the workers are to run: {source}", path.display())]
    OwnProgram {
        /// Its path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The run was interrupted.
    #[error("interrupted")]
    Interrupted,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_schedulers() {
        let read = |text: &str| text.parse::<Engine>().map(|engine| engine.scheduler());
        assert_eq!(read("dask://head"), Ok("tcp://head:8786".to_owned()));
        assert_eq!(
            read("dask://10.0.0.1:99/"),
            Ok("tcp://10.0.0.1:99".to_owned())
        );
        assert_eq!(read("dask://[::1]"), Ok("tcp://[::1]:8786".to_owned()));
        assert_eq!(read("dask://[::1]:7"), Ok("tcp://[::1]:7".to_owned()));
        for wrong in [
            "head:8786",
            "ray://head",
            "dask://",
            "dask://head:x",
            "dask://a b",
            "dask://a:70000",
        ] {
            assert!(read(wrong).unwrap_err().contains("dask://HOST"), "{wrong}");
        }
    }
}
