//! Connection recovery (error recovery level 2; RFC 7143 §7.1.4.3, §7.2.2): when a connection is
//! lost, its tasks move to others.
//!
//! While another connection is up, it logs out the lost one for recovery, and takes over its tasks. Otherwise the first
//! connection that comes up again does so: under the lost one's CID, which logs that out implicitly (§6.3.4), and after
//! a logout of the other lost ones.

use wansan_trace::{ConnectionId, Instant, Recorder, TaskTag};

use super::connection::Link;
use super::error::SessionError;
use super::requests::Request;
use super::session::{Core, Session};
use super::task::Stage;
use crate::wire::{LogoutResult, TaskManagementResult};

/// Outstanding TASK REASSIGN requests: targets accept few immediate commands.
const MAX_REASSIGNS: usize = 8;

/// A lost connection whose tasks are not all reassigned yet.
#[derive(Debug)]
pub(super) struct Orphans {
    pub(super) cid: ConnectionId,
    /// The connection that takes its tasks: it has requested the logout of the lost one or replaced it.
    pub(super) heir: Option<ConnectionId>,
    /// The target has released the tasks.
    is_free: bool,
    tasks: Vec<TaskTag>,
}

/// The lost connections whose tasks are not all reassigned yet. Each of their tasks belongs to one of them, until the
/// heir requests its reassignment.
#[derive(Debug, Default)]
pub(super) struct LostConnections {
    orphans: Vec<Orphans>,
}

impl LostConnections {
    /// Whether no task waits for another connection, or for its reassignment.
    pub(super) fn is_empty(&self) -> bool {
        self.orphans.is_empty()
    }

    /// Forgets all, because the session is lost.
    pub(super) fn clear(&mut self) {
        self.orphans.clear();
    }

    fn has(&self, tag: TaskTag) -> bool {
        let mut orphans = self.orphans.iter();
        orphans.any(|orphans| orphans.tasks.contains(&tag))
    }

    /// The target has released the tasks of that connection.
    fn free(&mut self, cid: ConnectionId) {
        for orphans in &mut self.orphans {
            orphans.is_free |= orphans.cid == cid;
        }
    }

    /// A connection is lost: it takes over no more tasks.
    fn lose_heir(&mut self, lost: ConnectionId) {
        for orphans in &mut self.orphans {
            orphans.heir = orphans.heir.filter(|heir| *heir != lost);
        }
    }

    /// The next task ready to move to `heir`.
    fn next_for(&mut self, heir: ConnectionId) -> Option<TaskTag> {
        let mut orphans = self.orphans.iter_mut();
        let free = orphans.find(|orphans| {
            orphans.heir == Some(heir) && orphans.is_free && !orphans.tasks.is_empty()
        })?;
        Some(free.tasks.remove(0))
    }

    /// Forgets connections without tasks.
    fn prune(&mut self) {
        self.orphans
            .retain(|orphans| !orphans.is_free || !orphans.tasks.is_empty());
    }
}

impl Session {
    /// The connection at `place` is lost. At error recovery level 2 its tasks will be reassigned, and the indices of
    /// later connections decrease by one. Returns whether that is the case; otherwise nothing has changed, and the
    /// session has to be reinstated ([`Session::lose_all`]).
    pub fn lose(&mut self, place: usize, now: Instant, trace: &mut Recorder) -> bool {
        if self.core.parameters.error_recovery_level < 2 || place >= self.connections.len() {
            return false;
        }
        let connection = self.connections.remove(place);
        let lost = connection.link.id;
        let waited_ns = connection.link.waiting.integral_ns(now);
        self.core.carriage.gone(lost, waited_ns);
        self.core.orphan(lost);
        self.pass_on(now, trace);
        true
    }

    /// Whether a connection with `cid` may log in now: not while a logout for recovery of that CID
    /// is outstanding, which the target could apply to the new connection.
    #[must_use]
    pub fn may_join(&self, cid: u16) -> bool {
        let orphans = self.core.lost.orphans.iter();
        let mut same = orphans.filter(|orphans| orphans.cid.0 == cid && !orphans.is_free);
        same.all(|orphans| orphans.heir.is_none())
    }

    /// Finds a connection for the tasks of lost connections: the one that replaced theirs, or any other, which logs
    /// theirs out.
    pub(super) fn pass_on(&mut self, now: Instant, trace: &mut Recorder) {
        let Session {
            core, connections, ..
        } = self;
        for at in 0..core.lost.orphans.len() {
            let Orphans {
                cid, heir, is_free, ..
            } = core.lost.orphans[at];
            if heir.is_some() {
                continue;
            }
            let replaced = connections.iter().position(|other| other.link.id == cid);
            let Some(connection) = connections.get_mut(replaced.unwrap_or(0)) else {
                return;
            };
            let link = &mut connection.link;
            core.lost.orphans[at].heir = Some(link.id);
            if replaced.is_some() || is_free {
                core.lost.orphans[at].is_free = true;
            } else {
                let tag = core.tasks.spare_tag();
                let request = Request::Remove { cid, on: link.id };
                core.requests.push(tag, request);
                core.send_request(link, tag, request, now, trace);
            }
        }
        for connection in connections {
            core.reassign(&mut connection.link, now, trace);
        }
    }
}

