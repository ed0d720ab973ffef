//! A session in place of one of the same I_T nexus (RFC 7143 §6.3.5): what stores still do for the
//! old one is over before they do anything for the new one.
//!
//! The old session has a slow unit copied to a fast one, which takes two seconds, and ends at once;
//! the new one writes to the same blocks of the fast unit, which takes no time.

use libtest_mimic::Trial;
use wansan_iscsi::wire::{LogoutReason, LogoutResult, Lun, ScsiCommand};
use wansan_peers::trial::Stop;

use crate::case::{self, Case};
use crate::client::{Client, LEAD, Login, Pairs, distinct};
use crate::peer::{BLOCK_BYTES, Peer, SLOW_UNIT};
use crate::wire::equal;

const NOT_SLOW: &str = "its disks cannot be made slow";

const CASES: [Case; 3] = [
    Case::new(
        "nothing_of_a_session_that_was_cut_comes_late",
        "§6.3.5: with the new session, the old one and its tasks are gone",
        |peer| late_write(peer, End::Cut),
    )
    .tgtd_lacks(NOT_SLOW),
    Case::new(
        "nothing_of_a_session_that_lived_comes_late",
        "§6.3.5: a login with the ISID of a session is an implicit logout of that one",
        |peer| late_write(peer, End::Replaced),
    )
    .tgtd_lacks(NOT_SLOW),
    Case::new(
        "nothing_of_a_session_that_logged_out_comes_late",
        "§11.14: \"the target MUST terminate all pending commands\" of a session that logs out",
        |peer| late_write(peer, End::LoggedOut),
    )
    .tgtd_lacks(NOT_SLOW),
];

pub(crate) fn trials() -> Vec<Trial> {
    case::trials("reinstatement", &CASES)
}

const KEYS: Pairs<'static> = &[("InitialR2T", "Yes"), ("ImmediateData", "Yes")];
const BLOCKS: u16 = 8;

/// How the old session ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Cut,
    Replaced,
    LoggedOut,
}

fn late_write(peer: &Peer, end: End) -> Result<(), Stop> {
    let mut old = Client::log_in(peer, KEYS)?;
    let fast = old.lun;
    let destination = name_of(&mut old)?;
    old.lun = Lun::single_level(SLOW_UNIT).expect("small numbers have an encoding");
    let slow = old.lun;
    old.settle()?;
    let source = name_of(&mut old)?;

    let (copy, list) = extended_copy(&mut old, source, destination);
    old.send(LEAD, copy, &list)?;
    // What came before the ping has gone to the store.
    old.ping(LEAD)?;
    match end {
        End::Cut => old.connections[LEAD].wire.drop_connection(),
        End::Replaced => {}
        End::LoggedOut => {
            let response = old.log_out(LEAD, LogoutReason::CloseSession, 0)?;
            equal("response", response.response, LogoutResult::Closed)?;
        }
    }

    let mut login = Login::connect(peer)?;
    login.request.isid = old.isid;
    let mut new = login.finish(KEYS)?;
    new.settle()?;
    let data = distinct(usize::from(BLOCKS) * BLOCK_BYTES, 71);
    new.write(LEAD, 0, &data)?;
    // The slow unit does one thing after the other, so after this the copy is over.
    new.lun = slow;
    new.settle()?;
    new.read(LEAD, 0, 1)?;
    new.lun = fast;
    new.holds(LEAD, 0, &data)
}

/// The NAA name of the client's unit, from page 83h.
fn name_of(client: &mut Client) -> Result<[u8; 8], Stop> {
    const PAGE_BYTES: u8 = 255;
    let mut cdb = [0; 16];
    cdb[..5].copy_from_slice(&[0x12, 1, 0x83, 0, PAGE_BYTES]);
    let inquiry = ScsiCommand {
        read: true,
        expected_data_transfer_length: u32::from(PAGE_BYTES),
        ..client.command(cdb)
    };
    client.send(LEAD, inquiry, &[])?;
    let (page, _) = client.data_of(LEAD, inquiry.task_tag)?;
    let mut rest = page.get(4..).unwrap_or_default();
    while rest.len() >= 4 {
        let (head, tail) = rest.split_at(4);
        let (name, tail) = tail.split_at(usize::from(head[3]).min(tail.len()));
        if head[1] & 0x3f == 3
            && let Ok(name) = name.try_into()
        {
            return Ok(name);
        }
        rest = tail;
    }
    Err(Stop::Failed(
        "the unit has no NAA name of 8 bytes".to_owned(),
    ))
}

/// EXTENDED COPY (LID1) of the first blocks, with its parameter list.
fn extended_copy(client: &mut Client, from: [u8; 8], to: [u8; 8]) -> (ScsiCommand, Vec<u8>) {
    let mut list = vec![0; 16];
    list[1] = 0x18; // LIST ID USAGE: none
    list[3] = 64; // CSCD DESCRIPTOR LIST LENGTH
    list[11] = 28; // SEGMENT DESCRIPTOR LIST LENGTH
    for name in [from, to] {
        let mut unit = [0; 32];
        unit[..8].copy_from_slice(&[0xe4, 0, 0, 0, 1, 3, 0, 8]);
        unit[8..16].copy_from_slice(&name);
        list.extend(unit);
    }
    let mut segment = [0; 28];
    segment[..8].copy_from_slice(&[0x02, 0, 0, 24, 0, 0, 0, 1]);
    segment[10..12].copy_from_slice(&BLOCKS.to_be_bytes());
    list.extend(segment);

    let bytes = list.len() as u32;
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&bytes.to_be_bytes());
    let command = ScsiCommand {
        write: true,
        expected_data_transfer_length: bytes,
        ..client.command(cdb)
    };
    (command, list)
}
