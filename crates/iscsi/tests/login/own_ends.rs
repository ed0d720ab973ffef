//! wansan's initiator logs in to wansan's target.

use wansan_iscsi::keys::{
    ConnectionParameters, DigestKind, SessionParameters, SessionType, Wanted,
};
use wansan_iscsi::login::{
    Accepted, Established, InitiatorLogin, InitiatorLoginError, InitiatorSettings, Next, Step,
    TargetLogin,
};
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::text::send_targets::TargetAddress;
use wansan_iscsi::wire::LoginStatus;
use wansan_iscsi::wire::Stage::SecurityNegotiation as Security;
use wansan_trace::TaskTag;

use super::ends::{INITIATOR, ISID, MOVED, Registry, TARGET, settings, window};

/// Runs a login to its end; returns both ends' results and the number of round trips.
pub(crate) fn log_in(
    settings: InitiatorSettings,
    wanted: Wanted,
    registry: &mut Registry,
) -> (Next, Step, u32) {
    let mut initiator = InitiatorLogin::new(settings).expect("sound settings");
    let mut target = TargetLogin::new(wanted);
    let mut sent = initiator.start();
    for round_trips in 1.. {
        let step = target.handle(&sent.request, &sent.data, registry);
        let (Step::Continue(reply) | Step::Done(reply, _) | Step::Failed(reply, _)) = &step;
        assert_eq!(reply.response.task_tag, TaskTag(9));
        match initiator.handle(&reply.response, &reply.data) {
            Next::Send(next) => sent = next,
            next => return (next, step, round_trips),
        }
    }
    unreachable!("a login ends");
}

pub(crate) fn established(next: Next, step: Step) -> (Established, Accepted) {
    match (next, step) {
        (Next::Done(initiator), Step::Done(_, target)) => (*initiator, *target),
        other => panic!("login failed: {other:?}"),
    }
}

#[test]
fn a_login_takes_one_round_trip() {
    let (next, step, round_trips) = log_in(
        settings(Wanted::default()),
        Wanted::default(),
        &mut Registry::default(),
    );
    assert_eq!(round_trips, 1);
    let (initiator, target) = established(next, step);
    assert_eq!(target.initiator_name, INITIATOR);
    assert_eq!(target.initiator_alias.as_deref(), Some("host 1"));
    assert_eq!(target.target_name.as_deref(), Some(TARGET));
    assert_eq!((target.isid, target.tsih, target.cid), (ISID, 1, 3));
    assert_eq!(target.session_type, SessionType::Normal);
    assert!(!target.joined);
    assert_eq!(target.window, window(Sn(u32::MAX)));
    assert_eq!(initiator.tsih, 1);
    assert_eq!(initiator.portal_group_tag, Some(7));
    assert_eq!(initiator.target_alias.as_deref(), Some("Disk 1"));
    assert_eq!(initiator.exp_stat_sn, target.stat_sn);
    assert_eq!(
        (initiator.exp_cmd_sn, initiator.max_cmd_sn),
        (Sn(u32::MAX), Sn(62))
    );
    assert_eq!(initiator.session, target.session);
    // Values for long paths take effect between wansan's own ends.
    assert_eq!(
        initiator.session,
        SessionParameters {
            max_connections: 1,
            initial_r2t: false,
            immediate_data: true,
            max_burst_bytes: 1_048_576,
            first_burst_bytes: 262_144,
            time2wait_s: 0,
            time2retain_s: 20,
            max_outstanding_r2t: 16,
            data_pdu_in_order: true,
            data_sequence_in_order: true,
            error_recovery_level: 0,
        }
    );
    assert_eq!(
        initiator.connection,
        ConnectionParameters {
            header_digest: false,
            data_digest: false,
            max_send_data_bytes: 262_144,
            max_recv_data_bytes: 262_144,
        }
    );
}

