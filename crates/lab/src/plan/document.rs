//! The tables of a plan in their written form, with defaults.

mod capture;
mod case;
mod control;
mod effects;
mod paper;
mod stream;
mod topology;

use std::net::Ipv4Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wansan_mistake::Mistake;
use wansan_san::settings::{
    AckSettings, LoadSettings, NegotiationSettings, RecoverySettings, ScheduleSettings,
    SendingSettings, WindowSettings,
};
use wansan_san::store::LunSpec;
use wansan_settings::{record, settings, usual};

use super::quantity::{Exactly, QueueBound, Share, Size, Span};

pub use capture::CaptureWish;
pub use case::CaseTable;
pub use control::{ControlTable, Count};
pub use effects::{
    EffectsTable, Jitter, JitterTable, LinkRate, Loss, LossKind, LossTable, Queue, QueueTable,
    RateTable, ReorderTable, TextOr,
};
pub use paper::{KnownTable, PaperTable};
pub use stream::{RelayTable, StreamTable};
pub use topology::{RouteTable, RouterTable, RoutingBy, RoutingTable};

settings! {
    /// A plan as written.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Document {
        /// What the experiment is about, for tables and reports
        pub title: String;
        /// Number of runs of the whole sweep
        pub repeat: u32 = 1, in 1..=1000, "N";
        /// Seed of every pseudo-random choice, such as losses and the blocks to read
        pub seed: u32 = 0, "N";
        /// Whether to run the sweep again with the advice of the finding
        pub apply_advice: bool = false;
        /// Changes during the run: `at 5s upper.delay = 32ms`
        pub timeline: Vec<String> = Vec::new(), "statements";
        /// Where the experiment runs
        pub world: WorldTable = usual(), of WorldTable;
        /// The hosts
        pub host: Vec<HostTable>, of HostTable;
        /// The routers
        pub router: Vec<RouterTable> = Vec::new(), of RouterTable;
        /// The paths between them: links in both directions, shared by all the hosts and routers at their
        /// ends. A path without effects and with one node at each end is a wire, which bypasses
        /// the emulator
        pub path: Vec<PathTable>, of PathTable;
        /// Routes through the routers; earlier ones have priority
        pub route: Vec<RouteTable> = Vec::new(), of RouteTable;
        /// How hosts and routers assign packets to routes
        pub routing: RoutingTable = usual(), of RoutingTable;
        /// The target; required with initiators
        pub target: Option<TargetTable>, of TargetTable;
        /// The initiators, one on each host of that name
        pub initiator: Vec<InitiatorTable> = Vec::new(), of InitiatorTable;
        /// The relays: `wansan relay` on a host. Initiators and streams select one by name
        /// (`through`); an unused relay is not started
        pub relay: Vec<RelayTable> = Vec::new(), of RelayTable;
        /// The measured streams: `wansan stream send` on one host, `wansan stream receive` on
        /// another
        pub stream: Vec<StreamTable> = Vec::new(), of StreamTable;
        /// What both ends of every session offer in negotiation (RFC 7143 §13)
        pub session: SessionTable = usual(), of SessionTable;
        /// TCP on every host; see tcp(7)
        pub tcp: TcpTable = usual(), of TcpTable;
        /// CPU cost of programs on simulated hosts; none by default. Other worlds have real CPUs
        pub processors: Option<ProcessorsTable>, of ProcessorsTable;
        /// The load of each initiator, and the duration of streams, which use only its `time` and
        /// `warmup`
        pub workload: WorkloadTable, of WorkloadTable;
        /// What to record
        pub trace: TraceTable = usual(), of TraceTable;
        /// Named sets of values; the sweep's axis `case` selects among them
        pub case: Vec<CaseTable> = Vec::new(), of CaseTable;
        /// Dotted parameters, each with the list of its values
        pub sweep: toml::Table = toml::Table::new();
        /// Dotted parameters that the quick form overrides; `sweep.NAME` replaces a list
        pub quick: toml::Table = toml::Table::new();
        /// The paper that the plan reproduces
        pub paper: Option<PaperTable>, of PaperTable;
        /// Expected results
        pub expect: Vec<ExpectTable> = Vec::new(), of ExpectTable;
    }
}

