//! What a disk reports of itself.

use wansan_iscsi::scsi::capacity::Capacity;
use wansan_iscsi::scsi::inquiry::Inquiry;
use wansan_iscsi::scsi::vpd::{self, BlockLimits, Provisioning};
use wansan_iscsi::scsi::{WriteModes, cdb, mode};
use wansan_iscsi::wire::Lun;
use wansan_san::load::{LoadError, ask, capacity, page};
use wansan_san::{Sessions, UnitIdentity};

/// Longest READ or WRITE, in bytes: longer ones gain nothing on any path and delay other commands.
const LONGEST_TRANSFER_BYTES: u64 = 1 << 20;

/// Longest range of one UNMAP or WRITE SAME, in bytes, where the disk reports no limit: each may take long, and a
/// session that is silent for too long is dropped.
const LONGEST_STRETCH_BYTES: u64 = 1 << 30;

/// Properties of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its capacity.
    pub capacity: Capacity,
    /// Vendor, product and revision.
    pub model: String,
    /// Its write cache and write protection.
    pub modes: WriteModes,
    /// Its thin provisioning.
    pub provisioning: Provisioning,
    /// Its transfer limits.
    pub limits: BlockLimits,
    /// Its identifiers and size, by which a different disk at the same place is detected.
    pub identity: UnitIdentity,
    /// Whether its list of VPD pages includes the serial number.
    pub lists_serial: bool,
}

impl Facts {
    /// Queries the disk.
    pub(super) fn ask(sessions: &mut Sessions, lun: u16, at: Lun) -> Result<Facts, LoadError> {
        let capacity = capacity(sessions, lun)?;
        let inquiry = ask(sessions, at, cdb::inquiry(96), 96)?;
        let model = inquiry.and_then(|data| Inquiry::parse(&data).ok());
        let model = model.map(|it| format!("{} {} {}", it.vendor, it.product, it.revision));
        let sense = ask(sessions, at, cdb::mode_sense_10(mode::CACHING, 64), 64)?;
        let modes = sense.and_then(|data| WriteModes::parse_10(&data).ok());
        // Without mode pages, assume writable, with a cache and without FUA.
        let modes = modes.unwrap_or(WriteModes {
            is_write_protected: false,
            has_fua: false,
            has_write_cache: true,
        });
        let pages = page(sessions, at, vpd::SUPPORTED_PAGES)?;
        let pages = pages.and_then(|data| Some(vpd::supported_pages(&data).ok()?.to_vec()));
        let pages = pages.unwrap_or_default();
        let mut page_if_there = |code| match pages.contains(&code) {
            true => page(sessions, at, code),
            false => Ok(None),
        };
        let limits = page_if_there(vpd::BLOCK_LIMITS)?;
        let provisioning = page_if_there(vpd::PROVISIONING)?;
        Ok(Facts {
            capacity,
            model: model.unwrap_or_default(),
            modes,
            limits: limits
                .and_then(|data| BlockLimits::parse(&data).ok())
                .unwrap_or_default(),
            provisioning: provisioning
                .and_then(|data| Provisioning::parse(&data).ok())
                .unwrap_or_default(),
            identity: UnitIdentity::ask(sessions, at, capacity)?,
            lists_serial: pages.contains(&vpd::SERIAL_NUMBER),
        })
    }

    /// Its serial number, if it has one and lists it: it identifies the data kept on this host for the disk.
    pub(crate) fn serial(&self) -> &[u8] {
        match self.lists_serial {
            true => self.identity.serial(),
            false => &[],
        }
    }

    /// Logical block size, in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.capacity.block_bytes.into()
    }

    /// Whether ranges can be unmapped.
    #[must_use]
    pub fn can_trim(&self) -> bool {
        self.unmaps() || self.provisioning.by_write_same
    }

    /// Whether UNMAP is supported.
    pub(super) fn unmaps(&self) -> bool {
        self.provisioning.by_unmap && self.limits.unmap_blocks > 0
    }

    /// Longest READ or WRITE, in bytes; a whole number of blocks.
    pub(super) fn transfer_bytes(&self) -> u64 {
        self.at_most(self.limits.transfer_blocks.into(), LONGEST_TRANSFER_BYTES)
    }

    /// Longest UNMAP, in bytes.
    pub(super) fn unmap_bytes(&self) -> u64 {
        self.at_most(self.limits.unmap_blocks.into(), LONGEST_STRETCH_BYTES)
    }

    /// Longest WRITE SAME, in bytes.
    pub(super) fn write_same_bytes(&self) -> u64 {
        self.at_most(self.limits.write_same_blocks, LONGEST_STRETCH_BYTES)
    }

    /// The smaller of a limit in blocks (0 for none) and one in bytes.
    fn at_most(&self, blocks: u64, bytes: u64) -> u64 {
        let block = self.block_bytes();
        let own = if blocks == 0 { u64::MAX } else { blocks };
        own.min(bytes / block).max(1) * block
    }
}
