//! One setting, as pages and command lines see it.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::table::Ranged;

/// A setting.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its key in files.
    pub key: &'static str,
    /// What it is for, in sentences of which the last has no full stop.
    pub about: String,
    /// What a value is called in help, such as `BYTES`; of a table, the heading in help.
    pub value: Option<&'static str>,
    /// What command lines call it where that is not its key; of a table, the prefix of its settings.
    pub option: Option<&'static str>,
    /// The heading that it stands under in help, where that is not that of all.
    pub heading: Option<&'static str>,
    /// What it is when it is not given.
    pub default: Option<Value>,
    /// The key of the setting that it cannot be used with.
    pub rival: Option<&'static str>,
    /// Between which values it has to be.
    pub range: Option<String>,
    /// What its value looks like.
    pub shape: Shape,
    /// Whether it has to be given.
    pub is_required: bool,
    /// The settings in it, when it is a table or a list of tables.
    pub rows: Vec<Row>,
    read: fn(Value) -> Result<(), String>,
}

/// What a value looks like in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// On or off. An option without a value where [`Row::value`] names none.
    Flag,
    /// A whole number.
    Number,
    /// Text in quotes.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of such.
    List(Box<Shape>),
    /// A table.
    Table,
}

impl Row {
    /// Its name on command lines, without hyphens before it.
    #[must_use]
    pub fn option(&self) -> String {
        self.option
            .map_or_else(|| self.key.replace('_', "-"), str::to_owned)
    }

    /// What a file would have where a command line has these words.
    ///
    /// # Errors
    /// When they are no value of it: what would be.
    pub fn json(&self, words: &[&str]) -> Result<Value, String> {
        let value = self.shape.json(words);
        let checked = value.and_then(|value| (self.read)(value.clone()).map(|()| value));
        checked.map_err(|error| match &self.range {
            Some(range) if !error.contains(range) => format!("{error}; give {range}"),
            _ => error,
        })
    }

    #[doc(hidden)]
    pub fn set_default<T: Serialize>(&mut self, default: &T) {
        self.default = serde_json::to_value(default)
            .ok()
            .filter(|value| !value.is_null());
    }

    #[doc(hidden)]
    pub fn set_range<R: Display>(
        &mut self,
        range: &RangeInclusive<R>,
        read: fn(Value) -> Result<(), String>,
    ) {
        self.range = Some(range_words(range));
        self.read = read;
    }
}

impl Shape {
    fn json(&self, words: &[&str]) -> Result<Value, String> {
        let [word] = words else {
            let Shape::List(each) = self else {
                return Err("give it once".to_owned());
            };
            let each = words.iter().map(|word| each.json(&[word]));
            return each.collect();
        };
        Ok(match self {
            Shape::Flag => crate::flag::read(word)?.into(),
            Shape::Number => {
                let number: i128 = word
                    .parse()
                    .map_err(|_| format!("`{word}` is not a whole number"))?;
                let json = serde_json::Number::from_i128(number);
                json.ok_or_else(|| format!("`{word}` is too large"))?.into()
            }
            Shape::Text | Shape::Choice(_) => Value::from(*word),
            Shape::List(each) => Value::Array(vec![each.json(&[word])?]),
            Shape::Table => return Err("a table has no place in a command line".to_owned()),
        })
    }
}