settings! {
    /// `[world]`: where the experiment runs.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct WorldTable {
        /// The kind of world: network namespaces on this computer, with its kernel's TCP (`netns`), simulated
        /// hosts with the TCP of Linux 6.18, in virtual time (`sim`), or real computers reached by `ssh`,
        /// over the real paths between them (`hosts`)
        pub kind: WorldKind = WorldKind::Netns;
        /// What emulates the paths: wansan's own emulator, which supports every effect on any kernel, or the
        /// kernel's sch_netem, which supports some
        pub emulator: EmulatorKind = EmulatorKind::User;
        /// Longest IP packet on every link
        pub mtu: Size = Size(1500), in Size(576)..=Size(9000), "BYTES";
    }
}

/// Kinds of worlds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorldKind {
    /// Network namespaces.
    Netns,
    /// Simulated hosts.
    Sim,
    /// Real computers.
    Hosts,
}

impl WorldKind {
    /// The name in plans and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            WorldKind::Netns => "netns",
            WorldKind::Sim => "sim",
            WorldKind::Hosts => "hosts",
        }
    }
}

/// The emulator of a world's paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EmulatorKind {
    /// [`crate::emulator`], which supports every plan on any kernel.
    #[default]
    User,
    /// The kernel's own, sch_netem, which supports some plans; see [`crate::netem`].
    Netem,
}

impl EmulatorKind {
    /// The name in plans and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            EmulatorKind::User => "user",
            EmulatorKind::Netem => "netem",
        }
    }
}

settings! {
    /// `[[host]]`: one host, or several alike.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct HostTable {
        /// Its name: lower-case letters, digits and hyphens
        pub name: String;
        /// Number of copies. Several are called NAME-1, NAME-2 and so on, and NAME means all of
        /// them
        pub count: u32 = 1, in 1..=250, "N";
        /// For the world `hosts`: the destination for `ssh`, a name in its configuration or USER@HOST; by default
        /// the host's name
        pub ssh: Option<String>, "DESTINATION";
        /// Its IPv4 address for the other hosts, and the only one that its programs listen on; required in the
        /// world `hosts`
        pub address: Option<Ipv4Addr>, "ADDRESS";
    }
}

settings! {
    /// `[[path]]`: a link in both directions, shared by all the hosts and routers at its ends.
    #[derive(Debug, Clone, PartialEq)]
    pub struct PathTable {
        /// Its name in records, in files and in parameters (`path.NAME.delay`): lower-case letters, digits and
        /// hyphens
        pub name: String = "wan".to_owned();
        /// The hosts or routers at its two ends
        pub between: Exactly<String, 2>, "names";
        /// For the world `hosts`: the host between the ends that emulates the path; by default the path is the
        /// real network. Other worlds ignore it
        pub router: Option<String>;
        /// One-way delay, to 60 s. Even `0ms` makes it an emulated path
        pub delay: Option<Span>, "TIME";
        /// Delay variation: a time, or a table ([emulator.md](../internals/emulator.md))
        pub jitter: Option<Jitter>, "TIME or table";
        /// Rate of the link in each direction; by default unlimited, in a simulated world 10 Gbit/s
        pub rate: Option<LinkRate>, "RATE or table";
        /// The queue in front of the link
        pub queue: Queue = TextOr::Text(QueueBound::Bytes(1 << 20)), "BYTES, packets or table";
        /// Packet loss in each direction
        pub loss: Loss = TextOr::Text(Share(0.0)), "percentage or table";
        /// Reordering: packets that are held back so that others overtake them
        pub reorder: Option<ReorderTable>, of ReorderTable;
        /// Share of packets that are duplicated
        pub duplicate: Option<Share>, "percentage";
        /// Share of packets with a flipped bit
        pub corrupt: Option<Share>, "percentage";
        /// Share of ECN-capable packets that are marked CE
        pub mark: Option<Share>, "percentage";
        /// Layer 2 overhead per packet in addition to the 14-byte Ethernet header
        pub overhead: Option<Size>, "BYTES";
        /// Whether to write its packets to NAME.pcapng in the cell's folder, or the elements at which to write
        /// them to NAME.ELEMENT.pcapng; either makes it an emulated path
        pub capture: CaptureWish = CaptureWish::default(), "true, false or list of elements";
        /// Overrides for the direction from the first of `between` to the second
        pub forward: Option<EffectsTable>, of EffectsTable;
        /// Overrides for the direction from the second of `between` to the first
        pub back: Option<EffectsTable>, of EffectsTable;
    }
}

impl PathTable {
    /// Whether the plan sets any effect on the path's packets.
    #[must_use]
    pub fn has_effect(&self) -> bool {
        self.first_effect().is_some()
    }

