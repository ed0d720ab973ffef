//! Failed logins: their status, and the side at fault.

use wansan_iscsi::fault::Fault;
use wansan_iscsi::keys::{DigestKind, KeyError, SessionParameters, Wanted};
use wansan_iscsi::login::{
    InitiatorLogin, InitiatorLoginError, InitiatorSettings, MAX_PDUS, Next, Step, TargetLogin,
    TargetLoginError,
};
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::text::TextError;
use wansan_iscsi::wire::Stage::{
    FullFeaturePhase as Full, OperationalNegotiation as Operational,
    SecurityNegotiation as Security,
};
use wansan_iscsi::wire::{LoginRequest, LoginResponse, LoginStatus};
use wansan_trace::TaskTag;

use super::ends::{
    INITIATOR, Registry, TARGET, drive, first_answer, names, request, response, settings,
};

#[test]
fn what_a_target_does_wrong_is_its_fault() {
    let zero_tsih = LoginResponse {
        tsih: 0,
        ..response(Operational, Some(Full))
    };
    let other_isid = LoginResponse {
        isid: [1; 6],
        ..response(Operational, Some(Full))
    };
    let continued = LoginResponse {
        continue_: true,
        ..response(Operational, Some(Full))
    };
    let moved = LoginResponse {
        status: LoginStatus::TargetMovedTemporarily,
        ..response(Operational, None)
    };
    for (response, text) in [
        (zero_tsih, &b""[..]),
        (other_isid, b""),
        (continued, b""),
        (moved, b"TargetAddress=\0"),
        (response(Full, None), b""),
        (response(Operational, Some(Operational)), b""),
        (
            response(Operational, Some(Full)),
            b"MaxBurstLength=16777215\0",
        ),
        (response(Operational, Some(Full)), b"no pair"),
    ] {
        let (mut initiator, next) = first_answer(Wanted::default(), response, text);
        let Next::Failed(error) = next else {
            panic!("{response:?} {next:?}")
        };
        assert_eq!(error.fault(), Fault::PeerMisbehaved, "{error}");
        let after = initiator.handle(&response, text);
        assert_eq!(after, Next::Failed(InitiatorLoginError::IsOver));
    }
}

#[test]
fn what_an_initiator_cannot_use_is_incompatible() {
    let refused = LoginResponse {
        status: LoginStatus::AuthenticationFailure,
        ..response(Security, None)
    };
    let newer = LoginResponse {
        version_active: 1,
        ..response(Operational, None)
    };
    let wanted = Wanted {
        header_digest: vec![DigestKind::Crc32c],
        ..Wanted::default()
    };
    for (response, text) in [
        (refused, &b""[..]),
        (newer, b""),
        (response(Operational, Some(Full)), b"HeaderDigest=Reject\0"),
    ] {
        let (_, next) = first_answer(wanted.clone(), response, text);
        let Next::Failed(error) = next else {
            panic!("{next:?}")
        };
        assert_eq!(error.fault(), Fault::PeerIncompatible, "{error}");
    }
}

#[test]
fn settings_that_cannot_be_are_the_callers_fault() {
    let good = || settings(Wanted::default());
    let joined = SessionParameters {
        max_connections: 1,
        initial_r2t: true,
        immediate_data: true,
        max_burst_bytes: 512,
        first_burst_bytes: 512,
        time2wait_s: 0,
        time2retain_s: 0,
        max_outstanding_r2t: 1,
        data_pdu_in_order: true,
        data_sequence_in_order: true,
        error_recovery_level: 0,
    };
    for bad in [
        InitiatorSettings {
            initiator_name: "me".to_owned(),
            ..good()
        },
        InitiatorSettings {
            target_name: Some("iqn.2026-01.a b".to_owned()),
            ..good()
        },
        InitiatorSettings {
            initiator_alias: Some("a".repeat(256)),
            ..good()
        },
        InitiatorSettings {
            initiator_alias: Some("a\0b=c".to_owned()),
            ..good()
        },
        InitiatorSettings {
            begins_in: Full,
            ..good()
        },
        InitiatorSettings {
            joins: Some((0, joined)),
            ..good()
        },
        settings(Wanted {
            max_connections: 0,
            ..Wanted::default()
        }),
    ] {
        let error = InitiatorLogin::new(bad).expect_err("refused");
        assert_eq!(error.fault(), Fault::CallerMisused, "{error}");
    }
}

