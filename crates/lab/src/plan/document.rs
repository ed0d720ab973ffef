//! The tables of a plan, as typed, with their defaults.

mod capture;
mod case;
mod control;
mod effects;
mod paper;
mod stream;
mod topology;

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use wansan_san::store::LunSpec;

use super::quantity::{Iops, QueueBound, Share, Size, Span, exactly, whole};
use wansan_mistake::Mistake;

pub use capture::CaptureWish;
pub use case::CaseTable;
pub use control::{ControlTable, Count};
pub use effects::{
    EffectsTable, Jitter, JitterTable, LinkRate, Loss, LossKind, LossTable, Queue, QueueTable,
    RateTable, ReorderTable, TextOr,
};
pub use paper::{KnownTable, PaperTable};
pub use stream::{RelaySideTable, RelayTable, StreamTable};
pub use topology::{RouteTable, RouterTable, RoutingBy, RoutingTable};

/// A plan as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// What the experiment is about, for tables and reports.
    pub title: String,
    /// How often the whole sweep is run, 1 to 1000.
    #[serde(default = "one", deserialize_with = "whole::<1, 1000, _>")]
    pub repeat: u32,
    /// Where every pseudo-random choice begins: losses, and the blocks that are read.
    #[serde(default)]
    pub seed: u32,
    /// Whether the sweep is run once more with what the finding advises.
    #[serde(default)]
    pub apply_advice: bool,
    /// What is changed while it runs: `at 5s upper.delay = 32ms`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<String>,
    /// Where the experiment runs.
    #[serde(default)]
    pub world: WorldTable,
    /// The hosts.
    pub host: Vec<HostTable>,
    /// The routers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub router: Vec<RouterTable>,
    /// The paths between them.
    pub path: Vec<PathTable>,
    /// The ways through the routers; those written first have priority.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub route: Vec<RouteTable>,
    /// How they are told apart.
    #[serde(default)]
    pub routing: RoutingTable,
    /// The target, which initiators need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetTable>,
    /// The initiators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initiator: Vec<InitiatorTable>,
    /// The relays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relay: Vec<RelayTable>,
    /// The streams that are measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stream: Vec<StreamTable>,
    /// What both ends of every session negotiate for.
    #[serde(default)]
    pub session: SessionTable,
    /// TCP on every host.
    #[serde(default)]
    pub tcp: TcpTable,
    /// What each initiator does, and how long streams are measured.
    pub workload: WorkloadTable,
    /// What is recorded.
    #[serde(default)]
    pub trace: TraceTable,
    /// Named sets of values that the sweep's axis `case` goes through.
    #[serde(default)]
    pub case: Vec<CaseTable>,
    /// Dotted parameters and the values that they take.
    #[serde(default)]
    pub sweep: toml::Table,
    /// Dotted parameters that are set instead in the quick form; `sweep.NAME` replaces a list.
    #[serde(default)]
    pub quick: toml::Table,
    /// The paper whose experiment this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<PaperTable>,
    /// What the results should be like.
    #[serde(default)]
    pub expect: Vec<ExpectTable>,
}

/// `[world]`: where the experiment runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorldTable {
    /// The kind of world.
    pub kind: WorldKind,
    /// What carries packets over its paths.
    pub emulator: EmulatorKind,
    /// Longest IP packet on every link, 576 B to 9000 B.
    pub mtu: Size,
}

/// Kinds of worlds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorldKind {
    /// Network namespaces on this computer, with its own kernel's TCP.
    Netns,
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

/// `[[host]]`: one host, or several alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostTable {
    /// Its name: small letters, digits and hyphens.
    pub name: String,
    /// How many there are, 1 to 250. More than one are called NAME-1, NAME-2 and so on, and NAME
    /// means all of them.
    #[serde(default = "one", deserialize_with = "whole::<1, 250, _>")]
    pub count: u32,
}

