//! Recovery of connections: error recovery level 2 (RFC 7143 §6.3.4, §6.3.6, §7.2.2, §7.14).

use libtest_mimic::Trial;
use wansan_iscsi::wire::{
    LogoutReason, LogoutResult, ScsiCommand, TaskManagementFunction, TaskManagementRequest,
    TaskManagementResult as Outcome,
};
use wansan_peers::trial::{Stop, require};
use wansan_trace::TaskTag;

use crate::case::{self, Case};
use crate::client::{Client, LEAD, Login, Pairs, distinct};
use crate::peer::Peer;
use crate::wire::{equal, expect_pdu};

const LEVEL_0: &str = "tgtd has error recovery level 0 only";

const CASES: [Case; 11] = [
    Case::new(
        "level_two_is_agreed_to",
        "§13.20: the lower of both levels",
        agreed,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "a_write_moves_after_a_logout_for_recovery",
        "§11.14.1: reason 2 removes the connection; §7.2.2: then its tasks can be reassigned",
        after_logout,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "a_write_moves_after_its_connection_was_lost",
        "§7.14: after a connection failure, a logout for recovery comes on another connection",
        after_loss,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "a_write_moves_to_the_reinstated_connection",
        "§6.3.4: a login with the same CID is a logout for recovery as well",
        after_reinstatement,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "a_status_that_was_lost_comes_again",
        "§7.2.2: a task that has ended and was not acknowledged can be reassigned for its status",
        lost_status,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "a_read_begins_anew_on_its_new_connection",
        "§11.5.5: with ExpDataSN 0 all data comes again",
        |peer| lost_read(peer, 0),
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "a_read_goes_on_where_it_was",
        "§11.5.5: ExpDataSN says which Data-In is expected next",
        |peer| lost_read(peer, 3),
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "a_task_that_is_not_there_cannot_move",
        "§11.6.1: response 1, task does not exist",
        no_task,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "a_task_of_a_living_connection_stays",
        "§11.6.1: response 3, task still allegiant",
        still_allegiant,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "a_connection_that_never_was_cannot_be_recovered",
        "§11.15.1: response 1, CID not found",
        unknown_cid,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "a_session_goes_on_without_any_connection",
        "§6.3.6: within Time2Retain a login with the session's TSIH continues it",
        continued,
    )
    .tgtd_lacks(LEVEL_0),
];

pub(crate) fn trials() -> Vec<Trial> {
    case::trials("recovery_connection", &CASES)
}

const LEVEL_2: Pairs<'static> = &[
    ("ErrorRecoveryLevel", "2"),
    ("MaxConnections", "4"),
    ("DefaultTime2Wait", "0"),
    ("DefaultTime2Retain", "60"),
    ("InitialR2T", "Yes"),
    ("ImmediateData", "No"),
    ("MaxRecvDataSegmentLength", "1024"),
];
const SEGMENTS: Pairs<'static> = &[("MaxRecvDataSegmentLength", "1024")];
/// The CID of the second connection.
const SECOND: u16 = 2;

fn agreed(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let answer = login.begin(LEVEL_2)?.accepted()?;
    let value = answer.value("ErrorRecoveryLevel");
    equal("ErrorRecoveryLevel", value, Some("2"))
}

/// A session of two connections that passes over asynchronous messages, and the second's place.
fn two(peer: &Peer) -> Result<(Client, usize), Stop> {
    let mut client = Client::log_in(peer, LEVEL_2)?;
    let second = client.join(SECOND, SEGMENTS)?;
    client.passes_over_messages = true;
    Ok((client, second))
}

/// A write on the second connection that waits for its data.
fn waiting(client: &mut Client, second: usize) -> Result<ScsiCommand, Stop> {
    let write = client.write10(0, 8);
    client.send(second, write, &[])?;
    client.r2t(second, write.task_tag)?;
    Ok(write)
}

/// Asks to move the task.
fn reassignment(
    client: &mut Client,
    task: &ScsiCommand,
    exp_data_sn: u32,
) -> TaskManagementRequest {
    TaskManagementRequest {
        exp_data_sn,
        ..client.function(TaskManagementFunction::TaskReassign, Some(task))
    }
}

/// Removes the second connection for recovery.
fn remove(client: &mut Client) -> Result<(), Stop> {
    let response = client.log_out(LEAD, LogoutReason::RemoveForRecovery, SECOND)?;
    equal("response", response.response, LogoutResult::Closed)
}

