//! The blocks that a command reads or writes, by its CDB and its data (SBC-3 clause 5).

use core::ops::Range;

use super::{Cdb, be16, be32, be64, opcode};

/// Effect of a command on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Reads blocks.
    Read,
    /// Changes blocks.
    Write,
    /// Writes the volatile cache to the medium.
    Flush,
    /// Nothing that depends on its order with reads and writes.
    None,
}

/// The effect of a command with these Data-Out bytes, and its blocks; empty for none. An unknown command has no effect.
#[must_use]
pub fn extent(cdb: &Cdb, data_out: &[u8]) -> (Effect, Range<u64>) {
    let effect = match cdb[0] {
        opcode::READ_6 | opcode::READ_10 | opcode::READ_12 | opcode::READ_16 => Effect::Read,
        opcode::VERIFY_10 | opcode::VERIFY_12 | opcode::VERIFY_16 => Effect::Read,
        opcode::SYNCHRONIZE_CACHE_10 | opcode::SYNCHRONIZE_CACHE_16 => {
            return (Effect::Flush, 0..0);
        }
        opcode::UNMAP => return (Effect::Write, unmapped(data_out)),
        _ => Effect::Write,
    };
    let (first, count) = match cdb[0] {
        // A length of 0 means 256.
        opcode::READ_6 | opcode::WRITE_6 => {
            let first = be32(cdb, 0) & 0x1f_ffff;
            (first.into(), (u64::from(cdb[4]) + 255) % 256 + 1)
        }
        opcode::READ_10
        | opcode::VERIFY_10
        | opcode::WRITE_10
        | opcode::WRITE_AND_VERIFY_10
        | opcode::WRITE_SAME_10 => (be32(cdb, 2).into(), be16(cdb, 7).into()),
        opcode::READ_12 | opcode::VERIFY_12 | opcode::WRITE_12 | opcode::WRITE_AND_VERIFY_12 => {
            (be32(cdb, 2).into(), be32(cdb, 6).into())
        }
        opcode::READ_16
        | opcode::VERIFY_16
        | opcode::WRITE_16
        | opcode::WRITE_AND_VERIFY_16
        | opcode::WRITE_SAME_16
        | opcode::ORWRITE_16 => (be64(cdb, 2), be32(cdb, 10).into()),
        opcode::COMPARE_AND_WRITE => (be64(cdb, 2), cdb[13].into()),
        _ => return (Effect::None, 0..0),
    };
    // WRITE SAME of 0 blocks extends to the end of the unit; other commands of 0 blocks have none.
    let is_to_the_end =
        count == 0 && matches!(cdb[0], opcode::WRITE_SAME_10 | opcode::WRITE_SAME_16);
    let end = match is_to_the_end {
        true => u64::MAX,
        false => first.saturating_add(count),
    };
    (effect, first..end)
}

/// From the first block of an UNMAP parameter list (SBC-3 5.28.2) to the last; all blocks if the list is malformed.
fn unmapped(list: &[u8]) -> Range<u64> {
    const HEADER_BYTES: usize = 8;
    let Some((header, descriptors)) = list.split_at_checked(HEADER_BYTES) else {
        return 0..u64::MAX;
    };
    let length = usize::from(be16(header, 2)).min(descriptors.len());
    let (descriptors, _) = descriptors[..length].as_chunks::<16>();
    let ranges = descriptors.iter().filter_map(|descriptor| {
        let (first, count) = (be64(descriptor, 0), be32(descriptor, 8));
        (count > 0).then(|| first..first.saturating_add(count.into()))
    });
    let whole = ranges.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
    whole.unwrap_or(0..0)
}

#[cfg(test)]
mod tests {
    use super::super::cdb;
    use super::*;

    #[test]
    fn extents_are_what_the_cdb_says() {
        assert_eq!(extent(&cdb::write(7, 3, true), &[]), (Effect::Write, 7..10));
        let far = 1 << 40;
        let long = extent(&cdb::write(far, 3, true), &[]);
        assert_eq!(long, (Effect::Write, far..far + 3));
        assert_eq!(extent(&cdb::read(7, 3, false), &[]), (Effect::Read, 7..10));
        let mut write_6 = [0; 16];
        write_6[..5].copy_from_slice(&[0x0a, 0xe0, 1, 0, 0]);
        assert_eq!(extent(&write_6, &[]), (Effect::Write, 256..512));
        let to_the_end = extent(&cdb::write_same_16(9, 0, false), &[]);
        assert_eq!(to_the_end, (Effect::Write, 9..u64::MAX));
        let flush = cdb::synchronize_cache(0, 0, false);
        assert_eq!(extent(&flush, &[]), (Effect::Flush, 0..0));
        assert_eq!(extent(&cdb::inquiry(36), &[]), (Effect::None, 0..0));
    }

    #[test]
    fn unmapped_blocks_are_what_the_list_says() {
        let list = cdb::unmap_list(100, 8);
        assert_eq!(extent(&cdb::unmap(), &list), (Effect::Write, 100..108));
        let mut two = list.clone();
        two.extend_from_slice(&cdb::unmap_list(50, 1)[8..]);
        (two[2], two[3]) = (0, 32);
        assert_eq!(extent(&cdb::unmap(), &two), (Effect::Write, 50..108));
        assert_eq!(extent(&cdb::unmap(), &list[..8]), (Effect::Write, 0..0));
        let unreadable = extent(&cdb::unmap(), &list[..3]);
        assert_eq!(unreadable, (Effect::Write, 0..u64::MAX));
    }
}
