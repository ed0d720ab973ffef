//! The login phase (RFC 7143 §6.3, §11.12, §11.13).

use libtest_mimic::Trial;
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::wire::{LoginStatus, NopOut, Opcode, RESERVED_TAG, Stage};
use wansan_peers::trial::{Stop, require};
use wansan_trace::TaskTag;

use crate::case::{self, Case};
use crate::client::{Client, INITIATOR_NAME, LEAD, Login, text_of};
use crate::peer::Peer;
use crate::wire::{equal, opcode_byte};

const SECURITY: Stage = Stage::SecurityNegotiation;
const OPERATIONAL: Stage = Stage::OperationalNegotiation;
const FULL: Stage = Stage::FullFeaturePhase;

const CASES: [Case; 30] = [
    Case::new(
        "may_begin_with_the_operational_stage",
        "§6.3.1: the initiator \"MAY set the CSG so that the login phase starts in the operational stage\"",
        begins_operational,
    ),
    Case::new(
        "may_lead_from_security_through_operational",
        "§6.3.3: the stages follow each other, SecurityNegotiation to LoginOperationalNegotiation to FullFeaturePhase",
        every_stage,
    ),
    Case::new(
        "may_lead_from_security_to_full_feature",
        "§11.12.3: CSG 0 with NSG 3 is one of the valid transitions",
        security_to_full,
    )
    .tgtd_deviates("login status is InitiatorError"),
    Case::new(
        "stays_where_the_initiator_stays",
        "§11.13: a target \"MUST NOT set the T bit\" in answer to a request with the T bit 0 (§6.3)",
        stays,
    ),
    Case::new(
        "echoes_isid_task_tag_and_stage",
        "§11.13: ISID and Initiator Task Tag are those of the request; CSG is the stage of the request",
        echoes,
    ),
    Case::new(
        "version_zero_is_active",
        "§11.13.2: Version-active is the highest version that both ends support; RFC 7143 has 0x00",
        version,
    ),
    Case::new(
        "tsih_comes_with_the_last_response",
        "§11.13.3: the target MUST return a nonzero TSIH in the Login Final-Response of a new session",
        final_tsih,
    ),
    Case::new(
        "tsih_is_the_initiators_until_then",
        "§11.13.3: before the Final-Response, TSIH is \"set to the TSIH provided by the initiator\"",
        partial_tsih,
    ),
    Case::new(
        "stat_sn_counts_login_responses",
        "§11.13.4: the next response, \"including the next Login Response\", carries StatSN + 1",
        stat_sn,
    ),
    Case::new(
        "login_requests_take_no_cmd_sn",
        "§11.12.9: the first command after the login carries the CmdSN that the login carried",
        cmd_sn,
    ),
    Case::new(
        "a_higher_version_than_there_is_is_refused",
        "§11.13.5: status 0205, no version of the requested range is supported",
        unsupported_version,
    ),
    Case::new(
        "an_initiator_must_name_itself",
        "§6.3: InitiatorName MUST be in the first Login Request; §11.13.5: 0207, missing parameter",
        no_initiator_name,
    ),
    Case::new(
        "a_normal_session_must_name_its_target",
        "§6.3: TargetName MUST be in the first request unless it is for discovery; §11.13.5: 0207",
        no_target_name,
    ),
    Case::new(
        "an_unknown_target_is_not_found",
        "§11.13.5: status 0203, the requested target name does not exist",
        unknown_target,
    ),
    Case::new(
        "a_session_that_does_not_exist_cannot_be_joined",
        "§11.13.5: status 020a, attempt to add a connection to a nonexistent session",
        no_such_session,
    ),
    Case::new(
        "a_refused_login_is_closed",
        "§11.13.5: after a Status-Class other than 0 the login has failed, and the target closes the connection (§7.12)",
        refused_is_closed,
    ),
    Case::new(
        "only_login_requests_may_come",
        "§6.3: during login only Login PDUs are allowed; any other PDU ends the connection",
        no_other_pdu,
    ),
    Case::new(
        "a_reserved_stage_is_refused",
        "§11.12.3: CSG 2 is reserved; §11.13.5: class 2, initiator error",
        reserved_stage,
    ),
    Case::new(
        "stages_do_not_go_back",
        "§11.12.3: the next stage is always later; from the operational stage none leads to security",
        backwards,
    ),
    Case::new(
        "a_stage_is_not_jumped_to_unasked",
        "§6.3: a request in a stage that was not agreed to is a protocol error",
        jump,
    ),
    Case::new(
        "text_may_go_on_in_the_next_request",
        "§11.12.2: after C=1 the target answers with no text until the text is whole",
        continued,
    )
    .tgtd_deviates("login status is MissingParameter"),
    Case::new(
        "continued_text_does_not_leave_its_stage",
        "§11.12.2: a request with C=1 \"MUST have the T bit set to 0\"",
        continued_and_transit,
    )
    .tgtd_deviates("nothing came"),
    Case::new(
        "an_authentication_method_that_is_not_there_is_refused",
        "§11.13.5: class 2: the initiator could not be authenticated (0201), or the offer is refused",
        unknown_method,
    ),
    Case::new(
        "discovery_needs_no_target_name",
        "§6.3: TargetName may be missing when SessionType=Discovery; §4.3",
        discovery,
    ),
    Case::new(
        "a_login_reinstates_its_session",
        "§6.3.5: the same name and ISID with TSIH 0: the target MUST close the old session's connections",
        reinstatement,
    ),
    Case::new(
        "another_isid_is_another_session",
        "§4.4.3: ISID tells the sessions of one initiator port pair apart",
        two_sessions,
    ),
    Case::new(
        "another_initiator_may_have_the_same_isid",
        "§4.4.3: a nexus is named by the initiator's name and its ISID together",
        two_initiators,
    ),
    Case::new(
        "names_may_stand_anywhere_in_the_text",
        "§6.1: key=value pairs have no order of their own",
        names_last,
    ),
    Case::new(
        "a_broken_text_is_refused",
        "§6.1: a pair has a '='; §7.12: a login that cannot be read fails",
        broken_text,
    )
    .tgtd_deviates("nothing came"),
    Case::new(
        "cmd_sn_may_begin_anywhere",
        "§11.12.9: the leading login sets the session's first CmdSN, also close to its wrap",
        cmd_sn_near_wrap,
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    case::trials("login", &CASES)
}

fn begins_operational(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let first = login.begin(&[])?.accepted()?;
    let last = login.lead_on(first)?;
    login.into_client(&last).ping(LEAD)?;
    Ok(())
}

fn every_stage(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let names = [&login.names()[..], &[("AuthMethod", "None")]].concat();
    let first = login.ask_in(SECURITY, Some(OPERATIONAL), &names)?;
    let first = first.accepted()?;
    equal("AuthMethod", first.value("AuthMethod"), Some("None"))?;
    equal("NSG", first.response.nsg, Some(OPERATIONAL))?;
    let next = login.ask_in(OPERATIONAL, Some(FULL), &[("MaxBurstLength", "65536")])?;
    let last = login.lead_on(next.accepted()?)?;
    login.into_client(&last).ping(LEAD)?;
    Ok(())
}

fn security_to_full(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let names = [&login.names()[..], &[("AuthMethod", "None")]].concat();
    let mut last = login.ask_in(SECURITY, Some(FULL), &names)?.accepted()?;
    for _ in 0..2 {
        if last.response.nsg == Some(FULL) {
            break;
        }
        last = login.ask_in(SECURITY, Some(FULL), &[])?.accepted()?;
    }
    equal("NSG", last.response.nsg, Some(FULL))?;
    login.into_client(&last).ping(LEAD)?;
    Ok(())
}

fn stays(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let names = login.names();
    for stay in [&names[..], &[("MaxBurstLength", "65536")], &[]] {
        let answer = login.ask_in(OPERATIONAL, None, stay)?.accepted()?;
        equal("NSG", answer.response.nsg, None)?;
        equal("CSG", answer.response.csg, OPERATIONAL)?;
    }
    let last = login.ask_in(OPERATIONAL, Some(FULL), &[])?.accepted()?;
    equal("NSG", last.response.nsg, Some(FULL))
}

fn echoes(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    login.request.task_tag = TaskTag(0xfeed_beef);
    let names = [&login.names()[..], &[("AuthMethod", "None")]].concat();
    for (stage, text) in [(SECURITY, &names[..]), (OPERATIONAL, &[])] {
        let next = if stage == SECURITY { OPERATIONAL } else { FULL };
        let answer = login.ask_in(stage, Some(next), text)?.accepted()?;
        equal("ISID", answer.response.isid, login.request.isid)?;
        equal("task tag", answer.response.task_tag, TaskTag(0xfeed_beef))?;
        equal("CSG", answer.response.csg, stage)?;
    }
    Ok(())
}

fn version(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let answer = login.begin(&[])?.accepted()?;
    equal("Version-active", answer.response.version_active, 0)
}

fn final_tsih(peer: &Peer) -> Result<(), Stop> {
    let client = Login::connect(peer)?.finish(&[])?;
    require(client.tsih != 0, || "TSIH is 0".to_owned())
}

fn partial_tsih(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let names = login.names();
    let answer = login.ask_in(OPERATIONAL, None, &names)?.accepted()?;
    equal("TSIH", answer.response.tsih, 0)
}

fn stat_sn(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let names = login.names();
    let first = login.ask_in(OPERATIONAL, None, &names)?.accepted()?;
    let second = login.ask_in(OPERATIONAL, None, &[])?.accepted()?;
    let last = login.ask_in(OPERATIONAL, Some(FULL), &[])?.accepted()?;
    let first = first.response.stat_sn;
    equal("second StatSN", second.response.stat_sn, first.add(1))?;
    equal("third StatSN", last.response.stat_sn, first.add(2))?;
    // The client itself sees to it that the next response of any kind follows.
    login.into_client(&last).ping(LEAD)?;
    Ok(())
}

fn cmd_sn(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    login.request.cmd_sn = Sn(123);
    let names = login.names();
    let answer = login.ask_in(OPERATIONAL, None, &names)?.accepted()?;
    equal("ExpCmdSN", answer.response.exp_cmd_sn, Sn(123))?;
    let last = login.lead_on(answer)?;
    equal("ExpCmdSN", last.response.exp_cmd_sn, Sn(123))?;
    let mut client = login.into_client(&last);
    let command = client.test_unit_ready();
    equal("first CmdSN", command.cmd_sn, Sn(123))?;
    client.send(LEAD, command, &[])?;
    let response = client.response(LEAD, command.task_tag)?;
    equal("ExpCmdSN", response.exp_cmd_sn, Sn(124))
}

fn cmd_sn_near_wrap(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    login.request.cmd_sn = Sn(u32::MAX - 1);
    let mut client = login.finish(&[])?;
    client.settle()?;
    for _ in 0..4 {
        let command = client.test_unit_ready();
        client.send(LEAD, command, &[])?;
        let response = client.good(LEAD, command.task_tag)?;
        equal("ExpCmdSN", response.exp_cmd_sn, command.cmd_sn.next())?;
    }
    Ok(())
}

fn unsupported_version(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    (login.request.version_max, login.request.version_min) = (0x40, 0x40);
    login.begin(&[])?.refused(LoginStatus::UnsupportedVersion)
}

fn no_initiator_name(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let answer = login.ask(&[("TargetName", peer.portal.target_name)])?;
    answer.refused(LoginStatus::MissingParameter)
}

fn no_target_name(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let text = [("InitiatorName", INITIATOR_NAME), ("SessionType", "Normal")];
    login.ask(&text)?.refused(LoginStatus::MissingParameter)
}

fn unknown_target(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let text = [
        ("InitiatorName", INITIATOR_NAME),
        ("TargetName", "iqn.2026-11.net.example:nowhere"),
    ];
    login.ask(&text)?.refused(LoginStatus::NotFound)
}

fn no_such_session(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    login.request.tsih = 0x4321;
    let answer = login.enter(&[])?;
    answer.refused(LoginStatus::SessionDoesNotExist)
}

fn refused_is_closed(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let text = [
        ("InitiatorName", INITIATOR_NAME),
        ("TargetName", "iqn.2026-11.net.example:nowhere"),
    ];
    let answer = login.ask(&text)?;
    equal("Status-Class", answer.response.status.class(), 2)?;
    equal("T", answer.response.nsg, None)?;
    let more = login.wire.until_closed()?;
    require(more.is_empty(), || format!("more came: {more:?}"))
}

fn no_other_pdu(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let names = login.names();
    login.ask_in(OPERATIONAL, None, &names)?.accepted()?;
    let ping = NopOut {
        immediate: true,
        lun: peer.portal.lun,
        task_tag: TaskTag(1),
        transfer_tag: RESERVED_TAG,
        cmd_sn: Sn(1),
        exp_stat_sn: login.request.exp_stat_sn,
    };
    login.wire.send(ping, &[])?;
    // A Login Response that refuses may come before the end.
    for came in login.wire.until_closed()? {
        let is_login = came.bhs[0] & 0x3f == opcode_byte(Opcode::LoginResponse, false);
        require(is_login && came.bhs[36] != 0, || {
            format!("it was answered: {came:?}")
        })?;
    }
    Ok(())
}

/// Sends a request with byte 1 as given, and the names; fails unless the login fails.
fn flags_are_refused(peer: &Peer, flags: u8) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let names = login.names();
    let mut bytes = login.wire.encode(login.request, &text_of(&names));
    bytes[1] = flags;
    login.wire.send_bytes(&bytes)?;
    login_fails(login)
}

