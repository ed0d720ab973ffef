//! The tables of a plan, as typed, with their defaults.

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
        /// How often the whole sweep is run
        pub repeat: u32 = 1, in 1..=1000, "N";
        /// Where every pseudo-random choice begins: losses, and the blocks that are read
        pub seed: u32 = 0, "N";
        /// Whether the sweep is run once more with what the finding advises
        pub apply_advice: bool = false;
        /// What is changed while it runs: `at 5s upper.delay = 32ms`
        pub timeline: Vec<String> = Vec::new(), "statements";
        /// Where the experiment runs
        pub world: WorldTable = usual(), of WorldTable;
        /// The hosts
        pub host: Vec<HostTable>, of HostTable;
        /// The routers
        pub router: Vec<RouterTable> = Vec::new(), of RouterTable;
        /// The paths between them: links in both directions, shared by all the hosts and routers at their
        /// ends. Without any effect, and with one node at each end, one is a wire, which the emulator
        /// never sees
        pub path: Vec<PathTable>, of PathTable;
        /// The ways through the routers; those written first have priority
        pub route: Vec<RouteTable> = Vec::new(), of RouteTable;
        /// How they are distinguished
        pub routing: RoutingTable = usual(), of RoutingTable;
        /// The target, which initiators need
        pub target: Option<TargetTable>, of TargetTable;
        /// The initiators, one on each host of that name
        pub initiator: Vec<InitiatorTable> = Vec::new(), of InitiatorTable;
        /// The relays: `wansan relay` on a host. What goes through one says so by its name (`through`);
        /// one that nothing goes through is not started
        pub relay: Vec<RelayTable> = Vec::new(), of RelayTable;
        /// The streams that are measured: `wansan stream send` on one host, `wansan stream receive` on
        /// another
        pub stream: Vec<StreamTable> = Vec::new(), of StreamTable;
        /// What both ends of every session negotiate for (RFC 7143 §13)
        pub session: SessionTable = usual(), of SessionTable;
        /// TCP on every host; see tcp(7)
        pub tcp: TcpTable = usual(), of TcpTable;
        /// What programs take of simulated hosts' processors; nothing when it is left out. Other worlds have
        /// processors of their own
        pub processors: Option<ProcessorsTable>, of ProcessorsTable;
        /// What each initiator does, and how long streams are measured; these have its `time` and `warmup`
        /// alone
        pub workload: WorkloadTable, of WorkloadTable;
        /// What is recorded
        pub trace: TraceTable = usual(), of TraceTable;
        /// Named sets of values that the sweep's axis `case` goes through
        pub case: Vec<CaseTable> = Vec::new(), of CaseTable;
        /// Dotted parameters and the values that they take
        pub sweep: toml::Table = toml::Table::new();
        /// Dotted parameters that are set instead in the quick form; `sweep.NAME` replaces a list
        pub quick: toml::Table = toml::Table::new();
        /// The paper whose experiment this is
        pub paper: Option<PaperTable>, of PaperTable;
        /// What the results should be like
        pub expect: Vec<ExpectTable> = Vec::new(), of ExpectTable;
    }
}

settings! {
    /// `[world]`: where the experiment runs.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct WorldTable {
        /// The kind of world: network namespaces on this computer, with its own kernel's TCP (`netns`),
        /// simulated hosts with TCP as Linux 6.18 has it, in virtual time (`sim`), or real computers that
        /// `ssh` reaches, with the paths that there are between them (`hosts`)
        pub kind: WorldKind = WorldKind::Netns;
        /// What carries packets over its paths: an emulator that does all that a plan can say, on any
        /// kernel, or the kernel's own sch_netem, which does some of it
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

/// What carries packets over a world's paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EmulatorKind {
    /// [`crate::emulator`], which does all that a plan can say, on any kernel.
    #[default]
    User,
    /// The kernel's own, sch_netem, which does some of it; see [`crate::netem`].
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
        /// Its name: small letters, digits and hyphens
        pub name: String;
        /// How many there are. More than one are called NAME-1, NAME-2 and so on, and NAME means all of
        /// them
        pub count: u32 = 1, in 1..=250, "N";
        /// What `ssh` calls the computer, where the world is one of `hosts`: a name of its configuration, or
        /// USER@HOST; without it, the host's name
        pub ssh: Option<String>, "DESTINATION";
        /// The IPv4 address at which the other hosts reach it, and the only one that its programs listen at;
        /// a world of `hosts` needs it
        pub address: Option<Ipv4Addr>, "ADDRESS";
    }
}

