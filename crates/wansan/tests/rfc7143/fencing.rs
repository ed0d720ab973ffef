//! What has been fenced off does not land: an answer that ends the tasks of another I_T nexus, or
//! takes its right to write away, comes when the stores have done with that nexus's commands.
//!
//! One initiator has a slow unit copied to a fast one, which takes two seconds, and falls silent.
//! Another one fences it off and then writes to the same blocks, which takes no time.

use libtest_mimic::Trial;
use wansan_iscsi::wire::{
    LogoutReason, LogoutResult, Lun, ScsiCommand, TaskManagementFunction as Function,
    TaskManagementResult as Outcome,
};
use wansan_peers::trial::Stop;

use crate::case::{self, Case};
use crate::client::{Client, LEAD};
use crate::peer::Peer;
use crate::slow_copy::{KEYS, NOT_SLOW, SlowCopy};
use crate::wire::equal;

const CASES: [Case; 10] = [
    Case::new(
        "preempt_and_abort_waits_for_the_stores",
        "SPC-4 5.13.11.5: the commands of preempted I_T nexuses are aborted before the status",
        |peer| preempted(peer, PREEMPT_AND_ABORT, |copy| copy.slow),
    )
    .tgtd_lacks(NOT_SLOW),
    Case::new(
        "preempt_waits_for_the_stores",
        "SPC-4 5.13.11.4: with the status the new reservation is established",
        |peer| preempted(peer, PREEMPT, |copy| copy.fast),
    )
    .tgtd_lacks(NOT_SLOW),
    Case::new(
        "reserve_waits_for_the_stores",
        "SPC-4 5.13.1: with the status the reservation is established",
        |peer| {
            fenced(peer, |victor, copy| {
                victor.lun = copy.fast;
                reserve_out(victor, REGISTER, 0, VICTOR_KEY)?;
                reserve_out(victor, RESERVE, VICTOR_KEY, 0)
            })
        },
    )
    .tgtd_lacks(NOT_SLOW),
    Case::new(
        "reserve_6_waits_for_the_stores",
        "SPC-2 5.5.1: with the status the unit is reserved",
        |peer| {
            fenced(peer, |victor, copy| {
                victor.lun = copy.fast;
                good(victor, &[0x16], &[])
            })
        },
    )
    .tgtd_lacks(NOT_SLOW),
    Case::new(
        "write_protection_waits_for_the_stores",
        "SBC-3 5.3 and SPC-4 7.5.8: with SWP set nothing is written",
        |peer| {
            fenced(peer, |victor, copy| {
                victor.lun = copy.fast;
                write_protect(victor, true)?;
                write_protect(victor, false)
            })
        },
    )
    .tgtd_lacks(NOT_SLOW),
    Case::new(
        "stopping_a_unit_waits_for_the_stores",
        "SBC-3 5.25: a stopped unit carries out no command that writes",
        |peer| {
            fenced(peer, |victor, copy| {
                victor.lun = copy.fast;
                good(victor, &[0x1b, 0, 0, 0, 0], &[])?;
                good(victor, &[0x1b, 0, 0, 0, 1], &[])
            })
        },
    )
    .tgtd_lacks(NOT_SLOW),
    Case::new(
        "logical_unit_reset_waits_for_the_stores",
        "SAM-5 7.7: all commands of the unit, of all I_T nexuses, are aborted",
        |peer| {
            fenced(peer, |victor, copy| {
                manage(victor, copy, Function::LogicalUnitReset)
            })
        },
    )
    .tgtd_lacks(NOT_SLOW),
    Case::new(
        "clear_task_set_waits_for_the_stores",
        "SAM-5 7.5: all commands of the task set, of all I_T nexuses, are aborted",
        |peer| {
            fenced(peer, |victor, copy| {
                manage(victor, copy, Function::ClearTaskSet)
            })
        },
    )
    .tgtd_lacks(NOT_SLOW),
    Case::new(
        "target_warm_reset_waits_for_the_stores",
        "RFC 7143 11.5.1: all units of the target are reset",
        |peer| {
            fenced(peer, |victor, copy| {
                manage(victor, copy, Function::TargetWarmReset)
            })
        },
    )
    .tgtd_lacks(NOT_SLOW),
    Case::new(
        "the_answer_to_a_logout_waits_for_the_stores",
        "RFC 7143 11.14: \"the target MUST terminate all pending commands\" before it answers",
        logged_out,
    )
    .tgtd_lacks(NOT_SLOW),
];

