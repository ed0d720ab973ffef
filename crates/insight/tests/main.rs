//! Tests on records and captures of known worlds: the model, stalls, and limits.

mod model;
mod stalls;
mod worlds;
