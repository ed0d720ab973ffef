//! Numbers and lists of a plan that have bounds, and the quantities of settings.

use serde::Deserialize;
use serde::de::{self, Deserializer};

pub use wansan_settings::quantity::{Iops, QueueBound, Rate, Share, Size, Span};

/// A whole number between two bounds, for `deserialize_with`.
pub(super) fn whole<'de, const LEAST: u32, const MOST: u32, D>(
    deserializer: D,
) -> Result<u32, D::Error>
where
    D: Deserializer<'de>,
{
    let number = i64::deserialize(deserializer)?;
    u32::try_from(number)
        .ok()
        .filter(|number| (LEAST..=MOST).contains(number))
        .ok_or_else(|| de::Error::custom(format!("{number} is not within {LEAST} to {MOST}")))
}

/// A list of just so many values, for `deserialize_with`.
pub(super) fn exactly<'de, T, D, const COUNT: usize>(
    deserializer: D,
) -> Result<[T; COUNT], D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let values = Vec::deserialize(deserializer)?;
    let found = values.len();
    values
        .try_into()
        .map_err(|_| de::Error::custom(format!("{found} values, where {COUNT} belong")))
}
