//! Logins as performed by foreign initiators and targets.

use wansan_iscsi::keys::Wanted;
use wansan_iscsi::login::{InitiatorLogin, Next, Request, Step, TargetLogin};
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::wire::Stage::{
    FullFeaturePhase as Full, OperationalNegotiation as Operational,
    SecurityNegotiation as Security,
};
use wansan_iscsi::wire::{LoginRequest, LoginResponse};
use wansan_trace::TaskTag;

use super::ends::{
    INITIATOR, Registry, TARGET, drive, first_answer, names, request, response, settings, text_of,
    window,
};

#[test]
fn a_plain_login_of_libiscsi() {
    // libiscsi's text when no user is set: everything at once, in the operational stage.
    let text = format!(
        "InitiatorName={INITIATOR}\0InitiatorAlias=x\0TargetName={TARGET}\0SessionType=Normal\0\
         HeaderDigest=None,CRC32C\0DataDigest=None\0InitialR2T=No\0ImmediateData=Yes\0\
         MaxBurstLength=262144\0FirstBurstLength=262144\0DefaultTime2Wait=2\0\
         DefaultTime2Retain=0\0MaxOutstandingR2T=1\0ErrorRecoveryLevel=0\0IFMarker=No\0\
         OFMarker=No\0MaxConnections=1\0MaxRecvDataSegmentLength=262144\0DataPDUInOrder=Yes\0\
         DataSequenceInOrder=Yes\0"
    );
    let step = drive([(request(Operational, Some(Full)), text.as_bytes())]);
    assert_eq!(
        text_of(&step),
        "TargetPortalGroupTag=7;TargetAlias=Disk 1;HeaderDigest=None;DataDigest=None;\
         MaxConnections=1;InitialR2T=No;ImmediateData=Yes;MaxBurstLength=262144;\
         FirstBurstLength=262144;DefaultTime2Wait=2;DefaultTime2Retain=0;MaxOutstandingR2T=1;\
         DataPDUInOrder=Yes;DataSequenceInOrder=Yes;ErrorRecoveryLevel=0;IFMarker=Reject;\
         OFMarker=Reject;MaxRecvDataSegmentLength=262144;"
    );
    let Step::Done(reply, accepted) = step else {
        panic!("{step:?}")
    };
    assert_eq!(reply.response.nsg, Some(Full));
    assert_eq!(
        (reply.response.stat_sn, accepted.stat_sn),
        (Sn(100), Sn(101))
    );
}

#[test]
fn a_login_of_open_iscsi_in_two_stages() {
    let security = format!(
        "InitiatorName={INITIATOR}\0InitiatorAlias=x\0TargetName={TARGET}\0SessionType=Normal\0\
         AuthMethod=None\0"
    );
    let operational = b"HeaderDigest=None\0DataDigest=None\0DefaultTime2Wait=2\0\
        DefaultTime2Retain=0\0IFMarker=No\0OFMarker=No\0ErrorRecoveryLevel=0\0InitialR2T=No\0\
        ImmediateData=Yes\0MaxBurstLength=16776192\0FirstBurstLength=262144\0\
        MaxOutstandingR2T=1\0MaxConnections=1\0DataPDUInOrder=Yes\0DataSequenceInOrder=Yes\0\
        MaxRecvDataSegmentLength=262144\0";
    let first = (request(Security, Some(Operational)), security.as_bytes());
    let step = drive([first]);
    assert_eq!(
        text_of(&step),
        "TargetPortalGroupTag=7;TargetAlias=Disk 1;AuthMethod=None;"
    );
    let step = drive([
        first,
        (request(Operational, Some(Full)), operational.as_slice()),
    ]);
    let Step::Done(_, accepted) = step else {
        panic!("{step:?}")
    };
    assert_eq!(accepted.session.max_burst_bytes, 1_048_576);
}