    /// The first key that sets an effect, such as `forward.delay`; none for a path without effects.
    #[must_use]
    pub fn first_effect(&self) -> Option<String> {
        let one_way = |side: &str, table: &Option<EffectsTable>| {
            let key = table.as_ref()?.first_effect()?;
            Some(format!("{side}.{key}"))
        };
        let both_ways = self.effects().first_effect().map(str::to_owned);
        let captured = || self.capture.is_any().then(|| "capture".to_owned());
        both_ways
            .or_else(|| one_way("forward", &self.forward))
            .or_else(|| one_way("back", &self.back))
            .or_else(captured)
    }

    /// The effects in both directions, unless a direction overrides them.
    #[must_use]
    pub fn effects(&self) -> EffectsTable {
        EffectsTable {
            delay: self.delay,
            jitter: self.jitter.clone(),
            rate: self.rate.clone(),
            queue: Some(self.queue.clone()),
            loss: Some(self.loss.clone()),
            reorder: self.reorder,
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            mark: self.mark,
            overhead: self.overhead,
        }
    }
}

settings! {
    /// `[target]`: the target.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TargetTable {
        /// The host that it runs on
        pub host: String;
        /// Its iSCSI name (RFC 7143 §4.2.7)
        pub name: String = "iqn.2026-11.net.wansan:target".to_owned();
        /// Its logical units, in the syntax of `wansan target --lun`. The load uses LUN 0
        pub luns: Vec<LunSpec>;
        with window: WindowSettings;
        with sending: SendingSettings;
    }
}

settings! {
    /// `[[initiator]]`: one initiator on each host of that name.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct InitiatorTable {
        /// The host, or hosts
        pub host: String;
        /// Routes of its session's connections: `[[route]]`s by name, or `[[path]]`s that join its host and
        /// the target's. May be omitted if there is only one
        pub routes: Vec<String> = Vec::new();
        /// Connections of the session, assigned to the routes in turn; one per route by default
        pub connections: Option<u32>, in 1..=InitiatorTable::MAX_CONNECTIONS;
        /// The `[[relay]]` that its session goes through
        pub through: Option<String>;
        with schedule: ScheduleSettings;
        with acks: AckSettings;
    }
}

impl InitiatorTable {
    /// Most connections per session in a plan.
    pub(super) const MAX_CONNECTIONS: u32 = 256;
}

settings! {
    /// `[session]`: what both ends of every session negotiate for (RFC 7143 §13).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SessionTable {
        with negotiation: NegotiationSettings;
        with recovery: RecoverySettings;
    }
}

settings! {
    /// `[tcp]`: TCP on every host; see tcp(7).
    #[derive(Debug, Clone, PartialEq)]
    pub struct TcpTable {
        /// Congestion control of every connection
        pub congestion_control: String = "cubic".to_owned();
        /// Parameters to load it with
        pub control: ControlTable = usual(), of ControlTable;
        // Linux's own least and first sizes; the greatest holds the BDP of 10 Gbit/s × 50 ms.
        /// Receive buffer: minimum, default and maximum, each 1 B to 2 GiB − 1 B
        pub rmem: Exactly<Size, 3> = Exactly([Size(4096), Size(131_072), Size(64 << 20)]),
            "BYTES, BYTES, BYTES";
        /// Send buffer: the same
        pub wmem: Exactly<Size, 3> = Exactly([Size(4096), Size(16_384), Size(64 << 20)]),
            "BYTES, BYTES, BYTES";
        /// Whether ECN is requested and granted (RFC 3168)
        pub ecn: bool = false;
    }
}

settings! {
    /// `[processors]`: the CPUs of simulated hosts, and the CPU cost of programs. Each program has one thread,
    /// a target one per initiator. The defaults are those of `wansan target` on a virtual machine
    /// ([performance.md](../internals/performance.md))
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ProcessorsTable {
        /// CPU cores of each host
        pub cores: u32 = 2, in 1..=1024, "N";
        /// CPU time of one read or write call on a connection, including TCP
        pub call: Span = Span(Duration::from_micros(8)), in ProcessorsTable::COST;
        /// CPU time per PDU, read or written
        pub pdu: Span = Span(Duration::from_nanos(250)), in ProcessorsTable::COST;
        /// CPU time per KiB, read or written
        pub kib: Span = Span(Duration::from_nanos(225)), in ProcessorsTable::COST;
    }
}

impl ProcessorsTable {
    const COST: std::ops::RangeInclusive<Span> =
        Span(Duration::ZERO)..=Span(Duration::from_millis(100));
}

