//! Deserialization of words, the same for every format.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, SeqAccess, Visitor};

use crate::flag::OnOrOff;

/// A deserializer that accepts words for `bool`, and whose errors list the words that an enum accepts; also inside
/// lists and options.
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

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(OneOf { words, visitor })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_option(Inside(visitor))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_seq(Inside(visitor))
    }

    as_it_is! {
        deserialize_any deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32
        deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_unit deserialize_map
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
}

/// Passes a word to the visitor of an enum without data.
struct OneOf<V> {
    words: &'static [&'static str],
    visitor: V,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for OneOf<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {} in quotes", self.words.join(", "))
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<V::Value, E> {
        self.visitor.visit_enum(word.into_deserializer())
    }
}

/// Reads the contents of a list or option through [`Worded`] too.
struct Inside<T>(T);

impl<'de, V: Visitor<'de>> Visitor<'de> for Inside<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_none<E: de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Worded(deserializer))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Inside(list))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Inside<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Inside(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Inside<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Worded(deserializer))
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use crate::settings;

    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Place {
        InData,
        Separate,
    }

    settings! {
        #[derive(Debug)]
        struct Places {
            /// One
            pub one: Place = Place::InData;
            /// One, or none
            pub maybe: Option<Place>;
            /// Several
            pub several: Vec<Place> = Vec::new();
            /// On or off, or neither
            pub flag: Option<bool>;
        }
    }

    #[test]
    fn files_and_json_take_the_same_words() {
        use Place::{InData, Separate};
        let places = [
            wansan_mistake::read::<Places>(
                "one = \"separate\"\nmaybe = \"in-data\"\nseveral = [\"separate\"]\nflag = \"no\"",
                "the file",
            ),
            crate::read_json(
                &br#"{"one":"separate","maybe":"in-data","several":["separate"],"flag":"no"}"#[..],
                "the object",
            ),
        ];
        for places in places {
            let places = places.unwrap();
            assert_eq!((places.one, places.maybe), (Separate, Some(InData)));
            assert_eq!(
                (&places.several[..], places.flag),
                (&[Separate][..], Some(false))
            );
        }
    }

    #[test]
    fn what_is_no_word_is_told_which_there_are() {
        let words = "one of in-data, separate in quotes";
        for (key, value, part) in [
            ("one", "5", words),
            ("one", "true", words),
            ("one", "[\"separate\"]", words),
            ("maybe", "5", words),
            ("several", "[\"separate\", 5]", words),
            ("several", "5", "a list in [ ]"),
            ("one", "\"seperate\"", "did you mean `separate`?"),
            ("several", "[\"seperate\"]", "did you mean `separate`?"),
        ] {
            let toml = wansan_mistake::read::<Places>(&format!("{key} = {value}"), "the file");
            let json = format!("{{\"{key}\": {value}}}");
            let json = crate::read_json::<Places>(json.as_bytes(), "the object");
            for read in [toml, json] {
                let said = read.unwrap_err().text;
                assert!(
                    said.contains(part) && said.contains(key),
                    "{key} = {value}: {said}"
                );
            }
        }
    }
}
