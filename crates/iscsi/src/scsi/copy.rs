//! EXTENDED COPY (LID1), RECEIVE COPY STATUS (LID1) and RECEIVE COPY OPERATING PARAMETERS (SPC-4): block to block
//! copies between the units of one target.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering};

use super::answer::{Reply, cut};
use super::command::{Call, Delivery, Outcome};
use super::nexus::{Access, Nexus};
use super::{AdditionalSense, MediumOperation, Sense, SenseKey, be16, be32, be64, opcode};

/// Limits, as in RECEIVE COPY OPERATING PARAMETERS.
const MAX_TARGETS: usize = 16;
const MAX_SEGMENTS: usize = 64;
const MAX_LIST_BYTES: usize = MAX_TARGETS * TARGET_BYTES + MAX_SEGMENTS * SEGMENT_BYTES;
/// 65,535 blocks of 4096 bytes, to the next power of two.
const MAX_SEGMENT_BYTES: u32 = 1 << 28;

/// Copies per nexus whose outcome RECEIVE COPY STATUS can report.
const KEPT_COPIES: usize = 16;

const HEADER_BYTES: usize = 16;
const TARGET_BYTES: usize = 32;
/// A segment descriptor's header counts the bytes after its first four.
const SEGMENT_BYTES: usize = 28;

/// Identification descriptor CSCD descriptor.
const IDENTIFICATION: u8 = 0xe4;
/// Block device to block device.
const BLOCK_TO_BLOCK: u8 = 0x02;

/// LIST ID USAGE 11b: the list identifier is ignored.
const NO_LIST_ID: u8 = 0x18;

/// A range of bytes to copy, inside both units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopySegment {
    /// The source's index in [`TargetDevice::units`](super::TargetDevice::units).
    pub from_unit: usize,
    /// First byte there.
    pub from_bytes: u64,
    /// The destination's index.
    pub to_unit: usize,
    /// First byte there.
    pub to_bytes: u64,
    /// Number of bytes. Source and destination may overlap.
    pub len_bytes: u64,
}

/// The segments of an EXTENDED COPY, in order, and its progress.
#[derive(Debug, Clone)]
pub struct CopyJob {
    /// The segments.
    pub segments: Vec<CopySegment>,
    /// To be updated during the copy.
    pub progress: Arc<CopyProgress>,
}

impl CopyJob {
    /// The indices of the units that it reads and writes, each once.
    pub(super) fn units(&self) -> Vec<usize> {
        let segments = self.segments.iter();
        each_once(segments.flat_map(|segment| [segment.from_unit, segment.to_unit]))
    }

    /// Those of the units that it writes, each once.
    pub(super) fn written_units(&self) -> Vec<usize> {
        each_once(self.segments.iter().map(|segment| segment.to_unit))
    }

    /// Whether all units may still be read and written as in the segments.
    pub(super) fn recheck(&self, nexus: &Nexus) -> Result<(), Sense> {
        let mut segments = self.segments.iter();
        segments.try_for_each(|segment| reachable(nexus, segment.from_unit, segment.to_unit))
    }
}

fn each_once(units: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut units: Vec<usize> = units.collect();
    units.sort_unstable();
    units.dedup();
    units
}

impl PartialEq for CopyJob {
    /// Progress is not part of its identity.
    fn eq(&self, other: &CopyJob) -> bool {
        self.segments == other.segments
    }
}

impl Eq for CopyJob {}

/// Progress of an EXTENDED COPY. It guards no other data, so its fields need no ordering.
#[derive(Debug, Default)]
pub struct CopyProgress {
    segments: AtomicU16,
    bytes: AtomicU64,
    status: AtomicU8,
}

/// COPY MANAGER STATUS.
const IN_PROGRESS: u8 = 0x00;
const COMPLETED: u8 = 0x01;
const FAILED: u8 = 0x02;

