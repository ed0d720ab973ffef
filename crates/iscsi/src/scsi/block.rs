//! READ, WRITE and SYNCHRONIZE CACHE: ranges of logical blocks (SBC-3).

use super::answer::{Reply, StoreOperation};
use super::cdb::{FUA, IMMED};
use super::command::{Call, Outcome};
use super::{AdditionalSense, Cdb, LogicalUnit, Sense, be16, be32, be64};

/// The range of a CDB, and the position of its length field.
pub(super) struct Range {
    pub(super) lba: u64,
    pub(super) blocks: u32,
    pub(super) length_byte: u16,
}

impl Range {
    /// LOGICAL BLOCK ADDRESS and TRANSFER LENGTH are at the same offsets in all commands of the same CDB length.
    pub(super) fn of(cdb: &Cdb) -> Range {
        match cdb[0] >> 5 {
            0 => Range {
                lba: u64::from(be32(cdb, 0) & 0x001f_ffff),
                // 0 means 256 in the 6-byte commands only.
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

    /// Its first block must exist even if it has no block at all.
    pub(super) fn check(&self, unit: &LogicalUnit) -> Result<(), Sense> {
        let blocks = unit.geometry.blocks();
        let end = self.lba.checked_add(u64::from(self.blocks));
        if self.lba < blocks && end.is_some_and(|end| end <= blocks) {
            Ok(())
        } else {
            Err(Sense::illegal(AdditionalSense::LBA_OUT_OF_RANGE))
        }
    }

    /// Checks that it is no longer than `most` blocks.
    pub(super) fn check_length(&self, most: u32) -> Result<(), Sense> {
        if self.blocks > most {
            return Err(self.wrong_length());
        }
        Ok(())
    }

    /// INVALID FIELD IN CDB, pointing to the length.
    pub(super) const fn wrong_length(&self) -> Sense {
        Sense::invalid_field(self.length_byte, None)
    }

    pub(super) fn offset_bytes(&self, unit: &LogicalUnit) -> u64 {
        self.lba * u64::from(unit.geometry.block_bytes())
    }

    pub(super) fn len_bytes(&self, unit: &LogicalUnit) -> u64 {
        u64::from(self.blocks) * u64::from(unit.geometry.block_bytes())
    }

    /// Its blocks, or those up to the unit's end for commands where a length of 0 means that.
    pub(super) fn blocks_or_rest(&self, unit: &LogicalUnit) -> u64 {
        match self.blocks {
            0 => unit.geometry.blocks() - self.lba,
            blocks => u64::from(blocks),
        }
    }
}

/// RDPROTECT, WRPROTECT, VRPROTECT and ORPROTECT, in byte 1 of all commands except the 6-byte ones: these units have no
/// protection information.
pub(super) fn check_protection(cdb: &Cdb) -> Result<(), Sense> {
    if cdb[1] & 0xe0 != 0 {
        return Err(Sense::invalid_field(1, Some(7)));
    }
    Ok(())
}

/// READ (6), (10), (12), (16).
pub(super) fn read(call: &mut Call<'_>) -> Outcome {
    transfer(call, |offset_bytes, len_bytes, fua| StoreOperation::Read {
        offset_bytes,
        len_bytes,
        fua,
    })
}

/// WRITE (6), (10), (12), (16).
pub(super) fn write(call: &mut Call<'_>) -> Outcome {
    transfer(call, |offset_bytes, len_bytes, fua| StoreOperation::Write {
        offset_bytes,
        len_bytes,
        fua,
    })
}

fn transfer(call: &Call<'_>, operation: impl FnOnce(u64, u32, bool) -> StoreOperation) -> Outcome {
    let (unit, cdb) = (call.unit, call.cdb);
    let range = Range::of(cdb);
    // The 6-byte commands have a part of their LBA in the place of the flags. DPO, next to FUA, is a hint that needs no
    // action.
    let mut fua = false;
    if cdb[0] >> 5 != 0 {
        check_protection(cdb)?;
        fua = cdb[1] & FUA != 0;
    }
    range.check(unit)?;
    range.check_length(unit.geometry.max_transfer_blocks())?;
    if range.blocks == 0 {
        return Ok(Reply::DONE);
    }
    Ok(Reply::Store(operation(
        range.offset_bytes(unit),
        // At most MAX_TRANSFER_BYTES, as just checked.
        range.blocks * unit.geometry.block_bytes(),
        fua,
    )))
}

/// SYNCHRONIZE CACHE (10), (16). A length of 0 means all blocks up to the end.
pub(super) fn synchronize_cache(call: &mut Call<'_>) -> Outcome {
    let (unit, cdb) = (call.unit, call.cdb);
    let range = Range::of(cdb);
    range.check(unit)?;
    Ok(Reply::Store(StoreOperation::Flush {
        offset_bytes: range.offset_bytes(unit),
        len_bytes: range.blocks_or_rest(unit) * u64::from(unit.geometry.block_bytes()),
        immediate: cdb[1] & IMMED != 0,
    }))
}
