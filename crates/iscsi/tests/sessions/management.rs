//! Task management (RFC 7143 §11.5), ping and logout.

use wansan_iscsi::initiator::{Event, TaskError, Transfer};
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::scsi::{AdditionalSense, Sense, cdb};
use wansan_iscsi::target::{Close, Notice};
use wansan_iscsi::wire::{Lun, ScsiStatus, TaskManagementFunction, TaskManagementResult};

use super::pair::{Pair, TARGET};

fn pair() -> Pair {
    Pair::new(Wanted::default(), Wanted::default(), 16, 11)
}

fn manage(pair: &mut Pair, function: TaskManagementFunction, lun: u16) {
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
fn a_unit_reset_ends_tasks_tells_others_and_leaves_a_unit_attention() {
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
        assert_eq!(
            pair.target.poll_notice(),
            Some(Notice::TasksEnded { units: vec![0] })
        );
        pair.submit(cdb::test_unit_ready(), Transfer::None, 2);
        let done = pair.settle();
        let answer = done[0].outcome.as_ref().unwrap();
        assert_eq!(answer.status, ScsiStatus::CheckCondition);
        let sense = Sense::parse(&answer.sense).unwrap();
        assert_eq!(sense.additional, AdditionalSense::BUS_DEVICE_RESET);
    }
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
    assert_eq!(
        pair.target.poll_notice(),
        Some(Notice::TasksEnded { units: vec![0] })
    );
    pair.submit(cdb::test_unit_ready(), Transfer::None, 2);
    pair.settle_good();
}

#[test]
fn a_reset_by_another_session_ends_tasks_without_an_answer() {
    let mut pair = pair();
    pair.hold_store = true;
    pair.read(0, 1, 1);
    pair.settle();
    let now = pair.now();
    pair.target.end_tasks(&[0], now, &mut pair.trace);
    let work = pair.held.remove(0);
    pair.answer(work);
    assert!(pair.settle().is_empty());
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
fn a_paused_session_takes_commands_and_asks_nothing_of_the_stores() {
    let mut pair = pair();
    pair.target.pause();
    pair.write(0, vec![7; 512], 1);
    pair.read(0, 1, 2);
    assert!(pair.settle().is_empty());
    assert!(pair.store.iter().all(|&byte| byte == 0));
    // Nobody is to come back in vain, again and again, until it may go on.
    assert!(!pair.target.is_busy(0));
    pair.target.resume();
    assert!(pair.target.is_busy(0));
    assert_eq!(pair.settle_good().len(), 2);
    assert_eq!(pair.store[..512], [7; 512]);
}
