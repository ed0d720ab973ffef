//! Session recovery (RFC 7143 §7.1.4.4, §7.1.5): all connections are lost, and outstanding commands are resent in a
//! session that replaces the lost one.
//!
//! Its leading login has the ISID of the lost session and TSIH 0, so that the target ends the remains of that session
//! before it answers (§6.3.5): none of its commands is executed after resent ones.
//!
//! Tasks keep their order: those that had a CmdSN, in its order, then the others. So a flush stays behind the writes
//! before it, and a write before later writes of the same blocks.

use wansan_trace::{ConnectionId, Direction, Instant, Layer, Recorder, TaskTag};

use super::error::AdmitError;
use super::handshake::{Handshake, HandshakeError, LoginSettings};
use super::requests::Request;
use super::session::{Core, Event, Session};
use super::task::{Stage, TaskError};
use crate::sequence::Sn;
use crate::wire::TaskManagementFunction;

/// Whether a command is idempotent. Only such commands can be resent when their outcome is
/// unknown.
pub(super) fn is_repeatable(cdb: &[u8; 16]) -> bool {
    match cdb[0] {
        // TEST UNIT READY, REQUEST SENSE, INQUIRY, MODE SENSE, START STOP UNIT, READ CAPACITY,
        // PERSISTENT RESERVE IN, REPORT LUNS and the services of MAINTENANCE IN.
        0x00 | 0x03 | 0x12 | 0x1a | 0x5a | 0x1b | 0x25 | 0x9e | 0x5e | 0xa0 | 0xa3 => true,
        // READ, WRITE, WRITE AND VERIFY, VERIFY, PRE-FETCH and SYNCHRONIZE CACHE of all lengths.
        0x08 | 0x28 | 0xa8 | 0x88 | 0x0a | 0x2a | 0xaa | 0x8a => true,
        0x2e | 0xae | 0x8e | 0x2f | 0xaf | 0x8f | 0x34 | 0x90 | 0x35 | 0x91 => true,
        // WRITE SAME, UNMAP, ORWRITE.
        0x41 | 0x93 | 0x42 | 0x8b => true,
        // COMPARE AND WRITE, EXTENDED COPY, reservations and unknown commands.
        _ => false,
    }
}

impl Session {
    /// All connections are lost, or one at an error recovery level below 2: outstanding tasks wait for
    /// [`Session::reinstate`], and new commands may be submitted behind them. Commands that are not safe to repeat
    /// complete with [`TaskError::Unsure`].
    pub fn lose_all(&mut self, now: Instant, trace: &mut Recorder) {
        for connection in self.connections.drain(..) {
            let link = &connection.link;
            let waited_ns = link.waiting.integral_ns(now);
            self.core.carriage.gone(link.id, waited_ns);
        }
        self.core.lost.clear();
        self.core.drop_requests(now, trace);
        self.core.requeue_all(now, trace);
    }

    /// Begins the login that reinstates this session; `cid` is the CID of its leading connection.
    ///
    /// # Errors
    /// If a setting violates the standard.
    pub fn reinstating(
        &self,
        login: &LoginSettings,
        cid: u16,
    ) -> Result<Handshake, HandshakeError> {
        Handshake::reinstate(login, cid)
    }

    /// Continues as `lead`, the session of [`Session::reinstating`], over its connection; it may have executed commands
    /// meanwhile. Outstanding tasks are resent.
    ///
    /// # Errors
    /// [`AdmitError`], if this session still has connections, or `lead` has tasks or no connection.
    pub fn reinstate(
        &mut self,
        mut lead: Session,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), AdmitError> {
        if !self.connections.is_empty() || lead.in_flight() > 0 {
            return Err(AdmitError::Taken);
        }
        let connection = lead.connections.pop().ok_or(AdmitError::NotLoggedIn)?;
        let core = &mut self.core;
        // In the records an I/O belongs to one session: it leaves the lost one and enters this one.
        let tags = core.tasks.tags();
        for layer in [Layer::Queue, Layer::Scsi, Layer::App] {
            core.cross(&tags, layer, Direction::Leave, now, trace);
        }
        core.take_place_of(&lead.core);
        for layer in [Layer::App, Layer::Scsi, Layer::Queue] {
            core.cross(&tags, layer, Direction::Enter, now, trace);
        }
        core.announced = Some(lead.core.announced.unwrap_or_default());
        core.carriage.admit(connection.link.id);
        self.connections.push(connection);
        Ok(())
    }
}

