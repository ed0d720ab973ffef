//! The commands for one unit that is reached in several sessions, one over each route: which session has each, and what
//! has come of it.

use std::collections::{BTreeMap, VecDeque};
use std::mem;

use wansan_multipath::{Kind, Multipath, Request, RequestId};
use wansan_trace::{Instant, SessionId, TaskTag};

use super::replay::is_repeatable;
use super::session::Full;
use super::task::{Command, Completion, TaskError, Transfer};
use crate::scsi::{Effect, Sense, extent, is_about_access_state, opcode};
use crate::wire::ScsiStatus;

/// Commands until they are done, above the sessions of several routes. Sans-I/O: the driver gives the commands of
/// [`RouteQueue::poll`] to sessions, and their completions to [`RouteQueue::answered`].
#[derive(Debug)]
pub struct RouteQueue {
    queue: Multipath,
    held: BTreeMap<RequestId, Held>,
    /// Those of a lost session that must not be sent twice.
    unsure: Vec<RequestId>,
    done: VecDeque<(SessionId, Completion)>,
    most: usize,
}

/// A command that is not done.
#[derive(Debug)]
struct Held {
    /// Without its data while a session has that.
    command: Command,
    /// Since when it has waited for a session.
    since: Instant,
    /// Of one that goes to several sessions, how it failed in one.
    failed: Option<(SessionId, Completion)>,
}

impl RouteQueue {
    /// For at most so many commands, over so many routes.
    #[must_use]
    pub fn new(most: usize, routes: usize) -> RouteQueue {
        RouteQueue {
            queue: Multipath::new(routes),
            held: BTreeMap::new(),
            unsure: Vec::new(),
            done: VecDeque::new(),
            most,
        }
    }

    /// Takes a command. Its CDB and data tell which blocks it is about: it must be one for the unit, or for none.
    ///
    /// # Errors
    /// [`Full`] returns it.
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
        // These may be about many blocks, and take their time for each.
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
        };
        self.held.insert(id, held);
        Ok(())
    }

    /// The next command to be given to a session, the place of its route, and since when it has waited for one. Its user
    /// is its number here.
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

    /// What a session has made of a command. Returns whether the unit can still be accessed through it.
    pub fn answered(
        &mut self,
        (place, session): (usize, SessionId),
        done: Completion,
        now: Instant,
    ) -> bool {
        let id = done.user;
        let Some(held) = self.held.get_mut(&id) else {
            return true;
        };
        let is_accessible = !is_not_accessible(&done);
        if !is_accessible || matches!(done.outcome, Err(TaskError::SessionEnded)) {
            if is_accessible && !is_repeatable(&held.command.cdb) {
                self.unsure.push(id);
            }
            held.command.transfer = done.transfer;
            held.since = now;
            return is_accessible;
        }
        let is_good = matches!(&done.outcome, Ok(answer) if answer.status == ScsiStatus::Good);
        if self.queue.completed(place, id, is_good, now) {
            self.finish(id, (session, done));
        } else if !is_good {
            held.failed.get_or_insert((session, done));
        }
        true
    }

    fn finish(&mut self, id: RequestId, last: (SessionId, Completion)) {
        let Some(held) = self.held.remove(&id) else {
            return;
        };
        let (session, done) = held.failed.unwrap_or(last);
        let user = held.command.user;
        self.done.push_back((session, Completion { user, ..done }));
    }

    /// The next that is done, and the session that did it.
    pub fn poll_done(&mut self) -> Option<(SessionId, Completion)> {
        self.done.pop_front()
    }

    /// Whether any is done.
    #[must_use]
    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// A route is there, to be taken as long as none of a lower rank is.
    pub fn up(&mut self, place: usize, rank: u8) {
        self.queue.up(place, rank);
    }

    /// The session over a route is lost, and has given back what it had.
    pub fn lost(&mut self, place: usize, session: SessionId) {
        self.queue.lost(place);
        for id in mem::take(&mut self.unsure) {
            self.queue.abandon(id);
            self.fail(id, session, TaskError::Unsure);
        }
    }

    /// Whether a lost session may still carry out writes.
    #[must_use]
    pub fn lingers(&self, place: usize) -> bool {
        self.queue.lingers(place)
    }

    /// The target has ended a lost session.
    pub fn fenced(&mut self, place: usize) {
        self.queue.fenced(place);
    }

    /// Gives all commands up; `session` is the one that was lost last.
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

/// Whether the target did not carry out a command because of the state of its port group.
fn is_not_accessible(done: &Completion) -> bool {
    let Ok(answer) = &done.outcome else {
        return false;
    };
    answer.status == ScsiStatus::CheckCondition
        && Sense::parse(&answer.sense).is_ok_and(|sense| is_about_access_state(&sense))
}
