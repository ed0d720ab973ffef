//! The security stage (RFC 7143 §6.3.2, §12).

use crate::keys::{KeyName, Negotiation};

/// How the ends of a connection prove who they are. A method with an exchange of its own adds a
/// variant here, an element to the AuthMethod row of the table of keys, and the machines of its
/// exchange, which run where [`AuthMethod::in_force`] is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuthMethod {
    /// Not at all.
    None,
}

impl AuthMethod {
    /// The method that the negotiation has come to, the default where the security stage was
    /// skipped. `None` when the ends have no method in common.
    #[must_use]
    pub fn in_force(negotiation: &Negotiation) -> Option<Self> {
        if negotiation.is_refused(KeyName::AuthMethod) {
            return None;
        }
        match negotiation.chosen(KeyName::AuthMethod) {
            "None" => Some(AuthMethod::None),
            _ => None,
        }
    }
}
