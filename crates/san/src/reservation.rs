//! A disk that is reserved for this host: each session registers a key with it before it carries anything else, and the
//! hosts that have registered hold one reservation (Write Exclusive – All Registrants), beside which others only read.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::Serialize;
use wansan_iscsi::initiator::{Command, Completion, Transfer};
use wansan_iscsi::scsi::{AdditionalSense, Cdb, Keys, ReserveOut, Sense, SenseKey, cdb};
use wansan_iscsi::wire::{Lun, ScsiStatus};
use wansan_trace::{Instant, clock};
use wansan_workload::failure;

use crate::initiator::{Initiator, InitiatorError};
use crate::load::{address, command};

/// More unit attentions than a target queues, and more often than others register by chance at the same moment.
const TRIES: usize = 8;

/// The number of the commands here among those of a session.
const NUMBER: u64 = u64::MAX;

/// The key by which a host is known: `0x` and hexadecimal digits, or a decimal number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservationKey(NonZeroU64);

impl ReservationKey {
    /// As a number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl FromStr for ReservationKey {
    type Err = String;

    fn from_str(text: &str) -> Result<ReservationKey, String> {
        let number = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
            Some(digits) if digits.starts_with('+') => None,
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        let key = number.and_then(NonZeroU64::new).map(ReservationKey);
        key.ok_or_else(|| {
            format!(
                "`{text}` is no reservation key: write a number of 64 bits but 0, such as 0x1a2b"
            )
        })
    }
}

impl fmt::Display for ReservationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl Serialize for ReservationKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How sessions reserve their unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    /// The host's key.
    pub key: ReservationKey,
    /// What they do about others.
    pub claim: Claim,
}

/// What is done about keys of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The unit is left to them.
    Take,
    /// They are removed.
    Preempt,
    /// The unit was this host's already: it is left to them if they have removed this host's key meanwhile.
    Keep,
}

/// Keys, in words.
pub(crate) fn in_words(keys: &[u64]) -> String {
    /// More do not help the reader.
    const NAMED: usize = 8;
    let named = keys.iter().take(NAMED).map(|key| format!("{key:#x}"));
    let mut words = named.collect::<Vec<_>>().join(", ");
    if let Some(more @ 1..) = keys.len().checked_sub(NAMED) {
        words += &format!(" and {more} more");
    }
    words
}

/// Registers a session, which has nothing under way, with unit `lun`, and reserves that, all until `deadline`. After a
/// failure the session is not registered, unless it has failed itself or the unit is this host's already: without any key
/// it would seem to have been removed by another.
///
/// # Errors
/// The unit is another host's, cannot be reserved, or the session has failed.
pub(crate) fn hold(
    initiator: &mut Initiator,
    lun: u16,
    reservation: Reservation,
    deadline: Instant,
) -> Result<(), InitiatorError> {
    let mut nexus = Nexus::of(initiator, lun, reservation.key, deadline)?;
    nexus.keeps = reservation.claim == Claim::Keep;
    match reservation.claim {
        Claim::Take => nexus.take(false)?,
        Claim::Preempt => nexus.take(true)?,
        Claim::Keep => nexus.keep()?,
    }
    nexus.reserve()
}

/// Unregisters a session. Where that fails nothing can be done about it: the target keeps the key.
pub(crate) fn release(initiator: &mut Initiator, lun: u16, key: ReservationKey, deadline: Instant) {
    if let Ok(mut nexus) = Nexus::of(initiator, lun, key, deadline) {
        let _ = nexus.unregister();
    }
}

/// Unregisters every session with this host's key, also those that are lost, if no other host is registered; whether that
/// was done.
pub(crate) fn release_all(
    initiator: &mut Initiator,
    lun: u16,
    key: ReservationKey,
    deadline: Instant,
) -> bool {
    let mut clear = || {
        let mut nexus = Nexus::of(initiator, lun, key, deadline)?;
        let keys = nexus.keys()?;
        let is_alone = keys.has(key.get()) && keys.others(Some(key.get())).is_empty();
        let key = key.get();
        Ok::<_, InitiatorError>(is_alone && nexus.send(ReserveOut::Clear { key })? == Answer::Good)
    };
    clear().unwrap_or(false)
}

/// A session with the unit.
struct Nexus<'a> {
    initiator: &'a mut Initiator,
    at: Lun,
    lun: u16,
    portal: String,
    key: u64,
    deadline: Instant,
    /// [`Claim::Keep`].
    keeps: bool,
}

/// What came of a PERSISTENT RESERVE OUT.
#[derive(PartialEq, Eq)]
enum Answer {
    Good,
    /// RESERVATION CONFLICT.
    Conflict,
    /// It failed otherwise, and how.
    Failed {
        code: Option<AdditionalSense>,
        how: String,
    },
}