/// A description, the requests, and the status that the last of them gets.
type Case<'a> = (&'a str, Vec<(LoginRequest, &'a [u8])>, LoginStatus);

/// §11.13.5: every failure has the standard's status.
#[test]
fn failures_have_their_status() {
    let named = names();
    let named = named.as_bytes();
    let nobody = format!("TargetName={TARGET}\0");
    let nowhere = format!("InitiatorName={INITIATOR}\0");
    let unknown = format!("InitiatorName={INITIATOR}\0TargetName=iqn.2026-01.com.example:none\0");
    let chap = names() + "AuthMethod=CHAP\0";
    let joins_discovery = format!("InitiatorName={INITIATOR}\0SessionType=Discovery\0");
    let go = request(Operational, Some(Full));
    let stay = request(Operational, None);
    let long = vec![b'a'; 65_537];
    let cases: Vec<Case<'_>> = vec![
        (
            "no InitiatorName",
            vec![(go, nobody.as_bytes())],
            LoginStatus::MissingParameter,
        ),
        (
            "no TargetName",
            vec![(go, nowhere.as_bytes())],
            LoginStatus::MissingParameter,
        ),
        ("no text", vec![(go, b"")], LoginStatus::MissingParameter),
        (
            "no such target",
            vec![(go, unknown.as_bytes())],
            LoginStatus::NotFound,
        ),
        (
            "version",
            vec![(
                LoginRequest {
                    version_min: 1,
                    version_max: 2,
                    ..go
                },
                named,
            )],
            LoginStatus::UnsupportedVersion,
        ),
        (
            "no session",
            vec![(LoginRequest { tsih: 5, ..go }, named)],
            LoginStatus::SessionDoesNotExist,
        ),
        (
            "joins discovery",
            vec![(LoginRequest { tsih: 5, ..go }, joins_discovery.as_bytes())],
            LoginStatus::CannotIncludeInSession,
        ),
        (
            "CHAP only",
            vec![(request(Security, Some(Operational)), chap.as_bytes())],
            LoginStatus::AuthenticationFailure,
        ),
        (
            "CSG 3",
            vec![(request(Full, None), named)],
            LoginStatus::InitiatorError,
        ),
        (
            "NSG below CSG",
            vec![(request(Operational, Some(Security)), named)],
            LoginStatus::InitiatorError,
        ),
        (
            "NSG as CSG",
            vec![(request(Operational, Some(Operational)), named)],
            LoginStatus::InitiatorError,
        ),
        (
            "T with C",
            vec![(
                LoginRequest {
                    continue_: true,
                    ..go
                },
                named,
            )],
            LoginStatus::InitiatorError,
        ),
        (
            "back to security",
            vec![(stay, named), (request(Security, None), b"")],
            LoginStatus::InitiatorError,
        ),
        (
            "stage skipped without T",
            vec![(request(Security, None), named), (go, b"")],
            LoginStatus::InitiatorError,
        ),
        (
            "ISID changed",
            vec![(stay, named), (LoginRequest { isid: [0; 6], ..go }, b"")],
            LoginStatus::InitiatorError,
        ),
        (
            "CID changed",
            vec![(stay, named), (LoginRequest { cid: 2, ..go }, b"")],
            LoginStatus::InitiatorError,
        ),
        (
            "CmdSN changed",
            vec![
                (stay, named),
                (
                    LoginRequest {
                        cmd_sn: Sn(8),
                        ..go
                    },
                    b"",
                ),
            ],
            LoginStatus::InitiatorError,
        ),
        (
            "TSIH changed",
            vec![(stay, named), (LoginRequest { tsih: 1, ..go }, b"")],
            LoginStatus::InitiatorError,
        ),
        (
            "no text at all",
            vec![(go, b"\x01\x02")],
            LoginStatus::InitiatorError,
        ),
        (
            "text too long",
            vec![(go, &long)],
            LoginStatus::InitiatorError,
        ),
        (
            "names again",
            vec![(stay, named), (go, named)],
            LoginStatus::InitiatorError,
        ),
    ];
    for (what, requests, status) in cases {
        let step = drive(requests);
        let Step::Failed(reply, error) = step else {
            panic!("{what}: {step:?}")
        };
        assert_eq!(reply.response.status, status, "{what}: {error}");
        assert_eq!(reply.response.nsg, None);
        assert!(!error.to_string().contains('\n'));
    }
}

