//! Recovery within a connection: error recovery level 1 (RFC 7143 §7.1.4, §7.2.1, §7.8, §7.9,
//! §11.16).

use libtest_mimic::Trial;
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::wire::{
    DataIn, Header, RESERVED_TAG, RejectReason, ScsiCommand, Snack, SnackKind,
    TaskManagementFunction, TaskManagementResult,
};
use wansan_peers::trial::{Stop, require};
use wansan_trace::TaskTag;

use crate::case::{self, Case};
use crate::client::{Client, LEAD, Login, Pairs, distinct};
use crate::peer::Peer;
use crate::wire::{Received, equal, expect_pdu};

const LEVEL_0: &str = "tgtd has error recovery level 0 only";

const CASES: [Case; 15] = [
    Case::new(
        "level_one_is_agreed_to",
        "§13.20: the lower of both levels",
        agreed,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "a_data_pdu_is_sent_again",
        "§11.16: Data SNACK: the Data-In PDUs of the run \"MUST\" come again as they were",
        one_pdu,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "all_data_from_one_pdu_on_is_sent_again",
        "§11.16.7: \"RunLength is 0\" asks for all from BegRun on",
        rest_of_data,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "data_that_was_never_sent_is_rejected",
        "§11.16: a SNACK that cannot be satisfied is rejected",
        never_sent,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "a_status_is_sent_again",
        "§11.16: Status SNACK: the response with that StatSN comes again",
        one_status,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "all_statuses_are_sent_again",
        "§11.16.7: with RunLength 0, all responses that are not acknowledged",
        all_statuses,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "an_acknowledged_status_is_gone",
        "§4.2.2.2: ExpStatSN acknowledges; §11.16: only what is not acknowledged can be asked for",
        acknowledged,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "an_r2t_is_sent_again",
        "§11.16: R2T SNACK: the R2Ts of the run come again, with their numbers",
        r2t_again,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "data_with_a_wrong_digest_is_asked_for_again",
        "§7.8: the target rejects the PDU, and asks for its data by a recovery R2T",
        wrong_data,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "a_gap_in_data_is_asked_for_again",
        "§7.9: a DataSN gap in Data-Out is recovered by R2Ts for what is missing",
        lost_data,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "a_command_with_a_wrong_digest_may_be_retried",
        "§7.8, §7.2.1: after the Reject the command comes again, with its CmdSN and its task tag",
        wrong_immediate_data,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "a_lost_command_may_be_retried",
        "§7.2.1: a retried command fills the gap in CmdSN that its loss has left",
        lost_command,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "a_retry_of_a_delivered_command_is_ignored",
        "§7.2.1: if the original has come, the target ignores the retry (§4.2.2.1)",
        needless_retry,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "data_is_cut_up_anew",
        "§11.16: R-Data SNACK: all data again, and a SCSI Response with the SNACK Tag",
        resegmented,
    )
    .tgtd_lacks(LEVEL_0),
    Case::new(
        "reassignment_needs_level_two",
        "§11.6.1: response 4, task allegiance reassignment not supported, below level 2",
        no_reassignment,
    )
    .tgtd_lacks(LEVEL_0),
];

pub(crate) fn trials() -> Vec<Trial> {
    case::trials("recovery_within", &CASES)
}

const LEVEL_1: Pairs<'static> = &[
    ("ErrorRecoveryLevel", "1"),
    ("HeaderDigest", "None"),
    ("DataDigest", "CRC32C"),
    ("InitialR2T", "Yes"),
    ("ImmediateData", "Yes"),
    ("MaxRecvDataSegmentLength", "1024"),
    ("MaxBurstLength", "8192"),
    ("FirstBurstLength", "8192"),
];

fn agreed(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let answer = login.begin(LEVEL_1)?.accepted()?;
    let value = answer.value("ErrorRecoveryLevel");
    equal("ErrorRecoveryLevel", value, Some("1"))
}

/// A SNACK of this kind for a run of the task.
fn ask_again(
    client: &mut Client,
    kind: SnackKind,
    task_tag: TaskTag,
    run: (u32, u32),
) -> Result<(), Stop> {
    let snack = Snack {
        kind,
        lun: client.lun,
        task_tag,
        transfer_tag: RESERVED_TAG,
        exp_stat_sn: Sn(0),
        beg_run: run.0,
        run_length: run.1,
    };
    client.send(LEAD, snack, &[])
}

/// Reads eight PDUs of 1 KiB, and takes the status as not received.
fn read_eight(client: &mut Client) -> Result<(TaskTag, Vec<u8>), Stop> {
    let data = distinct(8192, 51);
    client.write(LEAD, 0, &data)?;
    let read = client.read10(0, 16);
    client.send(LEAD, read, &[])?;
    let (read_data, pdus) = client.data_of(LEAD, read.task_tag)?;
    equal("data", read_data == data, true)?;
    equal("Data-In PDUs", pdus.len(), 8)?;
    forget_last(client);
    Ok((read.task_tag, data))
}