impl CopyProgress {
    /// Adds copied bytes.
    pub fn copied(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a completed segment.
    pub fn segment_done(&self) {
        self.segments.fetch_add(1, Ordering::Relaxed);
    }

    /// The copy has completed, successfully or not.
    pub fn end(&self, well: bool) {
        let status = if well { COMPLETED } else { FAILED };
        self.status.store(status, Ordering::Relaxed);
    }

    fn is_in_progress(&self) -> bool {
        self.status.load(Ordering::Relaxed) == IN_PROGRESS
    }
}

/// A copy requested by a nexus, by its list identifier.
#[derive(Debug)]
pub(super) struct CopyRecord {
    list_id: u8,
    progress: Arc<CopyProgress>,
}

fn aborted(additional: AdditionalSense) -> Sense {
    Sense::new(SenseKey::CopyAborted, additional)
}

fn wrong_list(additional: AdditionalSense) -> Sense {
    Sense::illegal(additional)
}

pub(super) fn bytes(call: &Call<'_>) -> Result<u32, Sense> {
    match be32(call.cdb, 10) {
        bytes if bytes as usize > HEADER_BYTES + MAX_LIST_BYTES => {
            Err(wrong_list(AdditionalSense::PARAMETER_LIST_LENGTH))
        }
        bytes => Ok(bytes),
    }
}

/// EXTENDED COPY (LID1).
pub(super) fn extended_copy(call: &mut Call<'_>, delivery: Delivery) -> Outcome {
    let list = delivery.data;
    if be32(call.cdb, 10) == 0 {
        return Ok(Reply::DONE);
    }
    let too_short = wrong_list(AdditionalSense::PARAMETER_LIST_LENGTH);
    if list.len() < HEADER_BYTES {
        return Err(too_short.into());
    }
    let target_bytes = usize::from(be16(&list, 2));
    let segment_bytes = be32(&list, 8) as usize;
    let inline_bytes = be32(&list, 12);
    let descriptors = &list[HEADER_BYTES..];
    if target_bytes.saturating_add(segment_bytes) > descriptors.len() {
        return Err(too_short.into());
    }
    if inline_bytes > 0 {
        return Err(wrong_list(AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST).into());
    }
    let (targets, segments) = descriptors.split_at(target_bytes);
    let units = targets_of(call, targets)?;
    let segments = segments_of(call, &units, &segments[..segment_bytes])?;

    let progress = Arc::new(CopyProgress::default());
    if list[1] & NO_LIST_ID != NO_LIST_ID {
        let list_id = list[0];
        let copies = &mut call.nexus.copies;
        if copies
            .iter()
            .any(|copy| copy.list_id == list_id && copy.progress.is_in_progress())
        {
            return Err(wrong_list(AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST).into());
        }
        copies.retain(|copy| copy.list_id != list_id);
        if copies.len() >= KEPT_COPIES {
            copies.pop_front();
        }
        copies.push_back(CopyRecord {
            list_id,
            progress: Arc::clone(&progress),
        });
    }
    let job = CopyJob { segments, progress };
    Ok(Reply::Medium(Box::new(MediumOperation::Copy(job))))
}

/// The indices of the units in the CSCD descriptors; `None` for an unknown one.
fn targets_of(call: &Call<'_>, descriptors: &[u8]) -> Result<Vec<Option<usize>>, Sense> {
    let (descriptors, rest) = descriptors.as_chunks::<TARGET_BYTES>();
    if !rest.is_empty() {
        return Err(wrong_list(AdditionalSense::PARAMETER_LIST_LENGTH));
    }
    if descriptors.len() > MAX_TARGETS {
        return Err(wrong_list(AdditionalSense::TOO_MANY_TARGET_DESCRIPTORS));
    }
    let places = descriptors.iter().map(|descriptor| {
        if descriptor[0] != IDENTIFICATION {
            return Err(wrong_list(AdditionalSense::UNSUPPORTED_TARGET_DESCRIPTOR));
        }
        // CODE SET 1, binary, and DESIGNATOR TYPE 3, NAA, of 8 bytes: the designator of page 83h that fits here.
        let is_naa = descriptor[4] & 0x0f == 1 && descriptor[5] & 0x3f == 3 && descriptor[7] == 8;
        let naa = be64(descriptor, 8);
        let mut units = call.device.units().iter();
        Ok(units.position(|unit| is_naa && unit.identity.naa() == naa))
    });
    places.collect()
}

fn segments_of(
    call: &Call<'_>,
    units: &[Option<usize>],
    mut descriptors: &[u8],
) -> Result<Vec<CopySegment>, Sense> {
    let mut segments = Vec::new();
    while !descriptors.is_empty() {
        if descriptors.len() < 4 {
            return Err(wrong_list(AdditionalSense::PARAMETER_LIST_LENGTH));
        }
        if descriptors[0] != BLOCK_TO_BLOCK {
            return Err(wrong_list(AdditionalSense::UNSUPPORTED_SEGMENT_DESCRIPTOR));
        }
        let Some((descriptor, rest)) = descriptors
            .split_at_checked(SEGMENT_BYTES)
            .filter(|_| usize::from(be16(descriptors, 2)) == SEGMENT_BYTES - 4)
        else {
            return Err(wrong_list(AdditionalSense::PARAMETER_LIST_LENGTH));
        };
        if segments.len() >= MAX_SEGMENTS {
            return Err(wrong_list(AdditionalSense::TOO_MANY_SEGMENT_DESCRIPTORS));
        }
        segments.extend(segment_of(call, units, descriptor)?);
        descriptors = rest;
    }
    Ok(segments)
}

/// One segment; `None` when it copies nothing.
fn segment_of(
    call: &Call<'_>,
    units: &[Option<usize>],
    descriptor: &[u8],
) -> Result<Option<CopySegment>, Sense> {
    let unreachable = aborted(AdditionalSense::COPY_TARGET_NOT_REACHABLE);
    let unit = |at: usize| {
        let index = usize::from(be16(descriptor, at));
        units.get(index).copied().flatten().ok_or(unreachable)
    };
    let (from, to) = (unit(4)?, unit(6)?);
    let device = call.device.units();
    reachable(call.nexus, from, to)?;
    if device[to].read_only {
        return Err(unreachable);
    }
    let blocks = u64::from(be16(descriptor, 10));
    // DC: the number counts blocks of the destination.
    let counted = if descriptor[1] & 0x02 == 0 { from } else { to };
    let len_bytes = blocks * u64::from(device[counted].geometry.block_bytes());
    let start = |unit: usize, at: usize| {
        let geometry = &device[unit].geometry;
        let block_bytes = u64::from(geometry.block_bytes());
        if !len_bytes.is_multiple_of(block_bytes) {
            return Err(aborted(AdditionalSense::INEXACT_SEGMENT));
        }
        let lba = be64(descriptor, at);
        lba.checked_add(len_bytes / block_bytes)
            .filter(|end| *end <= geometry.blocks())
            .map(|_| lba * block_bytes)
            .ok_or(aborted(AdditionalSense::NONE))
    };
    let segment = CopySegment {
        from_unit: from,
        from_bytes: start(from, 12)?,
        to_unit: to,
        to_bytes: start(to, 20)?,
        len_bytes,
    };
    Ok((len_bytes > 0).then_some(segment))
}

/// Whether the state of both units allows `nexus` to copy.
fn reachable(nexus: &Nexus, from: usize, to: usize) -> Result<(), Sense> {
    let (source, destination) = (nexus.view(from), nexus.view(to));
    let reachable = source.access >= Access::Reading
        && destination.access >= Access::Full
        && !source.stopped
        && !destination.stopped
        && !destination.mode.write_protected;
    match reachable {
        true => Ok(()),
        false => Err(aborted(AdditionalSense::COPY_TARGET_NOT_REACHABLE)),
    }
}

/// RECEIVE COPY STATUS (LID1).
pub(super) fn status(call: &mut Call<'_>) -> Outcome {
    let list_id = call.cdb[2];
    let mut copies = call.nexus.copies.iter();
    let Some(copy) = copies.find(|copy| copy.list_id == list_id) else {
        return Err(Sense::invalid_field(2, None).into());
    };
    let progress = &copy.progress;
    let segments = progress.segments.load(Ordering::Relaxed).to_be_bytes();
    let kib = progress.bytes.load(Ordering::Relaxed) >> 10;
    let kib = u32::try_from(kib).unwrap_or(u32::MAX).to_be_bytes();
    let mut data = vec![0, 0, 0, 8, progress.status.load(Ordering::Relaxed)];
    data.extend(segments);
    data.push(0x01); // TRANSFER COUNT UNITS: KiB
    data.extend(kib);
    Ok(Reply::Data(cut(data, be32(call.cdb, 10))))
}

/// RECEIVE COPY OPERATING PARAMETERS.
pub(super) fn operating_parameters(call: &mut Call<'_>) -> Outcome {
    let mut data = vec![0; 44];
    data[4] = 0x01; // SNLID: the list identifier is optional
    data[8..10].copy_from_slice(&(MAX_TARGETS as u16).to_be_bytes());
    data[10..12].copy_from_slice(&(MAX_SEGMENTS as u16).to_be_bytes());
    data[12..16].copy_from_slice(&(MAX_LIST_BYTES as u32).to_be_bytes());
    data[16..20].copy_from_slice(&MAX_SEGMENT_BYTES.to_be_bytes());
    data[35] = KEPT_COPIES as u8; // TOTAL CONCURRENT COPIES, of 16 bits
    data[36] = KEPT_COPIES as u8; // MAXIMUM CONCURRENT COPIES
    data[37] = 9; // DATA SEGMENT GRANULARITY: 512 bytes
    data[43] = 2;
    data.extend([BLOCK_TO_BLOCK, IDENTIFICATION]);
    let length = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&length.to_be_bytes());
    Ok(Reply::Data(cut(data, be32(call.cdb, 10))))
}

