//! A stream at its receiver.

use wansan_trace::Instant;

use super::mark::{Clock, Incoming, Nonsense};

/// Limit of unsent echoes in bytes: above it, nothing more is read from the sender.
const MOST_ECHOES_BYTES: usize = 64 << 10;

/// A receiver's view of a stream. The driver passes what it reads to [`take`](Self::take) while
/// [`wants_input`](Self::wants_input), writes what is [pending](Self::pending), and reports it to [`sent`](Self::sent).
#[derive(Debug)]
pub struct Receiving {
    incoming: Incoming,
    /// Answers that the socket has not taken yet.
    answers: Vec<u8>,
}

impl Receiving {
    /// A stream at a receiver with that clock.
    #[must_use]
    pub fn new(clock: Clock) -> Receiving {
        Receiving {
            incoming: Incoming::new(clock),
            answers: Vec::new(),
        }
    }

    /// Whether to read more before answers have been sent.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.answers.len() <= MOST_ECHOES_BYTES
    }

    /// Processes what was read at `now`.
    ///
    /// # Errors
    /// [`Nonsense`] if the peer is not a sender of streams.
    pub fn take(&mut self, bytes: &[u8], now: Instant) -> Result<(), Nonsense> {
        self.incoming.take(bytes, now, &mut self.answers)
    }

    /// Answers to write.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.answers
    }

    /// Removes the first `bytes` of them, which were written.
    pub fn sent(&mut self, bytes: usize) {
        self.answers.drain(..bytes);
    }

    /// Whether the Hello is complete.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.incoming.has_begun()
    }

    /// Marks echoed.
    #[must_use]
    pub fn marks(&self) -> u64 {
        self.incoming.marks()
    }
}
