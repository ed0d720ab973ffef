//! Fencing a lost session by its reservation key, where no other session can replace it: another session makes the
//! target remove its registration and abort its tasks (PREEMPT AND ABORT, SPC-4 §5.13.11.3). Its later commands are
//! rejected.
//!
//! If the command was executed but its response was lost, repeating it fails, because the key no longer exists: then
//! READ KEYS shows it.
//!
//! LOGICAL UNIT RESET would abort tasks at the target, but not stop commands still in a network.

use std::mem;

use wansan_iscsi::initiator::{Completion, Denied, Transfer};
use wansan_iscsi::scsi::{Keys, ReserveOut, cdb};
use wansan_trace::{Instant, clock};

use super::path::State;
use super::{MultipathSession, RouteEvent};
use crate::initiator::InitiatorError;
use crate::load::{address, command};
use crate::reservation::{Answer, PutOff, TRIES, answer, put_off, sense};

/// Tags of such commands in a session count down from here, by the index of the lost route.
const FIRST: u64 = u64::MAX - 1;

/// The index of the lost route that a command fences, if it is such a command, out of `routes`.
pub(super) fn place_of(number: u64, routes: usize) -> Option<usize> {
    let place = FIRST.checked_sub(number)?;
    usize::try_from(place).ok().filter(|place| *place < routes)
}

/// The next step of another session against a lost one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// PREEMPT AND ABORT.
    Preempt,
    /// READ KEYS, after that was rejected.
    Look,
}

/// The outcome of an attempt to fence by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByKey {
    /// Started.
    Begun,
    /// No session that could do it is up now.
    Later,
    /// No session has a suitable key.
    Never,
}

impl MultipathSession {
    /// Makes a session that is up fence the lost one at `place` by its key.
    pub(super) fn begin_fence_by_key(&mut self, place: usize, now: Instant) -> ByKey {
        let (Some(reservation), Ok(at)) = (&self.config.reservation, address(self.lun)) else {
            return ByKey::Never;
        };
        let State::Down(down) = &self.paths[place].state else {
            return ByKey::Later;
        };
        let step = down.step;
        let host = reservation.key.host();
        let other = host.of_route(place);
        let mut begun = ByKey::Never;
        for (by, path) in self.paths.iter_mut().enumerate() {
            let key = host.of_route(by);
            // With very many routes, two may have the same key.
            if key == other {
                continue;
            }
            begun = ByKey::Later;
            let (cdb, transfer) = match step {
                Step::Preempt => {
                    let aborts = true;
                    let out = ReserveOut::Preempt { key, other, aborts };
                    (out.cdb(), Transfer::Write(out.list(false)))
                }
                Step::Look => {
                    let bytes = Keys::ANSWER_BYTES;
                    let cdb = cdb::persistent_reserve_in_keys(bytes);
                    (cdb, Transfer::Read(vec![0; bytes.into()]))
                }
            };
            let command = command(at, cdb, transfer, FIRST - place as u64);
            let given = path.up_mut().map(|up| up.submit(command, now).is_ok());
            if given == Some(true) {
                return ByKey::Begun;
            }
        }
        begun
    }

    /// Handles the response to fencing the lost session at `place` over the route at `by`.
    ///
    /// # Errors
    /// It came with a unit attention that requires ending the session over that route.
    pub(super) fn fence_answered(
        &mut self,
        (place, by): (usize, usize),
        done: &Completion,
    ) -> Result<(), InitiatorError> {
        let now = clock::now();
        let path = &mut self.paths[place];
        let State::Down(down) = &mut path.state else {
            return Ok(());
        };
        down.is_busy = false;
        down.fence_at = path.flapping.failed(now);
        if done.outcome.is_err() {
            // That session is lost, too.
            down.fence_at = now;
            return Ok(());
        }
        let step = mem::replace(&mut down.step, Step::Preempt);
        let attentions = mem::take(&mut down.attentions);
        match (put_off(done), answer(done)) {
            (Some(PutOff::Attention), _) => {
                (down.step, down.attentions) = (step, attentions + 1);
                if attentions < TRIES {
                    down.fence_at = now;
                }
                return self.heed(by, done);
            }
            (Some(PutOff::Busy), _) => down.step = step,
            (None, Answer::Conflict) if step == Step::Preempt => {
                (down.step, down.fence_at) = (Step::Look, now);
            }
            (None, Answer::Failed { how, .. }) if step == Step::Preempt => {
                self.say_unfenced(place, &format!("PREEMPT AND ABORT: {how}"));
            }
            (None, answer) => {
                let is_good = answer == Answer::Good;
                match is_good && (step == Step::Preempt || self.is_removed((place, by), done)) {
                    true => self.fenced(place),
                    false => {
                        self.say_unfenced(place, "this session or the lost one is not registered");
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the response to READ KEYS over the route at `by` shows that route registered, and the lost one at
    /// `place` not.
    fn is_removed(&self, (place, by): (usize, usize), done: &Completion) -> bool {
        let (Some(reservation), Transfer::Read(data)) = (&self.config.reservation, &done.transfer)
        else {
            return false;
        };
        let host = reservation.key.host();
        let [own, other] = [by, place].map(|place| host.of_route(place));
        let keys = Keys::parse(data);
        keys.is_ok_and(|keys| keys.of(host).contains(&own) && keys.lacks(other))
    }

    /// A unit attention came over the route at `by` instead of a response: reported to the caller, who submits the
    /// other commands.
    ///
    /// # Errors
    /// It requires ending the session over that route.
    fn heed(&mut self, by: usize, done: &Completion) -> Result<(), InitiatorError> {
        let Some(sense) = sense(done) else {
            return Ok(());
        };
        if let Some(denied) = Denied::by(&sense) {
            return Err(self.denied(by, denied));
        }
        self.events.push_back(RouteEvent::Attention {
            route: self.paths[by].name(),
            additional: sense.additional,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_numbers_of_routes_are_fences() {
        assert_eq!(place_of(FIRST, 2), Some(0));
        assert_eq!(place_of(FIRST - 1, 2), Some(1));
        for number in [FIRST - 2, u64::MAX, 0] {
            assert_eq!(place_of(number, 2), None);
        }
    }
}
