//! Types of record fields.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::Serializer;

use crate::names::{Names, Vocabulary};
use crate::{ConnectionId, Instant, NameId, SessionId, TaskTag};

/// A field type: its packing in memory, its column, and its JSON form.
pub trait Field: Copy {
    /// The value for unknown.
    const BLANK: Self;
    /// Bits of each part in its packed form; 0 for absent parts.
    const PARTS: [u32; 3];
    /// Splits it into parts.
    fn parts(self) -> [u64; 3];
    /// Restores it from parts; only the low bits of each part are used.
    fn of_parts(parts: [u64; 3]) -> Self;

    /// Its column type.
    const CELL: Cell;
    /// Whether it is a time: its column's name then ends in `_ns`.
    const IS_TIME: bool = false;
    /// The number or code for its column; `None` if the file has too many names.
    fn code(self, _names: &mut Names) -> Option<u64> {
        Some(self.parts()[0])
    }
    /// The value for a column's number or code.
    fn of_code(code: u64, _names: &Names) -> Self {
        Self::of_parts([code, 0, 0])
    }

    /// Its JSON type; `None` if it has meaning only within one recorder or session.
    const JSON: Option<Json>;
    /// Serializes it, if it has a JSON form.
    fn serialize<S: Serializer>(self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.parts()[0])
    }
}

/// Column types.
#[derive(Debug, Clone, Copy)]
pub enum Cell {
    /// 64 bits; `u64::MAX` is stored as −1.
    Int64,
    /// An unsigned integer of 8, 16 or 32 bits.
    Uint(i8),
    /// A string, dictionary-encoded.
    Text(Vocabulary),
}

/// JSON types.
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

/// Newtypes of numbers with meaning only within one recorder or session.
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

/// Stored as IPv6, with IPv4 addresses mapped (RFC 4291 §2.5.5.2): no packet carries a mapped address itself. Scope and
/// flow label are omitted, as in packet headers.
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

/// A field in its JSON form.
pub(crate) struct InJson<F>(pub(crate) F);

impl<F: Field> serde::Serialize for InJson<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}
