//! Negotiation of keys between two ends, against RFC 7143 §13.

use proptest::prelude::*;
use wansan_iscsi::fault::Fault;
use wansan_iscsi::keys::{
    ConnectionParameters, DigestKind, KeyError, Negotiation, Role, SessionParameters, SessionType,
    Wanted,
};
use wansan_iscsi::wire::Stage;

const OPERATIONAL: Stage = Stage::OperationalNegotiation;

fn target(wanted: Wanted) -> Negotiation {
    Negotiation::new(Role::Target, wanted, true, SessionType::Normal)
}

fn initiator(wanted: Wanted) -> Negotiation {
    Negotiation::new(Role::Initiator, wanted, true, SessionType::Normal)
}

/// The answer of a target with preferences `wanted` to `offer`, as text with commas for NULs.
fn answer(wanted: Wanted, offer: &str) -> Result<String, KeyError> {
    let text = offer.replace(';', "\0");
    let answers = target(wanted).receive(OPERATIONAL, text.as_bytes())?;
    let answers = String::from_utf8(answers).expect("answers are text");
    Ok(answers.trim_end_matches('\0').replace('\0', ";"))
}

/// Every negotiated key of §13 with its result function: the answer of a target with known preferences.
#[test]
fn every_key_by_its_result_function() {
    let wanted = || Wanted {
        header_digest: vec![DigestKind::None, DigestKind::Crc32c],
        data_digest: vec![DigestKind::Crc32c],
        max_connections: 4,
        initial_r2t: false,
        immediate_data: true,
        max_recv_data_bytes: 65_536,
        max_burst_bytes: 1_048_576,
        first_burst_bytes: 131_072,
        time2wait_s: 5,
        time2retain_s: 10,
        max_outstanding_r2t: 8,
        data_pdu_in_order: false,
        data_sequence_in_order: false,
        error_recovery_level: 1,
    };
    let contrary = || Wanted {
        initial_r2t: true,
        immediate_data: false,
        data_pdu_in_order: true,
        data_sequence_in_order: true,
        ..wanted()
    };
    for (wanted, offer, expected) in [
        // §13.1 the first of the offer that the responder supports
        (wanted(), "HeaderDigest=CRC32C,None", "HeaderDigest=CRC32C"),
        (wanted(), "HeaderDigest=None,CRC32C", "HeaderDigest=None"),
        (
            wanted(),
            "HeaderDigest=Y-com.example.d,CRC32C",
            "HeaderDigest=CRC32C",
        ),
        (
            wanted(),
            "HeaderDigest=Y-com.example.d",
            "HeaderDigest=Reject",
        ),
        (wanted(), "DataDigest=None,CRC32C", "DataDigest=CRC32C"),
        (wanted(), "DataDigest=None", "DataDigest=Reject"),
        (wanted(), "DataDigest=", "DataDigest=Reject"),
        // §13.2 minimum
        (wanted(), "MaxConnections=1", "MaxConnections=1"),
        (wanted(), "MaxConnections=9", "MaxConnections=4"),
        (wanted(), "MaxConnections=0", "MaxConnections=Reject"),
        (wanted(), "MaxConnections=65536", "MaxConnections=Reject"),
        // §13.10 OR
        (wanted(), "InitialR2T=No", "InitialR2T=No"),
        (wanted(), "InitialR2T=Yes", "InitialR2T=Yes"),
        (contrary(), "InitialR2T=No", "InitialR2T=Yes"),
        (contrary(), "InitialR2T=Yes", "InitialR2T=Yes"),
        (wanted(), "InitialR2T=yes", "InitialR2T=Reject"),
        // §13.11 AND
        (wanted(), "ImmediateData=No", "ImmediateData=No"),
        (wanted(), "ImmediateData=Yes", "ImmediateData=Yes"),
        (contrary(), "ImmediateData=No", "ImmediateData=No"),
        (contrary(), "ImmediateData=Yes", "ImmediateData=No"),
        // §13.13, §13.14 minimum; the first burst never above the largest, in any order
        (wanted(), "MaxBurstLength=512", "MaxBurstLength=512"),
        (
            wanted(),
            "MaxBurstLength=16776192",
            "MaxBurstLength=1048576",
        ),
        (
            wanted(),
            "MaxBurstLength=0x100000",
            "MaxBurstLength=1048576",
        ),
        (wanted(), "MaxBurstLength=511", "MaxBurstLength=Reject"),
        (wanted(), "MaxBurstLength=16777216", "MaxBurstLength=Reject"),
        (wanted(), "FirstBurstLength=65536", "FirstBurstLength=65536"),
        (
            wanted(),
            "FirstBurstLength=262144",
            "FirstBurstLength=131072",
        ),
        (
            wanted(),
            "FirstBurstLength=262144;MaxBurstLength=65536",
            "MaxBurstLength=65536;FirstBurstLength=65536",
        ),
        // §13.15 maximum, §13.16 minimum
        (wanted(), "DefaultTime2Wait=2", "DefaultTime2Wait=5"),
        (wanted(), "DefaultTime2Wait=3600", "DefaultTime2Wait=3600"),
        (wanted(), "DefaultTime2Wait=3601", "DefaultTime2Wait=Reject"),
        (wanted(), "DefaultTime2Retain=0", "DefaultTime2Retain=0"),
        (wanted(), "DefaultTime2Retain=20", "DefaultTime2Retain=10"),
        // §13.17 minimum
        (wanted(), "MaxOutstandingR2T=1", "MaxOutstandingR2T=1"),
        (wanted(), "MaxOutstandingR2T=16", "MaxOutstandingR2T=8"),
        // §13.18, §13.19 OR
        (wanted(), "DataPDUInOrder=No", "DataPDUInOrder=No"),
        (wanted(), "DataPDUInOrder=Yes", "DataPDUInOrder=Yes"),
        (contrary(), "DataPDUInOrder=No", "DataPDUInOrder=Yes"),
        (wanted(), "DataSequenceInOrder=No", "DataSequenceInOrder=No"),
        (
            contrary(),
            "DataSequenceInOrder=No",
            "DataSequenceInOrder=Yes",
        ),
        // §13.20 minimum
        (wanted(), "ErrorRecoveryLevel=2", "ErrorRecoveryLevel=1"),
        (wanted(), "ErrorRecoveryLevel=0", "ErrorRecoveryLevel=0"),
        (
            wanted(),
            "ErrorRecoveryLevel=3",
            "ErrorRecoveryLevel=Reject",
        ),
        // §13.23 list, §13.24 minimum
        (
            wanted(),
            "TaskReporting=FastAbort,RFC3720",
            "TaskReporting=RFC3720",
        ),
        (wanted(), "TaskReporting=FastAbort", "TaskReporting=Reject"),
        (wanted(), "iSCSIProtocolLevel=2", "iSCSIProtocolLevel=1"),
        (wanted(), "iSCSIProtocolLevel=0", "iSCSIProtocolLevel=0"),
        (
            wanted(),
            "iSCSIProtocolLevel=32",
            "iSCSIProtocolLevel=Reject",
        ),
        // §13.25 SHOULD be Reject, must not be NotUnderstood
        (wanted(), "IFMarker=No", "IFMarker=Reject"),
        (wanted(), "OFMarker=Yes", "OFMarker=Reject"),
        (wanted(), "IFMarkInt=1~65535", "IFMarkInt=Reject"),
        (wanted(), "OFMarkInt=2048", "OFMarkInt=Reject"),
        // Declarations have no answer
        (wanted(), "MaxRecvDataSegmentLength=512", ""),
        (wanted(), "InitiatorAlias=host 1", ""),
        (wanted(), "X#NodeArchitecture=com.example.arch", ""),
        // §6.2 everything else
        (
            wanted(),
            "X-com.example.k=1",
            "X-com.example.k=NotUnderstood",
        ),
        (
            wanted(),
            "RDMAExtensions=Yes",
            "RDMAExtensions=NotUnderstood",
        ),
        (wanted(), "initialR2T=Yes", "initialR2T=NotUnderstood"),
        (wanted(), "X-com.example.k=NotUnderstood", ""),
    ] {
        assert_eq!(answer(wanted, offer).as_deref(), Ok(expected), "{offer}");
    }
}

