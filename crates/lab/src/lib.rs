//! Experiments: what to run, where to run it, and what to record.
//!
//! - [`plan`]: an experiment's TOML file, checked and resolved into cells;
//! - [`world`]: hosts as network namespaces, joined by virtual Ethernet, with processes in them;
//! - [`vpn`]: tunnels between routers, with real VPN programs;
//! - [`emulator`]: the wide-area path between the hosts;
//! - [`netem`]: the same with the kernel's emulator, as far as it supports it;
//! - [`hosts`]: real computers instead, over ssh;
//! - [`engine`]: cells run by workers of a compute cluster instead;
//! - [`run`]: executes a plan cell by cell in fresh worlds, with the same programs that a user starts by hand;
//! - `simulated`: cells in virtual time, without a kernel;
//! - `kernel`: what the running kernel supports;
//! - `lines`: messages between programs;
//! - `patience`: timeouts for the end of a cell;
//! - `processors`: processor use of the programs of a cell;
//! - [`record`]: the run folder: manifest, results and report.
//!
//! Nothing here draws on a terminal: progress is reported through [`run::Observer`].

pub mod emulator;
pub mod engine;
pub mod hosts;
mod kernel;
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
