//! Plans in JSON.

use serde::Serialize;
use serde_json::Value;

/// Part of a plan in the JSON form of manifests and results.
pub(crate) fn json(part: &impl Serialize) -> Value {
    serde_json::to_value(part).expect("a plan is plain data")
}
