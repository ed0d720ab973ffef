//! What a machine has to send.

/// A buffer that is longer than this is freed when all of it was sent.
const KEPT_BYTES: usize = 4 << 20;

/// Bytes to send, in one contiguous buffer: taking what was sent from its front costs amortised O(1) for each byte.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// All of it is initialised, so that it can be lent out without clearing it each time.
    buffer: Vec<u8>,
    /// Where the unsent bytes begin.
    head: usize,
    /// Where they end.
    tail: usize,
}

impl Output {
    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.extend(bytes.len()).copy_from_slice(bytes);
    }

    /// Appends `bytes` bytes of undefined content, for the caller to write.
    pub(crate) fn extend(&mut self, bytes: usize) -> &mut [u8] {
        if self.buffer.len() - self.tail < bytes {
            self.make_room(bytes);
        }
        let start = self.tail;
        self.tail += bytes;
        &mut self.buffer[start..self.tail]
    }

    /// Drops what was appended behind the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.tail = self.tail.min(self.head + len);
    }

    /// How many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.tail - self.head
    }

    /// The bytes.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.buffer[self.head..self.tail]
    }

    /// The first `bytes` were sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        let pending = self.len();
        assert!(bytes <= pending, "{bytes} bytes were sent of {pending}");
        self.head += bytes;
        if self.head == self.tail {
            self.head = 0;
            self.tail = 0;
            if self.buffer.len() > KEPT_BYTES {
                self.buffer = Vec::new();
            }
        }
    }

    #[cold]
    fn make_room(&mut self, bytes: usize) {
        // Moving is worth it only when more was sent than has to be moved: so every byte moves once on average.
        if self.head >= self.len() {
            self.buffer.copy_within(self.head..self.tail, 0);
            self.tail -= self.head;
            self.head = 0;
        }
        let needed = self.tail + bytes;
        if needed > self.buffer.len() {
            self.buffer.resize(needed.max(2 * self.buffer.len()), 0);
        }
    }

    /// How much memory it holds, bytes.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.buffer.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_comes_out_in_order() {
        let mut output = Output::default();
        let (mut pushed, mut sent) = (0u32, 0u32);
        for round in 0..2_000usize {
            for _ in 0..round % 7 {
                output.push(&pushed.to_be_bytes());
                pushed += 1;
            }
            while output.len() > 8 * (round % 5) {
                assert_eq!(output.pending()[..4], sent.to_be_bytes());
                output.sent(4);
                sent += 1;
            }
        }
        assert_eq!(output.len(), 4 * (pushed - sent) as usize);
        assert!(output.memory_bytes() < 1000);
    }

    #[test]
    fn what_was_begun_can_be_dropped() {
        let mut output = Output::default();
        output.push(b"kept");
        output.sent(1);
        let len = output.len();
        output.extend(100).fill(1);
        output.truncate(len);
        assert_eq!(output.pending(), b"ept");
    }

    #[test]
    fn a_great_buffer_is_freed() {
        let mut output = Output::default();
        output.extend(KEPT_BYTES + 1);
        output.sent(KEPT_BYTES + 1);
        assert_eq!(output.memory_bytes(), 0);
    }
}