#[test]
fn every_combination_of_digests_r2t_immediate_data_and_bursts() {
    use DigestKind::{Crc32c, None as Off};
    let switches = [false, true];
    for header in [[Off, Crc32c], [Crc32c, Off]] {
        for data in [[Off, Crc32c], [Crc32c, Off]] {
            for bits in 0..16 {
                let bit = |n: u32| switches[(bits >> n & 1) as usize];
                for bursts in [(512, 512), (65_536, 262_144), (262_144, 16_776_192)] {
                    for target_bursts in [(4096, 8192), (262_144, 1_048_576)] {
                        let side = |r2t, immediate, (first, max)| Wanted {
                            header_digest: header.to_vec(),
                            data_digest: data.to_vec(),
                            initial_r2t: r2t,
                            immediate_data: immediate,
                            first_burst_bytes: first,
                            max_burst_bytes: max,
                            ..Wanted::default()
                        };
                        let (next, step, round_trips) = log_in(
                            settings(side(bit(0), bit(1), bursts)),
                            side(bit(2), bit(3), target_bursts),
                            &mut Registry::default(),
                        );
                        let (initiator, target) = established(next, step);
                        assert_eq!(round_trips, 1);
                        assert_eq!(initiator.session, target.session);
                        assert_eq!(initiator.connection, target.connection);
                        assert_eq!(initiator.connection.header_digest, header[0] == Crc32c);
                        assert_eq!(initiator.connection.data_digest, data[0] == Crc32c);
                        assert_eq!(initiator.session.initial_r2t, bit(0) || bit(2));
                        assert_eq!(initiator.session.immediate_data, bit(1) && bit(3));
                        let least = (bursts.0.min(target_bursts.0), bursts.1.min(target_bursts.1));
                        assert_eq!(initiator.session.first_burst_bytes, least.0);
                        assert_eq!(initiator.session.max_burst_bytes, least.1);
                    }
                }
            }
        }
    }
}

#[test]
fn a_login_may_begin_in_the_security_stage() {
    let from_security = InitiatorSettings {
        begins_in: Security,
        ..settings(Wanted::default())
    };
    let (next, step, round_trips) =
        log_in(from_security, Wanted::default(), &mut Registry::default());
    assert_eq!(round_trips, 2);
    let (initiator, target) = established(next, step);
    assert_eq!(initiator.session, target.session);
    assert_eq!(initiator.session.max_outstanding_r2t, 16);
    assert_eq!(initiator.portal_group_tag, Some(7));
}

#[test]
fn discovery_sessions_need_no_target() {
    let discovery = InitiatorSettings {
        target_name: None,
        ..settings(Wanted::default())
    };
    let (next, step, round_trips) = log_in(discovery, Wanted::default(), &mut Registry::default());
    assert_eq!(round_trips, 1);
    let (initiator, target) = established(next, step);
    assert_eq!(initiator.session_type, SessionType::Discovery);
    assert_eq!(target.session_type, SessionType::Discovery);
    assert_eq!(
        (target.target_name, initiator.portal_group_tag),
        (None, None)
    );
    assert_eq!(initiator.session, target.session);
    assert_eq!(initiator.session.max_connections, 1);
}

#[test]
fn a_second_connection_joins_the_session() {
    let mut registry = Registry::default();
    let wanted = Wanted {
        max_connections: 2,
        max_outstanding_r2t: 4,
        ..Wanted::default()
    };
    let (next, step, _) = log_in(settings(wanted.clone()), wanted.clone(), &mut registry);
    let (first, _) = established(next, step);

    let join = |tsih, cid| InitiatorSettings {
        joins: Some((tsih, first.session)),
        cid,
        cmd_sn: Sn(510),
        wanted: Wanted {
            data_digest: vec![DigestKind::Crc32c],
            ..Wanted::default()
        },
        ..settings(Wanted::default())
    };
    let (next, step, round_trips) = log_in(join(first.tsih, 4), wanted.clone(), &mut registry);
    assert_eq!(round_trips, 1);
    let (second, accepted) = established(next, step);
    assert!(accepted.joined);
    assert_eq!((accepted.tsih, accepted.cid), (first.tsih, 4));
    // The session's parameters are the leading connection's, the connection's are its own.
    assert_eq!(
        (second.session, accepted.session),
        (first.session, first.session)
    );
    assert!(second.connection.data_digest && accepted.connection.data_digest);
    // ExpCmdSN is the session's, not the CmdSN of the login.
    assert_eq!(second.exp_cmd_sn, Sn(500));

    for (tsih, status) in [
        (first.tsih, LoginStatus::TooManyConnections),
        (77, LoginStatus::SessionDoesNotExist),
    ] {
        let (next, _, _) = log_in(join(tsih, 5), wanted.clone(), &mut registry);
        assert_eq!(next, Next::Failed(InitiatorLoginError::Refused { status }));
    }
}

#[test]
fn a_target_that_has_moved_says_where() {
    let moved = InitiatorSettings {
        target_name: Some(MOVED.to_owned()),
        ..settings(Wanted::default())
    };
    let (next, step, _) = log_in(moved, Wanted::default(), &mut Registry::default());
    // §13.8: without the portal group tag.
    let address = TargetAddress::parse("10.0.0.9:3261").expect("an address");
    assert_eq!(
        next,
        Next::Redirect {
            permanently: true,
            addresses: vec![address]
        }
    );
    assert!(matches!(step, Step::Failed(reply, _)
        if reply.response.status == LoginStatus::TargetMovedPermanently));
}
