//! Experiments: what to run, where to run it, and what is written down.
//!
//! - [`plan`]: the TOML file of an experiment, checked and resolved into cells;
//! - [`world`]: hosts as network namespaces, joined by virtual Ethernet, with processes in them;
//! - [`vpn`]: tunnels between routers, by real VPN programs;
//! - [`emulator`]: the wide-area path between the hosts;
//! - [`netem`]: the same by the kernel, for what it can do of it;
//! - [`hosts`]: real computers instead, reached by ssh;
//! - [`engine`]: cells run by the workers of an engine instead;
//! - [`run`]: a plan carried out cell by cell in fresh worlds, with the same programs that a user
//!   starts by hand;
//! - `simulated`: cells in virtual time, without a kernel;
//! - `lines`: messages between programs;
//! - `patience`: how long the end of a cell is waited for;
//! - `processors`: what the programs of a cell have of the processors;
//! - [`record`]: the run folder: manifest, results and report.
//!
//! Nothing here draws on a terminal: progress goes out through [`run::Observer`].

pub mod emulator;
pub mod engine;
pub mod hosts;
mod lines;
pub mod netem;
mod patience;
pub mod plan;
mod processors;
pub mod record;
pub mod run;
mod simulated;
pub mod vpn;
pub mod world;
