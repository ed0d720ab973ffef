//! Peers that violate the protocol lose their task or their connection, never more.

use std::sync::Arc;

use proptest::prelude::*;
use wansan_iscsi::fault::Fault;
use wansan_iscsi::initiator::SessionError;
use wansan_iscsi::keys::{DigestKind, Wanted};
use wansan_iscsi::scsi::{AdditionalSense, Sense, cdb};
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::target::{Close, Memory};
use wansan_iscsi::wire::{
    BHS_BYTES, Bhs, DataOut, Lun, Opcode, Receiver, Reject, RejectReason, Residual, ScsiCommand,
    ScsiResponse, ScsiStatus, TaskAttribute, TaskManagementFunction, TaskManagementRequest,
    TaskManagementResponse, TaskManagementResult, Transmitter,
};
use wansan_trace::{Layer, TaskTag};

use super::pair::{Pair, copy};

/// A target that receives PDUs made by the test.
struct Victim {
    pair: Pair,
    transmitter: Transmitter,
    receiver: Receiver,
    cmd_sn: u32,
}

impl Victim {
    fn new(wanted: Wanted) -> Victim {
        Victim::sharing(&Memory::new(1 << 30), wanted)
    }

    /// The same, where all sessions of the target share `memory`.
    fn sharing(memory: &Arc<Memory>, wanted: Wanted) -> Victim {
        Victim::of(Pair::sharing(memory, wanted.clone(), wanted, 16, 21))
    }

    fn of(pair: Pair) -> Victim {
        let mut receiver = Receiver::new();
        receiver.set_max_data_bytes(1 << 20);
        Victim {
            pair,
            transmitter: Transmitter::new(),
            receiver,
            cmd_sn: 1,
        }
    }

    fn send(&mut self, bhs: &Bhs, data: &[u8]) -> Result<(), Close> {
        self.transmitter.push(bhs, data);
        loop {
            let pending = self.transmitter.pending();
            if pending.is_empty() {
                return Ok(());
            }
            let bytes = copy(pending, self.pair.target.connection(0).unwrap().space());
            self.pair.target.connection(0).unwrap().filled(bytes);
            self.transmitter.sent(bytes);
            self.pair.target_works()?;
        }
    }

    fn write_command(&mut self, tag: u32, blocks: u32, final_: bool) -> Bhs {
        let command = ScsiCommand {
            immediate: false,
            final_,
            read: false,
            write: true,
            attribute: TaskAttribute::Simple,
            lun: Lun::single_level(0).unwrap(),
            task_tag: TaskTag(tag),
            expected_data_transfer_length: blocks * 512,
            cmd_sn: Sn(self.cmd_sn),
            exp_stat_sn: Sn(0),
            cdb: cdb::write(0, blocks, false),
        };
        self.cmd_sn += 1;
        let mut bhs = [0; BHS_BYTES];
        command.emit(&mut bhs);
        bhs
    }

    /// The target's PDUs: headers and data.
    fn answers(&mut self) -> Vec<(Bhs, Vec<u8>)> {
        let mut answers = Vec::new();
        loop {
            let pending = self.pair.target.connection(0).unwrap().pending();
            let bytes = copy(pending, self.receiver.space());
            self.pair.target.connection(0).unwrap().sent(bytes);
            self.receiver.filled(bytes);
            while let Some(pdu) = self.receiver.next().unwrap() {
                answers.push((*pdu.bhs, pdu.data.to_vec()));
            }
            if bytes == 0 {
                return answers;
            }
        }
    }
}

fn data_out(tag: u32, transfer_tag: u32, offset: u32, data_sn: u32, final_: bool) -> Bhs {
    let mut bhs = [0; BHS_BYTES];
    DataOut {
        final_,
        lun: Lun::single_level(0).unwrap(),
        task_tag: TaskTag(tag),
        transfer_tag,
        exp_stat_sn: Sn(0),
        data_sn,
        buffer_offset: offset,
    }
    .emit(&mut bhs);
    bhs
}

#[test]
fn commands_outside_the_window_are_ignored_in_silence() {
    // RFC 7143 §4.2.2.1: "The target MUST silently ignore any non-immediate command outside of
    // this range or non-immediate duplicates within the range."
    let mut victim = Victim::new(Wanted::default());
    victim.cmd_sn = 1 + 16;
    let beyond = victim.write_command(1, 1, true);
    victim.send(&beyond, &[0; 512]).unwrap();
    victim.cmd_sn = 0;
    let before = victim.write_command(2, 1, true);
    victim.send(&before, &[0; 512]).unwrap();
    assert!(victim.answers().is_empty());
    let good = victim.write_command(3, 1, true);
    victim.send(&good, &[0; 512]).unwrap();
    assert_eq!(victim.answers().len(), 1);
}

