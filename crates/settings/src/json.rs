//! Settings in JSON.

use std::io::Read;

use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::Value;
use serde_json::error::Category;
use serde_path_to_error::{Deserializer, Track};
use wansan_mistake::Mistake;

/// Reads settings from JSON, a byte at a time: what follows the object is left there. `whole` is what it is
/// called in mistakes, such as "the object".
///
/// # Errors
/// The first mistake in it.
pub fn read_json<T: DeserializeOwned>(from: impl Read, whole: &str) -> Result<T, Mistake> {
    let mut json = serde_json::Deserializer::from_reader(from);
    serde_path_to_error::deserialize(&mut json).map_err(|error| said(&error, whole))
}

/// As [`read_json`], of a value.
///
/// # Errors
/// The first mistake in it.
pub fn read_value<T: DeserializeOwned>(value: Value, whole: &str) -> Result<T, Mistake> {
    serde_path_to_error::deserialize(value).map_err(|error| said(&error, whole))
}

/// Reads one value.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read_seed<'de, S: DeserializeSeed<'de>>(
    seed: S,
    value: Value,
) -> Result<S::Value, String> {
    let mut track = Track::new();
    let read = seed.deserialize(Deserializer::new(value, &mut track));
    read.map_err(|error: serde_json::Error| {
        Mistake::from_json(&error.to_string(), &track.path(), "").text
    })
}

fn said(error: &serde_path_to_error::Error<serde_json::Error>, whole: &str) -> Mistake {
    let inner = error.inner();
    let text = inner.to_string();
    if inner.classify() != Category::Data {
        return Mistake::new(format!("no JSON object: {text}"));
    }
    // The key says where it stands.
    let place = format!(" at line {} column {}", inner.line(), inner.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    Mistake::from_json(text, error.path(), whole)
}
