//! An initiator's session with a target that sends arbitrary PDUs.

use wansan_iscsi::initiator::Transfer;
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::scsi::cdb;
use wansan_iscsi::wire::{Bhs, Header, Lun, Receiver, TaskManagementFunction, Transmitter};
use wansan_trace::TaskTag;

use super::pair::{BLOCK_BYTES, Pair, copy};
use super::pdus::{Context, plausible, word};
use super::source::Source;

/// Opcodes from targets, most likely first.
const OPCODES: [u8; 12] = [
    0x25, 0x21, 0x31, 0x25, 0x21, 0x20, 0x22, 0x24, 0x26, 0x32, 0x3f, 0x01,
];

/// Panics when the session panics, sends an invalid PDU, or does not complete each command exactly once.
pub(crate) fn check(input: &[u8]) {
    let mut source = Source::new(input);
    let wanted = Wanted {
        initial_r2t: source.chance(),
        first_burst_bytes: 1024,
        max_burst_bytes: 4096,
        ..Wanted::default()
    };
    let mut pair = Pair::new(wanted.clone(), wanted, 16, 1);
    let mut transmitter = Transmitter::new();
    let mut receiver = Receiver::new();
    receiver.set_max_data_bytes((1 << 24) - 1);
    let mut context = Context::default();
    let (mut submitted, mut completed) = (0, 0);
    let mut over = false;
    while !source.is_empty() && !over {
        match source.byte() {
            0..=60 if submitted - completed < 32 => {
                submit(&mut pair, &mut source, submitted);
                submitted += 1;
            }
            61..=64 => ask(&mut pair, &mut source, &context),
            _ => {
                let (bhs, data) = plausible(&mut source, &OPCODES, &context, 512);
                transmitter.push(&bhs, data);
                over = !deliver(&mut pair, &mut transmitter);
                context.numbers[0] = next_stat_sn(&bhs, context.numbers[0]);
            }
        }
        let now = pair.now();
        pair.initiator.pump(now, &mut pair.trace);
        while let Some(completion) = pair.initiator.poll_completion(now, &mut pair.trace) {
            assert!(
                completion.user < submitted,
                "{completion:?} was not asked for"
            );
            completed += 1;
        }
        while pair.initiator.poll_event().is_some() {}
        overhear(&mut pair, &mut receiver, &mut context);
    }
    let now = pair.now();
    pair.initiator.end(now, &mut pair.trace);
    while pair
        .initiator
        .poll_completion(now, &mut pair.trace)
        .is_some()
    {
        completed += 1;
    }
    assert_eq!(completed, submitted, "each command ends once");
}

fn submit(pair: &mut Pair, source: &mut Source<'_>, user: u64) {
    let blocks = u32::from(source.byte() % 24) + 1;
    let bytes = blocks as usize * BLOCK_BYTES;
    let lba = u64::from(source.byte());
    if source.chance() {
        pair.submit(
            cdb::write(lba, blocks, false),
            Transfer::Write(vec![1; bytes]),
            user,
        );
    } else {
        pair.submit(
            cdb::read(lba, blocks, false),
            Transfer::Read(vec![0; bytes]),
            user,
        );
    }
}

/// The initiator's next ExpStatSN, after a PDU that may have carried a StatSN.
fn next_stat_sn(bhs: &Bhs, expected: u32) -> u32 {
    // R2T carries it without consuming it, Data-In only with a status.
    let carries = match bhs[0] & 0x3f {
        0x31 => false,
        0x25 => bhs[1] & 0x01 != 0,
        _ => true,
    };
    if carries && word(bhs, 24) == expected {
        expected.wrapping_add(1)
    } else {
        expected
    }
}

/// A request other than reads and writes.
fn ask(pair: &mut Pair, source: &mut Source<'_>, context: &Context) {
    let now = pair.now();
    let lun = Lun::single_level(0).expect("a LUN");
    match source.byte() % 5 {
        0 => pair.initiator.ping(now, &mut pair.trace),
        1 => pair.initiator.logout(now, &mut pair.trace),
        2 => pair.initiator.send_targets(now, &mut pair.trace),
        3 => {
            let function = TaskManagementFunction::LogicalUnitReset;
            pair.initiator
                .manage(function, lun, None, now, &mut pair.trace)
        }
        _ => {
            let tag = context.task_tags.first().copied().map(TaskTag);
            let function = TaskManagementFunction::AbortTask;
            pair.initiator
                .manage(function, lun, tag, now, &mut pair.trace)
        }
    };
}

/// Delivers the target's output to the initiator; `false` once the session has ended.
fn deliver(pair: &mut Pair, transmitter: &mut Transmitter) -> bool {
    while !transmitter.pending().is_empty() {
        let now = pair.now();
        let connection = &mut pair.initiator.connections()[0];
        let bytes = copy(transmitter.pending(), connection.space());
        connection.filled(bytes, now);
        transmitter.sent(bytes);
        if pair.initiator.receive(0, now, &mut pair.trace).is_err() {
            return false;
        }
    }
    true
}

/// Takes the initiator's output, which must be valid PDUs, and learns the tags and numbers that it would accept.
fn overhear(pair: &mut Pair, receiver: &mut Receiver, context: &mut Context) {
    loop {
        let now = pair.now();
        let connection = &mut pair.initiator.connections()[0];
        let bytes = copy(connection.pending(), receiver.space());
        if bytes == 0 {
            return;
        }
        connection.sent(bytes, now, &mut pair.trace);
        receiver.filled(bytes);
        while let Some(pdu) = receiver.next().expect("whole PDUs") {
            Header::parse(pdu.bhs).expect("PDUs that can be read");
            context.note_tags(pdu.bhs);
            let cmd_sn = word(pdu.bhs, 24).wrapping_add(1);
            context.numbers = [word(pdu.bhs, 28), cmd_sn, cmd_sn.wrapping_add(15)];
        }
        pair.initiator.pump(now, &mut pair.trace);
    }
}
