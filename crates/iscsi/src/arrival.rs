//! Arrival times of the bytes of a stream.

use std::collections::VecDeque;

use wansan_trace::Instant;

/// Most reads whose times are kept.
const MAX_READS: usize = 256;

/// Keeps the read time of each stretch of a TCP stream until it is used, so that a PDU's first byte has its own time
/// even when the rest arrived later.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// Ends of the reads (stream offsets, ascending) and their times.
    reads: VecDeque<(u64, Instant)>,
    end: u64,
}

impl Arrivals {
    /// `bytes` more were read at `now`.
    pub(crate) fn read(&mut self, bytes: usize, now: Instant) {
        self.end += bytes as u64;
        let many = self.reads.len() >= MAX_READS;
        match self.reads.back_mut() {
            // A peer that sends one PDU in thousands of pieces costs precision, not memory.
            Some(last) if many => last.0 = self.end,
            _ => self.reads.push_back((self.end, now)),
        }
    }

    /// When the byte at `offset` was read; forgets earlier reads. Offsets must not decrease, and the byte must have
    /// been read.
    pub(crate) fn of(&mut self, offset: u64) -> Instant {
        while self.reads.len() > 1 && self.reads[0].0 <= offset {
            self.reads.pop_front();
        }
        self.reads.front().map_or(Instant::ZERO, |&(_, time)| time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_the_time_of_its_read() {
        let mut arrivals = Arrivals::default();
        arrivals.read(10, Instant::from_ns(1));
        arrivals.read(5, Instant::from_ns(2));
        arrivals.read(5, Instant::from_ns(3));
        assert_eq!(arrivals.of(0).ns(), 1);
        assert_eq!(arrivals.of(9).ns(), 1);
        assert_eq!(arrivals.of(10).ns(), 2);
        assert_eq!(arrivals.of(19).ns(), 3);
    }
}
