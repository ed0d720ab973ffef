//! Task management functions (RFC 7143 §4.2.3, §11.5, §11.6).

use libtest_mimic::Trial;
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::wire::{
    Lun, R2t, ScsiCommand, ScsiStatus, TaskManagementFunction as Function,
    TaskManagementResult as Outcome,
};
use wansan_peers::trial::{Stop, require};
use wansan_trace::TaskTag;

use crate::case::{self, Case};
use crate::client::{Client, LEAD, Pairs, distinct};
use crate::peer::Peer;
use crate::wire::{equal, expect_pdu};

const CASES: [Case; 15] = [
    Case::new(
        "an_aborted_write_has_no_answer",
        "§11.5.1: ABORT TASK ends the task; its status is not sent once the function is complete",
        abort,
    )
    .tgtd_deviates("function is TaskDoesNotExist"),
    Case::new(
        "data_for_an_aborted_write_is_let_go",
        "§4.2.3.3, §11.5.1: what comes for a task that has ended moves nothing",
        late_data,
    )
    .tgtd_deviates("function is TaskDoesNotExist"),
    Case::new(
        "a_task_that_never_was_does_not_exist",
        "§11.6.1: response 1, task does not exist, for a RefCmdSN outside the window",
        unknown_task,
    ),
    Case::new(
        "a_command_that_is_still_to_come_counts_as_received",
        "§11.6.1: with RefCmdSN inside the window and before CmdSN, the target \"considers the CmdSN received\" and the function complete",
        abort_ahead,
    )
    .tgtd_deviates("function is TaskDoesNotExist"),
    Case::new(
        "abort_task_set_ends_all_of_the_unit",
        "§11.5.1: ABORT TASK SET aborts all tasks of this initiator at the unit",
        |peer| ends_all(peer, Function::AbortTaskSet),
    ),
    Case::new(
        "clear_task_set_ends_all_of_the_unit",
        "§11.5.1: CLEAR TASK SET aborts all tasks in the unit's task set",
        |peer| ends_all(peer, Function::ClearTaskSet),
    )
    .tgtd_deviates("function is NotSupported"),
    Case::new(
        "a_reset_unit_has_no_tasks",
        "§11.5.1: LOGICAL UNIT RESET (SAM-5 7.7) aborts all tasks of the unit",
        |peer| ends_all(peer, Function::LogicalUnitReset),
    ),
    Case::new(
        "a_reset_is_told_by_unit_attention",
        "SAM-5 5.14: the next command after LOGICAL UNIT RESET ends with UNIT ATTENTION",
        unit_attention,
    ),
    Case::new(
        "a_warm_reset_ends_all_tasks",
        "§11.5.1: TARGET WARM RESET resets all units of the target",
        |peer| ends_all(peer, Function::TargetWarmReset),
    )
    .tgtd_deviates("function is NotSupported"),
    Case::new(
        "tasks_after_the_function_are_not_affected",
        "§11.5.1: the function affects tasks \"with a CmdSN less than\" its own",
        later_tasks,
    ),
    Case::new(
        "a_unit_that_is_not_there_is_named",
        "§11.6.1: response 2, LUN does not exist",
        unknown_unit,
    )
    .tgtd_deviates("function is"),
    Case::new(
        "a_reserved_function_is_not_supported",
        "§11.6.1: response 5, task management function not supported",
        reserved_function,
    )
    .tgtd_deviates("function is"),
    Case::new(
        "reassignment_needs_level_two",
        "§11.6.1: response 4, task allegiance reassignment not supported",
        no_reassignment,
    )
    .tgtd_deviates("function is"),
    Case::new(
        "a_numbered_function_waits_for_its_turn",
        "§11.5: a function without the I bit is delivered in CmdSN order",
        numbered,
    ),
    Case::new(
        "abort_task_set_spares_other_initiators",
        "SAM-5 7.3: ABORT TASK SET ends the tasks of the I_T nexus that asked, and of no other",
        spares_others,
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    case::trials("task_management", &CASES)
}

const ASKED: Pairs<'static> = &[("InitialR2T", "Yes"), ("ImmediateData", "No")];

/// A write that waits for its data.
fn waiting(client: &mut Client, lba: u32) -> Result<(ScsiCommand, R2t), Stop> {
    let write = client.write10(lba, 8);
    client.send(LEAD, write, &[])?;
    let r2t = client.r2t(LEAD, write.task_tag)?;
    Ok((write, r2t))
}

fn abort(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let (write, _) = waiting(&mut client, 0)?;
    let function = client.function(Function::AbortTask, Some(&write));
    equal(
        "function",
        client.manage(LEAD, function)?,
        Outcome::Complete,
    )?;
    client.ping(LEAD)?;
    client.settle()
}

fn late_data(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let (write, r2t) = waiting(&mut client, 0)?;
    let function = client.function(Function::AbortTask, Some(&write));
    equal(
        "function",
        client.manage(LEAD, function)?,
        Outcome::Complete,
    )?;
    client.answer_r2t(LEAD, &r2t, &distinct(4096, 31))?;
    client.ping(LEAD)?;
    client.holds(LEAD, 0, &[0; 4096])
}

fn unknown_task(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let mut function = client.function(Function::AbortTask, None);
    function.referenced_task_tag = TaskTag(0xabcd);
    function.ref_cmd_sn = client.cmd_sn.sub(5);
    let outcome = client.manage(LEAD, function)?;
    equal("function", outcome, Outcome::TaskDoesNotExist)
}

fn abort_ahead(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let lost = client.test_unit_ready();
    let function = client.function(Function::AbortTask, Some(&lost));
    equal(
        "function",
        client.manage(LEAD, function)?,
        Outcome::Complete,
    )?;
    let pong = client.ping(LEAD)?;
    equal("ExpCmdSN", pong.exp_cmd_sn, lost.cmd_sn.next())?;
    client.settle()
}

fn ends_all(peer: &Peer, function: Function) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    for lba in [0, 8, 16] {
        waiting(&mut client, lba)?;
    }
    let function = client.function(function, None);
    equal(
        "function",
        client.manage(LEAD, function)?,
        Outcome::Complete,
    )?;
    client.ping(LEAD)?;
    client.settle()?;
    client.holds(LEAD, 0, &[0; 12_288])
}

