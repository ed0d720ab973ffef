//! How a write gets its data: immediate, unsolicited, asked for (RFC 7143 §4.2.5.2, §11.7, §11.8).

use libtest_mimic::Trial;
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::wire::{DataOut, RESERVED_TAG, ScsiCommand, ScsiResponse, ScsiStatus};
use wansan_peers::trial::{Stop, require};

use crate::case::{self, Case};
use crate::client::{Client, LEAD, Pairs, distinct};
use crate::peer::Peer;
use crate::wire::equal;

const CASES: [Case; 22] = [
    Case::new(
        "a_write_is_asked_for",
        "§11.8: R2TSN begins at 0 for each command, and Buffer Offset is where the data begins",
        first_r2t,
    ),
    Case::new(
        "r2ts_cover_the_write",
        "§11.8.4: \"The Desired Data Transfer Length MUST NOT be 0 and MUST NOT exceed MaxBurstLength\"",
        cover,
    ),
    Case::new(
        "r2ts_number_from_zero_in_each_command",
        "§11.8.1: R2TSN \"is the R2T PDU input PDU number within the command\" and starts with 0",
        numbers,
    ),
    Case::new(
        "no_more_r2ts_than_agreed_are_outstanding",
        "§13.17: at most MaxOutstandingR2T of one task wait for their data",
        one_outstanding,
    ),
    Case::new(
        "as_many_r2ts_as_agreed_come_at_once",
        "§11.8: \"The target may send several R2T PDUs … up to MaxOutstandingR2T\"",
        all_outstanding,
    )
    .tgtd_deviates("nothing came"),
    Case::new(
        "r2ts_of_several_tasks_are_apart",
        "§13.17: MaxOutstandingR2T bounds the R2Ts \"per task\"",
        several_tasks,
    ),
    Case::new(
        "an_r2t_advances_no_stat_sn",
        "§11.8.3: \"The StatSN for this connection is not advanced after this PDU is sent\"",
        no_stat_sn,
    ),
    Case::new(
        "immediate_data_is_not_asked_for_again",
        "§4.2.5.2: R2Ts ask for the data that did not come unsolicited",
        after_immediate,
    ),
    Case::new(
        "unsolicited_data_is_not_asked_for_again",
        "§13.14: FirstBurstLength bytes may come unsolicited, the rest is asked for",
        after_unsolicited,
    ),
    Case::new(
        "immediate_and_unsolicited_data_go_together",
        "§13.11: with InitialR2T=No, immediate data and Data-Out together make FirstBurstLength",
        immediate_and_unsolicited,
    ),
    Case::new(
        "a_write_may_be_immediate_altogether",
        "§13.11: \"immediate data … MUST NOT exceed\" the bounds, and then no R2T is needed",
        all_immediate,
    ),
    Case::new(
        "immediate_data_may_be_forbidden",
        "§11.4.7.2: unexpected unsolicited data, ABORTED COMMAND 0C 0C, when ImmediateData=No",
        immediate_forbidden,
    )
    .tgtd_deviates("status is Good"),
    Case::new(
        "unsolicited_data_may_be_forbidden",
        "§13.10: InitialR2T=Yes forbids unsolicited Data-Out; §11.4.7.2: ABORTED COMMAND 0C 0C",
        unsolicited_forbidden,
    )
    .tgtd_deviates("status is Good"),
    Case::new(
        "too_much_unsolicited_data_is_an_error",
        "§13.14: more than FirstBurstLength \"MUST NOT\" be sent; §11.4.7.2: ABORTED COMMAND 0C 0C",
        too_much_unsolicited,
    )
    .tgtd_deviates("expected ScsiResponse, not R2t"),
    Case::new(
        "too_little_unsolicited_data_is_an_error",
        "§11.4.7.2: unsolicited Data-Out of another amount than FirstBurstLength: incorrect amount of data, ABORTED COMMAND 0C 0D",
        too_little_unsolicited,
    )
    .tgtd_deviates("expected ScsiResponse, not R2t"),
    Case::new(
        "less_than_was_asked_for_is_an_error",
        "§11.4.7.2: the answer to an R2T does not match the amount requested: ABORTED COMMAND 0C 0D",
        too_little_solicited,
    )
    .tgtd_deviates("expected ScsiResponse, not R2t"),
    Case::new(
        "more_than_was_asked_for_is_an_error",
        "§11.7.1: Data-Out stays within the Desired Data Transfer Length of its R2T",
        too_much_solicited,
    )
    .tgtd_deviates("expected ScsiResponse, not R2t"),
    Case::new(
        "a_wrong_transfer_tag_moves_no_data",
        "§11.7.4: solicited Data-Out carries the Target Transfer Tag of its R2T",
        wrong_transfer_tag,
    )
    .tgtd_deviates("status is Good"),
    Case::new(
        "a_status_waits_for_all_data",
        "§4.2.5.2: a write ends after its data, not before",
        status_waits,
    ),
    Case::new(
        "data_numbers_begin_anew_for_each_r2t",
        "§11.7.5: DataSN of Data-Out counts within the sequence of one R2T, from 0",
        many_pdus,
    ),
    Case::new(
        "the_write_counts_its_r2ts",
        "§11.4.8: ExpDataSN is the number of R2T PDUs that the target has sent for the command",
        counts_r2ts,
    )
    .tgtd_deviates("ExpDataSN is 0"),
    Case::new(
        "data_out_of_place_is_an_error",
        "§13.18: with DataPDUInOrder=Yes the offsets of a sequence rise without gaps",
        out_of_place,
    )
    .tgtd_deviates("expected ScsiResponse, not R2t"),
];

