//! Capture bytes that are still needed: frames that wait for earlier ones, and bytes read after them. They stay where
//! they were read to, in one contiguous buffer, so that no frame is copied in order to wait.

use std::io::{self, Read};

/// Maximum bytes per read.
const READ_BYTES: usize = 1 << 18;
/// Minimum capacity; memory beyond what is needed is not touched.
const LEAST_BYTES: usize = 1 << 22;

/// Bytes that are still needed, by their position in all bytes ever kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Holds bytes up to `filled`.
    memory: Vec<u8>,
    filled: usize,
    /// Position of the first byte in `memory`.
    first: u64,
}

impl Kept {
    /// Position after the last byte.
    pub(super) fn end(&self) -> u64 {
        self.first + self.filled as u64
    }

    /// The bytes from `place` on, which must still be needed.
    pub(super) fn since(&self, place: u64) -> &[u8] {
        &self.memory[(place - self.first) as usize..self.filled]
    }

    /// Appends bytes; those before the position given by `needed` may be discarded.
    pub(super) fn push(&mut self, bytes: &[u8], needed: impl FnOnce() -> u64) {
        self.make_room(bytes.len(), needed);
        self.memory[self.filled..][..bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
    }

    /// Reads more of the file; bytes before the position given by `needed` may be discarded. Returns the number of
    /// bytes read: 0 at the end of the file.
    ///
    /// # Errors
    /// The operating system's error.
    pub(super) fn read(
        &mut self,
        file: &mut impl Read,
        needed: impl FnOnce() -> u64,
    ) -> io::Result<usize> {
        self.make_room(READ_BYTES, needed);
        let came = loop {
            match file.read(&mut self.memory[self.filled..][..READ_BYTES]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                came => break came?,
            }
        };
        self.filled += came;
        Ok(came)
    }

    /// Makes room after the last byte: moves what is needed to the front if it fills at most half of the memory with
    /// the new bytes, or else into larger memory.
    fn make_room(&mut self, bytes: usize, needed: impl FnOnce() -> u64) {
        if self.memory.capacity() - self.filled >= bytes {
            let end = self.filled + bytes;
            self.memory.resize(end.max(self.memory.len()), 0);
            return;
        }
        let needed = needed();
        let over = (needed - self.first) as usize;
        let live = self.filled - over;
        if 2 * (live + bytes) > self.memory.capacity() {
            let mut memory = Vec::with_capacity(LEAST_BYTES.max(4 * (live + bytes)));
            memory.extend_from_slice(&self.memory[over..self.filled]);
            memory.resize(live + bytes, 0);
            self.memory = memory;
        } else {
            self.memory.copy_within(over..self.filled, 0);
        }
        self.first = needed;
        self.filled = live;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_stays_and_memory_does_not_grow_with_what_passes() {
        let mut kept = Kept::default();
        let mut places = std::collections::VecDeque::new();
        for number in 0..100_000_u32 {
            let needed = places.front().copied().unwrap_or(kept.end());
            places.push_back(kept.end());
            kept.push(&number.to_le_bytes().repeat(100), || needed);
            if places.len() > 50 {
                let place = places.pop_front().unwrap();
                assert_eq!(kept.since(place)[..4], (number - 50).to_le_bytes());
            }
        }
        assert!(
            kept.memory.capacity() <= LEAST_BYTES,
            "{}",
            kept.memory.len()
        );
    }

    #[test]
    fn a_file_is_read_to_its_end() {
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|at| at as u8).collect();
        let mut file = &bytes[..];
        let mut kept = Kept::default();
        while kept.read(&mut file, || 0).unwrap() > 0 {}
        assert_eq!(kept.since(0), bytes);
        assert_eq!(kept.end(), 1_000_000);
    }
}
