//! CDBs, as an initiator builds them.
//!
//! iSCSI carries every CDB in 16 bytes, padded with zeros (RFC 7143 §11.3.5). READ and WRITE use their 10-byte form if
//! the range fits, because every target supports it, and otherwise their 16-byte form.

use super::opcode;
use super::reserve_in::{READ_FULL_STATUS, READ_KEYS};

/// A command descriptor block, padded with zeros.
pub type Cdb = [u8; 16];

/// FUA in byte 1 of READ and WRITE.
pub(super) const FUA: u8 = 0x08;
/// IMMED in byte 1 of SYNCHRONIZE CACHE.
pub(super) const IMMED: u8 = 0x02;
/// EVPD in byte 1 of INQUIRY.
pub(super) const EVPD: u8 = 0x01;

/// TEST UNIT READY.
#[must_use]
pub const fn test_unit_ready() -> Cdb {
    // The operation code is 0, and so is everything else.
    [0; 16]
}

/// REQUEST SENSE, fixed format.
#[must_use]
pub const fn request_sense(allocation_bytes: u8) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = opcode::REQUEST_SENSE;
    cdb[4] = allocation_bytes;
    cdb
}

/// INQUIRY for the standard data; [`Inquiry`](super::inquiry::Inquiry) parses it.
#[must_use]
pub fn inquiry(allocation_bytes: u16) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = opcode::INQUIRY;
    cdb[3..5].copy_from_slice(&allocation_bytes.to_be_bytes());
    cdb
}

/// INQUIRY for a VPD page.
#[must_use]
pub fn inquiry_page(page: u8, allocation_bytes: u16) -> Cdb {
    let mut cdb = inquiry(allocation_bytes);
    cdb[1] = EVPD;
    cdb[2] = page;
    cdb
}

/// READ CAPACITY (10); [`Capacity::parse_10`](super::capacity::Capacity::parse_10) parses the data.
#[must_use]
pub const fn read_capacity_10() -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = opcode::READ_CAPACITY_10;
    cdb
}

/// READ CAPACITY (16); [`Capacity::parse_16`](super::capacity::Capacity::parse_16) parses the data.
#[must_use]
pub fn read_capacity_16(allocation_bytes: u32) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = opcode::SERVICE_ACTION_IN_16;
    cdb[1] = opcode::READ_CAPACITY_16;
    cdb[10..14].copy_from_slice(&allocation_bytes.to_be_bytes());
    cdb
}

/// REPORT LUNS, without well known logical units; [`LunList`](super::report_luns::LunList) parses the data.
/// `allocation_bytes` should be at least 16.
#[must_use]
pub fn report_luns(allocation_bytes: u32) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = opcode::REPORT_LUNS;
    cdb[6..10].copy_from_slice(&allocation_bytes.to_be_bytes());
    cdb
}

/// READ of `blocks` from `lba` on.
#[must_use]
pub fn read(lba: u64, blocks: u32, fua: bool) -> Cdb {
    let mut cdb = ranged(opcode::READ_10, opcode::READ_16, lba, blocks);
    cdb[1] = if fua { FUA } else { 0 };
    cdb
}

/// WRITE of `blocks` from `lba` on.
#[must_use]
pub fn write(lba: u64, blocks: u32, fua: bool) -> Cdb {
    let mut cdb = ranged(opcode::WRITE_10, opcode::WRITE_16, lba, blocks);
    cdb[1] = if fua { FUA } else { 0 };
    cdb
}

/// SYNCHRONIZE CACHE of `blocks` from `lba` on, 0 for all up to the end. With `immediate` the status does not wait for
/// the medium.
#[must_use]
pub fn synchronize_cache(lba: u64, blocks: u32, immediate: bool) -> Cdb {
    let mut cdb = ranged(
        opcode::SYNCHRONIZE_CACHE_10,
        opcode::SYNCHRONIZE_CACHE_16,
        lba,
        blocks,
    );
    cdb[1] = if immediate { IMMED } else { 0 };
    cdb
}

/// UNMAP, with a parameter list of one descriptor ([`unmap_list`]).
#[must_use]
pub fn unmap() -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = opcode::UNMAP;
    cdb[7..9].copy_from_slice(&(UNMAP_LIST_BYTES as u16).to_be_bytes());
    cdb
}

/// The header and one descriptor.
const UNMAP_LIST_BYTES: usize = 24;

/// The parameter list of [`unmap`]: `blocks` from `lba` on.
#[must_use]
pub fn unmap_list(lba: u64, blocks: u32) -> Vec<u8> {
    let mut list = vec![0; UNMAP_LIST_BYTES];
    // UNMAP DATA LENGTH and UNMAP BLOCK DESCRIPTOR DATA LENGTH count what follows them.
    list[1] = UNMAP_LIST_BYTES as u8 - 2;
    list[3] = UNMAP_LIST_BYTES as u8 - 8;
    list[8..16].copy_from_slice(&lba.to_be_bytes());
    list[16..20].copy_from_slice(&blocks.to_be_bytes());
    list
}

/// WRITE SAME (16) of one block of data to `blocks`, at least one, from `lba` on. With `unmap` the target may unmap
/// them.
#[must_use]
pub fn write_same_16(lba: u64, blocks: u32, unmap: bool) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = opcode::WRITE_SAME_16;
    cdb[1] = if unmap { UNMAP_BIT } else { 0 };
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

