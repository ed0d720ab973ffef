//! The stall finder against worlds whose every stall is known: a small model of TCP by the RFCs makes
//! the segments, and notes what it waits for while it does.

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
