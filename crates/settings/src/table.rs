//! The one table of a program's settings.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;

use serde::de::value::Error as Plain;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};

use crate::row::Row;

/// Settings that [`settings!`](crate::settings) has declared.
pub trait Settings: Sized {
    /// Those that were given.
    type Given: Default;

    /// All that there are.
    fn rows() -> Vec<Row>;

    /// Takes the value of `key` from `map`, if it is one of these; whether it is.
    ///
    /// # Errors
    /// When the value cannot be one of that key, or stands there twice.
    fn take<'de, A: MapAccess<'de>>(
        given: &mut Self::Given,
        key: &str,
        map: &mut A,
    ) -> Result<bool, A::Error>;

    /// Those that were given, with the defaults of all others.
    ///
    /// # Errors
    /// When one lacks that has no default.
    fn complete<E: de::Error>(given: Self::Given) -> Result<Self, E>;

    /// Writes each that is there.
    ///
    /// # Errors
    /// Those of the map.
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// Settings of which nothing was given.
///
/// # Panics
/// When one has no default.
#[must_use]
pub fn usual<T: Settings>() -> T {
    given(|_| {})
}

/// Settings of which only those were given that `give` gives.
///
/// # Panics
/// When one lacks that has no default.
#[must_use]
pub fn given<T: Settings>(give: impl FnOnce(&mut T::Given)) -> T {
    let mut given = T::Given::default();
    give(&mut given);
    match T::complete::<Plain>(given) {
        Ok(settings) => settings,
        Err(error) => panic!("{error}, which has no default"),
    }
}

/// Declares settings. A struct's fields are `NAME: TYPE = DEFAULT, in RANGE, of TABLE, "VALUE", as "OPTION";`
/// and all but name and type may be left out:
///
/// - the sentences above it, for pages, help and documentation, without a full stop at the end;
/// - what it is when it is not given; an `Option` is `None` then, and anything else has to be given;
/// - the least and the greatest value;
/// - the type of the tables in it, where it is one or a list of such;
/// - what a value is called in help, as `BYTES`; of a table, the heading in help;
/// - its name on command lines where it differs from its key; of a table, the prefix of its settings there.
///
/// At the end stand settings that are declared elsewhere and belong to the same table of a file:
/// `with NAME: TYPE, "HEADING";`, and `but KEY = DEFAULT` where defaults are others here.
#[macro_export]
macro_rules! settings {
    (
        $(#[$attr:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $doc:literal])*
                pub $field:ident: $type:ty $(= $default:expr)? $(, in $range:expr)? $(, of $inner:ty)?
                    $(, $value:literal)? $(, as $option:literal)?;
            )*
            $(
                with $with:ident: $with_type:ty $(, $heading:literal)? $(, but $key:ident = $other:expr)*;
            )*
        }
    ) => {
        $(#[$attr])*
        $vis struct $name {
            $($(#[doc = $doc])* pub $field: $type,)*
            $(#[doc = concat!("The settings of [`", stringify!($with_type), "`].")] pub $with: $with_type,)*
        }

        const _: () = {
            use $crate::Settings;
            use $crate::macros::serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
            use $crate::macros::serde::ser::{Serialize, SerializeMap, Serializer};
            use $crate::macros::{Key, Ranged, key};

            #[allow(unreachable_pub, reason = "settings that are no crate's own")]
            #[derive(Default)]
            pub struct Given {
                $(pub $field: Option<$type>,)*
                $(pub $with: <$with_type as Settings>::Given,)*
            }

            impl Settings for $name {
                type Given = Given;

                fn rows() -> Vec<$crate::Row> {
                    #[allow(unused_mut, reason = "tables without settings of elsewhere")]
                    let mut rows = vec![$({
                        let mut row = $crate::macros::row::<$type>(stringify!($field), &[$($doc),*]);
                        $(row.is_required = false; row.set_default::<$type>(&$default);)?
                        $(row.set_range(&$range, |value| {
                            let value: $type = $crate::macros::read(value)?;
                            $crate::macros::check_range(&value, &$range)
                        });)?
                        $(row.rows = <$inner as Settings>::rows();)?
                        $(row.value = Some($value);)?
                        $(row.option = Some($option);)?
                        row
                    }),*];
                    $({
                        #[allow(unused_mut, reason = "settings with their own defaults")]
                        let mut others = <$with_type as Settings>::rows();
                        $(others.iter_mut().for_each(|row| row.heading = Some($heading));)?
                        $(
                            let row = others.iter_mut().find(|row| row.key == stringify!($key));
                            row.expect("a key of these").set_default(&$other);
                        )*
                        rows.extend(others);
                    })*
                    rows
                }

                #[allow(unused_variables, reason = "tables that are empty")]
                fn take<'de, A: MapAccess<'de>>(
                    given: &mut Given,
                    name: &str,
                    map: &mut A,
                ) -> Result<bool, A::Error> {
                    $(if name == key(stringify!($field)) {
                        if given.$field.is_some() {
                            return Err(A::Error::duplicate_field(key(stringify!($field))));
                        }
                        let check: fn(&$type) -> Result<(), String> = |_value| {
                            $($crate::macros::check_range(_value, &$range)?;)?
                            Ok(())
                        };
                        given.$field = Some(map.next_value_seed(Ranged(check))?);
                        return Ok(true);
                    })*
                    $(if <$with_type as Settings>::take(&mut given.$with, name, map)? {
                        return Ok(true);
                    })*
                    Ok(false)
                }

                #[allow(unused_mut, reason = "settings with their own defaults")]
                fn complete<E: Error>(mut given: Given) -> Result<Self, E> {
                    $($(given.$with.$key.get_or_insert_with(|| $other);)*)*
                    Ok($name {
                        $($field: match given.$field {
                            Some(value) => value,
                            None => $crate::or_default!(key(stringify!($field)) $(, $default)?),
                        },)*
                        $($with: <$with_type as Settings>::complete(given.$with)?,)*
                    })
                }

                fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                    $(if !$crate::macros::is_none(&self.$field) {
                        map.serialize_entry(key(stringify!($field)), &self.$field)?;
                    })*
                    $(Settings::write(&self.$with, map)?;)*
                    Ok(())
                }
            }

            impl<'de> Deserialize<'de> for $name {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    struct Table;

                    impl<'de> Visitor<'de> for Table {
                        type Value = $name;

                        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                            f.write_str("a table")
                        }

                        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                            let mut given = Given::default();
                            let known = Key::of::<$name>();
                            while let Some(key) = map.next_key_seed(&known)? {
                                $name::take(&mut given, &key, &mut map)?;
                            }
                            $name::complete(given)
                        }
                    }

                    deserializer.deserialize_map(Table)
                }
            }

            impl Serialize for $name {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    let mut map = serializer.serialize_map(None)?;
                    Settings::write(self, &mut map)?;
                    map.end()
                }
            }
        };
    };
}

