//! Measurements from echoed marks.

use wansan_trace::Instant;

use super::mark::Echo;
use super::report::Latencies;

/// The measurements of one stream.
#[derive(Debug)]
pub(super) struct Tally {
    /// Beginning and end of the measurement.
    pub(super) window: (Instant, Instant),
    /// The last echo before the window.
    before: Option<Echo>,
    first: Option<Echo>,
    last: Option<Echo>,
    pub(super) latencies: Latencies,
    pub(super) one_way: Latencies,
}

impl Tally {
    pub(super) fn new(window: (Instant, Instant)) -> Tally {
        Tally {
            window,
            before: None,
            first: None,
            last: None,
            latencies: Latencies::new(),
            one_way: Latencies::new(),
        }
    }

    /// Counts an echo read at `now`; `is_one_clock` tells whether sender and receiver share a clock.
    pub(super) fn count(&mut self, echo: Echo, now: Instant, is_one_clock: bool) {
        if now < self.window.0 {
            self.before = Some(echo);
        }
        if !(self.window.0..self.window.1).contains(&now) {
            return;
        }
        self.first.get_or_insert(echo);
        self.last = Some(echo);
        self.latencies.count(now.since(echo.sent).as_nanos() as u64);
        if is_one_clock {
            let way = echo.received.since(echo.sent);
            self.one_way.count(way.as_nanos() as u64);
        }
    }

    /// Bytes between the first and the last mark in the window, and their rate by the time between. If only one mark
    /// arrived within the window, counts from the last one before it; a single mark gives no rate.
    pub(super) fn throughput(&self, every_bytes: u32) -> (u64, Option<f64>) {
        let ends = |first: Option<Echo>| {
            let (first, last) = (first?, self.last?);
            (first.number < last.number).then_some((first, last))
        };
        let Some((first, last)) = ends(self.first).or_else(|| ends(self.before)) else {
            return (0, None);
        };
        let bytes = (last.number - first.number) * u64::from(every_bytes);
        let time = last.received.since(first.received);
        (bytes, Some(bytes as f64 / time.as_secs_f64().max(1e-9)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_two_marks() {
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        for (marks, known) in [
            (&[][..], (0, None)),
            (&[(0, 1500)], (0, None)),
            (&[(0, 500)], (0, None)),
            (&[(0, 500), (1, 1500)], (1000, Some(1000.0))),
            (&[(0, 500), (1, 1200), (2, 1700)], (1000, Some(2000.0))),
            (&[(0, 1200), (1, 1700), (2, 2500)], (1000, Some(2000.0))),
        ] {
            let mut tally = Tally::new((at(1000), at(2000)));
            for &(number, ms) in marks {
                let (sent, received) = (at(ms - 2), at(ms - 1));
                let echo = Echo {
                    number,
                    sent,
                    received,
                };
                tally.count(echo, at(ms), true);
            }
            assert_eq!(tally.throughput(1000), known, "{marks:?}");
        }
    }
}
