//! MODE SENSE and MODE SELECT (6) and (10): mode parameters of a logical unit (SPC-4, SBC-3). WCE and SWP can be
//! changed, for all initiators together; nothing can be saved.

use super::answer::{Reply, cut};
use super::command::{Call, Delivery, Outcome, Refused};
use super::nexus::ModeParameters;
use super::{AdditionalSense, LogicalUnit, Malformed, Sense, UnitAttention, be16, be32, be64};

/// The Caching page (SBC-3).
pub const CACHING: u8 = 0x08;
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
/// DPOFUA and WP in the device-specific parameter: DPO and FUA are supported; write protected.
const DPOFUA: u8 = 0x10;
const WP: u8 = 0x80;

/// WCE in byte 2 of the Caching page.
const WCE: u8 = 0x04;
/// SWP in byte 4 of the Control page.
const SWP: u8 = 0x08;

/// PAGE CONTROL: the requested values.
#[derive(Clone, Copy)]
enum Values {
    Current,
    Default,
    /// Ones in bits that MODE SELECT can change.
    Changeable,
}

/// MODE SENSE (6).
pub(super) fn sense_6(call: &mut Call<'_>) -> Outcome {
    let pages = pages(call)?;
    let descriptor = match call.cdb[1] & DBD {
        0 => short_descriptor(call.unit),
        _ => Vec::new(),
    };
    let mut data = vec![0, 0, device_specific(call), descriptor.len() as u8];
    data.extend(descriptor);
    data.extend(pages);
    // MODE DATA LENGTH counts the bytes after it. All pages together are far below 256 bytes.
    data[0] = (data.len() - 1) as u8;
    Ok(Reply::Data(cut(data, call.cdb[4])))
}

/// MODE SENSE (10).
pub(super) fn sense_10(call: &mut Call<'_>) -> Outcome {
    let pages = pages(call)?;
    let (long, descriptor) = match (call.cdb[1] & DBD, call.cdb[1] & LLBAA) {
        (0, 0) => (false, short_descriptor(call.unit)),
        (0, _) => (true, long_descriptor(call.unit)),
        _ => (false, Vec::new()),
    };
    let mut data = vec![0, 0, 0, device_specific(call), u8::from(long), 0, 0, 0];
    data[7] = descriptor.len() as u8;
    data.extend(descriptor);
    data.extend(pages);
    let length = (data.len() - 2) as u16;
    data[..2].copy_from_slice(&length.to_be_bytes());
    Ok(Reply::Data(cut(data, be16(call.cdb, 7))))
}

fn device_specific(call: &Call<'_>) -> u8 {
    let protected = call.unit.read_only || call.nexus.view(call.place).mode.write_protected;
    DPOFUA | if protected { WP } else { 0 }
}

/// Short LBA mode parameter block descriptor: the number of blocks saturates at 32 bits.
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

/// The pages requested in bytes 2 and 3, in ascending order.
fn pages(call: &Call<'_>) -> Result<Vec<u8>, Sense> {
    let values = match call.cdb[2] >> 6 {
        0b00 => Values::Current,
        0b01 => Values::Changeable,
        0b10 => Values::Default,
        _ => return Err(Sense::illegal(AdditionalSense::SAVING_NOT_SUPPORTED)),
    };
    let asked = call.cdb[2] & 0x3f;
    let all = [CACHING, CONTROL, INFORMATIONAL_EXCEPTIONS];
    let asked_for = all
        .iter()
        .filter(|code| asked == ALL_PAGES || asked == **code);
    let current = call.nexus.view(call.place).mode;
    let pages = asked_for.map(|code| page(*code, call.unit, current, values));
    let pages: Vec<u8> = pages.flatten().collect();
    if pages.is_empty() {
        return Err(Sense::invalid_field(2, Some(5)));
    }
    match call.cdb[3] {
        0 | ALL_SUBPAGES => Ok(pages),
        _ => Err(Sense::invalid_field(3, None)),
    }
}

