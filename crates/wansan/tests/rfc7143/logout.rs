//! Logout (RFC 7143 §11.14, §11.15).

use libtest_mimic::Trial;
use wansan_iscsi::wire::{Header, LogoutReason, LogoutResult, RejectReason};
use wansan_peers::trial::{Stop, require};

use crate::case::{self, Case};
use crate::client::{Client, LEAD, Login};
use crate::peer::Peer;
use crate::wire::{equal, expect_pdu};

const CASES: [Case; 9] = [
    Case::new(
        "closing_the_session_closes_its_connection",
        "§11.14: after the Logout Response, \"connection or session closed successfully\", nothing more comes",
        close_session,
    ),
    Case::new(
        "closing_the_connection_closes_it",
        "§11.14.1: reason 1, close the connection that CID names",
        close_connection,
    ),
    Case::new(
        "a_numbered_logout_is_a_command_among_others",
        "§11.14: a Logout Request without the I bit takes a CmdSN",
        numbered,
    ),
    Case::new(
        "an_unknown_cid_is_not_found",
        "§11.15.1: response 1, CID not found; the session goes on",
        unknown_cid,
    )
    .tgtd_deviates("response is Closed"),
    Case::new(
        "recovery_needs_level_two",
        "§11.15.1: response 2, connection recovery is not supported; at level 0 there is none",
        no_recovery,
    )
    .tgtd_deviates("response is Closed"),
    Case::new(
        "a_reserved_reason_is_rejected",
        "§11.14.1: reasons above 2 are reserved; §11.17.1: invalid PDU field",
        reserved_reason,
    )
    .tgtd_deviates("the peer closed the connection"),
    Case::new(
        "a_new_login_begins_a_new_session",
        "§11.14.1: after the close the same ISID names no session any more",
        anew,
    ),
    Case::new(
        "commands_before_the_logout_are_answered_first",
        "§11.14: the logout takes effect after the commands that came before it on its connection",
        answered_first,
    ),
    Case::new(
        "a_discovery_session_may_log_out",
        "§4.3: in a discovery session logout with reason \"close the session\" is allowed",
        discovery,
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    case::trials("logout", &CASES)
}

fn close_session(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let response = client.log_out(LEAD, LogoutReason::CloseSession, 0)?;
    equal("response", response.response, LogoutResult::Closed)?;
    client.closed(LEAD)
}

fn close_connection(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let cid = client.connections[LEAD].cid;
    let response = client.log_out(LEAD, LogoutReason::CloseConnection, cid)?;
    equal("response", response.response, LogoutResult::Closed)?;
    client.closed(LEAD)
}

fn numbered(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let mut request = client.logout_request(LogoutReason::CloseSession, 0);
    (request.immediate, request.cmd_sn) = (false, client.take_cmd_sn());
    client.send(LEAD, request, &[])?;
    let (response, _) = expect_pdu!(client.receive(LEAD)?, LogoutResponse)?;
    equal("ExpCmdSN", response.exp_cmd_sn, request.cmd_sn.next())?;
    client.closed(LEAD)
}

fn unknown_cid(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let response = client.log_out(LEAD, LogoutReason::CloseConnection, 77)?;
    equal("response", response.response, LogoutResult::CidNotFound)?;
    client.ping(LEAD)?;
    Ok(())
}

fn no_recovery(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[("ErrorRecoveryLevel", "0")])?;
    let cid = client.connections[LEAD].cid;
    let response = client.log_out(LEAD, LogoutReason::RemoveForRecovery, cid)?;
    let wanted = LogoutResult::RecoveryNotSupported;
    equal("response", response.response, wanted)
}

fn reserved_reason(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let request = client.logout_request(LogoutReason::CloseSession, 0);
    let mut bytes = client.encode(LEAD, request, &[]);
    bytes[1] = 0x80 | 0x55;
    client.connections[LEAD].wire.send_bytes(&bytes)?;
    let came = client.receive(LEAD)?;
    require(!matches!(came.header, Header::LogoutResponse(_)), || {
        "it is a logout, not LogoutResponse".to_owned()
    })?;
    let (reject, _) = expect_pdu!(came, Reject)?;
    equal("reason", reject.reason, RejectReason::InvalidPduField)
}

fn anew(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    client.log_out(LEAD, LogoutReason::CloseSession, 0)?;
    client.closed(LEAD)?;
    let mut login = Login::connect(peer)?;
    login.request.isid = client.isid;
    login.finish(&[])?.settle()
}

fn answered_first(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let commands = [(); 4].map(|()| client.test_unit_ready());
    for command in commands {
        client.send(LEAD, command, &[])?;
    }
    let mut request = client.logout_request(LogoutReason::CloseSession, 0);
    (request.immediate, request.cmd_sn) = (false, client.take_cmd_sn());
    client.send(LEAD, request, &[])?;
    for command in commands {
        client.good(LEAD, command.task_tag)?;
    }
    expect_pdu!(client.receive(LEAD)?, LogoutResponse)?;
    client.closed(LEAD)
}

fn discovery(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let text = [
        ("InitiatorName", crate::client::INITIATOR_NAME),
        ("SessionType", "Discovery"),
    ];
    let answer = login.ask(&text)?.accepted()?;
    let last = login.lead_on(answer)?;
    let mut client = login.into_client(&last);
    let response = client.log_out(LEAD, LogoutReason::CloseSession, 0)?;
    equal("response", response.response, LogoutResult::Closed)
}
