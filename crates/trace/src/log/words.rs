//! Records as rows of 64-bit words: what a block holds, whatever their kind.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::event::{
    Ecn, Packet, Path, Pdu, PduDirection, Role, Seen, Stamp, Tcp, TcpEvent, Thread, Verdict,
};
use crate::passage::Passage;
use crate::{ConnectionId, Instant, Layer, NameId, SessionId, TaskTag};

/// A record as words. Callers of the recorder never see this: the kinds are fixed.
pub trait Words: Copy + 'static {
    /// `[u64; N]`.
    type Row: Copy + AsRef<[u64]> + AsMut<[u64]>;
    /// A row of zeros.
    const BLANK_ROW: Self::Row;
    /// How many words a row has.
    const WORDS: usize;
    /// Takes the record apart.
    fn row(&self) -> Self::Row;
    /// Puts it together again.
    fn of_row(row: &Self::Row) -> Self;
    /// When it happened.
    fn time(&self) -> Instant;
    /// How many records of a file it stands for.
    fn records(&self) -> u64 {
        1
    }
}

/// A field that takes a word or a part of one.
trait Part {
    /// How many bits it takes.
    const BITS: u32;
    fn bits(self) -> u64;
    /// Reads it from the low bits.
    fn of_bits(bits: u64) -> Self;
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Part for $type {
            const BITS: u32 = <$type>::BITS;
            #[inline]
            fn bits(self) -> u64 {
                u64::from(self)
            }
            fn of_bits(bits: u64) -> Self {
                bits as $type
            }
        }
    )*};
}

/// Types that wrap one number.
macro_rules! wrapped {
    ($($type:ident($number:ty)),*) => {$(
        impl Part for $type {
            const BITS: u32 = <$number>::BITS;
            #[inline]
            fn bits(self) -> u64 {
                u64::from(self.0)
            }
            fn of_bits(bits: u64) -> Self {
                $type(bits as $number)
            }
        }
    )*};
}

