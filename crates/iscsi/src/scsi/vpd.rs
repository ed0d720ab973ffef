//! Vital product data: the pages of INQUIRY with EVPD (SPC-4, SBC-3).

use super::answer::cut;
use super::unit::VENDOR;
use super::{Cdb, LogicalUnit, Malformed, Sense, be16, be32, be64, copy, inquiry, medium};

/// Supported VPD Pages.
pub const SUPPORTED_PAGES: u8 = 0x00;
/// Unit Serial Number.
pub const SERIAL_NUMBER: u8 = 0x80;
/// Device Identification.
pub const IDENTIFICATION: u8 = 0x83;
/// Third-party Copy.
const THIRD_PARTY_COPY: u8 = 0x8f;
/// Block Limits (SBC-3).
pub const BLOCK_LIMITS: u8 = 0xb0;
/// Block Device Characteristics (SBC-3).
const CHARACTERISTICS: u8 = 0xb1;
/// Logical Block Provisioning (SBC-3).
pub const PROVISIONING: u8 = 0xb2;

/// All pages, in ascending order as in page 00h.
const PAGES: [u8; 7] = [
    SUPPORTED_PAGES,
    SERIAL_NUMBER,
    IDENTIFICATION,
    THIRD_PARTY_COPY,
    BLOCK_LIMITS,
    CHARACTERISTICS,
    PROVISIONING,
];

/// Length of the Block Limits and the Block Device Characteristics page without headers.
const LONG_PAGE_BYTES: usize = 0x3c;

/// In byte 5 of page B2h.
const LBPU: u8 = 0x80;
const LBPWS: u8 = 0x40;
const LBPWS10: u8 = 0x20;
const LBPRZ: u8 = 0x04;

/// INQUIRY with EVPD.
pub(super) fn page(unit: &LogicalUnit, cdb: &Cdb) -> Result<Vec<u8>, Sense> {
    let body = match cdb[2] {
        SUPPORTED_PAGES => PAGES.to_vec(),
        SERIAL_NUMBER => unit.identity.serial().into_bytes(),
        IDENTIFICATION => identification(unit),
        BLOCK_LIMITS => block_limits(unit),
        CHARACTERISTICS => characteristics(),
        THIRD_PARTY_COPY => copy::vpd_body(),
        PROVISIONING => provisioning(unit),
        _ => return Err(Sense::invalid_field(2, None)),
    };
    // A disk (peripheral byte 0), the page's code and its length. The longest page is 83h, with
    // two names of at most 223 bytes.
    let mut data = vec![0, cdb[2]];
    data.extend((body.len() as u16).to_be_bytes());
    data.extend(body);
    Ok(cut(data, inquiry::allocation_bytes(cdb)))
}

/// ASSOCIATION of a designator.
#[derive(Clone, Copy)]
enum Of {
    Unit = 0x00,
    TargetPort = 0x10,
    TargetDevice = 0x20,
}

const ASSOCIATION: u8 = 0x30;
const DESIGNATOR_TYPE: u8 = 0x0f;
const PORT_GROUP: u8 = 0x5;

/// Page 83h: the unit by two designators of its own, the target port by number, portal group and name, the target
/// device by name.
fn identification(unit: &LogicalUnit) -> Vec<u8> {
    let identity = &unit.identity;
    let tag = identity.portal_group_tag;
    let mut data = Vec::new();

    designator(&mut data, Of::Unit, 0x1, 0x3, &identity.naa().to_be_bytes());
    let t10 = [&VENDOR[..], identity.serial().as_bytes()].concat();
    designator(&mut data, Of::Unit, 0x2, 0x1, &t10);

    let port = u32::from(identity.relative_port()).to_be_bytes();
    designator(&mut data, Of::TargetPort, 0x1, 0x4, &port);
    let group = u32::from(tag).to_be_bytes();
    designator(&mut data, Of::TargetPort, 0x1, PORT_GROUP, &group);
    // The name of a target port: RFC 7143 §4.4.2.
    let port_name = name_string(&identity.target_name, &format!(",t,0x{tag:04x}"));
    designator(&mut data, Of::TargetPort, 0x3, 0x8, &port_name);
    let device_name = name_string(&identity.target_name, "");
    designator(&mut data, Of::TargetDevice, 0x3, 0x8, &device_name);
    data
}

