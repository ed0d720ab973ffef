//! Both ends of a login whose other end sends what it likes.
//! The body, with what has to hold, is a test of the crate too: `crates/iscsi/tests/hostile`.

#![no_main]

#[path = "../../crates/iscsi/tests/hostile/login.rs"]
mod login;
#[path = "../../crates/iscsi/tests/sessions/pair.rs"]
#[allow(dead_code, reason = "other bodies use the rest")]
mod pair;
#[path = "../../crates/iscsi/tests/hostile/source.rs"]
#[allow(dead_code, reason = "other bodies use the rest")]
mod source;
#[path = "../../crates/iscsi/tests/hostile/text.rs"]
#[allow(dead_code, reason = "other bodies use the rest")]
mod text;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| login::check(input));