impl Core {
    fn cross(
        &self,
        tags: &[TaskTag],
        layer: Layer,
        direction: Direction,
        now: Instant,
        trace: &mut Recorder,
    ) {
        for &tag in tags {
            trace.crossing(now, self.id, ConnectionId(0), tag, layer, direction);
        }
    }

    /// Requests other than commands end with their session.
    fn drop_requests(&mut self, now: Instant, trace: &mut Recorder) {
        for (tag, request) in self.requests.take_all() {
            match request {
                // The replacement session begins with no tasks: whatever was to be ended has ended.
                Request::Manage { .. } => {
                    self.end_managed(request, now, trace);
                    self.events.push_back(Event::Managed {
                        request: tag,
                        result: crate::wire::TaskManagementResult::Complete,
                    });
                }
                Request::Logout => self.events.push_back(Event::LoggedOut),
                Request::Ping
                | Request::Leave
                | Request::Remove { .. }
                | Request::Reassign { .. } => {}
            }
        }
        if self.asking.take().is_some() {
            self.events.push_back(Event::Targets(Vec::new()));
        }
    }

    /// Requeues all tasks with a CmdSN in order, before those without one.
    fn requeue_all(&mut self, now: Instant, trace: &mut Recorder) {
        let mut sent: Vec<(u32, TaskTag)> = Vec::new();
        for tag in self.tasks.tags() {
            if let Some(task) = self.tasks.get_mut(tag)
                && task.stage != Stage::Queued
            {
                sent.push((self.window.rank(task.cmd_sn), tag));
            }
        }
        sent.sort_unstable_by(|a, b| b.cmp(a));
        for (_, tag) in sent {
            self.requeue(tag, now, trace);
        }
    }

    /// Requeues a task of unknown outcome at the front, or completes it if it cannot be repeated.
    pub(super) fn requeue(&mut self, tag: TaskTag, now: Instant, trace: &mut Recorder) {
        let task = self.tasks.get_mut(tag);
        if task.is_some_and(|task| is_repeatable(&task.cdb)) {
            self.take_back(tag, now, trace);
            self.queue.put_back(tag);
        } else {
            self.finish(tag, Err(TaskError::Unsure), now, trace);
        }
    }

    /// Resets a task to its state before it was sent; it is on no queue then.
    pub(super) fn take_back(&mut self, tag: TaskTag, now: Instant, trace: &mut Recorder) {
        let Some(task) = self.tasks.get_mut(tag) else {
            return;
        };
        if let Stage::Sent(id) = task.stage {
            self.carriage.left(id, task, now);
            trace.crossing(now, self.id, id, tag, Layer::Window, Direction::Leave);
        }
        task.stage = Stage::Queued;
        task.cmd_sn = Sn(0);
        task.forget_answer();
        task.answered = false;
        task.may_report_loss = false;
    }

    /// Completes the tasks that a management function has ended (RFC 7143 §11.6.1).
    pub(super) fn end_managed(&mut self, request: Request, now: Instant, trace: &mut Recorder) {
        let Request::Manage {
            function,
            lun,
            referenced,
            before,
        } = request
        else {
            return;
        };
        for tag in self.tasks.tags() {
            let Some(task) = self.tasks.get_mut(tag) else {
                continue;
            };
            let sent_before = task.stage != Stage::Queued && task.cmd_sn.lt(before);
            let ended = match function {
                TaskManagementFunction::AbortTask => tag == referenced,
                TaskManagementFunction::TargetWarmReset
                | TaskManagementFunction::TargetColdReset => sent_before,
                _ => sent_before && task.lun == lun,
            };
            if ended {
                self.finish(tag, Err(TaskError::Aborted), now, trace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_repeatable;
    use crate::scsi::cdb;

    #[test]
    fn only_commands_that_may_run_twice_are_sent_twice() {
        assert!(is_repeatable(&cdb::read(0, 1, false)));
        assert!(is_repeatable(&cdb::write(1 << 40, 1, true)));
        assert!(is_repeatable(&cdb::synchronize_cache(0, 0, false)));
        let mut compare_and_write = [0; 16];
        compare_and_write[0] = 0x89;
        assert!(!is_repeatable(&compare_and_write));
    }
}
