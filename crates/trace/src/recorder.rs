//! The bounded store of one thread's records.

use crate::event::{Crossing, Packet, Path, Pdu, Stamp, Tcp, Thread};
use crate::log::{BLOCK_BYTES, Log, Supply};
use crate::passage::Passage;
use crate::{ConnectionId, Direction, Instant, Layer, NameId, SessionId, TaskTag};

/// Which kinds of record are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kinds {
    /// Layer crossings.
    pub io: bool,
    /// Every PDU.
    pub pdu: bool,
    /// TCP_INFO samples and events.
    pub tcp: bool,
    /// The kernel's times of what goes through sockets.
    pub stamp: bool,
    /// Every packet at the observation points.
    pub packet: bool,
    /// Path samples.
    pub path: bool,
    /// Samples of programs' threads.
    pub thread: bool,
}

impl Kinds {
    /// Nothing.
    pub const NONE: Kinds = Kinds {
        io: false,
        pdu: false,
        tcp: false,
        stamp: false,
        packet: false,
        path: false,
        thread: false,
    };
    /// Everything.
    pub const ALL: Kinds = Kinds {
        io: true,
        pdu: true,
        tcp: true,
        stamp: true,
        packet: true,
        path: true,
        thread: true,
    };
}

/// The records of one thread.
///
/// Recording never blocks and never fails: the memory is bounded, and what comes after the bound
/// is counted as dropped, kind by kind. A recorder that is [off](Recorder::off) costs a branch.
/// The thread that owns the recorder hands it to [`crate::file`] when its work is done.
#[derive(Debug)]
pub struct Recorder {
    /// Layer crossings.
    pub io: Log<Passage>,
    /// PDUs.
    pub pdu: Log<Pdu>,
    /// TCP samples and events.
    pub tcp: Log<Tcp>,
    /// The kernel's times of what went through sockets.
    pub stamp: Log<Stamp>,
    /// Packets.
    pub packet: Log<Packet>,
    /// Path samples.
    pub path: Log<Path>,
    /// Samples of programs' threads.
    pub thread: Log<Thread>,
    names: Vec<String>,
    supply: Supply,
}

impl Recorder {
    /// The least memory that a recorder takes for each kind it keeps.
    pub const MIN_BYTES: usize = 7 * BLOCK_BYTES;

    /// A recorder that keeps `kinds` in at most `budget_bytes` of memory for all kinds together.
    #[must_use]
    pub fn new(kinds: Kinds, budget_bytes: usize) -> Self {
        Recorder {
            io: Log::new(kinds.io),
            pdu: Log::new(kinds.pdu),
            tcp: Log::new(kinds.tcp),
            stamp: Log::new(kinds.stamp),
            packet: Log::new(kinds.packet),
            path: Log::new(kinds.path),
            thread: Log::new(kinds.thread),
            names: Vec::new(),
            supply: Supply::new(if kinds == Kinds::NONE {
                0
            } else {
                budget_bytes
            }),
        }
    }

    /// A recorder that keeps nothing.
    #[must_use]
    pub fn off() -> Self {
        Recorder::new(Kinds::NONE, 0)
    }

    /// Whether layer crossings are kept: callers that would have to look at a clock first may ask.
    #[must_use]
    pub fn keeps_io(&self) -> bool {
        self.io.is_kept()
    }

    /// Whether PDUs are kept.
    #[must_use]
    pub fn keeps_pdus(&self) -> bool {
        self.pdu.is_kept()
    }

    /// Whether TCP samples are kept.
    #[must_use]
    pub fn keeps_tcp(&self) -> bool {
        self.tcp.is_kept()
    }

    /// Whether the kernel's times of what goes through sockets are kept.
    #[must_use]
    pub fn keeps_stamps(&self) -> bool {
        self.stamp.is_kept()
    }

    /// Whether packets are kept.
    #[must_use]
    pub fn keeps_packets(&self) -> bool {
        self.packet.is_kept()
    }

    /// Whether path samples are kept.
    #[must_use]
    pub fn keeps_paths(&self) -> bool {
        self.path.is_kept()
    }

    /// Whether samples of programs' threads are kept.
    #[must_use]
    pub fn keeps_threads(&self) -> bool {
        self.thread.is_kept()
    }

