//! A simulated twin of a recorded run, and predictions by changing one thing of it at a time.
//!
//! - [`Reading`] takes what the records of a cell show of paths, keys, TCP, store and load, and says what they do
//!   not show; a plan is never looked at;
//! - [`replay`](replay::replay) runs a [`Setup`] in virtual time;
//! - [`fit`] compares that with the recording: a twin that does not do the same predicts nothing;
//! - [`knob`] has what can be changed, by the names of plans;
//! - [`Twin::predict`] runs the changes, each by several seeds, and ranks them, and [`Twin::advise`] puts the best
//!   ones together;
//! - [`finding`] predicts what a finding's advice brings.

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
