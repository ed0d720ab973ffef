//! Both ends of a login with a peer that sends arbitrary PDUs.

use std::sync::Arc;
use wansan_iscsi::initiator::{self, LoginSettings};
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::keys::{ConnectionParameters, SessionParameters};
use wansan_iscsi::login::AnnouncedWindow;
use wansan_iscsi::login::chap::{
    Account, Algorithm, CHALLENGE_BYTES, Challenge, InitiatorAccounts, InitiatorChap, Secret,
    TargetAccounts, TargetChap,
};
use wansan_iscsi::login::{Admitted, Candidate, Found, Refusal, Sessions};
use wansan_iscsi::target;
use wansan_iscsi::wire::{BHS_BYTES, Bhs, Transmitter};

use super::pair::{TARGET, copy};
use super::source::Source;
use super::text::plausible;

/// Panics when either end does, or when it admits a peer without the required authentication.
pub(crate) fn check(input: &[u8]) {
    let mut source = Source::new(input);
    if source.chance() {
        initiators(&mut source);
    } else {
        targets(&mut source);
    }
}

fn account(name: &str) -> Account {
    let secret = Secret::new(format!("the secret of {name}").as_bytes()).expect("long enough");
    Account::new(name, secret).expect("a name")
}

fn challenge(number: u8) -> Challenge {
    Challenge::from_random([number; CHALLENGE_BYTES + 1])
}

/// A target that admits every successful login.
struct Desk {
    accounts: Option<Arc<TargetAccounts>>,
}

impl Sessions for Desk {
    fn find(&mut self, _: &Candidate<'_>) -> Result<Found, Refusal> {
        Ok(Found {
            portal_group_tag: 1,
            target_alias: None,
            wanted: None,
            session: None,
            chap: self
                .accounts
                .clone()
                .map(|accounts| TargetChap::new(accounts, challenge(1))),
        })
    }

    fn admit(
        &mut self,
        candidate: &Candidate<'_>,
        _: &SessionParameters,
        _: &ConnectionParameters,
    ) -> Result<Admitted, Refusal> {
        let exp_cmd_sn = candidate.cmd_sn;
        let max_cmd_sn = exp_cmd_sn.add(15);
        Ok(Admitted {
            tsih: 1,
            window: AnnouncedWindow {
                exp_cmd_sn,
                max_cmd_sn,
            },
        })
    }
}

/// Initiators that do not know the secret, with a target that requires it or not.
fn initiators(source: &mut Source<'_>) {
    let accounts = source.chance().then(|| {
        let own = source.chance().then(|| account("disk"));
        Arc::new(
            TargetAccounts::new(vec![account("me")], own, Algorithm::ALL.to_vec())
                .expect("accounts"),
        )
    });
    let proof = accounts.is_some();
    let mut desk = Desk { accounts };
    let mut handshake = target::Handshake::new(Wanted::default());
    let mut transmitter = Transmitter::new();
    while !source.is_empty() {
        push(source, &mut transmitter, 0x43);
        while !transmitter.pending().is_empty() {
            let bytes = copy(transmitter.pending(), handshake.space());
            handshake.filled(bytes);
            transmitter.sent(bytes);
            let over = match handshake.receive(&mut desk) {
                Ok(accepted) => {
                    assert!(
                        accepted.is_none() || !proof,
                        "{accepted:?} came in without a proof"
                    );
                    accepted.is_some()
                }
                Err(_) => true,
            };
            let bytes = handshake.pending().len();
            assert!(bytes < 64 << 10, "{bytes} bytes of answers");
            handshake.sent(bytes);
            if over {
                return;
            }
        }
    }
}

/// Targets that do not know the secret, with an initiator that requires it or not.
fn targets(source: &mut Source<'_>) {
    let chap = source.chance().then(|| {
        let accounts = InitiatorAccounts::new(
            account("me"),
            Some(account("disk")),
            Algorithm::ALL.to_vec(),
        );
        InitiatorChap::new(Arc::new(accounts.expect("accounts")), challenge(2))
    });
    let proof = chap.is_some();
    let settings = LoginSettings {
        initiator: "iqn.2026-01.net.example:initiator".to_owned(),
        isid: [0x80, 1, 2, 3, 4, 5],
        target: source.chance().then(|| TARGET.to_owned()),
        chap,
        wanted: Wanted::default(),
    };
    let mut handshake = initiator::Handshake::lead(&settings).expect("sound settings");
    let mut transmitter = Transmitter::new();
    while !source.is_empty() && !handshake.is_done() {
        push(source, &mut transmitter, 0x23);
        while !transmitter.pending().is_empty() {
            let bytes = copy(transmitter.pending(), handshake.space());
            handshake.filled(bytes);
            transmitter.sent(bytes);
            if handshake.receive().is_err() {
                return;
            }
            let bytes = handshake.pending().len();
            assert!(bytes < 64 << 10, "{bytes} bytes of requests");
            handshake.sent(bytes);
        }
    }
    assert!(
        !handshake.is_done() || !proof,
        "a target came in without a proof"
    );
}

/// A Login PDU with the first byte `opcode`, or occasionally another, and its data.
fn push(source: &mut Source<'_>, transmitter: &mut Transmitter, opcode: u8) {
    let mut bhs: Bhs = [0; BHS_BYTES];
    let shape = source.byte();
    bhs[0] = if shape < 250 { opcode } else { source.byte() };
    // From one stage to the same or the next, or arbitrary.
    bhs[1] = source.one_of(&[0x81, 0x87, 0x83, 0x00, 0x04, 0x01, 0x41, 0x44]);
    if shape & 0x0f == 0x0f {
        bhs[1] = source.byte();
        bhs[2] = source.byte();
        bhs[3] = source.byte();
    }
    bhs[8..14].copy_from_slice(&[0x80, 1, 2, 3, 4, 5]);
    // TSIH: a target assigns one when login is complete.
    bhs[15] = if opcode == 0x23 {
        1
    } else {
        shape >> 4 & shape >> 5 & 1
    };
    if shape & 0x30 == 0x30 {
        // Tag, CID, numbers and status.
        let raw = source.bytes(24);
        bhs[16..16 + raw.len()].copy_from_slice(raw);
    }
    if shape & 0xc0 == 0xc0 {
        bhs[36] = source.byte() % 4;
        bhs[37] = source.byte();
    }
    let mut text = Vec::new();
    if opcode == 0x43 && source.chance() {
        let names =
            format!("InitiatorName=iqn.2026-01.net.example:initiator\0TargetName={TARGET}\0");
        text.extend_from_slice(names.as_bytes());
    }
    plausible(source, &mut text);
    transmitter.push(&bhs, &text);
}
