//! MODE SENSE (6) and (10): how a logical unit behaves (SPC-4, SBC-3). None of it can be changed or
//! saved.

use super::answer::cut;
use super::{AdditionalSense, Cdb, LogicalUnit, Sense, be16};

/// Caching (SBC-3).
const CACHING: u8 = 0x08;
/// Control (SPC-4).
const CONTROL: u8 = 0x0a;
/// Informational Exceptions Control (SPC-4).
const INFORMATIONAL_EXCEPTIONS: u8 = 0x1c;
/// All pages.
const ALL_PAGES: u8 = 0x3f;
/// SUBPAGE CODE: all subpages.
const ALL_SUBPAGES: u8 = 0xff;

/// DISABLE BLOCK DESCRIPTORS in byte 1.
const DBD: u8 = 0x08;
/// LONG LBA ACCEPTED in byte 1 of the 10-byte command.
const LLBAA: u8 = 0x10;
/// DPOFUA there: DPO and FUA are obeyed.
const DPOFUA: u8 = 0x10;

/// PAGE CONTROL: which values are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    /// What holds now; the defaults are the same.
    Current,
    /// Ones in what MODE SELECT could change.
    Changeable,
}

/// MODE SENSE (6).
pub(super) fn sense_6(unit: &LogicalUnit, cdb: &Cdb) -> Result<Vec<u8>, Sense> {
    let pages = pages(unit, cdb)?;
    let descriptor = match cdb[1] & DBD {
        0 => short_descriptor(unit),
        _ => Vec::new(),
    };
    let mut data = vec![0, 0, DPOFUA, descriptor.len() as u8];
    data.extend(descriptor);
    data.extend(pages);
    // MODE DATA LENGTH counts what follows it. All pages together are far below 256 bytes.
    data[0] = (data.len() - 1) as u8;
    Ok(cut(data, cdb[4]))
}

/// MODE SENSE (10).
pub(super) fn sense_10(unit: &LogicalUnit, cdb: &Cdb) -> Result<Vec<u8>, Sense> {
    let pages = pages(unit, cdb)?;
    let (long, descriptor) = match (cdb[1] & DBD, cdb[1] & LLBAA) {
        (0, 0) => (false, short_descriptor(unit)),
        (0, _) => (true, long_descriptor(unit)),
        _ => (false, Vec::new()),
    };
    let mut data = vec![0, 0, 0, DPOFUA, u8::from(long), 0, 0, 0];
    data[7] = descriptor.len() as u8;
    data.extend(descriptor);
    data.extend(pages);
    let length = (data.len() - 2) as u16;
    data[..2].copy_from_slice(&length.to_be_bytes());
    Ok(cut(data, be16(cdb, 7)))
}

/// Short LBA mode parameter block descriptor: as many blocks as 32 bits can say.
fn short_descriptor(unit: &LogicalUnit) -> Vec<u8> {
    let blocks = u32::try_from(unit.geometry.blocks()).unwrap_or(u32::MAX);
    // The length has 24 bits, after a reserved byte: 4096 at most.
    [blocks, unit.geometry.block_bytes()]
        .map(u32::to_be_bytes)
        .concat()
}

/// Long LBA mode parameter block descriptor.
fn long_descriptor(unit: &LogicalUnit) -> Vec<u8> {
    let blocks = unit.geometry.blocks().to_be_bytes();
    let block_bytes = unit.geometry.block_bytes().to_be_bytes();
    [&blocks[..], &[0; 4], &block_bytes].concat()
}

/// The pages that bytes 2 and 3 ask for, in ascending order.
fn pages(unit: &LogicalUnit, cdb: &Cdb) -> Result<Vec<u8>, Sense> {
    let values = match cdb[2] >> 6 {
        0b01 => Values::Changeable,
        0b11 => return Err(Sense::illegal(AdditionalSense::SAVING_NOT_SUPPORTED)),
        _ => Values::Current,
    };
    let asked = cdb[2] & 0x3f;
    let caching = || {
        page(
            CACHING,
            0x12,
            values,
            &[(2, u8::from(unit.write_cache) << 2)],
        )
    };
    // QUEUE ALGORITHM MODIFIER 1h: commands may be reordered.
    let control = || page(CONTROL, 0x0a, values, &[(3, 0x10)]);
    let exceptions = || page(INFORMATIONAL_EXCEPTIONS, 0x0a, values, &[]);
    let pages = match asked {
        CACHING => caching(),
        CONTROL => control(),
        INFORMATIONAL_EXCEPTIONS => exceptions(),
        ALL_PAGES => [caching(), control(), exceptions()].concat(),
        _ => return Err(Sense::invalid_field(2, Some(5))),
    };
    match cdb[3] {
        0 | ALL_SUBPAGES => Ok(pages),
        _ => Err(Sense::invalid_field(3, None)),
    }
}

/// One page: its code, its length without these two bytes, and the bytes in it that are not zero.
/// Nothing is changeable, so that mask is all zeros.
fn page(code: u8, length: u8, values: Values, bytes: &[(usize, u8)]) -> Vec<u8> {
    let mut page = vec![0; usize::from(length) + 2];
    page[0] = code;
    page[1] = length;
    if values == Values::Current {
        for (index, byte) in bytes {
            page[*index] = *byte;
        }
    }
    page
}
