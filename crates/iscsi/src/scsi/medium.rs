//! Commands on the medium other than READ, WRITE and SYNCHRONIZE CACHE (SBC-3).
//!
//! Commands with Data-Out have two functions: `…_bytes` checks the CDB and returns the length of the data, and the
//! other one makes the [`MediumOperation`].

use super::answer::{Reply, cut};
use super::block::{Range, check_protection};
use super::cdb::FUA;
use super::command::{Call, Delivery, Outcome};
use super::lba_status::{HEADER_BYTES, LbaStatus, RUN_BYTES};
use super::{AdditionalSense, Geometry, MediumOperation, Sense, be16, be32, be64, opcode};

/// Most bytes of a VERIFY without data: it occupies one worker of a target.
const MAX_VERIFY_BYTES: u32 = 256 << 20;

/// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT.
pub(super) const MAX_UNMAP_DESCRIPTORS: u32 = 256;
const UNMAP_HEADER_BYTES: usize = 8;
const UNMAP_DESCRIPTOR_BYTES: usize = 16;

/// MAXIMUM COMPARE AND WRITE LENGTH, in blocks: the maximum of its field.
pub(super) const MAX_COMPARE_AND_WRITE_BLOCKS: u8 = 255;

/// MAXIMUM WRITE SAME LENGTH, in bytes: the most data of one WRITE, because it occupies one worker of a target.
pub(super) const MAX_WRITE_SAME_BYTES: u64 = Geometry::MAX_TRANSFER_BYTES as u64;

/// Most runs of blocks in GET LBA STATUS.
const MAX_RUNS: usize = 256;

fn medium(operation: MediumOperation) -> Outcome {
    Ok(Reply::Medium(Box::new(operation)))
}

/// For commands that need a store operation, but no data.
pub(super) fn no_bytes(_: &Call<'_>) -> Result<u32, Sense> {
    Ok(0)
}

fn fua(call: &Call<'_>) -> bool {
    call.cdb[1] & FUA != 0
}

/// The range of a command that transfers it.
fn transferred(call: &Call<'_>) -> Result<Range, Sense> {
    check_protection(call.cdb)?;
    let range = Range::of(call.cdb);
    range.check(call.unit)?;
    range.check_length(call.unit.geometry.max_transfer_blocks())?;
    Ok(range)
}

/// BYTE CHECK, bits 2 and 1 of byte 1 in VERIFY and WRITE AND VERIFY.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteCheck {
    /// The blocks must be readable.
    Readable,
    /// They must equal the data.
    Same,
    /// Each of them must equal the one block of data.
    SameAsOne,
}

impl ByteCheck {
    fn of(call: &Call<'_>) -> Result<ByteCheck, Sense> {
        match call.cdb[1] >> 1 & 0x03 {
            0b00 => Ok(ByteCheck::Readable),
            0b01 => Ok(ByteCheck::Same),
            0b11 => Ok(ByteCheck::SameAsOne),
            _ => Err(Sense::invalid_field(1, Some(2))),
        }
    }
}

pub(super) fn verify_bytes(call: &Call<'_>) -> Result<u32, Sense> {
    check_protection(call.cdb)?;
    let range = Range::of(call.cdb);
    range.check(call.unit)?;
    let block_bytes = call.unit.geometry.block_bytes();
    match ByteCheck::of(call)? {
        ByteCheck::Same => {
            range.check_length(call.unit.geometry.max_transfer_blocks())?;
            Ok(range.blocks * block_bytes)
        }
        check => {
            range.check_length(MAX_VERIFY_BYTES / block_bytes)?;
            let one = check == ByteCheck::SameAsOne && range.blocks > 0;
            Ok(if one { block_bytes } else { 0 })
        }
    }
}

/// VERIFY (10), (12), (16).
pub(super) fn verify(call: &mut Call<'_>, delivery: Delivery) -> Outcome {
    let range = Range::of(call.cdb);
    if range.blocks == 0 {
        return Ok(Reply::DONE);
    }
    let offset_bytes = range.offset_bytes(call.unit);
    let len_bytes = range.len_bytes(call.unit);
    if ByteCheck::of(call)? == ByteCheck::Readable {
        return medium(MediumOperation::Verify {
            offset_bytes,
            len_bytes,
        });
    }
    let bytes = verify_bytes(call)?;
    medium(MediumOperation::Compare {
        offset_bytes,
        len_bytes,
        data: delivery.exactly(bytes)?,
    })
}

pub(super) fn write_and_verify_bytes(call: &Call<'_>) -> Result<u32, Sense> {
    let range = transferred(call)?;
    if ByteCheck::of(call)? == ByteCheck::SameAsOne {
        return Err(Sense::invalid_field(1, Some(2)));
    }
    Ok(range.blocks * call.unit.geometry.block_bytes())
}

