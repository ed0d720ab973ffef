//! A disk reserved for this host: each session registers a key with it before any other command, and the registered
//! hosts share one reservation (Write Exclusive – All Registrants), which limits other hosts to reads.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use wansan_iscsi::initiator::{Command, Completion, Transfer};
use wansan_iscsi::scsi::{
    AdditionalSense, Cdb, HostKey, Keys, ReserveOut, Sense, SenseKey, cdb, parse_registrants,
};
use wansan_iscsi::wire::{Lun, ScsiStatus};
use wansan_trace::{Instant, clock};
use wansan_workload::failure;

use crate::initiator::{Initiator, InitiatorError};
use crate::load::{address, command};
pub use crate::multipath::Unit;

/// More unit attentions than a target queues, and more often than others register by chance at the same moment.
pub(crate) const TRIES: usize = 8;

/// Pause before repeating a command that the target will accept later.
const PAUSE: Duration = Duration::from_millis(100);

/// The key that stands for all registrants of such a reservation (SPC-4 5.13.11.4): with it, a host that is alive loses
/// all its routes at once. If its keys are removed one after another, it registers the first ones again as long as it
/// has others.
const ALL_REGISTRANTS: u64 = 0;

/// The tag of commands sent here.
const NUMBER: u64 = u64::MAX;

/// A host's key: `0x` and hexadecimal digits, or a decimal number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservationKey(HostKey);

impl ReservationKey {
    /// The key as registered.
    #[must_use]
    pub fn host(self) -> HostKey {
        self.0
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
        let key = number.and_then(HostKey::new).map(ReservationKey);
        key.ok_or_else(|| {
            format!(
                "`{text}` is no reservation key: write a number of 56 bits but 0, such as 0x1a2b"
            )
        })
    }
}

impl fmt::Display for ReservationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0.get())
    }
}

impl Serialize for ReservationKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How sessions reserve their unit.
#[derive(Debug, Clone)]
pub struct Reservation {
    /// The host's key.
    pub key: ReservationKey,
    /// How they treat other hosts.
    pub claim: Claim,
    /// Whether they may still register.
    pub registering: Registering,
}

impl Reservation {
    /// A message that `unit` may still have this host's key registered, and why.
    #[must_use]
    pub fn stays(&self, unit: &str, why: &str) -> String {
        let key = self.key;
        format!(
            "key {key} may still be registered with {unit}: {why}; to remove it, attach the disk with this key again and detach it"
        )
    }
}

/// How to treat keys of other hosts.
#[derive(Debug, Clone)]
pub enum Claim {
    /// Leave the unit to them.
    Take,
    /// Remove them.
    Preempt,
    /// This host held the unit already, and it is this one: leave it to others if they have removed this host's key
    /// meanwhile.
    Keep(Unit),
}

/// Serializes the registration of sessions with a unit, so that none takes another's key as proof that it may register,
/// and none registers after the unit was released. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Registering(Arc<Mutex<Stage>>);

/// The stage of registration.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    None,
    Begun,
    Over,
}

impl Registering {
    /// Waits until no other session is registering; holding it excludes others.
    ///
    /// # Errors
    /// The unit was released.
    pub(crate) fn turn(
        &self,
        lun: u16,
        portal: &str,
    ) -> Result<MutexGuard<'_, Stage>, InitiatorError> {
        let mut stage = self.stage();
        if *stage == Stage::Over {
            return Err(InitiatorError::Unreservable {
                lun,
                portal: portal.to_owned(),
                problem: "it is being detached".to_owned(),
            });
        }
        *stage = Stage::Begun;
        Ok(stage)
    }

    /// Releases the unit: waits until no session is registering, and prevents further ones. Returns whether one may
    /// have registered since this was created.
    #[must_use]
    pub fn end(&self) -> bool {
        std::mem::replace(&mut *self.stage(), Stage::Over) == Stage::Begun
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        // It holds nothing that a panic could have broken.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a session knows of its unit before it registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing: it is the host's first. It may remove keys of others if it `preempts`.
    Nothing {
        /// See above.
        preempts: bool,
    },
    /// The host's first session has just reserved it.
    Taken,
    /// The host held it; do not register if it no longer does.
    Held,
}

/// Formats keys.
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

