//! The contents of a unit's blocks.

use std::collections::HashMap;

use wansan_workload::content;

/// Unit of allocation: a piece is filled in when its first byte is written.
const PIECE_BYTES: usize = 64 << 10;

/// The content of a unit: written data over its initial content. Only pieces that were written take memory.
#[derive(Debug)]
pub(super) struct Medium {
    /// Of the initial content; zeros without one.
    seed: Option<u64>,
    /// Written pieces by index, from 0.
    written: HashMap<u64, Vec<u8>>,
}

impl Medium {
    /// A unit with the initial content of that seed, or zeros.
    pub(super) fn new(seed: Option<u64>) -> Medium {
        Medium {
            seed,
            written: HashMap::new(),
        }
    }

    /// Reads from that offset on, a multiple of 8.
    pub(super) fn read(&self, offset_bytes: u64, into: &mut [u8]) {
        let mut at = offset_bytes;
        let mut rest = into;
        while !rest.is_empty() {
            let (place, from, bytes) = extent(at, rest.len());
            let (here, after) = rest.split_at_mut(bytes);
            match (self.written.get(&place), self.seed) {
                (Some(piece), _) => here.copy_from_slice(&piece[from..from + bytes]),
                (None, Some(seed)) => content::fill(here, at, seed),
                (None, None) => here.fill(0),
            }
            at += bytes as u64;
            rest = after;
        }
    }

    /// Writes from that offset on, a multiple of 8.
    pub(super) fn write(&mut self, offset_bytes: u64, data: &[u8]) {
        let mut at = offset_bytes;
        let mut rest = data;
        while !rest.is_empty() {
            let (place, from, bytes) = extent(at, rest.len());
            let seed = self.seed;
            let piece = self.written.entry(place).or_insert_with(|| {
                let mut piece = vec![0; PIECE_BYTES];
                if let Some(seed) = seed {
                    content::fill(&mut piece, place * PIECE_BYTES as u64, seed);
                }
                piece
            });
            piece[from..from + bytes].copy_from_slice(&rest[..bytes]);
            at += bytes as u64;
            rest = &rest[bytes..];
        }
    }
}

/// The piece that contains byte `at`, the byte's offset there, and how many of the bytes from it on the piece contains.
fn extent(at: u64, bytes: usize) -> (u64, usize, usize) {
    let from = (at % PIECE_BYTES as u64) as usize;
    (at / PIECE_BYTES as u64, from, bytes.min(PIECE_BYTES - from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_lies_over_what_was_there() {
        let mut medium = Medium::new(Some(7));
        let mut expected = vec![0; 3 * PIECE_BYTES];
        content::fill(&mut expected, 0, 7);
        // Across the boundary between two pieces.
        let data = vec![0xaa; 4096];
        let at = PIECE_BYTES - 1024;
        medium.write(at as u64, &data);
        expected[at..at + 4096].copy_from_slice(&data);
        let mut read = vec![0; 3 * PIECE_BYTES];
        medium.read(0, &mut read);
        assert!(read == expected);
        medium.read(at as u64 + 8, &mut read[..16]);
        assert_eq!(read[..16], [0xaa; 16]);
        let mut zeros = vec![1; 4096];
        Medium::new(None).read(PIECE_BYTES as u64 * 9 - 8, &mut zeros);
        assert!(zeros.iter().all(|byte| *byte == 0));
    }
}
