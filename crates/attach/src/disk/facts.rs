//! What a disk says of itself.

use wansan_iscsi::scsi::capacity::Capacity;
use wansan_iscsi::scsi::inquiry::Inquiry;
use wansan_iscsi::scsi::vpd::{self, BlockLimits, Provisioning};
use wansan_iscsi::scsi::{WriteModes, cdb, mode};
use wansan_iscsi::wire::Lun;
use wansan_san::load::{LoadError, ask, capacity, page};
use wansan_san::{Sessions, UnitIdentity};

/// The longest READ or WRITE, in bytes: longer ones gain nothing on any path, and hold others up.
const LONGEST_TRANSFER_BYTES: u64 = 1 << 20;

/// The longest stretch that one UNMAP or WRITE SAME is about, in bytes, where the disk has no limit of its own: it
/// may take its time for each, and a session is lost that has been silent for too long.
const LONGEST_STRETCH_BYTES: u64 = 1 << 30;

/// What is known of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// How large it is.
    pub capacity: Capacity,
    /// Vendor, product and revision.
    pub model: String,
    /// How it takes writes.
    pub modes: WriteModes,
    /// How blocks can be unmapped.
    pub provisioning: Provisioning,
    /// What it takes at once.
    pub limits: BlockLimits,
    /// Its names and its size: another disk at the same place is not taken for it.
    pub identity: UnitIdentity,
    /// Whether it lists its serial number among its VPD pages.
    pub lists_serial: bool,
}

impl Facts {
    /// Asks the disk.
    pub(super) fn ask(sessions: &mut Sessions, lun: u16, at: Lun) -> Result<Facts, LoadError> {
        let capacity = capacity(sessions, lun)?;
        let inquiry = ask(sessions, at, cdb::inquiry(96), 96)?;
        let model = inquiry.and_then(|data| Inquiry::parse(&data).ok());
        let model = model.map(|it| format!("{} {} {}", it.vendor, it.product, it.revision));
        let sense = ask(sessions, at, cdb::mode_sense_10(mode::CACHING, 64), 64)?;
        let modes = sense.and_then(|data| WriteModes::parse_10(&data).ok());
        // A disk that does not say is taken for writable, with a cache and without FUA.
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

    /// Its serial number, if it has one and lists it: what is kept of a disk on this host bears it.
    pub(crate) fn serial(&self) -> &[u8] {
        match self.lists_serial {
            true => self.identity.serial(),
            false => &[],
        }
    }

    /// The size of a logical block, in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.capacity.block_bytes.into()
    }

    /// Whether ranges can be unmapped.
    #[must_use]
    pub fn can_trim(&self) -> bool {
        self.unmaps() || self.provisioning.by_write_same
    }

    /// Whether UNMAP does it.
    pub(super) fn unmaps(&self) -> bool {
        self.provisioning.by_unmap && self.limits.unmap_blocks > 0
    }

    /// The longest READ or WRITE, in bytes; a whole number of blocks.
    pub(super) fn transfer_bytes(&self) -> u64 {
        self.at_most(self.limits.transfer_blocks.into(), LONGEST_TRANSFER_BYTES)
    }

    /// The longest UNMAP, in bytes.
    pub(super) fn unmap_bytes(&self) -> u64 {
        self.at_most(self.limits.unmap_blocks.into(), LONGEST_STRETCH_BYTES)
    }

    /// The longest WRITE SAME, in bytes.
    pub(super) fn write_same_bytes(&self) -> u64 {
        self.at_most(self.limits.write_same_blocks, LONGEST_STRETCH_BYTES)
    }

    /// A limit in blocks, 0 for none, and one in bytes.
    fn at_most(&self, blocks: u64, bytes: u64) -> u64 {
        let block = self.block_bytes();
        let own = if blocks == 0 { u64::MAX } else { blocks };
        own.min(bytes / block).max(1) * block
    }
}