/// §6.3 and §13: errors that end a login, and the side at fault.
#[test]
fn what_may_not_come() {
    for (offer, error) in [
        ("InitialR2T=No;InitialR2T=No", "InitialR2T was sent twice"),
        (
            "MaxRecvDataSegmentLength=512;MaxRecvDataSegmentLength=512",
            "was sent twice",
        ),
        (
            "MaxRecvDataSegmentLength=511",
            "is not a valid declaration (RFC 7143 §13.12)",
        ),
        (
            "SessionType=Other",
            "is not a valid declaration (RFC 7143 §13.21)",
        ),
        (
            "InitiatorName=",
            "is not a valid declaration (RFC 7143 §13.5)",
        ),
        ("TargetAlias=a", "TargetAlias was sent by the wrong end"),
        ("TargetPortalGroupTag=1", "was sent by the wrong end"),
        (
            "AuthMethod=None",
            "AuthMethod is not allowed in stage OperationalNegotiation",
        ),
        (
            "SendTargets=All",
            "SendTargets is not allowed in stage OperationalNegotiation",
        ),
    ] {
        let found = answer(Wanted::default(), offer).expect_err(offer);
        assert!(found.to_string().contains(error), "{offer}: {found}");
        assert_eq!(found.fault(), Fault::PeerMisbehaved, "{offer}");
    }
    let operational_in_security =
        target(Wanted::default()).receive(Stage::SecurityNegotiation, b"InitialR2T=No\0");
    assert!(matches!(
        operational_in_security,
        Err(KeyError::WrongStage { .. })
    ));
    let many = b"X-a=\0".repeat(257);
    assert_eq!(
        target(Wanted::default()).receive(OPERATIONAL, &many),
        Err(KeyError::TooManyPairs)
    );
}

