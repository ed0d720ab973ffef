//! Logout and loss of connections (RFC 7143 §6.3.6, §7.2.2, §11.14).

use wansan_iscsi::keys::Wanted;
use wansan_iscsi::scsi::cdb;
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::target::Close;
use wansan_iscsi::wire::{
    AsyncEvent, AsyncMessage, BHS_BYTES, Bhs, DataIn, LogoutReason, LogoutRequest, LogoutResponse,
    LogoutResult, Lun, Opcode, RESERVED_TASK_TAG, ScsiCommand, ScsiStatus, TaskAttribute,
    TaskManagementFunction, TaskManagementRequest, TaskManagementResponse, TaskManagementResult,
};
use wansan_trace::{Instant, TaskTag};

use super::rig::{Line, Rig};

fn rig(level: u8) -> (Rig, Line, Line) {
    let wanted = Wanted {
        max_connections: 4,
        time2wait_s: 2,
        time2retain_s: 20,
        error_recovery_level: level,
        ..Wanted::default()
    };
    let (mut rig, first) = Rig::new(wanted, 16);
    let second = rig.join(1, Sn(0));
    (rig, first, second)
}

fn send(rig: &mut Rig, line: &mut Line, bhs: &Bhs) {
    line.transmitter.push(bhs, &[]);
    let bytes = line.transmitter.pending().len();
    line.out.extend_from_slice(line.transmitter.pending());
    line.transmitter.sent(bytes);
    rig.forth(line, usize::MAX);
    rig.ask_store(line);
}

fn answers(rig: &mut Rig, line: &mut Line) -> Vec<Bhs> {
    rig.back(line, usize::MAX);
    let mut answers = Vec::new();
    while let Some(pdu) = line.receiver.next().unwrap() {
        answers.push(*pdu.bhs);
    }
    answers
}

fn read(tag: u32, cmd_sn: u32) -> Bhs {
    let mut bhs = [0; BHS_BYTES];
    ScsiCommand {
        immediate: false,
        final_: true,
        read: true,
        write: false,
        attribute: TaskAttribute::Simple,
        lun: Lun::single_level(0).unwrap(),
        task_tag: TaskTag(tag),
        expected_data_transfer_length: 512,
        cmd_sn: Sn(cmd_sn),
        exp_stat_sn: Sn(0),
        cdb: cdb::read(0, 1, false),
    }
    .emit(&mut bhs);
    bhs
}

fn logout(reason: LogoutReason, cid: u16) -> Bhs {
    let mut bhs = [0; BHS_BYTES];
    LogoutRequest {
        immediate: true,
        reason,
        task_tag: TaskTag(99),
        cid,
        cmd_sn: Sn(1),
        exp_stat_sn: Sn(0),
    }
    .emit(&mut bhs);
    bhs
}

fn reassign(tag: u32) -> Bhs {
    let mut bhs = [0; BHS_BYTES];
    TaskManagementRequest {
        immediate: true,
        function: TaskManagementFunction::TaskReassign,
        lun: Lun::single_level(0).unwrap(),
        task_tag: TaskTag(98),
        referenced_task_tag: TaskTag(tag),
        cmd_sn: Sn(2),
        exp_stat_sn: Sn(0),
        ref_cmd_sn: Sn(0),
        exp_data_sn: 0,
    }
    .emit(&mut bhs);
    bhs
}

fn manage(function: TaskManagementFunction, cmd_sn: u32) -> Bhs {
    let mut bhs = [0; BHS_BYTES];
    TaskManagementRequest {
        immediate: true,
        function,
        lun: Lun::single_level(0).unwrap(),
        task_tag: TaskTag(97),
        referenced_task_tag: RESERVED_TASK_TAG,
        cmd_sn: Sn(cmd_sn),
        exp_stat_sn: Sn(0),
        ref_cmd_sn: Sn(0),
        exp_data_sn: 0,
    }
    .emit(&mut bhs);
    bhs
}

