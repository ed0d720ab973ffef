//! Settings in JSON.

use serde::de::DeserializeOwned;
use serde_json::Value;
use wansan_mistake::Mistake;

/// Reads settings from JSON, which is called `whole` in mistakes, such as "standard input".
///
/// # Errors
/// The first mistake in it.
pub fn read_json<T: DeserializeOwned>(text: &str, whole: &str) -> Result<T, Mistake> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| Mistake::new(format!("no JSON object: {error}")))?;
    read_value(value, whole)
}

/// As [`read_json`], of a value.
///
/// # Errors
/// The first mistake in it.
pub fn read_value<T: DeserializeOwned>(value: Value, whole: &str) -> Result<T, Mistake> {
    serde_path_to_error::deserialize(value)
        .map_err(|error| Mistake::of_serde(&error.inner().to_string(), error.path(), whole))
}
