//! What the initiator makes of pings, Rejects and asynchronous messages.

use wansan_iscsi::wire::{
    AsyncEvent, AsyncMessage, Header, Lun, RESERVED_TAG, RESERVED_TASK_TAG, Reject, RejectReason,
    ScsiStatus,
};
use wansan_peers::trial::{Stop, require};

use super::Play;
use super::fake_target::{Bench, Portal, Target, bytes_of};
use crate::wire::{equal, expect_pdu};

pub(super) const PLAYS: [Play; 10] = [
    Play::new(
        "answers_a_ping",
        "§11.18, §11.19: the NOP-Out has the ping's tag, LUN and data, and no task of its own",
        pong,
    ),
    Play::new(
        "does_not_answer_news",
        "§11.19: a NOP-In with the Target Transfer Tag 0xffffffff wants no answer",
        no_pong,
    ),
    Play::new(
        "takes_a_wider_window_from_a_nop_in",
        "§11.19: a NOP-In may tell ExpCmdSN and MaxCmdSN, which count as in any PDU",
        wider_window,
    ),
    Play::new(
        "fails_a_rejected_command_alone",
        "§11.17: the Reject carries the header of the PDU that it is about; others go on",
        rejected,
    ),
    Play::new(
        "passes_over_vendors_events",
        "§11.9.1: event 255 is vendor specific; who does not know it goes on",
        || passes_over(AsyncEvent::Vendor),
    ),
    Play::new(
        "passes_over_scsi_events",
        "§11.9.1: event 0 is about SCSI, and the session goes on",
        || passes_over(AsyncEvent::ScsiEvent),
    ),
    Play::new(
        "leaves_when_asked_to_log_out",
        "§11.9.1: event 1: the initiator \"MUST honor this request by issuing a Logout\", or is disconnected",
        || leaves(AsyncEvent::LogoutRequest, 0),
    ),
    Play::new(
        "knows_that_its_connection_is_dropped",
        "§11.9.1: event 2: the connection of CID Parameter1 will be dropped",
        || leaves(AsyncEvent::DropConnection, 0),
    ),
    Play::new(
        "knows_that_its_session_is_dropped",
        "§11.9.1: event 3: all connections of the session will be dropped",
        || leaves(AsyncEvent::DropAllConnections, 0),
    ),
    Play::new(
        "reports_a_failed_command",
        "§11.4.2: a status other than GOOD is the command's result, not the session's end",
        failed_command,
    ),
];

const READS: [&str; 4] = ["--count", "4", "--parallel", "1"];

fn play() -> Result<(Portal, Bench, Target), Stop> {
    let portal = Portal::open()?;
    let bench = Bench::start(&portal, &READS)?;
    let target = portal.serve(&[])?;
    Ok((portal, bench, target))
}

fn pong() -> Result<(), Stop> {
    let (_portal, bench, mut target) = play()?;
    let (read, _) = target.command()?;
    target.ping(0x4242, b"are you there")?;
    let (pong, received) = expect_pdu!(target.receive()?, NopOut)?;
    equal("Target Transfer Tag", pong.transfer_tag, 0x4242)?;
    equal("task", pong.task_tag, RESERVED_TASK_TAG)?;
    require(pong.immediate, || {
        "§11.18: with the task tag 0xffffffff the I bit is 1".to_owned()
    })?;
    equal("data", received.data, b"are you there".to_vec())?;
    target.carry_out(&read)?;
    target.serve_to_the_end()?;
    bench.ends_well()
}

fn no_pong() -> Result<(), Stop> {
    let (_portal, bench, mut target) = play()?;
    let (read, _) = target.command()?;
    target.ping(RESERVED_TAG, &[])?;
    target.ping(0x11, &[])?;
    let (pong, _) = expect_pdu!(target.receive()?, NopOut)?;
    equal("Target Transfer Tag", pong.transfer_tag, 0x11)?;
    target.carry_out(&read)?;
    target.serve_to_the_end()?;
    bench.ends_well()
}

fn wider_window() -> Result<(), Stop> {
    let portal = Portal::open()?;
    let bench = Bench::start(&portal, &["--count", "80", "--parallel", "80"])?;
    let mut target = portal.serve(&[])?;
    let mut open = Vec::new();
    // READ CAPACITY has taken one of the 64 numbers that login gave, and its answer one more.
    target.window = 1;
    let (first, _) = target.command()?;
    open.push(first);
    while open.len() < 63 {
        open.push(target.command()?.0);
    }
    target.ping(0x12, &[])?;
    let (pong, _) = expect_pdu!(target.receive()?, NopOut)?;
    equal("tag: no command came before it", pong.transfer_tag, 0x12)?;
    target.window = 32;
    target.ping(RESERVED_TAG, &[])?;
    while open.len() < 80 {
        open.push(target.command()?.0);
    }
    for command in open {
        target.carry_out(&command)?;
    }
    target.serve_to_the_end()?;
    bench.ends_well()
}

fn rejected() -> Result<(), Stop> {
    let (_portal, bench, mut target) = play()?;
    let (read, _) = target.command()?;
    let reject = Reject {
        reason: RejectReason::CommandNotSupported,
        stat_sn: target.take_stat_sn(),
        exp_cmd_sn: target.exp_cmd_sn,
        max_cmd_sn: target.max_cmd_sn(),
        data_sn: 0,
    };
    target.wire.send(reject, &bytes_of(read))?;
    target.serve_to_the_end()?;
    let (_, printed) = bench.end()?;
    require(printed.contains("\"errors\":1"), || printed)
}

fn failed_command() -> Result<(), Stop> {
    let (_portal, bench, mut target) = play()?;
    let (read, _) = target.command()?;
    target.respond(&read, ScsiStatus::ReservationConflict)?;
    target.serve_to_the_end()?;
    let (_, printed) = bench.end()?;
    require(printed.contains("\"errors\":1"), || printed)
}

fn tell(target: &mut Target, event: AsyncEvent, cid: u16) -> Result<(), Stop> {
    let message = AsyncMessage {
        lun: Lun::default(),
        stat_sn: target.take_stat_sn(),
        exp_cmd_sn: target.exp_cmd_sn,
        max_cmd_sn: target.max_cmd_sn(),
        event,
        vendor_code: 9,
        parameter1: cid,
        parameter2: 0,
        parameter3: 5,
    };
    target.wire.send(message, &[])
}

fn passes_over(event: AsyncEvent) -> Result<(), Stop> {
    let (_portal, bench, mut target) = play()?;
    let (read, _) = target.command()?;
    tell(&mut target, event, 0)?;
    target.carry_out(&read)?;
    target.serve_to_the_end()?;
    bench.ends_well()
}

/// The initiator logs out or gives the connection up, and sends no command on it any more.
fn leaves(event: AsyncEvent, cid: u16) -> Result<(), Stop> {
    let (_portal, _bench, mut target) = play()?;
    let (read, _) = target.command()?;
    tell(&mut target, event, cid)?;
    // It may have given the connection up before the answer goes out, which then cannot; that it
    // has gone shows below.
    let _ = target.carry_out(&read);
    loop {
        match target
            .wire
            .receive_or_end()?
            .map(|received| received.header)
        {
            None | Some(Header::LogoutRequest(_)) => return Ok(()),
            Some(Header::NopOut(_)) => {}
            Some(other) => return Err(Stop::Failed(format!("it goes on with {other:?}"))),
        }
    }
}
