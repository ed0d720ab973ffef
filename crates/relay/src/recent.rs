//! A flow's recent traffic, to distinguish active flows from formerly active ones.

use wansan_trace::Instant;

/// Bytes, each second weighted half as much as the next.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Recent {
    bytes: f64,
    at: Instant,
}

impl Recent {
    /// Adds bytes moved now.
    pub(crate) fn add(&mut self, bytes: u64, now: Instant) {
        self.bytes = self.faded(now) + bytes as f64;
        self.at = now;
    }

    /// Their weighted number now.
    pub(crate) fn bytes(&self, now: Instant) -> u64 {
        self.faded(now) as u64
    }

    fn faded(&self, now: Instant) -> f64 {
        self.bytes * (-now.since(self.at).as_secs_f64()).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_moves_now_counts_more_than_what_moved_long_ago() {
        let start = Instant::ZERO;
        let (mut old, mut new) = (Recent::default(), Recent::default());
        old.add(1 << 30, start);
        let second = start + Duration::from_secs(1);
        assert_eq!(old.bytes(second), 1 << 29);
        let later = start + Duration::from_secs(60);
        new.add(1000, later);
        new.add(1000, later);
        assert_eq!((old.bytes(later), new.bytes(later)), (0, 2000));
    }
}
