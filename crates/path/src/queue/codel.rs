//! Controlled delay (RFC 8289).

use core::time::Duration;

use wansan_trace::Instant;
use wansan_trace::time::duration_ns;

use super::{DropTail, Idle};
use crate::limit::Limit;
use crate::packet::{Fate, Transit};
use crate::sink::Sink;

/// Parameters of a CoDel queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoDelParameters {
    /// Sojourn time that a standing queue may have (RFC 8289 §4.4: 5 ms).
    pub target: Duration,
    /// How long it may be exceeded, about the longest typical round-trip time (§4.3: 100 ms).
    pub interval: Duration,
    /// Largest packet, in bytes: with no more than that queued, nothing is dropped.
    pub largest_packet_bytes: u32,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

/// Invalid parameters of a CoDel queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("target {target:?} is not below the interval {interval:?}")]
pub struct CoDelError {
    /// The target.
    pub target: Duration,
    /// The interval.
    pub interval: Duration,
}

impl CoDelParameters {
    /// The RFC's defaults: 5 ms in 100 ms; no ECN.
    #[must_use]
    pub fn new(largest_packet_bytes: u32) -> Self {
        CoDelParameters {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            largest_packet_bytes,
            ecn: false,
        }
    }
}

/// A queue that drops from its head while the sojourn time has exceeded the target for too long.
///
/// Once every packet of an `interval` has waited for `target` or more, it drops one, and then one after `interval` /
/// √1, / √2, / √3 and so on while that lasts (§3.3). Packets beyond the limit are dropped as by a drop-tail queue.
#[derive(Debug)]
pub struct CoDel<T> {
    waiting: DropTail<T>,
    parameters: CoDelParameters,
    /// When the sojourn time will have been above the target for an interval, if it is above it now.
    first_above: Option<Instant>,
    dropping: bool,
    /// Time of the next drop, in the dropping state.
    drop_next: Instant,
    /// Drops since the dropping state was entered, and the value when it was last entered.
    count: u32,
    last_count: u32,
}

impl<T> CoDel<T> {
    /// An empty queue.
    ///
    /// # Errors
    /// [`CoDelError`] when the target is not below the interval.
    pub fn new(parameters: CoDelParameters, limit: Limit) -> Result<Self, CoDelError> {
        let CoDelParameters {
            target, interval, ..
        } = parameters;
        if target >= interval {
            return Err(CoDelError { target, interval });
        }
        Ok(CoDel {
            waiting: DropTail::new(limit),
            parameters,
            first_above: None,
            dropping: false,
            drop_next: Instant::ZERO,
            count: 0,
            last_count: 0,
        })
    }

    pub(super) fn waiting(&self) -> &DropTail<T> {
        &self.waiting
    }

    pub(super) fn waiting_mut(&mut self) -> &mut DropTail<T> {
        &mut self.waiting
    }

    pub(super) fn admit(
        &mut self,
        transit: Transit<T>,
        idle: Option<Idle>,
        sink: &mut Sink<'_, T>,
    ) -> Option<Transit<T>> {
        if idle.is_some() {
            // It passes straight through, so there is no standing queue.
            self.first_above = None;
            self.dropping = false;
        }
        self.waiting.admit(transit, idle, sink)
    }

    /// The RFC's `deque` (§5.3).
    pub(super) fn pop(&mut self, now: Instant, sink: &mut Sink<'_, T>) -> Option<Transit<T>> {
        let (mut head, mut may_drop) = self.take(now);
        if self.dropping {
            self.dropping = may_drop;
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                if let Some(marked) = self.signal(&mut head, now, sink) {
                    self.drop_next = self.control_law(self.drop_next);
                    return Some(marked);
                }
                (head, may_drop) = self.take(now);
                self.dropping = may_drop;
                if may_drop {
                    self.drop_next = self.control_law(self.drop_next);
                }
            }
        } else if may_drop {
            let marked = self.signal(&mut head, now, sink);
            if marked.is_none() {
                (head, _) = self.take(now);
            }
            self.dropping = true;
            // If the dropping state was left recently, its drop rate was about right.
            let since = self.count.saturating_sub(self.last_count);
            let lately = now - self.drop_next < 16 * self.parameters.interval;
            self.count = if since > 1 && lately { since } else { 1 };
            self.drop_next = self.control_law(now);
            self.last_count = self.count;
            return marked.or(head);
        }
        head
    }

    /// Removes the head, and returns whether it may be dropped: the RFC's `dodequeue`.
    fn take(&mut self, now: Instant) -> (Option<Transit<T>>, bool) {
        let Some(head) = self.waiting.pop() else {
            self.first_above = None;
            return (None, false);
        };
        let sojourn = now - head.at;
        let backlog_bytes = self.waiting.occupancy.held().bytes;
        if sojourn < self.parameters.target
            || backlog_bytes <= u64::from(self.parameters.largest_packet_bytes)
        {
            self.first_above = None;
            return (Some(head), false);
        }
        let first_above = *self
            .first_above
            .get_or_insert(now + self.parameters.interval);
        (Some(head), now >= first_above)
    }

    /// Marks and returns the packet, or drops it.
    fn signal(
        &mut self,
        head: &mut Option<Transit<T>>,
        now: Instant,
        sink: &mut Sink<'_, T>,
    ) -> Option<Transit<T>> {
        let mut transit = head.take()?;
        if self.parameters.ecn && transit.packet.ecn.is_capable() {
            sink.mark(&mut transit);
            return Some(transit);
        }
        sink.drop_at(transit, now, Fate::DroppedByQueue);
        None
    }

    /// Time of the next drop after one at `at`.
    fn control_law(&self, at: Instant) -> Instant {
        // IEEE 754 rounds both root and quotient correctly, so every machine gets the same.
        let interval_ns = duration_ns(self.parameters.interval) as f64;
        at + Duration::from_nanos((interval_ns / f64::from(self.count).sqrt()) as u64)
    }
}
