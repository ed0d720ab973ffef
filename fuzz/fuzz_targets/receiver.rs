//! Arbitrary bytes in arbitrary pieces, cut into PDUs, and each of them parsed.
//!
//! Run with `cargo +nightly fuzz run receiver`. An input is: a byte of settings, the number of piece
//! lengths, the piece lengths, and then the stream.

#![no_main]

#[path = "../../crates/iscsi/tests/wire/stream_invariants.rs"]
mod stream_invariants;

use libfuzzer_sys::fuzz_target;
use stream_invariants::{Settings, check};

fuzz_target!(|input: &[u8]| {
    let Some((&[settings, pieces], rest)) = input.split_first_chunk() else { return };
    let (piece_bytes, stream) = rest.split_at(rest.len().min(pieces.into()));
    let settings = Settings {
        header_digest: settings & 1 != 0,
        data_digest: settings & 2 != 0,
        max_data_bytes: if settings & 4 != 0 { (1 << 24) - 1 } else { 8192 },
    };
    check(settings, piece_bytes, stream);
});
