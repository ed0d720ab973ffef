//! Several connections in one session (RFC 7143 §4.2.1, §4.2.5.1, §6.3.1, §6.3.4).

use libtest_mimic::Trial;
use wansan_iscsi::wire::{
    DataIn, Header, LoginStatus, LogoutReason, LogoutResult, Stage, TaskManagementFunction,
    TaskManagementResult,
};
use wansan_peers::trial::{Stop, require};

use crate::case::{self, Case};
use crate::client::{Client, LEAD, Login, Pairs, distinct};
use crate::peer::Peer;
use crate::wire::{equal, expect_pdu};

const CASES: [Case; 24] = [
    Case::new(
        "a_connection_joins_by_isid_and_tsih",
        "§6.3.1: a login with the session's ISID and TSIH and a new CID adds a connection",
        joins,
    ),
    Case::new(
        "as_many_join_as_were_agreed",
        "§13.2: MaxConnections is the greatest number of connections that is accepted",
        eight,
    ),
    Case::new(
        "one_more_is_one_too_many",
        "§11.13.5: status 0206, too many connections on this session ID",
        too_many,
    )
    .tgtd_deviates("login status is Success"),
    Case::new(
        "logins_may_run_side_by_side",
        "§6.3: each connection has a login phase of its own",
        side_by_side,
    ),
    Case::new(
        "commands_are_delivered_in_order_over_all",
        "§4.2.2.1: commands are delivered in CmdSN order, \"regardless of their connection\"",
        in_order,
    ),
    Case::new(
        "exp_cmd_sn_is_the_sessions",
        "§4.2.2.1: ExpCmdSN and MaxCmdSN are of the session, on whichever connection they come",
        one_window,
    ),
    Case::new(
        "a_duplicate_on_another_connection_is_ignored",
        "§4.2.2.1: non-immediate duplicates in the window are ignored, on any connection",
        duplicate,
    ),
    Case::new(
        "stat_sn_is_the_connections",
        "§4.2.2.2: StatSN is per connection",
        own_stat_sn,
    ),
    Case::new(
        "a_read_comes_back_where_it_was_asked",
        "§4.2.5.1: data and status of a command \"MUST be sent on the same connection\" as the command",
        read_allegiance,
    ),
    Case::new(
        "a_write_is_asked_for_where_it_was_sent",
        "§4.2.5.1: R2T and Data-Out have the allegiance of their command's connection",
        write_allegiance,
    ),
    Case::new(
        "writes_of_all_connections_are_one_disk",
        "§4.2.1: the connections of a session are one I_T nexus",
        one_disk,
    ),
    Case::new(
        "an_immediate_request_passes_a_gap_of_another_connection",
        "§4.2.2.1: immediate requests do not wait for CmdSN order",
        immediate_passes,
    ),
    Case::new(
        "digests_are_the_connections",
        "§13.1: HeaderDigest and DataDigest have the scope of a connection",
        own_digests,
    ),
    Case::new(
        "segment_lengths_are_the_connections",
        "§13.12: MaxRecvDataSegmentLength has the scope of a connection",
        own_segments,
    ),
    Case::new(
        "a_connection_closes_another",
        "§11.14: CID names the connection to close, which need not be the one that asks",
        closes_another,
    )
    .tgtd_deviates("nothing came"),
    Case::new(
        "a_connection_closes_itself",
        "§11.14.1: reason 1 closes one connection, and the session goes on",
        closes_itself,
    ),
    Case::new(
        "closing_the_session_closes_all",
        "§11.14.1: reason 0 closes the session with all its connections",
        closes_all,
    )
    .tgtd_deviates("nothing came"),
    Case::new(
        "a_connection_that_is_not_there_is_not_found",
        "§11.15.1: response 1, CID not found",
        not_found,
    )
    .tgtd_deviates("response is Closed"),
    Case::new(
        "the_others_work_on_when_one_dies",
        "§7.14: after a connection failure the session lives while another connection does",
        one_dies,
    ),
    Case::new(
        "the_same_cid_reinstates_its_connection",
        "§6.3.4: a login with a CID in use ends the old connection and puts the new one in its place",
        reinstated,
    )
    .tgtd_deviates("nothing came"),
    Case::new(
        "another_isid_does_not_join",
        "§11.13.5: status 020a: ISID and TSIH together name no session",
        other_isid,
    ),
    Case::new(
        "another_initiator_does_not_join",
        "§4.4.3: the session is of the initiator that began it",
        other_initiator,
    ),
    Case::new(
        "a_function_reaches_tasks_of_all_connections",
        "§11.5.1: task management is of the session's tasks, whatever connection they are on",
        function_reaches,
    )
    .tgtd_deviates("function is TaskDoesNotExist"),
    Case::new(
        "a_reset_ends_tasks_of_all_connections",
        "§4.2.3.3: a function over several tasks affects those of all connections",
        reset_reaches,
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    case::trials("connections", &CASES)
}

const SEVERAL: Pairs<'static> = &[
    ("MaxConnections", "8"),
    ("InitialR2T", "Yes"),
    ("ImmediateData", "No"),
];

