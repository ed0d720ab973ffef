//! A write that takes long: an EXTENDED COPY from a slow unit to a fast one. It shows which answers
//! wait for it.

use wansan_iscsi::wire::{Lun, ScsiCommand};
use wansan_peers::trial::Stop;

use crate::client::{Client, LEAD, Pairs, distinct};
use crate::peer::{BLOCK_BYTES, SLOW_UNIT};

/// Why tgtd is not asked.
pub(crate) const NOT_SLOW: &str = "its disks cannot be made slow";

/// What a session that copies negotiates.
pub(crate) const KEYS: Pairs<'static> = &[("InitialR2T", "Yes"), ("ImmediateData", "Yes")];

const BLOCKS: u16 = 8;

/// A copy under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlowCopy {
    /// The unit that is copied to, which takes no time.
    pub(crate) fast: Lun,
    /// The unit that the command was sent to, which serves one command after the other.
    pub(crate) slow: Lun,
}

impl SlowCopy {
    /// The units of a copy by a client whose unit is the one that tests write to.
    pub(crate) fn units(client: &Client) -> Self {
        SlowCopy {
            fast: client.lun,
            slow: Lun::single_level(SLOW_UNIT).expect("small numbers have an encoding"),
        }
    }

    /// Has the slow unit's first blocks copied to the client's unit, which takes two seconds. The
    /// store is at work on it when this returns.
    pub(crate) fn start(client: &mut Client) -> Result<Self, Stop> {
        let units = Self::units(client);
        let destination = name_of(client)?;
        client.lun = units.slow;
        client.settle()?;
        let source = name_of(client)?;
        let (copy, list) = extended_copy(client, source, destination);
        client.send(LEAD, copy, &list)?;
        // What came before the ping has gone to the store.
        client.ping(LEAD)?;
        Ok(units)
    }

    /// Writes to the blocks that are copied to, and fails unless they hold that when the copy is
    /// over.
    pub(crate) fn lands_before_writes_of(self, client: &mut Client) -> Result<(), Stop> {
        let data = distinct(usize::from(BLOCKS) * BLOCK_BYTES, 71);
        client.lun = self.fast;
        client.settle()?;
        client.write(LEAD, 0, &data)?;
        // The slow unit does one thing after the other, so after this the copy is over.
        client.lun = self.slow;
        client.settle()?;
        client.read(LEAD, 0, 1)?;
        client.lun = self.fast;
        client.holds(LEAD, 0, &data)
    }
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