/// `[[path]]`: a link in both directions, shared by all the hosts and routers at its ends. Without
/// any effect, and with one node at each end, it is a wire, which the emulator never sees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathTable {
    /// Its name in records, in files and in parameters (`path.NAME.delay`): small letters, digits and
    /// hyphens.
    #[serde(default = "wan")]
    pub name: String,
    /// The hosts or routers at its two ends.
    #[serde(deserialize_with = "exactly")]
    pub between: [String; 2],
    /// One-way delay, to 60 s. Even `0ms` makes it an emulated path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Its variation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Jitter>,
    /// What the link carries in each direction; unlimited when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<LinkRate>,
    /// The queue in front of the link.
    #[serde(default = "queue")]
    pub queue: Queue,
    /// Which packets are lost, in each direction.
    #[serde(default = "lossless")]
    pub loss: Loss,
    /// Which packets are held back so that others overtake them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<ReorderTable>,
    /// Share of the packets that come twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<Share>,
    /// Share of the packets that have a bit spoiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<Share>,
    /// Share of the ECN-capable packets that are marked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Share>,
    /// Bytes of layer 2 that count for each packet beyond the 14 of the Ethernet header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Size>,
    /// Whether its packets are written to NAME.pcapng in the cell's folder, or at which of its elements
    /// to NAME.ELEMENT.pcapng; either makes it an emulated path.
    #[serde(default)]
    pub capture: CaptureWish,
    /// What is different from the first of `between` to the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<EffectsTable>,
    /// What is different from the second of `between` to the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<EffectsTable>,
}

impl PathTable {
    /// Whether the plan says anything of what happens to packets on the path.
    #[must_use]
    pub fn has_effect(&self) -> bool {
        let directions = [&self.forward, &self.back].into_iter().flatten();
        self.capture.is_any()
            || self.effects().has_effect()
            || directions.into_iter().any(EffectsTable::has_effect)
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

/// `[target]`: the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetTable {
    /// The host that it runs on.
    pub host: String,
    /// Its iSCSI name (RFC 7143 §4.2.7).
    #[serde(default = "target_name")]
    pub name: String,
    /// Its logical units, each as `wansan target --lun` takes it. LUN 0 is the one that is used.
    pub luns: Vec<LunSpec>,
    /// How many commands a session may have open (MaxCmdSN − ExpCmdSN + 1), 1 to 65535.
    #[serde(default = "command_window", deserialize_with = "whole::<1, 65535, _>")]
    pub command_window: u32,
    /// Whether Nagle's algorithm holds its short segments back (RFC 1122 §4.2.3.4).
    #[serde(default)]
    pub nagle: bool,
    /// Where the status of a read comes.
    #[serde(default)]
    pub status: StatusPlace,
    /// Whether PDUs that wait go to the socket together.
    #[serde(default = "yes")]
    pub join_sends: bool,
    /// When it acknowledges.
    #[serde(default)]
    pub delayed_ack: DelayedAck,
}

/// Where the status of a read comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StatusPlace {
    /// In its last Data-In (RFC 7143 §11.7.3); at `session.error_recovery_level` 0 only.
    #[default]
    InData,
    /// In a SCSI Response of its own.
    Separate,
}

impl StatusPlace {
    /// As `wansan target --status` takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            StatusPlace::InData => "in-data",
            StatusPlace::Separate => "separate",
        }
    }
}

/// When an end acknowledges what the other one sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DelayedAck {
    /// As its kernel has it (RFC 1122 §4.2.3.2).
    #[default]
    On,
    /// At once.
    Quick,
}

impl DelayedAck {
    /// As `--delayed-ack` takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DelayedAck::On => "on",
            DelayedAck::Quick => "quick",
        }
    }
}

/// `[[initiator]]`: one initiator on each host of that name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InitiatorTable {
    /// The host, or hosts.
    pub host: String,
    /// What the connections of its session go over: `[[route]]`s by name, or `[[path]]`s that join
    /// its host and the target's. The only one that there is when it is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<String>,
    /// Connections of the session, 1 to 256, given out to the routes in turn; one for each route
    /// when it is left out.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some_connections"
    )]
    pub connections: Option<u32>,
    /// Which connection takes the next command.
    #[serde(default)]
    pub schedule: Schedule,
    /// When it acknowledges.
    #[serde(default)]
    pub delayed_ack: DelayedAck,
    /// The `[[relay]]` that its session goes through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
}