impl Nexus<'_> {
    fn of(
        initiator: &mut Initiator,
        lun: u16,
        key: ReservationKey,
        deadline: Instant,
    ) -> Result<Nexus<'_>, InitiatorError> {
        let portal = initiator.destination().portal();
        let at = address(lun).map_err(|error| InitiatorError::Unreservable {
            lun,
            portal: portal.clone(),
            problem: error.to_string(),
        })?;
        Ok(Nexus {
            initiator,
            at,
            lun,
            portal,
            key: key.get(),
            deadline,
            keeps: false,
        })
    }

    /// For the first time: of two hosts that come at once, both may see each other, and one does at least.
    fn take(&mut self, preempts: bool) -> Result<(), InitiatorError> {
        let others = self.keys()?.others(Some(self.key));
        if !preempts && !others.is_empty() {
            // They need not notice.
            return Err(self.reserved(others));
        }
        self.register()?;
        for _ in 0..TRIES {
            let keys = self.keys()?;
            if !keys.has(self.key) {
                return Err(self.preempted(&keys));
            }
            let others = keys.others(Some(self.key));
            if others.is_empty() {
                return Ok(());
            }
            if !preempts {
                self.unregister()?;
                return Err(self.reserved(others));
            }
            for other in others {
                self.preempt(other)?;
            }
        }
        self.give_up("other hosts register all the time".to_owned())
    }

    fn preempt(&mut self, other: u64) -> Result<(), InitiatorError> {
        let key = self.key;
        let mut preempt = |aborts| self.send(ReserveOut::Preempt { key, other, aborts });
        let answer = match preempt(true)? {
            // tgt has no PREEMPT AND ABORT.
            Answer::Failed {
                code: Some(AdditionalSense::INVALID_FIELD_IN_CDB),
                ..
            } => preempt(false)?,
            answer => answer,
        };
        match answer {
            // A conflict: either is not registered any more, which the next look tells.
            Answer::Good | Answer::Conflict => Ok(()),
            Answer::Failed { how, .. } => self.give_up(format!("PREEMPT of key {other:#x}: {how}")),
        }
    }

    /// When it had been registered before.
    fn keep(&mut self) -> Result<(), InitiatorError> {
        match self.send(ReserveOut::Renew { key: self.key })? {
            // Nothing can have come between.
            Answer::Good => return Ok(()),
            Answer::Failed { how, .. } => return Err(self.unreservable(how)),
            Answer::Conflict => {}
        }
        for _ in 0..TRIES {
            let before = self.keys()?;
            if !before.lets_back(self.key) {
                return Err(self.preempted(&before));
            }
            self.register()?;
            if self.keys()?.confirm(&before, self.key) {
                return Ok(());
            }
            self.unregister()?;
        }
        self.give_up("other hosts register all the time".to_owned())
    }

    fn reserve(&mut self) -> Result<(), InitiatorError> {
        match self.send(ReserveOut::Reserve { key: self.key })? {
            Answer::Good => return Ok(()),
            Answer::Failed { how, .. } => return self.give_up(format!("RESERVE: {how}")),
            Answer::Conflict => {}
        }
        let keys = self.keys()?;
        if !keys.has(self.key) {
            return Err(self.preempted(&keys));
        }
        self.give_up(
            "it has a reservation of another type than Write Exclusive – All Registrants: release that"
                .to_owned(),
        )
    }

    fn register(&mut self) -> Result<(), InitiatorError> {
        match self.send(ReserveOut::Register { key: self.key })? {
            Answer::Good => Ok(()),
            Answer::Conflict => Err(self.unreservable(BY_RESERVE_6.to_owned())),
            Answer::Failed { how, .. } => Err(self.unreservable(how)),
        }
    }

    fn unregister(&mut self) -> Result<(), InitiatorError> {
        // A conflict: it is not registered.
        self.send(ReserveOut::Unregister { key: self.key })
            .map(|_| ())
    }

    fn give_up(&mut self, problem: String) -> Result<(), InitiatorError> {
        if !self.keeps {
            self.unregister()?;
        }
        Err(self.unreservable(problem))
    }

    fn keys(&mut self) -> Result<Keys, InitiatorError> {
        let bytes = Keys::ANSWER_BYTES;
        let buffer = Transfer::Read(vec![0; bytes.into()]);
        let done = self.execute(cdb::persistent_reserve_in_keys(bytes), buffer)?;
        match answer(&done) {
            Answer::Good => Keys::parse(&done.transfer.into_buffer())
                .map_err(|malformed| self.unreservable(malformed.to_string())),
            Answer::Conflict => Err(self.unreservable(BY_RESERVE_6.to_owned())),
            Answer::Failed { how, .. } => Err(self.unreservable(how)),
        }
    }

    fn send(&mut self, out: ReserveOut) -> Result<Answer, InitiatorError> {
        let done = self.execute(out.cdb(), Transfer::Write(out.list()))?;
        Ok(answer(&done))
    }

    /// Carries out a command; pending unit attentions are cleared first.
    fn execute(&mut self, cdb: Cdb, transfer: Transfer) -> Result<Completion, InitiatorError> {
        let mut transfer = transfer;
        let mut left = TRIES;
        loop {
            let done = self.execute_once(command(self.at, cdb, transfer, NUMBER))?;
            left -= 1;
            let sense = sense(&done);
            if left == 0 || sense.is_none_or(|sense| sense.key != SenseKey::UnitAttention) {
                return Ok(done);
            }
            transfer = done.transfer;
        }
    }

    fn execute_once(&mut self, command: Command) -> Result<Completion, InitiatorError> {
        if self.initiator.submit(command, clock::now()).is_err() {
            return Err(self.unreservable("the session has too much under way".to_owned()));
        }
        loop {
            while let Some(done) = self.initiator.poll_completion(clock::now()) {
                // What was given up when the session is left may still be answered.
                if done.user == NUMBER {
                    return Ok(done);
                }
            }
            if clock::now() >= self.deadline {
                return Err(self.initiator.is_slow());
            }
            self.initiator.turn(self.deadline)?;
        }
    }

    fn reserved(&self, others: Vec<u64>) -> InitiatorError {
        InitiatorError::Reserved {
            lun: self.lun,
            portal: self.portal.clone(),
            others,
        }
    }

    fn preempted(&self, keys: &Keys) -> InitiatorError {
        InitiatorError::Preempted {
            lun: self.lun,
            key: self.key,
            others: keys.others(Some(self.key)),
        }
    }

    fn unreservable(&self, problem: String) -> InitiatorError {
        InitiatorError::Unreservable {
            lun: self.lun,
            portal: self.portal.clone(),
            problem,
        }
    }
}

