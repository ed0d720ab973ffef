//! How the window of every control grows.

use super::OptionsError;

/// What an ACK counts for in congestion avoidance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counting {
    /// As many packets as it acknowledges, so that the window grows alike whether the receiver
    /// acknowledges every packet, every second one, or (with receive offload) dozens at once.
    #[default]
    PerPacket,
    /// One, as the RFCs of the time have it, and the kernel's own HighSpeed TCP: under ACKs that
    /// stretch over many packets the window grows by as much less.
    PerAck,
}

/// How windows grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Growth {
    /// Limited slow start (RFC 3742): above so many segments, 2 or more, slow start adds no more
    /// than half of that in a round trip. `None`: it doubles the window, however large.
    pub max_ssthresh: Option<u32>,
    /// What an ACK counts for in congestion avoidance.
    pub counting: Counting,
}

impl Growth {
    /// Looks whether it can be done.
    ///
    /// # Errors
    /// [`OptionsError::MaxSsthresh`].
    pub fn check(&self) -> Result<(), OptionsError> {
        match self.max_ssthresh {
            Some(segments) if segments < 2 => Err(OptionsError::MaxSsthresh(segments)),
            _ => Ok(()),
        }
    }
}