settings! {
    /// `[workload]`: the load of each initiator. Streams use only its `time` and `warmup`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct WorkloadTable {
        /// Duration of the measurement
        pub time: Span, in Span(Duration::from_millis(100))..=Span(Duration::from_secs(3600));
        /// Warm-up, excluded from results
        pub warmup: Span = Span(Duration::from_millis(500)),
            in Span(Duration::ZERO)..=Span(Duration::from_secs(3600));
        with load: LoadSettings, but parallel = 1;
    }
}

settings! {
    /// `[trace]`: what is recorded.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TraceTable {
        /// The kinds of records
        pub kinds: Vec<RecordKind> = vec![
            RecordKind::Io,
            RecordKind::Pdu,
            RecordKind::Tcp,
            RecordKind::Packet,
            RecordKind::Path,
            RecordKind::Thread,
        ];
        /// Memory for records in each process, and in a simulated world per cell; further records are dropped
        /// and counted
        pub memory: Size = usual::<record::RecordSettings>().memory,
            in record::RecordSettings::MEMORY.0..=record::RecordSettings::MEMORY.1, "BYTES";
    }
}

/// Kinds of record, as in a run folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordKind {
    /// Layer crossings.
    Io,
    /// PDUs.
    Pdu,
    /// The kernel's view of each connection.
    Tcp,
    /// The kernel's time stamps of data through the sockets of initiators and target.
    Stamp,
    /// Every packet in the emulator.
    Packet,
    /// Samples of the emulated paths.
    Path,
    /// Samples of all programs' threads.
    Thread,
}

impl RecordKind {
    /// The name in plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RecordKind::Io => "io",
            RecordKind::Pdu => "pdu",
            RecordKind::Tcp => "tcp",
            RecordKind::Stamp => "stamp",
            RecordKind::Packet => "packet",
            RecordKind::Path => "path",
            RecordKind::Thread => "thread",
        }
    }

    /// The kind's name in initiators and targets; `None` for kinds that the lab records.
    #[must_use]
    pub const fn of_programs(self) -> Option<record::RecordKind> {
        match self {
            RecordKind::Io => Some(record::RecordKind::Io),
            RecordKind::Pdu => Some(record::RecordKind::Pdu),
            RecordKind::Tcp => Some(record::RecordKind::Tcp),
            RecordKind::Stamp => Some(record::RecordKind::Stamp),
            RecordKind::Packet | RecordKind::Path | RecordKind::Thread => None,
        }
    }
}

settings! {
    /// `[[expect]]`: an expected value of a metric.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ExpectTable {
        /// Dotted name in results.json; `cells.NAME` is the metric of each cell
        pub metric: String;
        /// The cells to check: those with these parameters; all by default
        pub r#where: toml::Table = toml::Table::new();
        /// Divides the metric by its mean over the cells with these parameters
        pub relative_to: Option<toml::Table>;
        /// Whether each repeat of a cell must meet it, or their median
        pub repeats: Repeats = Repeats::Each;
        /// The exact value
        pub equals: Option<toml::Value>, "value";
        /// The minimum, inclusive
        pub at_least: Option<toml::Value>, "value";
        /// The maximum, inclusive
        pub at_most: Option<toml::Value>, "value";
    }
}

/// Which repeats of a cell an expectation applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Repeats {
    /// Each individually.
    #[default]
    Each,
    /// Their median, which a single disturbed repeat does not affect.
    Median,
}

/// Parses a plan's text; reports the line of a mistake.
pub(super) fn from_text(text: &str) -> Result<Document, Mistake> {
    wansan_mistake::read(text, THE_PLAN)
}

/// The name of a plan in mistakes.
const THE_PLAN: &str = "the plan";

/// A plan as a table with all defaults, in which parameters can be set.
pub(super) fn to_table(document: &Document) -> Result<toml::Table, Mistake> {
    toml::Table::try_from(document).map_err(|error| Mistake::new(error.to_string()))
}

/// Parses a plan from a table with parameters set.
pub(super) fn from_table(table: &toml::Table) -> Result<Document, Mistake> {
    serde_path_to_error::deserialize(table.clone())
        .map_err(|error| Mistake::from_toml(error.inner(), error.path(), "", THE_PLAN))
}

impl Document {
    /// The plan with all defaults, as TOML.
    pub(crate) fn to_toml(&self) -> String {
        toml::to_string(self).expect("it came from TOML")
    }
}
