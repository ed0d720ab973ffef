//! The bounded record store of one thread.

use crate::event::{Connection, Crossing, Packet, Path, Pdu, Request, Stamp, Tcp, Thread};
use crate::kind::Kind;
use crate::log::{BLOCK_BYTES, Budget, Log, Supply, Words};
use crate::passage::Passage;
use crate::sample::Sample;
use crate::{ConnectionId, Direction, Instant, Layer, NameId, SessionId, TaskTag};

/// A record kind that recorders keep.
pub trait Recorded: Kind {
    /// Its in-memory form: one or more records of one time.
    type Kept: Words<Record = Self>;
    /// The recorder's log of this kind.
    fn log(recorder: &Recorder) -> &Log<Self::Kept>;
}

/// An operation on every kind.
pub(crate) trait Visitor {
    /// Its error.
    type Error;
    /// Performs it on one kind.
    fn visit<T: Recorded>(&self) -> Result<(), Self::Error>;
}

/// The table of kinds: name, in-memory form, and the file record if different.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $kept:ident $(of $record:ident)?),* $(,)?) => {
        /// The record kinds to keep, and the I/Os whose records are kept.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Kinds {
            $($(#[$doc])* pub $kind: bool,)*
            /// The I/Os whose layer crossings and PDUs are kept.
            pub sample: Sample,
        }

        impl Kinds {
            /// Nothing.
            pub const NONE: Kinds = Kinds { $($kind: false,)* sample: Sample::ALL };
            /// Everything.
            pub const ALL: Kinds = Kinds { $($kind: true,)* sample: Sample::ALL };
            /// Number of kinds.
            const COUNT: usize = [$(stringify!($kind)),*].len();
        }

        /// The records of one thread.
        ///
        /// Recording never blocks and never fails: memory is bounded, and records beyond the bound are counted as
        /// dropped, per kind. A recorder that is [off](Recorder::off) costs one branch. The thread that owns the
        /// recorder passes it to [`crate::file`] when its work is done.
        #[derive(Debug)]
        pub struct Recorder {
            $($(#[$doc])* pub $kind: Log<$kept>,)*
            sample: Sample,
            names: Vec<String>,
            supply: Supply,
        }

        impl Recorder {
            /// A recorder that keeps `kinds` in at most `budget_bytes` of memory for all kinds
            /// together.
            #[must_use]
            pub fn new(kinds: Kinds, budget_bytes: usize) -> Self {
                let is_off = ![$(kinds.$kind),*].contains(&true);
                Recorder::supplied(kinds, Supply::ahead(if is_off { 0 } else { budget_bytes }))
            }

            /// A recorder that allocates from a shared budget. It allocates on demand: the cost does not matter in
            /// simulated time.
            #[must_use]
            pub fn within(kinds: Kinds, budget: &Budget) -> Self {
                Recorder::supplied(kinds, Supply::within(budget))
            }

            /// Another recorder of the same kinds that allocates from the same budget.
            #[must_use]
            pub fn another(&self) -> Self {
                let kinds = Kinds { $($kind: self.$kind.is_kept(),)* sample: self.sample };
                Recorder::supplied(kinds, self.supply.another())
            }

            fn supplied(kinds: Kinds, supply: Supply) -> Self {
                Recorder {
                    $($kind: Log::new(kinds.$kind),)*
                    sample: kinds.sample,
                    names: Vec::new(),
                    supply,
                }
            }

            /// Dropped records of all kinds.
            #[must_use]
            pub fn dropped(&self) -> u64 {
                [$(self.$kind.dropped()),*].iter().sum()
            }

            $(push!($kind $kept $(of $record)?);)*
        }

        $(recorded!($kind $kept $(of $record)?);)*

        /// Calls the visitor for each kind, stopping at the first error.
        pub(crate) fn visit_kinds<V: Visitor>(visitor: &V) -> Result<(), V::Error> {
            $(visitor.visit::<<$kept as Words>::Record>()?;)*
            Ok(())
        }
    };
}

/// Defines the method that adds a record of a kind that is kept unchanged.
macro_rules! push {
    ($kind:ident $kept:ident) => {
        #[doc = concat!("Takes in a `", stringify!($kind), "` record.")]
        #[inline(always)]
        pub fn $kind(&mut self, record: $kept) {
            self.$kind.push(&mut self.supply, &record);
        }
    };
    ($kind:ident $kept:ident of $record:ident) => {};
}

macro_rules! recorded {
    ($kind:ident $record:ident) => {
        recorded!($kind $record of $record);
    };
    ($kind:ident $kept:ident of $record:ident) => {
        impl Recorded for $record {
            type Kept = $kept;
            fn log(recorder: &Recorder) -> &Log<$kept> {
                &recorder.$kind
            }
        }
    };
}

kinds! {
    /// Layer crossings.
    io: Passage of Crossing,
    /// Every PDU.
    pdu: Pdu,
    /// The TCP connections of sessions.
    connection: Connection,
    /// TCP_INFO samples and events.
    tcp: Tcp,
    /// Kernel timestamps of socket data.
    stamp: Stamp,
    /// Every packet at the observation points.
    packet: Packet,
    /// Path samples.
    path: Path,
    /// Samples of programs' threads.
    thread: Thread,
    /// Requests to attached disks.
    request: Request,
}

impl Recorder {
    /// Minimum memory of a recorder that keeps every kind: one block for each.
    pub const MIN_BYTES: usize = Kinds::COUNT * BLOCK_BYTES;

    /// A recorder that keeps nothing.
    #[must_use]
    pub fn off() -> Self {
        Recorder::new(Kinds::NONE, 0)
    }

    /// The I/Os whose layer crossings and PDUs are kept.
    #[inline(always)]
    #[must_use]
    pub fn sample(&self) -> Sample {
        self.sample
    }

    /// Whether the crossings of the I/O with that tag are kept.
    #[inline(always)]
    #[must_use]
    pub fn keeps_io(&self, task: TaskTag) -> bool {
        self.io.is_kept() && self.sample.has(task)
    }

    /// Whether a PDU with that tag and opcode is kept.
    #[inline(always)]
    #[must_use]
    pub fn keeps_pdu(&self, task: TaskTag, opcode: u8) -> bool {
        self.pdu.is_kept() && self.sample.has_pdu(task, opcode)
    }

    /// The ID of `name` in this recorder. Names are never freed: use them for things that a plan lists, not for what a
    /// peer sends.
    ///
    /// # Panics
    /// If `name` is new and 65,535 names are in use.
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

    /// The name with that ID.
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
        if self.keeps_io(task) {
            self.record_crossing(time, session, connection, task, layer, direction);
        }
    }

    /// It has many callers. Arguments are passed in registers (see `log::words::Row`).
    #[inline(never)]
    fn record_crossing(
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
        const IOS: u64 = 300_000;
        for ns in 0..IOS {
            let (session, task) = (SessionId(1), TaskTag(ns as u32));
            for layer in [Layer::App, Layer::Scsi, Layer::Queue] {
                let at = Instant::from_ns(ns);
                recorder.crossing(at, session, ConnectionId(0), task, layer, Direction::Enter);
            }
        }
        let kept = recorder.io.crossings().count() as u64;
        assert!(kept >= 2 * BLOCK_BYTES as u64 / 24, "{kept} in two blocks");
        // The last passage, which may still grow, is kept outside the blocks.
        let in_order = (0..IOS)
            .flat_map(|ns| [ns; 3])
            .take(kept as usize - 3)
            .chain([IOS - 1; 3]);
        assert!(recorder.io.crossings().map(|c| c.time.ns()).eq(in_order));
        assert_eq!(recorder.io.dropped(), 3 * IOS - kept);
    }

    #[test]
    fn a_budget_bounds_all_that_share_it() {
        let budget = Budget::of(3 * BLOCK_BYTES);
        let mut recorders = [(); 2].map(|()| Recorder::within(Kinds::ALL, &budget));
        for ns in 0..300_000 {
            for recorder in &mut recorders {
                cross(recorder, ns);
            }
        }
        // Outside the blocks, each keeps the last one, which may still grow. The first record of a block takes a few
        // bytes more.
        let [more, less] = recorders.map(|recorder| recorder.io.len() - 1);
        assert!(more.abs_diff(2 * less) <= 2, "{more} and {less}");
        assert!(more < 299_999);
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
