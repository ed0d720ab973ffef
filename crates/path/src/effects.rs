//! The effects of one direction of a path, as configured in a plan.

use core::time::Duration;

use crate::capacity::Capacity;
use crate::chain::Chain;
use crate::change::Change;
use crate::corrupt::Corrupt;
use crate::delay::Delay;
use crate::duplicate::Duplicate;
use crate::element::Element;
use crate::jitter::{Jitter, JitterError};
use crate::limit::Limit;
use crate::link::Link;
use crate::loss::{Loss, LossModel};
use crate::mark::Mark;
use crate::outage::Outage;
use crate::probability::Probability;
use crate::queue::{
    CoDel, CoDelError, CoDelParameters, DropTail, Priority, Queue, Red, RedError, RedParameters,
};
use crate::reorder::Reorder;

/// The effects on packets in one direction. The default has none.
///
/// Its chain has all of these elements, in this order, active or not, so that any [`Change`] can be made while it runs:
/// loss, outage, mark, corrupt, duplicate, link, reorder, delay. So a lost packet needs no transmission time on the
/// link, a copy does, and a copy is corrupted like its original.
#[derive(Debug, Clone, PartialEq)]
pub struct Effects {
    /// Which packets are lost, numbered as they enter the path.
    pub loss: LossModel,
    /// Probability of a mark.
    pub mark: Probability,
    /// Probability of corruption.
    pub corrupt: Probability,
    /// Probability of a copy.
    pub duplicate: Probability,
    /// Rate of the link.
    pub capacity: Capacity,
    /// Discipline of its queue.
    pub discipline: Discipline,
    /// Limit of its queue.
    pub queue_limit: Limit,
    /// Probability that a packet is held back.
    pub reorder_share: Probability,
    /// How long it is held back.
    pub reorder_by: Duration,
    /// The delay.
    pub delay: Duration,
    /// Its variation.
    pub jitter: Option<Jitter>,
}

/// Discipline of a queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Discipline {
    /// First in, first out.
    DropTail,
    /// Random early detection.
    Red(RedParameters),
    /// Controlled delay.
    CoDel(CoDelParameters),
    /// Strict priority, with this number of classes.
    Priority(u8),
}