#[test]
fn keys_without_meaning_in_discovery_are_irrelevant() {
    let offer = "InitialR2T=No;MaxBurstLength=512;TaskReporting=RFC3720;ErrorRecoveryLevel=0;\
                 HeaderDigest=None;SessionType=Discovery";
    assert_eq!(
        answer(Wanted::default(), offer).as_deref(),
        Ok(
            "HeaderDigest=None;InitialR2T=Irrelevant;MaxBurstLength=Irrelevant;\
            ErrorRecoveryLevel=0;TaskReporting=Irrelevant"
        )
    );
}

#[test]
fn leading_only_keys_are_rejected_on_further_connections() {
    let mut joining = Negotiation::new(Role::Target, Wanted::default(), false, SessionType::Normal);
    assert_eq!(
        joining.receive(OPERATIONAL, b"MaxBurstLength=512\0HeaderDigest=CRC32C\0"),
        Ok(b"HeaderDigest=CRC32C\0MaxBurstLength=Reject\0".to_vec())
    );
    let mut text = Vec::new();
    Negotiation::new(
        Role::Initiator,
        Wanted::default(),
        false,
        SessionType::Normal,
    )
    .open(OPERATIONAL, &mut text);
    assert_eq!(
        text,
        b"HeaderDigest=None,CRC32C\0DataDigest=None,CRC32C\0MaxRecvDataSegmentLength=262144\0"
    );
}

/// A responder must not choose what was not offered.
#[test]
fn impossible_answers_are_the_targets_fault() {
    let wanted = Wanted {
        header_digest: vec![DigestKind::None],
        time2wait_s: 2,
        ..Wanted::default()
    };
    for bad in [
        "HeaderDigest=CRC32C",
        "HeaderDigest=None,CRC32C",
        "MaxBurstLength=16777215",
        "MaxBurstLength=many",
        "ImmediateData=Maybe",
        "DefaultTime2Wait=1",
        "MaxOutstandingR2T=17",
    ] {
        let mut negotiation = initiator(wanted.clone());
        negotiation.open(OPERATIONAL, &mut Vec::new());
        let error = negotiation
            .receive(OPERATIONAL, bad.as_bytes())
            .expect_err(bad);
        assert!(
            matches!(error, KeyError::BadAnswer { .. }),
            "{bad}: {error}"
        );
    }
}