/// The key of a session: its host's, and the index of its route.
pub(crate) type SessionKey = (ReservationKey, usize);

/// Registers an idle session with unit `lun`, and reserves the unit, all until `deadline`. After an error the session
/// is not registered, unless the session itself failed or the host held the unit [before](Before::Held): without any
/// key, another host would seem to have removed it.
///
/// # Errors
/// Another host holds the unit, it cannot be reserved, or the session failed.
pub(crate) fn hold(
    initiator: &mut Initiator,
    lun: u16,
    (key, before): (SessionKey, Before),
    deadline: Instant,
) -> Result<(), InitiatorError> {
    let mut nexus = Nexus::of(initiator, lun, key, deadline)?;
    nexus.before = before;
    match before {
        Before::Nothing { .. } => nexus.take()?,
        Before::Taken | Before::Held => nexus.keep()?,
    }
    nexus.reserve()
}

/// Unregisters an idle session.
///
/// # Errors
/// The target may still have the key.
pub(crate) fn release(
    initiator: &mut Initiator,
    lun: u16,
    key: SessionKey,
    deadline: Instant,
) -> Result<(), InitiatorError> {
    Nexus::of(initiator, lun, key, deadline)?.unregister()
}

/// Unregisters all sessions of this host except this one, including lost ones, and aborts their tasks. Keys of other
/// hosts stay. Only this session of the host may execute commands from then on.
///
/// # Errors
/// The target may still have the keys of some.
pub(crate) fn release_others(
    initiator: &mut Initiator,
    lun: u16,
    key: SessionKey,
    deadline: Instant,
) -> Result<(), InitiatorError> {
    let mut nexus = Nexus::of(initiator, lun, key, deadline)?;
    for _ in 0..TRIES {
        let mut left = nexus.keys()?.of(nexus.host);
        if let Some(own) = left.iter().position(|key| *key == nexus.key) {
            left.swap_remove(own);
        }
        if left.is_empty() {
            return Ok(());
        }
        for other in left {
            match nexus.try_preempt(other)? {
                Answer::Good => {}
                // Even if this session is not registered, the others must be removed, for which it may register: no
                // write of this host follows, whoever removed the key.
                Answer::Conflict => nexus.register()?,
                Answer::Failed { how, .. } => {
                    return Err(nexus.unreservable(format!("PREEMPT of key {other:#x}: {how}")));
                }
            }
        }
    }
    Err(nexus.unreservable("keys of this host stay registered".to_owned()))
}

/// A session with the unit.
struct Nexus<'a> {
    initiator: &'a mut Initiator,
    at: Lun,
    lun: u16,
    portal: String,
    host: HostKey,
    key: u64,
    deadline: Instant,
    before: Before,
    /// The target can keep registrations over a power loss.
    persists: bool,
}

/// Outcome of a PERSISTENT RESERVE OUT.
#[derive(PartialEq, Eq)]
pub(crate) enum Answer {
    Good,
    /// RESERVATION CONFLICT.
    Conflict,
    /// Any other failure.
    Failed {
        code: Option<AdditionalSense>,
        how: String,
    },
}

