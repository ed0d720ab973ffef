//! `capture`: which packets of a path are captured.

use std::fmt;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// `capture = true`, or `capture = ["link", "loss"]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum CaptureWish {
    /// The whole path, or nothing.
    Path(bool),
    /// These elements of it.
    Elements(Vec<String>),
}

impl CaptureWish {
    /// Whether anything is captured.
    #[must_use]
    pub fn is_any(&self) -> bool {
        *self != CaptureWish::Path(false)
    }
}

impl Default for CaptureWish {
    fn default() -> Self {
        CaptureWish::Path(false)
    }
}

impl<'de> Deserialize<'de> for CaptureWish {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FlagOrList)
    }
}

struct FlagOrList;

impl<'de> Visitor<'de> for FlagOrList {
    type Value = CaptureWish;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false, or a list of elements such as [\"link\", \"loss\"]")
    }

    fn visit_bool<E: de::Error>(self, path: bool) -> Result<Self::Value, E> {
        Ok(CaptureWish::Path(path))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            elements.push(element);
        }
        Ok(CaptureWish::Elements(elements))
    }
}
