//! READ CAPACITY (10) and (16): the size of a logical unit (SBC-3).

use super::answer::{Reply, cut};
use super::command::{Call, Outcome};
use super::{Malformed, be32, be64};

/// READ CAPACITY (10). A unit whose last LBA does not fit in 32 bits returns all ones: use the 16-byte command.
pub(super) fn read_10(call: &mut Call<'_>) -> Outcome {
    let geometry = &call.unit.geometry;
    let last_lba = u32::try_from(geometry.blocks() - 1).unwrap_or(u32::MAX);
    let data = [last_lba, geometry.block_bytes()].map(u32::to_be_bytes);
    Ok(Reply::Data(data.concat()))
}

/// LBPME and LBPRZ in byte 14: thin, and unmapped blocks read as zeros.
const THIN_READS_ZEROS: u8 = 0xc0;

/// READ CAPACITY (16): no protection information, aligned at LBA 0.
pub(super) fn read_16(call: &mut Call<'_>) -> Outcome {
    let geometry = &call.unit.geometry;
    let mut data = vec![0; 32];
    data[0..8].copy_from_slice(&(geometry.blocks() - 1).to_be_bytes());
    data[8..12].copy_from_slice(&geometry.block_bytes().to_be_bytes());
    data[13] = geometry.physical_block_exponent();
    if call.unit.thin {
        data[14] = THIN_READS_ZEROS;
    }
    Ok(Reply::Data(cut(data, be32(call.cdb, 10))))
}

/// A logical unit's capacity, as reported to the initiator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Capacity {
    /// Number of logical blocks, at least one.
    pub blocks: u64,
    /// Size of a logical block, at least one byte.
    pub block_bytes: u32,
    /// Logical blocks per physical block, as a power of two; 0 when not reported.
    pub physical_block_exponent: u8,
}

impl Capacity {
    /// The unit's size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.blocks.saturating_mul(u64::from(self.block_bytes))
    }

    /// Parses the data of READ CAPACITY (10); `None` when the unit is too large for it and requires READ CAPACITY (16).
    ///
    /// # Errors
    /// When it is shorter than 8 bytes or the block length is 0.
    pub fn parse_10(data: &[u8]) -> Result<Option<Capacity>, Malformed> {
        Malformed::check_bytes("READ CAPACITY (10) data", data, 8)?;
        let last_lba = be32(data, 0);
        if last_lba == u32::MAX {
            return Ok(None);
        }
        let capacity = Capacity::new(u64::from(last_lba), be32(data, 4), 0)?;
        Ok(Some(capacity))
    }

    /// Parses the data of READ CAPACITY (16).
    ///
    /// # Errors
    /// When it is shorter than 12 bytes, the block length is 0, or the unit has more than 2^64 bytes.
    pub fn parse_16(data: &[u8]) -> Result<Capacity, Malformed> {
        Malformed::check_bytes("READ CAPACITY (16) data", data, 12)?;
        let exponent = data.get(13).copied().unwrap_or(0) & 0x0f;
        Capacity::new(be64(data, 0), be32(data, 8), exponent)
    }

    fn new(last_lba: u64, block_bytes: u32, exponent: u8) -> Result<Capacity, Malformed> {
        const WHAT: &str = "READ CAPACITY data";
        if block_bytes == 0 {
            return Err(Malformed::value(WHAT, "block length", block_bytes));
        }
        last_lba
            .checked_add(1)
            .filter(|blocks| blocks.checked_mul(u64::from(block_bytes)).is_some())
            .map(|blocks| Capacity {
                blocks,
                block_bytes,
                physical_block_exponent: exponent,
            })
            .ok_or(Malformed::value(WHAT, "last LBA", last_lba))
    }

    /// The unit's size.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.blocks * self.block_bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_cannot_be_are_refused() {
        let mut data = [0; 32];
        assert!(Capacity::parse_16(&data).is_err(), "blocks of no bytes");
        data[10] = 2;
        assert_eq!(
            Capacity::parse_16(&data[..12]).map(|c| c.size_bytes()),
            Ok(512)
        );
        assert!(Capacity::parse_16(&data[..11]).is_err(), "cut off");
        data[..8].fill(0xff);
        assert!(Capacity::parse_16(&data).is_err(), "2^64 blocks");
        data[0] = 0;
        assert!(
            Capacity::parse_16(&data).is_err(),
            "more bytes than 64 bits count"
        );
        assert!(Capacity::parse_10(&[0; 8]).is_err());
        assert!(Capacity::parse_10(&[0, 0, 0, 0, 0, 0, 2]).is_err());
        assert_eq!(
            Capacity::parse_10(&[0xff, 0xff, 0xff, 0xff, 0, 0, 2, 0]),
            Ok(None)
        );
    }
}
