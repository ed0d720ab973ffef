//! What a machine has received: headers in one buffer, data and payloads in buffers of their own.

/// Length of the buffer.
const BUFFER_BYTES: usize = 64 << 10;

/// From this length on, the rest of a body is read into its place. A shorter one is worth a copy: what comes behind it
/// is then read by the same call.
const DIRECT_BYTES: usize = 16 << 10;

/// Takes a stream apart into headers of set lengths and bodies of lengths that the headers say.
///
/// It holds one buffer and at most one body.
#[derive(Debug)]
pub(crate) struct Input {
    /// All of it is initialised, so that it can be lent out without clearing it each time.
    buffer: Vec<u8>,
    /// Where the received bytes that nobody took begin.
    head: usize,
    /// Where they end.
    tail: usize,
    body: Option<Body>,
    /// How many of the next bytes nobody wants.
    skip_bytes: u64,
}

/// A body that is being received.
#[derive(Debug)]
struct Body {
    data: Vec<u8>,
    filled: usize,
    end: usize,
}

impl Body {
    fn missing(&self) -> usize {
        self.end - self.filled
    }
}

impl Input {
    pub(crate) fn new() -> Self {
        Input {
            buffer: vec![0; BUFFER_BYTES],
            head: 0,
            tail: 0,
            body: None,
            skip_bytes: 0,
        }
    }

    /// Space for what is received next, with undefined content. It is never empty once everything was taken that is
    /// complete.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.head == self.tail {
            self.head = 0;
            self.tail = 0;
        } else if self.tail > BUFFER_BYTES / 2 {
            // What is left is the beginning of a header, or what the caller has not polled yet.
            self.buffer.copy_within(self.head..self.tail, 0);
            self.tail -= self.head;
            self.head = 0;
        }
        match &mut self.body {
            Some(body) if body.missing() >= DIRECT_BYTES => &mut body.data[body.filled..body.end],
            _ => &mut self.buffer[self.tail..],
        }
    }

    /// `bytes` were received into [`space`](Self::space).
    pub(crate) fn received(&mut self, bytes: usize) {
        let space = match &mut self.body {
            Some(body) if body.missing() >= DIRECT_BYTES => {
                let space = body.missing();
                body.filled += bytes.min(space);
                space
            }
            _ => {
                let space = self.buffer.len() - self.tail;
                self.tail += bytes.min(space);
                space
            }
        };
        assert!(bytes <= space, "{bytes} bytes do not fit into {space}");
    }

    /// The next header, if all of it is there.
    pub(crate) fn header<const N: usize>(&self) -> Option<&[u8; N]> {
        self.buffer[self.head..self.tail].first_chunk()
    }

    /// The header was taken.
    pub(crate) fn take(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.tail - self.head);
        self.head += bytes;
    }

    /// From now on a body is received into `data[start..end]`. What is here of it already is taken by
    /// [`collected`](Self::collected), which has to be called before the next [`space`](Self::space).
    pub(crate) fn collect(&mut self, data: Vec<u8>, start: usize, end: usize) {
        debug_assert!(self.body.is_none() && start <= end && end <= data.len());
        self.body = Some(Body {
            data,
            filled: start,
            end,
        });
    }

    /// The body, once it is complete.
    pub(crate) fn collected(&mut self) -> Option<Vec<u8>> {
        let body = self.body.as_mut()?;
        let held = &self.buffer[self.head..self.tail];
        let bytes = held.len().min(body.missing());
        body.data[body.filled..body.filled + bytes].copy_from_slice(&held[..bytes]);
        body.filled += bytes;
        self.head += bytes;
        let body = self.body.take_if(|body| body.missing() == 0)?;
        Some(body.data)
    }

    /// From now on, `bytes` are dropped.
    pub(crate) fn skip(&mut self, bytes: u64) {
        self.skip_bytes = bytes;
    }

    /// Whether all is dropped that was to be skipped.
    pub(crate) fn skipped(&mut self) -> bool {
        let held = self.tail - self.head;
        let bytes = usize::try_from(self.skip_bytes).map_or(held, |skip| skip.min(held));
        self.head += bytes;
        self.skip_bytes -= bytes as u64;
        self.skip_bytes == 0
    }

    /// Drops everything.
    pub(crate) fn discard(&mut self) {
        self.head = self.tail;
        self.body = None;
    }

    /// How much memory it holds, bytes.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.buffer.capacity() + self.body.as_ref().map_or(0, |body| body.data.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(input: &mut Input, bytes: &[u8]) -> usize {
        let space = input.space();
        let taken = bytes.len().min(space.len());
        space[..taken].copy_from_slice(&bytes[..taken]);
        input.received(taken);
        taken
    }

    #[test]
    fn the_rest_of_a_long_body_goes_to_its_place() {
        let mut input = Input::new();
        let stream: Vec<u8> = (0..200_000u32).map(|byte| byte as u8).collect();
        let mut taken = feed(&mut input, &stream[..1004]);
        assert_eq!(input.header::<4>(), Some(&[0, 1, 2, 3]));
        input.take(4);
        input.collect(vec![0; 150_000], 0, 150_000);
        assert_eq!(input.collected(), None);
        assert_eq!(input.space().len(), 149_000);
        taken += feed(&mut input, &stream[taken..taken + 140_000]);
        assert_eq!(input.collected(), None);
        // The last 9000 bytes come together with what is behind them.
        assert_eq!(input.space().len(), BUFFER_BYTES);
        feed(&mut input, &stream[taken..]);
        assert_eq!(input.collected().as_deref(), Some(&stream[4..150_004]));
        assert_eq!(input.header::<1>(), Some(&[stream[150_004]]));
    }

    #[test]
    fn what_is_skipped_takes_no_memory() {
        let mut input = Input::new();
        input.skip(1_000_000);
        let mut left = 1_000_004;
        while left > 0 {
            assert!(!input.skipped());
            let bytes = left.min(BUFFER_BYTES);
            left -= feed(&mut input, &vec![7; bytes]);
        }
        assert!(input.skipped());
        assert_eq!(input.header::<4>(), Some(&[7; 4]));
        assert_eq!(input.memory_bytes(), BUFFER_BYTES);
    }

    #[test]
    fn headers_may_be_cut_anywhere() {
        let mut input = Input::new();
        let stream: Vec<u8> = (0..28 * 10_000u32).map(|byte| byte as u8).collect();
        let (mut fed, mut taken) = (0, 0);
        while taken < stream.len() {
            fed += feed(&mut input, &stream[fed..]);
            while let Some(header) = input.header::<28>() {
                assert_eq!(header[..], stream[taken..taken + 28]);
                input.take(28);
                taken += 28;
            }
            assert!(!input.space().is_empty());
        }
    }
}