/// The last status counts as not received.
fn forget_last(client: &mut Client) {
    let connection = &mut client.connections[LEAD];
    connection.exp_stat_sn = connection.exp_stat_sn.sub(1);
}

/// The next PDU, which must be Data-In. It may come twice, so its StatSN is not looked at.
fn data_in(client: &mut Client) -> Result<(DataIn, Received), Stop> {
    expect_pdu!(client.connections[LEAD].wire.receive()?, DataIn)
}

fn one_pdu(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, LEVEL_1)?;
    let (tag, data) = read_eight(&mut client)?;
    ask_again(&mut client, SnackKind::DataOrR2t, tag, (3, 1))?;
    let (pdu, received) = data_in(&mut client)?;
    equal("task", pdu.task_tag, tag)?;
    equal("DataSN", pdu.data_sn, 3)?;
    equal("Buffer Offset", pdu.buffer_offset, 3072)?;
    equal("the data", received.data == data[3072..4096], true)
}

fn rest_of_data(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, LEVEL_1)?;
    let (tag, data) = read_eight(&mut client)?;
    ask_again(&mut client, SnackKind::DataOrR2t, tag, (5, 0))?;
    for number in 5..8 {
        let (pdu, received) = data_in(&mut client)?;
        equal("DataSN", pdu.data_sn, number)?;
        let from = 1024 * number as usize;
        let is_same = received.data == data[from..from + 1024];
        equal("the data", is_same, true)?;
    }
    Ok(())
}

fn never_sent(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, LEVEL_1)?;
    let (tag, _) = read_eight(&mut client)?;
    ask_again(&mut client, SnackKind::DataOrR2t, tag, (20, 1))?;
    let received = client.connections[LEAD].wire.receive()?;
    let (reject, _) = expect_pdu!(received, Reject)?;
    let reasons = [RejectReason::SnackReject, RejectReason::ProtocolError];
    require(reasons.contains(&reject.reason), || {
        format!("the reason is {:?}", reject.reason)
    })
}

fn one_status(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, LEVEL_1)?;
    let command = client.test_unit_ready();
    client.send(LEAD, command, &[])?;
    let first = client.good(LEAD, command.task_tag)?;
    forget_last(&mut client);
    let run = (first.stat_sn.0, 1);
    ask_again(&mut client, SnackKind::Status, TaskTag(RESERVED_TAG), run)?;
    // The client sees to it that it has the same StatSN.
    let again = client.good(LEAD, command.task_tag)?;
    equal("StatSN", again.stat_sn, first.stat_sn)
}

fn all_statuses(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, LEVEL_1)?;
    let from = client.connections[LEAD].exp_stat_sn;
    let commands = [(); 4].map(|()| client.test_unit_ready());
    for command in commands {
        client.send(LEAD, command, &[])?;
    }
    for command in commands {
        client.good(LEAD, command.task_tag)?;
    }
    client.connections[LEAD].exp_stat_sn = from;
    let (kind, none) = (SnackKind::Status, TaskTag(RESERVED_TAG));
    ask_again(&mut client, kind, none, (from.0, 0))?;
    for command in commands {
        client.good(LEAD, command.task_tag)?;
    }
    client.ping(LEAD)?;
    Ok(())
}

fn acknowledged(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, LEVEL_1)?;
    let command = client.test_unit_ready();
    client.send(LEAD, command, &[])?;
    let response = client.good(LEAD, command.task_tag)?;
    client.ping(LEAD)?;
    let run = (response.stat_sn.0, 1);
    ask_again(&mut client, SnackKind::Status, TaskTag(RESERVED_TAG), run)?;
    expect_pdu!(client.receive(LEAD)?, Reject)?;
    Ok(())
}

fn r2t_again(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, LEVEL_1)?;
    let data = distinct(4096, 52);
    let write = client.write10(0, 8);
    client.send(LEAD, write, &[])?;
    let first = client.r2t(LEAD, write.task_tag)?;
    ask_again(&mut client, SnackKind::DataOrR2t, write.task_tag, (0, 1))?;
    let again = client.r2t(LEAD, write.task_tag)?;
    equal("R2TSN", again.r2t_sn, first.r2t_sn)?;
    equal("tag", again.transfer_tag, first.transfer_tag)?;
    equal("Buffer Offset", again.buffer_offset, first.buffer_offset)?;
    client.answer_r2t(LEAD, &again, &data)?;
    client.good(LEAD, write.task_tag)?;
    client.holds(LEAD, 0, &data)
}

