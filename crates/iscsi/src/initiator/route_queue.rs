//! The commands for one unit that is reached in several sessions, one per route: the session of each, and its outcome.

use std::collections::{BTreeMap, VecDeque};
use std::mem;

use wansan_multipath::{Kind, Multipath, Request, RequestId};
use wansan_trace::{Instant, SessionId, TaskTag};

use super::replay::is_repeatable;
use super::session::Full;
use super::task::{Command, Completion, TaskError, Transfer};
use crate::scsi::{Effect, Sense, extent, is_about_access_state, is_about_reservations, opcode};
use crate::wire::ScsiStatus;

/// Outstanding commands, above the sessions of several routes. Sans-I/O: the driver submits the commands of
/// [`RouteQueue::poll`] to sessions, and passes their completions to [`RouteQueue::answered`].
#[derive(Debug)]
pub struct RouteQueue {
    queue: Multipath,
    held: BTreeMap<RequestId, Held>,
    /// Commands of a lost session that must not be repeated.
    unsure: Vec<RequestId>,
    done: VecDeque<(SessionId, Completion)>,
    most: usize,
    routes: usize,
    is_reserved: bool,
    is_refused: bool,
}

/// How often, on average, a command is sent again on each registered route that rejects it as unregistered.
const REFUSALS: usize = 3;

/// Why a session cannot execute commands for the unit any more, though it is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// The state of its target port group has changed, or does not allow access.
    PortGroup,
    /// Its registration, or the reservation, was removed.
    Registration,
}

/// An outstanding command.
#[derive(Debug)]
struct Held {
    /// Without its data while a session has them.
    command: Command,
    /// Since when it has waited for a session.
    since: Instant,
    /// For a command sent in several sessions, its failure in one.
    failed: Option<(SessionId, Completion)>,
    /// Number of RESERVATION CONFLICT responses.
    refusals: usize,
}

impl RouteQueue {
    /// For at most `most` commands, over `routes` routes.
    #[must_use]
    pub fn new(most: usize, routes: usize) -> RouteQueue {
        RouteQueue {
            queue: Multipath::new(routes),
            held: BTreeMap::new(),
            unsure: Vec::new(),
            done: VecDeque::new(),
            most,
            routes,
            is_reserved: false,
            is_refused: false,
        }
    }

    /// From now on the unit is reserved, and all sessions are registered: a session that gets other responses is
    /// unusable.
    pub fn reserve(&mut self) {
        self.is_reserved = true;
    }

    /// Whether sessions are registered, but rejected all the same: then RESERVATION CONFLICT is an ordinary response,
    /// until a write succeeds.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Queues a command. Its blocks are derived from its CDB and data: it must address the unit, or none.
    ///
    /// # Errors
    /// [`Full`] returns the command.
    pub fn submit(&mut self, command: Command, now: Instant) -> Result<(), Full> {
        if self.queue.open() >= self.most {
            return Err(Full(command));
        }
        let (data_out, bytes) = match &command.transfer {
            Transfer::Write(data) => (&data[..], data.len()),
            Transfer::Read(buffer) => (&[][..], buffer.len()),
            Transfer::None => (&[][..], 0),
        };
        let (effect, blocks) = extent(&command.cdb, data_out);
        let kind = match effect {
            Effect::Read => Kind::Read,
            Effect::Write => Kind::Write,
            Effect::Flush => Kind::Flush,
            Effect::None => Kind::Other,
        };
        // These may concern many blocks, and take time for each.
        let bytes = match command.cdb[0] {
            opcode::UNMAP | opcode::WRITE_SAME_10 | opcode::WRITE_SAME_16 => 0,
            _ => bytes,
        };
        let id = self.queue.submit(Request {
            kind,
            blocks,
            bytes: bytes as u64,
        });
        let held = Held {
            command,
            since: now,
            failed: None,
            refusals: 0,
        };
        self.held.insert(id, held);
        Ok(())
    }

    /// The next command to send, the index of its route, and since when it has waited. Its user is its number here.
    pub fn poll(&mut self, now: Instant) -> Option<(usize, Command, Instant)> {
        loop {
            let (place, id) = self.queue.poll(now)?;
            if let Some(held) = self.held.get_mut(&id) {
                let command = Command {
                    transfer: mem::replace(&mut held.command.transfer, Transfer::None),
                    user: id,
                    ..held.command
                };
                return Some((place, command, held.since));
            }
        }
    }

