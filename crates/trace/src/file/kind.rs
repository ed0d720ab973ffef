//! The kinds of record file: their names and columns.

use super::column::{Column, Habit, Vocabulary, address, int64, text, uint};
use super::{Kind, Row};
use crate::event::{
    Crossing, Ecn, Packet, Path, Pdu, PduDirection, Role, Seen, Stamp, Tcp, TcpEvent, Thread,
    Verdict,
};
use crate::log::{Log, Words};
use crate::passage::Passage;

use crate::{ConnectionId, Direction, Instant, Layer, NameId, Recorder, SessionId, TaskTag};

use Habit::{Grows, Repeats, Varies};

/// What [`Kind`] needs inside this module: callers cannot add kinds.
pub trait Columns: Copy + 'static {
    /// A record to fill, column by column.
    const BLANK: Self;
    /// What a recorder keeps in memory: one or more records of one moment.
    type Kept: Words;
    /// What a recorder keeps of this kind.
    fn log(recorder: &Recorder) -> &Log<Self::Kept>;
    /// The records in what is kept, in the order in which they happened.
    fn unfold(kept: Self::Kept) -> impl Iterator<Item = Self>;
    /// When it happened.
    fn time(&self) -> Instant;
    /// The id of its path, its ends or its program, for kinds that have one.
    fn name_mut(&mut self) -> Option<&mut NameId> {
        None
    }
    /// The columns in file order, without `host`, which all kinds have.
    fn columns() -> Vec<Column<Self>>;
}

/// Looks a fixed code up again. Codes come from the same list, so they are always in it.
fn pick<V: Copy>(values: &[V], code: u16) -> V {
    values[usize::from(code)]
}

/// The names of all values of a type that lists them, in the order of their codes.
macro_rules! names_of {
    ($type:ident) => {{
        let mut names = [""; $type::ALL.len()];
        let mut code = 0;
        while code < names.len() {
            names[code] = $type::ALL[code].name();
            code += 1;
        }
        names
    }};
}

const LAYERS: [&str; Layer::ALL.len()] = names_of!(Layer);
const EVENTS: [&str; TcpEvent::ALL.len()] = names_of!(TcpEvent);
const ECN: [&str; Ecn::ALL.len()] = names_of!(Ecn);
const SEEN: [&str; Seen::ALL.len()] = names_of!(Seen);

/// Columns that are moments.
macro_rules! moments {
    ($($name:literal $field:ident),* $(,)?) => {
        [$(int64(
            $name,
            Grows,
            |r: &Self| r.$field.ns(),
            |r, v| r.$field = Instant::from_ns(v),
        )),*]
    };
}

/// Columns that are words of the file.
macro_rules! words {
    ($($field:ident),* $(,)?) => {
        [$(text(
            stringify!($field),
            Vocabulary::Word,
            |row: &Row<Self>| row.record.$field.0,
            |row, code| row.record.$field = NameId(code),
        )),*]
    };
}

/// Columns that say when a record was made, and which session and connection it is about.
macro_rules! place {
    () => {{
        let mut columns = Vec::from(moments!("time_ns" time));
        columns.extend([
            int64(
                "session",
                Repeats,
                |r: &Self| r.session.0,
                |r, v| r.session = SessionId(v),
            ),
            uint(
                "connection",
                16,
                Repeats,
                |r| u32::from(r.connection.0),
                |r, v| r.connection = ConnectionId(v as u16),
            ),
        ]);
        columns
    }};
}

/// Kinds whose records stand in memory one by one, and the field that names what they are about.
macro_rules! kept_as_it_is {
    ($log:ident $(, named by $name:ident)?) => {
        type Kept = Self;
        fn log(recorder: &Recorder) -> &Log<Self> {
            &recorder.$log
        }
        fn unfold(kept: Self) -> impl Iterator<Item = Self> {
            std::iter::once(kept)
        }
        fn time(&self) -> Instant {
            self.time
        }
        $(fn name_mut(&mut self) -> Option<&mut NameId> {
            Some(&mut self.$name)
        })?
    };
}

/// Columns that are plain 64-bit fields.
macro_rules! counters {
    ($($field:ident $habit:ident),* $(,)?) => {
        [$(int64(stringify!($field), $habit, |r: &Self| r.$field, |r, v| r.$field = v)),*]
    };
}

/// Columns that are plain unsigned fields of at most 32 bits.
macro_rules! numbers {
    ($($field:ident $type:ty, $habit:ident);* $(;)?) => {
        [$(uint(
            stringify!($field),
            <$type>::BITS as i8,
            $habit,
            |r: &Self| u32::from(r.$field),
            |r, v| r.$field = v as $type,
        )),*]
    };
}