/// The body of the Third-party Copy VPD page (SPC-4 7.8.17): supported commands, limits and descriptors.
pub(super) fn vpd_body() -> Vec<u8> {
    let mut data = Vec::new();
    let commands = [
        opcode::THIRD_PARTY_COPY_OUT,
        1,
        opcode::EXTENDED_COPY,
        opcode::THIRD_PARTY_COPY_IN,
        2,
        opcode::COPY_STATUS,
        opcode::COPY_OPERATING_PARAMETERS,
    ];
    third_party_descriptor(&mut data, 0x0001, &with_length(&commands));
    let mut parameters = vec![0; 28];
    parameters[4..6].copy_from_slice(&(MAX_TARGETS as u16).to_be_bytes());
    parameters[6..8].copy_from_slice(&(MAX_SEGMENTS as u16).to_be_bytes());
    parameters[8..12].copy_from_slice(&(MAX_LIST_BYTES as u32).to_be_bytes());
    third_party_descriptor(&mut data, 0x0004, &parameters);
    let codes = [BLOCK_TO_BLOCK, IDENTIFICATION];
    third_party_descriptor(&mut data, 0x0008, &with_length(&codes));
    data
}

fn with_length(list: &[u8]) -> Vec<u8> {
    [&[list.len() as u8], list].concat()
}

/// Appends a third-party copy descriptor, padded to a multiple of four bytes.
fn third_party_descriptor(data: &mut Vec<u8>, kind: u16, body: &[u8]) {
    let padded_bytes = body.len().next_multiple_of(4);
    data.extend(kind.to_be_bytes());
    data.extend((padded_bytes as u16).to_be_bytes());
    data.extend(body);
    data.resize(data.len() + padded_bytes - body.len(), 0);
}