impl Core {
    /// Collects the tasks of a lost connection, and those that it was to take over.
    fn orphan(&mut self, lost: ConnectionId) {
        let mut tasks = Vec::new();
        for tag in self.tasks.tags() {
            if let Some(task) = self.tasks.get_mut(tag)
                && task.stage == Stage::Sent(lost)
            {
                tasks.push(tag);
            }
        }
        // Some may remain of an earlier connection with this CID.
        tasks.retain(|tag| {
            let mut asked = self.requests.reassigned();
            !self.lost.has(*tag) && !asked.any(|(asked, _)| asked == *tag)
        });
        // In the order sent: commands that never arrived must arrive in order.
        let window = self.window;
        let rank =
            |core: &mut Core, tag| core.tasks.get_mut(tag).map(|task| window.rank(task.cmd_sn));
        tasks.sort_by_key(|&tag| rank(self, tag));
        // Tasks whose reassignment the lost connection requested still belong to their earlier connection.
        let asked = self.requests.reassigned();
        let waiting = asked.filter(|(_, on)| *on == lost);
        let waiting: Vec<TaskTag> = waiting.map(|(tag, _)| tag).collect();
        self.requests.lose(lost);
        self.lost.lose_heir(lost);
        for tag in waiting {
            let from = self.tasks.get_mut(tag).map(|task| task.stage);
            if let Some(Stage::Sent(cid)) = from {
                self.lost.orphans.push(Orphans {
                    cid,
                    heir: None,
                    is_free: true,
                    tasks: vec![tag],
                });
            }
        }
        self.lost.orphans.push(Orphans {
            cid: lost,
            heir: None,
            is_free: false,
            tasks,
        });
    }

    /// The target has answered the logout of a lost connection.
    pub(super) fn removed(
        &mut self,
        link: &mut Link,
        cid: ConnectionId,
        result: LogoutResult,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), SessionError> {
        match result {
            // An unknown connection has no tasks at the target either, which it will answer.
            LogoutResult::Closed | LogoutResult::CidNotFound => {
                self.lost.free(cid);
                self.reassign(link, now, trace);
                Ok(())
            }
            other => Err(SessionError::NotRecovered {
                what: "remove a lost connection",
                code: other.to_wire(),
            }),
        }
    }

    /// Requests the reassignment of some ready tasks to `link`, their heir.
    pub(super) fn reassign(&mut self, link: &mut Link, now: Instant, trace: &mut Recorder) {
        let mut under_way = self.requests.reassigned().count();
        while under_way < MAX_REASSIGNS
            && let Some(task_tag) = self.lost.next_for(link.id)
        {
            let Some(task) = self.tasks.get_mut(task_tag) else {
                continue;
            };
            if task.retries > 0 && !self.window.has_received(task.cmd_sn) {
                // The target never received this retry, but may still have the previous response under the same tag: do
                // not reassign that.
                self.send_once_more(link, task_tag, now);
                continue;
            }
            task.bursts.clear();
            if !task.data_sns.is_whole() {
                // All of it again: data received after the gap is not kept (§11.5.6).
                task.forget_answer();
            }
            let tag = self.tasks.spare_tag();
            let request = Request::Reassign {
                referenced: task_tag,
                on: link.id,
            };
            self.requests.push(tag, request);
            self.send_request(link, tag, request, now, trace);
            under_way += 1;
        }
        self.lost.prune();
    }

    /// The target has answered a TASK REASSIGN.
    pub(super) fn reassigned(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        result: TaskManagementResult,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), SessionError> {
        match result {
            TaskManagementResult::Complete => self.hand_on(link, tag, now),
            TaskManagementResult::TaskDoesNotExist => {
                let task = self.tasks.get_mut(tag);
                let never_came = task.is_some_and(|task| !self.window.has_received(task.cmd_sn));
                if never_came {
                    self.send_once_more(link, tag, now);
                } else {
                    self.requeue(tag, now, trace);
                }
            }
            other => {
                return Err(SessionError::NotRecovered {
                    what: "reassign a task of a lost connection",
                    code: other.to_wire(),
                });
            }
        }
        self.reassign(link, now, trace);
        Ok(())
    }

    /// Resends a command that the target never received on `link`, with the same CmdSN.
    fn send_once_more(&mut self, link: &mut Link, tag: TaskTag, now: Instant) {
        self.hand_on(link, tag, now);
        if let Some(task) = self.tasks.get_mut(tag) {
            task.forget_answer();
        }
        link.retries.push_back(tag);
    }

    /// `tag` belongs to `link` from now on.
    fn hand_on(&mut self, link: &Link, tag: TaskTag, now: Instant) {
        let Some(task) = self.tasks.get_mut(tag) else {
            return;
        };
        if let Stage::Sent(from) = task.stage {
            self.carriage.left(from, task, now);
        }
        self.carriage.took_over(link.id, task, now);
        task.stage = Stage::Sent(link.id);
    }
}