/// Moves a write to the connection at `place` and lets it end there.
fn move_write(client: &mut Client, place: usize, write: &ScsiCommand) -> Result<(), Stop> {
    let data = distinct(4096, 61);
    let request = reassignment(client, write, 0);
    equal(
        "function",
        client.manage(place, request)?,
        Outcome::Complete,
    )?;
    let r2ts = client.serve_write(place, write.task_tag, &data)?;
    require(!r2ts.is_empty(), || "no data was asked for".to_owned())?;
    client.holds(LEAD, 0, &data)
}

fn after_logout(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let write = waiting(&mut client, second)?;
    remove(&mut client)?;
    client.closed(second)?;
    move_write(&mut client, LEAD, &write)
}

fn after_loss(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let write = waiting(&mut client, second)?;
    client.connections[second].wire.drop_connection();
    remove(&mut client)?;
    move_write(&mut client, LEAD, &write)
}

fn after_reinstatement(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let write = waiting(&mut client, second)?;
    let new = client.join(SECOND, SEGMENTS)?;
    move_write(&mut client, new, &write)
}

fn lost_status(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let command = client.test_unit_ready();
    client.send(second, command, &[])?;
    // The answer is on its way, and nobody will have read it.
    client.connections[second].wire.receive()?;
    client.connections[second].wire.drop_connection();
    remove(&mut client)?;
    let request = reassignment(&mut client, &command, 0);
    equal("function", client.manage(LEAD, request)?, Outcome::Complete)?;
    client.good(LEAD, command.task_tag)?;
    Ok(())
}

/// A read of eight PDUs whose connection is lost when `received` of them have come.
fn lost_read(peer: &Peer, received: u32) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let data = distinct(8192, 62);
    client.write(LEAD, 0, &data)?;
    let read = client.read10(0, 16);
    client.send(second, read, &[])?;
    for _ in 0..received {
        expect_pdu!(client.receive(second)?, DataIn)?;
    }
    // The target has the command, as one more has come; that one counts as lost.
    client.connections[second].wire.receive()?;
    client.connections[second].wire.drop_connection();
    remove(&mut client)?;
    let request = reassignment(&mut client, &read, received);
    equal("function", client.manage(LEAD, request)?, Outcome::Complete)?;
    for number in received..8 {
        let (pdu, came) = expect_pdu!(client.receive(LEAD)?, DataIn)?;
        equal("DataSN", pdu.data_sn, number)?;
        let from = 1024 * number as usize;
        equal("Buffer Offset", pdu.buffer_offset as usize, from)?;
        let is_same = came.data == data[from..from + 1024];
        equal("the data", is_same, true)?;
        if pdu.status.is_some() {
            equal("the last one", number, 7)?;
            return Ok(());
        }
    }
    client.good(LEAD, read.task_tag)?;
    Ok(())
}

fn no_task(peer: &Peer) -> Result<(), Stop> {
    let (mut client, _) = two(peer)?;
    let mut request = client.function(TaskManagementFunction::TaskReassign, None);
    request.referenced_task_tag = TaskTag(0xdead);
    let outcome = client.manage(LEAD, request)?;
    equal("function", outcome, Outcome::TaskDoesNotExist)
}

fn still_allegiant(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let write = waiting(&mut client, second)?;
    let request = reassignment(&mut client, &write, 0);
    let outcome = client.manage(LEAD, request)?;
    equal("function", outcome, Outcome::TaskStillAllegiant)
}

fn unknown_cid(peer: &Peer) -> Result<(), Stop> {
    let (mut client, _) = two(peer)?;
    let response = client.log_out(LEAD, LogoutReason::RemoveForRecovery, 99)?;
    equal("response", response.response, LogoutResult::CidNotFound)
}

fn continued(peer: &Peer) -> Result<(), Stop> {
    let (mut client, second) = two(peer)?;
    let write = waiting(&mut client, second)?;
    for place in [second, LEAD] {
        client.connections[place].wire.drop_connection();
    }
    // The CID of the lost leading connection: nothing but the TSIH leads to the session.
    let new = client.join(1, SEGMENTS)?;
    client.connections.swap(LEAD, new);
    remove(&mut client)?;
    move_write(&mut client, LEAD, &write)
}
