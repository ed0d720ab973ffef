//! A stream at its receiver.

use wansan_trace::Instant;

use super::mark::{Clock, Incoming, Nonsense};

/// Echoes that a sender does not read: beyond so many bytes, nothing more is read of it.
const MOST_ECHOES_BYTES: usize = 64 << 10;

/// What a receiver makes of a stream. [`take`](Self::take) is given what was read, while it
/// [wants](Self::wants_input) any; what is [pending](Self::pending) is written, and [`sent`](Self::sent) told.
#[derive(Debug)]
pub struct Receiving {
    incoming: Incoming,
    /// Answers that the socket has not taken yet.
    answers: Vec<u8>,
}

impl Receiving {
    /// Of a receiver with that clock.
    #[must_use]
    pub fn new(clock: Clock) -> Receiving {
        Receiving {
            incoming: Incoming::new(clock),
            answers: Vec::new(),
        }
    }

    /// Whether anything more is to be read before answers have gone.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.answers.len() <= MOST_ECHOES_BYTES
    }

    /// Takes what was read at `now`.
    ///
    /// # Errors
    /// [`Nonsense`] of a peer that is no sender of streams.
    pub fn take(&mut self, bytes: &[u8], now: Instant) -> Result<(), Nonsense> {
        self.incoming.take(bytes, now, &mut self.answers)
    }

    /// Answers that are to be written.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.answers
    }

    /// So many bytes of them were.
    pub fn sent(&mut self, bytes: usize) {
        self.answers.drain(..bytes);
    }

    /// Whether it has said what it is.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.incoming.has_begun()
    }

    /// Marks that were echoed.
    #[must_use]
    pub fn marks(&self) -> u64 {
        self.incoming.marks()
    }
}