#[test]
fn commands_ahead_of_a_gap_wait_for_it() {
    let mut victim = Victim::new(Wanted::default());
    let first = victim.write_command(1, 1, true);
    let second = victim.write_command(2, 1, true);
    victim.send(&second, &[2; 512]).unwrap();
    assert!(victim.answers().is_empty());
    victim.send(&first, &[1; 512]).unwrap();
    let answers = victim.answers();
    let tags: Vec<u32> = answers
        .iter()
        .map(|(bhs, _)| ScsiResponse::parse(bhs).unwrap().task_tag.0)
        .collect();
    assert_eq!(tags, [1, 2]);
    assert_eq!(victim.pair.store[0], 2);
}

#[test]
fn data_that_follows_a_command_behind_a_gap_waits_with_it() {
    // §4.2.2.1: unsolicited data arrives on the connection of its command, whether commands of other connections are
    // still missing or not.
    let mut victim = Victim::new(Wanted::default());
    let first = victim.write_command(1, 1, true);
    let second = victim.write_command(2, 4, false);
    let third = victim.write_command(3, 1, true);
    victim.send(&second, &[]).unwrap();
    let halves = [(0, 0, false), (1024, 1, true)];
    for (offset, data_sn, final_) in halves {
        let half = data_out(2, u32::MAX, offset, data_sn, final_);
        victim.send(&half, &[2; 1024]).unwrap();
    }
    victim.send(&third, &[3; 512]).unwrap();
    assert!(victim.answers().is_empty());
    victim.send(&first, &[1; 512]).unwrap();
    assert_eq!(victim.answers().len(), 3);
    assert_eq!(victim.pair.store[0], 3);
    assert_eq!(victim.pair.store[512..2048], [2; 1536]);
}

#[test]
fn data_behind_a_gap_cannot_take_all_memory() {
    let memory = Memory::new(64 << 10);
    let wanted = Wanted::default();
    let mut victim = Victim::of(Pair::sharing(&memory, wanted.clone(), wanted, 16, 21));
    victim.cmd_sn = 2; // the first one never arrives
    let command = victim.write_command(2, 4, false);
    victim.send(&command, &[]).unwrap();
    let closed = (0..1000).find_map(|data_sn| {
        let nothing = data_out(2, u32::MAX, 0, data_sn, false);
        victim.send(&nothing, &[]).err()
    });
    assert_eq!(closed, Some(Close::NoMemory));
}

/// An immediate management function on unit 0, with the CmdSN of the next command.
fn manage(victim: &Victim, function: TaskManagementFunction, aborts: Option<(u32, u32)>) -> Bhs {
    let (tag, cmd_sn) = aborts.unwrap_or((u32::MAX, 0));
    let mut bhs = [0; BHS_BYTES];
    TaskManagementRequest {
        immediate: true,
        function,
        lun: Lun::single_level(0).unwrap(),
        task_tag: TaskTag(1000),
        referenced_task_tag: TaskTag(tag),
        cmd_sn: Sn(victim.cmd_sn),
        exp_stat_sn: Sn(0),
        ref_cmd_sn: Sn(cmd_sn),
        exp_data_sn: 0,
    }
    .emit(&mut bhs);
    bhs
}

fn managed(answers: &[(Bhs, Vec<u8>)]) -> TaskManagementResponse {
    let found = answers
        .iter()
        .find_map(|(bhs, _)| TaskManagementResponse::parse(bhs).ok());
    found.expect("a response to the management function")
}

#[test]
fn a_command_that_is_aborted_behind_a_gap_never_runs() {
    // §11.6.1 b: RefCmdSN inside the window is considered received.
    let mut victim = Victim::new(Wanted::default());
    let first = victim.write_command(1, 1, true);
    let second = victim.write_command(2, 1, true);
    let third = victim.write_command(3, 1, true);
    victim.send(&second, &[2; 512]).unwrap();
    let abort = manage(&victim, TaskManagementFunction::AbortTask, Some((2, 2)));
    victim.send(&abort, &[]).unwrap();
    let response = managed(&victim.answers());
    assert_eq!(response.response, TaskManagementResult::Complete);
    victim.send(&second, &[2; 512]).unwrap();
    victim.send(&first, &[1; 512]).unwrap();
    assert_eq!(victim.answers().len(), 1, "only the first one is answered");
    assert_eq!(victim.pair.store[0], 1);
    victim.send(&third, &[3; 512]).unwrap();
    assert_eq!(victim.answers().len(), 1);
    assert_eq!(victim.pair.store[0], 3);
}