/// Types that are one of a few names, in the order of their discriminants.
macro_rules! names {
    ($($type:ident $names:expr),* $(,)?) => {$(
        impl Part for $type {
            const BITS: u32 = u8::BITS;
            #[inline]
            fn bits(self) -> u64 {
                self as u64
            }
            fn of_bits(bits: u64) -> Self {
                $names[usize::from(bits as u8)]
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64);
wrapped!(SessionId(u64), ConnectionId(u16), TaskTag(u32), NameId(u16));
names! {
    Layer Layer::ALL,
    Role Role::ALL,
    PduDirection [PduDirection::Sent, PduDirection::Received],
    TcpEvent TcpEvent::ALL,
    Ecn Ecn::ALL,
    Seen Seen::ALL,
    Verdict [
        Verdict::Delivered,
        Verdict::DroppedByQueue,
        Verdict::DroppedByLoss,
        Verdict::DroppedByOutage,
    ],
}

impl Part for i8 {
    const BITS: u32 = i8::BITS;
    #[inline]
    fn bits(self) -> u64 {
        u64::from(self.cast_unsigned())
    }
    fn of_bits(bits: u64) -> Self {
        (bits as u8).cast_signed()
    }
}

impl Part for bool {
    const BITS: u32 = u8::BITS;
    #[inline]
    fn bits(self) -> u64 {
        u64::from(self)
    }
    fn of_bits(bits: u64) -> Self {
        bits as u8 != 0
    }
}

impl Part for Instant {
    const BITS: u32 = u64::BITS;
    #[inline]
    fn bits(self) -> u64 {
        self.ns()
    }
    fn of_bits(bits: u64) -> Self {
        Instant::from_ns(bits)
    }
}

/// The fields of each word, from its low bits up.
macro_rules! rows {
    ($type:ident, $words:literal words, $([$($field:ident)*])* $(; records $records:expr)?) => {
        impl Words for $type {
            type Row = [u64; $words];
            const BLANK_ROW: Self::Row = [0; $words];
            const WORDS: usize = $words;
            #[inline]
            fn row(&self) -> Self::Row {
                [$(joined!(self, $($field)*)),*]
            }
            fn of_row(row: &Self::Row) -> Self {
                let mut words = row.iter().copied();
                $(
                    let mut word = Bits::of(words.next());
                    $(let $field = word.take();)*
                )*
                $type { $($($field),*),* }
            }
            fn time(&self) -> Instant {
                self.time
            }
            $(fn records(&self) -> u64 {
                let records: fn(&Self) -> u64 = $records;
                records(self)
            })?
        }
    };
}

macro_rules! joined {
    ($record:ident, $($field:ident)*) => {{
        let mut word = Joined::default();
        $(word.add($record.$field);)*
        word.word
    }};
}

/// A word that fields are put into.
#[derive(Default)]
struct Joined {
    word: u64,
    used_bits: u32,
}

impl Joined {
    #[inline]
    fn add<P: Part>(&mut self, part: P) {
        self.word |= part.bits() << self.used_bits;
        self.used_bits += P::BITS;
    }
}

/// A word that fields are taken from.
struct Bits(u64);

impl Bits {
    fn of(word: Option<u64>) -> Self {
        Bits(word.unwrap_or_default())
    }

    fn take<P: Part>(&mut self) -> P {
        let part = P::of_bits(self.0);
        self.0 = self.0.checked_shr(P::BITS).unwrap_or_default();
        part
    }
}

rows!(Passage, 3 words, [time] [session] [task connection first steps];
    records |passage| u64::from(passage.steps.unsigned_abs()));
rows!(Pdu, 9 words,
    [time] [session] [stream_offset] [task transfer_tag] [cmd_sn stat_sn] [exp_cmd_sn max_cmd_sn]
    [data_sn buffer_offset] [data_bytes connection opcode flags] [direction]);
rows!(Tcp, 17 words,
    [time] [session] [connection event congestion_state cwnd_packets] [ssthresh_packets mss_bytes]
    [in_flight_packets rwnd_bytes] [unsent_bytes retransmits] [srtt_ns] [min_rtt_ns] [acked_bytes]
    [pacing_bytes_per_s] [delivery_bytes_per_s] [busy_ns] [rwnd_limited_ns] [sndbuf_limited_ns]
    [delivered_ce timeouts] [ends ecn seen unread_bytes] [ece_signals]);
rows!(Stamp, 8 words,
    [time] [session] [stream_end] [bytes connection direction nagle] [scheduled] [departed]
    [acknowledged] [arrived]);
rows!(Path, 14 words,
    [time] [path queue_packets] [queue_bytes] [in_packets] [in_bytes] [out_packets] [out_bytes]
    [queue_drops] [loss_drops] [marks] [busy_ns] [delay_ns] [lateness_ns] [bits_per_s]);
rows!(Thread, 4 words, [time] [thread program role] [ran_ns] [waited_ns]);
rows!(PacketRow, 9 words,
    [time] [departed] [source_high] [source_low] [destination_high] [destination_low]
    [seq ack] [payload_bytes ip_bytes window flags ecn]
    [path source_port destination_port verdict is_ipv6]);

/// A packet with its addresses as numbers: as its headers have them, of one family and without a
/// scope or a flow label.
#[derive(Clone, Copy)]
struct PacketRow {
    time: Instant,
    departed: Instant,
    source_high: u64,
    source_low: u64,
    destination_high: u64,
    destination_low: u64,
    seq: u32,
    ack: u32,
    payload_bytes: u16,
    ip_bytes: u16,
    window: u16,
    flags: u8,
    ecn: u8,
    path: NameId,
    source_port: u16,
    destination_port: u16,
    verdict: Verdict,
    is_ipv6: u8,
}

impl Words for Packet {
    type Row = [u64; 9];
    const BLANK_ROW: Self::Row = PacketRow::BLANK_ROW;
    const WORDS: usize = PacketRow::WORDS;
    #[inline]
    fn row(&self) -> Self::Row {
        let [source_high, source_low] = halves(self.source.ip());
        let [destination_high, destination_low] = halves(self.destination.ip());
        PacketRow {
            time: self.time,
            departed: self.departed,
            source_high,
            source_low,
            destination_high,
            destination_low,
            seq: self.seq,
            ack: self.ack,
            payload_bytes: self.payload_bytes,
            ip_bytes: self.ip_bytes,
            window: self.window,
            flags: self.flags,
            ecn: self.ecn,
            path: self.path,
            source_port: self.source.port(),
            destination_port: self.destination.port(),
            verdict: self.verdict,
            is_ipv6: u8::from(self.source.is_ipv6()),
        }
        .row()
    }
    fn of_row(row: &Self::Row) -> Self {
        let row = PacketRow::of_row(row);
        let address = |high, low, port| {
            let ip = if row.is_ipv6 == 0 {
                IpAddr::V4(Ipv4Addr::from_bits(low as u32))
            } else {
                IpAddr::V6(Ipv6Addr::from_bits(
                    u128::from(high) << 64 | u128::from(low),
                ))
            };
            SocketAddr::new(ip, port)
        };
        Packet {
            time: row.time,
            departed: row.departed,
            path: row.path,
            source: address(row.source_high, row.source_low, row.source_port),
            destination: address(
                row.destination_high,
                row.destination_low,
                row.destination_port,
            ),
            seq: row.seq,
            ack: row.ack,
            payload_bytes: row.payload_bytes,
            ip_bytes: row.ip_bytes,
            window: row.window,
            flags: row.flags,
            ecn: row.ecn,
            verdict: row.verdict,
        }
    }
    fn time(&self) -> Instant {
        self.time
    }
}

/// The upper and the lower 64 bits of an address.
fn halves(ip: IpAddr) -> [u64; 2] {
    match ip {
        IpAddr::V4(ip) => [0, u64::from(ip.to_bits())],
        IpAddr::V6(ip) => [(ip.to_bits() >> 64) as u64, ip.to_bits() as u64],
    }
}
