//! The types that a record's fields may have.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::Serializer;

use crate::names::{Names, Vocabulary};
use crate::{ConnectionId, Instant, NameId, SessionId, TaskTag};

/// What a type must say of itself to be a field of a record: how it is packed in memory, what its
/// column holds, and what it is in JSON.
pub trait Field: Copy {
    /// The value of which nothing is known.
    const BLANK: Self;
    /// Bits of the parts in which it is packed; 0 of those that it lacks.
    const PARTS: [u32; 3];
    /// Takes it apart.
    fn parts(self) -> [u64; 3];
    /// Puts it together again; of each part only the low bits count.
    fn of_parts(parts: [u64; 3]) -> Self;

    /// What its column holds.
    const CELL: Cell;
    /// Whether it is a moment: its column's name then ends in `_ns`.
    const IS_TIME: bool = false;
    /// The number or code that is in its column; `None` when the file has too many names.
    fn code(self, _names: &mut Names) -> Option<u64> {
        Some(self.parts()[0])
    }
    /// The value of a number or code from a column.
    fn of_code(code: u64, _names: &Names) -> Self {
        Self::of_parts([code, 0, 0])
    }

    /// What it is in JSON; `None` when it means something inside one recorder or session only.
    const JSON: Option<Json>;
    /// Writes it, if it has a meaning in JSON.
    fn serialize<S: Serializer>(self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.parts()[0])
    }
}

/// What a column holds.
#[derive(Debug, Clone, Copy)]
pub enum Cell {
    /// 64 bits; `u64::MAX` stands as −1 in the file.
    Int64,
    /// An unsigned integer of so many bits: 8, 16 or 32.
    Uint(i8),
    /// A string, dictionary-encoded.
    Text(Vocabulary),
}

/// What a field is in JSON.
#[derive(Debug, Clone, Copy)]
pub enum Json {
    /// A number.
    Number,
    /// `true` or `false`.
    Bool,
    /// Any string.
    Text,
    /// One of these strings.
    Names(&'static [&'static str]),
}

macro_rules! numbers {
    ($($type:ty as $cell:expr),*) => {$(
        impl Field for $type {
            const BLANK: Self = 0;
            const PARTS: [u32; 3] = [<$type>::BITS, 0, 0];
            #[inline]
            fn parts(self) -> [u64; 3] {
                [u64::from(self), 0, 0]
            }
            fn of_parts([number, ..]: [u64; 3]) -> Self {
                number as $type
            }
            const CELL: Cell = $cell;
            const JSON: Option<Json> = Some(Json::Number);
        }
    )*};
}

numbers!(u8 as Cell::Uint(8), u16 as Cell::Uint(16), u32 as Cell::Uint(32), u64 as Cell::Int64);

/// Types that wrap a number which means something inside one recorder or session only.
macro_rules! ids {
    ($($type:ident($number:ty) as $cell:expr, blank $blank:expr);* $(;)?) => {$(
        impl Field for $type {
            const BLANK: Self = $blank;
            const PARTS: [u32; 3] = [<$number>::BITS, 0, 0];
            #[inline]
            fn parts(self) -> [u64; 3] {
                [u64::from(self.0), 0, 0]
            }
            fn of_parts([number, ..]: [u64; 3]) -> Self {
                $type(number as $number)
            }
            const CELL: Cell = $cell;
            const JSON: Option<Json> = None;
        }
    )*};
}

ids! {
    SessionId(u64) as Cell::Int64, blank SessionId(0);
    ConnectionId(u16) as Cell::Uint(16), blank ConnectionId(0);
    TaskTag(u32) as Cell::Uint(32), blank TaskTag(0);
    NameId(u16) as Cell::Text(Vocabulary::Word), blank NameId::NONE;
}

impl Field for bool {
    const BLANK: Self = false;
    const PARTS: [u32; 3] = [u8::BITS, 0, 0];
    #[inline]
    fn parts(self) -> [u64; 3] {
        [u64::from(self), 0, 0]
    }
    fn of_parts([bit, ..]: [u64; 3]) -> Self {
        bit as u8 != 0
    }
    const CELL: Cell = Cell::Uint(8);
    const JSON: Option<Json> = Some(Json::Bool);
    fn serialize<S: Serializer>(self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(self)
    }
}

impl Field for i8 {
    const BLANK: Self = 0;
    const PARTS: [u32; 3] = [i8::BITS, 0, 0];
    #[inline]
    fn parts(self) -> [u64; 3] {
        [u64::from(self.cast_unsigned()), 0, 0]
    }
    fn of_parts([bits, ..]: [u64; 3]) -> Self {
        (bits as u8).cast_signed()
    }
    const CELL: Cell = Cell::Uint(8);
    const JSON: Option<Json> = Some(Json::Number);
    fn serialize<S: Serializer>(self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i8(self)
    }
}

impl Field for Instant {
    const BLANK: Self = Instant::ZERO;
    const PARTS: [u32; 3] = [u64::BITS, 0, 0];
    #[inline]
    fn parts(self) -> [u64; 3] {
        [self.ns(), 0, 0]
    }
    fn of_parts([ns, ..]: [u64; 3]) -> Self {
        Instant::from_ns(ns)
    }
    const CELL: Cell = Cell::Int64;
    const IS_TIME: bool = true;
    const JSON: Option<Json> = Some(Json::Number);
}

/// As IPv6, an IPv4 address mapped (RFC 4291 §2.5.5.2): no packet has a mapped address itself. Scope
/// and flow label are left out, as in the headers of packets.
impl Field for SocketAddr {
    const BLANK: Self = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    const PARTS: [u32; 3] = [u64::BITS, u64::BITS, u16::BITS];
    #[inline]
    fn parts(self) -> [u64; 3] {
        let bits = match self.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        }
        .to_bits();
        [(bits >> 64) as u64, bits as u64, u64::from(self.port())]
    }
    fn of_parts([high, low, port]: [u64; 3]) -> Self {
        let ip = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
        SocketAddr::new(ip.to_canonical(), port as u16)
    }
    const CELL: Cell = Cell::Text(Vocabulary::Address);
    fn code(self, names: &mut Names) -> Option<u64> {
        names.intern_address(self).map(u64::from)
    }
    fn of_code(code: u64, names: &Names) -> Self {
        names.address(code as u16)
    }
    const JSON: Option<Json> = Some(Json::Text);
    fn serialize<S: Serializer>(self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self)
    }
}

/// A field as JSON has it.
pub(crate) struct InJson<F>(pub(crate) F);

impl<F: Field> serde::Serialize for InJson<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}