/// Fails unless the next Login Response refuses, or the connection ends without one.
fn login_fails(mut login: Login) -> Result<(), Stop> {
    for came in login.wire.until_closed()? {
        require(came.bhs[36] == 2, || {
            format!("Status-Class is {}, not 2 (initiator error)", came.bhs[36])
        })?;
    }
    Ok(())
}

fn reserved_stage(peer: &Peer) -> Result<(), Stop> {
    flags_are_refused(peer, 0x80 | 2 << 2 | 3)
}

fn backwards(peer: &Peer) -> Result<(), Stop> {
    flags_are_refused(peer, 0x80 | 1 << 2)
}

fn jump(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let names = [&login.names()[..], &[("AuthMethod", "None")]].concat();
    login.ask_in(SECURITY, None, &names)?.accepted()?;
    (login.request.csg, login.request.nsg) = (FULL, None);
    login.tell(&[])?;
    login_fails(login)
}

fn continued(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let text = text_of(&login.names());
    // In the middle of a value.
    let (head, tail) = text.split_at(20);
    (login.request.continue_, login.request.nsg) = (true, None);
    login.wire.send(login.request, head)?;
    let middle = login.hear()?.accepted()?;
    require(middle.text.is_empty(), || {
        format!("it answered {:?} to a part", middle.text)
    })?;
    equal("NSG", middle.response.nsg, None)?;
    (login.request.continue_, login.request.nsg) = (false, Some(FULL));
    login.wire.send(login.request, tail)?;
    let last = login.hear()?.accepted()?;
    equal("NSG", last.response.nsg, Some(FULL))
}

