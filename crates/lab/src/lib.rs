//! Worlds, plans, sweeps, runs and records