/// A SCSI name string: an iSCSI name, at most its maximum of 223 bytes, and a suffix; terminated by a zero and padded
/// to a multiple of four bytes.
fn name_string(name: &str, suffix: &str) -> Vec<u8> {
    let name = name.as_bytes();
    let mut bytes = [&name[..name.len().min(223)], suffix.as_bytes(), &[0]].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Appends one designation descriptor. The code set is 1 for binary, 2 for ASCII, 3 for UTF-8.
fn designator(data: &mut Vec<u8>, of: Of, code_set: u8, kind: u8, value: &[u8]) {
    // For ports and devices PIV means that the protocol, 5h iSCSI, is given.
    let (protocol, piv) = match of {
        Of::Unit => (0x00, 0x00),
        Of::TargetPort | Of::TargetDevice => (0x50, 0x80),
    };
    data.extend([
        protocol | code_set,
        piv | of as u8 | kind,
        0,
        value.len() as u8,
    ]);
    data.extend(value);
}

/// Page B0h.
fn block_limits(unit: &LogicalUnit) -> Vec<u8> {
    let geometry = &unit.geometry;
    let granularity = 1u16 << geometry.physical_block_exponent();
    let max_write_same = medium::MAX_WRITE_SAME_BYTES / u64::from(geometry.block_bytes());
    let mut data = vec![0; LONG_PAGE_BYTES];
    // Offsets are those of the standard, less the page's header of 4 bytes.
    data[0] = 0x01; // WSNZ: WRITE SAME rejects a length of 0
    data[1] = medium::MAX_COMPARE_AND_WRITE_BLOCKS;
    data[2..4].copy_from_slice(&granularity.to_be_bytes());
    data[4..8].copy_from_slice(&geometry.max_transfer_blocks().to_be_bytes());
    data[8..12].copy_from_slice(&geometry.optimal_transfer_blocks().to_be_bytes());
    if unit.thin {
        // MAXIMUM UNMAP LBA COUNT: no limit.
        data[16..20].fill(0xff);
        data[20..24].copy_from_slice(&medium::MAX_UNMAP_DESCRIPTORS.to_be_bytes());
        let optimal = medium::optimal_unmap_blocks(geometry);
        data[24..28].copy_from_slice(&optimal.to_be_bytes());
        data[28] = 0x80; // UGAVALID: the granularity begins at LBA 0
    }
    data[32..40].copy_from_slice(&max_write_same.to_be_bytes());
    data
}

/// Page B2h: LBPU, LBPWS, LBPWS10 and LBPRZ, and the provisioning type thin. No threshold is reported, and blocks
/// cannot be anchored.
fn provisioning(unit: &LogicalUnit) -> Vec<u8> {
    match unit.thin {
        true => vec![0, LBPU | LBPWS | LBPWS10 | LBPRZ, 0x02, 0],
        false => vec![0; 4],
    }
}

/// Page B1h.
fn characteristics() -> Vec<u8> {
    let mut data = vec![0; LONG_PAGE_BYTES];
    data[1] = 0x01; // MEDIUM ROTATION RATE 0001h: does not rotate
    data
}

/// The header of a page.
const HEADER_BYTES: usize = 4;

/// The body of a page.
fn body<'a>(what: &'static str, data: &'a [u8], code: u8) -> Result<&'a [u8], Malformed> {
    Malformed::check_bytes(what, data, HEADER_BYTES)?;
    if data[1] != code {
        return Err(Malformed::value(what, "page code", data[1]));
    }
    let end = data.len().min(HEADER_BYTES + usize::from(be16(data, 2)));
    Ok(&data[HEADER_BYTES..end])
}

/// The pages that a logical unit supports, from page 00h.
///
/// # Errors
/// When it is shorter than its header, or another page.
pub fn supported_pages(data: &[u8]) -> Result<&[u8], Malformed> {
    body("list of VPD pages", data, SUPPORTED_PAGES)
}

/// Limits of a logical unit's commands, from page B0h (SBC-3 6.6.4); 0 where it reports no limit, or does not support
/// the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockLimits {
    /// MAXIMUM TRANSFER LENGTH, in blocks.
    pub transfer_blocks: u32,
    /// MAXIMUM UNMAP LBA COUNT, in blocks.
    pub unmap_blocks: u32,
    /// MAXIMUM WRITE SAME LENGTH, in blocks.
    pub write_same_blocks: u64,
}