#[test]
fn commands_ahead_of_a_gap_cannot_take_all_memory() {
    let memory = Memory::new(1 << 20);
    let mut victims: Vec<Victim> = (0..3)
        .map(|_| Victim::sharing(&memory, Wanted::default()))
        .collect();
    let mut held_bytes = 0;
    let mut closed = 0;
    for victim in &mut victims {
        victim.cmd_sn = 2; // the first one never arrives
        for tag in 0..4 {
            let command = victim.write_command(tag, 256, true);
            match victim.send(&command, &[1; 128 << 10]) {
                Ok(()) => held_bytes += 128 << 10,
                Err(close) => {
                    assert_eq!(close, Close::NoMemory);
                    closed += 1;
                    break;
                }
            }
        }
    }
    assert!(closed > 0 && held_bytes <= 1 << 20, "{held_bytes} bytes");
    // With the others gone, the first one gets its memory.
    victims.truncate(1);
    victims[0].cmd_sn = 1;
    let first = victims[0].write_command(100, 1, true);
    victims[0].send(&first, &[1; 512]).unwrap();
    assert_eq!(victims[0].answers().len(), 5);
}

#[test]
fn commands_without_data_ahead_of_a_gap_are_counted_too() {
    let memory = Memory::new(64 << 10);
    let wanted = Wanted::default();
    let pair = Pair::sharing(&memory, wanted.clone(), wanted, 1024, 21);
    let mut victim = Victim::of(pair);
    victim.cmd_sn = 2; // the first one never arrives
    let closed = (0..1000).find_map(|tag| {
        let command = victim.write_command(tag, 1, true);
        victim.send(&command, &[]).err()
    });
    assert_eq!(closed, Some(Close::NoMemory));
}

#[test]
fn an_abort_of_a_missing_command_closes_the_gap() {
    let mut victim = Victim::new(Wanted::default());
    let first = victim.write_command(1, 1, true);
    let second = victim.write_command(2, 1, true);
    victim.send(&second, &[2; 512]).unwrap();
    let abort = manage(&victim, TaskManagementFunction::AbortTask, Some((1, 1)));
    victim.send(&abort, &[]).unwrap();
    let answers = victim.answers();
    let response = managed(&answers);
    assert_eq!(response.response, TaskManagementResult::Complete);
    assert_eq!(response.exp_cmd_sn, Sn(2), "CmdSN 1 counts as received");
    assert_eq!(answers.len(), 2, "the second command goes on");
    victim.send(&first, &[1; 512]).unwrap();
    assert!(victim.answers().is_empty(), "it is a duplicate now");
    assert_eq!(victim.pair.store[0], 2);
}

#[test]
fn an_abort_outside_the_window_knows_no_task() {
    // §11.6.1 c; and §11.6.1 b only below the CmdSN of the function itself.
    for ref_cmd_sn in [0, 1, 2, 17, 1 << 31] {
        let mut victim = Victim::new(Wanted::default());
        let first = victim.write_command(1, 1, true);
        victim.send(&first, &[1; 512]).unwrap();
        victim.answers();
        let function = TaskManagementFunction::AbortTask;
        let abort = manage(&victim, function, Some((9, ref_cmd_sn)));
        victim.send(&abort, &[]).unwrap();
        let response = managed(&victim.answers());
        assert_eq!(response.response, TaskManagementResult::TaskDoesNotExist);
    }
}

#[test]
fn a_whole_window_behind_a_gap_is_held() {
    // Two connections share the window, and the one with the first command stalls.
    const FIRST_BURST: u32 = 256 << 10;
    const PDU: u32 = 8 << 10;
    const WINDOW: u32 = 1024;
    let wanted = Wanted {
        initial_r2t: false,
        immediate_data: false,
        first_burst_bytes: FIRST_BURST,
        max_burst_bytes: FIRST_BURST,
        max_recv_data_bytes: PDU,
        ..Wanted::default()
    };
    let memory = Memory::new(1 << 30);
    let pair = Pair::sharing(&memory, wanted.clone(), wanted, WINDOW, 21);
    let mut victim = Victim::of(pair);
    let data = [7; PDU as usize];
    for tag in 1..WINDOW {
        victim.cmd_sn = 1 + tag;
        let command = victim.write_command(tag, FIRST_BURST / 512, false);
        victim.send(&command, &[]).unwrap();
        for n in 0..FIRST_BURST / PDU {
            let last = n + 1 == FIRST_BURST / PDU;
            let pdu = data_out(tag, u32::MAX, n * PDU, n, last);
            victim.send(&pdu, &data).unwrap();
        }
    }
    victim.cmd_sn = 1;
    let first = victim.write_command(WINDOW, 1, true);
    let closes = victim.send(&first, &[]);
    assert_eq!(closes, Ok(()));
}

