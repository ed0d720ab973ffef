//! Layers that a task crossed at one time, as one record in memory.

use crate::event::Crossing;
use crate::log::{Log, Supply};
use crate::record::packed;
use crate::{ConnectionId, Direction, Instant, Layer, SessionId, TaskTag};

/// Adjacent layers crossed by one task at one time, in one direction.
///
/// A call into an engine often moves a task through three layers at once. Files have a row for each; in memory they
/// share a record, since filling memory dominates the cost of recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage {
    pub(crate) time: Instant,
    pub(crate) session: SessionId,
    pub(crate) task: TaskTag,
    pub(crate) connection: ConnectionId,
    pub(crate) first: Layer,
    /// Number of layers: positive if entered downward, negative if left upward.
    pub(crate) steps: i8,
}

impl Passage {
    /// A passage of one layer.
    #[inline]
    pub(crate) fn of(crossing: Crossing) -> Self {
        Passage {
            time: crossing.time,
            session: crossing.session,
            task: crossing.task,
            connection: crossing.connection,
            first: crossing.layer,
            steps: sign(crossing.direction),
        }
    }

    /// Absorbs the crossing if it continues this passage; returns whether it did.
    #[inline]
    pub(crate) fn continues_with(&mut self, next: &Crossing) -> bool {
        let continues = self.time == next.time
            && self.task == next.task
            && self.session == next.session
            && self.connection == next.connection
            && self.steps.signum() == sign(next.direction)
            && self.first as i8 + self.steps == next.layer as i8;
        if continues {
            self.steps += self.steps.signum();
        }
        continues
    }

    /// Its crossings, in time order.
    pub fn crossings(self) -> impl Iterator<Item = Crossing> {
        let direction = if self.steps > 0 {
            Direction::Enter
        } else {
            Direction::Leave
        };
        (0..self.steps.abs()).map(move |step| Crossing {
            time: self.time,
            session: self.session,
            task: self.task,
            connection: self.connection,
            layer: Layer::ALL[(self.first as i8 + step * self.steps.signum()) as usize],
            direction,
        })
    }
}

impl Log<Passage> {
    /// Adds a crossing, to the last passage if it continues that one.
    #[inline]
    pub(crate) fn cross(&mut self, supply: &mut Supply, crossing: Crossing) {
        self.grow(supply, Passage::of(crossing), |last| {
            last.continues_with(&crossing)
        });
    }

    /// The crossings of all passages, in order of arrival.
    pub fn crossings(&self) -> impl Iterator<Item = Crossing> {
        self.iter().flat_map(Passage::crossings)
    }
}

packed!(
    Passage {
        time: Instant,
        session: SessionId,
        task: TaskTag,
        connection: ConnectionId,
        first: Layer,
        steps: i8,
    } unfolds to Crossing by Passage::crossings
);

fn sign(direction: Direction) -> i8 {
    match direction {
        Direction::Enter => 1,
        Direction::Leave => -1,
    }
}

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
            assert!(way[1..].iter().all(|next| passage.continues_with(next)));
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
            assert!(!passage.continues_with(&other), "{other:?}");
            assert!(passage.crossings().eq([first]));
        }
        // There is no layer above the top or below the bottom.
        let mut top = Passage::of(crossing(5, 1, Layer::App, Leave));
        assert!(!top.continues_with(&crossing(5, 1, Layer::App, Leave)));
    }
}