impl BlockLimits {
    /// Parses page B0h; fields missing from SBC-2's shorter page are 0.
    ///
    /// # Errors
    /// When it is shorter than 12 bytes, or another page.
    pub fn parse(data: &[u8]) -> Result<BlockLimits, Malformed> {
        const WHAT: &str = "Block Limits page";
        let mut body = body(WHAT, data, BLOCK_LIMITS)?.to_vec();
        Malformed::check_bytes(WHAT, &body, 8)?;
        body.resize(LONG_PAGE_BYTES, 0);
        Ok(BlockLimits {
            transfer_blocks: be32(&body, 4),
            unmap_blocks: be32(&body, 16),
            write_same_blocks: be64(&body, 32),
        })
    }
}

/// How blocks of a logical unit can be unmapped, from page B2h (SBC-3 6.6.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Provisioning {
    /// LBPU: by UNMAP.
    pub by_unmap: bool,
    /// LBPWS: by WRITE SAME (16) with its UNMAP bit.
    pub by_write_same: bool,
    /// LBPRZ: unmapped blocks read as zeros.
    pub reads_zeros: bool,
}

impl Provisioning {
    /// Parses page B2h.
    ///
    /// # Errors
    /// When it is shorter than 6 bytes, or another page.
    pub fn parse(data: &[u8]) -> Result<Provisioning, Malformed> {
        const WHAT: &str = "Logical Block Provisioning page";
        let body = body(WHAT, data, PROVISIONING)?;
        Malformed::check_bytes(WHAT, body, 2)?;
        Ok(Provisioning {
            by_unmap: body[1] & LBPU != 0,
            by_write_same: body[1] & LBPWS != 0,
            reads_zeros: body[1] & LBPRZ != 0,
        })
    }
}

/// Page 83h of a logical unit and of the port used (SPC-4 7.8.6).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identification {
    /// The unit's world wide designators, each preceded by its type: T10 vendor, EUI-64, NAA, SCSI name string, UUID.
    pub names: Vec<Vec<u8>>,
    /// The port's target port group.
    pub port_group: Option<u16>,
}

impl Identification {
    /// Parses page 83h, even if truncated.
    ///
    /// # Errors
    /// When it is shorter than its header, or another page.
    pub fn parse(data: &[u8]) -> Result<Identification, Malformed> {
        const DESCRIPTOR_BYTES: usize = 4;
        /// Types of designators that are unique to a unit: T10 vendor ID, EUI-64, NAA, SCSI name string, UUID.
        const NAMES: [u8; 5] = [0x1, 0x2, 0x3, 0x8, 0xa];
        let mut left = body("Device Identification page", data, IDENTIFICATION)?;
        let mut found = Identification::default();
        while let Some((header, rest)) = left.split_at_checked(DESCRIPTOR_BYTES)
            && let Some((value, rest)) = rest.split_at_checked(header[3].into())
        {
            left = rest;
            let (of, kind) = (header[1] & ASSOCIATION, header[1] & DESIGNATOR_TYPE);
            if of == Of::Unit as u8 && NAMES.contains(&kind) {
                found.names.push([&[kind][..], value].concat());
            }
            if of == Of::TargetPort as u8 && kind == PORT_GROUP && value.len() == 4 {
                found.port_group = Some(be16(value, 2));
            }
        }
        Ok(found)
    }
}
