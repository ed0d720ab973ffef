//! Layers that a task crossed at one time, as one record in memory.

use crate::event::Crossing;
use crate::log::{Log, Supply};
use crate::record::packed;
use crate::{ConnectionId, Direction, Instant, Layer, SessionId, TaskTag};

/// Adjacent layers crossed by one task at one time, in one direction.
///
/// A call into an engine often moves a task through three layers at once. Files have a row for each; in memory they
/// share a record, since recording costs most for each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage {
    pub(crate) time: Instant,
    /// The task and the layers, packed so that one comparison finds whether a crossing continues it: from the highest bit
    /// on the task (32 bits), the connection (16), the [next layer](next) (8), and the number of layers crossed (8).
    path: u64,
    pub(crate) session: SessionId,
}

/// Bits for the number of layers.
const COUNT_BITS: u32 = 8;
/// Bits for the next layer: its index plus 1 and, as the lowest bit, whether layers are left. Nothing is above the top
/// layer or below the bottom one, and none of them has the number that these then have.
const NEXT_BITS: u32 = 8;

/// What a crossing has in common with the passage that it continues, in the place of the next layer and above.
#[inline(always)]
fn next(crossing: &Crossing) -> u64 {
    let layer = (crossing.layer as u64 + 1) << 1 | leaves(crossing.direction);
    let task = u64::from(crossing.task.0) << 16 | u64::from(crossing.connection.0);
    task << NEXT_BITS | layer
}

/// 1 if layers are left upward, 0 if they are entered downward.
#[inline(always)]
fn leaves(direction: Direction) -> u64 {
    u64::from(direction == Direction::Leave)
}

/// Added to a path for each layer: the number of layers, and the next layer, downward or upward.
const ENTERED: u64 = 1 + (2 << COUNT_BITS);
const LEFT: u64 = 1_u64.wrapping_sub(2 << COUNT_BITS);

impl Passage {
    /// A passage of one layer.
    #[inline(always)]
    pub(crate) fn of(crossing: Crossing) -> Self {
        let step = [ENTERED, LEFT][leaves(crossing.direction) as usize];
        Passage {
            time: crossing.time,
            path: (next(&crossing) << COUNT_BITS).wrapping_add(step),
            session: crossing.session,
        }
    }

    /// Absorbs the crossing if it continues this passage; returns the passage as it is if not.
    #[inline(always)]
    fn absorb(&mut self, crossing: &Crossing) -> Option<Passage> {
        // It has just been stored alone, so it must not be loaded with another field (see `log::words::Row`).
        let path = std::hint::black_box(self.path);
        let continues = path >> COUNT_BITS == next(crossing)
            && self.time == crossing.time
            && self.session == crossing.session;
        if !continues {
            return Some(Passage { path, ..*self });
        }
        let step = [ENTERED, LEFT][leaves(crossing.direction) as usize];
        self.path = path.wrapping_add(step);
        None
    }

    /// The lowest bits of its path: the next layer and the number of layers.
    fn layers(self) -> (u64, u64) {
        let count = self.path & !(u64::MAX << COUNT_BITS);
        let next = self.path >> COUNT_BITS & !(u64::MAX << NEXT_BITS);
        (next, count)
    }

    /// Its crossings, in time order.
    pub fn crossings(self) -> impl Iterator<Item = Crossing> {
        let (next, count) = self.layers();
        let [task, connection] = [32, 16].map(|bits| self.path >> bits);
        (1..=count).rev().map(move |back| {
            let (direction, number) = match next & 1 {
                0 => (Direction::Enter, (next >> 1) - back),
                _ => (Direction::Leave, (next >> 1) + back),
            };
            Crossing {
                time: self.time,
                session: self.session,
                task: TaskTag(task as u32),
                connection: ConnectionId(connection as u16),
                layer: Layer::ALL[number as usize - 1],
                direction,
            }
        })
    }
}

impl Log<Passage> {
    /// Adds a crossing, to the last passage if it continues that one.
    #[inline(always)]
    pub(crate) fn cross(&mut self, supply: &mut Supply, crossing: Crossing) {
        self.grow(supply, Passage::of(crossing), |last| last.absorb(&crossing));
    }

    /// The crossings of all passages, in order of arrival.
    pub fn crossings(&self) -> impl Iterator<Item = Crossing> {
        self.iter().flat_map(Passage::crossings)
    }
}

packed!(
    Passage { time: Instant, path: u64, session: SessionId }
    grouped by |passage| passage.layers().0 as usize,
    unfolds to Crossing by Passage::crossings
);

#[cfg(test)]
mod tests {
    use super::*;

    fn crossing(ns: u64, task: u32, layer: Layer, direction: Direction) -> Crossing {
        Crossing {
            time: Instant::from_ns(ns),
            session: SessionId(1),
            task: TaskTag(task),
            connection: ConnectionId(2),
            layer,
            direction,
        }
    }

    #[test]
    fn neighbours_of_one_moment_join_and_come_out_again() {
        use Direction::{Enter, Leave};
        let down = Layer::ALL.map(|layer| crossing(5, 1, layer, Enter));
        let mut up = Layer::ALL.map(|layer| crossing(5, 1, layer, Leave));
        up.reverse();
        for way in [down, up] {
            let mut passage = Passage::of(way[0]);
            assert!(way[1..].iter().all(|next| passage.absorb(next).is_none()));
            assert!(passage.crossings().eq(way));
        }
    }

    #[test]
    fn anything_else_does_not_join() {
        use Direction::{Enter, Leave};
        let first = crossing(5, 1, Layer::Queue, Enter);
        let others = [
            crossing(6, 1, Layer::Window, Enter),
            crossing(5, 2, Layer::Window, Enter),
            crossing(5, 1, Layer::Window, Leave),
            crossing(5, 1, Layer::Socket, Enter),
            crossing(5, 1, Layer::Queue, Enter),
            crossing(5, 1, Layer::Scsi, Enter),
            Crossing {
                session: SessionId(9),
                ..crossing(5, 1, Layer::Window, Enter)
            },
            Crossing {
                connection: ConnectionId(9),
                ..crossing(5, 1, Layer::Window, Enter)
            },
        ];
        for other in others {
            let mut passage = Passage::of(first);
            assert_eq!(passage.absorb(&other), Some(passage), "{other:?}");
            assert!(passage.crossings().eq([first]));
        }
        // There is no layer above the top or below the bottom.
        let mut top = Passage::of(crossing(5, 1, Layer::App, Leave));
        assert!(top.absorb(&crossing(5, 1, Layer::App, Leave)).is_some());
    }
}
