//! The store's service time of an I/O.

use smallvec::SmallVec;
use wansan_trace::Layer;
use wansan_trace::event::{Pdu, PduDirection};
use wansan_trace::file::Table;

use crate::join::{Joined, Task};
use crate::opcode::{DATA_IN, FINAL_BIT};

/// What Data-In PDUs show of reads at their targets. A target reads a long one in pieces, each when there is room to
/// send it, and leaves the store with the last: between pieces the read waits for room, not for the store.
#[derive(Debug, Default)]
pub struct Served {
    /// By tag; empty if no PDUs were recorded.
    reads: Vec<Pieces>,
}

/// When a read's first data was available, and when its Data-In sequences ended; a reused tag has several.
#[derive(Debug, Clone, Default)]
struct Pieces {
    first_ns: SmallVec<[u64; 1]>,
    ends_ns: SmallVec<[u64; 1]>,
}

impl Served {
    /// From the PDUs; without any, the whole time in the store counts.
    #[must_use]
    pub fn of(joined: &Joined, pdus: Option<&Table<Pdu>>) -> Served {
        let Some(pdus) = pdus else {
            return Served::default();
        };
        let mut reads = vec![Pieces::default(); joined.tags.count()];
        for pdu in pdus.rows.iter().map(|row| &row.record) {
            if pdu.opcode != DATA_IN || pdu.direction != PduDirection::Sent {
                continue;
            }
            let Some(place) = joined.tags.place(pdu.session, pdu.task) else {
                continue;
            };
            let pieces = &mut reads[place];
            if pdu.buffer_offset == 0 {
                pieces.first_ns.push(pdu.time.ns());
            }
            if pdu.flags & FINAL_BIT != 0 {
                pieces.ends_ns.push(pdu.time.ns());
            }
        }
        Served { reads }
    }

    fn pieces(&self, task: &Task) -> Option<&Pieces> {
        self.reads.get(task.tag_place as usize)
    }

    /// When the store began and finished the first piece of an I/O, or all of it if it has no pieces.
    #[must_use]
    pub fn piece_ns(&self, task: &Task) -> Option<(u64, u64)> {
        let stay_ns = task.both_ns(Layer::Store)?;
        let pieces = self.pieces(task);
        Some((stay_ns.0, first_ns(pieces, stay_ns)))
    }

    /// How long the store served an I/O, assuming that each piece took as long as the first.
    #[must_use]
    pub fn length_ns(&self, task: &Task) -> Option<u64> {
        let (enter_ns, leave_ns) = task.both_ns(Layer::Store)?;
        let pieces = self.pieces(task);
        let ends_ns = pieces.iter().flat_map(|pieces| &pieces.ends_ns);
        let bursts = ends_ns
            .filter(|ns| (enter_ns..=leave_ns).contains(*ns))
            .count();
        let piece_ns = first_ns(pieces, (enter_ns, leave_ns)).saturating_sub(enter_ns);
        let length_ns = piece_ns.saturating_mul(bursts.max(1) as u64);
        Some(length_ns.min(leave_ns.saturating_sub(enter_ns)))
    }
}

/// When the first piece was available of a read that was in the store from `enter_ns` to `leave_ns`.
fn first_ns(pieces: Option<&Pieces>, (enter_ns, leave_ns): (u64, u64)) -> u64 {
    let mut first_ns = pieces.iter().flat_map(|pieces| &pieces.first_ns).copied();
    let first_ns = first_ns.find(|ns| (enter_ns..=leave_ns).contains(ns));
    first_ns.unwrap_or(leave_ns)
}

#[cfg(test)]
mod tests {
    use wansan_trace::{ConnectionId, Direction, Instant, Kinds, Recorder, SessionId, TaskTag};

    use super::*;
    use crate::Cell;

    #[test]
    fn a_read_in_pieces_is_served_for_each_as_long_as_for_the_first() {
        let (session, tag) = (SessionId(1), TaskTag(7));
        let kinds = Kinds {
            io: true,
            pdu: true,
            ..Kinds::NONE
        };
        let mut recorder = Recorder::new(kinds, Recorder::MIN_BYTES);
        let mut cross = |at, direction| {
            let (time, connection) = (Instant::from_ns(at), ConnectionId(1));
            recorder.crossing(time, session, connection, tag, Layer::Store, direction);
        };
        cross(100, Direction::Enter);
        cross(900, Direction::Leave);
        for (at, buffer_offset) in [(150, 0), (500, 4096), (890, 8192)] {
            recorder.pdu(Pdu {
                time: Instant::from_ns(at),
                session,
                opcode: DATA_IN,
                task: tag,
                buffer_offset,
                flags: FINAL_BIT,
                ..Pdu::BLANK
            });
        }
        let cell = Cell::gather(&[("target", &recorder)]).expect("an I/O is recorded");
        let task = &cell.joined.tasks[0];
        let (shown, unknown) = (
            Served::of(&cell.joined, cell.pdu.as_deref()),
            Served::of(&cell.joined, None),
        );
        assert_eq!(shown.piece_ns(task), Some((100, 150)));
        assert_eq!(shown.length_ns(task), Some(3 * 50));
        assert_eq!(unknown.piece_ns(task), Some((100, 900)));
        assert_eq!(unknown.length_ns(task), Some(800));
    }
}
