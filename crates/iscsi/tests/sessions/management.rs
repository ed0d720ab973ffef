//! Task management (RFC 7143 §11.5), ping and logout.

use wansan_iscsi::initiator::{Event, TaskError, Transfer};
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::scsi::{AdditionalSense, MediumOperation, Sense, cdb};
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::target::{Close, Work};
use wansan_iscsi::wire::{
    BHS_BYTES, LogoutReason, LogoutRequest, Lun, Opcode, ScsiCommand, ScsiStatus, TaskAttribute,
    TaskManagementFunction, TaskManagementResult, Transmitter,
};
use wansan_trace::TaskTag;

use super::pair::{Pair, TARGET, copy};

pub(crate) fn pair() -> Pair {
    Pair::new(Wanted::default(), Wanted::default(), 16, 11)
}

pub(crate) fn manage(pair: &mut Pair, function: TaskManagementFunction, lun: u16) {
    let now = pair.now();
    let lun = Lun::single_level(lun).unwrap();
    pair.initiator
        .manage(function, lun, None, now, &mut pair.trace)
        .unwrap();
}

fn result(pair: &mut Pair) -> TaskManagementResult {
    match pair.initiator.poll_event() {
        Some(Event::Managed { result, .. }) => result,
        other => panic!("{other:?} instead of an answer"),
    }
}

#[test]
fn an_abort_waits_for_the_store_and_frees_the_slot() {
    let mut pair = pair();
    pair.hold_store = true;
    pair.read(0, 1, 1);
    pair.read(1, 1, 2);
    assert!(pair.settle().is_empty());
    let victim = match &pair.held[0] {
        wansan_iscsi::target::Work::Read { task, .. } => *task,
        other => panic!("{other:?}"),
    };
    let now = pair.now();
    let lun = Lun::single_level(0).unwrap();
    let function = TaskManagementFunction::AbortTask;
    pair.initiator
        .manage(function, lun, Some(victim), now, &mut pair.trace)
        .unwrap();
    assert!(
        pair.settle().is_empty(),
        "the store still works on the task"
    );
    assert_eq!(pair.initiator.poll_event(), None);
    let work = pair.held.remove(0);
    pair.answer(work);
    let done = pair.settle();
    assert_eq!(done.len(), 1);
    assert_eq!(
        (done[0].user, done[0].outcome.clone()),
        (1, Err(TaskError::Aborted))
    );
    assert_eq!(result(&mut pair), TaskManagementResult::Complete);
    let work = pair.held.remove(0);
    pair.answer(work);
    assert_eq!(pair.settle_good().len(), 1);
    for n in 0..20 {
        pair.read(n, 1, n);
    }
    pair.settle();
    assert_eq!(pair.held.len(), 16, "all of the window is free again");
}

#[test]
fn unknown_tasks_units_and_functions_are_told_apart() {
    let mut pair = pair();
    let cases = [
        (
            TaskManagementFunction::AbortTask,
            0,
            TaskManagementResult::TaskDoesNotExist,
        ),
        (
            TaskManagementFunction::AbortTaskSet,
            5,
            TaskManagementResult::LunDoesNotExist,
        ),
        (
            TaskManagementFunction::AbortTaskSet,
            0,
            TaskManagementResult::Complete,
        ),
        (
            TaskManagementFunction::TaskReassign,
            0,
            TaskManagementResult::ReassignNotSupported,
        ),
        (
            TaskManagementFunction::QueryTask,
            0,
            TaskManagementResult::NotSupported,
        ),
    ];
    for (function, lun, expected) in cases {
        manage(&mut pair, function, lun);
        pair.settle();
        assert_eq!(result(&mut pair), expected, "{function:?}");
    }
}

