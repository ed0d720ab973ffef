//! Login and text keys: one table, and everything that follows from it (RFC 7143 §13).
//!
//! - [`table`] holds a row per key: scope, who sends it and when, value, rule and default;
//! - [`value`] reads and writes values and applies a rule to two of them;
//! - [`negotiation`] leads the negotiation of one connection, driven by the table;
//! - [`auth_method`] holds the values of AuthMethod;
//! - [`full_feature`] reads the keys that come after login;
//! - [`parameters`] are the settings before and after: [`Wanted`] is what this end would like, an
//!   [`Offer`](negotiation::Offer) is what it said, [`SessionParameters`] and
//!   [`ConnectionParameters`] are in force;
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