/// A session of two connections, and the place of the second.
fn two(peer: &Peer) -> Result<(Client, usize), Stop> {
    let mut client = Client::log_in(peer, SEVERAL)?;
    let second = client.join(2, &[])?;
    Ok((client, second))
}

fn joins(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    for place in [LEAD, second, second, LEAD] {
        let command = client.test_unit_ready();
        client.send(place, command, &[])?;
        client.good(place, command.task_tag)?;
    }
    Ok(())
}

fn eight(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, SEVERAL)?;
    for cid in 2..=8 {
        client.join(cid, &[])?;
    }
    let mut sent = Vec::new();
    for round in 0..32 {
        let command = client.test_unit_ready();
        client.send(round % 8, command, &[])?;
        sent.push((round % 8, command.task_tag));
    }
    for (place, tag) in sent {
        client.good(place, tag)?;
    }
    Ok(())
}

fn too_many(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[("MaxConnections", "2")])?;
    let second = client.join(2, &[])?;
    let mut third = client.joining(3)?;
    let answer = third.enter(&[])?;
    answer.refused(LoginStatus::TooManyConnections)?;
    client.ping(LEAD)?;
    client.ping(second)?;
    Ok(())
}

fn side_by_side(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, SEVERAL)?;
    let mut logins = [client.joining(2)?, client.joining(3)?];
    for login in &mut logins {
        let names = [&login.names()[..], &[("AuthMethod", "None")]].concat();
        login.request.csg = Stage::SecurityNegotiation;
        login.request.nsg = Some(Stage::OperationalNegotiation);
        login.tell(&names)?;
    }
    for mut login in logins {
        let first = login.hear()?.accepted()?;
        let last = login.lead_on(first)?;
        client
            .connections
            .extend(login.into_client(&last).connections);
    }
    for place in [2, 1, LEAD] {
        client.ping(place)?;
    }
    Ok(())
}

fn in_order(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let commands = [(); 4].map(|()| client.test_unit_ready());
    // The later ones first, each on another connection than its neighbours.
    for late in [3, 2, 1] {
        let place = if late % 2 == 0 { LEAD } else { second };
        client.send(place, commands[late], &[])?;
        let pong = client.ping(place)?;
        equal("ExpCmdSN", pong.exp_cmd_sn, commands[0].cmd_sn)?;
    }
    client.send(LEAD, commands[0], &[])?;
    for (place, number) in [(LEAD, 0), (LEAD, 2), (second, 1), (second, 3)] {
        client.good(place, commands[number].task_tag)?;
    }
    Ok(())
}

fn one_window(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    for place in [LEAD, second, LEAD] {
        let command = client.test_unit_ready();
        client.send(place, command, &[])?;
        client.good(place, command.task_tag)?;
        for other in [LEAD, second] {
            let pong = client.ping(other)?;
            equal("ExpCmdSN", pong.exp_cmd_sn, command.cmd_sn.next())?;
        }
    }
    Ok(())
}

fn duplicate(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let (missing, command) = (client.test_unit_ready(), client.test_unit_ready());
    client.send(LEAD, command, &[])?;
    client.ping(LEAD)?;
    client.send(second, command, &[])?;
    client.ping(second)?;
    client.send(LEAD, missing, &[])?;
    client.good(LEAD, missing.task_tag)?;
    client.good(LEAD, command.task_tag)?;
    client.ping(second)?;
    Ok(())
}

fn own_stat_sn(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let before = client.ping(second)?.stat_sn;
    for _ in 0..5 {
        client.ping(LEAD)?;
    }
    equal("StatSN", client.ping(second)?.stat_sn, before.next())
}

fn read_allegiance(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let (on_lead, on_second) = (client.read10(0, 32), client.read10(64, 32));
    client.send(LEAD, on_lead, &[])?;
    client.send(second, on_second, &[])?;
    let expected = |pdus: &[DataIn]| !pdus.is_empty();
    let (_, pdus) = client.data_of(second, on_second.task_tag)?;
    require(expected(&pdus), || "no data".to_owned())?;
    let (_, pdus) = client.data_of(LEAD, on_lead.task_tag)?;
    require(expected(&pdus), || "no data".to_owned())
}

fn write_allegiance(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let data = distinct(4096, 41);
    let (on_lead, on_second) = (client.write10(0, 8), client.write10(8, 8));
    client.send(LEAD, on_lead, &[])?;
    client.send(second, on_second, &[])?;
    client.serve_write(second, on_second.task_tag, &data)?;
    client.serve_write(LEAD, on_lead.task_tag, &data)?;
    client.holds(LEAD, 8, &data)?;
    client.holds(second, 0, &data)
}

fn one_disk(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    for round in 0..4 {
        let (one, other) = if round % 2 == 0 {
            (LEAD, second)
        } else {
            (second, LEAD)
        };
        let data = distinct(8192, u64::from(round));
        client.write(one, round * 4, &data)?;
        client.holds(other, round * 4, &data)?;
    }
    Ok(())
}

