//! The target's side of CHAP.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::algorithm::Response;
use super::{
    Account, AccountError, Algorithm, AlgorithmList, Challenge, ChapError, Said, Secret,
    hexadecimal,
};
use crate::keys::KeyName;
use crate::text::push_pair;

/// A target's CHAP accounts: those of its initiators, and its own for mutual authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetAccounts {
    initiators: BTreeMap<String, Secret>,
    own: Option<Account>,
    algorithms: Vec<Algorithm>,
}

impl TargetAccounts {
    /// The accounts of the `initiators`, the target's own (for mutual authentication), and the allowed algorithms.
    ///
    /// # Errors
    /// [`AccountError::Nobody`], [`Twice`](AccountError::Twice),
    /// [`SameSecret`](AccountError::SameSecret), [`NoAlgorithm`](AccountError::NoAlgorithm) and
    /// [`SameAlgorithm`](AccountError::SameAlgorithm).
    pub fn new(
        initiators: Vec<Account>,
        own: Option<Account>,
        algorithms: Vec<Algorithm>,
    ) -> Result<Self, AccountError> {
        if initiators.is_empty() {
            return Err(AccountError::Nobody);
        }
        Algorithm::check_list(&algorithms)?;
        let mut known = BTreeMap::new();
        for Account { name, secret } in initiators {
            if own.as_ref().is_some_and(|own| own.secret == secret) {
                return Err(AccountError::SameSecret);
            }
            if known.insert(name.clone(), secret).is_some() {
                return Err(AccountError::Twice { name });
            }
        }
        Ok(TargetAccounts {
            initiators: known,
            own,
            algorithms,
        })
    }

    /// Whether `said` is the response of the account `name`. An unknown name takes as long as a wrong secret.
    fn recognise(&self, name: &str, said: &[u8], right: impl Fn(&Secret) -> Response) -> bool {
        let decoy = Secret::decoy();
        let secret = self.initiators.get(name);
        let agrees = right(secret.unwrap_or(&decoy)).is(said);
        agrees & secret.is_some()
    }
}

/// The target's side of one connection's exchange.
#[derive(Debug)]
pub struct TargetChap {
    accounts: Arc<TargetAccounts>,
    challenge: Challenge,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// CHAP_A is due.
    Algorithms,
    /// The challenge was sent.
    Response(Algorithm),
    /// The initiator has authenticated itself.
    Done,
}

impl TargetChap {
    /// Awaits the initiator's algorithms.
    #[must_use]
    pub fn new(accounts: Arc<TargetAccounts>, challenge: Challenge) -> Self {
        TargetChap {
            accounts,
            challenge,
            state: State::Algorithms,
        }
    }

    /// Whether the initiator has authenticated itself.
    pub(in super::super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes the initiator's keys and appends the answer.
    pub(in super::super) fn advance(
        &mut self,
        mut said: Said,
        answer: &mut Vec<u8>,
    ) -> Result<(), ChapError> {
        if said.is_empty() {
            return Ok(());
        }
        match self.state {
            State::Algorithms => self.challenge(&mut said, answer)?,
            State::Response(algorithm) => self.verify(algorithm, &mut said, answer)?,
            State::Done => {}
        }
        said.must_be_empty()
    }

    fn challenge(&mut self, said: &mut Said, answer: &mut Vec<u8>) -> Result<(), ChapError> {
        let allowed = &self.accounts.algorithms;
        let offered = said.algorithms()?;
        let chosen = offered.into_iter().find(|offer| allowed.contains(offer));
        let algorithm = chosen.ok_or_else(|| ChapError::NoAlgorithm {
            own: AlgorithmList::new(allowed),
        })?;
        push_pair(answer, "CHAP_A", &algorithm.number().to_string());
        push_pair(answer, "CHAP_I", &self.challenge.identifier.to_string());
        push_pair(answer, "CHAP_C", &hexadecimal(&self.challenge.bytes));
        self.state = State::Response(algorithm);
        Ok(())
    }

    fn verify(
        &mut self,
        algorithm: Algorithm,
        said: &mut Said,
        answer: &mut Vec<u8>,
    ) -> Result<(), ChapError> {
        let name = said.name()?;
        let response = said.binary(KeyName::ChapR)?;
        let wants_proof = said.has(KeyName::ChapI) || said.has(KeyName::ChapC);
        let question = if wants_proof {
            Some((said.identifier()?, said.binary(KeyName::ChapC)?))
        } else {
            None
        };
        let Challenge { identifier, bytes } = &self.challenge;
        let right = |secret: &Secret| algorithm.response(*identifier, secret, bytes);
        // §9.2.1: an initiator that gives the response of this target has the target's secret, or has made this target
        // compute it.
        let own = self.accounts.own.as_ref();
        if own.is_some_and(|own| right(&own.secret).is(&response)) {
            return Err(ChapError::Reflected { what: "response" });
        }
        if question.as_ref().is_some_and(|(_, theirs)| theirs == bytes) {
            return Err(ChapError::Reflected { what: "challenge" });
        }
        if !self.accounts.recognise(&name, &response, right) {
            return Err(ChapError::WrongInitiator);
        }
        if let Some((identifier, challenge)) = question {
            let own = own.ok_or(ChapError::NothingToProveWith)?;
            let response = algorithm.response(identifier, &own.secret, &challenge);
            push_pair(answer, "CHAP_N", &own.name);
            push_pair(answer, "CHAP_R", &hexadecimal(response.bytes()));
        }
        self.state = State::Done;
        Ok(())
    }
}
