//! Records and captures of worlds that are known: the model, stalls, and limits.

mod model;
mod stalls;
mod worlds;