/// What a setting is that was not given.
#[doc(hidden)]
#[macro_export]
macro_rules! or_default {
    ($key:expr, $default:expr) => {
        $default
    };
    ($key:expr) => {
        $crate::macros::absent($key)?
    };
}

/// Reads a key, which has to be a known one.
pub struct Key(Vec<&'static str>);

impl Key {
    /// One of those of `T`.
    #[must_use]
    pub fn of<T: Settings>() -> Key {
        Key(T::rows().iter().map(|row| row.key).collect())
    }
}

impl<'de> DeserializeSeed<'de> for &Key {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for &Key {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<String, E> {
        if self.0.contains(&key) {
            return Ok(key.to_owned());
        }
        // As serde words it, which takes a list for ever.
        let known: Vec<String> = self.0.iter().map(|key| format!("`{key}`")).collect();
        let known = known.join(", ");
        Err(E::custom(format!(
            "unknown field `{key}`, expected one of {known}"
        )))
    }
}

/// Reads a value, which has to be within its range.
pub struct Ranged<T>(pub fn(&T) -> Result<(), String>);

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Ranged<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        let value = T::deserialize(deserializer)?;
        (self.0)(&value).map_err(de::Error::custom)?;
        Ok(value)
    }
}

/// What can be within a range of `R`.
pub trait Within<R> {
    /// It, when it is there and is not within `range`.
    fn beyond(&self, range: &RangeInclusive<R>) -> Option<&R>;
}

impl<R: PartialOrd> Within<R> for R {
    fn beyond(&self, range: &RangeInclusive<R>) -> Option<&R> {
        (!range.contains(self)).then_some(self)
    }
}

impl<R: PartialOrd> Within<R> for Option<R> {
    fn beyond(&self, range: &RangeInclusive<R>) -> Option<&R> {
        self.as_ref().filter(|value| !range.contains(value))
    }
}