#[test]
fn refused_offers_leave_the_default_or_end_the_login() {
    let mut negotiation = initiator(Wanted::default());
    negotiation.open(OPERATIONAL, &mut Vec::new());
    let refusals =
        b"InitialR2T=NotUnderstood\0MaxBurstLength=Reject\0FirstBurstLength=Irrelevant\0";
    assert_eq!(negotiation.receive(OPERATIONAL, refusals), Ok(vec![]));
    assert_eq!(negotiation.finish(), Ok(()));
    let session = SessionParameters::in_force(&negotiation);
    assert!(session.initial_r2t);
    assert_eq!(
        (session.max_burst_bytes, session.first_burst_bytes),
        (262_144, 65_536)
    );

    let digests_only = Wanted {
        data_digest: vec![DigestKind::Crc32c],
        ..Wanted::default()
    };
    let mut negotiation = initiator(digests_only);
    negotiation.open(OPERATIONAL, &mut Vec::new());
    negotiation
        .receive(OPERATIONAL, b"DataDigest=Reject\0")
        .unwrap();
    let error = negotiation.finish().unwrap_err();
    assert_eq!(error.fault(), Fault::PeerIncompatible);
    assert_eq!(
        error.to_string(),
        "DataDigest was negotiated to None, but this end requires CRC32C; change either end's setting"
    );
}

fn digests() -> impl Strategy<Value = Vec<DigestKind>> {
    proptest::sample::subsequence(vec![DigestKind::None, DigestKind::Crc32c], 1..=2).prop_shuffle()
}

prop_compose! {
    fn wanted()(
        header_digest in digests(),
        data_digest in digests(),
        max_connections in 1_u16..,
        (initial_r2t, immediate_data) in any::<(bool, bool)>(),
        max_recv_data_bytes in 512_u32..1 << 24,
        (first_burst_bytes, max_burst_bytes) in (512_u32..1 << 24)
            .prop_flat_map(|max| (512..=max, Just(max))),
        (time2wait_s, time2retain_s) in (0_u16..=3600, 0_u16..=3600),
        max_outstanding_r2t in 1_u16..,
        (data_pdu_in_order, data_sequence_in_order) in any::<(bool, bool)>(),
        error_recovery_level in 0_u8..=2,
    ) -> Wanted {
        Wanted {
            header_digest, data_digest, max_connections, initial_r2t, immediate_data,
            max_recv_data_bytes, max_burst_bytes, first_burst_bytes, time2wait_s, time2retain_s,
            max_outstanding_r2t, data_pdu_in_order, data_sequence_in_order, error_recovery_level,
        }
    }
}

type Outcome = Result<(SessionParameters, ConnectionParameters), KeyError>;

fn outcome(negotiation: &Negotiation) -> Outcome {
    negotiation.finish().map(|()| {
        (
            SessionParameters::in_force(negotiation),
            ConnectionParameters::in_force(negotiation),
        )
    })
}

/// Both ends send all their keys; `reorder` may shuffle the initiator's first ones.
fn negotiate(
    mut initiator: Negotiation,
    mut target: Negotiation,
    reorder: impl Fn(Vec<u8>) -> Vec<u8>,
) -> (Outcome, Outcome) {
    let mut text = Vec::new();
    initiator.open(OPERATIONAL, &mut text);
    let mut text = reorder(text);
    for _ in 0..4 {
        let mut answers = target
            .receive(OPERATIONAL, &text)
            .expect("our own text is sound");
        target.open(OPERATIONAL, &mut answers);
        text = initiator
            .receive(OPERATIONAL, &answers)
            .expect("our own text is sound");
        if text.is_empty() {
            break;
        }
    }
    assert!(!initiator.awaits_answers() && !target.awaits_answers());
    (outcome(&initiator), outcome(&target))
}

