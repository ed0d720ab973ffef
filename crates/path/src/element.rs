//! The kinds of element.

use core::time::Duration;

use wansan_trace::Instant;

use crate::corrupt::Corrupt;
use crate::counters::Tally;
use crate::delay::Delay;
use crate::duplicate::Duplicate;
use crate::link::Link;
use crate::loss::{Loss, LossModel};
use crate::mark::Mark;
use crate::outage::Outage;
use crate::packet::{Fate, Transit};
use crate::probability::Probability;
use crate::reorder::Reorder;
use crate::sink::Sink;

/// An element of a path.
#[derive(Debug)]
pub enum Element<T> {
    /// Drops packets by a loss model and passes the others at once.
    Loss(Loss),
    /// Drops all packets while the path is down.
    Outage(Outage),
    /// Marks ECN-capable packets at random.
    Mark(Mark),
    /// Flips a bit of packets at random.
    Corrupt(Corrupt),
    /// Copies packets at random.
    Duplicate(Duplicate),
    /// Sends packets at a rate and queues the others.
    Link(Link<T>),
    /// Holds packets back at random.
    Reorder(Reorder<T>),
    /// Delays every packet.
    Delay(Delay<T>),
}

/// What happens to a packet at an element.
pub(crate) enum Disposition {
    /// Passes on to the next element at once.
    Forward,
    /// The same, and a copy after it.
    Duplicate,
    /// Dropped.
    Drop(Fate),
    /// Held by the element.
    Hold,
}

impl<T> Element<T> {
    /// The name of this kind of element.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Element::Loss(_) => "loss",
            Element::Outage(_) => "outage",
            Element::Mark(_) => "mark",
            Element::Corrupt(_) => "corrupt",
            Element::Duplicate(_) => "duplicate",
            Element::Link(_) => "link",
            Element::Reorder(_) => "reorder",
            Element::Delay(_) => "delay",
        }
    }

    /// Whether it ever holds a packet.
    pub(crate) fn holds(&self) -> bool {
        matches!(
            self,
            Element::Link(_) | Element::Reorder(_) | Element::Delay(_)
        )
    }

    /// Whether it holds nothing, and passes every packet unchanged, until it is changed.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Element::Loss(loss) => *loss.model() == LossModel::NONE,
            Element::Outage(outage) => !outage.is_down(),
            Element::Mark(mark) => mark.probability() == Probability::NEVER,
            Element::Corrupt(corrupt) => corrupt.probability() == Probability::NEVER,
            Element::Duplicate(duplicate) => duplicate.probability() == Probability::NEVER,
            Element::Reorder(reorder) => {
                reorder.share() == Probability::NEVER && reorder.held().packets == 0
            }
            Element::Link(_) | Element::Delay(_) => false,
        }
    }

    /// A packet arrives: does what has to be done at once, and returns where it goes.
    pub(crate) fn meet(&mut self, transit: &mut Transit<T>, sink: &mut Sink<'_, T>) -> Disposition {
        let on_or = |other, applies| if applies { other } else { Disposition::Forward };
        match self {
            Element::Loss(loss) => on_or(Disposition::Drop(Fate::DroppedByLoss), loss.drops()),
            Element::Outage(outage) => {
                on_or(Disposition::Drop(Fate::DroppedByOutage), outage.is_down())
            }
            Element::Mark(mark) => {
                if mark.affects(transit) {
                    sink.deeds.marked.add(transit.size_bytes());
                }
                Disposition::Forward
            }
            Element::Corrupt(corrupt) => {
                if corrupt.affects(transit) {
                    sink.deeds.corrupted.add(transit.size_bytes());
                }
                Disposition::Forward
            }
            Element::Duplicate(duplicate) => {
                let copies = duplicate.copies();
                if copies {
                    sink.deeds.duplicated.add(transit.size_bytes());
                }
                on_or(Disposition::Duplicate, copies)
            }
            Element::Reorder(reorder) => on_or(Disposition::Hold, reorder.holds_back()),
            Element::Link(_) | Element::Delay(_) => Disposition::Hold,
        }
    }

    /// Holds a packet with [`Disposition::Hold`]. Returns it when it passes on at once.
    pub(crate) fn hold(
        &mut self,
        transit: Transit<T>,
        sink: &mut Sink<'_, T>,
    ) -> Option<Transit<T>> {
        let held = match self {
            Element::Link(link) => return link.enqueue(transit, sink),
            Element::Delay(delay) => delay.enqueue(transit),
            Element::Reorder(reorder) => {
                let size_bytes = transit.size_bytes();
                let held = reorder.enqueue(transit);
                if held.is_ok() {
                    sink.deeds.held_back.add(size_bytes);
                }
                held
            }
            _ => return Some(transit),
        };
        if let Err(transit) = held {
            sink.drop(transit, Fate::DroppedByDelayLine);
        }
        None
    }

    pub(crate) fn poll(&mut self, now: Instant, sink: &mut Sink<'_, T>) -> Option<Transit<T>> {
        match self {
            Element::Link(link) => link.poll(now, sink),
            Element::Reorder(reorder) => reorder.poll(now),
            Element::Delay(delay) => delay.poll(now),
            _ => None,
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match self {
            Element::Link(link) => link.next_deadline(),
            Element::Reorder(reorder) => reorder.next_deadline(),
            Element::Delay(delay) => delay.next_deadline(),
            _ => None,
        }
    }

    /// Held now.
    pub(crate) fn held(&self) -> Tally {
        match self {
            Element::Link(link) => link.held(),
            Element::Reorder(reorder) => reorder.held(),
            Element::Delay(delay) => delay.held(),
            _ => Tally::default(),
        }
    }

    /// The most ever held, or for a link: ever queued.
    pub(crate) fn high_water(&self) -> Tally {
        match self {
            Element::Link(link) => link.queue().high_water(),
            Element::Reorder(reorder) => reorder.high_water(),
            Element::Delay(delay) => delay.high_water(),
            _ => Tally::default(),
        }
    }

    /// The longest time that it ever holds a packet, if independent of the load.
    pub(crate) fn longest_stay(&self) -> Option<Duration> {
        match self {
            Element::Reorder(reorder) => Some(reorder.longest_stay()),
            Element::Delay(delay) => Some(delay.longest_stay()),
            _ => None,
        }
    }
}
