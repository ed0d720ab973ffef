//! The event queue: a 4-ary heap with at most one entry per actor.

/// Marks an actor without an entry in the heap.
const NOWHERE: u32 = u32::MAX;

/// Children per node: four entries span two or three cache lines.
const CHILDREN: usize = 4;

/// An entry, ordered by time and then by order of scheduling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at_ns: u64,
    made: u64,
    actor: u32,
}

/// When each actor acts next. Simultaneous entries come in the order in which they were scheduled.
///
/// Memory is proportional to the number of actors, however often they are scheduled.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    heap: Vec<Entry>,
    /// Index of each actor's entry in the heap.
    places: Vec<u32>,
    made: u64,
}

impl Schedule {
    /// Adds an actor; returns its number, from 0.
    pub(super) fn add(&mut self) -> u32 {
        self.places.push(NOWHERE);
        self.places.len() as u32 - 1
    }

    /// Schedules an actor at a time, unless it is due earlier.
    pub(super) fn set(&mut self, actor: u32, at_ns: u64) {
        let made = self.made;
        let entry = Entry { at_ns, made, actor };
        let place = match self.places[actor as usize] {
            NOWHERE => {
                self.heap.push(entry);
                self.heap.len() - 1
            }
            place if self.heap[place as usize].at_ns <= at_ns => return,
            place => place as usize,
        };
        self.made += 1;
        self.rise(place, entry);
    }

    /// When the next entry is due.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.heap.first().map(|first| first.at_ns)
    }

    /// Removes the next entry if it is due by `until_ns`; returns its time and actor.
    pub(super) fn pop(&mut self, until_ns: u64) -> Option<(u64, u32)> {
        let first = *self.heap.first().filter(|first| first.at_ns <= until_ns)?;
        self.places[first.actor as usize] = NOWHERE;
        let last = self.heap.pop()?;
        if !self.heap.is_empty() {
            self.sink(last);
        }
        Some((first.at_ns, first.actor))
    }

    /// Sifts an entry up from `place`.
    fn rise(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.heap[parent] <= entry {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    /// Sifts an entry down from the root.
    fn sink(&mut self, entry: Entry) {
        let mut place = 0;
        loop {
            let first = place * CHILDREN + 1;
            let children = first..(first + CHILDREN).min(self.heap.len());
            let Some(least) = children.min_by_key(|&child| self.heap[child]) else {
                break;
            };
            if entry <= self.heap[least] {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.places[entry.actor as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    fn of(actors: u32) -> Schedule {
        let mut schedule = Schedule::default();
        for actor in 0..actors {
            assert_eq!(schedule.add(), actor);
        }
        schedule
    }

    #[test]
    fn one_time_has_the_order_of_scheduling_and_an_earlier_time_goes_before() {
        let mut schedule = of(3);
        schedule.set(2, 10);
        schedule.set(0, 10);
        schedule.set(1, 30);
        schedule.set(1, 20);
        // It is already due earlier.
        schedule.set(2, 15);
        assert_eq!(schedule.next_ns(), Some(10));
        assert_eq!(schedule.pop(9), None);
        assert_eq!(schedule.pop(10), Some((10, 2)));
        assert_eq!(schedule.pop(10), Some((10, 0)));
        assert_eq!(schedule.pop(20), Some((20, 1)));
        assert_eq!((schedule.pop(u64::MAX), schedule.next_ns()), (None, None));
    }

    #[test]
    fn whatever_is_scheduled_comes_in_the_order_of_its_times() {
        let mut random = Pcg64Mcg::seed_from_u64(7);
        let mut schedule = of(40);
        let mut expected = vec![u64::MAX; 40];
        let mut now = 0;
        for _ in 0..20_000 {
            let (actor, after) = (random.next_u32() % 40, random.next_u64() % 1_000);
            schedule.set(actor, now + after);
            let due = &mut expected[actor as usize];
            *due = (*due).min(now + after);
            if random.next_u32().is_multiple_of(2) {
                let (at, actor) = schedule.pop(u64::MAX).expect("one was just scheduled");
                assert_eq!(Some(&at), expected.iter().min());
                assert_eq!(
                    std::mem::replace(&mut expected[actor as usize], u64::MAX),
                    at
                );
                now = at;
            }
        }
        assert!(schedule.heap.len() <= 40);
    }
}
