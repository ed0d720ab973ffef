//! Fencing a lost session by its key, where no other session can take its place: another one has the target remove its
//! registration and abort what it has under way (PREEMPT AND ABORT, SPC-4 §5.13.11.3). What comes of it later is refused.
//!
//! LOGICAL UNIT RESET would end what the target has, and not keep off what is still in a network.

use wansan_iscsi::initiator::{Completion, Transfer};
use wansan_iscsi::scsi::ReserveOut;
use wansan_trace::{Instant, clock};

use super::MultipathSession;
use super::path::State;
use crate::initiator::InitiatorError;
use crate::load::{address, command};
use crate::reservation::{Answer, PutOff, answer, put_off};

/// The numbers of such commands in a session count down from here, by the place of the lost route.
const FIRST: u64 = u64::MAX - 1;

/// The place of the lost route that a command is to fence, if it is such a one, among so many.
pub(super) fn place_of(number: u64, routes: usize) -> Option<usize> {
    let place = FIRST.checked_sub(number)?;
    usize::try_from(place).ok().filter(|place| *place < routes)
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
            let aborts = true;
            let out = ReserveOut::Preempt { key, other, aborts };
            let list = Transfer::Write(out.list(false));
            let command = command(at, out.cdb(), list, FIRST - place as u64);
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
    /// A unit attention came with it that is to be heeded: the session over that route has to be left.
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
        match (put_off(done), answer(done)) {
            (Some(PutOff::Attention), _) => {
                down.fence_at = now;
                return Err(InitiatorError::Unusable {
                    lun: self.lun,
                    portal: self.paths[by].to.portal(),
                    problem: "a unit attention came while a lost session was fenced".to_owned(),
                });
            }
            (Some(PutOff::Busy), _) => {}
            (None, Answer::Good) => self.fenced(place),
            (None, Answer::Conflict) => {
                self.say_unfenced(place, "this session or the lost one is not registered");
            }
            (None, Answer::Failed { how, .. }) => {
                self.say_unfenced(place, &format!("PREEMPT AND ABORT: {how}"));
            }
        }
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