impl Columns for Crossing {
    const BLANK: Self = Crossing {
        time: Instant::ZERO,
        session: SessionId(0),
        task: TaskTag(0),
        connection: ConnectionId(0),
        layer: Layer::App,
        direction: Direction::Enter,
    };
    type Kept = Passage;
    fn log(recorder: &Recorder) -> &Log<Passage> {
        &recorder.io
    }
    fn unfold(kept: Passage) -> impl Iterator<Item = Self> {
        kept.crossings()
    }
    fn time(&self) -> Instant {
        self.time
    }
    fn columns() -> Vec<Column<Self>> {
        let mut columns = place!();
        columns.extend([
            uint(
                "task",
                32,
                Varies,
                |r: &Self| r.task.0,
                |r, v| r.task = TaskTag(v),
            ),
            text(
                "layer",
                Vocabulary::Fixed(&LAYERS),
                |row: &Row<Self>| row.record.layer as u16,
                |row, code| row.record.layer = pick(&Layer::ALL, code),
            ),
            text(
                "direction",
                Vocabulary::Fixed(&["enter", "leave"]),
                |row| row.record.direction as u16,
                |row, code| {
                    row.record.direction = pick(&[Direction::Enter, Direction::Leave], code);
                },
            ),
        ]);
        columns
    }
}

impl Kind for Crossing {
    const NAME: &'static str = "io";
}

impl Columns for Pdu {
    const BLANK: Self = Pdu::BLANK;
    kept_as_it_is!(pdu);
    fn columns() -> Vec<Column<Self>> {
        let mut columns = place!();
        columns.extend([
            text(
                "direction",
                Vocabulary::Fixed(&["sent", "received"]),
                |row: &Row<Self>| row.record.direction as u16,
                |row, code| {
                    let both = [PduDirection::Sent, PduDirection::Received];
                    row.record.direction = pick(&both, code);
                },
            ),
            uint(
                "task",
                32,
                Varies,
                |r: &Self| r.task.0,
                |r, v| r.task = TaskTag(v),
            ),
        ]);
        columns.extend(numbers! {
            opcode u8, Repeats;
            flags u8, Repeats;
            transfer_tag u32, Varies;
            cmd_sn u32, Varies;
            stat_sn u32, Varies;
            exp_cmd_sn u32, Varies;
            max_cmd_sn u32, Varies;
            data_sn u32, Repeats;
            buffer_offset u32, Varies;
            data_bytes u32, Repeats;
        });
        columns.extend(counters! { stream_offset Varies });
        columns
    }
}

impl Kind for Pdu {
    const NAME: &'static str = "pdu";
}

impl Columns for Tcp {
    const BLANK: Self = Tcp::BLANK;
    kept_as_it_is!(tcp, named by ends);
    fn columns() -> Vec<Column<Self>> {
        let mut columns = place!();
        columns.push(text(
            "event",
            Vocabulary::Fixed(&EVENTS),
            |row: &Row<Self>| row.record.event as u16,
            |row, code| row.record.event = pick(&TcpEvent::ALL, code),
        ));
        columns.extend(numbers! {
            congestion_state u8, Repeats;
            cwnd_packets u32, Repeats;
            ssthresh_packets u32, Repeats;
            mss_bytes u32, Repeats;
            in_flight_packets u32, Repeats;
            rwnd_bytes u32, Repeats;
            unsent_bytes u32, Varies;
            retransmits u32, Repeats;
        });
        columns.extend(counters! {
            srtt_ns Varies,
            min_rtt_ns Repeats,
            acked_bytes Varies,
            pacing_bytes_per_s Varies,
            delivery_bytes_per_s Varies,
            busy_ns Varies,
            rwnd_limited_ns Varies,
            sndbuf_limited_ns Varies,
        });
        let added = numbers! {
            delivered_ce u32, Repeats;
            timeouts u32, Repeats;
            unread_bytes u32, Repeats;
            ece_signals u32, Repeats;
        };
        columns.extend(added.map(Column::added));
        let added = [
            text(
                "ecn",
                Vocabulary::Fixed(&ECN),
                |row: &Row<Self>| row.record.ecn as u16,
                |row, code| row.record.ecn = pick(&Ecn::ALL, code),
            ),
            text(
                "ends",
                Vocabulary::Word,
                |row| row.record.ends.0,
                |row, code| row.record.ends = NameId(code),
            ),
            text(
                "seen",
                Vocabulary::Fixed(&SEEN),
                |row| row.record.seen as u16,
                |row, code| row.record.seen = pick(&Seen::ALL, code),
            ),
        ];
        columns.extend(added.map(Column::added));
        columns
    }
}