fn opcodes(answers: &[Bhs]) -> Vec<Opcode> {
    let opcode = |bhs: &Bhs| Opcode::from_wire(bhs[0] & 0x3f);
    answers.iter().map(opcode).collect()
}

#[test]
fn the_others_are_told_of_a_connection_that_dies() {
    // §11.9.1: event 2, with the CID of the connection that was dropped.
    let (mut rig, mut first, second) = rig(0);
    rig.cut(second.place);
    let told = answers(&mut rig, &mut first);
    let message = AsyncMessage::parse(&told[0]).unwrap();
    assert_eq!(message.event, AsyncEvent::DropConnection);
    assert_eq!(message.parameter1, second.cid);
    assert_eq!((message.parameter2, message.parameter3), (2, 20));
    assert!(!rig.session.is_over());
    rig.cut(first.place);
    assert!(rig.session.is_over());
}

#[test]
fn a_connection_is_logged_out_over_another_one() {
    let (mut rig, mut first, mut second) = rig(0);
    send(&mut rig, &mut second, &read(1, 1));
    send(
        &mut rig,
        &mut first,
        &logout(LogoutReason::CloseConnection, 1),
    );
    assert_eq!(rig.end(), Some((second.place, Close::LoggedOut)));
    rig.cut(second.place);
    // Its tasks end without a response, and functions sent on it are not answered.
    rig.store_works(0);
    let told = answers(&mut rig, &mut first);
    assert_eq!(opcodes(&told), [Opcode::LogoutResponse]);
    let response = LogoutResponse::parse(&told[0]).unwrap();
    assert_eq!(response.response, LogoutResult::Closed);
    send(
        &mut rig,
        &mut first,
        &logout(LogoutReason::CloseConnection, 1),
    );
    let told = answers(&mut rig, &mut first);
    let response = LogoutResponse::parse(&told[0]).unwrap();
    assert_eq!(response.response, LogoutResult::CidNotFound);
}

#[test]
fn closing_the_session_closes_all_connections() {
    let (mut rig, mut first, second) = rig(2);
    send(&mut rig, &mut first, &logout(LogoutReason::CloseSession, 0));
    let mut ends = Vec::new();
    while let Some((place, close)) = rig.end() {
        assert_eq!(close, Close::LoggedOut);
        rig.cut(place);
        ends.push(place);
    }
    ends.sort_unstable();
    assert_eq!(ends, [first.place, second.place]);
    assert!(rig.session.is_over());
}

#[test]
fn what_a_lost_connection_held_back_may_come_again() {
    // §11.14: undelivered commands are discarded, and leave a gap.
    for level in 0..3 {
        let (mut rig, mut first, mut second) = rig(level);
        send(&mut rig, &mut second, &read(2, 2));
        rig.cut(second.place);
        send(&mut rig, &mut first, &read(1, 1));
        assert_eq!(rig.session.window().exp_cmd_sn, Sn(2), "level {level}");
        send(&mut rig, &mut first, &read(2, 2));
        assert_eq!(rig.session.window().exp_cmd_sn, Sn(3), "level {level}");
    }
}