/// Encodes a PDU of the task with one bit of its data wrong, and sends it.
fn send_damaged(client: &mut Client, header: impl Into<Header>, data: &[u8]) -> Result<(), Stop> {
    let mut bytes = client.encode(LEAD, header, data);
    bytes[60] ^= 1;
    client.connections[LEAD].wire.send_bytes(&bytes)?;
    let (reject, _) = expect_pdu!(client.receive(LEAD)?, Reject)?;
    equal("reason", reject.reason, RejectReason::DataDigestError)
}

fn wrong_data(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, LEVEL_1)?;
    let data = distinct(4096, 53);
    let write = client.write10(0, 8);
    client.send(LEAD, write, &[])?;
    let r2t = client.r2t(LEAD, write.task_tag)?;
    let (pdu, from, to) = client.sequence(LEAD, &r2t)[0];
    send_damaged(&mut client, pdu, &data[from..to])?;
    let again = client.r2t(LEAD, write.task_tag)?;
    equal("R2TSN", again.r2t_sn, r2t.r2t_sn + 1)?;
    equal("Buffer Offset", again.buffer_offset as usize, from)?;
    client.answer_r2t(LEAD, &again, &data)?;
    client.serve_write(LEAD, write.task_tag, &data)?;
    client.holds(LEAD, 0, &data)
}

fn lost_data(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, LEVEL_1)?;
    client.connections[LEAD].max_send_bytes = 1024;
    let data = distinct(4096, 54);
    let write = client.write10(0, 8);
    client.send(LEAD, write, &[])?;
    let r2t = client.r2t(LEAD, write.task_tag)?;
    for (pdu, from, to) in client.sequence(LEAD, &r2t) {
        if pdu.data_sn != 1 {
            client.send(LEAD, pdu, &data[from..to])?;
        }
    }
    client.serve_write(LEAD, write.task_tag, &data)?;
    client.holds(LEAD, 0, &data)
}

fn wrong_immediate_data(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, LEVEL_1)?;
    let data = distinct(2048, 55);
    let write: ScsiCommand = client.write10(0, 4);
    send_damaged(&mut client, write, &data)?;
    let pong = client.ping(LEAD)?;
    equal("ExpCmdSN", pong.exp_cmd_sn, write.cmd_sn)?;
    client.send(LEAD, write, &data)?;
    client.good(LEAD, write.task_tag)?;
    client.holds(LEAD, 0, &data)
}

fn lost_command(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, LEVEL_1)?;
    let commands = [(); 3].map(|()| client.test_unit_ready());
    // The first is lost on its way.
    client.send(LEAD, commands[1], &[])?;
    client.send(LEAD, commands[2], &[])?;
    let pong = client.ping(LEAD)?;
    equal("ExpCmdSN", pong.exp_cmd_sn, commands[0].cmd_sn)?;
    client.send(LEAD, commands[0], &[])?;
    for command in commands {
        client.good(LEAD, command.task_tag)?;
    }
    Ok(())
}

fn needless_retry(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, LEVEL_1)?;
    let data = distinct(4096, 56);
    let write = client.write10(0, 8);
    client.send(LEAD, write, &[])?;
    let r2t = client.r2t(LEAD, write.task_tag)?;
    client.send(LEAD, write, &[])?;
    client.ping(LEAD)?;
    client.answer_r2t(LEAD, &r2t, &data)?;
    client.good(LEAD, write.task_tag)?;
    client.send(LEAD, write, &[])?;
    client.ping(LEAD)?;
    client.holds(LEAD, 0, &data)
}

fn resegmented(peer: &Peer) -> Result<(), Stop> {
    const SNACK_TAG: u32 = 0x0abc;
    let mut client = Client::log_in(peer, LEVEL_1)?;
    let (tag, data) = read_eight(&mut client)?;
    let snack = Snack {
        kind: SnackKind::ResegmentedData,
        lun: client.lun,
        task_tag: tag,
        transfer_tag: SNACK_TAG,
        exp_stat_sn: Sn(0),
        beg_run: 0,
        run_length: 0,
    };
    client.send(LEAD, snack, &[])?;
    let mut again = Vec::new();
    while again.len() < data.len() {
        let (pdu, received) = data_in(&mut client)?;
        equal("Buffer Offset", pdu.buffer_offset as usize, again.len())?;
        equal("a status with the data", pdu.status, None)?;
        again.extend_from_slice(&received.data);
    }
    equal("the data", again == data, true)?;
    let received = client.connections[LEAD].wire.receive()?;
    let (response, _) = expect_pdu!(received, ScsiResponse)?;
    equal("SNACK Tag", response.snack_tag, SNACK_TAG)
}

fn no_reassignment(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, LEVEL_1)?;
    let write = client.write10(0, 8);
    client.send(LEAD, write, &[])?;
    client.r2t(LEAD, write.task_tag)?;
    let function = client.function(TaskManagementFunction::TaskReassign, Some(&write));
    let outcome = client.manage(LEAD, function)?;
    equal(
        "function",
        outcome,
        TaskManagementResult::ReassignNotSupported,
    )
}
