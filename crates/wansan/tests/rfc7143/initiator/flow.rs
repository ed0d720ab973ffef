//! How the initiator moves data: command window, R2T, Data-Out, Data-In, digests.

use wansan_iscsi::wire::{Header, RESERVED_TAG, ScsiStatus};
use wansan_peers::trial::{Stop, require};

use super::Play;
use super::fake_target::{Bench, Portal, Target};
use crate::client::Pairs;
use crate::wire::{equal, expect_pdu};

pub(super) const PLAYS: [Play; 16] = [
    Play::new(
        "keeps_to_the_command_window",
        "§4.2.2.1: the initiator MUST NOT send a command with a CmdSN above MaxCmdSN",
        window,
    ),
    Play::new(
        "brings_what_an_r2t_asks_for",
        "§11.7: Data-Out has the R2T's tag, offsets that follow each other, DataSN from 0, and F at the end",
        answers_r2t,
    ),
    Play::new(
        "keeps_to_the_segments_of_the_target",
        "§13.12: no Data-Out is longer than the target's MaxRecvDataSegmentLength",
        short_segments,
    ),
    Play::new(
        "answers_r2ts_in_their_order",
        "§13.19: with DataSequenceInOrder=Yes the sequences come in the order of their R2Ts",
        r2ts_in_order,
    ),
    Play::new(
        "sends_nothing_unasked_where_that_is_forbidden",
        "§13.10, §13.11: with InitialR2T=Yes and ImmediateData=No a write brings no data of its own",
        nothing_unasked,
    ),
    Play::new(
        "sends_immediate_data_where_it_may",
        "§13.11: immediate data is at most FirstBurstLength and one data segment",
        immediate,
    ),
    Play::new(
        "sends_the_whole_first_burst_or_nothing",
        "§11.4.7.2: unsolicited Data-Out adds up to FirstBurstLength, or to the whole write",
        first_burst,
    ),
    Play::new(
        "refuses_an_r2t_beyond_the_write",
        "§7.13: an R2T for data that the command does not have is a protocol error",
        r2t_beyond,
    ),
    Play::new(
        "refuses_more_r2ts_than_agreed",
        "§13.17: at most MaxOutstandingR2T of one task are outstanding",
        r2t_too_many,
    ),
    Play::new(
        "brings_nothing_when_asked_for_nothing",
        "§11.8.4: \"The Desired Data Transfer Length MUST NOT be 0\": LIO's are passed over",
        r2t_for_nothing,
    ),
    Play::new(
        "takes_data_in_its_order",
        "§11.7.5: Data-In in several PDUs, DataSN from 0, then the status",
        data_in_pieces,
    ),
    Play::new(
        "refuses_data_out_of_place",
        "§13.18: with DataPDUInOrder=Yes offsets follow each other",
        data_out_of_place,
    ),
    Play::new(
        "misses_a_lost_data_pdu",
        "§7.9: a gap in DataSN is a sequence error",
        data_sn_gap,
    ),
    Play::new(
        "misses_a_lost_status",
        "§4.2.2.2, §7.9: a gap in StatSN is a sequence error",
        stat_sn_gap,
    ),
    Play::new(
        "takes_no_data_with_a_wrong_digest",
        "§7.8: a data digest error: the PDU is discarded, and at level 0 the task or session is over",
        wrong_data_digest,
    ),
    Play::new(
        "leaves_after_a_wrong_header_digest",
        "§7.8: a header digest error: the PDU is discarded, and the connection closed",
        wrong_header_digest,
    ),
];

/// One command after the other.
const READS: [&str; 4] = ["--count", "4", "--parallel", "1"];
const WRITES: [&str; 6] = ["--count", "2", "--parallel", "1", "--op", "write"];
/// The length of each I/O.
const IO_BYTES: u32 = 4096;

/// An initiator that reads, or does as `arguments` say, and its target.
fn play(arguments: &[&str], answers: Pairs<'_>) -> Result<(Bench, Target), Stop> {
    let portal = Portal::open()?;
    let bench = Bench::start(&portal, arguments)?;
    let target = portal.serve(answers)?;
    Ok((bench, target))
}

fn window() -> Result<(), Stop> {
    let (bench, mut target) = play(&["--count", "8", "--parallel", "8"], &[])?;
    // The window of login is wide: it becomes narrow only as MaxCmdSN stays where it is.
    let max_cmd_sn = target.login.cmd_sn.add(63);
    target.window = 1;
    let mut open = Vec::new();
    for _ in 0..8 {
        let (command, _) = target.command()?;
        require(command.cmd_sn.le(max_cmd_sn), || {
            format!("CmdSN {} is above {max_cmd_sn}", command.cmd_sn)
        })?;
        open.push(command);
    }
    target.window = 64;
    for command in open {
        target.carry_out(&command)?;
    }
    target.serve_to_the_end()?;
    bench.ends_well()
}

