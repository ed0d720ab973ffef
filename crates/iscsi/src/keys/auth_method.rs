//! Authentication methods of the security stage (RFC 7143 §6.3.2, §12).

use super::{KeyName, Negotiation};

/// Authentication methods of a connection. A method with an exchange of its own adds a variant here, an element to the
/// AuthMethod row of the table of keys, the keys of its exchange to that table, and the state machines of both ends,
/// such as [`chap`](crate::login::chap).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuthMethod {
    /// A shared secret (§12.1.3).
    Chap,
    /// No authentication.
    None,
}

impl AuthMethod {
    /// Its name in AuthMethod.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            AuthMethod::Chap => "CHAP",
            AuthMethod::None => "None",
        }
    }

    /// The negotiated method, the default where the security stage was skipped. `None` when the ends have no method in
    /// common.
    #[must_use]
    pub fn in_force(negotiation: &Negotiation) -> Option<Self> {
        if negotiation.is_refused(KeyName::AuthMethod) {
            return None;
        }
        let chosen = negotiation.chosen(KeyName::AuthMethod);
        [AuthMethod::Chap, AuthMethod::None]
            .into_iter()
            .find(|method| method.text() == chosen)
    }
}
