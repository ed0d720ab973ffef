//! Elements in a stated order.

use core::time::Duration;

use wansan_trace::Instant;

use crate::counters::{Counters, Tally};
use crate::delay::Delay;
use crate::link::Link;
use crate::loss::Bernoulli;
use crate::packet::{Departure, Fate, Packet, Transit};

/// One element of a path.
#[derive(Debug)]
pub enum Element<T> {
    /// Drops packets at random and lets the others pass at once.
    Loss(Bernoulli),
    /// Sends packets at a rate and queues those that wait.
    Link(Link<T>),
    /// Holds every packet for the same time.
    Delay(Delay<T>),
}

/// What an element did with a packet that came to it.
enum Step<T> {
    Held,
    Passed(Transit<T>),
    Dropped(Transit<T>, Fate),
}

impl<T> Element<T> {
    fn enqueue(&mut self, transit: Transit<T>) -> Step<T> {
        let (kept, fate) = match self {
            Element::Loss(loss) => {
                if !loss.drops() {
                    return Step::Passed(transit);
                }
                (Err(transit), Fate::DroppedByLoss)
            }
            Element::Link(link) => (link.enqueue(transit), Fate::DroppedByQueue),
            Element::Delay(delay) => (delay.enqueue(transit), Fate::DroppedByDelayLine),
        };
        match kept {
            Ok(()) => Step::Held,
            Err(transit) => Step::Dropped(transit, fate),
        }
    }

    fn poll(&mut self, now: Instant) -> Option<Transit<T>> {
        match self {
            Element::Loss(_) => None,
            Element::Link(link) => link.poll(now),
            Element::Delay(delay) => delay.poll(now),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        match self {
            Element::Loss(_) => None,
            Element::Link(link) => link.next_deadline(),
            Element::Delay(delay) => delay.next_deadline(),
        }
    }
}

/// Elements that do not make a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// Nothing would hold the delivered packets until they are polled.
    #[error("a path must end in a link or a delay (of zero, if need be)")]
    EndsInLoss,
}

/// One direction of a path: elements that every packet passes in order, usually loss, link, delay.
///
/// # Order of calls
///
/// 1. [`poll`](Chain::poll) with the time at which a packet came, until nothing more comes out:
///    what had left by then makes room in the queues;
/// 2. [`enqueue`](Chain::enqueue) the packet with that time; when it is dropped at once, it comes
///    back;
/// 3. [`next_deadline`](Chain::next_deadline) tells when to poll again.
///
/// The times of departures come from the chain's own arithmetic: neither a late poll nor a late
/// enqueue with an honest time moves any of them. A chain that is not polled keeps its bounds (its
/// queues fill and drop), and a time earlier than the last packet's counts as the last packet's.
#[derive(Debug)]
pub struct Chain<T> {
    elements: Vec<Element<T>>,
    last_entered: Instant,
    entered: Tally,
    delivered: Tally,
    dropped_by_loss: Tally,
    dropped_by_queue: Tally,
    dropped_by_delay_line: Tally,
}

impl<T> Chain<T> {
    /// A chain of these elements, the first one nearest the sender.
    ///
    /// # Errors
    /// [`ChainError`] when there is no element or the last one holds nothing.
    pub fn new(elements: Vec<Element<T>>) -> Result<Self, ChainError> {
        if matches!(elements.last(), None | Some(Element::Loss(_))) {
            return Err(ChainError::EndsInLoss);
        }
        Ok(Chain {
            elements,
            last_entered: Instant::ZERO,
            entered: Tally::default(),
            delivered: Tally::default(),
            dropped_by_loss: Tally::default(),
            dropped_by_queue: Tally::default(),
            dropped_by_delay_line: Tally::default(),
        })
    }

    /// The elements.
    #[must_use]
    pub fn elements(&self) -> &[Element<T>] {
        &self.elements
    }