/// Takes in one sequence of Data-Out; fails unless it is as it must be. Gives the lengths.
fn sequence(
    target: &mut Target,
    transfer_tag: u32,
    from: u32,
    length: u32,
) -> Result<Vec<usize>, Stop> {
    let mut lengths = Vec::new();
    let mut offset = from;
    loop {
        let (pdu, received) = expect_pdu!(target.receive()?, DataOut)?;
        equal("Target Transfer Tag", pdu.transfer_tag, transfer_tag)?;
        equal("DataSN", pdu.data_sn, lengths.len() as u32)?;
        equal("Buffer Offset", pdu.buffer_offset, offset)?;
        offset += received.data.len() as u32;
        lengths.push(received.data.len());
        equal("F at the end", pdu.final_, offset == from + length)?;
        if pdu.final_ {
            return Ok(lengths);
        }
    }
}

fn answers_r2t() -> Result<(), Stop> {
    let (bench, mut target) = play(&WRITES, &[])?;
    let (write, _) = target.command()?;
    for (number, from) in [0, 1024, 3072].into_iter().enumerate() {
        let length = [1024, 2048, 1024][number];
        target.ask(&write, number as u32, from, length)?;
        sequence(&mut target, 0x5000 + number as u32, from, length)?;
    }
    target.respond(&write, ScsiStatus::Good)?;
    target.serve_to_the_end()?;
    bench.ends_well()
}

fn short_segments() -> Result<(), Stop> {
    let (bench, mut target) = play(&WRITES, &[("MaxRecvDataSegmentLength", "1024")])?;
    let (write, _) = target.command()?;
    target.ask(&write, 0, 0, IO_BYTES)?;
    let lengths = sequence(&mut target, 0x5000, 0, IO_BYTES)?;
    let longest = lengths.iter().max().copied().unwrap_or_default();
    require(longest <= 1024, || format!("a segment has {longest} bytes"))?;
    target.respond(&write, ScsiStatus::Good)?;
    target.serve_to_the_end()?;
    bench.ends_well()
}

fn r2ts_in_order() -> Result<(), Stop> {
    let (bench, mut target) = play(&WRITES, &[("MaxOutstandingR2T", "2")])?;
    let (write, _) = target.command()?;
    target.ask(&write, 0, 0, 2048)?;
    target.ask(&write, 1, 2048, 2048)?;
    sequence(&mut target, 0x5000, 0, 2048)?;
    sequence(&mut target, 0x5001, 2048, 2048)?;
    target.respond(&write, ScsiStatus::Good)?;
    target.serve_to_the_end()?;
    bench.ends_well()
}

fn nothing_unasked() -> Result<(), Stop> {
    let (bench, mut target) = play(&WRITES, &[("InitialR2T", "Yes"), ("ImmediateData", "No")])?;
    let (write, received) = target.command()?;
    require(received.data.is_empty(), || "it brings data".to_owned())?;
    require(write.final_, || "it announces Data-Out".to_owned())?;
    // What comes next answers this, and nothing came before it.
    target.ping(0x99, &[])?;
    let (pong, _) = expect_pdu!(target.receive()?, NopOut)?;
    equal("tag of the pong", pong.transfer_tag, 0x99)?;
    target.carry_out(&write)?;
    target.serve_to_the_end()?;
    bench.ends_well()
}

fn immediate() -> Result<(), Stop> {
    let answers = [
        ("InitialR2T", "Yes"),
        ("ImmediateData", "Yes"),
        ("FirstBurstLength", "2048"),
    ];
    let (bench, mut target) = play(&WRITES, &answers)?;
    for _ in 0..2 {
        let (write, received) = target.command()?;
        let came = received.data.len() as u32;
        require(came <= 2048, || format!("{came} bytes are immediate"))?;
        require(write.final_, || "it announces Data-Out".to_owned())?;
        target.ask(&write, 0, came, IO_BYTES - came)?;
        sequence(&mut target, 0x5000, came, IO_BYTES - came)?;
        target.respond(&write, ScsiStatus::Good)?;
    }
    target.serve_to_the_end()?;
    bench.ends_well()
}

