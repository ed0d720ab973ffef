//! Memory for direct I/O, which bypasses the page cache (open(2), `O_DIRECT`).

/// An alignment that every device accepts, in bytes.
const ALIGNMENT: usize = 4096;
/// Maximum memory kept for the next use, in bytes.
const KEPT_BYTES: usize = 64 << 10;

/// A buffer whose bytes begin at a multiple of [`ALIGNMENT`]. Callers' buffers do not, so data is copied.
#[derive(Debug, Default)]
pub(super) struct Aligned {
    memory: Vec<u8>,
}

impl Aligned {
    /// Its first `length` bytes, with any content.
    pub(super) fn bytes(&mut self, length: usize) -> &mut [u8] {
        let needed = length + ALIGNMENT;
        if self.memory.len() < needed {
            self.memory = vec![0; needed];
        }
        let start = self.memory.as_ptr().align_offset(ALIGNMENT);
        &mut self.memory[start..start + length]
    }

    /// Its memory, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.memory.len()
    }

    /// Frees its memory if that is a lot.
    pub(super) fn shrink(&mut self) {
        if self.memory.len() > KEPT_BYTES + ALIGNMENT {
            self.memory = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_aligned_whatever_its_length() {
        let mut aligned = Aligned::default();
        for length in [512, 4096, KEPT_BYTES, 1 << 20, 512] {
            let bytes = aligned.bytes(length);
            assert_eq!(bytes.len(), length);
            assert_eq!(bytes.as_ptr().align_offset(ALIGNMENT), 0);
            aligned.shrink();
            assert!(aligned.memory.len() <= KEPT_BYTES + ALIGNMENT);
        }
    }
}
