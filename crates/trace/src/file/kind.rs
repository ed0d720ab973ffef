//! The five kinds of record file: their names and columns.

use std::net::{Ipv4Addr, SocketAddr};

use super::column::{Column, Habit, Vocabulary, address, int64, text, uint};
use super::{Kind, Row};
use crate::event::{Crossing, Packet, Path, Pdu, PduDirection, Tcp, TcpEvent, Verdict};
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
    /// The id of its path, for kinds that have one.
    fn path_mut(&mut self) -> Option<&mut NameId> {
        None
    }
    /// The columns in file order, without `host`, which all kinds have.
    fn columns() -> Vec<Column<Self>>;
}

/// Looks a fixed code up again. Codes come from the same list, so they are always in it.
fn pick<V: Copy>(values: &[V], code: u16) -> V {
    values[usize::from(code)]
}

const LAYERS: [&str; 11] = {
    let mut names = [""; 11];
    let mut depth = 0;
    while depth < names.len() {
        names[depth] = Layer::ALL[depth].name();
        depth += 1;
    }
    names
};

/// Columns that say which session and connection a record is about.
macro_rules! place {
    () => {
        [
            int64(
                "time_ns",
                Grows,
                |r: &Self| r.time.ns(),
                |r, v| r.time = Instant::from_ns(v),
            ),
            int64(
                "session",
                Repeats,
                |r| r.session.0,
                |r, v| r.session = SessionId(v),
            ),
            uint(
                "connection",
                16,
                Repeats,
                |r| u32::from(r.connection.0),
                |r, v| r.connection = ConnectionId(v as u16),
            ),
        ]
    };
}

/// Kinds whose records stand in memory one by one.
macro_rules! kept_as_it_is {
    ($log:ident) => {
        type Kept = Self;
        fn log(recorder: &Recorder) -> &Log<Self> {
            &recorder.$log
        }
        fn unfold(kept: Self) -> impl Iterator<Item = Self> {
            std::iter::once(kept)
        }
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
        let mut columns = Vec::from(place!());
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
    const BLANK: Self = Pdu {
        time: Instant::ZERO,
        session: SessionId(0),
        connection: ConnectionId(0),
        direction: PduDirection::Sent,
        opcode: 0,
        flags: 0,
        task: TaskTag(0),
        transfer_tag: 0,
        cmd_sn: 0,
        stat_sn: 0,
        exp_cmd_sn: 0,
        max_cmd_sn: 0,
        data_sn: 0,
        buffer_offset: 0,
        data_bytes: 0,
        stream_offset: 0,
    };
    kept_as_it_is!(pdu);
    fn time(&self) -> Instant {
        self.time
    }
    fn columns() -> Vec<Column<Self>> {
        let mut columns = Vec::from(place!());
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
    const BLANK: Self = Tcp {
        time: Instant::ZERO,
        session: SessionId(0),
        connection: ConnectionId(0),
        event: TcpEvent::Sample,
        congestion_state: 0,
        cwnd_packets: 0,
        ssthresh_packets: 0,
        mss_bytes: 0,
        in_flight_packets: 0,
        srtt_ns: 0,
        min_rtt_ns: 0,
        rwnd_bytes: 0,
        unsent_bytes: 0,
        acked_bytes: 0,
        pacing_bytes_per_s: 0,
        delivery_bytes_per_s: 0,
        busy_ns: 0,
        rwnd_limited_ns: 0,
        sndbuf_limited_ns: 0,
        retransmits: 0,
    };
    kept_as_it_is!(tcp);
    fn time(&self) -> Instant {
        self.time
    }
    fn columns() -> Vec<Column<Self>> {
        let mut columns = Vec::from(place!());
        columns.push(text(
            "event",
            Vocabulary::Fixed(&["sample", "cwr", "recovery", "loss", "retransmit"]),
            |row: &Row<Self>| row.record.event as u16,
            |row, code| {
                let all = [
                    TcpEvent::Sample,
                    TcpEvent::Cwr,
                    TcpEvent::Recovery,
                    TcpEvent::Loss,
                    TcpEvent::Retransmit,
                ];
                row.record.event = pick(&all, code);
            },
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
        columns
    }
}

impl Kind for Tcp {
    const NAME: &'static str = "tcp";
}

impl Columns for Packet {
    const BLANK: Self = Packet {
        time: Instant::ZERO,
        departed: Instant::ZERO,
        path: NameId(0),
        source: SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        destination: SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        seq: 0,
        ack: 0,
        payload_bytes: 0,
        ip_bytes: 0,
        window: 0,
        flags: 0,
        ecn: 0,
        verdict: Verdict::Delivered,
    };
    kept_as_it_is!(packet);
    fn time(&self) -> Instant {
        self.time
    }
    fn path_mut(&mut self) -> Option<&mut NameId> {
        Some(&mut self.path)
    }
    fn columns() -> Vec<Column<Self>> {
        let mut columns = vec![
            int64(
                "time_ns",
                Grows,
                |r: &Self| r.time.ns(),
                |r, v| r.time = Instant::from_ns(v),
            ),
            int64(
                "departed_ns",
                Grows,
                |r| r.departed.ns(),
                |r, v| r.departed = Instant::from_ns(v),
            ),
            text(
                "path",
                Vocabulary::Word,
                |row| row.record.path.0,
                |row, code| row.record.path = NameId(code),
            ),
            address("source", |r| r.source, |r, v| r.source = v),
            address("destination", |r| r.destination, |r, v| r.destination = v),
        ];
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
    const BLANK: Self = Path {
        time: Instant::ZERO,
        path: NameId(0),
        queue_packets: 0,
        queue_bytes: 0,
        in_packets: 0,
        in_bytes: 0,
        out_packets: 0,
        out_bytes: 0,
        queue_drops: 0,
        loss_drops: 0,
        marks: 0,
        busy_ns: 0,
        delay_ns: 0,
        lateness_ns: 0,
        bits_per_s: 0,
    };
    kept_as_it_is!(path);
    fn time(&self) -> Instant {
        self.time
    }
    fn path_mut(&mut self) -> Option<&mut NameId> {
        Some(&mut self.path)
    }
    fn columns() -> Vec<Column<Self>> {
        let mut columns = vec![
            int64(
                "time_ns",
                Grows,
                |r: &Self| r.time.ns(),
                |r, v| r.time = Instant::from_ns(v),
            ),
            text(
                "path",
                Vocabulary::Word,
                |row| row.record.path.0,
                |row, code| row.record.path = NameId(code),
            ),
        ];
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
