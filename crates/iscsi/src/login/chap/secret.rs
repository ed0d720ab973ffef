//! Secrets, and their names.

use core::fmt;

use thiserror::Error;
use zeroize::Zeroizing;

use super::{Algorithm, MAX_NAME_BYTES};
use crate::fault::Fault;

/// The shortest secret accepted, in bytes. RFC 7143 §9.2.1 forbids a login with less than 96 bits unless IPsec is known
/// to protect the connection, which a program cannot determine.
pub const MIN_SECRET_BYTES: usize = 12;

/// The longest secret accepted, in bytes.
pub const MAX_SECRET_BYTES: usize = 255;

/// A secret. It is never printed, and is wiped from memory when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// A secret of [`MIN_SECRET_BYTES`] to [`MAX_SECRET_BYTES`].
    ///
    /// # Errors
    /// [`AccountError::SecretLength`].
    pub fn new(bytes: &[u8]) -> Result<Self, AccountError> {
        if (MIN_SECRET_BYTES..=MAX_SECRET_BYTES).contains(&bytes.len()) {
            Ok(Secret(Zeroizing::new(bytes.to_vec())))
        } else {
            Err(AccountError::SecretLength { bytes: bytes.len() })
        }
    }

    /// A substitute for the secret of an unknown name, so that the lookup of an unknown name takes as long as that of a
    /// known one.
    pub(super) fn decoy() -> Self {
        Secret(Zeroizing::new(vec![0; 16]))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A name (CHAP_N) and its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub(super) name: String,
    pub(super) secret: Secret,
}

impl Account {
    /// An account. The name has 1 to 255 bytes and no control characters.
    ///
    /// # Errors
    /// [`AccountError::Name`].
    pub fn new(name: &str, secret: Secret) -> Result<Self, AccountError> {
        let sound = (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.contains(char::is_control);
        if sound {
            Ok(Account {
                name: name.to_owned(),
                secret,
            })
        } else {
            Err(AccountError::Name)
        }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Why accounts are invalid. No variant contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AccountError {
    /// A secret of the wrong length.
    #[error(
        "the CHAP secret has {bytes} bytes; use {MIN_SECRET_BYTES} (96 bits, RFC 7143 §9.2.1) to {MAX_SECRET_BYTES} random bytes"
    )]
    SecretLength {
        /// Its length.
        bytes: usize,
    },
    /// An invalid name.
    #[error("a CHAP name has 1 to 255 bytes and no control characters")]
    Name,
    /// Two secrets for one name.
    #[error("duplicate CHAP name '{name}'; remove one")]
    Twice {
        /// The name.
        name: String,
    },
    /// The same secret for both directions.
    #[error(
        "the initiator and the target have the same CHAP secret, which allows reflection attacks; give each its own (RFC 7143 §9.2.1)"
    )]
    SameSecret,
    /// No initiator account.
    #[error("no CHAP account for initiators; a target that requires CHAP needs at least one")]
    Nobody,
    /// No hash function.
    #[error("no CHAP algorithm is allowed; allow at least one")]
    NoAlgorithm,
    /// One hash function, twice.
    #[error("duplicate CHAP algorithm {algorithm}; list each one once")]
    SameAlgorithm {
        /// The algorithm.
        algorithm: Algorithm,
    },
}

impl AccountError {
    /// Which side is at fault.
    #[must_use]
    pub fn fault(&self) -> Fault {
        Fault::CallerMisused
    }
}
