//! CHAP: authentication by a shared secret that is never sent (RFC 1994, RFC 7143 §9.2.1 and
//! §12.1.3).
//!
//! The target sends a random challenge, and the initiator answers with the hash of the exchange's
//! identifier, the secret and the challenge. With mutual authentication the initiator then sends a
//! challenge of its own, which the target answers with another secret.
//!
//! - [`Secret`] and [`Account`]: credentials, in a form that is never printed;
//! - [`Algorithm`]: the hash functions;
//! - [`InitiatorAccounts`] with [`InitiatorChap`], and [`TargetAccounts`] with [`TargetChap`]: each end's credentials,
//!   and its side of one exchange.

mod algorithm;
mod initiator;
mod secret;
mod target;

pub use algorithm::Algorithm;
pub use initiator::{InitiatorAccounts, InitiatorChap};
pub use secret::{Account, AccountError, MAX_SECRET_BYTES, MIN_SECRET_BYTES, Secret};
pub use target::{TargetAccounts, TargetChap};

use core::fmt::Write;

use thiserror::Error;

use crate::fault::Fault;
use crate::keys::{KeyName, value};

/// Length of the challenges that this crate's ends send, in bytes: that of its longest hash.
pub const CHALLENGE_BYTES: usize = 32;

/// The longest challenge or response accepted, in bytes (RFC 7143 §12.1.3).
const MAX_BINARY_BYTES: usize = 1024;

/// The longest name accepted, in bytes (RFC 7143 §6.1: text values).
const MAX_NAME_BYTES: usize = 255;

/// A challenge of this end, for one exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Challenge {
    identifier: u8,
    bytes: [u8; CHALLENGE_BYTES],
}

impl Challenge {
    /// A challenge from bytes of a cryptographic random source. Use each once: a repeated challenge
    /// allows replay attacks (§9.2.1).
    #[must_use]
    pub fn from_random(random: [u8; CHALLENGE_BYTES + 1]) -> Self {
        let [identifier, bytes @ ..] = random;
        Challenge { identifier, bytes }
    }
}

/// Why a CHAP exchange failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ChapError {
    /// A required key is missing.
    #[error("{key} is missing from the CHAP exchange; the peer must send it (RFC 7143 §12.1.3)")]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// A key that is not allowed at this step.
    #[error("{key} is not allowed at this step of CHAP; the peer must follow RFC 7143 §12.1.3")]
    Unexpected {
        /// The key.
        key: &'static str,
    },
    /// A malformed value, or one that is too long.
    #[error("{key} has an invalid value; the peer must follow RFC 7143 §12.1.3")]
    BadValue {
        /// The key.
        key: &'static str,
    },
    /// No hash function in common.
    #[error(
        "no CHAP algorithm in common: this end allows {own}; allow another at either end (CHAP_A, \
         RFC 7143 §12.1.3)"
    )]
    NoAlgorithm {
        /// The algorithms that this end allows.
        own: AlgorithmList,
    },
    /// At the target: the name is unknown, or the response does not match its secret.
    #[error("the initiator's CHAP name or secret is wrong; compare the settings of both ends")]
    WrongInitiator,
    /// At the initiator: the target's name or response is not the expected one.
    #[error(
        "the target's CHAP name or secret is wrong; compare the settings of both ends, and check that this is the intended target"
    )]
    WrongTarget,
    /// The peer reflected this end's own challenge or response.
    #[error(
        "the peer reflected this end's own {what}: it does not know the secret; check which peer this is (RFC 7143 §9.2.1)"
    )]
    Reflected {
        /// Challenge or response.
        what: &'static str,
    },
    /// At the target: the initiator requests mutual authentication, and no account is configured.
    #[error(
        "the initiator requests mutual CHAP, but this target has no account for it; add one, or disable mutual CHAP at the initiator (RFC 7143 §12.1.3)"
    )]
    NothingToProveWith,
    /// At the initiator: the target accepted the login without authenticating itself.
    #[error(
        "the target did not authenticate itself by mutual CHAP; configure its account, or disable mutual CHAP \
         (RFC 7143 §12.1.3)"
    )]
    NotProved,
}