proptest! {
    #[test]
    fn both_ends_come_to_the_same_result(ours in wanted(), theirs in wanted()) {
        let (at_initiator, at_target) =
            negotiate(initiator(ours.clone()), target(theirs.clone()), |text| text);
        let common = |a: &[DigestKind], b: &[DigestKind]| a.iter().any(|kind| b.contains(kind));
        let possible = common(&ours.header_digest, &theirs.header_digest)
            && common(&ours.data_digest, &theirs.data_digest);
        prop_assert_eq!(at_initiator.is_ok() && at_target.is_ok(), possible);
        if let (Ok((session, at_initiator)), Ok((session_at_target, at_target))) =
            (at_initiator, at_target)
        {
            prop_assert_eq!(session, session_at_target);
            prop_assert_eq!(at_initiator.header_digest, at_target.header_digest);
            prop_assert_eq!(at_initiator.data_digest, at_target.data_digest);
            prop_assert_eq!(at_initiator.max_send_data_bytes, theirs.max_recv_data_bytes);
            prop_assert_eq!(at_initiator.max_recv_data_bytes, ours.max_recv_data_bytes);
            prop_assert_eq!(at_target.max_send_data_bytes, ours.max_recv_data_bytes);
            prop_assert_eq!(at_target.max_recv_data_bytes, theirs.max_recv_data_bytes);
            prop_assert!(session.first_burst_bytes <= session.max_burst_bytes);
            prop_assert!(session.max_burst_bytes <= ours.max_burst_bytes.min(theirs.max_burst_bytes));
            prop_assert_eq!(session.time2wait_s, ours.time2wait_s.max(theirs.time2wait_s));
            prop_assert_eq!(session.time2retain_s, ours.time2retain_s.min(theirs.time2retain_s));
            prop_assert_eq!(session.initial_r2t, ours.initial_r2t || theirs.initial_r2t);
            prop_assert_eq!(session.immediate_data, ours.immediate_data && theirs.immediate_data);
            if session.error_recovery_level > 0 && session.data_sequence_in_order {
                prop_assert_eq!(session.max_outstanding_r2t, 1);
            }
        }
    }

    /// The order of pairs in a text does not matter.
    #[test]
    fn the_order_of_pairs_does_not_matter(
        ours in wanted(),
        theirs in wanted(),
        order in proptest::collection::vec(any::<u32>(), 64),
    ) {
        let shuffle = |text: Vec<u8>| {
            let mut pairs: Vec<_> = text.split_inclusive(|&byte| byte == 0).zip(&order).collect();
            pairs.sort_by_key(|(_, place)| **place);
            pairs.into_iter().flat_map(|(pair, _)| pair.to_vec()).collect()
        };
        prop_assert_eq!(
            negotiate(initiator(ours.clone()), target(theirs.clone()), |text| text),
            negotiate(initiator(ours), target(theirs), shuffle)
        );
    }

    /// A silent initiator gets an offer, where its silence would imply a value that the target does not support.
    #[test]
    fn a_target_asks_for_what_it_needs(theirs in wanted()) {
        let mut target = target(theirs.clone());
        let mut text = Vec::new();
        target.open(OPERATIONAL, &mut text);
        let mut plain = initiator(Wanted { data_digest: vec![DigestKind::None, DigestKind::Crc32c], ..theirs });
        let answers = plain.receive(OPERATIONAL, &text).expect("our own text is sound");
        prop_assert_eq!(target.receive(OPERATIONAL, &answers), Ok(vec![]));
        prop_assert_eq!(target.finish(), Ok(()));
        prop_assert_eq!(
            SessionParameters::in_force(&target),
            SessionParameters::in_force(&plain)
        );
    }

    #[test]
    fn random_text_is_answered_or_refused(
        role in prop_oneof![Just(Role::Initiator), Just(Role::Target)],
        opened in any::<bool>(),
        texts in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..200),
                "(HeaderDigest|InitialR2T|MaxBurstLength|FirstBurstLength|SessionType|IFMarker|TargetAddress|X-a)=(Yes|No|None|CRC32C|Reject|0x|0b|[0-9]{1,11}|Discovery)\0".prop_map(String::into_bytes),
            ],
            0..12,
        ),
    ) {
        let mut negotiation = Negotiation::new(role, Wanted::default(), true, SessionType::Normal);
        if opened {
            negotiation.open(OPERATIONAL, &mut Vec::new());
        }
        for text in texts {
            let _ = negotiation.receive(OPERATIONAL, &text);
        }
        let session = SessionParameters::in_force(&negotiation);
        prop_assert!((512..1 << 24).contains(&session.max_burst_bytes));
        prop_assert!(session.first_burst_bytes <= session.max_burst_bytes);
        prop_assert!(session.max_connections >= 1 && session.max_outstanding_r2t >= 1);
    }
}