fn first_burst() -> Result<(), Stop> {
    let answers = [
        ("InitialR2T", "No"),
        ("ImmediateData", "Yes"),
        ("FirstBurstLength", "2048"),
        ("MaxRecvDataSegmentLength", "1024"),
    ];
    let (bench, mut target) = play(&WRITES, &answers)?;
    for _ in 0..2 {
        let (write, received) = target.command()?;
        let mut came = received.data.len() as u32;
        if !write.final_ {
            let rest = 2048 - came;
            sequence(&mut target, RESERVED_TAG, came, rest)?;
            came = 2048;
        }
        target.ask(&write, 0, came, IO_BYTES - came)?;
        sequence(&mut target, 0x5000, came, IO_BYTES - came)?;
        target.respond(&write, ScsiStatus::Good)?;
    }
    target.serve_to_the_end()?;
    bench.ends_well()
}

fn r2t_beyond() -> Result<(), Stop> {
    let (_bench, mut target) = play(&WRITES, &[])?;
    let (write, _) = target.command()?;
    target.ask(&write, 0, 2048, IO_BYTES)?;
    target.is_given_up()
}

fn r2t_too_many() -> Result<(), Stop> {
    let (_bench, mut target) = play(&WRITES, &[("MaxOutstandingR2T", "1")])?;
    let (write, _) = target.command()?;
    // Both in one piece of the stream, so that no data can come in between.
    let one = target.r2t(&write, 0, 0, 1024);
    let two = target.r2t(&write, 1, 1024, 1024);
    let both = [target.wire.encode(one, &[]), target.wire.encode(two, &[])].concat();
    target.wire.send_bytes(&both)?;
    target.is_given_up()
}

fn r2t_for_nothing() -> Result<(), Stop> {
    // It does not count among those that are outstanding.
    let (bench, mut target) = play(&WRITES, &[("MaxOutstandingR2T", "1")])?;
    let (write, _) = target.command()?;
    target.ask(&write, 0, 0, 0)?;
    target.ask(&write, 1, 0, IO_BYTES)?;
    sequence(&mut target, 0x5001, 0, IO_BYTES)?;
    target.ask(&write, 2, IO_BYTES, 0)?;
    target.respond(&write, ScsiStatus::Good)?;
    target.serve_to_the_end()?;
    bench.ends_well()
}

fn data_in_pieces() -> Result<(), Stop> {
    let (bench, mut target) = play(&READS, &[])?;
    let (read, _) = target.command()?;
    target.data_in(&read, 0, 0, &[0; 1000], false)?;
    target.data_in(&read, 1, 1000, &[0; 96], false)?;
    target.data_in(&read, 2, 1096, &[0; 3000], false)?;
    target.respond(&read, ScsiStatus::Good)?;
    target.serve_to_the_end()?;
    bench.ends_well()
}

fn data_out_of_place() -> Result<(), Stop> {
    let (_bench, mut target) = play(&READS, &[])?;
    let (read, _) = target.command()?;
    target.data_in(&read, 0, 2048, &[0; 2048], false)?;
    target.is_given_up()
}

fn data_sn_gap() -> Result<(), Stop> {
    let (_bench, mut target) = play(&READS, &[])?;
    let (read, _) = target.command()?;
    target.data_in(&read, 0, 0, &[0; 2048], false)?;
    target.data_in(&read, 2, 2048, &[0; 2048], false)?;
    target.is_given_up()
}

fn stat_sn_gap() -> Result<(), Stop> {
    let (_bench, mut target) = play(&READS, &[])?;
    let (read, _) = target.command()?;
    target.take_stat_sn();
    target.data_in(&read, 0, 0, &[0; IO_BYTES as usize], true)?;
    target.is_given_up()
}

/// Answers the first read with one bit of the PDU wrong.
fn damaged(digest: &str, place: usize) -> Result<(), Stop> {
    let (bench, mut target) = play(
        &[&READS[..], &["--data-digest", "accept"]].concat(),
        &[(digest, "CRC32C")],
    )?;
    let (read, _) = target.command()?;
    let header = target.data_in_header(&read, true);
    let mut bytes = target.wire.encode(header, &[0; IO_BYTES as usize]);
    bytes[place] ^= 0x20;
    target.wire.send_bytes(&bytes)?;
    loop {
        match target.wire.receive_or_end()? {
            // At level 0 the task may be over alone: then another command comes, or a logout.
            None => break,
            Some(received) => match received.header {
                Header::ScsiCommand(_) | Header::LogoutRequest(_) => break,
                Header::NopOut(_) => {}
                other => return Err(Stop::Failed(format!("unexpected {other:?}"))),
            },
        }
    }
    drop(bench);
    Ok(())
}

fn wrong_data_digest() -> Result<(), Stop> {
    damaged("DataDigest", 100)
}

fn wrong_header_digest() -> Result<(), Stop> {
    damaged("HeaderDigest", 48)
}
