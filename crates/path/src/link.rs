//! A link: one sender of constant rate behind one queue.

use wansan_trace::Instant;

use crate::counters::Tally;
use crate::packet::Transit;
use crate::queue::DropTail;
use crate::rate::{Moment, Rate};

/// Sends one packet at a time at a constant [`Rate`]; the others wait in a [`DropTail`] queue.
///
/// The link keeps a clock of its own: a packet begins when the one before it has ended (to a
/// fraction of a nanosecond) or when it came, whichever is later, and not when somebody polled.
#[derive(Debug)]
pub struct Link<T> {
    rate: Rate,
    queue: DropTail<T>,
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
    pub fn new(rate: Rate, queue: DropTail<T>) -> Self {
        Link {
            rate,
            queue,
            sending: None,
            free_at: Moment::ZERO,
            busy_from: Instant::ZERO,
            earlier_busy_ns: 0,
        }
    }

    /// Its rate.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The queue before it.
    #[must_use]
    pub fn queue(&self) -> &DropTail<T> {
        &self.queue
    }

    /// Time for which the link has been sending until `now`; divided by the time passed it is the
    /// utilisation.
    #[must_use]
    pub fn busy_ns(&self, now: Instant) -> u64 {
        let until = now.min(self.free_at.rounded_up());
        self.earlier_busy_ns + until.ns().saturating_sub(self.busy_from.ns())
    }

    pub(crate) fn held(&self) -> Tally {
        let mut held = self.queue.depth();
        if let Some(sending) = &self.sending {
            held.add(sending.packet.size_bytes);
        }
        held
    }

    pub(crate) fn enqueue(&mut self, transit: Transit<T>) -> Result<(), Transit<T>> {
        if self.sending.is_some() {
            return self.queue.push(transit);
        }
        self.begin(transit);
        Ok(())
    }

    pub(crate) fn poll(&mut self, now: Instant) -> Option<Transit<T>> {
        let ended = self.next_deadline().filter(|&ended| ended <= now)?;
        let mut sent = self.sending.take()?;
        sent.at = ended;
        if let Some(next) = self.queue.pop() {
            self.begin(next);
        }
        Some(sent)
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.sending.as_ref().map(|_| self.free_at.rounded_up())
    }

    fn begin(&mut self, transit: Transit<T>) {
        let came = Moment::from(transit.at);
        if came > self.free_at {
            self.earlier_busy_ns = self.busy_ns(Instant::FAR_FUTURE);
            self.busy_from = transit.at;
            self.free_at = came;
        }
        self.free_at = self.rate.finish(self.free_at, transit.packet.size_bytes);
        self.sending = Some(transit);
    }
}
