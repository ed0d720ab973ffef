//! What is on or off. Files and JSON say `true` or `false`, or the words of iSCSI and of other programs in
//! quotes; command lines say the words.

use std::fmt;

use serde::de::{self, Deserializer, Visitor};

/// What can be given.
const WORDS: &str = "true or false, on or off, yes or no";

/// Reads a word, in upper or lower case.
pub(crate) fn read(word: &str) -> Result<bool, String> {
    let is_one_of = |known: [&str; 3]| known.iter().any(|it| word.eq_ignore_ascii_case(it));
    if is_one_of(["true", "on", "yes"]) {
        return Ok(true);
    }
    if is_one_of(["false", "off", "no"]) {
        return Ok(false);
    }
    Err(format!("`{word}` is neither on nor off: give {WORDS}"))
}

/// A deserializer that takes words where a `bool` is asked for.
pub(crate) struct Worded<D>(pub(crate) D);

macro_rules! as_it_is {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Worded<D> {
    type Error = D::Error;

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(OnOrOff(visitor))
    }

    as_it_is! {
        deserialize_any deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32
        deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_option deserialize_unit deserialize_seq deserialize_map
        deserialize_identifier deserialize_ignored_any
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(len, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple_struct(name, len, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }
}

/// Gives a visitor of a `bool` what words mean.
struct OnOrOff<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for OnOrOff<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WORDS)
    }

    fn visit_bool<E: de::Error>(self, on: bool) -> Result<V::Value, E> {
        self.0.visit_bool(on)
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<V::Value, E> {
        self.0.visit_bool(read(word).map_err(E::custom)?)
    }
}

#[cfg(test)]
mod tests {
    use crate::settings;

    settings! {
        #[derive(Debug)]
        struct Sides {
            /// Whether there are any
            pub flag: bool = false;
        }
    }

    #[test]
    fn files_and_json_take_the_same_words() {
        for (value, on) in [
            ("true", Some(true)),
            ("false", Some(false)),
            ("\"on\"", Some(true)),
            ("\"OFF\"", Some(false)),
            ("\"Yes\"", Some(true)),
            ("\"no\"", Some(false)),
            ("\"True\"", Some(true)),
            ("\"maybe\"", None),
            ("1", None),
        ] {
            let toml = wansan_mistake::read::<Sides>(&format!("flag = {value}"), "the file");
            let json = format!("{{\"flag\": {value}}}");
            let json = crate::read_json::<Sides>(json.as_bytes(), "the object");
            for read in [toml, json] {
                match (read, on) {
                    (Ok(sides), Some(on)) => assert_eq!(sides.flag, on, "{value}"),
                    (Err(mistake), None) => {
                        let words = "true or false, on or off, yes or no";
                        assert!(mistake.text.contains(words), "{mistake}");
                    }
                    (read, _) => panic!("{value}: {read:?}"),
                }
            }
        }
    }
}
