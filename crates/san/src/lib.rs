//! Drivers: the Target server, the Initiator client, stores and the load generator
