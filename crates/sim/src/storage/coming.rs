//! Data that one end has written and the program at the other end has not read yet.
//!
//! Simulated stores return zeros, which are most of the data in transit: only the number of zeros is kept, which saves
//! a bandwidth-delay product of memory.

use std::collections::VecDeque;

/// The unit in which zeros are detected.
const PIECE_BYTES: usize = 64;

/// Bytes in order of writing.
#[derive(Debug, Default)]
pub(super) struct Coming {
    stretches: VecDeque<Stretch>,
    /// The bytes of stretches that are kept.
    kept: VecDeque<u8>,
}

/// A run of bytes that are either kept or zeros.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    bytes: usize,
    is_kept: bool,
}

impl Coming {
    /// Appends bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        let (pieces, rest) = bytes.as_chunks::<PIECE_BYTES>();
        for piece in pieces {
            match piece.iter().fold(0, |any, byte| any | byte) {
                0 => self.add(PIECE_BYTES, false),
                _ => self.keep(piece),
            }
        }
        if !rest.is_empty() {
            self.keep(rest);
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.kept.extend(bytes);
        self.add(bytes.len(), true);
    }

    fn add(&mut self, bytes: usize, is_kept: bool) {
        match self.stretches.back_mut() {
            Some(last) if last.is_kept == is_kept => last.bytes += bytes,
            _ => self.stretches.push_back(Stretch { bytes, is_kept }),
        }
    }

    /// Fills `space` with the first bytes; at least as many must be available.
    pub(super) fn read(&mut self, mut space: &mut [u8]) {
        while !space.is_empty() {
            let Some(first) = self.stretches.front_mut() else {
                debug_assert!(false, "more is read than was written");
                return;
            };
            let bytes = first.bytes.min(space.len());
            let (part, rest) = std::mem::take(&mut space).split_at_mut(bytes);
            match first.is_kept {
                true => take(&mut self.kept, part),
                false => part.fill(0),
            }
            first.bytes -= bytes;
            if first.bytes == 0 {
                self.stretches.pop_front();
            }
            space = rest;
        }
    }
}

/// Moves the first bytes of `kept` into `part`.
fn take(kept: &mut VecDeque<u8>, part: &mut [u8]) {
    let (first, rest) = kept.as_slices();
    let (head, tail) = part.split_at_mut(part.len().min(first.len()));
    head.copy_from_slice(&first[..head.len()]);
    tail.copy_from_slice(&rest[..tail.len()]);
    kept.drain(..part.len());
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut coming = Coming::default();
        let (mut written, mut read) = (Vec::new(), Vec::new());
        for _ in 0..2_000 {
            // Runs of zeros and of other bytes.
            let mut bytes = Vec::new();
            for _ in 0..random.next_u32() % 8 {
                let byte = random.next_u32().saturating_sub(1 << 31) as u8;
                bytes.extend(vec![byte; random.next_u32() as usize % 300]);
            }
            coming.write(&bytes);
            written.extend(bytes);
            let most = random.next_u32() as usize % 2_000;
            let mut space = vec![0xff; most.min(written.len() - read.len())];
            coming.read(&mut space);
            read.extend(space);
        }
        assert!(written.len() > 100_000 && read == written[..read.len()]);
    }

    #[test]
    fn zeros_take_no_memory() {
        let mut coming = Coming::default();
        coming.write(&[0; 1 << 20]);
        assert_eq!((coming.stretches.len(), coming.kept.len()), (1, 0));
    }
}