/// One page, with its code and its length.
fn page(code: u8, unit: &LogicalUnit, current: ModeParameters, values: Values) -> Vec<u8> {
    let shown = match values {
        Values::Current => current,
        Values::Default => ModeParameters::default_of(unit),
        Values::Changeable => ModeParameters {
            // Without a cache there is nothing to enable.
            write_cache: unit.write_cache,
            write_protected: true,
        },
    };
    let length = if code == CACHING { 0x12 } else { 0x0a };
    let mut page = vec![0; 2 + length];
    page[0] = code;
    page[1] = length as u8;
    match code {
        CACHING if shown.write_cache => page[2] = WCE,
        CONTROL => {
            if !matches!(values, Values::Changeable) {
                // QUEUE ALGORITHM MODIFIER 1h: commands may be reordered.
                page[3] = 0x10;
            }
            if shown.write_protected {
                page[4] = SWP;
            }
        }
        _ => {}
    }
    page
}

/// SP in byte 1 of MODE SELECT: save the values. PF: the pages are those of SPC.
const SP: u8 = 0x01;
const PF: u8 = 0x10;

fn check_flags(call: &Call<'_>) -> Result<(), Sense> {
    if call.cdb[1] & SP != 0 {
        return Err(Sense::invalid_field(1, Some(0)));
    }
    if call.cdb[1] & PF == 0 {
        return Err(Sense::invalid_field(1, Some(4)));
    }
    Ok(())
}

pub(super) fn select_6_bytes(call: &Call<'_>) -> Result<u32, Sense> {
    check_flags(call)?;
    Ok(u32::from(call.cdb[4]))
}

/// MODE SELECT (6).
pub(super) fn select_6(call: &mut Call<'_>, delivery: Delivery) -> Outcome {
    let list = delivery.data;
    if call.cdb[4] == 0 {
        return Ok(Reply::DONE);
    }
    let [_, _, _, descriptor_bytes, rest @ ..] = &list[..] else {
        return Err(Sense::illegal(AdditionalSense::PARAMETER_LIST_LENGTH).into());
    };
    select(call, usize::from(*descriptor_bytes), false, rest)
}

pub(super) fn select_10_bytes(call: &Call<'_>) -> Result<u32, Sense> {
    check_flags(call)?;
    Ok(u32::from(be16(call.cdb, 7)))
}

/// MODE SELECT (10).
pub(super) fn select_10(call: &mut Call<'_>, delivery: Delivery) -> Outcome {
    let list = delivery.data;
    if call.cdb[7..9] == [0, 0] {
        return Ok(Reply::DONE);
    }
    if list.len() < 8 {
        return Err(Sense::illegal(AdditionalSense::PARAMETER_LIST_LENGTH).into());
    }
    let long = list[4] & 0x01 != 0;
    select(call, usize::from(be16(&list, 6)), long, &list[8..])
}

/// Applies the block descriptor and the pages in `list`, all of it or nothing.
fn select(call: &mut Call<'_>, descriptor_bytes: usize, long: bool, list: &[u8]) -> Outcome {
    let short = Sense::illegal(AdditionalSense::PARAMETER_LIST_LENGTH);
    let (descriptor, mut pages) = list.split_at_checked(descriptor_bytes).ok_or(short)?;
    check_descriptor(call.unit, descriptor, long)?;
    let (unit, place, own) = (call.unit, call.place, call.nexus.id());
    let (change, fence) = call.change(|state| {
        state.check_unchanging(place)?;
        let current = state.units[place].mode;
        let mut wanted = current;
        while !pages.is_empty() {
            let length = 2 + usize::from(*pages.get(1).ok_or(short)?);
            let (given, rest) = pages.split_at_checked(length).ok_or(short)?;
            wanted = changed_by(given, unit, wanted)?;
            pages = rest;
        }
        if wanted == current {
            // An earlier command's change may still wait for the stores.
            return Ok((None, state.fence(place, |_| true)));
        }
        // Setting SWP flushes the cache first (SPC-4 7.5.8); clearing WCE does the same (SBC-3 6.5.5).
        let protects = wanted.write_protected && !current.write_protected;
        let clears = current.write_cache && !wanted.write_cache;
        let flushes = unit.write_cache && (protects || clears);
        let change = flushes.then(|| state.begin_change(place, own));
        state.units[place].mode = wanted;
        if change.is_none() {
            let attention = UnitAttention::ModeParametersChanged;
            state.establish(place, attention, |nexus| nexus.id != own);
        }
        // With SWP nothing lands any more, and without WCE all data already landed is flushed.
        Ok::<_, Refused>((change, state.fence(place, |_| true)))
    })?;
    call.nexus.wait_for(fence);
    Ok(match change {
        Some(number) => call.flush_for(number),
        None => Reply::DONE,
    })
}

