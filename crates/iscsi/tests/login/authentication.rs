//! CHAP (RFC 7143 §9.2.1, §12.1.3): between wansan's own ends, and with dishonest ones.

use std::sync::Arc;

use wansan_iscsi::keys::Wanted;
use wansan_iscsi::login::chap::{
    Account, Algorithm, CHALLENGE_BYTES, Challenge, ChapError, InitiatorAccounts, InitiatorChap,
    Secret, TargetAccounts,
};
use wansan_iscsi::login::{
    InitiatorLogin, InitiatorLoginError, InitiatorSettings, Next, Step, TargetLogin,
    TargetLoginError,
};
use wansan_iscsi::wire::LoginStatus;
use wansan_iscsi::wire::Stage::{
    FullFeaturePhase as Full, OperationalNegotiation as Operational,
    SecurityNegotiation as Security,
};

use super::ends::{Registry, names, request, response, settings, text_of};
use super::own_ends::{established, log_in};

const OURS: &str = "the initiator's";
const THEIRS: &str = "the target's own";

fn account(name: &str, secret: &str) -> Account {
    Account::new(name, Secret::new(secret.as_bytes()).unwrap()).unwrap()
}

/// A challenge that no other end of these tests uses.
fn challenge(number: u8) -> Challenge {
    Challenge::from_random([number; CHALLENGE_BYTES + 1])
}

pub(crate) fn target(mutual: bool, algorithms: &[Algorithm]) -> Registry {
    let own = mutual.then(|| account("disk", THEIRS));
    let initiators = vec![account("me", OURS), account("other", "somebody else's")];
    let accounts = TargetAccounts::new(initiators, own, algorithms.to_vec()).unwrap();
    Registry {
        accounts: Some(Arc::new(accounts)),
        ..Registry::default()
    }
}

fn initiator(
    own: (&str, &str),
    of_target: Option<(&str, &str)>,
    algorithms: &[Algorithm],
) -> InitiatorSettings {
    let of_target = of_target.map(|(name, secret)| account(name, secret));
    let own = account(own.0, own.1);
    let accounts = InitiatorAccounts::new(own, of_target, algorithms.to_vec()).unwrap();
    InitiatorSettings {
        chap: Some(InitiatorChap::new(Arc::new(accounts), challenge(2))),
        ..settings(Wanted::default())
    }
}

const ME: (&str, &str) = ("me", OURS);
const DISK: Option<(&str, &str)> = Some(("disk", THEIRS));

#[test]
fn every_algorithm_in_one_direction_and_in_both_for_both_kinds_of_session() {
    for algorithm in Algorithm::ALL {
        for of_target in [None, DISK] {
            for discovery in [false, true] {
                let mut settings = initiator(ME, of_target, &[algorithm]);
                if discovery {
                    settings.target_name = None;
                }
                let mut registry = target(of_target.is_some(), &Algorithm::ALL);
                let (next, step, round_trips) = log_in(settings, Wanted::default(), &mut registry);
                // AuthMethod, CHAP_A, CHAP_R, then the operational keys.
                assert_eq!(round_trips, 4);
                let (initiator, target) = established(next, step);
                assert_eq!(initiator.session, target.session);
            }
        }
    }
}

#[test]
fn the_first_algorithm_of_the_initiator_that_the_target_allows_is_taken() {
    use Algorithm::{Md5, Sha1, Sha3_256, Sha256};
    for (offered, allowed, common) in [
        (&[Sha256, Md5][..], &[Md5, Sha256][..], true),
        (&[Sha3_256, Sha1], &[Sha1], true),
        (&[Md5, Sha1], &[Sha256, Sha3_256], false),
    ] {
        let settings = initiator(ME, None, offered);
        let (next, step, _) = log_in(settings, Wanted::default(), &mut target(false, allowed));
        assert_eq!(matches!(next, Next::Done(_)), common);
        match step {
            Step::Failed(_, error) => {
                assert!(!common, "{error}");
                assert!(error.to_string().contains("SHA-256, SHA3-256"), "{error}");
            }
            _ => assert!(common, "nothing failed"),
        }
    }
}

