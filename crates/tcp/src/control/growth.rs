//! How the window of every control grows.

use super::ControlError;

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
    /// [`ControlError::MaxSsthresh`].
    pub fn check(&self) -> Result<(), ControlError> {
        match self.max_ssthresh {
            Some(segments) if segments < 2 => Err(ControlError::MaxSsthresh(segments)),
            _ => Ok(()),
        }
    }

    /// `struct growth_rule` of `bpf/control.h`.
    #[cfg(feature = "ebpf")]
    pub(super) fn rule(&self) -> Vec<u8> {
        let per_ack = u32::from(self.counting == Counting::PerAck);
        let words = [self.max_ssthresh.unwrap_or(0), per_ack];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// What such a structure says; none when the bytes are none.
    #[cfg(feature = "ebpf")]
    pub(super) fn of_rule(rule: &[u8]) -> Option<Growth> {
        let word = |at: usize| Some(u32::from_ne_bytes(rule.get(at..at + 4)?.try_into().ok()?));
        Some(Growth {
            max_ssthresh: word(0).filter(|&segments| segments > 0),
            counting: if word(4)? == 0 {
                Counting::PerPacket
            } else {
                Counting::PerAck
            },
        })
    }
}
