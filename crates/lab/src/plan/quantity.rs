//! Lists of fixed length in a plan, and quantities of settings.

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

pub(super) use wansan_settings::quantity::Rate;
pub use wansan_settings::quantity::{QueueBound, Share, Size, Span};

/// A list of exactly `COUNT` values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exactly<T, const COUNT: usize>(pub [T; COUNT]);

impl<'de, T: Deserialize<'de>, const COUNT: usize> Deserialize<'de> for Exactly<T, COUNT> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = Vec::deserialize(deserializer)?;
        let found = values.len();
        let values = values.try_into().map(Exactly);
        values.map_err(|_| de::Error::custom(format!("{found} values, where {COUNT} belong")))
    }
}

impl<T: Serialize, const COUNT: usize> Serialize for Exactly<T, COUNT> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_slice().serialize(serializer)
    }
}