pub(crate) fn trials() -> Vec<Trial> {
    case::trials("r2t", &CASES)
}

/// No unsolicited data at all, one R2T at a time, in bursts of 8 KiB.
const ASKED: Pairs<'static> = &[
    ("InitialR2T", "Yes"),
    ("ImmediateData", "No"),
    ("MaxBurstLength", "8192"),
    ("FirstBurstLength", "8192"),
    ("MaxOutstandingR2T", "1"),
];
/// Unsolicited data of any kind, up to 4 KiB.
const UNASKED: Pairs<'static> = &[
    ("InitialR2T", "No"),
    ("ImmediateData", "Yes"),
    ("MaxBurstLength", "8192"),
    ("FirstBurstLength", "4096"),
];
const FIRST_BURST: usize = 4096;

fn first_r2t(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let write = client.write10(0, 8);
    client.send(LEAD, write, &[])?;
    let r2t = client.r2t(LEAD, write.task_tag)?;
    equal("R2TSN", r2t.r2t_sn, 0)?;
    equal("Buffer Offset", r2t.buffer_offset, 0)?;
    equal("length", r2t.desired_data_transfer_length, 4096)?;
    client.answer_r2t(LEAD, &r2t, &[7; 4096])?;
    client.good(LEAD, write.task_tag)?;
    Ok(())
}

fn cover(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let data = distinct(20_480, 3);
    let mut end = 0;
    for (number, r2t) in client.write(LEAD, 4, &data)?.iter().enumerate() {
        equal("R2TSN", r2t.r2t_sn, number as u32)?;
        equal("Buffer Offset", r2t.buffer_offset, end)?;
        let length = r2t.desired_data_transfer_length;
        require(length <= 8192, || format!("it asks for {length} bytes"))?;
        end += length;
    }
    equal("bytes asked for", end, 20_480)?;
    client.holds(LEAD, 4, &data)
}

fn numbers(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    for round in 0..3 {
        let r2ts = client.write(LEAD, 0, &distinct(16_384, round))?;
        let numbers: Vec<u32> = r2ts.iter().map(|r2t| r2t.r2t_sn).collect();
        equal("R2TSNs", numbers, vec![0, 1])?;
    }
    Ok(())
}

fn one_outstanding(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let data = distinct(32_768, 5);
    let write = client.write10(0, 64);
    client.send(LEAD, write, &[])?;
    for _ in 0..4 {
        let r2t = client.r2t(LEAD, write.task_tag)?;
        // Nothing else comes before its answer.
        client.ping(LEAD)?;
        client.answer_r2t(LEAD, &r2t, &data)?;
    }
    client.good(LEAD, write.task_tag)?;
    client.holds(LEAD, 0, &data)
}

fn all_outstanding(peer: &Peer) -> Result<(), Stop> {
    let several = [&ASKED[..4], &[("MaxOutstandingR2T", "3")]].concat();
    let mut client = Client::log_in(peer, &several)?;
    equal("MaxOutstandingR2T", client.agreed.max_outstanding_r2t, 3)?;
    let data = distinct(65_536, 6);
    let write = client.write10(0, 128);
    client.send(LEAD, write, &[])?;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(client.r2t(LEAD, write.task_tag)?);
    }
    client.ping(LEAD)?;
    for r2t in &open {
        client.answer_r2t(LEAD, r2t, &data)?;
    }
    client.serve_write(LEAD, write.task_tag, &data)?;
    client.holds(LEAD, 0, &data)
}

fn several_tasks(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let data = distinct(4096, 8);
    let writes: Vec<ScsiCommand> = (0..4).map(|n| client.write10(n * 8, 8)).collect();
    for &write in &writes {
        client.send(LEAD, write, &[])?;
    }
    let mut open = Vec::new();
    for _ in &writes {
        open.push(crate::wire::expect_pdu!(client.receive(LEAD)?, R2t)?.0);
    }
    let mut tags: Vec<u32> = open.iter().map(|r2t| r2t.transfer_tag).collect();
    tags.sort_unstable();
    tags.dedup();
    equal("transfer tags", tags.len(), 4)?;
    // The tasks do not wait for each other: the last is served first.
    for r2t in open.iter().rev() {
        client.answer_r2t(LEAD, r2t, &data)?;
        client.good(LEAD, r2t.task_tag)?;
    }
    client.holds(LEAD, 0, &data)?;
    client.holds(LEAD, 24, &data)
}

