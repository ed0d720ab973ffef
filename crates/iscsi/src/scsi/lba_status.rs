//! The parameter data of GET LBA STATUS (SBC-3 5.6.2).

use super::{Malformed, be32, be64};

/// Bytes before the runs.
pub(super) const HEADER_BYTES: usize = 8;
/// Bytes of a run: an LBA status descriptor.
pub(super) const RUN_BYTES: usize = 16;

/// PROVISIONING STATUS.
const MAPPED: u8 = 0x00;
const DEALLOCATED: u8 = 0x01;

/// Builder for the data of GET LBA STATUS: extents of mapped or unmapped blocks.
#[derive(Debug)]
pub struct LbaStatus {
    data: Vec<u8>,
    next_lba: u64,
}

impl LbaStatus {
    /// Data whose first run begins at `lba`.
    #[must_use]
    pub fn from(lba: u64) -> LbaStatus {
        LbaStatus {
            data: vec![0; HEADER_BYTES],
            next_lba: lba,
        }
    }

    /// Appends a run of `blocks`, at least one; blocks beyond the field's 32 bits are
    /// left to another command. A run with the status of the one before it is merged into it.
    pub fn push(&mut self, blocks: u64, mapped: bool) {
        let status = if mapped { MAPPED } else { DEALLOCATED };
        if self.goes_on(mapped) {
            let at = self.data.len() - 8;
            let before = u64::from(be32(&self.data, at));
            let blocks = u32::try_from(before + blocks).unwrap_or(u32::MAX);
            self.data[at..at + 4].copy_from_slice(&blocks.to_be_bytes());
            self.next_lba = be64(&self.data, at - 8) + u64::from(blocks);
            return;
        }
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        self.data.extend(self.next_lba.to_be_bytes());
        self.data.extend(blocks.to_be_bytes());
        self.data.extend([status, 0, 0, 0]);
        self.next_lba += u64::from(blocks);
    }

    /// Whether such a run would be merged into the last one.
    #[must_use]
    pub fn goes_on(&self, mapped: bool) -> bool {
        let status = if mapped { MAPPED } else { DEALLOCATED };
        self.runs() > 0 && self.data[self.data.len() - 4] == status
    }

    /// The first block after the runs.
    #[must_use]
    pub const fn next_lba(&self) -> u64 {
        self.next_lba
    }

    /// Number of runs.
    #[must_use]
    pub const fn runs(&self) -> usize {
        (self.data.len() - HEADER_BYTES) / RUN_BYTES
    }

    /// The Data-In.
    #[must_use]
    pub fn into_data(mut self) -> Vec<u8> {
        // PARAMETER DATA LENGTH counts the bytes after it.
        let length = (self.data.len() - 4) as u32;
        self.data[..4].copy_from_slice(&length.to_be_bytes());
        self.data
    }
}

/// A run of blocks with one provisioning status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LbaRun {
    /// The first block.
    pub lba: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// Whether they are mapped, including anchored ones.
    pub is_mapped: bool,
}

/// Parses the runs in the data of GET LBA STATUS.
///
/// # Errors
/// When it is shorter than its header.
pub fn parse_runs(data: &[u8]) -> Result<Vec<LbaRun>, Malformed> {
    Malformed::check_bytes("LBA status", data, HEADER_BYTES)?;
    let end = data.len().min((be32(data, 0) as usize).saturating_add(4));
    let runs = data[HEADER_BYTES.min(end)..end].chunks_exact(RUN_BYTES);
    let runs = runs.map(|run| LbaRun {
        lba: be64(run, 0),
        blocks: be32(run, 8),
        is_mapped: run[12] & 0x0f != DEALLOCATED,
    });
    Ok(runs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_stand_one_after_the_other() {
        let mut status = LbaStatus::from(0x10);
        status.push(3, true);
        status.push(2, true);
        status.push(1 << 40, false);
        assert_eq!((status.runs(), status.next_lba()), (2, 0x15 + 0xffff_ffff));
        let mut expected = vec![0, 0, 0, 36, 0, 0, 0, 0];
        expected.extend([0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 5, 0, 0, 0, 0]);
        expected.extend([0, 0, 0, 0, 0, 0, 0, 0x15, 255, 255, 255, 255, 1, 0, 0, 0]);
        let data = status.into_data();
        assert_eq!(data, expected);
        let run = |lba, blocks, is_mapped| LbaRun {
            lba,
            blocks,
            is_mapped,
        };
        let runs = [run(0x10, 5, true), run(0x15, u32::MAX, false)];
        assert_eq!(parse_runs(&data), Ok(runs.to_vec()));
        assert_eq!(parse_runs(&data[..30]), Ok(runs[..1].to_vec()));
        assert!(parse_runs(&data[..7]).is_err());
    }
}