/// Contradictory effects.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum EffectsError {
    /// The jitter does not fit the delay.
    #[error(transparent)]
    Jitter(#[from] JitterError),
    /// The parameters of RED are wrong.
    #[error(transparent)]
    Red(#[from] RedError),
    /// The parameters of CoDel are wrong.
    #[error(transparent)]
    CoDel(#[from] CoDelError),
}

impl Default for Effects {
    fn default() -> Self {
        Effects {
            loss: LossModel::NONE,
            mark: Probability::NEVER,
            corrupt: Probability::NEVER,
            duplicate: Probability::NEVER,
            capacity: Capacity::Unlimited,
            discipline: Discipline::DropTail,
            queue_limit: Limit::bytes(1 << 20),
            reorder_share: Probability::NEVER,
            reorder_by: Duration::ZERO,
            delay: Duration::ZERO,
            jitter: None,
        }
    }
}

impl Effects {
    /// A chain with these effects. The same seed makes the same random choices.
    ///
    /// # Errors
    /// [`EffectsError`] when they contradict each other.
    pub fn chain<T: Clone>(&self, seed: u64) -> Result<Chain<T>, EffectsError> {
        // The chain itself widens its lines.
        let room = Limit::bytes(0);
        let mut chain = Chain::new(vec![
            Element::Loss(Loss::new(self.loss.clone(), seed)),
            Element::Outage(Outage::new()),
            Element::Mark(Mark::new(self.mark, seed)),
            Element::Corrupt(Corrupt::new(self.corrupt, seed)),
            Element::Duplicate(Duplicate::new(self.duplicate, seed)),
            Element::Link(Link::new(self.capacity.clone(), self.queue(seed)?)),
            Element::Reorder(Reorder::new(
                self.reorder_share,
                self.reorder_by,
                seed,
                room,
            )),
            Element::Delay(Delay::varying(self.delay, self.jitter.clone(), seed, room)?),
        ]);
        chain.make_room();
        Ok(chain)
    }

    fn queue<T>(&self, seed: u64) -> Result<Queue<T>, EffectsError> {
        Ok(match self.discipline {
            Discipline::DropTail => DropTail::new(self.queue_limit).into(),
            Discipline::Red(parameters) => Red::new(parameters, self.queue_limit, seed)?.into(),
            Discipline::CoDel(parameters) => CoDel::new(parameters, self.queue_limit)?.into(),
            Discipline::Priority(classes) => Priority::new(classes, self.queue_limit).into(),
        })
    }

    /// The changes that turn a running chain of `before` into one of these effects, in an order in which each is valid.
    /// `None` when the queue's discipline differs, which cannot be changed.
    #[must_use]
    pub fn changes_from(&self, before: &Effects) -> Option<Vec<Change>> {
        if self.discipline != before.discipline {
            return None;
        }
        let mut changes = Vec::new();
        if self.delay != before.delay {
            // Neither jitter needs to fit the other's delay.
            if before.jitter.is_some() && self.jitter != before.jitter {
                changes.push(Change::Jitter(None));
            }
            changes.push(Change::Delay(self.delay));
        }
        let reordering = |of: &Effects| (of.reorder_share, of.reorder_by);
        let others = [
            (
                self.jitter != before.jitter,
                Change::Jitter(self.jitter.clone()),
            ),
            (
                self.capacity != before.capacity,
                Change::Rate(self.capacity.clone()),
            ),
            (
                self.queue_limit != before.queue_limit,
                Change::QueueLimit(self.queue_limit),
            ),
            (self.loss != before.loss, Change::Loss(self.loss.clone())),
            (
                reordering(self) != reordering(before),
                Change::Reorder {
                    share: self.reorder_share,
                    by: self.reorder_by,
                },
            ),
            (
                self.duplicate != before.duplicate,
                Change::Duplicate(self.duplicate),
            ),
            (
                self.corrupt != before.corrupt,
                Change::Corrupt(self.corrupt),
            ),
            (self.mark != before.mark, Change::Mark(self.mark)),
        ];
        let differing = others.into_iter().filter(|(differs, _)| *differs);
        changes.extend(differing.map(|(_, change)| change));
        Some(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChangeError, Distribution, Packet};
    use wansan_trace::Instant;

    fn jittered(delay_ms: u64, spread_ms: u64) -> Effects {
        Effects {
            delay: Duration::from_millis(delay_ms),
            jitter: Some(Jitter {
                distribution: Distribution::Uniform {
                    spread: Duration::from_millis(spread_ms),
                },
                overtaking: false,
            }),
            ..Effects::default()
        }
    }

    #[test]
    fn changes_lead_from_any_effects_to_any_other() {
        let effects = [
            Effects::default(),
            jittered(10, 10),
            jittered(2, 1),
            jittered(1, 1),
            Effects {
                mark: Probability::new(0.5).unwrap(),
                reorder_by: Duration::from_millis(1),
                ..jittered(10, 1)
            },
        ];
        for before in &effects {
            for after in &effects {
                let mut chain = before.chain::<()>(1).unwrap();
                let changes = after.changes_from(before).unwrap();
                assert_eq!(changes.is_empty(), before == after);
                for change in changes {
                    chain.apply(Instant::ZERO, change).unwrap();
                }
                let Some((_, Element::Delay(delay))) = chain.elements().last() else {
                    panic!("a delay ends it");
                };
                let now = (delay.delay(), delay.jitter().cloned());
                assert_eq!(now, (after.delay, after.jitter.clone()));
            }
        }
    }

    #[test]
    fn a_jitter_beyond_the_delay_is_refused_and_changes_nothing() {
        assert!(jittered(1, 2).chain::<()>(1).is_err());
        let mut chain = jittered(2, 2).chain(1).unwrap();
        let refused = chain.apply(Instant::ZERO, Change::Delay(Duration::from_millis(1)));
        assert!(matches!(refused, Err(ChangeError::Jitter(_))));
        assert_eq!(chain.delay(), Duration::from_millis(2));
        chain.enqueue(Instant::ZERO, Packet::new(100, ()));
        let leaves = chain.next_deadline().expect("a packet is on its way");
        assert!(leaves <= Instant::from_ns(4_000_000));
    }

    #[test]
    fn no_effect_takes_no_time() {
        let mut chain = Effects::default().chain(1).unwrap();
        for number in 0..1_000 {
            chain.enqueue(Instant::ZERO, Packet::new(1_500, number));
            let left = chain.poll(Instant::ZERO).unwrap();
            assert_eq!(
                (left.packet.payload, left.departed),
                (number, Instant::ZERO)
            );
        }
    }
}
