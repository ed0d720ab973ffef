//! parse ∘ emit is the identity for every PDU.

use proptest::prelude::*;
use wansan_iscsi::wire::{BHS_BYTES, Bhs, Header, Opcode, ParseError};

pub(crate) const OPCODES: [u8; 18] = [
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x10, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x31,
    0x32, 0x3f,
];

/// Any bytes after any assigned opcode, with or without the immediate bit.
pub(crate) fn header_bytes() -> impl Strategy<Value = Bhs> {
    (
        any::<[u8; 32]>(),
        any::<[u8; 16]>(),
        prop::sample::select(&OPCODES[..]),
        any::<bool>(),
    )
        .prop_map(|(first, last, opcode, immediate)| {
            let mut bhs = [0; BHS_BYTES];
            bhs[..32].copy_from_slice(&first);
            bhs[32..].copy_from_slice(&last);
            bhs[0] = opcode | if immediate { 0x40 } else { 0 };
            bhs
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Every valid header is the parse of its own encoding, and its encoding differs from the received bytes only in
    /// bits that the standard reserves.
    #[test]
    fn a_header_comes_back(bhs in header_bytes()) {
        match Header::parse(&bhs) {
            Ok(header) => {
                let mut emitted = [0xee; BHS_BYTES];
                header.emit(&mut emitted);
                prop_assert_eq!(Header::parse(&emitted), Ok(header));
                prop_assert_eq!(emitted[0] & 0x3f, bhs[0] & 0x3f);
                prop_assert_eq!(&emitted[4..8], &[0; 4], "framing sets the lengths");
            }
            Err(error) => prop_assert!(
                matches!(error, ParseError::InvalidField { .. }),
                "{} for {:02x?}", error, bhs
            ),
        }
    }
}

/// Each opcode has its own parser, and all others are reported as errors.
#[test]
fn every_opcode_is_either_parsed_or_unknown() {
    for opcode in 0..0x40 {
        // F set, the rest zero, is valid in all PDUs except R2T, which must request data.
        let mut bhs = [0; BHS_BYTES];
        (bhs[0], bhs[1], bhs[47]) = (opcode, 0x80, 1);
        match Header::parse(&bhs) {
            Ok(_) => assert!(OPCODES.contains(&opcode)),
            Err(error) => {
                assert_eq!(error, ParseError::UnknownOpcode(opcode));
                assert_eq!(Opcode::from_wire(opcode), Opcode::Other(opcode));
            }
        }
    }
}