#[test]
fn what_is_wrong_is_refused_at_either_end() {
    let refused = Next::Failed(InitiatorLoginError::Refused {
        status: LoginStatus::AuthenticationFailure,
    });
    for (own, error) in [
        (("me", "something else"), ChapError::WrongInitiator),
        (("nobody", OURS), ChapError::WrongInitiator),
        (("other", OURS), ChapError::WrongInitiator),
        // The target's own secret: only a reflected response of the target can be made with it.
        (("me", THEIRS), ChapError::Reflected { what: "response" }),
    ] {
        let settings = initiator(own, None, &Algorithm::ALL);
        let mut registry = target(true, &Algorithm::ALL);
        let (next, step, _) = log_in(settings, Wanted::default(), &mut registry);
        assert_eq!(next, refused);
        assert!(matches!(step, Step::Failed(_, TargetLoginError::Chap(e)) if e == error));
        assert!(registry.sessions.is_empty());
    }
    // The target must authenticate itself, but it cannot, or it is another one.
    let settings = initiator(ME, DISK, &Algorithm::ALL);
    let (next, step, _) = log_in(
        settings,
        Wanted::default(),
        &mut target(false, &Algorithm::ALL),
    );
    assert_eq!(next, refused);
    assert!(matches!(
        step,
        Step::Failed(_, TargetLoginError::Chap(ChapError::NothingToProveWith))
    ));
    for wrong in [("disk", "another secret"), ("another", THEIRS)] {
        let settings = initiator(ME, Some(wrong), &Algorithm::ALL);
        let mut registry = target(true, &Algorithm::ALL);
        let (next, _, _) = log_in(settings, Wanted::default(), &mut registry);
        assert_eq!(
            next,
            Next::Failed(InitiatorLoginError::Chap(ChapError::WrongTarget))
        );
        assert!(registry.sessions.is_empty());
    }
}

#[test]
fn an_initiator_without_an_account_is_told_what_it_lacks() {
    for begins_in in [Security, Operational] {
        let settings = InitiatorSettings {
            begins_in,
            ..settings(Wanted::default())
        };
        let (next, _, _) = log_in(
            settings,
            Wanted::default(),
            &mut target(false, &Algorithm::ALL),
        );
        let lacks = InitiatorLoginError::NoMethod { has_chap: false };
        assert_eq!(next, Next::Failed(lacks), "beginning in {begins_in:?}");
    }
}

#[test]
fn an_initiator_with_an_account_may_log_in_to_an_open_target_unless_that_must_prove_itself() {
    let settings = initiator(ME, None, &Algorithm::ALL);
    let (next, step, round_trips) = log_in(settings, Wanted::default(), &mut Registry::default());
    assert_eq!(round_trips, 2);
    established(next, step);
    let settings = initiator(ME, DISK, &Algorithm::ALL);
    let (next, step, _) = log_in(settings, Wanted::default(), &mut Registry::default());
    assert!(matches!(next, Next::Failed(_)));
    assert!(matches!(
        step,
        Step::Failed(
            _,
            TargetLoginError::NoMethod {
                demands_chap: false
            }
        )
    ));
}

/// Passes `texts` in the security stage to a target that requires CHAP; returns the last step.
fn drive(registry: &mut Registry, texts: &[&str]) -> Step {
    let mut login = TargetLogin::new(Wanted::default());
    let mut last = None;
    for text in texts {
        let request = request(Security, Some(Operational));
        last = Some(login.handle(&request, text.as_bytes(), registry));
    }
    last.expect("at least one text")
}

#[test]
fn an_initiator_that_forgoes_the_security_stage_is_turned_away() {
    let mut registry = target(false, &Algorithm::ALL);
    let mut login = TargetLogin::new(Wanted::default());
    let first = names() + "HeaderDigest=CRC32C\0MaxRecvDataSegmentLength=65536\0";
    let request = request(Operational, Some(Full));
    let step = login.handle(&request, first.as_bytes(), &mut registry);
    let Step::Failed(reply, TargetLoginError::NoMethod { demands_chap: true }) = step else {
        panic!("{step:?}");
    };
    assert_eq!(reply.response.status, LoginStatus::AuthenticationFailure);
}

#[test]
fn nobody_leaves_the_security_stage_without_proof() {
    let first = names() + "AuthMethod=CHAP\0";
    let texts = [
        vec![names()],
        vec![first.clone()],
        vec![first.clone(), "CHAP_A=5\0".to_owned()],
        vec![first, "CHAP_A=5\0".to_owned(), String::new()],
    ];
    for texts in texts {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let step = drive(&mut target(false, &Algorithm::ALL), &texts);
        let Step::Continue(reply) = step else {
            panic!("{step:?}");
        };
        assert_eq!(reply.response.nsg, None);
    }
}