/// The key of a field.
#[must_use]
pub fn key(field: &'static str) -> &'static str {
    field.strip_prefix("r#").unwrap_or(field)
}

/// The row of a field of that type.
#[must_use]
pub fn row<T: DeserializeOwned>(field: &'static str, about: &[&str]) -> Row {
    let about: Vec<&str> = about.iter().map(|line| line.trim()).collect();
    let key = key(field);
    let absent: Result<T, de::value::Error> = crate::absent::absent(key);
    Row {
        key,
        about: about.join(" "),
        value: None,
        option: None,
        heading: None,
        default: None,
        rival: None,
        range: None,
        shape: shape::<T>(),
        is_required: absent.is_err(),
        rows: Vec::new(),
        read: |value| Ranged::<T>::any().read(value),
    }
}

/// A range, for pages and mistakes.
pub(crate) fn range_words<R: Display>(range: &RangeInclusive<R>) -> String {
    format!("{} to {}", range.start(), range.end())
}

/// What a value of `T` looks like: what it asks a deserializer for.
fn shape<'de, T: Deserialize<'de>>() -> Shape {
    match T::deserialize(Probe) {
        Err(Asked(Some(shape))) => shape,
        Ok(_) | Err(Asked(None)) => Shape::Text,
    }
}

/// A deserializer that has no value, and fails with what it was asked for.
struct Probe;

#[derive(Debug)]
struct Asked(Option<Shape>);

impl Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nothing is read")
    }
}

impl std::error::Error for Asked {}

impl de::Error for Asked {
    fn custom<T: Display>(_: T) -> Self {
        Asked(None)
    }
}

fn asked<T>(shape: Shape) -> Result<T, Asked> {
    Err(Asked(Some(shape)))
}

macro_rules! probe {
    ($($method:ident)* => $shape:expr) => {$(
        fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Asked> {
            asked($shape)
        }
    )*};
}

impl<'de> Deserializer<'de> for Probe {
    type Error = Asked;

    probe!(deserialize_any => Shape::Text);
    probe!(deserialize_bool => Shape::Flag);
    probe!(
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 => Shape::Number
    );
    probe!(deserialize_map => Shape::Table);

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Asked> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Asked> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Asked> {
        visitor.visit_seq(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Asked> {
        asked(Shape::Choice(variants))
    }

    forward_to_deserialize_any! {
        i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple tuple_struct struct
        identifier ignored_any
    }
}

impl<'de> SeqAccess<'de> for Probe {
    type Error = Asked;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Asked> {
        seed.deserialize(Probe).map(Some).map_err(|Asked(shape)| {
            Asked(Some(Shape::List(Box::new(shape.unwrap_or(Shape::Text)))))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::{Iops, Size};

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Where {
        InData,
        Separate,
    }

    #[test]
    fn a_type_says_what_its_values_look_like() {
        assert_eq!(shape::<bool>(), Shape::Flag);
        assert_eq!(shape::<Option<u16>>(), Shape::Number);
        assert_eq!(shape::<Size>(), Shape::Text);
        let either = Shape::Choice(&["in-data", "separate"]);
        assert_eq!(shape::<Where>(), either);
        assert_eq!(shape::<Vec<Where>>(), Shape::List(Box::new(either)));
        let _ = (Where::InData, Where::Separate);
    }

    #[test]
    fn words_become_what_a_file_would_have() {
        let json = |row: Row, words: &[&str]| row.json(words).map_err(|error| error.to_string());
        assert_eq!(json(row::<Option<u16>>("n", &[]), &["7"]), Ok(7.into()));
        assert_eq!(json(row::<Iops>("rate", &[]), &["500"]), Ok("500".into()));
        let list = json(row::<Vec<Size>>("sizes", &[]), &["1KiB", "2B"]);
        assert_eq!(list, Ok(vec!["1KiB", "2B"].into()));
        assert_eq!(
            json(row::<Where>("where", &[]), &["in-dat"]),
            Err("`in-dat` is unknown; did you mean `in-data`?".to_owned())
        );
        let mut ranged = row::<u16>("n", &[]);
        ranged.set_range(&(1..=1024_u16), |value| {
            Ranged::<u16>::any().within(1..=1024_u16).read(value)
        });
        for (word, said) in [
            ("70000", "must be 1 to 1024, not 70000"),
            ("0", "must be 1 to 1024, not 0"),
            ("-1", "must be 1 to 1024, not -1"),
            ("one", "`one` is not a whole number; give 1 to 1024"),
            (
                "99999999999999999999",
                "`99999999999999999999` is too large; give 1 to 1024",
            ),
        ] {
            assert_eq!(json(ranged.clone(), &[word]).unwrap_err(), said);
        }
    }
}
