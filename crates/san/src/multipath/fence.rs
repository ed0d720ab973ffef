//! Fencing a lost session by its key, where no other session can take its place: another one has the target remove its
//! registration and abort what it has under way (PREEMPT AND ABORT, SPC-4 §5.13.11.3). What comes of it later is refused.
//!
//! One that was carried out and whose answer was lost is refused when it is given again, as there is no such key any more:
//! then READ KEYS tells.
//!
//! LOGICAL UNIT RESET would end what the target has, and not keep off what is still in a network.

use std::mem;

use wansan_iscsi::initiator::{Completion, Denied, Transfer};
use wansan_iscsi::scsi::{Keys, ReserveOut, cdb};
use wansan_trace::{Instant, clock};

use super::path::State;
use super::{MultipathSession, RouteEvent};
use crate::initiator::InitiatorError;
use crate::load::{address, command};
use crate::reservation::{Answer, PutOff, TRIES, answer, put_off, sense};

/// The numbers of such commands in a session count down from here, by the place of the lost route.
const FIRST: u64 = u64::MAX - 1;

/// The place of the lost route that a command is to fence, if it is such a one, among so many.
pub(super) fn place_of(number: u64, routes: usize) -> Option<usize> {
    let place = FIRST.checked_sub(number)?;
    usize::try_from(place).ok().filter(|place| *place < routes)
}

/// What another session is to do about a lost one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// PREEMPT AND ABORT.
    Preempt,
    /// READ KEYS, as that was refused.
    Look,
}

/// What has come of an attempt to fence by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByKey {
    /// It has begun.
    Begun,
    /// No session is up now that could.
    Later,
    /// No session has a key by which it could.
    Never,
}

impl MultipathSession {
    /// Has a session that is up fence the lost one at `place` by its key.
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
            // Of very many routes, two may have the same key.
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

    /// What has come of fencing the lost session at `place` over the route at `by`.
    ///
    /// # Errors
    /// A unit attention came with it, by which the session over that route has to be left.
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
            // That one is lost, too.
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

    /// Whether the answer to READ KEYS over the route at `by` says that this one is registered, and the lost one at
    /// `place` is not.
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

    /// A unit attention came over the route at `by` instead of an answer: the caller of the others has to know of it.
    ///
    /// # Errors
    /// It says that the session over that route has to be left.
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
