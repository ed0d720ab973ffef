//! A target's session, with several connections, whose initiator sends what it likes.
//! The body, with what has to hold, is a test of the crate too: `crates/iscsi/tests/hostile`.

#![no_main]

#[path = "../../crates/iscsi/tests/sessions/pair.rs"]
#[allow(dead_code, reason = "other bodies use the rest")]
mod pair;
#[path = "../../crates/iscsi/tests/hostile/pdus.rs"]
#[allow(dead_code, reason = "other bodies use the rest")]
mod pdus;
#[path = "../../crates/iscsi/tests/hostile/source.rs"]
#[allow(dead_code, reason = "other bodies use the rest")]
mod source;
#[path = "../../crates/iscsi/tests/hostile/target_session.rs"]
mod target_session;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| target_session::check(input));
