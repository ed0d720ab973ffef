//! A simulated twin of a recorded run, and predictions from changing it.
//!
//! - [`Reading`] derives paths, keys, TCP, store and load from the records of a cell, and lists missing information;
//!   it never reads a plan;
//! - [`replay`](replay::replay) runs a [`Setup`] in virtual time;
//! - [`fit`] compares that with the recording: a twin that does not reproduce it makes no predictions;
//! - [`knob`] lists the possible changes, by the names that plans use;
//! - [`Twin::predict`] runs the changes, each with several seeds, and ranks them, and [`Twin::advise`] combines the
//!   best ones;
//! - [`finding`] predicts the gain of a finding's advice.

mod advice;
mod calibrate;
mod fairness;
pub mod finding;
pub mod fit;
pub mod knob;
pub mod loss;
mod pool;
pub mod reading;
pub mod replay;
mod seeds;
pub mod setup;
mod what_if;

pub use advice::Bounds;
pub use reading::{Reading, Unfit};
pub use setup::Setup;
pub use what_if::{
    Failed, KnownLoss, MOST_SIMULATED, Prediction, Range, Twin, WhatIf, WhatIfError,
};