#[test]
fn a_login_may_skip_the_operational_stage() {
    let text = names();
    let step = drive([(request(Security, Some(Full)), text.as_bytes())]);
    let Step::Done(reply, accepted) = step else {
        panic!("{step:?}")
    };
    assert_eq!(
        (reply.response.csg, reply.response.nsg),
        (Security, Some(Full))
    );
    // Nothing was negotiated, so the defaults of §13 are in force.
    assert!(accepted.session.initial_r2t);
    assert_eq!(accepted.connection.max_send_data_bytes, 8192);
    assert_eq!(accepted.connection.max_recv_data_bytes, 8192);
}

#[test]
fn text_may_come_in_pieces() {
    let text = names() + "InitialR2T=No\0MaxBurstLength=65536\0";
    let pieces: Vec<_> = text.as_bytes().chunks(7).collect();
    let last = pieces.len() - 1;
    let requests = pieces.iter().enumerate().map(|(at, piece)| {
        let nsg = (at == last).then_some(Full);
        (
            LoginRequest {
                continue_: at != last,
                ..request(Operational, nsg)
            },
            *piece,
        )
    });
    let mut target = TargetLogin::new(Wanted::default());
    for (at, (request, data)) in requests.enumerate() {
        let step = target.handle(&request, data, &mut Registry::default());
        if at == last {
            assert!(matches!(&step, Step::Done(..)), "{step:?}");
            assert!(text_of(&step).contains("MaxBurstLength=65536;"));
        } else {
            // §6.2: each piece except the last is answered without text.
            assert!(
                matches!(&step, Step::Continue(reply)
                if reply.data.is_empty() && reply.response.nsg.is_none()),
                "{step:?}"
            );
        }
    }
}

#[test]
fn long_answers_go_out_in_pieces() {
    let unknown: String = (0..240)
        .map(|n| format!("X-com.example.unknown-key-{n:020}=1\0"))
        .collect();
    let text = names() + &unknown;
    assert!(text.len() < 16_384);
    let (front, back) = text.as_bytes().split_at(8000);
    let mut target = TargetLogin::new(Wanted::default());
    let mut registry = Registry::default();
    let continued = LoginRequest {
        continue_: true,
        ..request(Operational, None)
    };
    target.handle(&continued, front, &mut registry);
    let first = target.handle(&request(Operational, Some(Full)), back, &mut registry);
    let Step::Continue(reply) = first else {
        panic!("{first:?}")
    };
    assert!(reply.response.continue_ && reply.response.nsg.is_none());
    assert_eq!(reply.data.len(), 8192);

    // wansan's initiator, too, waits for the rest before it answers.
    let mut initiator = InitiatorLogin::new(settings(Wanted::default())).expect("sound settings");
    initiator.start();
    let response = LoginResponse {
        task_tag: TaskTag(9),
        ..reply.response
    };
    let Next::Send(next) = initiator.handle(&response, &reply.data) else {
        panic!("goes on")
    };
    assert!(next.data.is_empty() && next.request.nsg.is_none());

    let step = target.handle(&request(Operational, Some(Full)), b"", &mut registry);
    let Step::Done(rest, _) = step else {
        panic!("{step:?}")
    };
    assert!(!rest.response.continue_);
    let whole = [reply.data, rest.data].concat();
    assert_eq!(
        String::from_utf8(whole)
            .expect("text")
            .matches("=NotUnderstood\0")
            .count(),
        240
    );
}

#[test]
fn a_target_that_stays_for_a_declaration_of_its_own() {
    // tgt answers T=0 when its MaxRecvDataSegmentLength is not the default.
    let (mut initiator, next) = first_answer(
        Wanted::default(),
        response(Operational, None),
        b"TargetPortalGroupTag=1\0InitialR2T=No\0MaxRecvDataSegmentLength=65536\0",
    );
    let Next::Send(Request { request, data }) = next else {
        panic!("{next:?}")
    };
    assert_eq!((request.nsg, data.as_slice()), (Some(Full), &b""[..]));
    assert_eq!(request.exp_stat_sn, Sn(2));
    let Next::Done(done) = initiator.handle(&response(Operational, Some(Full)), b"") else {
        panic!("login ends")
    };
    assert_eq!(done.connection.max_send_data_bytes, 65_536);
    assert!(!done.session.initial_r2t);
}

