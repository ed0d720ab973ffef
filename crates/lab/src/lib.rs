//! Experiments: what to run, where to run it, and what is written down.
//!
//! - [`plan`]: the TOML file of an experiment, checked and resolved into cells;
//! - [`world`]: hosts as network namespaces, joined by virtual Ethernet, with processes in them.

pub mod plan;
pub mod world;
