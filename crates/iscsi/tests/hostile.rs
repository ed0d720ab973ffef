//! Peers that send fuzzed or random input. Each body takes plain bytes, so that the fuzz targets of the same names
//! (`make fuzz`) and the properties here share it.

mod initiator_session;
mod login;
mod pdus;
mod source;
mod target_session;
mod text;

use super::sessions::pair;
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_initiator_breaks_a_targets_session(input in vec(any::<u8>(), 0..4096)) {
        target_session::check(&input);
    }

    #[test]
    fn no_target_breaks_an_initiators_session(input in vec(any::<u8>(), 0..4096)) {
        initiator_session::check(&input);
    }

    #[test]
    fn no_peer_breaks_a_login(input in vec(any::<u8>(), 0..1024)) {
        login::check(&input);
    }

    #[test]
    fn no_text_breaks_negotiation(input in vec(any::<u8>(), 0..1024)) {
        text::check(&input);
    }
}
