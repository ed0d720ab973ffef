//! A logical unit: a disk as its initiators see it.

/// T10 VENDOR IDENTIFICATION, as INQUIRY sends it.
pub(super) const VENDOR: [u8; 8] = *b"wansan  ";
/// PRODUCT IDENTIFICATION.
pub(super) const PRODUCT: [u8; 16] = *b"virtual disk    ";
/// PRODUCT REVISION LEVEL: four bytes.
pub(super) const REVISION: &str = concat!(
    env!("CARGO_PKG_VERSION_MAJOR"),
    ".",
    env!("CARGO_PKG_VERSION_MINOR")
);

/// The identity of a logical unit. All its designators are derived from this, so they survive a restart of the target.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The iSCSI name of the target, at most 223 bytes (RFC 7143 §4.2.7.1); longer names are truncated.
    pub target_name: String,
    /// The portal group (RFC 7143 §13.9), which with the target's name identifies the target port.
    pub portal_group_tag: u16,
    /// Logical unit number, 0 to 16383: the range of [`Lun::single_level`](crate::wire::Lun::single_level).
    pub number: u16,
}

impl Identity {
    /// 64 bits that differ between logical units: FNV-1a of the target's name and the number, mixed so that similar
    /// inputs give dissimilar results.
    pub(super) fn unique_id(&self) -> u64 {
        let bytes = self.target_name.bytes().chain([0]);
        let hash = bytes
            .chain(self.number.to_be_bytes())
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ hash >> 31
    }

    /// Its NAA 3h name, locally assigned: wansan has no company ID for a world wide name.
    pub(super) fn naa(&self) -> u64 {
        0x3 << 60 | self.unique_id() >> 4
    }

    /// The relative identifier of the target port, from 1. A target has one port per portal group.
    pub(super) fn relative_port(&self) -> u16 {
        self.portal_group_tag.max(1)
    }

    /// The unit serial number: 16 hexadecimal digits.
    #[must_use]
    pub fn serial(&self) -> String {
        format!("{:016x}", self.unique_id())
    }
}

/// An invalid geometry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// Blocks have another size than 512 or 4096 bytes.
    #[error("the logical block length must be 512 or 4096 bytes, not {0}")]
    BlockBytes(u32),
    /// The size is zero or not a whole number of blocks.
    #[error("{size_bytes} bytes is not a whole number of {block_bytes}-byte blocks (at least one)")]
    SizeBytes {
        /// The requested size.
        size_bytes: u64,
        /// Size of a block.
        block_bytes: u32,
    },
}

/// The capacity and preferred transfer length of a logical unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Geometry {
    block_bytes: u32,
    blocks: u64,
    optimal_transfer_bytes: u32,
}

impl Geometry {
    /// The maximum length of one READ or WRITE, reported as MAXIMUM TRANSFER LENGTH: 16 MiB. That is the most data of
    /// an iSCSI burst (RFC 7143 §13.13), rounded up to a power of two.
    pub const MAX_TRANSFER_BYTES: u32 = 1 << 24;
    /// A physical block: the page size of stores.
    const PHYSICAL_BLOCK_BYTES: u32 = 4096;

    /// `size_bytes` in blocks of 512 or 4096 bytes. `optimal_transfer_bytes`, normally MaxBurstLength, is reported as
    /// OPTIMAL TRANSFER LENGTH in whole blocks, within the maximum; 0 reports none.
    pub fn new(
        size_bytes: u64,
        block_bytes: u32,
        optimal_transfer_bytes: u32,
    ) -> Result<Geometry, GeometryError> {
        if !matches!(block_bytes, 512 | 4096) {
            return Err(GeometryError::BlockBytes(block_bytes));
        }
        if size_bytes == 0 || !size_bytes.is_multiple_of(u64::from(block_bytes)) {
            return Err(GeometryError::SizeBytes {
                size_bytes,
                block_bytes,
            });
        }
        Ok(Geometry {
            block_bytes,
            blocks: size_bytes / u64::from(block_bytes),
            optimal_transfer_bytes: optimal_transfer_bytes.min(Geometry::MAX_TRANSFER_BYTES),
        })
    }

    /// Size of a logical block: 512 or 4096.
    #[must_use]
    pub const fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Number of logical blocks, at least one.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Logical blocks per physical block, as a power of two.
    pub(super) const fn physical_block_exponent(&self) -> u8 {
        (Geometry::PHYSICAL_BLOCK_BYTES / self.block_bytes).trailing_zeros() as u8
    }

    /// Most blocks of one READ or WRITE.
    pub(super) const fn max_transfer_blocks(&self) -> u32 {
        Geometry::MAX_TRANSFER_BYTES / self.block_bytes
    }

    /// Optimal length of one READ or WRITE in blocks; 0 when not reported.
    pub(super) const fn optimal_transfer_blocks(&self) -> u32 {
        self.optimal_transfer_bytes / self.block_bytes
    }
}

/// A logical unit: its identity, capacity and write behaviour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogicalUnit {
    /// Its identity.
    pub identity: Identity,
    /// Its size.
    pub geometry: Geometry,
    /// Writes without FUA are held in a volatile cache until SYNCHRONIZE CACHE (WCE). MODE SELECT
    /// can turn that off.
    pub write_cache: bool,
    /// Write-protected.
    pub read_only: bool,
    /// Thin provisioning: UNMAP and WRITE SAME can unmap blocks, which then read as zeros (LBPME,
    /// LBPRZ).
    pub thin: bool,
    /// Persistent reservations can survive a restart of the target (PTPL_C).
    pub keeps_reservations: bool,
}