#[test]
fn a_unit_reset_ends_tasks_and_leaves_a_unit_attention() {
    for function in [
        TaskManagementFunction::LogicalUnitReset,
        TaskManagementFunction::TargetWarmReset,
    ] {
        let mut pair = pair();
        pair.hold_store = true;
        pair.read(0, 1, 1);
        pair.settle();
        manage(&mut pair, function, 0);
        pair.settle();
        let work = pair.held.remove(0);
        pair.answer(work);
        let done = pair.settle();
        assert_eq!(done[0].outcome, Err(TaskError::Aborted));
        assert_eq!(result(&mut pair), TaskManagementResult::Complete);
        pair.submit(cdb::test_unit_ready(), Transfer::None, 2);
        let done = pair.settle();
        let answer = done[0].outcome.as_ref().unwrap();
        assert_eq!(answer.status, ScsiStatus::CheckCondition);
        let sense = Sense::parse(&answer.sense).unwrap();
        assert_eq!(sense.additional, AdditionalSense::BUS_DEVICE_RESET);
    }
}

#[test]
fn a_reset_is_retried_in_silence_only_once_after_a_recovery() {
    let mut pair = pair();
    let reset = |pair: &mut Pair| {
        manage(pair, TaskManagementFunction::LogicalUnitReset, 0);
        pair.settle();
        assert_eq!(result(pair), TaskManagementResult::Complete);
        pair.submit(cdb::test_unit_ready(), Transfer::None, 1);
    };
    pair.reinstate();
    // The first may result from the recovery itself.
    reset(&mut pair);
    pair.settle_good();
    reset(&mut pair);
    let done = pair.settle();
    let answer = done[0].outcome.as_ref().unwrap();
    let sense = Sense::parse(&answer.sense).unwrap();
    assert_eq!(sense.additional, AdditionalSense::BUS_DEVICE_RESET);
    pair.reinstate();
    reset(&mut pair);
    pair.settle_good();
}

#[test]
fn a_cleared_task_set_is_news_to_other_initiators_only() {
    let mut pair = pair();
    pair.hold_store = true;
    pair.read(0, 1, 1);
    pair.settle();
    manage(&mut pair, TaskManagementFunction::ClearTaskSet, 0);
    pair.settle();
    let work = pair.held.remove(0);
    pair.answer(work);
    assert_eq!(pair.settle()[0].outcome, Err(TaskError::Aborted));
    assert_eq!(result(&mut pair), TaskManagementResult::Complete);
    pair.submit(cdb::test_unit_ready(), Transfer::None, 2);
    pair.settle_good();
}

/// Completes the held store operations, and lets `other` see the effects.
fn release(pair: &mut Pair, other: &mut Pair) {
    for work in std::mem::take(&mut pair.held) {
        pair.answer(work);
    }
    let now = other.now();
    other.target.review(now, &mut other.trace);
}

#[test]
fn a_function_waits_for_the_tasks_of_other_sessions() {
    for function in [
        TaskManagementFunction::LogicalUnitReset,
        TaskManagementFunction::TargetWarmReset,
        TaskManagementFunction::ClearTaskSet,
    ] {
        let mut pair = pair();
        let mut other = pair.beside("other", 12);
        other.hold_store = true;
        other.write(0, vec![7; 512], 1);
        other.settle();
        manage(&mut pair, function, 0);
        pair.settle();
        assert_eq!(pair.initiator.poll_event(), None, "{function:?}");
        // Later commands do not delay the function.
        other.read(0, 1, 2);
        other.settle();
        assert_eq!(other.held.len(), 1, "a unit attention is the answer");
        other.read(0, 1, 3);
        other.settle();
        let later = other.held.pop().unwrap();
        release(&mut other, &mut pair);
        pair.settle();
        assert_eq!(result(&mut pair), TaskManagementResult::Complete);
        other.answer(later);
        let done = other.settle();
        assert_eq!(done.len(), 1, "the write has no answer: {done:?}");
        assert_eq!(done[0].user, 3);
    }
}

