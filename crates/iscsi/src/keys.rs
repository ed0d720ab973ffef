//! Login and text keys: one table, and everything derived from it (RFC 7143 §13).
//!
//! - [`table`] has a row per key: scope, sender and stage, value, rule and default;
//! - [`value`] parses and prints values and applies a rule to two of them;
//! - [`negotiation`] runs the negotiation of one connection, driven by the table;
//! - [`auth_method`] holds the values of AuthMethod;
//! - [`full_feature`] reads the keys that are sent after login;
//! - [`parameters`] are the settings before and after: [`Wanted`] holds this end's preferences, an
//!   [`Offer`](negotiation::Offer) what it sent, [`SessionParameters`] and [`ConnectionParameters`] are in force;
//! - [`page`] prints the table as `docs/reference/keys.md`.

pub mod auth_method;
pub mod full_feature;
pub mod negotiation;
pub mod page;
pub mod parameters;
pub mod table;
pub mod value;

pub use auth_method::AuthMethod;
pub use negotiation::{KeyError, Negotiation, Role};
pub use parameters::{
    ConnectionParameters, DigestKind, SessionParameters, SessionType, Wanted, WantedError,
};
pub use table::{Key, KeyName, TABLE};