impl Kind for Tcp {
    const NAME: &'static str = "tcp";
}

impl Columns for Stamp {
    const BLANK: Self = Stamp::BLANK;
    kept_as_it_is!(stamp);
    fn columns() -> Vec<Column<Self>> {
        let mut columns = place!();
        columns.push(text(
            "direction",
            Vocabulary::Fixed(&["sent", "received"]),
            |row: &Row<Self>| row.record.direction as u16,
            |row, code| {
                let both = [PduDirection::Sent, PduDirection::Received];
                row.record.direction = pick(&both, code);
            },
        ));
        columns.extend([
            uint(
                "nagle",
                8,
                Repeats,
                |r: &Self| u32::from(r.nagle),
                |r, v| r.nagle = v != 0,
            ),
            int64(
                "stream_end",
                Grows,
                |r| r.stream_end,
                |r, v| r.stream_end = v,
            ),
            uint("bytes", 32, Repeats, |r| r.bytes, |r, v| r.bytes = v),
        ]);
        columns.extend(moments! {
            "scheduled_ns" scheduled,
            "departed_ns" departed,
            "acknowledged_ns" acknowledged,
            "arrived_ns" arrived,
        });
        columns
    }
}

impl Kind for Stamp {
    const NAME: &'static str = "stamp";
}

impl Columns for Packet {
    const BLANK: Self = Packet::BLANK;
    kept_as_it_is!(packet, named by path);
    fn columns() -> Vec<Column<Self>> {
        let mut columns = Vec::from(moments!("time_ns" time, "departed_ns" departed));
        columns.extend(words!(path));
        columns.extend([
            address("source", |r: &Self| r.source, |r, v| r.source = v),
            address("destination", |r| r.destination, |r, v| r.destination = v),
        ]);
        columns.extend(numbers! {
            seq u32, Varies;
            ack u32, Varies;
            payload_bytes u16, Repeats;
            ip_bytes u16, Repeats;
            window u16, Repeats;
            flags u8, Repeats;
            ecn u8, Repeats;
        });
        columns.push(text(
            "verdict",
            Vocabulary::Fixed(&[
                "delivered",
                "dropped_by_queue",
                "dropped_by_loss",
                "dropped_by_outage",
            ]),
            |row| row.record.verdict as u16,
            |row, code| {
                let all = [
                    Verdict::Delivered,
                    Verdict::DroppedByQueue,
                    Verdict::DroppedByLoss,
                    Verdict::DroppedByOutage,
                ];
                row.record.verdict = pick(&all, code);
            },
        ));
        columns
    }
}

impl Kind for Packet {
    const NAME: &'static str = "packet";
}

impl Columns for Path {
    const BLANK: Self = Path::BLANK;
    kept_as_it_is!(path, named by path);
    fn columns() -> Vec<Column<Self>> {
        let mut columns = Vec::from(moments!("time_ns" time));
        columns.extend(words!(path));
        columns.extend(numbers! { queue_packets u32, Repeats });
        columns.extend(counters! {
            queue_bytes Varies,
            in_packets Varies,
            in_bytes Varies,
            out_packets Varies,
            out_bytes Varies,
            queue_drops Repeats,
            loss_drops Repeats,
            marks Repeats,
            busy_ns Varies,
        });
        let added = counters! { delay_ns Repeats, lateness_ns Varies, bits_per_s Repeats };
        columns.extend(added.map(Column::added));
        columns
    }
}

impl Kind for Path {
    const NAME: &'static str = "path";
}

impl Columns for Thread {
    const BLANK: Self = Thread {
        time: Instant::ZERO,
        program: NameId(0),
        role: Role::Initiator,
        thread: 0,
        ran_ns: 0,
        waited_ns: 0,
    };
    kept_as_it_is!(thread, named by program);
    fn columns() -> Vec<Column<Self>> {
        let mut columns = Vec::from(moments!("time_ns" time));
        columns.extend(words!(program));
        columns.push(text(
            "role",
            Vocabulary::Fixed(&["initiator", "target", "vpn"]),
            |row: &Row<Self>| row.record.role as u16,
            |row, code| row.record.role = pick(&Role::ALL, code),
        ));
        columns.extend(numbers! { thread u32, Varies });
        columns.extend(counters! { ran_ns Varies, waited_ns Varies });
        columns
    }
}

impl Kind for Thread {
    const NAME: &'static str = "thread";
}