#[test]
fn a_session_that_has_ended_is_waited_for() {
    let mut pair = pair();
    let mut other = pair.beside("other", 12);
    let mut third = pair.beside("third", 13);
    other.hold_store = true;
    other.write(0, vec![7; 512], 1);
    other.settle();
    let remains = other.target.end();
    for waiting in [&mut pair, &mut third] {
        manage(waiting, TaskManagementFunction::LogicalUnitReset, 0);
        waiting.settle();
        assert_eq!(waiting.initiator.poll_event(), None);
    }
    drop(remains);
    for waiting in [&mut pair, &mut third] {
        let now = waiting.now();
        waiting.target.review(now, &mut waiting.trace);
        waiting.settle();
        assert_eq!(result(waiting), TaskManagementResult::Complete);
    }
}

#[test]
fn pings_are_answered_both_ways_and_logout_closes() {
    let mut pair = pair();
    let now = pair.now();
    let request = pair.initiator.ping(now, &mut pair.trace).unwrap();
    pair.settle();
    assert_eq!(pair.initiator.poll_event(), Some(Event::Pong { request }));

    let now = pair.now();
    assert!(!pair.initiator.is_asking());
    pair.initiator.ask_each(now, &mut pair.trace);
    pair.towards_target().unwrap();
    assert!(pair.initiator.is_asking(), "the answer is on its way");
    pair.settle();
    assert!(!pair.initiator.is_asking());

    let now = pair.now();
    assert!(pair.target.ping(0, now, &mut pair.trace));
    assert!(
        !pair.target.ping(0, now, &mut pair.trace),
        "one is unanswered"
    );
    pair.settle();
    assert!(pair.target.ping(0, now, &mut pair.trace), "it was answered");

    let now = pair.now();
    pair.initiator.logout(now, &mut pair.trace).unwrap();
    assert_eq!(pair.towards_target(), Err(Close::LoggedOut));
    pair.towards_initiator();
    assert_eq!(pair.initiator.poll_event(), Some(Event::LoggedOut));
}

#[test]
fn a_ping_in_the_middle_of_large_writes_is_answered() {
    let mut pair = pair();
    for n in 0..16 {
        pair.write(n * 512, vec![n as u8; 512 * 512], n);
    }
    let now = pair.now();
    pair.initiator.pump(now, &mut pair.trace);
    assert!(pair.target.ping(0, now, &mut pair.trace));
    pair.towards_initiator();
    assert_eq!(pair.settle_good().len(), 16);
    assert!(
        pair.target.ping(0, now, &mut pair.trace),
        "the first one was answered"
    );
}

#[test]
fn the_initiator_asks_for_the_targets() {
    let mut pair = pair();
    let now = pair.now();
    assert!(pair.initiator.send_targets(now, &mut pair.trace).is_some());
    assert!(
        pair.initiator.send_targets(now, &mut pair.trace).is_none(),
        "one question at a time"
    );
    pair.settle();
    let Some(Event::Targets(targets)) = pair.initiator.poll_event() else {
        panic!("no answer")
    };
    assert_eq!(targets.len(), 1);
    assert_eq!(targets[0].name, TARGET);
    assert!(pair.initiator.send_targets(now, &mut pair.trace).is_some());
}

#[test]
fn a_session_waits_for_what_its_initiator_has_left_at_stores() {
    for (initiator, seed) in [("other", 12), ("other", 14)] {
        let pair = pair();
        let mut other = pair.beside("other", 12);
        other.hold_store = true;
        other.write(0, vec![7; 512], 1);
        other.settle();
        // The same port while the old session lives, or another port of the initiator after it.
        let mut next = None;
        if seed == 12 {
            let mut begun = pair.beside(initiator, seed);
            begun.submit(cdb::test_unit_ready(), Transfer::None, 0);
            begun.settle(); // The unit attention.
            next = Some(begun);
        }
        let remains = other.target.end();
        let mut next = next.unwrap_or_else(|| pair.beside(initiator, seed));
        next.write(0, vec![8; 512], 1);
        next.read(0, 1, 2);
        assert!(next.settle().is_empty());
        assert!(next.store.iter().all(|&byte| byte == 0));
        // No busy loop while it waits.
        assert!(!next.target.is_busy(0));
        drop(remains);
        let now = next.now();
        next.target.review(now, &mut next.trace);
        assert!(next.target.is_busy(0));
        assert_eq!(next.settle_good().len(), 2);
        assert_eq!(next.store[..512], [8; 512]);
    }
}

