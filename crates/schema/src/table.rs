//! The one table of a struct, from which its fields, its JSON, its metrics, its TypeScript and its
//! reference follow.

use std::collections::BTreeMap;

use serde_json::Value;

/// A struct that results or manifests hold.
#[derive(Debug)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// What it is, as its documentation has it.
    pub about: &'static str,
    /// The field that tells it from others in a list.
    pub key: Option<&'static str>,
    /// The struct whose fields are in JSON beside its own.
    pub with: Option<&'static Table>,
    /// Its fields, in the order of files.
    pub fields: &'static [Field],
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    /// Its name in JSON.
    pub name: &'static str,
    about: &'static str,
    /// What it is measured in. `None` of what no result is: what only labels or describes others.
    pub unit: Option<Unit>,
    /// What the names are of, in a map or a list by name; of a text, what it may be.
    pub names: Option<Names>,
    /// What a plan must have for it to be there, beside what its struct takes.
    pub takes: &'static [Takes],
    /// What stands there.
    pub kind: &'static Kind,
}

/// What is in a field.
#[derive(Debug)]
pub enum Kind {
    /// A number.
    Number,
    /// True or false.
    Truth,
    /// A text.
    Text,
    /// Anything.
    Anything,
    /// A struct.
    Struct(&'static Table),
    /// Any number of these.
    List(&'static Kind),
    /// One of these for each name.
    Map(&'static Kind),
    /// One of these, or null.
    Optional(&'static Kind),
}

/// What a result is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerS,
    /// How many in a second.
    PerS,
    /// Seconds of a processor's time for each 2^30 bytes.
    SPerGib,
    /// Packets, or segments.
    Packets,
    /// How many.
    Count,
    /// A share of a whole, or a ratio of two numbers: 1 is all of it, or alike.
    Ratio,
    /// None: it is a text.
    Text,
    /// None: it holds results.
    Group,
}

impl Unit {
    /// As a reader is shown it, and as the report page knows it; empty where there is nothing to say.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Ns => "ns",
            Unit::Bytes => "bytes",
            Unit::BytesPerS => "bytes/s",
            Unit::PerS => "1/s",
            Unit::SPerGib => "s/GiB",
            Unit::Packets => "packets",
            Unit::Ratio => "ratio",
            Unit::Count | Unit::Text | Unit::Group => "",
        }
    }
}

/// What names are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// The layers of an I/O.
    Layers,
    /// What may hold a system back.
    Limits,
    /// Causes of stalls.
    Causes,
    /// Causes of waits.
    Waits,
    /// Reasons why the time below the socket of an I/O is not told.
    Untold,
    /// The laws of relays.
    Laws,
    /// Reasons why a relay does not signal ECE.
    Fallbacks,
    /// The plan's streams.
    Streams,
    /// The plan's relays.
    Relays,
    /// The plan's routers.
    Routers,
}

impl Names {
    /// What one of them is, in a word or two.
    #[must_use]
    pub const fn one(self) -> &'static str {
        match self {
            Names::Layers => "layer",
            Names::Limits => "limit",
            Names::Causes | Names::Waits => "cause",
            Names::Untold | Names::Fallbacks => "reason",
            Names::Laws => "law",
            Names::Streams => "stream",
            Names::Relays => "relay",
            Names::Routers => "router",
        }
    }
}

/// What a plan must have for a result to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// I/Os: an initiator.
    Ios,
    /// A stream.
    Streams,
    /// A tunnel on the way of a connection.
    Vpn,
    /// The emulator, and not netem.
    Emulator,
    /// Records of this kind.
    Packet,
    /// Likewise.
    Pdu,
    /// Likewise.
    Stamp,
    /// Likewise.
    Tcp,
}