/// WRITE AND VERIFY (10), (12), (16). As with WRITE, if there are fewer whole blocks than in the CDB, only those are
/// written.
pub(super) fn write_and_verify(call: &mut Call<'_>, delivery: Delivery) -> Outcome {
    let data = delivery.data;
    if !data
        .len()
        .is_multiple_of(call.unit.geometry.block_bytes() as usize)
    {
        let additional = AdditionalSense::INVALID_FIELD_IN_INFORMATION_UNIT;
        return Err(Sense::illegal(additional).into());
    }
    if data.is_empty() {
        return Ok(Reply::DONE);
    }
    medium(MediumOperation::WriteAndVerify {
        offset_bytes: Range::of(call.cdb).offset_bytes(call.unit),
        data,
        compare: ByteCheck::of(call)? == ByteCheck::Same,
    })
}

/// PRE-FETCH (10), (16). A length of 0 means all blocks up to the end. The status is GOOD, because it is unknown
/// whether the cache has room for all of them.
pub(super) fn pre_fetch(call: &mut Call<'_>, _: Delivery) -> Outcome {
    let range = Range::of(call.cdb);
    range.check(call.unit)?;
    let block_bytes = u64::from(call.unit.geometry.block_bytes());
    medium(MediumOperation::PreFetch {
        offset_bytes: range.offset_bytes(call.unit),
        len_bytes: range.blocks_or_rest(call.unit) * block_bytes,
    })
}

/// UNMAP and NDOB in byte 1 of WRITE SAME, the latter in its 16-byte form only.
const UNMAP_BIT: u8 = 0x08;
const ANCHOR_BIT: u8 = 0x10;
const NDOB: u8 = 0x01;

/// Whether WRITE SAME has no data: zeros are meant.
fn brings_no_block(call: &Call<'_>) -> bool {
    call.cdb[0] == opcode::WRITE_SAME_16 && call.cdb[1] & NDOB != 0
}

pub(super) fn write_same_bytes(call: &Call<'_>) -> Result<u32, Sense> {
    check_protection(call.cdb)?;
    if call.cdb[1] & ANCHOR_BIT != 0 {
        return Err(Sense::invalid_field(1, Some(4)));
    }
    if call.cdb[1] & UNMAP_BIT != 0 && !call.unit.thin {
        return Err(Sense::invalid_field(1, Some(3)));
    }
    let range = Range::of(call.cdb);
    range.check(call.unit)?;
    let block_bytes = call.unit.geometry.block_bytes();
    // WSNZ: a length of 0 is rejected.
    let most = (MAX_WRITE_SAME_BYTES / u64::from(block_bytes)) as u32;
    range.check_length(most)?;
    if range.blocks == 0 {
        return Err(range.wrong_length());
    }
    Ok(if brings_no_block(call) {
        0
    } else {
        block_bytes
    })
}

/// WRITE SAME (10), (16). With UNMAP, blocks of zeros are deallocated; others are written, as they must be readable.
pub(super) fn write_same(call: &mut Call<'_>, delivery: Delivery) -> Outcome {
    let range = Range::of(call.cdb);
    let offset_bytes = range.offset_bytes(call.unit);
    let len_bytes = range.len_bytes(call.unit);
    let block_bytes = call.unit.geometry.block_bytes();
    let block = match brings_no_block(call) {
        true => vec![0; block_bytes as usize],
        false => delivery.exactly(block_bytes)?,
    };
    if call.cdb[1] & UNMAP_BIT != 0 && block.iter().all(|byte| *byte == 0) {
        return medium(MediumOperation::Deallocate {
            ranges: vec![(offset_bytes, len_bytes)],
        });
    }
    medium(MediumOperation::WriteSame {
        offset_bytes,
        len_bytes,
        block,
    })
}

pub(super) fn unmap_bytes(call: &Call<'_>) -> Result<u32, Sense> {
    if call.cdb[1] & 0x01 != 0 {
        // ANCHOR
        return Err(Sense::invalid_field(1, Some(0)));
    }
    match be16(call.cdb, 7) {
        1..8 => Err(Sense::illegal(AdditionalSense::PARAMETER_LIST_LENGTH)),
        bytes => Ok(u32::from(bytes)),
    }
}

