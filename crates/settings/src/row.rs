//! One setting, as described to reference pages and command lines.

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
    /// Its description, in sentences; the last has no full stop.
    pub about: String,
    /// Placeholder for its value in help, such as `BYTES`; for a table, its heading in help.
    pub value: Option<&'static str>,
    /// Its name on command lines if not its key; for a table, the prefix of its settings' names.
    pub option: Option<&'static str>,
    /// Its heading in help, if not the general one.
    pub heading: Option<&'static str>,
    /// Its default value.
    pub default: Option<Value>,
    /// The key of a setting that it cannot be used with.
    pub rival: Option<&'static str>,
    /// Its permitted range, as text.
    pub range: Option<String>,
    /// The form of its value.
    pub shape: Shape,
    /// Whether it is required.
    pub is_required: bool,
    /// Its settings, if it is a table or a list of tables.
    pub rows: Vec<Row>,
    read: fn(Value) -> Result<(), String>,
}

/// The form of a value in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// On or off. On command lines, an option without a value if [`Row::value`] names none.
    Flag,
    /// A whole number.
    Number,
    /// Text in quotes.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of values of this form.
    List(Box<Shape>),
    /// A table.
    Table,
}

impl Row {
    /// Its name on command lines, without leading hyphens.
    #[must_use]
    pub fn option(&self) -> String {
        self.option
            .map_or_else(|| self.key.replace('_', "-"), str::to_owned)
    }

    /// Converts the words of a command line to the value that a file would have.
    ///
    /// # Errors
    /// If the words are not a valid value: a message that says what is.
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

/// The key of a field: its name without `r#`.
#[must_use]
pub fn key(field: &'static str) -> &'static str {
    field.strip_prefix("r#").unwrap_or(field)
}

/// The row of a field of type `T`.
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

/// A range as text, for pages and mistakes.
pub(crate) fn range_words<R: Display>(range: &RangeInclusive<R>) -> String {
    format!("{} to {}", range.start(), range.end())
}

/// The form of a value of `T`: the type that it requests from a deserializer.
fn shape<'de, T: Deserialize<'de>>() -> Shape {
    match T::deserialize(Probe) {
        Err(Asked(Some(shape))) => shape,
        Ok(_) | Err(Asked(None)) => Shape::Text,
    }
}

/// A deserializer without a value; its error is the form requested from it.
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