#[test]
fn pdus_without_data_behind_a_gap_are_bounded() {
    let mut victim = Victim::new(Wanted {
        initial_r2t: false,
        ..Wanted::default()
    });
    victim.cmd_sn = 2;
    let command = victim.write_command(1, 128, false);
    victim.send(&command, &[]).unwrap();
    let endless = (0..1 << 20).map(|n| data_out(1, u32::MAX, 0, n, false));
    let closed = endless
        .into_iter()
        .find_map(|pdu| victim.send(&pdu, &[]).err());
    assert!(matches!(closed, Some(Close::Protocol(_))), "{closed:?}");
}

#[test]
fn functions_on_many_tasks_take_the_held_commands_with_them() {
    for (function, plugs) in [
        (TaskManagementFunction::AbortTaskSet, false),
        (TaskManagementFunction::LogicalUnitReset, false),
        (TaskManagementFunction::TargetWarmReset, true),
    ] {
        let mut victim = Victim::new(Wanted::default());
        let first = victim.write_command(1, 1, true);
        let second = victim.write_command(2, 1, true);
        victim.send(&second, &[2; 512]).unwrap();
        let request = manage(&victim, function, None);
        let after = victim.write_command(4, 1, true);
        victim.send(&after, &[4; 512]).unwrap();
        victim.send(&request, &[]).unwrap();
        let mut answers = victim.answers();
        // §4.2.3.3 b: only a target's reset may treat the missing command as received; the others wait for it.
        let is_answer = |(bhs, _): &(Bhs, Vec<u8>)| TaskManagementResponse::parse(bhs).is_ok();
        assert_eq!(answers.iter().any(is_answer), plugs, "{function:?}");
        victim.send(&first, &[1; 512]).unwrap();
        answers.extend(victim.answers());
        let response = managed(&answers);
        assert_eq!(response.response, TaskManagementResult::Complete);
        let tags: Vec<u32> = answers
            .iter()
            .filter_map(|(bhs, _)| ScsiResponse::parse(bhs).ok())
            .map(|response| response.task_tag.0)
            .collect();
        assert_eq!(tags, [4], "{function:?}");
        assert!(![1, 2].contains(&victim.pair.store[0]), "{function:?}");
    }
}

#[test]
fn a_tag_in_use_is_rejected() {
    let mut victim = Victim::new(Wanted::default());
    let open = victim.write_command(1, 2048, true);
    victim.send(&open, &[]).unwrap();
    let again = victim.write_command(1, 1, true);
    victim.send(&again, &[0; 512]).unwrap();
    let answers = victim.answers();
    let reject = answers.iter().find_map(|(bhs, data)| {
        let reject = Reject::parse(bhs).ok()?;
        Some((reject, data.clone()))
    });
    let (reject, header) = reject.expect("a Reject");
    assert_eq!(reject.reason, RejectReason::TaskInProgress);
    // Of the window of 16, only the first command still takes a slot.
    assert_eq!(reject.exp_cmd_sn, Sn(3));
    assert_eq!(reject.max_cmd_sn, Sn(3 + 16 - 1 - 1));
    assert_eq!(
        header,
        again
            .iter()
            .copied()
            .enumerate()
            .map(|(at, byte)| {
                // The header is returned as sent, with its lengths.
                if at == 6 { 2 } else { byte }
            })
            .collect::<Vec<u8>>()
    );
}

