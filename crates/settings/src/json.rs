//! Settings in JSON.

use std::io::Read;

use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::Value;
use serde_json::error::Category;
use serde_path_to_error::{Deserializer, Track};
use wansan_mistake::Mistake;

/// Reads settings from JSON, byte by byte, so that input after the object remains unread. `whole` names the object in
/// mistakes, for example "the object".
///
/// # Errors
/// The first mistake found.
pub fn read_json<T: DeserializeOwned>(from: impl Read, whole: &str) -> Result<T, Mistake> {
    let mut json = serde_json::Deserializer::from_reader(from);
    serde_path_to_error::deserialize(&mut json).map_err(|error| said(&error, whole))
}

/// Like [`read_json`], from a parsed value.
///
/// # Errors
/// The first mistake found.
pub fn read_value<T: DeserializeOwned>(value: Value, whole: &str) -> Result<T, Mistake> {
    serde_path_to_error::deserialize(value).map_err(|error| said(&error, whole))
}

/// Reads one value.
///
/// # Errors
/// A description of what is wrong with the value.
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
    // The mistake has the key, which already gives the position.
    let place = format!(" at line {} column {}", inner.line(), inner.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    Mistake::from_json(text, error.path(), whole)
}