const BY_RESERVE_6: &str = "another initiator has reserved it by RESERVE (6)";

fn answer(done: &Completion) -> Answer {
    let status = done.outcome.as_ref().ok().map(|answer| answer.status);
    let code = sense(done).map(|sense| sense.additional);
    let how = match (failure(done), code) {
        (None, _) => return Answer::Good,
        _ if status == Some(ScsiStatus::ReservationConflict) => return Answer::Conflict,
        (_, Some(AdditionalSense::INVALID_OPERATION_CODE)) => {
            "it has no persistent reservations; attach it without a reservation key".to_owned()
        }
        (Some(how), _) => how,
    };
    Answer::Failed { code, how }
}

fn sense(done: &Completion) -> Option<Sense> {
    Sense::parse(&done.outcome.as_ref().ok()?.sense).ok()
}

#[cfg(test)]
mod tests {
    use wansan_iscsi::initiator;
    use wansan_iscsi::wire::Residual;
    use wansan_trace::TaskTag;

    use super::*;

    #[test]
    fn a_unit_without_reservations_says_so() {
        let answered = |status, sense: Vec<u8>| {
            answer(&Completion {
                user: NUMBER,
                task: TaskTag(0),
                transfer: Transfer::None,
                outcome: Ok(initiator::Answer {
                    status,
                    sense,
                    residual: Residual::None,
                }),
            })
        };
        assert!(answered(ScsiStatus::Good, Vec::new()) == Answer::Good);
        assert!(answered(ScsiStatus::ReservationConflict, Vec::new()) == Answer::Conflict);
        let sense = Sense::illegal(AdditionalSense::INVALID_OPERATION_CODE);
        match answered(ScsiStatus::CheckCondition, sense.fixed().to_vec()) {
            Answer::Failed { how, .. } => assert!(how.contains("without a reservation key")),
            _ => panic!("it is taken for one with reservations"),
        }
    }

    #[test]
    fn a_key_is_a_number_but_0() {
        for (text, key) in [
            ("0x1a2b", 0x1a2b),
            ("0XFFFFFFFFFFFFFFFF", u64::MAX),
            ("42", 42),
        ] {
            let read = text.parse().map(ReservationKey::get);
            assert_eq!(read, Ok(key), "{text}");
        }
        for wrong in [
            "",
            "0",
            "0x",
            "0x0",
            "0x+1",
            "-1",
            "1a",
            "0x10000000000000000",
        ] {
            assert!(wrong.parse::<ReservationKey>().is_err(), "{wrong}");
        }
        let shown = "26".parse::<ReservationKey>().map(|key| key.to_string());
        assert_eq!(shown.as_deref(), Ok("0x1a"));
    }

    #[test]
    fn many_keys_are_told_in_few_words() {
        assert_eq!(in_words(&[1, 0xb]), "0x1, 0xb");
        let many: Vec<u64> = (1..=10).collect();
        assert!(in_words(&many).ends_with("0x8 and 2 more"));
    }
}
