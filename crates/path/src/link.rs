//! A link: one sender behind one queue.

use wansan_trace::Instant;

use crate::capacity::Capacity;
use crate::counters::Tally;
use crate::limit::Limit;
use crate::packet::{Fate, Transit};
use crate::queue::{Idle, Queue};
use crate::rate::{Moment, Rate};
use crate::sink::Sink;

/// The rate at which an unlimited link is taken to fill the lines behind it.
pub(crate) const UNLIMITED: Rate = Rate::from_bits_per_s(100_000_000_000).unwrap();

/// The greatest rate at which a link of that capacity fills the lines behind it.
fn filling(capacity: &Capacity) -> Rate {
    capacity.fastest().unwrap_or(UNLIMITED)
}

/// Sends one packet at a time, as fast as its [`Capacity`] allows; the others wait in a [`Queue`].
///
/// The link keeps a clock of its own: a packet begins when the one before it has ended (to a
/// fraction of a nanosecond) or when it came, whichever is later, and not when it is polled.
#[derive(Debug)]
pub struct Link<T> {
    capacity: Capacity,
    /// The greatest rate that it ever had, [`UNLIMITED`] included.
    fastest: Rate,
    /// When a trace of rates began.
    begun: Option<Instant>,
    queue: Queue<T>,
    sending: Option<Transit<T>>,
    /// When the packet that is being sent, or the last one that was, ends.
    free_at: Moment,
    /// When the link last began to send after a pause.
    busy_from: Instant,
    /// Sending time of the busy periods before that one.
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

    /// Time for which the link has been sending until `now`; divided by the time passed it is the
    /// utilisation. Pauses in a trace of rates count while a packet waits for their end.
    #[must_use]
    pub fn busy_ns(&self, now: Instant) -> u64 {
        let until = now.min(self.free_at.rounded_up());
        self.earlier_busy_ns + until.ns().saturating_sub(self.busy_from.ns())
    }

    /// Takes another capacity at `now`, up to which the link has been polled. What was sent of the
    /// packet under way by then is sent; the rest of it goes at the new rate. A trace begins.
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

    /// The greatest rate at which it ever filled the lines behind it.
    pub(crate) fn fastest(&self) -> Rate {
        self.fastest
    }

    /// What it lets go at one moment, in bytes: all that waited when it became unlimited.
    pub(crate) fn burst_bytes(&self) -> u64 {
        match self.capacity {
            Capacity::Unlimited => self.held().bytes,
            _ => 0,
        }
    }

    pub(crate) fn set_limit(&mut self, limit: Limit) {
        self.queue.set_limit(limit);
    }

    /// Loses the packet that is being sent and all that wait.
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

    /// A packet comes. Gives it back when it passes at once, since the link is unlimited.
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

    /// Ends the pause since the last packet, if there was one: it does not count as busy.
    fn resume(&mut self, now: Instant) {
        let came = Moment::from(now);
        if came > self.free_at {
            self.earlier_busy_ns = self.busy_ns(Instant::FAR_FUTURE);
            self.busy_from = now;
            self.free_at = came;
        }
    }

    /// When the trace of rates began; any moment will do before it has.
    fn origin(&self) -> Instant {
        self.begun.unwrap_or(Instant::ZERO)
    }
}
