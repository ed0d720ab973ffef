//! Settings of programs. A program's settings are one table ([`settings!`]), which declares the key, type, default,
//! range and description of each once. TOML files, JSON, command lines and reference pages are generated from it:
//!
//! - [`settings!`] defines a struct that serde reads and writes, and that rejects unknown keys;
//! - [`Settings::rows`] lists the settings, for pages and command lines; [`Row::json`] converts the words of a command
//!   line to the corresponding file value;
//! - [`address`] has listen addresses;
//! - [`quantity`] has values with units;
//! - [`record`] has the settings of recording, which several programs share.
//!
//! A plan embeds parts of a program's settings with `with`, optionally with other defaults.

mod absent;
pub mod address;
mod flag;
mod json;
pub mod quantity;
pub mod record;
mod row;
mod table;
mod text;
mod worded;

pub use json::{read_json, read_value};
pub use row::{Row, Shape};
pub use table::{Settings, given, usual};
pub use text::Text;

#[doc(hidden)]
pub mod macros {
    pub use crate::absent::absent;
    pub use crate::row::{key, row};
    pub use crate::table::{Key, Ranged, check_alternatives, is_none};
    pub use {serde, serde_json};
}