/// How commands are shared out among the connections of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// The next in turn.
    RoundRobin,
    /// The one with the fewest commands under way.
    #[default]
    LeastInFlight,
    /// The one with the least data under way.
    LeastBytes,
}

impl Schedule {
    /// As `wansan bench --schedule` takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Schedule::RoundRobin => "round-robin",
            Schedule::LeastInFlight => "least-in-flight",
            Schedule::LeastBytes => "least-bytes",
        }
    }
}

/// `[session]`: what both ends of every session negotiate for (RFC 7143 §13), as the options of
/// `wansan target` and `wansan bench` of the same names take it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionTable {
    /// CRC32C over headers (§13.1).
    pub header_digest: DigestWish,
    /// CRC32C over data (§13.1).
    pub data_digest: DigestWish,
    /// Data-Out only when the target asks for it (§13.10).
    pub initial_r2t: bool,
    /// Data may come along with a write command (§13.11).
    pub immediate_data: bool,
    /// Most data sent unasked with one command (§13.14).
    pub first_burst: Size,
    /// Most data in one sequence (§13.13).
    pub max_burst: Size,
    /// Most data in one PDU (§13.12).
    pub max_recv_data_segment: Size,
    /// R2Ts of one command outstanding at once, 1 to 65535 (§13.17).
    #[serde(deserialize_with = "whole::<1, 65535, _>")]
    pub max_outstanding_r2t: u32,
    /// What is recovered without a new session (§7): nothing (0), lost PDUs (1), or lost PDUs and
    /// connections (2).
    #[serde(deserialize_with = "whole::<0, 2, _>")]
    pub error_recovery_level: u32,
}

/// How much a digest is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DigestWish {
    /// Not at all.
    Never,
    /// When the other end wants it.
    Accept,
    /// Without it there is no session.
    Always,
}

impl DigestWish {
    /// As `--header-digest` takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DigestWish::Never => "never",
            DigestWish::Accept => "accept",
            DigestWish::Always => "always",
        }
    }
}

/// `[tcp]`: TCP on every host; see tcp(7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TcpTable {
    /// Congestion control of every connection.
    pub congestion_control: String,
    /// What that is loaded with.
    pub control: ControlTable,
    /// Receive buffer: least, first and greatest, each 1 B to 2 GiB − 1 B.
    #[serde(deserialize_with = "exactly")]
    pub rmem: [Size; 3],
    /// Send buffer: the same.
    #[serde(deserialize_with = "exactly")]
    pub wmem: [Size; 3],
    /// Whether ECN is asked for and granted (RFC 3168).
    pub ecn: bool,
}

/// `[workload]`: what each initiator does. Streams have its `time` and `warmup` alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadTable {
    /// Read, write, or both.
    #[serde(default)]
    pub op: Op,
    /// In which order.
    #[serde(default = "random")]
    pub pattern: Pattern,
    /// Bytes per I/O.
    #[serde(default = "block")]
    pub block: Size,
    /// I/Os that each initiator keeps in flight, 1 to 65535.
    #[serde(default = "one", deserialize_with = "whole::<1, 65535, _>")]
    pub parallel: u32,
    /// Whether the next `parallel` I/Os are asked for only when all of the last are done, as one
    /// `read()` after the other of a raw device goes.
    #[serde(default)]
    pub batch: bool,
    /// How long is measured, 100 ms to 1 h.
    pub time: Span,
    /// How long it runs before that.
    #[serde(default = "warmup")]
    pub warmup: Span,
    /// Paces each initiator's load; as fast as it goes when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Iops>,
    /// Whether the data is compared with what must be there.
    #[serde(default)]
    pub verify: bool,
}

/// What the I/Os do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Reads.
    #[default]
    Read,
    /// Writes.
    Write,
    /// Both in turn.
    Mix,
}