#[test]
fn data_in_the_wrong_place_ends_the_task_alone() {
    let wrong = [
        data_out(1, u32::MAX, 4096, 0, false), // a hole
        data_out(1, u32::MAX, 512, 1, false),  // DataSN too high
        data_out(1, 77, 512, 0, false),        // no such R2T
    ];
    for pdu in wrong {
        let mut victim = Victim::new(Wanted::default());
        let command = victim.write_command(1, 16, false);
        victim.send(&command, &[0; 512]).unwrap();
        victim.send(&pdu, &[0; 512]).unwrap();
        let answers = victim.answers();
        let response = ScsiResponse::parse(&answers[0].0).unwrap();
        assert_eq!(response.status, ScsiStatus::CheckCondition);
        let next = victim.write_command(2, 1, true);
        victim.send(&next, &[0; 512]).unwrap();
        let answers = victim.answers();
        assert_eq!(
            ScsiResponse::parse(&answers[0].0).unwrap().status,
            ScsiStatus::Good
        );
    }
}

#[test]
fn unsolicited_data_where_it_is_forbidden_is_refused_after_it_has_passed() {
    let wanted = Wanted {
        initial_r2t: true,
        immediate_data: false,
        ..Wanted::default()
    };
    let mut victim = Victim::new(wanted);
    let command = victim.write_command(1, 2, false);
    victim.send(&command, &[]).unwrap();
    assert!(victim.answers().is_empty(), "the data has not passed yet");
    victim
        .send(&data_out(1, u32::MAX, 0, 0, true), &[0; 1024])
        .unwrap();
    let answers = victim.answers();
    assert_eq!(
        ScsiResponse::parse(&answers[0].0).unwrap().status,
        ScsiStatus::CheckCondition
    );
    assert!(victim.pair.store.iter().all(|byte| *byte == 0));
}