impl Takes {
    /// The kind of records that it is, if it is one.
    #[must_use]
    pub const fn record(self) -> Option<&'static str> {
        match self {
            Takes::Packet => Some("packet"),
            Takes::Pdu => Some("pdu"),
            Takes::Stamp => Some("stamp"),
            Takes::Tcp => Some("tcp"),
            Takes::Ios | Takes::Streams | Takes::Vpn | Takes::Emulator => None,
        }
    }

    /// In words.
    pub(crate) fn in_words(self) -> String {
        match self {
            Takes::Ios => "initiators".to_owned(),
            Takes::Streams => "streams".to_owned(),
            Takes::Vpn => "a VPN".to_owned(),
            Takes::Emulator => "`world.emulator = \"user\"`".to_owned(),
            record => format!("`{}` records", record.record().unwrap_or_default()),
        }
    }
}

impl Table {
    /// What it is, on one line.
    #[must_use]
    pub fn about(&self) -> String {
        on_one_line(self.about)
    }

    /// The field of that name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Field {
    /// What a table says of it.
    #[must_use]
    pub const fn new(
        name: &'static str,
        about: &'static str,
        kind: &'static Kind,
        unit: Option<Unit>,
        names: Option<Names>,
        takes: &'static [Takes],
    ) -> Field {
        // As Rust has to write a name that is a word of its own.
        let name = match name.as_bytes() {
            [b'r', b'#', ..] => name.split_at(2).1,
            _ => name,
        };
        Field {
            name,
            about,
            unit,
            names,
            takes,
            kind,
        }
    }

    /// What it is, on one line.
    #[must_use]
    pub fn about(&self) -> String {
        on_one_line(self.about)
    }
}

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A value that stands by itself, of which a table tells.
#[derive(Debug, Clone, PartialEq)]
pub struct Single {
    /// Its dotted name.
    pub name: String,
    /// A number, a truth or a text.
    pub value: Value,
}

/// What can be in a field.
pub trait Content {
    /// Which kind of content that is.
    const KIND: &'static Kind;

    /// Tells each single value in it, by the name that it has behind `name`, and with the field that it
    /// is in. What is null, and lists of what has no name, is left out.
    fn visit(&self, name: &str, field: &'static Field, see: &mut dyn FnMut(&'static Field, Single));

    /// Its name in a list of its kind.
    fn key(&self) -> Option<&str> {
        None
    }
}

/// `inner` in what is called `outer`.
#[must_use]
pub fn within(outer: &str, inner: &str) -> String {
    match outer {
        "" => inner.to_owned(),
        outer => format!("{outer}.{inner}"),
    }
}

macro_rules! single {
    ($($type:ty => $kind:ident),*) => {
        $(impl Content for $type {
            const KIND: &'static Kind = &Kind::$kind;
            fn visit(&self, name: &str, field: &'static Field, see: &mut dyn FnMut(&'static Field, Single)) {
                see(field, Single { name: name.to_owned(), value: self.clone().into() });
            }
        })*
    };
}

single!(u8 => Number, u16 => Number, u32 => Number, u64 => Number, i64 => Number, usize => Number, f64 => Number, bool => Truth, String => Text);

