//! Missing values.

use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::forward_to_deserialize_any;

/// The value of a setting that is not given and has no default: `None` for an option.
///
/// # Errors
/// If `T` is not an option: `key` is missing.
pub fn absent<'de, T: Deserialize<'de>, E: de::Error>(key: &'static str) -> Result<T, E> {
    T::deserialize(Absent(key, PhantomData))
}

struct Absent<E>(&'static str, PhantomData<E>);

impl<'de, E: de::Error> Deserializer<'de> for Absent<E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, E> {
        Err(E::missing_field(self.0))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_none()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