    /// What the delays of this chain add up to: what a packet suffers besides waiting for and
    /// being sent by the links.
    #[must_use]
    pub fn delay(&self) -> Duration {
        let delays = self.elements.iter().map(|element| match element {
            Element::Delay(delay) => delay.delay(),
            Element::Loss(_) | Element::Link(_) => Duration::ZERO,
        });
        delays.fold(Duration::ZERO, Duration::saturating_add)
    }

    /// A packet comes to the path at `now`. Gives it back when it is dropped on the spot.
    #[must_use = "a packet that is dropped at once comes back"]
    pub fn enqueue(&mut self, now: Instant, packet: Packet<T>) -> Option<Departure<T>> {
        self.last_entered = self.last_entered.max(now);
        self.entered.add(packet.size_bytes);
        let transit = Transit {
            packet,
            entered: self.last_entered,
            at: self.last_entered,
        };
        self.pass(0, transit)
    }

    /// The next packet that left the path at `now` or before, if any, in order of leaving.
    pub fn poll(&mut self, now: Instant) -> Option<Departure<T>> {
        loop {
            // Events happen in order of time, and of those at the same time the one farther down
            // the path first, so that it makes room.
            let (place, _) = self
                .deadlines()
                .filter(|&(_, due)| due <= now)
                .min_by_key(|&(place, due)| (due, core::cmp::Reverse(place)))?;
            let transit = self.elements[place].poll(now)?;
            let departure = if place + 1 == self.elements.len() {
                self.delivered.add(transit.packet.size_bytes);
                Some(transit.leave(Fate::Delivered))
            } else {
                self.pass(place + 1, transit)
            };
            if departure.is_some() {
                return departure;
            }
        }
    }

    /// When to poll next; nothing while the path is empty.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines().map(|(_, due)| due).min()
    }

    /// The counters, with the link's sending time until `now`.
    #[must_use]
    pub fn counters(&self, now: Instant) -> Counters {
        let mut counters = Counters {
            entered: self.entered,
            delivered: self.delivered,
            dropped_by_loss: self.dropped_by_loss,
            dropped_by_queue: self.dropped_by_queue,
            dropped_by_delay_line: self.dropped_by_delay_line,
            ..Counters::default()
        };
        for element in &self.elements {
            match element {
                Element::Loss(_) => {}
                Element::Delay(delay) => counters.held = counters.held.plus(delay.held()),
                Element::Link(link) => {
                    let queue = link.queue();
                    counters.held = counters.held.plus(link.held());
                    counters.queued = counters.queued.plus(queue.depth());
                    counters.queued_high_water = counters.queued_high_water.max(queue.high_water());
                    counters.busy_ns = counters.busy_ns.max(link.busy_ns(now));
                }
            }
        }
        counters
    }

    fn deadlines(&self) -> impl Iterator<Item = (usize, Instant)> {
        let dues = self.elements.iter().map(Element::next_deadline);
        dues.enumerate()
            .filter_map(|(place, due)| due.map(|due| (place, due)))
    }

    /// Hands a packet to the element at `first` and on through those that hold nothing.
    fn pass(&mut self, first: usize, mut transit: Transit<T>) -> Option<Departure<T>> {
        for element in &mut self.elements[first..] {
            transit = match element.enqueue(transit) {
                Step::Held => return None,
                Step::Passed(transit) => transit,
                Step::Dropped(transit, fate) => {
                    self.count_drop(transit.packet.size_bytes, fate);
                    return Some(transit.leave(fate));
                }
            };
        }
        unreachable!("a chain ends in an element that holds or drops")
    }

    fn count_drop(&mut self, size_bytes: u32, fate: Fate) {
        match fate {
            Fate::DroppedByLoss => self.dropped_by_loss.add(size_bytes),
            Fate::DroppedByQueue => self.dropped_by_queue.add(size_bytes),
            Fate::DroppedByDelayLine => self.dropped_by_delay_line.add(size_bytes),
            Fate::Delivered => {}
        }
    }
}
