//! Window growth, common to all controls.

use super::OptionsError;

/// How much an ACK counts in congestion avoidance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counting {
    /// By the packets that it acknowledges, so that the window grows at the same rate whether the receiver acknowledges
    /// every packet, every second one, or (with receive offload) dozens at once.
    #[default]
    PerPacket,
    /// As one, as in RFCs of the time and in the kernel's HighSpeed TCP: with stretch ACKs the window grows
    /// proportionally more slowly.
    PerAck,
}

/// Window growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Growth {
    /// Limited slow start (RFC 3742): above this many segments, 2 or more, slow start adds at most half of it per round
    /// trip. `None`: slow start always doubles the window.
    pub max_ssthresh: Option<u32>,
    /// How much an ACK counts in congestion avoidance.
    pub counting: Counting,
}

impl Growth {
    /// Checks the parameters.
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
