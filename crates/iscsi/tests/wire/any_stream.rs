//! The fuzz target's body with bytes made up by proptest.

use super::round_trip::header_bytes;
use super::stream_invariants::{Settings, check};
use proptest::{collection::vec, prelude::*};

/// Bytes that look like PDUs often enough to get somewhere: headers with small lengths, and noise.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let header =
        (header_bytes(), 0_u8..3, 0_u32..600).prop_map(|(mut bhs, ahs_words, data_bytes)| {
            bhs[4] = ahs_words;
            bhs[5..8].copy_from_slice(&data_bytes.to_be_bytes()[1..]);
            bhs.to_vec()
        });
    vec(
        prop_oneof![header, vec(any::<u8>(), 0..400), Just(vec![0; 400])],
        0..40,
    )
    .prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_stream_breaks_the_receiver(
        stream in stream(),
        piece_bytes in vec(any::<u8>(), 1..8),
        header_digest in prop::bool::weighted(0.2),
        data_digest: bool,
        max_data_bytes in prop_oneof![Just(512_usize), Just(8192), Just((1 << 24) - 1)],
    ) {
        let settings = Settings { header_digest, data_digest, max_data_bytes };
        check(settings, &piece_bytes, &stream);
    }
}