fn no_stat_sn(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let write = client.write10(0, 8);
    client.send(LEAD, write, &[])?;
    let r2t = client.r2t(LEAD, write.task_tag)?;
    equal("StatSN", r2t.stat_sn, client.connections[LEAD].exp_stat_sn)?;
    let pong = client.ping(LEAD)?;
    equal("StatSN behind it", pong.stat_sn, r2t.stat_sn)
}

fn after_immediate(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, UNASKED)?;
    let data = distinct(8192, 9);
    let write = client.write10(0, 16);
    client.send(LEAD, write, &data[..1024])?;
    let r2t = client.r2t(LEAD, write.task_tag)?;
    equal("Buffer Offset", r2t.buffer_offset, 1024)?;
    client.answer_r2t(LEAD, &r2t, &data)?;
    client.serve_write(LEAD, write.task_tag, &data)?;
    client.holds(LEAD, 0, &data)
}

/// A write of `data` with `immediate` bytes along and `unsolicited` bytes behind it, in PDUs of
/// 1 KiB. `ends`: the last of them has the F bit.
fn unasked(
    client: &mut Client,
    data: &[u8],
    immediate: usize,
    unsolicited: usize,
) -> Result<ScsiCommand, Stop> {
    let mut write = client.write10(0, (data.len() / 512) as u16);
    write.final_ = false;
    client.send(LEAD, write, &data[..immediate])?;
    let end = immediate + unsolicited;
    for (number, from) in (immediate..end).step_by(1024).enumerate() {
        let to = end.min(from + 1024);
        let pdu = DataOut {
            final_: to == end,
            lun: client.lun,
            task_tag: write.task_tag,
            transfer_tag: RESERVED_TAG,
            exp_stat_sn: Sn(0),
            data_sn: number as u32,
            buffer_offset: from as u32,
        };
        client.send(LEAD, pdu, &data[from..to])?;
    }
    Ok(write)
}

fn after_unsolicited(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, UNASKED)?;
    require(!client.agreed.initial_r2t, || {
        "InitialR2T is Yes".to_owned()
    })?;
    let data = distinct(8192, 10);
    let write = unasked(&mut client, &data, 0, FIRST_BURST)?;
    let r2t = client.r2t(LEAD, write.task_tag)?;
    equal("Buffer Offset", r2t.buffer_offset as usize, FIRST_BURST)?;
    client.answer_r2t(LEAD, &r2t, &data)?;
    client.good(LEAD, write.task_tag)?;
    client.holds(LEAD, 0, &data)
}

fn immediate_and_unsolicited(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, UNASKED)?;
    let data = distinct(FIRST_BURST, 11);
    let write = unasked(&mut client, &data, 1024, FIRST_BURST - 1024)?;
    client.good(LEAD, write.task_tag)?;
    client.holds(LEAD, 0, &data)
}

fn all_immediate(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, UNASKED)?;
    let data = distinct(2048, 12);
    let write = client.write10(0, 4);
    client.send(LEAD, write, &data)?;
    client.good(LEAD, write.task_tag)?;
    client.holds(LEAD, 0, &data)
}

/// The status of a write that the target must not carry out, with the additional sense code that
/// says so. Its R2Ts are answered until then.
fn fails(
    client: &mut Client,
    write: ScsiCommand,
    additional: [u8; 2],
) -> Result<ScsiResponse, Stop> {
    let (response, received) = crate::wire::expect_pdu!(client.receive(LEAD)?, ScsiResponse)?;
    equal("task", response.task_tag, write.task_tag)?;
    equal("status", response.status, ScsiStatus::CheckCondition)?;
    // Two bytes of length, then sense data of the fixed format (§11.4.7).
    let sense = &received.data[2..];
    equal("sense key", sense[2] & 0x0f, 0x0b)?;
    equal("additional sense", [sense[12], sense[13]], additional)?;
    Ok(response)
}

const UNEXPECTED: [u8; 2] = [0x0c, 0x0c];
const INCORRECT_AMOUNT: [u8; 2] = [0x0c, 0x0d];

fn immediate_forbidden(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let write = client.write10(0, 4);
    client.send(LEAD, write, &[9; 2048])?;
    fails(&mut client, write, UNEXPECTED)?;
    client.holds(LEAD, 0, &[0; 2048])
}