/// A unit's size and block length cannot be changed; 0 blocks, or all ones, leave the size alone (SBC-3 6.4.2).
fn check_descriptor(unit: &LogicalUnit, descriptor: &[u8], long: bool) -> Result<(), Sense> {
    let geometry = &unit.geometry;
    let (blocks, block_bytes) = match (descriptor.len(), long) {
        (0, _) => return Ok(()),
        (8, false) => match be32(descriptor, 0) {
            u32::MAX => (0, be32(descriptor, 4) & 0x00ff_ffff),
            blocks => (u64::from(blocks), be32(descriptor, 4) & 0x00ff_ffff),
        },
        (16, true) => match be64(descriptor, 0) {
            u64::MAX => (0, be32(descriptor, 12)),
            blocks => (blocks, be32(descriptor, 12)),
        },
        _ => {
            return Err(Sense::illegal(
                AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST,
            ));
        }
    };
    let same =
        (blocks == 0 || blocks == geometry.blocks()) && block_bytes == geometry.block_bytes();
    match same {
        true => Ok(()),
        false => Err(Sense::illegal(
            AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST,
        )),
    }
}

/// The mode parameters after a page: it may change only the changeable ones.
fn changed_by(
    given: &[u8],
    unit: &LogicalUnit,
    before: ModeParameters,
) -> Result<ModeParameters, Sense> {
    let invalid = Sense::illegal(AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST);
    let code = given[0];
    if !matches!(code, CACHING | CONTROL | INFORMATIONAL_EXCEPTIONS) {
        return Err(invalid);
    }
    let present = page(code, unit, before, Values::Current);
    let changeable = page(code, unit, before, Values::Changeable);
    if given.len() != present.len() {
        return Err(invalid);
    }
    let places = given.iter().zip(present.iter().zip(&changeable)).skip(2);
    for (given, (present, mask)) in places {
        if (given ^ present) & !mask != 0 {
            return Err(invalid);
        }
    }
    let mut after = before;
    match code {
        CACHING => after.write_cache = given[2] & WCE != 0,
        CONTROL => after.write_protected = given[4] & SWP != 0,
        _ => {}
    }
    Ok(after)
}

/// How a disk handles writes, from the data of MODE SENSE (10) for the [`CACHING`] page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteModes {
    /// WP: the unit is write protected.
    pub is_write_protected: bool,
    /// DPOFUA: FUA is supported.
    pub has_fua: bool,
    /// WCE: status may be sent before a write is on the medium.
    pub has_write_cache: bool,
}

impl WriteModes {
    /// Parses the data. A disk without the page, or with a short one, counts as having a write cache.
    ///
    /// # Errors
    /// When it is shorter than its header.
    pub fn parse_10(data: &[u8]) -> Result<WriteModes, Malformed> {
        const HEADER_BYTES: usize = 8;
        Malformed::check_bytes("MODE SENSE (10) data", data, HEADER_BYTES)?;
        let page = data.get(HEADER_BYTES + usize::from(be16(data, 6))..);
        let caching = page.filter(|page| page.len() > 2 && page[0] & 0x3f == CACHING);
        Ok(WriteModes {
            is_write_protected: data[3] & WP != 0,
            has_fua: data[3] & DPOFUA != 0,
            has_write_cache: caching.is_none_or(|page| page[2] & WCE != 0),
        })
    }
}
