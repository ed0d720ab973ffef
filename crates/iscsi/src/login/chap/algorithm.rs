//! The hash functions of CHAP.

use core::fmt;

use md5::Md5;
use sha1::Sha1;
use sha2::Sha256;
use sha2::digest::Digest;
use sha3::Sha3_256;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::{AccountError, Secret};

/// A hash function, by its IANA number as a PPP authentication algorithm (RFC 7143 §12.1.3 names MD5; the others were
/// registered later).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// MD5 (RFC 1994).
    Md5 = 5,
    /// SHA-1.
    Sha1 = 6,
    /// SHA-256.
    Sha256 = 7,
    /// SHA3-256.
    Sha3_256 = 8,
}

impl Algorithm {
    /// All, the strongest first.
    pub const ALL: [Algorithm; 4] = [
        Algorithm::Sha3_256,
        Algorithm::Sha256,
        Algorithm::Sha1,
        Algorithm::Md5,
    ];

    /// The number in CHAP_A.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The algorithm of this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        let has_number = |algorithm: &Algorithm| u32::from(algorithm.number()) == number;
        Self::ALL.into_iter().find(has_number)
    }

    /// Checks that a list of allowed algorithms has at least one, and each once.
    pub(super) fn check_list(list: &[Algorithm]) -> Result<(), AccountError> {
        if list.is_empty() {
            return Err(AccountError::NoAlgorithm);
        }
        let mut behind = list;
        while let Some((first, rest)) = behind.split_first() {
            if rest.contains(first) {
                return Err(AccountError::SameAlgorithm { algorithm: *first });
            }
            behind = rest;
        }
        Ok(())
    }

    /// The response to a challenge (RFC 1994 §4.1): the hash of the identifier, the secret and the
    /// challenge.
    pub(super) fn response(self, identifier: u8, secret: &Secret, challenge: &[u8]) -> Response {
        match self {
            Algorithm::Md5 => hash::<Md5>(identifier, secret, challenge),
            Algorithm::Sha1 => hash::<Sha1>(identifier, secret, challenge),
            Algorithm::Sha256 => hash::<Sha256>(identifier, secret, challenge),
            Algorithm::Sha3_256 => hash::<Sha3_256>(identifier, secret, challenge),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Algorithm::Md5 => "MD5",
            Algorithm::Sha1 => "SHA-1",
            Algorithm::Sha256 => "SHA-256",
            Algorithm::Sha3_256 => "SHA3-256",
        })
    }
}

fn hash<D: Digest>(identifier: u8, secret: &Secret, challenge: &[u8]) -> Response {
    let mut digest = D::new();
    digest.update([identifier]);
    digest.update(secret.bytes());
    digest.update(challenge);
    Response(Zeroizing::new(digest.finalize().to_vec()))
}

/// The correct response: as sensitive as the secret until its challenge is forgotten.
pub(super) struct Response(Zeroizing<Vec<u8>>);

impl Response {
    /// Whether the peer's response equals this one. Constant time.
    pub(super) fn is(&self, said: &[u8]) -> bool {
        self.0.as_slice().ct_eq(said).into()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}
