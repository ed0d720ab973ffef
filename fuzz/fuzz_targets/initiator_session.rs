//! An initiator's session whose target sends what it likes.
//! The body, with what has to hold, is a test of the crate too: `crates/iscsi/tests/hostile`.

#![no_main]

#[path = "../../crates/iscsi/tests/hostile/initiator_session.rs"]
mod initiator_session;
#[path = "../../crates/iscsi/tests/sessions/pair.rs"]
#[allow(dead_code, reason = "other bodies use the rest")]
mod pair;
#[path = "../../crates/iscsi/tests/hostile/pdus.rs"]
#[allow(dead_code, reason = "other bodies use the rest")]
mod pdus;
#[path = "../../crates/iscsi/tests/hostile/source.rs"]
#[allow(dead_code, reason = "other bodies use the rest")]
mod source;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| initiator_session::check(input));
