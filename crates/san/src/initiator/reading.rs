//! How much of the outstanding data to read before new commands are sent.
//!
//! While both ends have a processor, a part: new commands are sent while responses are still being read, and neither
//! end waits for the other. While this thread has to wait for a processor, as much as the receiver has room for: what it
//! would send early nobody processes meanwhile, and fewer, larger pieces cost less. Two programs that read 4 KiB at 32 in
//! flight on 2 processors shared with the target reach 1.5 times the IOPS so; one with processors to spare would reach
//! 0.55 times as many if it always read all.

use std::thread::{self, ThreadId};
use std::time::Duration;

use wansan_server::ProcessorTime;
use wansan_trace::Instant;

/// Bounds of a part: system calls for fewer bytes cost more than they gain, and larger ones displace more of the
/// processor's cache than they save.
const LEAST_PART_BYTES: usize = 32 << 10;
pub(super) const MOST_PART_BYTES: usize = 64 << 10;

/// How long parts are read before each check whether the thread waits for a processor.
const INTERVAL: Duration = Duration::from_millis(20);

/// How long all is read until parts are tried again: an initiator that alternates with its target may share a processor
/// with it although another one is idle.
const CONTENDED_INTERVAL: Duration = Duration::from_millis(180);

/// The least share of time for which it waits where processors are contended. It waits for a few hundredths of the time
/// where each end has one, and for a third where both share one, whichever way it reads.
const CONTENDED: f64 = 0.25;

/// The state of one initiator.
#[derive(Debug)]
pub(super) struct Reading {
    /// Of the thread that reads.
    time: ProcessorTime,
    thread: ThreadId,
    /// When it was last checked.
    looked: Instant,
    /// How long the thread had waited for a processor by then.
    waited: Option<Duration>,
    is_contended: bool,
}

impl Reading {
    pub(super) fn new(now: Instant) -> Reading {
        let time = ProcessorTime::of_this_thread();
        Reading {
            waited: time.waited(),
            time,
            thread: thread::current().id(),
            looked: now,
            is_contended: false,
        }
    }

    /// Bytes of the next read at most, with so many outstanding.
    pub(super) fn most_bytes(&self, awaited_bytes: u64) -> usize {
        if self.is_contended {
            return usize::MAX;
        }
        let part = usize::try_from(awaited_bytes / 4);
        part.unwrap_or(usize::MAX)
            .clamp(LEAST_PART_BYTES, MOST_PART_BYTES)
    }

    /// Checks for contention, if it is time.
    pub(super) fn look(&mut self, now: Instant) {
        let interval = match self.is_contended {
            true => CONTENDED_INTERVAL,
            false => INTERVAL,
        };
        if now - self.looked < interval {
            return;
        }
        match thread::current().id() == self.thread {
            true => self.judge(now, self.time.waited()),
            false => *self = Reading::new(now),
        }
    }

    /// Decides how to read from now on, when the thread has waited for so long in all.
    fn judge(&mut self, now: Instant, waited: Option<Duration>) {
        let share = waited.zip(self.waited).map(|(waited, before)| {
            waited.saturating_sub(before).as_secs_f64() / (now - self.looked).as_secs_f64()
        });
        self.is_contended = !self.is_contended && share.is_some_and(|share| share > CONTENDED);
        (self.looked, self.waited) = (now, waited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_ns(1_000_000_000);

    #[test]
    fn parts_are_bounded_quarters() {
        let reading = Reading::new(START);
        let parts = [0, 200 << 10, 1 << 20].map(|awaited| reading.most_bytes(awaited));
        assert_eq!(parts, [LEAST_PART_BYTES, 50 << 10, MOST_PART_BYTES]);
    }

    #[test]
    fn all_is_read_while_processors_are_contended() {
        let mut reading = Reading::new(START);
        let mut now = START;
        let mut waited = Duration::from_secs(1);
        reading.waited = Some(waited);
        let mut after = |time: Duration, more: Duration| {
            now += time;
            waited += more;
            reading.judge(now, Some(waited));
            reading.most_bytes(0)
        };
        assert_eq!(after(INTERVAL, INTERVAL / 10), LEAST_PART_BYTES);
        assert_eq!(after(INTERVAL, INTERVAL / 3), usize::MAX);
        // Parts are tried again, whatever it has waited meanwhile.
        let (long, third) = (CONTENDED_INTERVAL, CONTENDED_INTERVAL / 3);
        assert_eq!(after(long, third), LEAST_PART_BYTES);
        assert_eq!(after(INTERVAL, INTERVAL / 3), usize::MAX);
        reading.judge(START + Duration::from_secs(60), None);
        reading.judge(START + Duration::from_secs(61), None);
        assert_eq!(reading.most_bytes(0), LEAST_PART_BYTES);
    }

    #[test]
    fn another_thread_begins_anew() {
        let mut reading = Reading::new(START);
        reading.is_contended = true;
        std::thread::scope(|scope| {
            scope.spawn(|| reading.look(START + CONTENDED_INTERVAL));
        });
        assert!(!reading.is_contended);
    }
}