fn unsolicited_forbidden(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let write = unasked(&mut client, &[9; 2048], 0, 2048)?;
    fails(&mut client, write, UNEXPECTED)?;
    client.holds(LEAD, 0, &[0; 2048])
}

fn too_much_unsolicited(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, UNASKED)?;
    let write = unasked(&mut client, &[9; 8192], 0, 5120)?;
    fails(&mut client, write, UNEXPECTED)?;
    client.holds(LEAD, 0, &[0; 8192])
}

fn too_little_unsolicited(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, UNASKED)?;
    let write = unasked(&mut client, &[9; 8192], 0, 2048)?;
    fails(&mut client, write, INCORRECT_AMOUNT)?;
    client.holds(LEAD, 0, &[0; 8192])
}

fn too_little_solicited(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let write = client.write10(0, 8);
    client.send(LEAD, write, &[])?;
    let r2t = client.r2t(LEAD, write.task_tag)?;
    let (mut pdu, ..) = client.sequence(LEAD, &r2t)[0];
    pdu.final_ = true;
    client.send(LEAD, pdu, &[9; 1024])?;
    fails(&mut client, write, INCORRECT_AMOUNT)?;
    client.holds(LEAD, 0, &[0; 4096])
}

fn too_much_solicited(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let write = client.write10(0, 20);
    client.send(LEAD, write, &[])?;
    let r2t = client.r2t(LEAD, write.task_tag)?;
    let (mut pdu, ..) = client.sequence(LEAD, &r2t)[0];
    pdu.final_ = false;
    client.send(LEAD, pdu, &[9; 8192])?;
    (pdu.data_sn, pdu.buffer_offset, pdu.final_) = (1, 8192, true);
    client.send(LEAD, pdu, &[9; 512])?;
    let (response, _) = crate::wire::expect_pdu!(client.receive(LEAD)?, ScsiResponse)?;
    equal("status", response.status, ScsiStatus::CheckCondition)?;
    client.holds(LEAD, 0, &[0; 10_240])
}

fn wrong_transfer_tag(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let write = client.write10(0, 8);
    client.send(LEAD, write, &[])?;
    let r2t = client.r2t(LEAD, write.task_tag)?;
    let (mut pdu, ..) = client.sequence(LEAD, &r2t)[0];
    pdu.transfer_tag = r2t.transfer_tag ^ 0x5a5a;
    client.send(LEAD, pdu, &[9; 4096])?;
    let (response, _) = crate::wire::expect_pdu!(client.receive(LEAD)?, ScsiResponse)?;
    equal("status", response.status, ScsiStatus::CheckCondition)?;
    client.holds(LEAD, 0, &[0; 4096])
}

fn out_of_place(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let write = client.write10(0, 8);
    client.send(LEAD, write, &[])?;
    let r2t = client.r2t(LEAD, write.task_tag)?;
    let (mut pdu, ..) = client.sequence(LEAD, &r2t)[0];
    pdu.final_ = false;
    client.send(LEAD, pdu, &[9; 1024])?;
    (pdu.data_sn, pdu.buffer_offset, pdu.final_) = (1, 2048, true);
    client.send(LEAD, pdu, &[9; 2048])?;
    let (response, _) = crate::wire::expect_pdu!(client.receive(LEAD)?, ScsiResponse)?;
    equal("status", response.status, ScsiStatus::CheckCondition)?;
    client.holds(LEAD, 0, &[0; 4096])
}

fn status_waits(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let data = distinct(8192, 13);
    let write = client.write10(0, 16);
    client.send(LEAD, write, &[])?;
    let r2t = client.r2t(LEAD, write.task_tag)?;
    let (mut pdu, ..) = client.sequence(LEAD, &r2t)[0];
    pdu.final_ = false;
    client.send(LEAD, pdu, &data[..4096])?;
    client.ping(LEAD)?;
    (pdu.data_sn, pdu.buffer_offset, pdu.final_) = (1, 4096, true);
    client.send(LEAD, pdu, &data[4096..])?;
    client.good(LEAD, write.task_tag)?;
    client.holds(LEAD, 0, &data)
}

fn many_pdus(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    // Sequences of eight PDUs each, whose DataSN the client counts from 0.
    client.connections[LEAD].max_send_bytes = 1024;
    let data = distinct(24_576, 14);
    client.write(LEAD, 8, &data)?;
    client.holds(LEAD, 8, &data)
}

fn counts_r2ts(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, ASKED)?;
    let data = distinct(24_576, 15);
    let write = client.write10(0, 48);
    client.send(LEAD, write, &[])?;
    for _ in 0..3 {
        let r2t = client.r2t(LEAD, write.task_tag)?;
        client.answer_r2t(LEAD, &r2t, &data)?;
    }
    let response = client.good(LEAD, write.task_tag)?;
    equal("ExpDataSN", response.exp_data_sn, 3)
}
