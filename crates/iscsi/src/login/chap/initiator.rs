//! The initiator's side of CHAP.

use std::sync::Arc;

use super::{
    Account, AccountError, Algorithm, AlgorithmList, Challenge, ChapError, Said, hexadecimal,
};
use crate::keys::KeyName;
use crate::text::push_pair;

/// An initiator's CHAP accounts: its own, and the target's for mutual authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitiatorAccounts {
    own: Account,
    target: Option<Account>,
    algorithms: Vec<Algorithm>,
}

impl InitiatorAccounts {
    /// The initiator's `own` account, the target's (for mutual authentication), and the allowed
    /// algorithms, in order of preference.
    ///
    /// # Errors
    /// [`AccountError::SameSecret`], [`NoAlgorithm`](AccountError::NoAlgorithm) and
    /// [`SameAlgorithm`](AccountError::SameAlgorithm).
    pub fn new(
        own: Account,
        target: Option<Account>,
        algorithms: Vec<Algorithm>,
    ) -> Result<Self, AccountError> {
        Algorithm::check_list(&algorithms)?;
        if target.as_ref().is_some_and(|t| t.secret == own.secret) {
            return Err(AccountError::SameSecret);
        }
        Ok(InitiatorAccounts {
            own,
            target,
            algorithms,
        })
    }
}

/// The initiator's side of one connection's exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitiatorChap {
    accounts: Arc<InitiatorAccounts>,
    challenge: Challenge,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The method is not negotiated yet.
    Idle,
    /// The algorithms are offered; the challenge is due.
    Offered,
    /// The challenge is answered; the target's response is due.
    Answered(Algorithm),
    /// The exchange is complete.
    Done,
}

impl InitiatorChap {
    /// Waits until the method is negotiated. `challenge` is for the target, for mutual
    /// authentication.
    #[must_use]
    pub fn new(accounts: Arc<InitiatorAccounts>, challenge: Challenge) -> Self {
        InitiatorChap {
            accounts,
            challenge,
            state: State::Idle,
        }
    }

    /// Whether a login without CHAP is unacceptable, because the target must authenticate itself.
    pub(in super::super) fn insists(&self) -> bool {
        self.accounts.target.is_some()
    }

    /// Whether this end has nothing more to send.
    pub(in super::super) fn has_said_all(&self) -> bool {
        matches!(self.state, State::Answered(_) | State::Done)
    }

    /// Whether both ends have authenticated themselves as required.
    pub(in super::super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes the target's keys and appends the answer.
    pub(in super::super) fn advance(
        &mut self,
        mut said: Said,
        answer: &mut Vec<u8>,
    ) -> Result<(), ChapError> {
        match self.state {
            State::Idle => {
                let numbers: Vec<String> = self
                    .accounts
                    .algorithms
                    .iter()
                    .map(|algorithm| algorithm.number().to_string())
                    .collect();
                push_pair(answer, "CHAP_A", &numbers.join(","));
                self.state = State::Offered;
            }
            State::Offered => self.respond(&mut said, answer)?,
            State::Answered(algorithm) => self.verify(algorithm, &mut said)?,
            State::Done => {}
        }
        said.must_be_empty()
    }

    fn respond(&mut self, said: &mut Said, answer: &mut Vec<u8>) -> Result<(), ChapError> {
        let allowed = &self.accounts.algorithms;
        let chosen = said.algorithms()?;
        let algorithm = match chosen[..] {
            [one] if allowed.contains(&one) => one,
            _ => {
                return Err(ChapError::NoAlgorithm {
                    own: AlgorithmList::new(allowed),
                });
            }
        };
        let identifier = said.identifier()?;
        let challenge = said.binary(KeyName::ChapC)?;
        let own = &self.accounts.own;
        let response = algorithm.response(identifier, &own.secret, &challenge);
        push_pair(answer, "CHAP_N", &own.name);
        push_pair(answer, "CHAP_R", &hexadecimal(response.bytes()));
        self.state = State::Done;
        if self.accounts.target.is_some() {
            if challenge == self.challenge.bytes {
                return Err(ChapError::Reflected { what: "challenge" });
            }
            push_pair(answer, "CHAP_I", &self.challenge.identifier.to_string());
            push_pair(answer, "CHAP_C", &hexadecimal(&self.challenge.bytes));
            self.state = State::Answered(algorithm);
        }
        Ok(())
    }

    fn verify(&mut self, algorithm: Algorithm, said: &mut Said) -> Result<(), ChapError> {
        let name = said.name()?;
        let response = said.binary(KeyName::ChapR)?;
        let Challenge { identifier, bytes } = &self.challenge;
        let right = |account: &Account| algorithm.response(*identifier, &account.secret, bytes);
        // §9.2.1: a response that this end itself would give proves nothing.
        if right(&self.accounts.own).is(&response) {
            return Err(ChapError::Reflected { what: "response" });
        }
        let target = self.accounts.target.as_ref();
        let proved = target.is_some_and(|target| {
            let agrees = right(target).is(&response);
            agrees & (target.name == name)
        });
        if !proved {
            return Err(ChapError::WrongTarget);
        }
        self.state = State::Done;
        Ok(())
    }
}
