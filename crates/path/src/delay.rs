//! Propagation delay, constant or with jitter.

use core::time::Duration;

use wansan_trace::Instant;

use crate::counters::Tally;
use crate::delay_line::DelayLine;
use crate::jitter::{Jitter, JitterError};
use crate::limit::Limit;
use crate::packet::Transit;
use crate::probability::Random;

/// A line that delays every packet by a constant time, or by one that varies with a [`Jitter`].
///
/// Unless the jitter lets packets overtake, none does: a packet that would leave before its predecessor leaves together
/// with it.
#[derive(Debug)]
pub struct Delay<T> {
    delay: Duration,
    jitter: Option<Jitter>,
    /// The longest delay that any packet could ever have had.
    longest: Duration,
    random: Random,
    line: DelayLine<T>,
    /// The latest departure of any packet.
    last_due: Instant,
}

impl<T> Delay<T> {
    /// An empty line of constant delay. Its `limit` only bounds the memory: after a link, use
    /// [`Limit::bandwidth_delay`], which that link cannot fill.
    #[must_use]
    pub fn new(delay: Duration, limit: Limit) -> Self {
        Delay {
            delay,
            jitter: None,
            longest: delay,
            random: Random::new(0, "delay"),
            line: DelayLine::new(limit),
            last_due: Instant::ZERO,
        }
    }

    /// An empty line with jitter. The same seed draws the same delays.
    ///
    /// # Errors
    /// [`JitterError::ExceedsDelay`] when packets would arrive before they were sent.
    pub fn varying(
        delay: Duration,
        jitter: Option<Jitter>,
        seed: u64,
        limit: Limit,
    ) -> Result<Self, JitterError> {
        let mut line = Delay {
            random: Random::new(seed, "delay"),
            ..Delay::new(delay, limit)
        };
        line.set(delay, jitter)?;
        Ok(line)
    }

    /// The configured delay, around which jitter varies.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// The jitter.
    #[must_use]
    pub fn jitter(&self) -> Option<&Jitter> {
        self.jitter.as_ref()
    }

    /// The minimum and maximum delay of a packet.
    #[must_use]
    pub fn reach(&self) -> (Duration, Duration) {
        match &self.jitter {
            None => (self.delay, self.delay),
            Some(jitter) => jitter.reach(self.delay),
        }
    }

    /// Applies to packets that arrive from now on. Those on the line keep their departure times, and are overtaken only
    /// as the new jitter allows.
    pub(crate) fn set(
        &mut self,
        delay: Duration,
        jitter: Option<Jitter>,
    ) -> Result<(), JitterError> {
        jitter
            .as_ref()
            .map_or(Ok(()), |jitter| jitter.check(delay))?;
        self.delay = delay;
        self.jitter = jitter;
        self.longest = self.longest.max(self.reach().1);
        Ok(())
    }

    /// The longest time that any packet could ever have stayed. It holds after a change to a shorter delay, too,
    /// because no packet leaves before its predecessor.
    pub(crate) fn longest_stay(&self) -> Duration {
        self.longest
    }

    pub(crate) fn widen(&mut self, limit: Limit) {
        self.line.widen(limit);
    }

    pub(crate) fn held(&self) -> Tally {
        self.line.held()
    }

    pub(crate) fn high_water(&self) -> Tally {
        self.line.high_water()
    }

    pub(crate) fn enqueue(&mut self, mut transit: Transit<T>) -> Result<(), Transit<T>> {
        let (delay, overtaking) = match &self.jitter {
            None => (self.delay, false),
            Some(jitter) => (jitter.draw(self.delay, &mut self.random), jitter.overtaking),
        };
        let mut due = transit.at + delay;
        if !overtaking {
            due = due.max(self.last_due);
        }
        transit.delayed += due - transit.at;
        self.line.push(transit, due)?;
        self.last_due = self.last_due.max(due);
        Ok(())
    }

    pub(crate) fn poll(&mut self, now: Instant) -> Option<Transit<T>> {
        self.line.pop(now)
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.line.next_due()
    }
}
