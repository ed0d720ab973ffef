//! `[paper]`: the publication whose experiment a plan rebuilds, and numbers that it gives.

use serde::{Deserialize, Serialize};

/// `[paper]`: what the plan rebuilds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperTable {
    /// Authors, title and year.
    pub title: String,
    /// Which of its figures or tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<String>,
    /// What it says without a number that could stand beside ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Where ours is different, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<String>,
    /// Numbers that it gives, to stand beside ours.
    #[serde(default)]
    pub known: Vec<KnownTable>,
}

/// `[[paper.known]]`: one number that the paper gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownTable {
    /// Dotted way into results.json, as in `[[expect]]`.
    pub metric: String,
    /// Which cells it is of: all, or those with these parameters.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub r#where: toml::Table,
    /// The number is a ratio to the metric's mean over the cells with these parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative_to: Option<toml::Table>,
    /// The number.
    pub value: toml::Value,
}