fn unit_attention(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let function = client.function(Function::LogicalUnitReset, None);
    equal(
        "function",
        client.manage(LEAD, function)?,
        Outcome::Complete,
    )?;
    let command = client.test_unit_ready();
    client.send(LEAD, command, &[])?;
    let (response, received) = expect_pdu!(client.receive(LEAD)?, ScsiResponse)?;
    equal("status", response.status, ScsiStatus::CheckCondition)?;
    equal("sense key", received.data[2 + 2] & 0x0f, 6)?;
    equal("additional sense code", received.data[2 + 12], 0x29)?;
    client.settle()
}

fn later_tasks(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let (earlier, _) = waiting(&mut client, 0)?;
    let mut function = client.function(Function::AbortTaskSet, None);
    function.cmd_sn = client.cmd_sn;
    let data = distinct(4096, 32);
    let (later, r2t) = waiting(&mut client, 8)?;
    require(earlier.cmd_sn.lt(function.cmd_sn), || "order".to_owned())?;
    equal(
        "function",
        client.manage(LEAD, function)?,
        Outcome::Complete,
    )?;
    client.answer_r2t(LEAD, &r2t, &data)?;
    client.good(LEAD, later.task_tag)?;
    client.holds(LEAD, 8, &data)
}

fn unknown_unit(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let mut function = client.function(Function::LogicalUnitReset, None);
    function.lun = Lun::single_level(200).expect("200 has an encoding");
    let outcome = client.manage(LEAD, function)?;
    equal("function", outcome, Outcome::LunDoesNotExist)
}

fn reserved_function(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let function = client.function(Function::Other(77), None);
    equal(
        "function",
        client.manage(LEAD, function)?,
        Outcome::NotSupported,
    )
}

fn no_reassignment(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let (write, _) = waiting(&mut client, 0)?;
    let function = client.function(Function::TaskReassign, Some(&write));
    let outcome = client.manage(LEAD, function)?;
    equal("function", outcome, Outcome::ReassignNotSupported)
}

fn numbered(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let missing = client.test_unit_ready();
    let mut function = client.function(Function::AbortTaskSet, None);
    (function.immediate, function.cmd_sn) = (false, client.take_cmd_sn());
    client.send(LEAD, function, &[])?;
    let pong = client.ping(LEAD)?;
    equal("ExpCmdSN", pong.exp_cmd_sn, missing.cmd_sn)?;
    client.send(LEAD, missing, &[])?;
    client.good(LEAD, missing.task_tag)?;
    let (response, _) = expect_pdu!(client.receive(LEAD)?, TaskManagementResponse)?;
    equal("function", response.response, Outcome::Complete)?;
    let exp_cmd_sn: Sn = response.exp_cmd_sn;
    equal("ExpCmdSN", exp_cmd_sn, function.cmd_sn.next())
}

fn spares_others(peer: &Peer) -> Result<(), Stop> {
    let mut one = Client::log_in(peer, ASKED)?;
    let mut other = Client::log_in(peer, ASKED)?;
    let data = distinct(4096, 33);
    let (write, r2t) = waiting(&mut other, 0)?;
    waiting(&mut one, 8)?;
    let function = one.function(Function::AbortTaskSet, None);
    equal("function", one.manage(LEAD, function)?, Outcome::Complete)?;
    other.answer_r2t(LEAD, &r2t, &data)?;
    other.good(LEAD, write.task_tag)?;
    other.holds(LEAD, 0, &data)
}