    /// The id of `name` in this recorder. Names are never forgotten: they are for things that a
    /// plan lists, not for what a peer sends.
    ///
    /// # Panics
    /// When 65,535 names are in use.
    pub fn name(&mut self, name: &str) -> NameId {
        let place = self
            .names
            .iter()
            .position(|known| known == name)
            .unwrap_or_else(|| {
                self.names.push(name.to_owned());
                self.names.len() - 1
            });
        let id = u16::try_from(place).ok().map(NameId);
        id.filter(|id| *id != NameId::NONE)
            .expect("a recorder names fewer than 65,536 things")
    }

    /// The name with that id.
    #[must_use]
    pub fn name_of(&self, id: NameId) -> &str {
        self.names.get(usize::from(id.0)).map_or("", String::as_str)
    }

    /// Records that a task crossed a layer's boundary.
    #[inline]
    pub fn crossing(
        &mut self,
        time: Instant,
        session: SessionId,
        connection: ConnectionId,
        task: TaskTag,
        layer: Layer,
        direction: Direction,
    ) {
        let record = Crossing {
            time,
            session,
            task,
            connection,
            layer,
            direction,
        };
        self.io.cross(&mut self.supply, record);
    }

    /// Records a PDU.
    #[inline]
    pub fn pdu(&mut self, record: Pdu) {
        self.pdu.push(&mut self.supply, &record);
    }

    /// Records a TCP sample or event.
    #[inline]
    pub fn tcp(&mut self, record: Tcp) {
        self.tcp.push(&mut self.supply, &record);
    }

    /// Records the kernel's times of a call on a socket.
    #[inline]
    pub fn stamp(&mut self, record: Stamp) {
        self.stamp.push(&mut self.supply, &record);
    }

    /// Records a packet.
    #[inline]
    pub fn packet(&mut self, record: Packet) {
        self.packet.push(&mut self.supply, &record);
    }

    /// Records a path sample.
    #[inline]
    pub fn path(&mut self, record: Path) {
        self.path.push(&mut self.supply, &record);
    }

    /// Records a sample of a program's thread.
    #[inline]
    pub fn thread(&mut self, record: Thread) {
        self.thread.push(&mut self.supply, &record);
    }

    /// Records lost in all kinds together.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.io.dropped()
            + self.pdu.dropped()
            + self.tcp.dropped()
            + self.stamp.dropped()
            + self.packet.dropped()
            + self.path.dropped()
            + self.thread.dropped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cross(recorder: &mut Recorder, ns: u64) {
        recorder.crossing(
            Instant::from_ns(ns),
            SessionId(1),
            ConnectionId(0),
            TaskTag(ns as u32),
            Layer::App,
            Direction::Enter,
        );
    }

    #[test]
    fn off_keeps_and_counts_nothing() {
        let mut recorder = Recorder::off();
        cross(&mut recorder, 1);
        assert!(recorder.io.is_empty());
        assert_eq!(recorder.dropped(), 0);
    }

    #[test]
    fn keeps_the_oldest_and_counts_the_rest() {
        let mut recorder = Recorder::new(Kinds::ALL, 2 * BLOCK_BYTES + 10);
        const IOS: u64 = 100_000;
        for ns in 0..IOS {
            let (session, task) = (SessionId(1), TaskTag(ns as u32));
            for layer in [Layer::App, Layer::Scsi, Layer::Queue] {
                let at = Instant::from_ns(ns);
                recorder.crossing(at, session, ConnectionId(0), task, layer, Direction::Enter);
            }
        }
        let kept = recorder.io.crossings().count() as u64;
        assert!(kept >= 2 * BLOCK_BYTES as u64 / 24, "{kept} in two blocks");
        // The last passage, which may still have grown, is kept beside the blocks.
        let in_order = (0..IOS)
            .flat_map(|ns| [ns; 3])
            .take(kept as usize - 3)
            .chain([IOS - 1; 3]);
        assert!(recorder.io.crossings().map(|c| c.time.ns()).eq(in_order));
        assert_eq!(recorder.io.dropped(), 3 * IOS - kept);
    }

    #[test]
    fn names_are_interned() {
        let mut recorder = Recorder::off();
        let up = recorder.name("up");
        let down = recorder.name("down");
        assert_ne!(up, down);
        assert_eq!(recorder.name("up"), up);
        assert_eq!(recorder.name_of(down), "down");
    }
}
