//! A link: one sender behind one queue.

use wansan_trace::Instant;

use crate::capacity::Capacity;
use crate::counters::Tally;
use crate::limit::Limit;
use crate::packet::{Fate, Transit};
use crate::queue::{Idle, Queue};
use crate::rate::{Moment, Rate};
use crate::sink::Sink;

/// Assumed rate at which an unlimited link fills the lines behind it.
pub(crate) const UNLIMITED: Rate = Rate::from_bits_per_s(100_000_000_000).unwrap();

/// The maximum rate at which a link of that capacity fills the lines behind it.
fn filling(capacity: &Capacity) -> Rate {
    capacity.fastest().unwrap_or(UNLIMITED)
}

/// Sends one packet at a time, as fast as its [`Capacity`] allows; the others wait in a [`Queue`].
///
/// The link has its own clock: a transmission begins when the previous one ended (to a fraction of a nanosecond) or
/// when the packet arrived, whichever is later, and not when the link is polled.
#[derive(Debug)]
pub struct Link<T> {
    capacity: Capacity,
    /// The maximum rate that it ever had, [`UNLIMITED`] included.
    fastest: Rate,
    /// When a trace of rates began.
    begun: Option<Instant>,
    queue: Queue<T>,
    sending: Option<Transit<T>>,
    /// End of the present or last transmission.
    free_at: Moment,
    /// Start of the present or last busy period.
    busy_from: Instant,
    /// Busy time before that period.
    earlier_busy_ns: u64,
}

impl<T> Link<T> {
    /// An idle link.
    #[must_use]
    pub fn new(capacity: impl Into<Capacity>, queue: impl Into<Queue<T>>) -> Self {
        let capacity = capacity.into();
        Link {
            fastest: filling(&capacity),
            capacity,
            begun: None,
            queue: queue.into(),
            sending: None,
            free_at: Moment::ZERO,
            busy_from: Instant::ZERO,
            earlier_busy_ns: 0,
        }
    }

    /// How fast it sends.
    #[must_use]
    pub fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    /// The queue before it.
    #[must_use]
    pub fn queue(&self) -> &Queue<T> {
        &self.queue
    }

    /// Busy time of the link until `now`; divided by the elapsed time it is the utilisation. Pauses in a trace of rates
    /// count while a packet waits for their end.
    #[must_use]
    pub fn busy_ns(&self, now: Instant) -> u64 {
        let until = now.min(self.free_at.rounded_up());
        self.earlier_busy_ns + until.ns().saturating_sub(self.busy_from.ns())
    }

    /// Sets the capacity at `now`, up to which the link has been polled. The rest of the packet being sent goes at the
    /// new rate. A trace begins.
    pub(crate) fn set_capacity(&mut self, now: Instant, capacity: Capacity) {
        self.free_at = if self.sending.is_some() {
            let rest = self.capacity.sent(self.origin(), now, self.free_at);
            capacity.finish(now, now.into(), rest)
        } else {
            self.free_at.rounded_up().into()
        };
        self.begun = Some(now);
        self.fastest = self.fastest.max(filling(&capacity));
        self.capacity = capacity;
    }

    /// The maximum rate at which it ever filled the lines behind it.
    pub(crate) fn fastest(&self) -> Rate {
        self.fastest
    }

    /// Bytes that it releases at one moment: all that were queued when it became unlimited.
    pub(crate) fn burst_bytes(&self) -> u64 {
        match self.capacity {
            Capacity::Unlimited => self.held().bytes,
            _ => 0,
        }
    }

    pub(crate) fn set_limit(&mut self, limit: Limit) {
        self.queue.set_limit(limit);
    }

    /// Drops the packet being sent and all queued ones.
    pub(crate) fn cut(&mut self, now: Instant, sink: &mut Sink<'_, T>) {
        if let Some(sending) = self.sending.take() {
            self.free_at = now.into();
            sink.drop_at(sending, now, Fate::DroppedByOutage);
        }
        while let Some(waiting) = self.queue.take() {
            sink.drop_at(waiting, now, Fate::DroppedByOutage);
        }
    }

    pub(crate) fn held(&self) -> Tally {
        let mut held = self.queue.depth();
        if let Some(sending) = &self.sending {
            held.add(sending.size_bytes());
        }
        held
    }

    /// A packet arrives. Returns it when the link is unlimited, so that it passes at once.
    pub(crate) fn enqueue(
        &mut self,
        transit: Transit<T>,
        sink: &mut Sink<'_, T>,
    ) -> Option<Transit<T>> {
        let idle = self.sending.is_none().then(|| Idle {
            ns: transit.at.ns().saturating_sub(self.free_at.ns),
            bits_per_s: self.capacity.bits_per_s(self.origin(), transit.at),
        });
        let transit = self.queue.admit(transit, idle, sink)?;
        if self.capacity == Capacity::Unlimited {
            self.resume(transit.at);
            return Some(transit);
        }
        self.begin(transit);
        None
    }

    pub(crate) fn poll(&mut self, now: Instant, sink: &mut Sink<'_, T>) -> Option<Transit<T>> {
        let ended = self.next_deadline().filter(|&ended| ended <= now)?;
        let mut sent = self.sending.take()?;
        sent.at = ended;
        if let Some(next) = self.queue.pop(ended, sink) {
            self.begin(next);
        }
        Some(sent)
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.sending.as_ref().map(|_| self.free_at.rounded_up())
    }

    fn begin(&mut self, transit: Transit<T>) {
        let begun = *self.begun.get_or_insert(transit.at);
        self.resume(transit.at);
        self.free_at = self
            .capacity
            .finish_packet(begun, self.free_at, transit.size_bytes());
        self.sending = Some(transit);
    }

    /// Ends the idle time since the last packet, if any: it does not count as busy.
    fn resume(&mut self, now: Instant) {
        let came = Moment::from(now);
        if came > self.free_at {
            self.earlier_busy_ns = self.busy_ns(Instant::FAR_FUTURE);
            self.busy_from = now;
            self.free_at = came;
        }
    }

    /// When the trace of rates began; before that any moment will do.
    fn origin(&self) -> Instant {
        self.begun.unwrap_or(Instant::ZERO)
    }
}
