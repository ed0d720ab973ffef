//! Asynchronous messages of a target (RFC 7143 §11.9).

use libtest_mimic::Trial;
use wansan_iscsi::wire::{AsyncEvent, AsyncMessage};
use wansan_peers::trial::{Stop, require};

use crate::case::{self, Case};
use crate::client::{Client, LEAD, Pairs};
use crate::peer::Peer;
use crate::wire::{Received, equal, expect_pdu};

const SILENT: &str = "tgtd sends no asynchronous messages";

const CASES: [Case; 3] = [
    Case::new(
        "a_lost_connection_is_told_on_another",
        "§11.9.1: event 2, the target \"indicates that it … dropped the connection\"; Parameter1 is its CID",
        connection_lost,
    )
    .tgtd_lacks(SILENT),
    Case::new(
        "the_times_of_recovery_come_along",
        "§11.9.1: of events 2 and 3, Parameter2 is Time2Wait and Parameter3 Time2Retain",
        times,
    )
    .tgtd_lacks(SILENT),
    Case::new(
        "a_message_has_no_task",
        "§11.9: bytes 16 to 19 are 0xffffffff, and StatSN is that of a status",
        no_task,
    )
    .tgtd_lacks(SILENT),
];

pub(crate) fn trials() -> Vec<Trial> {
    case::trials("async_message", &CASES)
}

const SEVERAL: Pairs<'static> = &[
    ("MaxConnections", "4"),
    ("DefaultTime2Wait", "3"),
    ("DefaultTime2Retain", "11"),
];

/// What a session is told when its connection with CID 5 breaks.
fn told(peer: &Peer) -> Result<(Client, AsyncMessage, Received), Stop> {
    let mut client = Client::log_in(peer, SEVERAL)?;
    let second = client.join(5, &[])?;
    client.connections[second].wire.drop_connection();
    let (message, received) = expect_pdu!(client.receive(LEAD)?, AsyncMessage)?;
    Ok((client, message, received))
}

fn connection_lost(peer: &Peer) -> Result<(), Stop> {
    let (_, message, _) = told(peer)?;
    equal("event", message.event, AsyncEvent::DropConnection)?;
    equal("Parameter1", message.parameter1, 5)
}

fn times(peer: &Peer) -> Result<(), Stop> {
    let (_, message, _) = told(peer)?;
    require(message.parameter2 >= 3, || {
        format!("Time2Wait is {}", message.parameter2)
    })?;
    require(message.parameter3 <= 11, || {
        format!("Time2Retain is {}", message.parameter3)
    })
}

fn no_task(peer: &Peer) -> Result<(), Stop> {
    let (mut client, message, received) = told(peer)?;
    equal("task tag", received.word(16), 0xffff_ffff)?;
    let pong = client.ping(LEAD)?;
    equal("StatSN behind it", pong.stat_sn, message.stat_sn.next())
}