    /// Takes a session's completion of a command.
    ///
    /// # Errors
    /// [`Denied`] when the session has not executed it, and will not execute others: leave the session.
    pub fn answered(
        &mut self,
        (place, session): (usize, SessionId),
        done: Completion,
        now: Instant,
    ) -> Result<(), Denied> {
        let id = done.user;
        let Some(held) = self.held.get_mut(&id) else {
            return Ok(());
        };
        let is_conflict = is_answered(&done, ScsiStatus::ReservationConflict);
        held.refusals += usize::from(is_conflict);
        self.is_refused |= self.is_reserved && held.refusals > REFUSALS * self.routes;
        let denied = match is_conflict && self.is_refused {
            true => None,
            false => Denied::of(&done, self.is_reserved),
        };
        if denied.is_some() || matches!(done.outcome, Err(TaskError::SessionEnded)) {
            if denied.is_none() && !is_repeatable(&held.command.cdb) {
                self.unsure.push(id);
            }
            held.command.transfer = done.transfer;
            held.since = now;
            return denied.map_or(Ok(()), Err);
        }
        let is_good = is_answered(&done, ScsiStatus::Good);
        self.is_refused &= !(is_good && matches!(done.transfer, Transfer::Write(_)));
        if self.queue.completed(place, id, is_good, now) {
            self.finish(id, (session, done));
        } else if !is_good {
            held.failed.get_or_insert((session, done));
        }
        Ok(())
    }

    fn finish(&mut self, id: RequestId, last: (SessionId, Completion)) {
        let Some(held) = self.held.remove(&id) else {
            return;
        };
        let (session, done) = held.failed.unwrap_or(last);
        let user = held.command.user;
        self.done.push_back((session, Completion { user, ..done }));
    }

    /// The next completion, and its session.
    pub fn poll_done(&mut self) -> Option<(SessionId, Completion)> {
        self.done.pop_front()
    }

    /// Whether no command is outstanding.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.open() == 0
    }

    /// Whether there are completions.
    #[must_use]
    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// A route is up; it is not used while a route of a lower rank is.
    pub fn up(&mut self, place: usize, rank: u8) {
        self.queue.up(place, rank);
    }

    /// The session over a route is lost, and has returned its commands.
    pub fn lost(&mut self, place: usize, session: SessionId) {
        self.queue.lost(place);
        for id in mem::take(&mut self.unsure) {
            self.queue.abandon(id);
            self.fail(id, session, TaskError::Unsure);
        }
    }

    /// Whether the target may still execute writes of a lost session.
    #[must_use]
    pub fn lingers(&self, place: usize) -> bool {
        self.queue.lingers(place)
    }

    /// The target has ended a lost session.
    pub fn fenced(&mut self, place: usize) {
        self.queue.fenced(place);
    }

    /// Fails all commands; `session` is the one that was lost last.
    pub fn give_up(&mut self, session: SessionId) {
        for id in self.queue.give_up() {
            self.fail(id, session, TaskError::SessionEnded);
        }
    }

    fn fail(&mut self, id: RequestId, session: SessionId, error: TaskError) {
        let Some(held) = self.held.get_mut(&id) else {
            return;
        };
        let transfer = mem::replace(&mut held.command.transfer, Transfer::None);
        let done = Completion {
            user: id,
            task: TaskTag(0),
            transfer,
            outcome: Err(error),
        };
        self.finish(id, (session, done));
    }
}

fn is_answered(done: &Completion, status: ScsiStatus) -> bool {
    matches!(&done.outcome, Ok(answer) if answer.status == status)
}

impl Denied {
    /// Why the target did not execute a command, if others will fail the same way.
    fn of(done: &Completion, is_reserved: bool) -> Option<Denied> {
        let answer = done.outcome.as_ref().ok()?;
        match answer.status {
            ScsiStatus::CheckCondition => {
                let sense = Sense::parse(&answer.sense).ok()?;
                Denied::by(&sense).filter(|by| is_reserved || *by != Denied::Registration)
            }
            ScsiStatus::ReservationConflict => is_reserved.then_some(Denied::Registration),
            _ => None,
        }
    }