pub(crate) fn trials() -> Vec<Trial> {
    case::trials("fencing", &CASES)
}

const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const PREEMPT: u8 = 4;
const PREEMPT_AND_ABORT: u8 = 5;

const VICTIM_KEY: u64 = 0xb;
const VICTOR_KEY: u64 = 0xa;

/// Fences off a copy of another initiator with `fence`.
fn fenced(peer: &Peer, fence: fn(&mut Client, SlowCopy) -> Result<(), Stop>) -> Result<(), Stop> {
    let mut victim = Client::log_in(peer, KEYS)?;
    let mut victor = Client::log_in(peer, KEYS)?;
    let copy = SlowCopy::start(&mut victim)?;
    fence(&mut victor, copy)?;
    copy.lands_before_writes_of(&mut victor)
}

/// Takes the reservation of `unit` from the initiator that copies.
fn preempted(peer: &Peer, action: u8, unit: fn(SlowCopy) -> Lun) -> Result<(), Stop> {
    let mut victim = Client::log_in(peer, KEYS)?;
    let mut victor = Client::log_in(peer, KEYS)?;
    let units = SlowCopy::units(&victim);
    for (client, key) in [(&mut victor, VICTOR_KEY), (&mut victim, VICTIM_KEY)] {
        client.lun = unit(units);
        reserve_out(client, REGISTER, 0, key)?;
    }
    reserve_out(&mut victim, RESERVE, VICTIM_KEY, 0)?;
    victim.lun = units.fast;
    let copy = SlowCopy::start(&mut victim)?;
    reserve_out(&mut victor, action, VICTOR_KEY, VICTIM_KEY)?;
    copy.lands_before_writes_of(&mut victor)
}

fn manage(victor: &mut Client, copy: SlowCopy, function: Function) -> Result<(), Stop> {
    victor.lun = copy.slow;
    let function = victor.function(function, None);
    let outcome = victor.manage(LEAD, function)?;
    equal("function", outcome, Outcome::Complete)
}

fn logged_out(peer: &Peer) -> Result<(), Stop> {
    let mut victim = Client::log_in(peer, KEYS)?;
    let mut other = Client::log_in(peer, KEYS)?;
    let copy = SlowCopy::start(&mut victim)?;
    let response = victim.log_out(LEAD, LogoutReason::CloseSession, 0)?;
    equal("response", response.response, LogoutResult::Closed)?;
    copy.lands_before_writes_of(&mut other)
}

/// PERSISTENT RESERVE OUT with a reservation for writing, exclusively.
fn reserve_out(client: &mut Client, action: u8, key: u64, action_key: u64) -> Result<(), Stop> {
    const WRITE_EXCLUSIVE: u8 = 1;
    const LIST_BYTES: u8 = 24;
    let mut list = [0; LIST_BYTES as usize];
    list[..8].copy_from_slice(&key.to_be_bytes());
    list[8..16].copy_from_slice(&action_key.to_be_bytes());
    let cdb = [0x5f, action, WRITE_EXCLUSIVE, 0, 0, 0, 0, 0, LIST_BYTES];
    good(client, &cdb, &list)
}

/// MODE SELECT (6) of the Control page with or without SWP.
fn write_protect(client: &mut Client, protected: bool) -> Result<(), Stop> {
    let mut list = [0; 16];
    list[4..6].copy_from_slice(&[0x0a, 0x0a]);
    list[7] = 0x10;
    list[8] = if protected { 0x08 } else { 0 };
    good(client, &[0x15, 0x10, 0, 0, 16], &list)
}

/// Carries out a command with this Data-Out, which must end well.
fn good(client: &mut Client, cdb: &[u8], data: &[u8]) -> Result<(), Stop> {
    let mut padded = [0; 16];
    padded[..cdb.len()].copy_from_slice(cdb);
    let command = ScsiCommand {
        write: !data.is_empty(),
        expected_data_transfer_length: data.len() as u32,
        ..client.command(padded)
    };
    client.send(LEAD, command, data)?;
    client.good(LEAD, command.task_tag)?;
    Ok(())
}
