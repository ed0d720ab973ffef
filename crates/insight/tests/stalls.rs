//! The stall finder against worlds whose every stall is known: a small TCP model built from the RFCs generates the
//! segments and records each of its own waits.

mod answers;
mod by_hand;
mod captured;
mod cell;
mod end;
mod full_buffer;
mod kept_back;
mod path;
mod sessions;
mod truth;
mod world;