settings! {
    /// `[[path]]`: a link in both directions, shared by all the hosts and routers at its ends.
    #[derive(Debug, Clone, PartialEq)]
    pub struct PathTable {
        /// Its name in records, in files and in parameters (`path.NAME.delay`): small letters, digits and
        /// hyphens
        pub name: String = "wan".to_owned();
        /// The hosts or routers at its two ends
        pub between: Exactly<String, 2>, "names";
        /// The host that emulates it in a world of `hosts`, which the packets between its ends go through; without
        /// it, the path is there as it is. Other worlds need none
        pub router: Option<String>;
        /// One-way delay, to 60 s. Even `0ms` makes it an emulated path
        pub delay: Option<Span>, "TIME";
        /// Its variation: a time, or a table ([emulator.md](../internals/emulator.md))
        pub jitter: Option<Jitter>, "TIME or table";
        /// What the link carries in each direction; unlimited when it is left out
        pub rate: Option<LinkRate>, "RATE or table";
        /// The queue in front of the link
        pub queue: Queue = TextOr::Text(QueueBound::Bytes(1 << 20)), "BYTES, packets or table";
        /// Which packets are lost, in each direction
        pub loss: Loss = TextOr::Text(Share(0.0)), "percentage or table";
        /// Which packets are held back so that others overtake them
        pub reorder: Option<ReorderTable>, of ReorderTable;
        /// Share of the packets that come twice
        pub duplicate: Option<Share>, "percentage";
        /// Share of the packets that have a bit spoiled
        pub corrupt: Option<Share>, "percentage";
        /// Share of the ECN-capable packets that are marked
        pub mark: Option<Share>, "percentage";
        /// Bytes of layer 2 that count for each packet beyond the 14 of the Ethernet header
        pub overhead: Option<Size>, "BYTES";
        /// Whether its packets are written to NAME.pcapng in the cell's folder, or at which of its
        /// elements to NAME.ELEMENT.pcapng; either makes it an emulated path
        pub capture: CaptureWish = CaptureWish::default(), "true, false or list of elements";
        /// What is different from the first of `between` to the second
        pub forward: Option<EffectsTable>, of EffectsTable;
        /// What is different from the second of `between` to the first
        pub back: Option<EffectsTable>, of EffectsTable;
    }
}

impl PathTable {
    /// Whether the plan says anything of what happens to packets on the path.
    #[must_use]
    pub fn has_effect(&self) -> bool {
        self.first_effect().is_some()
    }

    /// The first key that says what happens to packets, such as `forward.delay`; none of a path that is as it
    /// is.
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

    /// What happens to packets where no direction says otherwise.
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
        /// Its logical units, each as `wansan target --lun` takes it. LUN 0 is the one that is used
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
        /// What the connections of its session go over: `[[route]]`s by name, or `[[path]]`s that join
        /// its host and the target's. When it is left out, the only one
        pub routes: Vec<String> = Vec::new();
        /// Connections of the session, given out to the routes in turn; one for each route when it is
        /// left out
        pub connections: Option<u32>, in 1..=InitiatorTable::MAX_CONNECTIONS;
        /// The `[[relay]]` that its session goes through
        pub through: Option<String>;
        with schedule: ScheduleSettings;
        with acks: AckSettings;
    }
}

