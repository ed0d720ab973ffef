//! The bounded store of one thread's records.

use crate::event::{Crossing, Packet, Path, Pdu, Tcp};
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
    /// Every packet at the observation points.
    pub packet: bool,
    /// Path samples.
    pub path: bool,
}

impl Kinds {
    /// Nothing.
    pub const NONE: Kinds = Kinds {
        io: false,
        pdu: false,
        tcp: false,
        packet: false,
        path: false,
    };
    /// Everything.
    pub const ALL: Kinds = Kinds {
        io: true,
        pdu: true,
        tcp: true,
        packet: true,
        path: true,
    };
}

/// Bytes in one block of a [`Log`]. Blocks are taken one by one and their memory is used page by
/// page, so a short run stays small.
const BLOCK_BYTES: usize = 4 * 1024 * 1024;

/// Records of one kind, oldest first, in blocks that never move.
#[derive(Debug)]
pub struct Log<T> {
    enabled: bool,
    full: Vec<Vec<T>>,
    open: Vec<T>,
    dropped: u64,
}

impl<T> Log<T> {
    fn new(enabled: bool) -> Self {
        Log {
            enabled,
            full: Vec::new(),
            open: Vec::new(),
            dropped: 0,
        }
    }

    const BLOCK_RECORDS: usize = BLOCK_BYTES / size_of::<T>();

    #[inline]
    fn push(&mut self, budget_bytes: &mut usize, record: T) {
        if !self.enabled {
            return;
        }
        if self.open.len() == self.open.capacity() && !self.next_block(budget_bytes) {
            self.dropped += 1;
            return;
        }
        self.open.push(record);
    }

    #[cold]
    fn next_block(&mut self, budget_bytes: &mut usize) -> bool {
        if *budget_bytes < BLOCK_BYTES {
            return false;
        }
        *budget_bytes -= BLOCK_BYTES;
        let mut block = Vec::with_capacity(Self::BLOCK_RECORDS);
        ask_for_huge_pages(&mut block);
        let full = std::mem::replace(&mut self.open, block);
        if !full.is_empty() {
            self.full.push(full);
        }
        true
    }

    /// The records, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.full.iter().flatten().chain(&self.open)
    }

    /// How many records are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.full.iter().map(Vec::len).sum::<usize>() + self.open.len()
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether records of this kind are kept at all.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.enabled
    }

    /// How many were lost because the recorder's memory was used up.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Log<Passage> {
    /// A crossing that continues the last passage becomes part of it.
    #[inline]
    fn cross(&mut self, budget_bytes: &mut usize, crossing: Crossing) {
        let last = self.open.last_mut();
        if !last.is_some_and(|last| last.continues_with(&crossing)) {
            self.push(budget_bytes, Passage::of(crossing));
        }
    }

    /// The crossings of all passages, in the order in which they were recorded.
    pub fn crossings(&self) -> impl Iterator<Item = Crossing> {
        self.iter().flat_map(|passage| passage.crossings())
    }
}

/// Asks the kernel to back a block with huge pages. Fresh memory in pages of 4 KiB costs a page
/// fault for every few dozen records, which was the dearest part of recording; a kernel that
/// has no huge pages to give changes nothing.
#[allow(
    unsafe_code,
    reason = "madvise is unsafe for advice that drops pages; this one does not"
)]
fn ask_for_huge_pages<T>(block: &mut Vec<T>) {
    const PAGE_BYTES: usize = 4096;
    let start = block.as_mut_ptr().cast::<u8>();
    let to_page = start.align_offset(PAGE_BYTES);
    let bytes = (block.capacity() * size_of::<T>()).saturating_sub(to_page);
    // SAFETY: the range lies inside the block's own allocation, and MADV_HUGEPAGE changes how its
    // pages are made, never what they hold.
    let advised = unsafe {
        let start = start.wrapping_add(to_page).cast();
        rustix::mm::madvise(
            start,
            bytes & !(PAGE_BYTES - 1),
            rustix::mm::Advice::LinuxHugepage,
        )
    };
    // Without them recording is slower, not wrong.
    let _ = advised;
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
    /// Packets.
    pub packet: Log<Packet>,
    /// Path samples.
    pub path: Log<Path>,
    names: Vec<String>,
    budget_bytes: usize,
}

impl Recorder {
    /// The least memory that a recorder takes for each kind it keeps.
    pub const MIN_BYTES: usize = 5 * BLOCK_BYTES;

    /// A recorder that keeps `kinds` in at most `budget_bytes` of memory for all kinds together.
    #[must_use]
    pub fn new(kinds: Kinds, budget_bytes: usize) -> Self {
        Recorder {
            io: Log::new(kinds.io),
            pdu: Log::new(kinds.pdu),
            tcp: Log::new(kinds.tcp),
            packet: Log::new(kinds.packet),
            path: Log::new(kinds.path),
            names: Vec::new(),
            budget_bytes,
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
        self.io.enabled
    }

    /// Whether PDUs are kept.
    #[must_use]
    pub fn keeps_pdus(&self) -> bool {
        self.pdu.enabled
    }

    /// Whether TCP samples are kept.
    #[must_use]
    pub fn keeps_tcp(&self) -> bool {
        self.tcp.enabled
    }

    /// Whether packets are kept.
    #[must_use]
    pub fn keeps_packets(&self) -> bool {
        self.packet.enabled
    }

    /// Whether path samples are kept.
    #[must_use]
    pub fn keeps_paths(&self) -> bool {
        self.path.enabled
    }

    /// The id of `name` in this recorder. Names are never forgotten: they are for things that a
    /// plan lists, not for what a peer sends.
    ///
    /// # Panics
    /// When 65,536 names are in use.
    pub fn name(&mut self, name: &str) -> NameId {
        let place = self
            .names
            .iter()
            .position(|known| known == name)
            .unwrap_or_else(|| {
                self.names.push(name.to_owned());
                self.names.len() - 1
            });
        NameId(u16::try_from(place).expect("a recorder names fewer than 65,536 things"))
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
        self.io.cross(&mut self.budget_bytes, record);
    }

    /// Records a PDU.
    #[inline]
    pub fn pdu(&mut self, record: Pdu) {
        self.pdu.push(&mut self.budget_bytes, record);
    }

    /// Records a TCP sample or event.
    #[inline]
    pub fn tcp(&mut self, record: Tcp) {
        self.tcp.push(&mut self.budget_bytes, record);
    }

    /// Records a packet.
    #[inline]
    pub fn packet(&mut self, record: Packet) {
        self.packet.push(&mut self.budget_bytes, record);
    }

    /// Records a path sample.
    #[inline]
    pub fn path(&mut self, record: Path) {
        self.path.push(&mut self.budget_bytes, record);
    }

    /// Records lost in all kinds together.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.io.dropped
            + self.pdu.dropped
            + self.tcp.dropped
            + self.packet.dropped
            + self.path.dropped
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
        let mut recorder = Recorder::new(Kinds::ALL, 2 * BLOCK_BYTES);
        let room = 2 * Log::<Passage>::BLOCK_RECORDS as u64;
        for ns in 0..room + 10 {
            cross(&mut recorder, ns);
        }
        assert_eq!(recorder.io.len() as u64, room);
        assert_eq!(recorder.io.dropped(), 10);
        assert!(recorder.io.crossings().map(|c| c.time.ns()).eq(0..room));
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
