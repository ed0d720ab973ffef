//! Text keys and their negotiation (RFC 7143 §6.2, §13).
//! The body, with what has to hold, is a test of the crate too: `crates/iscsi/tests/hostile`.

#![no_main]

#[path = "../../crates/iscsi/tests/hostile/source.rs"]
#[allow(dead_code, reason = "other bodies use the rest")]
mod source;
#[path = "../../crates/iscsi/tests/hostile/text.rs"]
mod text;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| text::check(input));