/// Refuses a value that is not within `range`.
///
/// # Errors
/// What it is, and the range.
pub fn check_range<R: Display>(
    value: &impl Within<R>,
    range: &RangeInclusive<R>,
) -> Result<(), String> {
    match value.beyond(range) {
        Some(value) => Err(format!(
            "{value} is not within {} to {}",
            range.start(),
            range.end()
        )),
        None => Ok(()),
    }
}

/// Whether there is nothing to write.
pub fn is_none(value: &impl Serialize) -> bool {
    matches!(serde_json::to_value(value), Ok(serde_json::Value::Null))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::{Size, Span};

    settings! {
        /// Settings of one side.
        #[derive(Debug, PartialEq)]
        struct Side {
            /// How much it holds
            pub buffer: Option<Size>, in Size(1024)..=Size(1 << 20), "BYTES";
        }
    }

    settings! {
        /// Settings of all listeners.
        #[derive(Debug, PartialEq)]
        struct Common {
            /// How many at once
            pub flows: u32 = 10, in 1..=100, "N";
        }
    }

    settings! {
        /// A listener's.
        #[derive(Debug, PartialEq)]
        struct Listener {
            /// Where it listens
            pub listen: String, "ADDRESS";
            /// How long it waits,
            /// and no longer
            pub patience: Span = Span(std::time::Duration::from_secs(1)), "TIME", as "wait";
            /// One side
            pub r#in: Side = usual(), of Side, "One side", as "in-";
            with common: Common, but flows = 20;
        }
    }

    fn read(text: &str) -> Result<Listener, String> {
        wansan_mistake::read(text, "the file").map_err(|mistake| mistake.to_string())
    }

    #[test]
    fn what_is_not_given_has_its_default() {
        let listener = read("listen = \"a\"\n[in]\nbuffer = \"2KiB\"").unwrap();
        assert_eq!(listener.common.flows, 20);
        assert_eq!(listener.r#in.buffer, Some(Size(2048)));
        assert_eq!(
            serde_json::to_string(&listener).unwrap(),
            r#"{"listen":"a","patience":"1s","in":{"buffer":"2KiB"},"flows":20}"#
        );
    }

    #[test]
    fn what_is_written_reads_back() {
        let listener = read("listen = \"a\"\nflows = 7").unwrap();
        let json = serde_json::to_string(&listener).unwrap();
        assert_eq!(
            crate::read_json::<Listener>(&json, "JSON").unwrap(),
            listener
        );
        let table = toml::to_string(&listener).unwrap();
        assert_eq!(read(&table).unwrap(), listener);
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_the_nearest_key() {
        for (text, said) in [
            ("", "line 1: the file lacks `listen`"),
            (
                "listen = \"a\"\npatiense = \"2s\"",
                "line 2: unknown key `patiense` in the file; did you mean `patience`?",
            ),
            (
                "listen = \"a\"\nflow = 2",
                "line 2: unknown key `flow` in the file; did you mean `flows`?",
            ),
            (
                "listen = \"a\"\nflows = 0",
                "line 2: `flows`: 0 is not within 1 to 100",
            ),
            (
                "listen = \"a\"\n[in]\n\nbuffer = \"1B\"",
                "line 4: `in.buffer`: 1B is not within 1KiB to 1MiB",
            ),
            (
                "listen = \"a\"\n[in]\nbufer = \"1B\"",
                "line 3: unknown key `bufer` in [in]; did you mean `buffer`?",
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), said);
        }
    }

    #[test]
    fn json_is_told_so_too() {
        let read = |text: &str| crate::read_json::<Listener>(text, "standard input");
        for (text, said) in [
            ("{}", "standard input lacks `listen`"),
            (
                r#"{"listen":"a","in":{"bufer":1}}"#,
                "unknown key `bufer` in [in]; did you mean `buffer`?",
            ),
            (
                r#"{"listen":"a","flows":101}"#,
                "`flows`: 101 is not within 1 to 100",
            ),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), said);
        }
    }

    #[test]
    fn rows_say_what_there_is() {
        let rows = Listener::rows();
        let keys: Vec<&str> = rows.iter().map(|row| row.key).collect();
        assert_eq!(keys, ["listen", "patience", "in", "flows"]);
        assert!(rows[0].is_required && !rows[1].is_required);
        assert_eq!(rows[1].about, "How long it waits, and no longer");
        assert_eq!(rows[1].option(), "wait");
        assert_eq!(rows[1].default.as_ref().unwrap(), "1s");
        assert_eq!(rows[3].default.as_ref().unwrap(), 20);
        assert_eq!(rows[2].rows[0].range.as_deref(), Some("1KiB to 1MiB"));
    }
}
