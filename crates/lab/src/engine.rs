//! Cells run elsewhere, on the workers of an engine that the user has: Dask.
//!
//! ```text
//!   lab ── python3, dask.py ── Dask's scheduler ── worker ── wansan lab cell
//!    orders ──►                                    (hands over the program and the order,
//!    ◄── folders of records, results               and keeps its input open while it is wanted)
//! ```
//!
//! A cell is a function of what its order says and of the program, so any worker may run it, and run it again when
//! another has died. What it gives is the folder of a cell, and what a run takes from it.
//!
//! - [`order`]: the order for a cell, and the answer to it;
//! - [`cluster`]: the lab's end;
//! - `dask.py`: between both, where Dask is.

mod cluster;
mod order;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

pub(crate) use cluster::{Cluster, Room, Said, Wish};
pub(crate) use order::{Answer, Hello, MAX_ORDER_BYTES, Order, unpack};

/// What an address of a scheduler begins with.
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
    /// As Dask has it.
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
    /// There is no Python here.
    #[error(
        "cannot start python3, which speaks to {engine}: {source}; install it, with Dask (`pip install distributed`)"
    )]
    NoPython {
        /// The engine.
        engine: Engine,
        /// Why.
        source: io::Error,
    },
    /// There is no Dask here.
    #[error(
        "python3, which speaks to {engine}, has no Dask ({said}): install it here too, in the workers' version (`pip install distributed`)"
    )]
    Lacking {
        /// The engine.
        engine: Engine,
        /// What Python says.
        said: String,
    },
    /// Nobody answers.
    #[error(
        "no scheduler answers at {engine} ({said}): start one there with `dask scheduler`, or correct --on"
    )]
    Silent {
        /// The engine.
        engine: Engine,
        /// What Dask says.
        said: String,
    },
    /// What is installed on a worker is not what runs here.
    #[error(
        "worker {worker} has wansan {there} installed, and this is {here}: install the same build there, or leave \
         --no-copy out"
    )]
    Version {
        /// The worker's address.
        worker: String,
        /// Version and commit there.
        there: String,
        /// Those here.
        here: String,
    },
    /// A worker cannot run the program.
    #[error(
        "worker {worker} cannot run this wansan ({said}): take workers like this computer, or install wansan there and add --no-copy"
    )]
    Unfit {
        /// The worker's address.
        worker: String,
        /// Why.
        said: String,
    },
    /// No worker takes cells in namespaces.
    #[error(
        "no worker at {engine} takes cells in network namespaces: start one on each computer \
         with `dask worker … --resources netns=1`, or simulate them (--world sim)"
    )]
    NoNamespaces {
        /// The engine.
        engine: Engine,
    },
    /// Real hosts are reached from here.
    #[error(
        "--on is for cells that may run anywhere, and the plan's world is one of real hosts: leave --on out"
    )]
    RealHosts,
    /// A file that the plan names cannot go with it.
    #[error(
        "the plan names the file `{name}`: with --on, its files have to be beside it or in folders below"
    )]
    FileElsewhere {
        /// Its name in the plan.
        name: String,
    },
    /// The connection is lost, or something broke.
    #[error("lost {engine}: {said}; see the scheduler's log")]
    Lost {
        /// The engine.
        engine: Engine,
        /// What is known.
        said: String,
    },
    /// The program cannot be read.
    #[error("cannot read {}, which the workers are to run: {source}", path.display())]
    OwnProgram {
        /// It.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It was asked to stop.
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