fn continued_and_transit(peer: &Peer) -> Result<(), Stop> {
    flags_are_refused(peer, 0x80 | 0x40 | 1 << 2 | 3)
}

fn unknown_method(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let names = [&login.names()[..], &[("AuthMethod", "Y-net.example.none")]].concat();
    let answer = login.ask_in(SECURITY, Some(OPERATIONAL), &names)?;
    let refused = answer.response.status.class() == 2;
    let rejected = answer.value("AuthMethod") == Some("Reject") && answer.response.nsg.is_none();
    require(refused || rejected, || format!("it went on: {answer:?}"))
}

fn discovery(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let text = [
        ("InitiatorName", INITIATOR_NAME),
        ("SessionType", "Discovery"),
    ];
    let answer = login.ask(&text)?.accepted()?;
    equal("NSG", answer.response.nsg, Some(FULL))
}

fn reinstatement(peer: &Peer) -> Result<(), Stop> {
    let mut old = Client::log_in(peer, &[])?;
    let mut login = Login::connect(peer)?;
    login.request.isid = old.isid;
    let mut new = login.finish(&[])?;
    old.closed(LEAD)?;
    new.settle()
}

fn two_sessions(peer: &Peer) -> Result<(), Stop> {
    let mut one = Client::log_in(peer, &[])?;
    let mut other = Client::log_in(peer, &[])?;
    require(one.tsih != other.tsih, || {
        format!("both have TSIH {}", one.tsih)
    })?;
    one.ping(LEAD)?;
    other.ping(LEAD)?;
    Ok(())
}

fn two_initiators(peer: &Peer) -> Result<(), Stop> {
    let mut one = Client::log_in(peer, &[])?;
    let mut login = Login::connect(peer)?;
    login.request.isid = one.isid;
    let text = [
        ("InitiatorName", "iqn.2026-11.net.example:another"),
        ("TargetName", peer.portal.target_name),
    ];
    let answer = login.ask(&text)?.accepted()?;
    let last = login.lead_on(answer)?;
    one.ping(LEAD)?;
    login.into_client(&last).ping(LEAD)?;
    Ok(())
}

fn names_last(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let mut text = login.names();
    text.insert(0, ("MaxBurstLength", "65536"));
    text.reverse();
    login.ask(&text)?.accepted()?;
    Ok(())
}

fn broken_text(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let mut text = text_of(&login.names());
    text.extend_from_slice(b"MaxBurstLength 65536\0");
    login.wire.send(login.request, &text)?;
    login_fails(login)
}
