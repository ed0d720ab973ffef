//! Numbering: CmdSN, StatSN, DataSN (RFC 7143 §4.2.2).
//!
//! That StatSN goes up by one with every status is seen in every test: the client checks it.

use libtest_mimic::Trial;
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::wire::{NopOut, RESERVED_TAG, RESERVED_TASK_TAG, ScsiCommand};
use wansan_peers::trial::{Stop, require};

use crate::case::{self, Case};
use crate::client::{Client, LEAD, Login, distinct};
use crate::peer::Peer;
use crate::wire::{equal, expect_pdu};

const CASES: [Case; 17] = [
    Case::new(
        "commands_advance_exp_cmd_sn",
        "§4.2.2.1: ExpCmdSN is the next CmdSN that the target expects",
        advances,
    ),
    Case::new(
        "immediate_requests_advance_nothing",
        "§4.2.2.1: \"For immediate delivery … CmdSN is not advanced\"",
        immediate,
    ),
    Case::new(
        "a_ping_that_is_not_immediate_takes_a_number",
        "§11.18: a NOP-Out without the I bit is numbered as any command",
        numbered_ping,
    ),
    Case::new(
        "a_command_below_the_window_is_ignored",
        "§4.2.2.1: \"The target MUST silently ignore any non-immediate command outside of this range or non-immediate duplicates within the range\"",
        below,
    )
    .tgtd_deviates("the peer closed the connection"),
    Case::new(
        "a_command_above_the_window_is_ignored",
        "§4.2.2.1: \"The target MUST silently ignore any non-immediate command outside of this range\"",
        above,
    ),
    Case::new(
        "a_command_waits_for_those_before_it",
        "§4.2.2.1: commands are delivered in CmdSN order, whatever order they come in",
        gap,
    ),
    Case::new(
        "a_duplicate_inside_the_window_is_ignored",
        "§4.2.2.1: \"non-immediate duplicates within the range\" are ignored",
        duplicate,
    ),
    Case::new(
        "an_immediate_request_passes_a_gap",
        "§4.2.2.1: an immediate request is delivered when it comes, not in CmdSN order",
        immediate_passes,
    ),
    Case::new(
        "the_window_never_shrinks",
        "§4.2.2.1: MaxCmdSN is not less than ExpCmdSN - 1, and never goes back",
        window,
    ),
    Case::new(
        "a_ping_is_answered_with_its_data",
        "§11.18: the data of the NOP-Out comes back in the NOP-In",
        echo,
    ),
    Case::new(
        "an_answer_to_a_ping_wants_no_answer",
        "§11.19.2: a NOP-In that answers a NOP-Out has the Target Transfer Tag 0xffffffff",
        no_answer_to_answers,
    ),
    Case::new(
        "a_ping_without_a_tag_has_no_answer",
        "§11.18: with the Initiator Task Tag 0xffffffff no NOP-In is sent",
        silent_ping,
    ),
    Case::new(
        "data_in_counts_from_zero",
        "§11.7.5: DataSN \"starts with 0\" and goes up by one in each Data-In of the command",
        data_sn,
    ),
    Case::new(
        "a_sequence_is_no_longer_than_a_burst",
        "§11.7.1: the F bit ends a sequence of at most MaxBurstLength",
        bursts,
    )
    .tgtd_deviates("has 5120 bytes"),
    Case::new(
        "the_last_data_in_ends_the_command",
        "§11.7.3: S is only in the last Data-In, with F",
        status_last,
    ),
    Case::new(
        "a_read_across_the_wrap_of_cmd_sn_is_numbered_on",
        "§4.2.2.1: serial number arithmetic: 0 follows 2^32-1",
        wrap,
    ),
    Case::new(
        "many_commands_may_be_under_way",
        "§4.2.2.1: as many as MaxCmdSN allows, each answered once",
        many,
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    case::trials("sequence", &CASES)
}

fn advances(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    for _ in 0..5 {
        let command = client.test_unit_ready();
        client.send(LEAD, command, &[])?;
        let response = client.good(LEAD, command.task_tag)?;
        equal("ExpCmdSN", response.exp_cmd_sn, command.cmd_sn.next())?;
    }
    Ok(())
}

/// The command for immediate delivery: it gives its CmdSN back.
fn at_once(client: &mut Client, command: ScsiCommand) -> ScsiCommand {
    client.cmd_sn = client.cmd_sn.sub(1);
    ScsiCommand {
        immediate: true,
        ..command
    }
}

fn immediate(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let exp_cmd_sn = client.ping(LEAD)?.exp_cmd_sn;
    equal("ExpCmdSN", exp_cmd_sn, client.cmd_sn)?;
    let command = client.test_unit_ready();
    let command = at_once(&mut client, command);
    client.send(LEAD, command, &[])?;
    let response = client.good(LEAD, command.task_tag)?;
    equal("ExpCmdSN", response.exp_cmd_sn, exp_cmd_sn)
}

fn numbered_ping(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let ping = NopOut {
        immediate: false,
        lun: client.lun,
        task_tag: client.tag(),
        transfer_tag: RESERVED_TAG,
        cmd_sn: client.take_cmd_sn(),
        exp_stat_sn: Sn(0),
    };
    client.send(LEAD, ping, &[])?;
    let (pong, _) = expect_pdu!(client.receive(LEAD)?, NopIn)?;
    equal("ExpCmdSN", pong.exp_cmd_sn, ping.cmd_sn.next())
}

fn below(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let mut command = client.test_unit_ready();
    client.cmd_sn = command.cmd_sn;
    command.cmd_sn = command.cmd_sn.sub(1);
    client.send(LEAD, command, &[])?;
    client.ping(LEAD)?;
    client.settle()
}

fn above(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    client.ping(LEAD)?;
    let mut command = client.test_unit_ready();
    client.cmd_sn = command.cmd_sn;
    command.cmd_sn = client.max_cmd_sn.add(1);
    client.send(LEAD, command, &[])?;
    client.ping(LEAD)?;
    client.settle()
}

fn gap(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let commands = [(); 3].map(|()| client.test_unit_ready());
    for late in [2, 1] {
        client.send(LEAD, commands[late], &[])?;
        let pong = client.ping(LEAD)?;
        equal("ExpCmdSN", pong.exp_cmd_sn, commands[0].cmd_sn)?;
    }
    client.send(LEAD, commands[0], &[])?;
    for command in commands {
        client.good(LEAD, command.task_tag)?;
    }
    Ok(())
}

fn duplicate(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let (first, second) = (client.test_unit_ready(), client.test_unit_ready());
    client.send(LEAD, second, &[])?;
    client.send(LEAD, second, &[])?;
    client.send(LEAD, first, &[])?;
    client.good(LEAD, first.task_tag)?;
    client.good(LEAD, second.task_tag)?;
    client.ping(LEAD)?;
    Ok(())
}

fn immediate_passes(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let (missing, held) = (client.test_unit_ready(), client.test_unit_ready());
    client.send(LEAD, held, &[])?;
    let urgent = client.test_unit_ready();
    let urgent = at_once(&mut client, urgent);
    client.send(LEAD, urgent, &[])?;
    client.good(LEAD, urgent.task_tag)?;
    client.send(LEAD, missing, &[])?;
    client.good(LEAD, missing.task_tag)?;
    client.good(LEAD, held.task_tag)?;
    Ok(())
}

fn window(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let mut greatest = client.ping(LEAD)?.max_cmd_sn;
    for lba in 0..32 {
        let read = client.read10(lba, 8);
        client.send(LEAD, read, &[])?;
        let received = loop {
            let received = client.receive(LEAD)?;
            let (exp, max) = (Sn(received.exp_cmd_sn()), Sn(received.max_cmd_sn()));
            require(greatest.le(max), || format!("MaxCmdSN went back to {max}"))?;
            require(exp.le(max.next()), || format!("{exp} is beyond {max}"))?;
            greatest = max;
            if received.stat_sn().is_some() {
                break received;
            }
        };
        equal("task", received.word(16), read.task_tag.0)?;
    }
    Ok(())
}

fn echo(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    for length in [0, 1, 3, 4, 511, 4096] {
        let (tag, data) = (client.tag(), distinct(length, length as u64));
        client.send_ping(LEAD, tag, &data)?;
        let (pong, received) = expect_pdu!(client.receive(LEAD)?, NopIn)?;
        equal("task", pong.task_tag, tag)?;
        require(received.data == data, || {
            format!(
                "{} bytes came back of {length}, or others",
                received.data.len()
            )
        })?;
    }
    Ok(())
}

fn no_answer_to_answers(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let pong = client.ping(LEAD)?;
    equal("Target Transfer Tag", pong.transfer_tag, RESERVED_TAG)
}

fn silent_ping(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    client.send_ping(LEAD, RESERVED_TASK_TAG, &[])?;
    client.ping(LEAD)?;
    Ok(())
}

fn data_sn(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[("MaxRecvDataSegmentLength", "1024")])?;
    for _ in 0..2 {
        // The client sees to DataSN and to the offsets.
        let (data, pdus) = client.read(LEAD, 0, 16)?;
        equal("bytes", data.len(), 8192)?;
        equal("Data-In PDUs", pdus.len(), 8)?;
    }
    Ok(())
}

