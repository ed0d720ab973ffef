//! Extremes over a sliding window.

use std::time::Duration;

use wansan_trace::Instant;

/// The best value of a window that slides by halves: it covers between half of its length and all of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extreme {
    length: Duration,
    is_better: fn(f64, f64) -> bool,
    /// Of the current half, and of the previous one.
    best: [Option<f64>; 2],
    half_ends: Instant,
}

impl Extreme {
    pub(crate) fn least(length: Duration) -> Extreme {
        Extreme::by(length, |a, b| a < b)
    }

    pub(crate) fn most(length: Duration) -> Extreme {
        Extreme::by(length, |a, b| a > b)
    }

    fn by(length: Duration, is_better: fn(f64, f64) -> bool) -> Extreme {
        Extreme {
            length,
            is_better,
            best: [None; 2],
            half_ends: Instant::ZERO,
        }
    }

    /// Only new values move the window: without them the last ones are still the best known.
    pub(crate) fn add(&mut self, value: f64, now: Instant) {
        if now >= self.half_ends {
            let is_next = now < self.half_ends + self.length / 2;
            self.best = [None, self.best[0].filter(|_| is_next)];
            self.half_ends = now + self.length / 2;
        }
        let best = &mut self.best[0];
        if best.is_none_or(|best| (self.is_better)(value, best)) {
            *best = Some(value);
        }
    }

    pub(crate) fn get(&self) -> Option<f64> {
        match self.best {
            [Some(a), Some(b)] => Some(if (self.is_better)(a, b) { a } else { b }),
            [a, b] => a.or(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_forgotten_once_the_window_has_passed() {
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        let mut least = Extreme::least(Duration::from_millis(100));
        least.add(1.0, at(0));
        least.add(5.0, at(60));
        assert_eq!(least.get(), Some(1.0));
        least.add(4.0, at(120));
        assert_eq!(least.get(), Some(4.0));
        // A long silence discards both halves, and keeps values after it.
        least.add(9.0, at(1000));
        assert_eq!(least.get(), Some(9.0));
    }
}
