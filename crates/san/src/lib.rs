//! Drivers: the Target server, the Initiator client, stores and the load generator

pub mod store;