impl Nexus<'_> {
    fn of(
        initiator: &mut Initiator,
        lun: u16,
        (host, place): SessionKey,
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
            host: host.host(),
            key: host.host().of_route(place),
            deadline,
            before: Before::Held,
            persists: true,
        })
    }

    /// The first registration: of two hosts that register at once, both may see each other, and at least one does.
    fn take(&mut self) -> Result<(), InitiatorError> {
        let preempts = self.preempts();
        let others = self.keys()?.others(Some(self.host));
        if !preempts && !others.is_empty() {
            // They need not notice.
            return Err(self.reserved(others));
        }
        self.register()?;
        let (mut has_cleaned, mut has_preempted) = (false, false);
        for _ in 0..TRIES {
            let keys = self.keys()?;
            if !keys.has(self.host) {
                return Err(self.preempted(&keys));
            }
            let others = keys.others(Some(self.host));
            if !preempts && !others.is_empty() {
                self.unregister()?;
                return Err(self.reserved(others));
            }
            if keys.of(self.host).len() > 1 && !has_cleaned {
                has_cleaned = true;
                self.clean(&keys)?;
                continue;
            }
            if others.is_empty() {
                return Ok(());
            }
            let is_first = !std::mem::replace(&mut has_preempted, true);
            if is_first && self.try_preempt(ALL_REGISTRANTS)? == Answer::Good {
                continue;
            }
            for other in others {
                self.preempt(other)?;
            }
        }
        self.give_up("other hosts register all the time".to_owned())
    }

    /// Removes registrations left by this host's sessions that ended without unregistering.
    fn clean(&mut self, keys: &Keys) -> Result<(), InitiatorError> {
        let registrants = self.registrants()?;
        let own = &self.initiator.destination().config.name;
        if let Some(other) = registrants.into_iter().flatten().find(|name| name != own) {
            self.unregister()?;
            return Err(InitiatorError::SameKey {
                lun: self.lun,
                portal: self.portal.clone(),
                key: self.host.get(),
                initiator: other,
            });
        }
        let mut left = keys.of(self.host);
        // Its own key last: some targets remove this registration along with the others. There is at least one.
        left.sort_unstable_by_key(|key| (*key == self.key, *key));
        left.pop();
        left.dedup();
        for other in left {
            self.preempt(other)?;
        }
        self.register()
    }

    fn preempts(&self) -> bool {
        self.before == Before::Nothing { preempts: true }
    }

    fn preempt(&mut self, other: u64) -> Result<(), InitiatorError> {
        match self.try_preempt(other)? {
            // A conflict: one of the two is no longer registered, which the next READ KEYS shows.
            Answer::Good | Answer::Conflict => Ok(()),
            Answer::Failed { how, .. } => self.give_up(format!("PREEMPT of key {other:#x}: {how}")),
        }
    }

    fn try_preempt(&mut self, other: u64) -> Result<Answer, InitiatorError> {
        let key = self.key;
        let mut preempt = |aborts| self.send(ReserveOut::Preempt { key, other, aborts });
        match preempt(true)? {
            // tgt has no PREEMPT AND ABORT.
            Answer::Failed {
                code: Some(AdditionalSense::INVALID_FIELD_IN_CDB),
                ..
            } => preempt(false),
            answer => Ok(answer),
        }
    }

    /// For a host that was registered before.
    fn keep(&mut self) -> Result<(), InitiatorError> {
        let key = self.key;
        // If it is still registered, nobody can have intervened.
        if self.renew(key)? {
            return Ok(());
        }
        for _ in 0..TRIES {
            let before = self.keys()?;
            if !before.lets_back(self.host) {
                return Err(self.preempted(&before));
            }
            self.key = HostKey::unsure(key);
            self.register()?;
            if self.keys()?.confirm(&before, self.key) && self.renew(key)? {
                return Ok(());
            }
            self.unregister()?;
            self.key = key;
        }
        self.give_up("other hosts register all the time".to_owned())
    }

    /// Registers `next` in place of its key; false if that is no longer registered.
    fn renew(&mut self, next: u64) -> Result<bool, InitiatorError> {
        match self.send(ReserveOut::Renew {
            key: self.key,
            next,
        })? {
            Answer::Good => {
                self.key = next;
                Ok(true)
            }
            Answer::Conflict => Ok(false),
            Answer::Failed { how, .. } => self.give_up(how).map(|()| false),
        }
    }

    fn reserve(&mut self) -> Result<(), InitiatorError> {
        let mut answer = self.send(ReserveOut::Reserve { key: self.key })?;
        if answer == Answer::Conflict && self.preempts() {
            // A reservation for all registrants is this host's now, whatever its type.
            self.try_preempt(ALL_REGISTRANTS)?;
            answer = self.send(ReserveOut::Reserve { key: self.key })?;
        }
        match answer {
            Answer::Good => return Ok(()),
            Answer::Failed { how, .. } => return self.give_up(format!("RESERVE: {how}")),
            Answer::Conflict => {}
        }
        let keys = self.keys()?;
        if !keys.has(self.host) {
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
            Answer::Failed { code, how } => {
                // If LIO cannot write the key to its file, it registers it all the same, and unregisters it like this.
                self.send(ReserveOut::Unregister { key: self.key })?;
                Err(self.unreservable(match code {
                    Some(LOGICAL_UNIT_COMMUNICATION_FAILURE) => format!("{how}; {NO_FOLDER}"),
                    _ => how,
                }))
            }
        }
    }

    fn unregister(&mut self) -> Result<(), InitiatorError> {
        match self.send(ReserveOut::Unregister { key: self.key })? {
            // A conflict: it is not registered.
            Answer::Good | Answer::Conflict => Ok(()),
            Answer::Failed { how, .. } => {
                Err(self.unreservable(format!("key {:#x} stays registered: {how}", self.key)))
            }
        }
    }

    fn give_up(&mut self, problem: String) -> Result<(), InitiatorError> {
        if self.before != Before::Held {
            self.unregister()?;
        }
        Err(self.unreservable(problem))
    }

    /// Initiators that have registered this host's key, if the target names them.
    fn registrants(&mut self) -> Result<Vec<Option<String>>, InitiatorError> {
        /// Room for some hundred.
        const BYTES: u16 = 32 << 10;
        let buffer = Transfer::Read(vec![0; BYTES.into()]);
        let done = self.execute(cdb::persistent_reserve_in_full_status(BYTES), buffer)?;
        Ok(match answer(&done) {
            Answer::Good => {
                let registrants = parse_registrants(&done.transfer.into_buffer(), self.host);
                registrants.map_err(|malformed| self.unreservable(malformed.to_string()))?
            }
            // Not every target supports it.
            _ => Vec::new(),
        })
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
        if self.persists && out.registers() {
            match self.send_as(out, true)? {
                // Without APTPL, if the target has no place to keep it (PTPL_C 0).
                Answer::Failed { .. } => self.persists = false,
                answer => return Ok(answer),
            }
        }
        self.send_as(out, false)
    }

    fn send_as(&mut self, out: ReserveOut, persists: bool) -> Result<Answer, InitiatorError> {
        let done = self.execute(out.cdb(), Transfer::Write(out.list(persists)))?;
        Ok(answer(&done))
    }

    /// Executes a command, and repeats it where it was only deferred.
    fn execute(&mut self, cdb: Cdb, transfer: Transfer) -> Result<Completion, InitiatorError> {
        let mut transfer = transfer;
        let mut attentions = 0;
        loop {
            let done = self.execute_once(command(self.at, cdb, transfer, NUMBER))?;
            match put_off(&done) {
                Some(PutOff::Attention) if attentions < TRIES => attentions += 1,
                Some(PutOff::Busy) if clock::now() + PAUSE < self.deadline => thread::sleep(PAUSE),
                _ => return Ok(done),
            }
            transfer = done.transfer;
        }
    }

    fn execute_once(&mut self, command: Command) -> Result<Completion, InitiatorError> {
        if self.initiator.submit(command, clock::now()).is_err() {
            return Err(
                self.unreservable("the session has too many outstanding commands".to_owned())
            );
        }
        loop {
            while let Some(done) = self.initiator.poll_completion(clock::now()) {
                // Commands abandoned by an earlier caller may still be answered.
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
            key: self.host.get(),
            others: keys.others(Some(self.host)),
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

const LOGICAL_UNIT_COMMUNICATION_FAILURE: AdditionalSense = AdditionalSense {
    code: 0x08,
    qualifier: 0x00,
};

const NO_FOLDER: &str = "where the target is LIO, it has no folder for registrations: create /var/target/pr there, or /etc/target/pr if there is /etc/target";

const BY_RESERVE_6: &str = "another initiator has reserved it by RESERVE (6)";

/// Why a command has to be repeated.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PutOff {
    /// A unit attention was pending.
    Attention,
    /// The target accepts it later: it is busy, is saving a change of reservations, another initiator has reset the
    /// unit, or the unit is becoming ready.
    Busy,
}

pub(crate) fn put_off(done: &Completion) -> Option<PutOff> {
    /// LOGICAL UNIT IS IN PROCESS OF BECOMING READY, ASYMMETRIC ACCESS STATE TRANSITION.
    const PASSING: [u8; 2] = [0x01, 0x0a];
    match done.outcome.as_ref().ok()?.status {
        ScsiStatus::Busy | ScsiStatus::TaskSetFull | ScsiStatus::TaskAborted => Some(PutOff::Busy),
        ScsiStatus::CheckCondition => {
            let sense = sense(done)?;
            let AdditionalSense { code, qualifier } = sense.additional;
            match sense.key {
                SenseKey::UnitAttention => Some(PutOff::Attention),
                SenseKey::AbortedCommand => Some(PutOff::Busy),
                SenseKey::NotReady => {
                    (code == 0x04 && PASSING.contains(&qualifier)).then_some(PutOff::Busy)
                }
                _ => None,
            }
        }
        _ => None,
    }
}

pub(crate) fn answer(done: &Completion) -> Answer {
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

pub(crate) fn sense(done: &Completion) -> Option<Sense> {
    Sense::parse(&done.outcome.as_ref().ok()?.sense).ok()
}

#[cfg(test)]
mod tests {
    use wansan_iscsi::initiator;
    use wansan_iscsi::wire::Residual;
    use wansan_trace::TaskTag;

    use super::*;

    fn answered(status: ScsiStatus, sense: Option<Sense>) -> Completion {
        Completion {
            user: NUMBER,
            task: TaskTag(0),
            transfer: Transfer::None,
            outcome: Ok(initiator::Answer {
                status,
                sense: sense.map_or(Vec::new(), |sense| sense.fixed().to_vec()),
                residual: Residual::None,
            }),
        }
    }

    #[test]
    fn a_unit_without_reservations_says_so() {
        let answer = |status, sense| answer(&answered(status, sense));
        assert!(answer(ScsiStatus::Good, None) == Answer::Good);
        assert!(answer(ScsiStatus::ReservationConflict, None) == Answer::Conflict);
        let sense = Sense::illegal(AdditionalSense::INVALID_OPERATION_CODE);
        match answer(ScsiStatus::CheckCondition, Some(sense)) {
            Answer::Failed { how, .. } => assert!(how.contains("without a reservation key")),
            _ => panic!("it is taken for one with reservations"),
        }
    }

    #[test]
    fn what_is_only_put_off_is_known() {
        for status in [
            ScsiStatus::Busy,
            ScsiStatus::TaskSetFull,
            ScsiStatus::TaskAborted,
        ] {
            assert_eq!(put_off(&answered(status, None)), Some(PutOff::Busy));
        }
        let check = |key, code, qualifier| {
            let sense = Sense {
                key,
                additional: AdditionalSense { code, qualifier },
                ..Sense::illegal(AdditionalSense::INVALID_FIELD_IN_CDB)
            };
            put_off(&answered(ScsiStatus::CheckCondition, Some(sense)))
        };
        assert_eq!(
            check(SenseKey::UnitAttention, 0x29, 0),
            Some(PutOff::Attention)
        );
        assert_eq!(check(SenseKey::AbortedCommand, 0, 0), Some(PutOff::Busy));
        assert_eq!(check(SenseKey::NotReady, 0x04, 0x01), Some(PutOff::Busy));
        assert_eq!(check(SenseKey::NotReady, 0x04, 0x03), None, "for good");
        assert_eq!(check(SenseKey::IllegalRequest, 0x24, 0), None);
        assert_eq!(
            put_off(&answered(ScsiStatus::ReservationConflict, None)),
            None
        );
        assert_eq!(put_off(&answered(ScsiStatus::Good, None)), None);
    }

    #[test]
    fn none_registers_with_a_unit_that_was_left() {
        let registering = Registering::default();
        assert!(!registering.end(), "none has registered");
        assert!(registering.clone().turn(0, "portal").is_err());
        let registering = Registering::default();
        let same = registering.clone();
        let turn = registering.turn(0, "portal").expect("it is open");
        let left = thread::spawn(move || same.end());
        // Whenever the other thread runs, it waits for this lock.
        thread::sleep(Duration::from_millis(20));
        assert!(!left.is_finished());
        drop(turn);
        assert!(left.join().expect("no panic"), "one may have registered");
        assert!(registering.turn(0, "portal").is_err());
    }

    #[test]
    fn a_key_is_a_number_but_0() {
        for (text, key) in [
            ("0x1a2b", 0x1a2b),
            ("0XFFFFFFFFFFFFFF", (1 << 56) - 1),
            ("42", 42),
        ] {
            let read = text.parse().map(|key: ReservationKey| key.host().get());
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
            "0x100000000000000",
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