#[test]
fn a_session_that_was_replaced_asks_no_store() {
    let pair = pair();
    let mut old = pair.beside("other", 12);
    let _new = pair.beside("other", 12);
    old.write(0, vec![7; 512], 1);
    assert!(old.settle().is_empty());
    assert!(old.store.iter().all(|&byte| byte == 0));
}

#[test]
fn the_answer_to_a_logout_waits_for_the_store() {
    let mut pair = pair();
    pair.hold_store = true;
    pair.write(0, vec![7; 512], 1);
    pair.settle();
    let now = pair.now();
    pair.initiator.logout(now, &mut pair.trace).unwrap();
    pair.settle();
    assert_eq!(pair.initiator.poll_event(), None);
    let work = pair.held.remove(0);
    pair.answer(work);
    assert_eq!(pair.towards_target(), Err(Close::LoggedOut));
    pair.towards_initiator();
    assert_eq!(pair.initiator.poll_event(), Some(Event::LoggedOut));
}

#[test]
fn the_tag_of_an_aborted_task_is_busy_until_the_store_is_done() {
    let mut pair = pair();
    let mut other = pair.beside("other", 12);
    other.hold_store = true;
    other.write(0, vec![7; 512], 1);
    other.settle();
    let Work::Write { task, .. } = &other.held[0] else {
        panic!("{:?}", other.held);
    };
    let tag = *task;
    manage(&mut pair, TaskManagementFunction::LogicalUnitReset, 0);
    pair.settle();
    // The unit attention tells the initiator that its task is gone; it may reuse the tag.
    other.read(0, 1, 2);
    other.settle();
    let again = |other: &mut Pair| {
        let now = other.now();
        let window = other.target.window();
        let command = ScsiCommand {
            immediate: true,
            final_: true,
            read: false,
            write: false,
            attribute: TaskAttribute::Simple,
            lun: Lun::single_level(0).unwrap(),
            task_tag: tag,
            expected_data_transfer_length: 0,
            cmd_sn: window.exp_cmd_sn,
            exp_stat_sn: Sn(0),
            cdb: cdb::test_unit_ready(),
        };
        let mut transmitter = Transmitter::new();
        let mut bhs = [0; BHS_BYTES];
        command.emit(&mut bhs);
        transmitter.push(&bhs, &[]);
        let connection = other.target.connection(0).unwrap();
        let bytes = copy(transmitter.pending(), connection.space());
        connection.filled(bytes);
        other.target.receive(0, now, &mut other.trace);
        let pending = other.target.connection(0).unwrap().pending().to_vec();
        other.target.connection(0).unwrap().sent(pending.len());
        pending[3]
    };
    assert_eq!(again(&mut other), ScsiStatus::Busy.to_wire());
    let work = other.held.remove(0);
    other.answer(work);
    assert_eq!(again(&mut other), ScsiStatus::Good.to_wire());
}

#[test]
fn a_logout_for_recovery_is_answered_when_the_store_is_done() {
    // Level 2: the lost connection is logged out on its replacement.
    let wanted = Wanted {
        error_recovery_level: 2,
        max_connections: 2,
        ..Wanted::default()
    };
    let mut pair = Pair::new(wanted.clone(), wanted, 16, 11);
    pair.hold_store = true;
    pair.write(0, vec![7; 512], 1);
    pair.settle();
    let now = pair.now();
    let request = log_out_for_recovery(&mut pair);
    pair.target.receive(0, now, &mut pair.trace);
    assert!(pair.target.connection(0).unwrap().pending().is_empty());
    let work = pair.held.remove(0);
    pair.answer(work);
    let pending = pair.target.connection(0).unwrap().pending();
    let last = &pending[pending.len() - BHS_BYTES..];
    assert_eq!(last[0], Opcode::LogoutResponse.to_wire());
    assert_eq!(last[16..20], request.task_tag.0.to_be_bytes());
}