#[test]
fn text_is_bounded_and_so_is_the_number_of_requests() {
    let piece = vec![b'a'; 8192];
    let continued = LoginRequest {
        continue_: true,
        ..request(Operational, None)
    };
    let step = drive((0..20).map(|_| (continued, piece.as_slice())));
    assert!(matches!(
        step,
        Step::Failed(_, TargetLoginError::Key(KeyError::Text(TextError::TooLong)))
    ));

    let named = names();
    let stay = request(Operational, None);
    let endless = (0..).map(|n| (stay, if n == 0 { named.as_bytes() } else { b"" }));
    let mut requests = 0;
    let step = drive(endless.inspect(|_| requests += 1));
    assert!(
        matches!(step, Step::Failed(_, TargetLoginError::Endless)),
        "{step:?}"
    );
    assert_eq!(requests, MAX_PDUS + 1);

    let mut initiator = InitiatorLogin::new(settings(Wanted::default())).expect("sound settings");
    initiator.start();
    let mut responses = 0;
    let next = loop {
        responses += 1;
        match initiator.handle(&response(Operational, None), b"") {
            Next::Send(_) => {}
            next => break next,
        }
    };
    assert_eq!(next, Next::Failed(InitiatorLoginError::Endless));
    assert_eq!(responses, MAX_PDUS + 1);
}

#[test]
fn only_logins_are_valid_before_login_is_over() {
    let mut target = TargetLogin::new(Wanted::default());
    let step = target.not_a_login(TaskTag(4));
    let Step::Failed(reply, _) = step else {
        panic!("{step:?}")
    };
    assert_eq!(reply.response.status, LoginStatus::InvalidDuringLogin);
    assert_eq!(reply.response.task_tag, TaskTag(4));
    let after = target.handle(
        &request(Operational, Some(Full)),
        names().as_bytes(),
        &mut Registry::default(),
    );
    assert!(matches!(
        after,
        Step::Failed(_, TargetLoginError::InvalidDuringLogin)
    ));
}

#[test]
fn what_the_target_says_of_failures_is_in_words() {
    let wrong = |nsg, continued| TargetLoginError::WrongStage {
        csg: Security,
        nsg,
        continued,
    };
    for (error, said) in [
        (
            wrong(Some(Security), false),
            "of stage SecurityNegotiation with a transition to SecurityNegotiation is not allowed",
        ),
        (
            wrong(None, true),
            "of stage SecurityNegotiation with the C bit set is not allowed",
        ),
        (
            TargetLoginError::Refused(LoginStatus::AuthorizationFailure),
            "login refused: the target's access list does not admit it (status 0202,",
        ),
        (
            TargetLoginError::Refused(LoginStatus::TargetError),
            "login refused (status 0300,",
        ),
    ] {
        let text = error.to_string();
        assert!(text.contains(said), "{text}");
    }
}