    /// The meaning of sense data; a registration only matters where the unit is reserved.
    #[must_use]
    pub fn by(sense: &Sense) -> Option<Denied> {
        match is_about_access_state(sense) {
            true => Some(Denied::PortGroup),
            false => is_about_reservations(sense).then_some(Denied::Registration),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::initiator::Answer;
    use crate::scsi::{AdditionalSense, SenseKey, cdb};
    use crate::wire::{Lun, Residual, TaskAttribute};

    const NOW: Instant = Instant::ZERO;

    fn two_routes(is_reserved: bool) -> RouteQueue {
        let mut queue = RouteQueue::new(8, 2);
        if is_reserved {
            queue.reserve();
        }
        queue.up(0, 0);
        queue.up(1, 0);
        let write = Command {
            lun: Lun::default(),
            cdb: cdb::write(8, 1, false),
            attribute: TaskAttribute::Simple,
            transfer: Transfer::Write(vec![7; 512]),
            user: 42,
        };
        queue.submit(write, NOW).expect("there is room");
        queue
    }

    fn answer(command: Command, status: ScsiStatus, sense: Vec<u8>) -> Completion {
        Completion {
            user: command.user,
            task: TaskTag(1),
            transfer: command.transfer,
            outcome: Ok(Answer {
                status,
                sense,
                residual: Residual::None,
            }),
        }
    }

    /// Responses that report a lost registration.
    fn refusals() -> Vec<(ScsiStatus, Vec<u8>)> {
        let attention = |additional| Sense {
            key: SenseKey::UnitAttention,
            ..Sense::illegal(additional)
        };
        let attentions = [
            AdditionalSense::RESERVATIONS_PREEMPTED,
            AdditionalSense::RESERVATIONS_RELEASED,
            AdditionalSense::REGISTRATIONS_PREEMPTED,
        ];
        let check = |additional| {
            (
                ScsiStatus::CheckCondition,
                attention(additional).fixed().to_vec(),
            )
        };
        let conflict = (ScsiStatus::ReservationConflict, Vec::new());
        attentions
            .into_iter()
            .map(check)
            .chain([conflict])
            .collect()
    }

    #[test]
    fn what_a_session_without_its_registration_refuses_goes_to_another() {
        for (status, sense) in refusals() {
            let mut queue = two_routes(true);
            let (place, command, _) = queue.poll(NOW).expect("a route is up");
            let done = answer(command, status, sense);
            let refused = queue.answered((place, SessionId(1)), done, NOW);
            assert_eq!(refused, Err(Denied::Registration));
            queue.lost(place, SessionId(1));
            assert!(!queue.has_done(), "nobody is told");
            let (other, command, _) = queue.poll(NOW).expect("the other one is up");
            assert_ne!(other, place);
            let done = answer(command, ScsiStatus::Good, Vec::new());
            assert_eq!(queue.answered((other, SessionId(2)), done, NOW), Ok(()));
            let (session, done) = queue.poll_done().expect("it is done");
            assert_eq!((session, done.user), (SessionId(2), 42));
            assert_eq!(done.transfer, Transfer::Write(vec![7; 512]), "whole");
        }
    }

    #[test]
    fn what_is_refused_each_time_is_answered() {
        let mut queue = two_routes(true);
        let write = |queue: &mut RouteQueue| {
            let command = Command {
                lun: Lun::default(),
                cdb: cdb::write(8, 1, false),
                attribute: TaskAttribute::Simple,
                transfer: Transfer::Write(vec![7; 512]),
                user: 43,
            };
            queue.submit(command, NOW).expect("there is room");
        };
        // Each session that rejects it registers again.
        let rounds = |queue: &mut RouteQueue, status| {
            let mut rounds = 0;
            loop {
                let (place, command, _) = queue.poll(NOW).expect("a route is up");
                let done = answer(command, status, Vec::new());
                if queue.answered((place, SessionId(1)), done, NOW).is_ok() {
                    let (_, done) = queue.poll_done().expect("it is answered");
                    assert_eq!(done.outcome.map(|answer| answer.status), Ok(status));
                    return rounds;
                }
                queue.lost(place, SessionId(1));
                queue.up(place, 0);
                rounds += 1;
            }
        };
        let conflict = ScsiStatus::ReservationConflict;
        let each = REFUSALS * 2;
        assert_eq!(rounds(&mut queue, conflict), each);
        assert!(queue.is_refused());
        write(&mut queue);
        assert_eq!(rounds(&mut queue, conflict), 0, "that is known");
        write(&mut queue);
        assert_eq!(rounds(&mut queue, ScsiStatus::Good), 0);
        assert!(!queue.is_refused());
        write(&mut queue);
        assert_eq!(rounds(&mut queue, conflict), each);
    }

    #[test]
    fn without_a_registration_the_caller_hears_of_a_conflict() {
        for (status, sense) in refusals() {
            let mut queue = two_routes(false);
            let (place, command, _) = queue.poll(NOW).expect("a route is up");
            let done = answer(command, status, sense);
            assert_eq!(queue.answered((place, SessionId(1)), done, NOW), Ok(()));
            let (_, done) = queue.poll_done().expect("it is answered");
            assert_eq!(done.outcome.map(|answer| answer.status), Ok(status));
        }
    }
}
