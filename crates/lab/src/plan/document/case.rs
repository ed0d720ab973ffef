//! `[[case]]`: values that go together under one name.

use serde::{Deserialize, Serialize};

/// `[[case]]`: a named set of values. The sweep's axis `case` goes through them by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseTable {
    /// Its name, as the axis and `where` write it.
    pub name: String,
    /// The parameters that it sets, by dotted name.
    pub set: toml::Table,
}