fn bursts(peer: &Peer) -> Result<(), Stop> {
    let lengths = [
        ("MaxRecvDataSegmentLength", "1024"),
        ("MaxBurstLength", "4096"),
    ];
    let mut client = Client::log_in(peer, &lengths)?;
    let (_, pdus) = client.read(LEAD, 0, 32)?;
    let mut begun = 0;
    for (number, pdu) in pdus.iter().enumerate() {
        let end = pdus
            .get(number + 1)
            .map_or(16_384, |next| next.buffer_offset);
        require(end - begun <= 4096, || {
            format!("a sequence from byte {begun} on has {} bytes", end - begun)
        })?;
        if pdu.final_ {
            begun = end;
        }
    }
    equal("end of the last sequence", begun, 16_384)
}

fn status_last(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[("MaxRecvDataSegmentLength", "1024")])?;
    let (_, pdus) = client.read(LEAD, 0, 16)?;
    let (last, others) = pdus.split_last().expect("16 blocks were read");
    require(last.final_, || "the last Data-In has no F bit".to_owned())?;
    let early = others.iter().any(|pdu| pdu.status.is_some());
    require(!early, || "a status came before the end".to_owned())
}

fn wrap(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    login.request.cmd_sn = Sn(u32::MAX - 3);
    let mut client = login.finish(&[])?;
    client.settle()?;
    for _ in 0..8 {
        client.read(LEAD, 0, 1)?;
    }
    equal("ExpCmdSN", client.ping(LEAD)?.exp_cmd_sn, client.cmd_sn)
}

fn many(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    client.ping(LEAD)?;
    let room = client.max_cmd_sn.next().distance(client.cmd_sn).min(64);
    let commands: Vec<ScsiCommand> = (0..room).map(|_| client.test_unit_ready()).collect();
    for &command in &commands {
        client.send(LEAD, command, &[])?;
    }
    for command in commands {
        client.good(LEAD, command.task_tag)?;
    }
    client.ping(LEAD)?;
    Ok(())
}
