//! The wire format as a whole: layouts, round trips and framing.

mod any_stream;
mod framing;
mod layouts;
mod round_trip;
mod stream_invariants;