impl InitiatorTable {
    /// The most connections that a session can have in a plan.
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
        /// What that is loaded with
        pub control: ControlTable = usual(), of ControlTable;
        // Linux's own least and first sizes; the greatest holds the BDP of 10 Gbit/s × 50 ms.
        /// Receive buffer: least, first and greatest, each 1 B to 2 GiB − 1 B
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
    /// `[processors]`: the processors of simulated hosts, and what programs take of them. Each program is one thread,
    /// a target one for each initiator. The usual values are those of `wansan target` on a virtual machine
    /// ([performance.md](../internals/performance.md))
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ProcessorsTable {
        /// Processors of each host
        pub cores: u32 = 2, in 1..=1024, "N";
        /// What a call that reads from a connection or writes to it takes, TCP's part included
        pub call: Span = Span(Duration::from_micros(8)), in ProcessorsTable::COST;
        /// What a PDU takes, read or written
        pub pdu: Span = Span(Duration::from_nanos(250)), in ProcessorsTable::COST;
        /// What 1 KiB takes, read or written
        pub kib: Span = Span(Duration::from_nanos(225)), in ProcessorsTable::COST;
    }
}

impl ProcessorsTable {
    const COST: std::ops::RangeInclusive<Span> =
        Span(Duration::ZERO)..=Span(Duration::from_millis(100));
}

settings! {
    /// `[workload]`: what each initiator does. Streams have its `time` and `warmup` alone.
    #[derive(Debug, Clone, PartialEq)]
    pub struct WorkloadTable {
        /// How long is measured
        pub time: Span, in Span(Duration::from_millis(100))..=Span(Duration::from_secs(3600));
        /// How long it runs before that
        pub warmup: Span = Span(Duration::from_millis(500)),
            in Span(Duration::ZERO)..=Span(Duration::from_secs(3600));
        with load: LoadSettings, but parallel = 1;
    }
}

settings! {
    /// `[trace]`: what is recorded.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TraceTable {
        /// The kinds of record
        pub kinds: Vec<RecordKind> = vec![
            RecordKind::Io,
            RecordKind::Pdu,
            RecordKind::Tcp,
            RecordKind::Packet,
            RecordKind::Path,
            RecordKind::Thread,
        ];
        /// Memory for records in each process, and in a simulated world of each cell; what comes after that is
        /// counted as dropped
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
    /// The kernel's times of what goes through the sockets of initiators and target.
    Stamp,
    /// Every packet in the emulator.
    Packet,
    /// The emulated paths, sampled.
    Path,
    /// The threads of all programs, sampled.
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

    /// As initiators and targets have it; `None` of what the lab records.
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
    /// `[[expect]]`: what a number of the results should be.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ExpectTable {
        /// Dotted way into results.json; `cells.NAME` means that of each cell
        pub metric: String;
        /// Which cells are meant: all, or those with these parameters
        pub r#where: toml::Table = toml::Table::new();
        /// Takes the metric as a ratio to its mean over the cells with these parameters
        pub relative_to: Option<toml::Table>;
        /// Of the repeats of a cell: whether it holds for each of them, or for their median
        pub repeats: Repeats = Repeats::Each;
        /// It is this
        pub equals: Option<toml::Value>, "value";
        /// It is this or more
        pub at_least: Option<toml::Value>, "value";
        /// It is this or less
        pub at_most: Option<toml::Value>, "value";
    }
}

/// Which of a cell's repeats an expectation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Repeats {
    /// Each by itself.
    #[default]
    Each,
    /// Their median: one that was disturbed does not move it.
    Median,
}

/// Reads a plan's text, with the line of a mistake.
pub(super) fn from_text(text: &str) -> Result<Document, Mistake> {
    wansan_mistake::read(text, THE_PLAN)
}

/// What a plan is called in a mistake.
const THE_PLAN: &str = "the plan";

/// A plan as a table with every default in it: what parameters are set in.
pub(super) fn to_table(document: &Document) -> Result<toml::Table, Mistake> {
    toml::Table::try_from(document).map_err(|error| Mistake::new(error.to_string()))
}

/// Reads a plan from a table in which parameters were set.
pub(super) fn from_table(table: &toml::Table) -> Result<Document, Mistake> {
    serde_path_to_error::deserialize(table.clone())
        .map_err(|error| Mistake::from_toml(error.inner(), error.path(), "", THE_PLAN))
}

impl Document {
    /// The plan with every default in it, as TOML.
    pub(crate) fn to_toml(&self) -> String {
        toml::to_string(self).expect("it came from TOML")
    }
}
