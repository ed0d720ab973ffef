//! Settings of programs. A program's settings are one table ([`settings!`]): the key, the type, the
//! default, the range and the sentence of each stand once. Files in TOML, JSON, command lines and
//! reference pages are made of it:
//!
//! - [`settings!`] gives a struct that serde reads and writes, and that refuses unknown keys;
//! - [`Settings::rows`] lists the settings, for pages and command lines; [`Row::json`] turns the words
//!   of a command line into what a file would have in that place;
//! - [`address`] has those to serve at;
//! - [`quantity`] has the values that carry a unit;
//! - [`record`] has the settings of recording, which programs share.
//!
//! A plan embeds parts of a program's settings with `with`, under other defaults where it says so.

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