/// UNMAP.
pub(super) fn unmap(call: &mut Call<'_>, delivery: Delivery) -> Outcome {
    let list = delivery.data;
    if call.cdb[7..9] == [0, 0] {
        return Ok(Reply::DONE);
    }
    if list.len() < UNMAP_HEADER_BYTES {
        return Err(Sense::illegal(AdditionalSense::PARAMETER_LIST_LENGTH).into());
    }
    // The list's own length field bounds it, and an incomplete descriptor at its end is ignored (SBC-3 5.27.2).
    let descriptors = &list[UNMAP_HEADER_BYTES..];
    let descriptors = &descriptors[..descriptors.len().min(be16(&list, 2).into())];
    let descriptors = descriptors.as_chunks::<UNMAP_DESCRIPTOR_BYTES>().0;
    if descriptors.len() > MAX_UNMAP_DESCRIPTORS as usize {
        return Err(Sense::illegal(AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST).into());
    }
    let geometry = &call.unit.geometry;
    let block_bytes = u64::from(geometry.block_bytes());
    let mut ranges = Vec::with_capacity(descriptors.len());
    for descriptor in descriptors {
        let (lba, blocks) = (be64(descriptor, 0), u64::from(be32(descriptor, 8)));
        if lba
            .checked_add(blocks)
            .is_none_or(|end| end > geometry.blocks())
        {
            return Err(Sense::illegal(AdditionalSense::LBA_OUT_OF_RANGE).into());
        }
        if blocks > 0 {
            ranges.push((lba * block_bytes, blocks * block_bytes));
        }
    }
    if ranges.is_empty() {
        return Ok(Reply::DONE);
    }
    medium(MediumOperation::Deallocate { ranges })
}

/// The range of COMPARE AND WRITE, whose length has one byte.
fn compared(call: &Call<'_>) -> Range {
    Range {
        blocks: u32::from(call.cdb[13]),
        ..Range::of(call.cdb)
    }
}

pub(super) fn compare_and_write_bytes(call: &Call<'_>) -> Result<u32, Sense> {
    check_protection(call.cdb)?;
    let range = compared(call);
    range.check(call.unit)?;
    // As many blocks to compare as to write: 2 MiB at most.
    Ok(2 * range.blocks * call.unit.geometry.block_bytes())
}

/// COMPARE AND WRITE.
pub(super) fn compare_and_write(call: &mut Call<'_>, delivery: Delivery) -> Outcome {
    let bytes = compare_and_write_bytes(call)?;
    if delivery.announced_bytes != bytes {
        // More blocks than its one byte can count appear as another number there.
        return Err(Sense::invalid_field(13, None).into());
    }
    let data = delivery.exactly(bytes)?;
    if data.is_empty() {
        return Ok(Reply::DONE);
    }
    medium(MediumOperation::CompareAndWrite {
        offset_bytes: compared(call).offset_bytes(call.unit),
        data,
        fua: fua(call),
    })
}

pub(super) fn or_write_bytes(call: &Call<'_>) -> Result<u32, Sense> {
    let range = transferred(call)?;
    Ok(range.blocks * call.unit.geometry.block_bytes())
}

/// ORWRITE (16).
pub(super) fn or_write(call: &mut Call<'_>, delivery: Delivery) -> Outcome {
    let data = delivery.exactly(or_write_bytes(call)?)?;
    if data.is_empty() {
        return Ok(Reply::DONE);
    }
    medium(MediumOperation::OrWrite {
        offset_bytes: Range::of(call.cdb).offset_bytes(call.unit),
        data,
        fua: fua(call),
    })
}

/// GET LBA STATUS. In a unit that is not thin every block is mapped.
pub(super) fn get_lba_status(call: &mut Call<'_>, _: Delivery) -> Outcome {
    let lba = be64(call.cdb, 2);
    let blocks = call.unit.geometry.blocks();
    if lba >= blocks {
        return Err(Sense::illegal(AdditionalSense::LBA_OUT_OF_RANGE).into());
    }
    let allocation_bytes = be32(call.cdb, 10) as usize;
    if !call.unit.thin {
        let mut status = LbaStatus::from(lba);
        status.push(blocks - lba, true);
        return Ok(Reply::Data(cut(status.into_data(), allocation_bytes)));
    }
    let room = allocation_bytes.saturating_sub(HEADER_BYTES) / RUN_BYTES;
    if room == 0 {
        // No run fits, so none needs to be determined.
        return Ok(Reply::Data(cut(
            LbaStatus::from(lba).into_data(),
            allocation_bytes,
        )));
    }
    let block_bytes = call.unit.geometry.block_bytes();
    medium(MediumOperation::Status {
        offset_bytes: lba * u64::from(block_bytes),
        block_bytes,
        max_runs: room.min(MAX_RUNS),
    })
}

/// Stores accept any range of bytes, so blocks can be deallocated one by one, whatever the physical block; whole
/// physical blocks are optimal, though.
pub(super) const fn optimal_unmap_blocks(geometry: &Geometry) -> u32 {
    1 << geometry.physical_block_exponent()
}
