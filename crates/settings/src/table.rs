//! The table of a program's settings.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;

use serde::de::value::Error as Plain;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};

use serde_json::Value;

use crate::json::read_seed;
use crate::row::{Row, range_words};
use crate::worded::Worded;

/// Settings declared by [`settings!`](crate::settings).
pub trait Settings: Sized {
    /// The settings that were given.
    type Given: Default;

    /// All settings.
    fn rows() -> Vec<Row>;

    /// Takes the value of `key` from `map` if it is one of these settings; returns whether it is.
    ///
    /// # Errors
    /// If the value is invalid for that key, or the key was already given.
    fn take<'de, A: MapAccess<'de>>(
        given: &mut Self::Given,
        key: &str,
        map: &mut A,
    ) -> Result<bool, A::Error>;

    /// Adds the defaults of all settings not given.
    ///
    /// # Errors
    /// If a setting without a default is missing, or two settings given cannot be used together.
    fn complete<E: de::Error>(given: Self::Given) -> Result<Self, E>;

    /// Writes all settings that are not `None`.
    ///
    /// # Errors
    /// Errors of `map`.
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// The defaults of all settings.
///
/// # Panics
/// If a setting has no default.
#[must_use]
pub fn usual<T: Settings>() -> T {
    given(|_| {})
}

/// The settings given by `give`, and the defaults of all others.
///
/// # Panics
/// If a setting without a default is missing, or two settings given cannot be used together.
#[must_use]
pub fn given<T: Settings>(give: impl FnOnce(&mut T::Given)) -> T {
    let mut given = T::Given::default();
    give(&mut given);
    match T::complete::<Plain>(given) {
        Ok(settings) => settings,
        Err(error) => panic!("{error}, which has no default"),
    }
}

/// Declares settings. A struct's fields have the form
/// `NAME: TYPE = DEFAULT, in RANGE, of TABLE, "VALUE", as "OPTION", without OTHER;`, of which only name and type are
/// required:
///
/// - the doc comment above it: the description for pages, help and documentation, without a full stop at the end;
/// - `DEFAULT`: the value if it is not given; without it, an `Option` is `None`, and any other setting is required;
/// - `RANGE`: the minimum and maximum;
/// - `TABLE`: the type of the table, if the setting is a table or a list of tables;
/// - `"VALUE"`: the placeholder for a value in help, such as `BYTES`; for a table, its heading in help;
/// - `"OPTION"`: the name on command lines if it differs from the key; for a table, the prefix of its settings' names;
/// - `OTHER`: a setting of the same struct that it cannot be used with if both differ from their defaults.
///
/// The struct ends with the settings that are declared elsewhere and belong to the same table of a file:
/// `with NAME: TYPE, "HEADING";`, with `but KEY = DEFAULT` for each default that differs here.
#[macro_export]
macro_rules! settings {
    (
        $(#[$attr:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $doc:literal])*
                pub $field:ident: $type:ty $(= $default:expr)? $(, in $range:expr)? $(, of $inner:ty)?
                    $(, $value:literal)? $(, as $option:literal)? $(, without $rival:ident)?;
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
                            Ranged::<$type>::any().within($range).read(value)
                        });)?
                        $(row.rows = <$inner as Settings>::rows();)?
                        $(row.value = Some($value);)?
                        $(row.option = Some($option);)?
                        $(row.rival = Some(key(stringify!($rival)));)?
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
                        let ranged = Ranged::<$type>::any()$(.within($range))?;
                        given.$field = Some(map.next_value_seed(ranged)?);
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
                    $($($crate::macros::check_alternatives::<Self, E>(
                        (key(stringify!($field)), &given.$field),
                        (key(stringify!($rival)), &given.$rival),
                    )?;)?)*
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

/// The value of a setting that was not given.
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

/// Reads a key; rejects unknown keys.
pub struct Key(Vec<&'static str>);

impl Key {
    /// Accepts the keys of `T`.
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
        // Worded like serde's `unknown_field`, which needs a `'static` list.
        let known: Vec<String> = self.0.iter().map(|key| format!("`{key}`")).collect();
        let known = known.join(", ");
        Err(E::custom(format!(
            "unknown field `{key}`, expected one of {known}"
        )))
    }
}

/// Reads a value, and checks that it is within its range, if it has one.
pub struct Ranged<T> {
    range: Option<String>,
    check: Box<Check<T>>,
}

/// Checks a value; the error says what is wrong with it.
type Check<T> = dyn Fn(&T) -> Result<(), String>;

impl<T> Ranged<T> {
    /// Accepts all values.
    #[must_use]
    pub fn any() -> Ranged<T> {
        Ranged {
            range: None,
            check: Box::new(|_| Ok(())),
        }
    }