/// UNMAP in byte 1 of WRITE SAME.
const UNMAP_BIT: u8 = 0x08;

/// GET LBA STATUS from `lba` on; [`parse_runs`](super::parse_runs) parses the data.
#[must_use]
pub fn get_lba_status(lba: u64, allocation_bytes: u32) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = opcode::SERVICE_ACTION_IN_16;
    cdb[1] = opcode::GET_LBA_STATUS;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&allocation_bytes.to_be_bytes());
    cdb
}

/// MODE SENSE (10) for the current values of a page, without block descriptors;
/// [`WriteModes::parse_10`](super::WriteModes::parse_10) parses the data.
#[must_use]
pub fn mode_sense_10(page: u8, allocation_bytes: u16) -> Cdb {
    const DBD: u8 = 0x08;
    let mut cdb = [0; 16];
    cdb[0] = opcode::MODE_SENSE_10;
    cdb[1] = DBD;
    cdb[2] = page;
    cdb[7..9].copy_from_slice(&allocation_bytes.to_be_bytes());
    cdb
}

/// PERSISTENT RESERVE IN for the generation and the registered keys (SPC-4 §6.15.2).
#[must_use]
pub fn persistent_reserve_in_keys(allocation_bytes: u16) -> Cdb {
    persistent_reserve_in(READ_KEYS, allocation_bytes)
}

/// PERSISTENT RESERVE IN for the registrants and their keys (SPC-4 §6.15.5);
/// [`parse_registrants`](super::parse_registrants) parses the data.
#[must_use]
pub fn persistent_reserve_in_full_status(allocation_bytes: u16) -> Cdb {
    persistent_reserve_in(READ_FULL_STATUS, allocation_bytes)
}

fn persistent_reserve_in(service_action: u8, allocation_bytes: u16) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = opcode::PERSISTENT_RESERVE_IN;
    cdb[1] = service_action;
    cdb[7..9].copy_from_slice(&allocation_bytes.to_be_bytes());
    cdb
}

/// REPORT TARGET PORT GROUPS with the length-only header; [`parse_port_groups`](super::parse_port_groups) parses the
/// data.
#[must_use]
pub fn report_target_port_groups(allocation_bytes: u32) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = opcode::MAINTENANCE_IN;
    cdb[1] = opcode::REPORT_TARGET_PORT_GROUPS;
    cdb[6..10].copy_from_slice(&allocation_bytes.to_be_bytes());
    cdb
}

/// READ, WRITE and SYNCHRONIZE CACHE have their range at the same offsets.
fn ranged(opcode_10: u8, opcode_16: u8, lba: u64, blocks: u32) -> Cdb {
    let mut cdb = [0; 16];
    if let (Ok(lba), Ok(blocks)) = (u32::try_from(lba), u16::try_from(blocks)) {
        cdb[0] = opcode_10;
        cdb[2..6].copy_from_slice(&lba.to_be_bytes());
        cdb[7..9].copy_from_slice(&blocks.to_be_bytes());
    } else {
        cdb[0] = opcode_16;
        cdb[2..10].copy_from_slice(&lba.to_be_bytes());
        cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    }
    cdb
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_bytes() {
        assert_eq!(test_unit_ready(), [0; 16]);
        assert_eq!(request_sense(18)[..6], [0x03, 0, 0, 0, 18, 0]);
        assert_eq!(inquiry(0x1234)[..6], [0x12, 0, 0, 0x12, 0x34, 0]);
        assert_eq!(inquiry_page(0x83, 255)[..6], [0x12, 1, 0x83, 0, 255, 0]);
        assert_eq!(read_capacity_10()[..10], [0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            read_capacity_16(32),
            [0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0]
        );
        assert_eq!(
            report_luns(0x0102_0304)[..12],
            [0xa0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0]
        );
        assert_eq!(
            read(0x0102_0304, 0x0506, false)[..10],
            [0x28, 0, 1, 2, 3, 4, 0, 5, 6, 0]
        );
        assert_eq!(
            write(0x0102_0304, 8, true)[..10],
            [0x2a, 0x08, 1, 2, 3, 4, 0, 0, 8, 0]
        );
        assert_eq!(
            synchronize_cache(0, 0, true)[..10],
            [0x35, 0x02, 0, 0, 0, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn known_bytes_of_provisioning() {
        assert_eq!(unmap()[..10], [0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0]);
        let list = unmap_list(0x0102, 0x0304);
        assert_eq!(list[..8], [0, 22, 0, 16, 0, 0, 0, 0]);
        assert_eq!(list[8..], [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4, 0, 0, 0, 0]);
        assert_eq!(
            write_same_16(1, 2, true),
            [0x93, 0x08, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0]
        );
        assert_eq!(
            get_lba_status(1, 24),
            [0x9e, 0x12, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 24, 0, 0]
        );
        assert_eq!(
            mode_sense_10(8, 64)[..10],
            [0x5a, 8, 8, 0, 0, 0, 0, 0, 64, 0]
        );
    }

    #[test]
    fn ranges_that_do_not_fit_ten_bytes_take_sixteen() {
        assert_eq!(
            read(1 << 32, 8, true),
            [0x88, 0x08, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0]
        );
        assert_eq!(
            write(1, 0x1_0000, false),
            [0x8a, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0]
        );
        assert_eq!(synchronize_cache(1 << 32, 0, false)[0], 0x91);
        assert_eq!(read(u64::from(u32::MAX), 0xffff, false)[0], 0x28);
    }
}