#[test]
fn offers_of_the_target_are_answered_at_length_if_need_be() {
    let unknown: String = (0..200)
        .map(|n| format!("X-com.example.unknown-key-{n:020}=1\0"))
        .collect();
    let (mut initiator, next) = first_answer(
        Wanted::default(),
        response(Operational, None),
        unknown.as_bytes(),
    );
    let Next::Send(first) = next else {
        panic!("{next:?}")
    };
    assert!(first.request.continue_ && first.request.nsg.is_none());
    let Next::Send(last) = initiator.handle(&response(Operational, None), b"") else {
        panic!("goes on")
    };
    assert!(!last.request.continue_);
    assert_eq!(last.request.nsg, Some(Full));
    let whole = [first.data, last.data].concat();
    assert_eq!(
        String::from_utf8(whole)
            .expect("text")
            .matches("=NotUnderstood\0")
            .count(),
        200
    );
}

#[test]
fn a_target_may_insist_on_the_security_stage() {
    let (mut initiator, next) = first_answer(Wanted::default(), response(Security, None), b"");
    let Next::Send(security) = next else {
        panic!("{next:?}")
    };
    assert_eq!(
        (security.request.csg, security.request.nsg),
        (Security, Some(Operational))
    );
    assert_eq!(security.data, b"AuthMethod=None\0");
    let next = initiator.handle(&response(Security, Some(Operational)), b"AuthMethod=None\0");
    let Next::Send(operational) = next else {
        panic!("{next:?}")
    };
    assert_eq!(
        (operational.request.csg, operational.request.nsg),
        (Operational, Some(Full))
    );
    assert!(
        String::from_utf8(operational.data)
            .expect("text")
            .contains("InitialR2T=No")
    );
}

#[test]
fn authentication_methods_are_chosen_from_the_offer() {
    let text = names() + "AuthMethod=CHAP,None\0";
    let step = drive([(request(Security, Some(Operational)), text.as_bytes())]);
    assert!(text_of(&step).ends_with("AuthMethod=None;"));
}

#[test]
fn a_silent_initiator_is_asked_before_login_ends() {
    let wanted = Wanted {
        immediate_data: false,
        ..Wanted::default()
    };
    let mut target = TargetLogin::new(wanted);
    let mut registry = Registry::default();
    let go = request(Operational, Some(Full));
    let step = target.handle(&go, names().as_bytes(), &mut registry);
    assert!(
        matches!(&step, Step::Continue(reply) if reply.response.nsg.is_none()),
        "{step:?}"
    );
    assert!(text_of(&step).ends_with("ImmediateData=No;MaxRecvDataSegmentLength=262144;"));
    let step = target.handle(&go, b"ImmediateData=No\0", &mut registry);
    let Step::Done(_, accepted) = step else {
        panic!("{step:?}")
    };
    assert!(!accepted.session.immediate_data);
}

#[test]
fn a_joining_connection_hears_the_sessions_window_at_once() {
    let mut registry = Registry::default();
    let named = names();
    let step = TargetLogin::new(Wanted::default()).handle(
        &request(Operational, Some(Full)),
        named.as_bytes(),
        &mut registry,
    );
    assert!(matches!(step, Step::Done(..)), "{step:?}");
    let join = LoginRequest {
        tsih: 1,
        cid: 2,
        ..request(Security, Some(Operational))
    };
    let step = TargetLogin::new(Wanted::default()).handle(&join, named.as_bytes(), &mut registry);
    let Step::Continue(reply) = step else {
        panic!("{step:?}")
    };
    // Not the request's CmdSN, which would acknowledge commands that have not arrived.
    let session = window(Sn(500));
    assert_eq!(reply.response.exp_cmd_sn, session.exp_cmd_sn);
    assert_eq!(reply.response.max_cmd_sn, session.max_cmd_sn);
}