    /// Accepts only values within `range`.
    #[must_use]
    pub fn within<R: Display + 'static>(self, range: RangeInclusive<R>) -> Ranged<T>
    where
        T: Within<R>,
    {
        let words = range_words(&range);
        Ranged {
            range: Some(words.clone()),
            check: Box::new(move |value| match value.beyond(&range) {
                Some(value) => Err(format!("must be {words}, not {value}")),
                None => Ok(()),
            }),
        }
    }

    /// If there is a range, replaces the error for a number that the type cannot hold by one that gives the range.
    fn beyond_type<E: de::Error>(&self, error: E) -> E {
        let said = error.to_string();
        match (&self.range, wansan_mistake::beyond_type(&said)) {
            (Some(range), Some((number, _))) => E::custom(format!("must be {range}, not {number}")),
            _ => error,
        }
    }
}

impl<'de, T: Deserialize<'de>> Ranged<T> {
    /// Checks that `value` can be read.
    ///
    /// # Errors
    /// A description of what is wrong with the value.
    pub fn read(self, value: Value) -> Result<(), String> {
        read_seed(self, value).map(drop)
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Ranged<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        let value = T::deserialize(Worded(deserializer));
        let value = value.map_err(|error| self.beyond_type(error))?;
        (self.check)(&value).map_err(de::Error::custom)?;
        Ok(value)
    }
}

/// A value that can be checked against a range of `R`.
pub trait Within<R> {
    /// The value, if it is present and outside `range`.
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

/// Rejects two settings, each given with its key, that cannot be used together, if both were given and differ from
/// their defaults.
///
/// # Errors
/// A message that names both.
pub fn check_alternatives<T: Settings, E: de::Error>(
    one: (&str, &impl Serialize),
    other: (&str, &impl Serialize),
) -> Result<(), E> {
    let values = [
        (one.0, serde_json::to_value(one.1)),
        (other.0, serde_json::to_value(other.1)),
    ];
    let rows = T::rows();
    let says = |(key, value): &(&str, serde_json::Result<Value>)| match value {
        Ok(Value::Null) | Err(_) => false,
        Ok(value) => rows
            .iter()
            .any(|row| row.key == *key && row.default.as_ref() != Some(value)),
    };
    if values.iter().all(says) {
        let (one, other) = (one.0, other.0);
        return Err(E::custom(format!(
            "`{one}` cannot be used with `{other}`: remove one"
        )));
    }
    Ok(())
}

/// Whether the value is null, and so not written.
pub fn is_none(value: &impl Serialize) -> bool {
    matches!(serde_json::to_value(value), Ok(Value::Null))
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
            crate::read_json::<Listener>(json.as_bytes(), "JSON").unwrap(),
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
                "line 2: `flows`: must be 1 to 100, not 0",
            ),
            (
                "listen = \"a\"\nflows = 4294967296",
                "line 2: `flows`: must be 1 to 100, not 4294967296",
            ),
            (
                "listen = \"a\"\nflows = 99999999999999999999",
                "line 2: `flows`: must be 1 to 100, not 99999999999999999999",
            ),
            (
                "listen = \"a\"\n[in]\n\nbuffer = \"1B\"",
                "line 4: `in.buffer`: must be 1KiB to 1MiB, not 1B",
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
        let read = |text: &str| crate::read_json::<Listener>(text.as_bytes(), "the object");
        for (text, said) in [
            ("{}", "the object lacks `listen`"),
            (
                r#"{"listen":"a","in":{"bufer":1}}"#,
                "unknown key `bufer` in `in`; did you mean `buffer`?",
            ),
            (
                r#"{"listen":"a","in":{"buffer":"1B"}}"#,
                "`in.buffer`: must be 1KiB to 1MiB, not 1B",
            ),
            (
                r#"{"listen":"a","flows":-1}"#,
                "`flows`: must be 1 to 100, not -1",
            ),
            (
                r#"{"listen":"a","flows":99999999999999999999}"#,
                "`flows`: must be 1 to 100, not 1e+20",
            ),
            (
                r#"{"listen":"a","flows":1.5}"#,
                "`flows`: found floating point `1.5`, expected a whole number",
            ),
            (
                "{\"listen\":\"a\",\n\"listen\":\"b\"}",
                "`listen` stands twice in the object: remove one",
            ),
            (
                "{\"listen\":\n",
                "no JSON object: EOF while parsing a value at line 2 column 0",
            ),
            (
                r#"{"listen":"a","flows":101}"#,
                "`flows`: must be 1 to 100, not 101",
            ),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), said);
        }
    }

    settings! {
        /// Who is admitted.
        #[derive(Debug, PartialEq)]
        struct Admitted {
            /// Their numbers
            pub numbers: Option<Vec<u8>>;
        }
    }

    #[test]
    fn an_empty_list_is_another_one_than_none() {
        for (json, numbers) in [("{}", None), (r#"{"numbers":[]}"#, Some(Vec::new()))] {
            let read = crate::read_json::<Admitted>(json.as_bytes(), "the object").unwrap();
            assert_eq!(read.numbers, numbers);
            assert_eq!(serde_json::to_string(&read).unwrap(), json);
        }
    }

    settings! {
        /// A meter's.
        #[derive(Debug, PartialEq)]
        struct Meter {
            /// Each one
            pub sides: Vec<Side> = Vec::new(), of Side;
            /// How long
            pub time: Option<Span>, "TIME", without count;
            /// How often
            pub count: u32 = 1, in 1..=9, "N";
        }
    }

    #[test]
    fn what_stands_in_lists_has_its_place_in_json_and_its_header_in_files() {
        let json = r#"{"sides":[{},{"buffer":"1B"}]}"#;
        let said = crate::read_json::<Meter>(json.as_bytes(), "the object").unwrap_err();
        assert_eq!(said.text, "`sides[1].buffer`: must be 1KiB to 1MiB, not 1B");
        for (text, said) in [
            (
                "\n[sides]\nbuffer = \"1MiB\"",
                "line 2: there can be several `sides`: write [[sides]], not [sides]",
            ),
            (
                "[[sides]]\n[[sides]]\nbuffer = \"1B\"",
                "line 3: `sides.buffer`: must be 1KiB to 1MiB, not 1B",
            ),
        ] {
            let mistake = wansan_mistake::read::<Meter>(text, "the file").unwrap_err();
            assert_eq!(mistake.to_string(), said);
        }
        let mistake = read("listen = \"a\"\n[[in]]").unwrap_err();
        assert_eq!(mistake, "line 2: there is one `in`: write [in], not [[in]]");
    }

    #[test]
    fn only_one_of_two_settings_is_given() {
        let read = |json: &str| crate::read_json::<Meter>(json.as_bytes(), "the object");
        for both in [r#"{"time":"1s","count":2}"#, r#"{"count":2,"time":"1s"}"#] {
            let said = read(both).unwrap_err().text;
            assert_eq!(said, "`time` cannot be used with `count`: remove one");
        }
        // As in complete settings that a program passes on.
        for one in [r#"{"time":"1s","count":1}"#, r#"{"time":null,"count":2}"#] {
            read(one).unwrap();
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