/// PERSISTENT RESERVE OUT for exclusive access. Delivers a logout of the only connection, for recovery, to the target's
/// buffer.
pub(crate) fn log_out_for_recovery(pair: &mut Pair) -> LogoutRequest {
    let request = LogoutRequest {
        immediate: true,
        reason: LogoutReason::RemoveForRecovery,
        cid: 0,
        task_tag: TaskTag(0x7777),
        cmd_sn: pair.target.window().exp_cmd_sn,
        exp_stat_sn: Sn(0),
    };
    let mut bhs = [0; BHS_BYTES];
    request.emit(&mut bhs);
    let mut transmitter = Transmitter::new();
    transmitter.push(&bhs, &[]);
    let connection = pair.target.connection(0).unwrap();
    let bytes = copy(transmitter.pending(), connection.space());
    connection.filled(bytes);
    request
}

pub(crate) fn reserve_out(pair: &mut Pair, action: u8, key: u64, action_key: u64, user: u64) {
    let mut cdb = [0; 16];
    cdb[..9].copy_from_slice(&[0x5f, action, 3, 0, 0, 0, 0, 0, 24]);
    let mut list = vec![0; 24];
    list[..8].copy_from_slice(&key.to_be_bytes());
    list[8..16].copy_from_slice(&action_key.to_be_bytes());
    pair.submit(cdb, Transfer::Write(list), user);
}

#[test]
fn a_reservation_applies_to_what_has_not_reached_the_store() {
    let mut pair = pair();
    let mut other = pair.beside("other", 12);
    other.hold_store = true;
    other.write(0, vec![7; 512], 1);
    other.settle();
    reserve_out(&mut pair, 0, 0, 0xa, 1);
    pair.settle_good();
    // The other one's next write has arrived, and its store operation has not started.
    other.write(1, vec![8; 512], 2);
    other.bring();
    reserve_out(&mut pair, 1, 0xa, 0, 2);
    assert!(
        pair.settle().is_empty(),
        "a write of the other one may land"
    );
    release(&mut other, &mut pair);
    assert_eq!(pair.settle_good().len(), 1);
    let done = other.settle();
    let statuses: Vec<ScsiStatus> = done
        .iter()
        .map(|done| done.outcome.as_ref().unwrap().status)
        .collect();
    assert_eq!(
        statuses,
        [ScsiStatus::Good, ScsiStatus::ReservationConflict]
    );
    assert!(other.held.is_empty());
}

#[test]
fn without_a_write_cache_no_write_is_answered_before_it_is_on_the_medium() {
    let mut pair = pair();
    let mut other = pair.beside("other", 12);
    other.hold_store = true;
    other.write(0, vec![7; 512], 1);
    other.settle();
    assert!(matches!(other.held[0], Work::Write { fua: false, .. }));
    other.write(1, vec![8; 512], 2);
    other.bring();
    // MODE SELECT (6) of the Caching page, with WCE cleared.
    let mut list = vec![0; 24];
    list[4..6].copy_from_slice(&[0x08, 0x12]);
    let mut cdb = [0; 16];
    cdb[..6].copy_from_slice(&[0x15, 0x10, 0, 0, 24, 0]);
    pair.hold_store = true;
    pair.submit(cdb, Transfer::Write(list), 1);
    assert!(pair.settle().is_empty());
    assert!(
        pair.held.is_empty(),
        "a write without FUA may land after the flush"
    );
    release(&mut other, &mut pair);
    assert!(pair.settle().is_empty());
    let [Work::Medium { operation, .. }] = &pair.held[..] else {
        panic!("{:?}", pair.held);
    };
    assert!(matches!(**operation, MediumOperation::FlushFor(_)));
    let flush = pair.held.remove(0);
    pair.answer(flush);
    assert_eq!(pair.settle_good().len(), 1);
    other.settle();
    assert!(matches!(other.held[0], Work::Write { fua: true, .. }));
}