fn immediate_passes(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let (missing, held) = (client.test_unit_ready(), client.test_unit_ready());
    client.send(LEAD, held, &[])?;
    client.ping(second)?;
    client.ping(LEAD)?;
    client.send(second, missing, &[])?;
    client.good(second, missing.task_tag)?;
    client.good(LEAD, held.task_tag)?;
    Ok(())
}

fn own_digests(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, SEVERAL)?;
    let second = client.join(2, &[("HeaderDigest", "CRC32C"), ("DataDigest", "CRC32C")])?;
    let third = client.join(3, &[("HeaderDigest", "None"), ("DataDigest", "CRC32C")])?;
    let data = distinct(8192, 42);
    for place in [LEAD, second, third] {
        let lba = 32 * place as u32;
        client.write(place, lba, &data)?;
        client.holds(place, lba, &data)?;
    }
    Ok(())
}

fn own_segments(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, SEVERAL)?;
    let second = client.join(2, &[("MaxRecvDataSegmentLength", "1024")])?;
    let (_, long) = client.read(LEAD, 0, 16)?;
    let (_, short) = client.read(second, 0, 16)?;
    equal("Data-In PDUs of 8192 bytes", long.len(), 1)?;
    equal("Data-In PDUs of 1024 bytes", short.len(), 8)
}

fn closes_another(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let response = client.log_out(LEAD, LogoutReason::CloseConnection, 2)?;
    equal("response", response.response, LogoutResult::Closed)?;
    client.closed(second)?;
    client.settle()
}

fn closes_itself(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let response = client.log_out(second, LogoutReason::CloseConnection, 2)?;
    equal("response", response.response, LogoutResult::Closed)?;
    client.closed(second)?;
    client.settle()?;
    // Its place is free again.
    let again = client.join(2, &[])?;
    client.ping(again)?;
    Ok(())
}

fn closes_all(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let response = client.log_out(second, LogoutReason::CloseSession, 0)?;
    equal("response", response.response, LogoutResult::Closed)?;
    client.closed(second)?;
    client.closed(LEAD)
}

fn not_found(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let response = client.log_out(second, LogoutReason::CloseConnection, 9)?;
    equal("response", response.response, LogoutResult::CidNotFound)?;
    client.ping(LEAD)?;
    client.ping(second)?;
    Ok(())
}

fn one_dies(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    // A command that was never sent is lost with it: its CmdSN may come on another.
    let (missing, held) = (client.test_unit_ready(), client.test_unit_ready());
    client.send(LEAD, held, &[])?;
    client.connections[second].wire.drop_connection();
    client.send(LEAD, missing, &[])?;
    for command in [missing, held] {
        // The target may say meanwhile that it has lost a connection (§11.9.1).
        let mut received = client.receive(LEAD)?;
        if matches!(received.header, Header::AsyncMessage(_)) {
            received = client.receive(LEAD)?;
        }
        let (response, _) = expect_pdu!(received, ScsiResponse)?;
        equal("task", response.task_tag, command.task_tag)?;
    }
    Ok(())
}

fn reinstated(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let new = client.join(2, &[])?;
    client.closed(second)?;
    for place in [new, LEAD] {
        let command = client.test_unit_ready();
        client.send(place, command, &[])?;
        client.good(place, command.task_tag)?;
    }
    Ok(())
}

fn other_isid(peer: &Peer) -> Result<(), Stop> {
    let client = Client::log_in(peer, SEVERAL)?;
    let mut login = client.joining(2)?;
    login.request.isid[5] ^= 0x80;
    login.enter(&[])?.refused(LoginStatus::SessionDoesNotExist)
}

fn other_initiator(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, SEVERAL)?;
    let mut login: Login = client.joining(2)?;
    let names = [
        ("InitiatorName", "iqn.2026-11.net.example:another"),
        ("TargetName", peer.portal.target_name),
        ("AuthMethod", "None"),
    ];
    let (stage, next) = (Stage::SecurityNegotiation, Stage::OperationalNegotiation);
    let answer = login.ask_in(stage, Some(next), &names)?;
    equal("Status-Class", answer.response.status.class(), 2)?;
    client.ping(LEAD)?;
    Ok(())
}

fn function_reaches(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let write = client.write10(0, 8);
    client.send(second, write, &[])?;
    client.r2t(second, write.task_tag)?;
    let function = client.function(TaskManagementFunction::AbortTask, Some(&write));
    let outcome = client.manage(LEAD, function)?;
    equal("function", outcome, TaskManagementResult::Complete)?;
    client.ping(second)?;
    client.settle()
}

fn reset_reaches(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    for (place, lba) in [(LEAD, 0), (second, 8)] {
        let write = client.write10(lba, 8);
        client.send(place, write, &[])?;
        expect_pdu!(client.receive(place)?, R2t)?;
    }
    let function = client.function(TaskManagementFunction::LogicalUnitReset, None);
    let outcome = client.manage(LEAD, function)?;
    equal("function", outcome, TaskManagementResult::Complete)?;
    client.ping(second)?;
    client.settle()?;
    client.holds(second, 0, &[0; 8192])
}
