//! Text keys: malformed text, and almost valid text, at any time.

use wansan_iscsi::keys::{KeyName, Negotiation, Role, SessionType, TABLE, Wanted, full_feature};
use wansan_iscsi::text::{pairs, send_targets};
use wansan_iscsi::wire::Stage;

use super::source::Source;

/// Values that some key accepts, and some that none does.
const VALUES: [&str; 24] = [
    "Yes",
    "No",
    "None",
    "CRC32C",
    "CRC32C,None",
    "CHAP",
    "CHAP,None",
    "Reject",
    "Irrelevant",
    "NotUnderstood",
    "0",
    "1",
    "5",
    "512",
    "8192",
    "16777215",
    "16777216",
    "0x200",
    "-1",
    "",
    "Normal",
    "Discovery",
    "All",
    "1,7",
];
/// Names that more than one end may have, and values of CHAP.
const LONGER: [&str; 8] = [
    "iqn.2026-01.net.example:pair",
    "iqn.2026-01.net.example:initiator",
    "10.0.0.1:3260,1",
    "[2001:db8::1]:3260,1",
    "0x00112233445566778899aabbccddeeff",
    "0bAAECAwQFBgcICQoLDA0ODw==",
    "me",
    "5,7,8",
];

/// Text of standard keys with any value, and occasionally arbitrary text.
pub(crate) fn plausible(source: &mut Source<'_>, text: &mut Vec<u8>) {
    for _ in 0..source.byte() % 8 {
        match source.byte() {
            0..=219 => {
                let key = &TABLE[usize::from(source.byte()) % TABLE.len()];
                let value = match source.byte() {
                    0..=159 => source.one_of(&VALUES),
                    _ => source.one_of(&LONGER),
                };
                text.extend_from_slice(key.text.as_bytes());
                text.push(b'=');
                text.extend_from_slice(value.as_bytes());
            }
            220..=239 => text.extend_from_slice(b"X-net.example.key=1"),
            _ => {
                let bytes = usize::from(source.byte());
                text.extend_from_slice(source.bytes(bytes));
            }
        }
        if source.byte() < 250 {
            text.push(0);
        }
    }
}

/// Panics when parsing or negotiating does.
pub(crate) fn check(input: &[u8]) {
    let mut source = Source::new(input);
    let role = source.one_of(&[Role::Target, Role::Initiator]);
    let session_type = source.one_of(&[SessionType::Normal, SessionType::Discovery]);
    let leading = source.chance();
    let mut negotiation = Negotiation::new(role, Wanted::default(), leading, session_type);
    let stages = [Stage::OperationalNegotiation, Stage::SecurityNegotiation];
    while !source.is_empty() {
        let stage = source.one_of(&stages);
        let mut text = Vec::new();
        plausible(&mut source, &mut text);
        if source.chance() {
            negotiation.open(stage, &mut Vec::new());
        }
        let answered = negotiation.receive(stage, &text);
        if let Ok(answers) = answered {
            pairs(&answers).expect("answers can be read");
        }
        let _ = full_feature::read(&text);
        let _ = send_targets::records(&text);
    }
    if negotiation.finish().is_ok() {
        let length = negotiation.number(KeyName::MaxBurstLength);
        assert!((512..1 << 24).contains(&length), "{length}");
    }
}