/// Algorithms, formatted for an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlgorithmList([Option<Algorithm>; Algorithm::ALL.len()]);

impl AlgorithmList {
    fn new(algorithms: &[Algorithm]) -> Self {
        let mut list = [None; Algorithm::ALL.len()];
        for (place, algorithm) in list.iter_mut().zip(algorithms) {
            *place = Some(*algorithm);
        }
        AlgorithmList(list)
    }
}

impl core::fmt::Display for AlgorithmList {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (number, algorithm) in self.0.iter().flatten().enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{algorithm}")?;
        }
        Ok(())
    }
}

impl ChapError {
    /// Which side is at fault.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            ChapError::Missing { .. }
            | ChapError::Unexpected { .. }
            | ChapError::BadValue { .. }
            | ChapError::Reflected { .. } => Fault::PeerMisbehaved,
            ChapError::NoAlgorithm { .. }
            | ChapError::WrongInitiator
            | ChapError::WrongTarget
            | ChapError::NothingToProveWith
            | ChapError::NotProved => Fault::PeerIncompatible,
        }
    }

    /// Whether the peer's text violated a rule, so that nothing has been compared yet.
    pub(super) fn is_about_form(&self) -> bool {
        matches!(
            self,
            ChapError::Missing { .. } | ChapError::Unexpected { .. } | ChapError::BadValue { .. }
        )
    }
}

/// The keys of CHAP in one text from the peer.
#[derive(Debug, Default)]
pub(super) struct Said(Vec<(KeyName, String)>);

impl Said {
    pub(super) fn new(pairs: Vec<(KeyName, String)>) -> Self {
        Said(pairs)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails when a key remains that was not taken.
    pub(super) fn must_be_empty(&self) -> Result<(), ChapError> {
        match self.0.first() {
            Some((name, _)) => Err(ChapError::Unexpected {
                key: name.key().text,
            }),
            None => Ok(()),
        }
    }

    fn has(&self, name: KeyName) -> bool {
        self.0.iter().any(|(said, _)| *said == name)
    }

    fn take(&mut self, name: KeyName) -> Result<String, ChapError> {
        let place = self.0.iter().position(|(said, _)| *said == name);
        let key = name.key().text;
        let (_, value) = self.0.swap_remove(place.ok_or(ChapError::Missing { key })?);
        Ok(value)
    }

    /// CHAP_A: the known algorithms, in the peer's order. Others are skipped.
    fn algorithms(&mut self) -> Result<Vec<Algorithm>, ChapError> {
        let bad = bad(KeyName::ChapA);
        let list = self.take(KeyName::ChapA)?;
        let numbers = list.split(',').map(|text| value::number(text).ok_or(bad));
        let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
        Ok(numbers
            .into_iter()
            .filter_map(Algorithm::from_number)
            .collect())
    }

    /// CHAP_I.
    fn identifier(&mut self) -> Result<u8, ChapError> {
        let number = value::number(&self.take(KeyName::ChapI)?);
        let identifier = number.and_then(|number| u8::try_from(number).ok());
        identifier.ok_or(bad(KeyName::ChapI))
    }

    /// CHAP_N.
    fn name(&mut self) -> Result<String, ChapError> {
        let name = self.take(KeyName::ChapN)?;
        let sound = (1..=MAX_NAME_BYTES).contains(&name.len());
        sound.then_some(name).ok_or(bad(KeyName::ChapN))
    }

    /// CHAP_C or CHAP_R.
    fn binary(&mut self, name: KeyName) -> Result<Vec<u8>, ChapError> {
        let bytes = value::binary(&self.take(name)?);
        let bytes = bytes.filter(|bytes| bytes.len() <= MAX_BINARY_BYTES);
        bytes.ok_or(bad(name))
    }
}

fn bad(name: KeyName) -> ChapError {
    ChapError::BadValue {
        key: name.key().text,
    }
}

/// Formats bytes as in text keys.
fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::from("0x");
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests;