impl Content for Value {
    const KIND: &'static Kind = &Kind::Anything;
    fn visit(
        &self,
        name: &str,
        field: &'static Field,
        see: &mut dyn FnMut(&'static Field, Single),
    ) {
        if !(self.is_null() || self.is_array() || self.is_object()) {
            let (name, value) = (name.to_owned(), self.clone());
            see(field, Single { name, value });
        }
    }
}

impl<T: Content> Content for Option<T> {
    const KIND: &'static Kind = &Kind::Optional(T::KIND);
    fn visit(
        &self,
        name: &str,
        field: &'static Field,
        see: &mut dyn FnMut(&'static Field, Single),
    ) {
        if let Some(there) = self {
            there.visit(name, field, see);
        }
    }
}

impl<T: Content> Content for BTreeMap<String, T> {
    const KIND: &'static Kind = &Kind::Map(T::KIND);
    fn visit(
        &self,
        name: &str,
        field: &'static Field,
        see: &mut dyn FnMut(&'static Field, Single),
    ) {
        for (key, value) in self {
            value.visit(&within(name, key), field, see);
        }
    }
}

impl<T: Content> Content for Vec<T> {
    const KIND: &'static Kind = &Kind::List(T::KIND);
    fn visit(
        &self,
        name: &str,
        field: &'static Field,
        see: &mut dyn FnMut(&'static Field, Single),
    ) {
        for value in self {
            if let Some(key) = value.key() {
                value.visit(&within(name, key), field, see);
            }
        }
    }
}

/// Defines structs that results or manifests hold. Behind a name stands by which field a list of them
/// tells one from the other, if it does; behind a field's type what it is where a file does not have it,
/// if that is not the type's default; for a result its unit, what its names are `of`, and what it takes.
/// The fields of a struct that stands `with` another are beside that one's own in JSON.
#[macro_export]
macro_rules! tables {
    (@optional) => { None };
    (@optional $value:expr) => { Some($value) };
    (@or_default) => { Default::default() };
    (@or_default $value:expr) => { $value.into() };
    ($(
        $(#[doc = $about:literal])*
        $name:ident $(by $key:ident)? $(with $part:ident: $part_type:ty)? {
            $(
                $(#[doc = $doc:literal])*
                $field:ident: $type:ty $(= $default:expr)?
                    $(=> $unit:ident $(of $names:ident)? $([$($takes:ident),*])?)?
            ),* $(,)?
        }
    )*) => {$(
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[doc = $doc])* pub $field: $type,)*
            $(
                /// What stands beside these in JSON.
                #[serde(flatten)]
                pub $part: $part_type,
            )?
        }

        impl Default for $name {
            /// As an empty file says it.
            fn default() -> $name {
                $name {
                    $($field: $crate::tables!(@or_default $($default)?),)*
                    $($part: Default::default(),)?
                }
            }
        }

        impl $name {
            /// What it holds.
            pub const TABLE: &'static $crate::table::Table = &$crate::table::Table {
                name: stringify!($name),
                about: concat!($($about),*),
                key: $crate::tables!(@optional $(stringify!($key))?),
                with: $crate::tables!(@optional $(<$part_type>::TABLE)?),
                fields: &[$($crate::table::Field::new(
                    stringify!($field),
                    concat!($($doc),*),
                    <$type as $crate::table::Content>::KIND,
                    $crate::tables!(@optional $($crate::table::Unit::$unit)?),
                    $crate::tables!(@optional $($($crate::table::Names::$names)?)?),
                    &[$($($($crate::table::Takes::$takes),*)?)?],
                )),*],
            };

            /// Tells each single value in it by its dotted name, with the field that it is in.
            pub fn singles(&self, see: &mut dyn FnMut(&'static $crate::table::Field, $crate::table::Single)) {
                let mut fields = Self::TABLE.fields.iter();
                $(if let Some(field) = fields.next() {
                    $crate::table::Content::visit(&self.$field, field.name, field, see);
                })*
                $(self.$part.singles(see);)?
            }

            /// The single value of that dotted name, if it is there.
            #[must_use]
            pub fn value(&self, name: &str) -> Option<serde_json::Value> {
                let mut found = None;
                self.singles(&mut |_, single| {
                    if single.name == name {
                        found = Some(single.value);
                    }
                });
                found
            }
        }

        impl $crate::table::Content for $name {
            const KIND: &'static $crate::table::Kind = &$crate::table::Kind::Struct($name::TABLE);
            fn visit(
                &self,
                name: &str,
                _: &'static $crate::table::Field,
                see: &mut dyn FnMut(&'static $crate::table::Field, $crate::table::Single),
            ) {
                self.singles(&mut |field, single| {
                    if Some(single.name.as_str()) != Self::TABLE.key {
                        let name = $crate::table::within(name, &single.name);
                        see(field, $crate::table::Single { name, ..single });
                    }
                });
            }
            $(fn key(&self) -> Option<&str> {
                Some(&self.$key)
            })?
        }
    )*};
}

pub(crate) use tables;