#[test]
fn an_exchange_that_breaks_its_rules_ends_the_login() {
    let first = names() + "AuthMethod=CHAP\0";
    let long = format!("CHAP_N=me\0CHAP_R=0x{}\0", "ab".repeat(1025));
    for (texts, status) in [
        (vec!["CHAP_R=0x00\0"], LoginStatus::InitiatorError),
        (vec!["CHAP_A=MD5\0"], LoginStatus::InitiatorError),
        (vec!["CHAP_A=5\0CHAP_N=me\0"], LoginStatus::InitiatorError),
        (vec!["CHAP_A=9,99\0"], LoginStatus::AuthenticationFailure),
        (
            vec!["CHAP_A=5\0", "CHAP_N=me\0"],
            LoginStatus::InitiatorError,
        ),
        (
            vec!["CHAP_A=5\0", "CHAP_N=me\0CHAP_R=12\0"],
            LoginStatus::InitiatorError,
        ),
        (vec!["CHAP_A=5\0", &long], LoginStatus::InitiatorError),
        (
            vec![
                "CHAP_A=5\0",
                "CHAP_N=me\0CHAP_R=0x12\0CHAP_I=256\0CHAP_C=0x1\0",
            ],
            LoginStatus::InitiatorError,
        ),
        (
            vec!["CHAP_A=5\0", "CHAP_N=me\0CHAP_R=0b!!!!\0"],
            LoginStatus::InitiatorError,
        ),
        // In base64, and wrong.
        (
            vec![
                "CHAP_A=0x5\0",
                "CHAP_N=me\0CHAP_R=0bAAAAAAAAAAAAAAAAAAAAAA==\0",
            ],
            LoginStatus::AuthenticationFailure,
        ),
        (vec!["CHAP_A=5\0CHAP_A=6\0"], LoginStatus::InitiatorError),
    ] {
        let texts = [&[first.as_str()][..], &texts].concat();
        let step = drive(&mut target(false, &Algorithm::ALL), &texts);
        assert!(
            matches!(&step, Step::Failed(reply, _) if reply.response.status == status),
            "{texts:?}: {step:?}"
        );
    }
    // A target without accounts does not answer CHAP.
    let step = drive(
        &mut Registry::default(),
        &[&(names() + "AuthMethod=None\0CHAP_A=5\0")],
    );
    assert!(matches!(step, Step::Failed(..)), "{step:?}");
}

/// §9.2.1: "Originators MUST NOT reuse the CHAP challenge sent by the Responder".
#[test]
fn a_challenge_that_comes_back_ends_the_login() {
    let first = names() + "AuthMethod=CHAP\0";
    let mut registry = target(true, &Algorithm::ALL);
    let mut login = TargetLogin::new(Wanted::default());
    let security = request(Security, Some(Operational));
    login.handle(&security, first.as_bytes(), &mut registry);
    let step = login.handle(&security, b"CHAP_A=7\0", &mut registry);
    let text = text_of(&step);
    let theirs = text.split(';').find(|pair| pair.starts_with("CHAP_C="));
    let answer = format!(
        "CHAP_N=me\0CHAP_R=0x{}\0CHAP_I=1\0{}\0",
        "00".repeat(32),
        theirs.unwrap()
    );
    let step = login.handle(&security, answer.as_bytes(), &mut registry);
    let error = ChapError::Reflected { what: "challenge" };
    assert!(matches!(step, Step::Failed(_, TargetLoginError::Chap(e)) if e == error));
}

#[test]
fn a_target_cannot_do_without_the_proof_that_is_wanted() {
    let ok = |nsg| response(Security, nsg);
    let challenged: &[u8] = b"CHAP_A=5\0CHAP_I=1\0CHAP_C=0x0102\0";
    for responses in [
        // Moves on at once, after the method, after the challenge, or without its own response.
        vec![(ok(Some(Operational)), &b""[..])],
        vec![(ok(Some(Operational)), b"AuthMethod=CHAP\0")],
        vec![
            (ok(None), b"AuthMethod=CHAP\0"),
            (ok(Some(Operational)), challenged),
        ],
        vec![
            (ok(None), b"AuthMethod=CHAP\0"),
            (ok(None), challenged),
            (ok(Some(Operational)), b""),
        ],
    ] {
        let mut login = InitiatorLogin::new(initiator(ME, DISK, &[Algorithm::Md5])).unwrap();
        login.start();
        let mut last = None;
        for (response, text) in responses {
            last = Some(login.handle(&response, text));
        }
        let failed = Next::Failed(InitiatorLoginError::Chap(ChapError::NotProved));
        assert_eq!(last, Some(failed));
    }
}

#[test]
fn a_target_cannot_choose_what_was_not_offered() {
    let mut login = InitiatorLogin::new(initiator(ME, None, &[Algorithm::Md5])).unwrap();
    login.start();
    login.handle(&response(Security, None), b"AuthMethod=CHAP\0");
    let text = b"CHAP_A=6\0CHAP_I=1\0CHAP_C=0x0102\0";
    let next = login.handle(&response(Security, None), text);
    let Next::Failed(InitiatorLoginError::Chap(ChapError::NoAlgorithm { own })) = next else {
        panic!("{next:?}");
    };
    assert_eq!(own.to_string(), "MD5");
}

#[test]
fn a_target_that_sends_the_initiators_own_answer_back_is_no_target() {
    let mut login = InitiatorLogin::new(initiator(ME, DISK, &[Algorithm::Sha256])).unwrap();
    login.start();
    login.handle(&response(Security, None), b"AuthMethod=CHAP\0");
    // It sends the challenge that it is about to receive: challenge(2), which it cannot know, stands for what it would
    // learn on a second connection.
    let own = format!("CHAP_A=7\0CHAP_I=2\0CHAP_C=0x{}\0", "02".repeat(32));
    let next = login.handle(&response(Security, None), own.as_bytes());
    let error = ChapError::Reflected { what: "challenge" };
    assert_eq!(next, Next::Failed(InitiatorLoginError::Chap(error)));
}