#[test]
fn a_write_that_announces_too_little_moves_whole_blocks_or_nothing() {
    for (announced, stored) in [(1024_u32, true), (1000, false), (100, false)] {
        let mut victim = Victim::new(Wanted::default());
        let mut command = victim.write_command(1, 3, true);
        command[20..24].copy_from_slice(&announced.to_be_bytes());
        victim.send(&command, &vec![7; announced as usize]).unwrap();
        let (bhs, data) = victim.answers().remove(0);
        let response = ScsiResponse::parse(&bhs).unwrap();
        // RFC 7143 §11.4.5.1: unannounced data was not transferred.
        assert_eq!(response.residual, Residual::Overflow(3 * 512 - announced));
        if stored {
            assert_eq!(response.status, ScsiStatus::Good);
        } else {
            assert_eq!(response.status, ScsiStatus::CheckCondition);
            let sense = Sense::parse(&data[2..]).unwrap();
            let why = AdditionalSense::INVALID_FIELD_IN_INFORMATION_UNIT;
            assert_eq!(sense, Sense::illegal(why));
        }
        let bytes = if stored { 1024 } else { 0 };
        assert!(victim.pair.store[..bytes].iter().all(|byte| *byte == 7));
        assert!(victim.pair.store[bytes..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_write_that_comes_as_a_read_fails() {
    const WRITES: u8 = 0x20;
    const READS: u8 = 0x40;
    let mut victim = Victim::new(Wanted::default());
    let mut command = victim.write_command(1, 1, true);
    command[1] = command[1] & !WRITES | READS;
    victim.send(&command, &[]).unwrap();
    let (bhs, data) = victim.answers().remove(0);
    let response = ScsiResponse::parse(&bhs).unwrap();
    assert_eq!(response.status, ScsiStatus::CheckCondition);
    assert_eq!(response.residual, Residual::Underflow(512));
    let why = AdditionalSense::INVALID_FIELD_IN_INFORMATION_UNIT;
    assert_eq!(Sense::parse(&data[2..]).unwrap(), Sense::illegal(why));
    // A command that never reached the device server has not left it either.
    let crossings = victim.pair.trace.io.crossings();
    assert_eq!(crossings.filter(|c| c.layer == Layer::Device).count(), 0);
}

#[test]
fn foreign_opcodes_get_a_reject_and_lose_the_connection() {
    for opcode in [0x20, 0x31, 0x3f, 0x07] {
        let mut victim = Victim::new(Wanted::default());
        let mut bhs = [0; BHS_BYTES];
        bhs[0] = opcode;
        let close = victim.send(&bhs, &[]).unwrap_err();
        assert!(matches!(close, Close::OutOfState { .. }), "{close:?}");
        let answers = victim.answers();
        assert_eq!(answers[0].0[0], Opcode::Reject.to_wire());
    }
}

#[test]
fn a_discovery_session_can_neither_move_data_nor_end_tasks() {
    // RFC 7143 §4.3: it is for SendTargets and for Logout; "All other requests MUST be rejected."
    type Request = fn(&mut Victim) -> Bhs;
    let requests: [Request; 3] = [
        |victim| victim.write_command(1, 1, true),
        |victim| manage(victim, TaskManagementFunction::LogicalUnitReset, None),
        |victim| manage(victim, TaskManagementFunction::TargetWarmReset, None),
    ];
    for request in requests {
        let mut victim = Victim::of(Pair::discovering());
        let mut other = victim.pair.beside("other", 32);
        let bhs = request(&mut victim);
        let close = victim.send(&bhs, &[]).unwrap_err();
        assert!(matches!(close, Close::OutOfState { .. }), "{close:?}");
        assert_eq!(victim.answers()[0].0[0], Opcode::Reject.to_wire());
        // No unit attention: nothing was reset.
        other.read(0, 1, 1);
        assert_eq!(other.settle_good().len(), 1);
    }
}

#[test]
fn a_flipped_bit_is_noticed_where_digests_are_on() {
    let wanted = Wanted {
        header_digest: vec![DigestKind::Crc32c],
        data_digest: vec![DigestKind::Crc32c],
        ..Wanted::default()
    };
    for flipped in [10, 48 + 4 + 100] {
        let mut victim = Victim::new(wanted.clone());
        victim.transmitter.set_digests(true, true);
        victim.receiver.set_digests(true, true);
        let command = victim.write_command(1, 1, true);
        victim.transmitter.push(&command, &[0; 512]);
        let mut bytes = victim.transmitter.pending().to_vec();
        bytes[flipped] ^= 4;
        let taken = copy(&bytes, victim.pair.target.connection(0).unwrap().space());
        assert_eq!(taken, bytes.len());
        victim.pair.target.connection(0).unwrap().filled(taken);
        assert!(matches!(victim.pair.target_works(), Err(Close::Frame(_))));
        let rejects = victim.answers().len();
        assert_eq!(
            rejects,
            usize::from(flipped > 48),
            "a lost header cannot be rejected"
        );
    }
}

/// The initiator's result of the responses to two small reads, of which it receives only those in `order`.
fn shown_answers(order: &[usize]) -> Result<(), SessionError> {
    let mut pair = Pair::new(Wanted::default(), Wanted::default(), 16, 31);
    pair.read(0, 1, 0);
    pair.read(1, 1, 1);
    pair.towards_target().unwrap();
    let answers = pair.target.connection(0).unwrap().pending().to_vec();
    let each: Vec<&[u8]> = answers.chunks(BHS_BYTES + 512).collect();
    assert_eq!(each.len(), 2);
    let now = pair.now();
    for answer in order {
        let connection = &mut pair.initiator.connections()[0];
        let bytes = copy(each[*answer], connection.space());
        connection.filled(bytes, now);
    }
    pair.initiator.receive(0, now, &mut pair.trace)
}

#[test]
fn an_initiator_leaves_a_target_whose_statuses_do_not_follow_each_other() {
    assert!(shown_answers(&[0, 1]).is_ok());
    for (order, problem) in [
        (&[1][..], "a status is missing"),
        (&[0, 0], "a status was sent twice"),
    ] {
        let error = shown_answers(order).unwrap_err();
        assert_eq!(error.fault(), Fault::PeerMisbehaved);
        let said = error.to_string();
        assert!(said.contains(problem) && said.contains("StatSN"), "{said}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any PDUs, in any order: the target closes the connection or continues, and never panics.
    #[test]
    fn any_pdus_are_survived(
        pdus in proptest::collection::vec(
            (any::<[u8; 48]>(), 0..8_u8, 0..2000_usize, any::<bool>()),
            1..60,
        )
    ) {
        let mut victim = Victim::new(Wanted::default());
        for (mut bhs, opcode, length, sensible) in pdus {
            bhs[0] = (bhs[0] & 0x40) | opcode;
            if sensible {
                bhs[8..16].fill(0);
                let tag = [0, 0, 0, bhs[19] % 4];
                bhs[16..20].copy_from_slice(&tag);
                bhs[24..28].copy_from_slice(&victim.cmd_sn.to_be_bytes());
                if opcode == 1 {
                    bhs[32] = [0x28, 0x2a, 0x12, 0x25, 0x35, 0xa0][usize::from(bhs[32] % 6)];
                    bhs[33..40].fill(0);
                    victim.cmd_sn += u32::from(bhs[0] & 0x40 == 0);
                }
            }
            if victim.send(&bhs, &vec![0xaa; length]).is_err() {
                break;
            }
            victim.answers();
        }
    }
}
