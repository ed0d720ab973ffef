//! Tests of plans, runs and their records without worlds.

mod effects;
mod netem;
mod page;
mod plan;
mod stored;
mod timeline;
