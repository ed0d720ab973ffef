//! READ, WRITE and SYNCHRONIZE CACHE: ranges of logical blocks (SBC-3).

use super::answer::{Reply, StoreOperation};
use super::cdb::{FUA, IMMED};
use super::{AdditionalSense, Cdb, LogicalUnit, Sense, be16, be32, be64};

/// The range of a CDB, and where the CDB says how long it is.
struct Range {
    lba: u64,
    blocks: u32,
    length_byte: u16,
}

impl Range {
    /// LOGICAL BLOCK ADDRESS and TRANSFER LENGTH stand in the same places in all commands whose
    /// CDBs have the same length.
    fn of(cdb: &Cdb) -> Range {
        match cdb[0] >> 5 {
            0 => Range {
                lba: u64::from(be32(cdb, 0) & 0x001f_ffff),
                // 0 stands for 256 in the 6-byte commands only.
                blocks: match cdb[4] {
                    0 => 256,
                    blocks => u32::from(blocks),
                },
                length_byte: 4,
            },
            4 => Range {
                lba: be64(cdb, 2),
                blocks: be32(cdb, 10),
                length_byte: 10,
            },
            5 => Range {
                lba: u64::from(be32(cdb, 2)),
                blocks: be32(cdb, 6),
                length_byte: 6,
            },
            _ => Range {
                lba: u64::from(be32(cdb, 2)),
                blocks: u32::from(be16(cdb, 7)),
                length_byte: 7,
            },
        }
    }

    /// Its first block has to exist too when it has no block at all.
    fn check(&self, unit: &LogicalUnit) -> Result<(), Sense> {
        let blocks = unit.geometry.blocks();
        let end = self.lba.checked_add(u64::from(self.blocks));
        if self.lba < blocks && end.is_some_and(|end| end <= blocks) {
            Ok(())
        } else {
            Err(Sense::illegal(AdditionalSense::LBA_OUT_OF_RANGE))
        }
    }

    fn offset_bytes(&self, unit: &LogicalUnit) -> u64 {
        self.lba * u64::from(unit.geometry.block_bytes())
    }
}

/// READ (6), (10), (12), (16).
pub(super) fn read(unit: &LogicalUnit, cdb: &Cdb) -> Result<Reply, Sense> {
    transfer(unit, cdb, |offset_bytes, len_bytes, fua| {
        StoreOperation::Read {
            offset_bytes,
            len_bytes,
            fua,
        }
    })
}

/// WRITE (6), (10), (12), (16).
pub(super) fn write(unit: &LogicalUnit, cdb: &Cdb) -> Result<Reply, Sense> {
    transfer(unit, cdb, |offset_bytes, len_bytes, fua| {
        StoreOperation::Write {
            offset_bytes,
            len_bytes,
            fua,
        }
    })
}

fn transfer(
    unit: &LogicalUnit,
    cdb: &Cdb,
    operation: impl FnOnce(u64, u32, bool) -> StoreOperation,
) -> Result<Reply, Sense> {
    let range = Range::of(cdb);
    // The 6-byte commands have a part of their LBA where the others have flags.
    let flags = if cdb[0] >> 5 == 0 { 0 } else { cdb[1] };
    if flags & 0xe0 != 0 {
        // RDPROTECT or WRPROTECT: there is no protection information on these units. DPO, beside
        // FUA, is a hint that needs no action.
        return Err(Sense::invalid_field(1, Some(7)));
    }
    range.check(unit)?;
    if range.blocks > unit.geometry.max_transfer_blocks() {
        return Err(Sense::invalid_field(range.length_byte, None));
    }
    if range.blocks == 0 {
        return Ok(Reply::DONE);
    }
    Ok(Reply::Store(operation(
        range.offset_bytes(unit),
        // At most MAX_TRANSFER_BYTES, as just checked.
        range.blocks * unit.geometry.block_bytes(),
        flags & FUA != 0,
    )))
}

/// SYNCHRONIZE CACHE (10), (16). A length of 0 means all blocks up to the end.
pub(super) fn synchronize_cache(unit: &LogicalUnit, cdb: &Cdb) -> Result<Reply, Sense> {
    let range = Range::of(cdb);
    range.check(unit)?;
    let blocks = match range.blocks {
        0 => unit.geometry.blocks() - range.lba,
        blocks => u64::from(blocks),
    };
    Ok(Reply::Store(StoreOperation::Flush {
        offset_bytes: range.offset_bytes(unit),
        len_bytes: blocks * u64::from(unit.geometry.block_bytes()),
        immediate: cdb[1] & IMMED != 0,
    }))
}