#[test]
fn a_task_moves_once_its_connection_is_gone() {
    let (mut rig, mut first, mut second) = rig(2);
    send(&mut rig, &mut second, &read(1, 1));
    let result = |rig: &mut Rig, line: &mut Line, tag| {
        send(rig, line, &reassign(tag));
        let told = answers(rig, line);
        let is_response = |bhs: &&Bhs| bhs[0] & 0x3f == Opcode::TaskManagementResponse.to_wire();
        let response = told.iter().find(is_response).unwrap();
        TaskManagementResponse::parse(response).unwrap().response
    };
    let still = TaskManagementResult::TaskStillAllegiant;
    assert_eq!(result(&mut rig, &mut first, 1), still);
    send(
        &mut rig,
        &mut first,
        &logout(LogoutReason::RemoveForRecovery, 1),
    );
    assert_eq!(rig.end(), Some((second.place, Close::LoggedOut)));
    rig.cut(second.place);
    let unknown = TaskManagementResult::TaskDoesNotExist;
    assert_eq!(result(&mut rig, &mut first, 7), unknown);
    let complete = TaskManagementResult::Complete;
    assert_eq!(result(&mut rig, &mut first, 1), complete);
    // The store completes the old connection's operation, then the new one's.
    while !rig.at_store.is_empty() {
        rig.store_works(0);
        rig.ask_store(&first);
    }
    let told = answers(&mut rig, &mut first);
    assert_eq!(opcodes(&told), [Opcode::DataIn]);
    assert_eq!(
        DataIn::parse(&told[0]).unwrap().status,
        Some(ScsiStatus::Good)
    );
}

#[test]
fn below_level_2_no_task_moves() {
    let (mut rig, mut first, second) = rig(1);
    send(&mut rig, &mut first, &reassign(1));
    send(
        &mut rig,
        &mut first,
        &logout(LogoutReason::RemoveForRecovery, second.cid),
    );
    let told = answers(&mut rig, &mut first);
    let managed = TaskManagementResponse::parse(&told[0]).unwrap();
    assert_eq!(managed.response, TaskManagementResult::ReassignNotSupported);
    let response = LogoutResponse::parse(&told[1]).unwrap();
    assert_eq!(response.response, LogoutResult::RecoveryNotSupported);
    assert_eq!(rig.end(), None);
}

#[test]
fn a_session_without_connections_waits_for_one_as_long_as_was_agreed() {
    // §6.3.6: session continuation; §13.15, §13.16: Time2Wait 2 s and Time2Retain 20 s.
    const SECOND_NS: u64 = 1_000_000_000;
    let (mut rig, first, mut second) = rig(2);
    send(&mut rig, &mut second, &read(1, 1));
    rig.cut(first.place);
    rig.cut(second.place);
    assert_eq!(rig.session.connections(), 0);
    rig.session
        .expire(Instant::from_ns(21 * SECOND_NS), &mut rig.trace);
    assert!(!rig.session.is_over());
    let mut third = rig.join(2, Sn(0));
    send(&mut rig, &mut third, &reassign(1));
    assert_eq!(
        opcodes(&answers(&mut rig, &mut third)),
        [Opcode::TaskManagementResponse]
    );
    rig.session
        .expire(Instant::from_ns(23 * SECOND_NS), &mut rig.trace);
    assert!(!rig.session.is_over(), "one is there again");
    rig.cut(third.place);
    rig.session
        .expire(Instant::from_ns(60 * SECOND_NS), &mut rig.trace);
    assert!(rig.session.is_over());
}

#[test]
fn a_function_waits_for_the_commands_that_it_has_overtaken() {
    // §4.2.3.3 b: the target waits for all commands of the affected tasks, by their CmdSN.
    for function in [
        TaskManagementFunction::AbortTaskSet,
        TaskManagementFunction::ClearTaskSet,
        TaskManagementFunction::LogicalUnitReset,
    ] {
        let (mut rig, mut first, mut second) = rig(0);
        send(&mut rig, &mut first, &manage(function, 3));
        assert!(answers(&mut rig, &mut first).is_empty());
        send(&mut rig, &mut second, &read(1, 1));
        assert!(answers(&mut rig, &mut first).is_empty());
        send(&mut rig, &mut second, &read(2, 2));
        assert!(rig.at_store.is_empty(), "they never run");
        let told = answers(&mut rig, &mut first);
        assert_eq!(opcodes(&told), [Opcode::TaskManagementResponse]);
        // Later commands are not affected.
        send(&mut rig, &mut second, &read(3, 3));
        assert_eq!(rig.session.window().exp_cmd_sn, Sn(4));
    }
}