/// In which order blocks are visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// One after the other.
    Sequential,
    /// Anywhere.
    Random,
}

impl Op {
    /// As `wansan bench --op` takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Mix => "mix",
        }
    }
}

impl Pattern {
    /// As `wansan bench --pattern` takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Pattern::Sequential => "sequential",
            Pattern::Random => "random",
        }
    }
}

/// `[trace]`: what is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TraceTable {
    /// The kinds of record.
    pub kinds: Vec<RecordKind>,
    /// Memory for records in each process; what comes after that is counted as dropped.
    pub memory: Size,
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
    /// Whether initiators and targets record it, and not the lab.
    #[must_use]
    pub const fn is_of_programs(self) -> bool {
        matches!(
            self,
            RecordKind::Io | RecordKind::Pdu | RecordKind::Tcp | RecordKind::Stamp
        )
    }

    /// As `--record-kinds` takes it.
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
}

/// `[[expect]]`: what a number of the results should be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectTable {
    /// Dotted way into results.json; `cells.NAME` means that of each cell.
    pub metric: String,
    /// Which cells are meant: all, or those with these parameters.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub r#where: toml::Table,
    /// Takes the metric as a ratio to its mean over the cells with these parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative_to: Option<toml::Table>,
    /// Of the repeats of a cell: whether it holds for each of them, or for their median.
    #[serde(default, skip_serializing_if = "Repeats::is_each")]
    pub repeats: Repeats,
    /// It is this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<toml::Value>,
    /// It is this or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<toml::Value>,
    /// It is this or less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<toml::Value>,
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

impl Repeats {
    fn is_each(&self) -> bool {
        *self == Repeats::Each
    }
}

impl Default for WorldTable {
    fn default() -> Self {
        WorldTable {
            kind: WorldKind::Netns,
            emulator: EmulatorKind::User,
            mtu: Size(1500),
        }
    }
}

impl Default for SessionTable {
    fn default() -> Self {
        // The programs' own defaults, so that a manifest says what was in force.
        SessionTable {
            header_digest: DigestWish::Accept,
            data_digest: DigestWish::Accept,
            initial_r2t: false,
            immediate_data: true,
            first_burst: Size(256 << 10),
            max_burst: Size(1 << 20),
            max_recv_data_segment: Size(256 << 10),
            max_outstanding_r2t: 16,
            error_recovery_level: 2,
        }
    }
}

impl Default for TcpTable {
    fn default() -> Self {
        // Linux's own least and first sizes; the greatest holds the BDP of 10 Gbit/s × 50 ms.
        TcpTable {
            congestion_control: "cubic".to_owned(),
            control: ControlTable::default(),
            rmem: [Size(4096), Size(131_072), Size(64 << 20)],
            wmem: [Size(4096), Size(16_384), Size(64 << 20)],
            ecn: false,
        }
    }
}

impl Default for TraceTable {
    fn default() -> Self {
        TraceTable {
            kinds: vec![
                RecordKind::Io,
                RecordKind::Pdu,
                RecordKind::Tcp,
                RecordKind::Packet,
                RecordKind::Path,
                RecordKind::Thread,
            ],
            memory: Size(512 << 20),
        }
    }
}

/// The most connections that a session can have in a plan.
pub(super) const MAX_CONNECTIONS: u32 = 256;

fn some_connections<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    whole::<1, MAX_CONNECTIONS, _>(deserializer).map(Some)
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

fn wan() -> String {
    "wan".to_owned()
}

fn queue() -> Queue {
    TextOr::Text(QueueBound::Bytes(1 << 20))
}

fn lossless() -> Loss {
    TextOr::Text(Share(0.0))
}

fn target_name() -> String {
    "iqn.2026-11.net.wansan:target".to_owned()
}

fn command_window() -> u32 {
    1024
}

fn block() -> Size {
    Size(4096)
}

fn random() -> Pattern {
    Pattern::Random
}

fn warmup() -> Span {
    Span(Duration::from_millis(500))
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
