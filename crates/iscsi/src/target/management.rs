//! Task management (RFC 7143 §11.5, §11.6).

use wansan_trace::{Instant, Recorder, TaskTag};

use super::connection::Link;
use super::error::Close;
use super::session::{Core, Session, link_at};
use super::task::Stage;
use crate::scsi::Fence;
use crate::sequence::Sn;
use crate::wire::{
    Bhs, LogoutResult, Lun, RejectReason, ScsiCommand, TaskManagementFunction,
    TaskManagementRequest, TaskManagementResult,
};

/// Most functions that may wait for store operations at once.
const MAX_WAITING: usize = 16;

/// A function or a logout whose response waits until the store operations of the tasks that it ends have completed.
#[derive(Debug)]
pub(super) struct Management {
    pub(super) request: TaskTag,
    pub(super) place: usize,
    pub(super) kind: ManagementKind,
    /// Tasks of this session.
    pub(super) tasks: Vec<TaskTag>,
    /// Tasks of other sessions.
    pub(super) fence: Fence,
    /// Commands for the unit before this CmdSN are affected, too: they must arrive first, on other connections.
    pub(super) missing: Option<(Lun, Sn)>,
}

/// The kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ManagementKind {
    /// A task management function.
    Function,
    /// A logout, of the connection that it was received on, or only of others.
    Logout { own: bool },
}

/// The waiting functions and logouts of a session, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Functions {
    waiting: Vec<Management>,
}

impl Functions {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn has_room(&self) -> bool {
        self.waiting.len() < MAX_WAITING
    }

    pub(super) fn put(&mut self, waiting: Management) {
        self.waiting.push(waiting);
    }

    /// Removes those that have nothing to wait for any more.
    fn take_over(&mut self, is_over: impl FnMut(&mut Management) -> bool) -> Vec<Management> {
        self.waiting.extract_if(.., is_over).collect()
    }

    /// Drops those to be answered on the connection at `place`.
    pub(super) fn discard(&mut self, place: usize) {
        self.waiting.retain(|waiting| waiting.place != place);
    }

    /// Whether a late command was ended by a function sent after it.
    pub(super) fn end(&self, command: &ScsiCommand) -> bool {
        let ends = |(lun, before): (Lun, Sn)| command.lun == lun && command.cmd_sn.lt(before);
        let mut missing = self.waiting.iter().filter_map(|waiting| waiting.missing);
        !command.immediate && missing.any(ends)
    }
}

impl Core {
    /// Executes a task management function.
    pub(super) fn manage(
        &mut self,
        place: usize,
        link: &mut Link,
        bhs: &Bhs,
        request: &TaskManagementRequest,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), Close> {
        self.order.release(!request.immediate);
        if !self.functions.has_room() {
            self.reject(
                link,
                RejectReason::TooManyImmediateCommands,
                bhs,
                now,
                trace,
            );
            return Ok(());
        }
        let unit = self.config.device.place(request.lun);
        let mut fence = Fence::default();
        let (tasks, result) = match request.function {
            TaskManagementFunction::AbortTask => {
                let found = self.tasks.contains(request.referenced_task_tag);
                if found {
                    (
                        vec![request.referenced_task_tag],
                        TaskManagementResult::Complete,
                    )
                } else if self.pass_over_one(request) {
                    (Vec::new(), TaskManagementResult::Complete)
                } else {
                    (Vec::new(), TaskManagementResult::TaskDoesNotExist)
                }
            }
            TaskManagementFunction::AbortTaskSet
            | TaskManagementFunction::ClearTaskSet
            | TaskManagementFunction::LogicalUnitReset
                if unit.is_none() =>
            {
                (Vec::new(), TaskManagementResult::LunDoesNotExist)
            }
            TaskManagementFunction::AbortTaskSet => (
                self.affected(Some(request.lun), request.cmd_sn),
                TaskManagementResult::Complete,
            ),
            TaskManagementFunction::ClearTaskSet => {
                // One task set for all initiators (TST 0): theirs are cleared, and they report it.
                if let Some(unit) = unit {
                    fence = self.config.device.clear(unit, self.nexus.id());
                }
                (
                    self.affected(Some(request.lun), request.cmd_sn),
                    TaskManagementResult::Complete,
                )
            }
            TaskManagementFunction::LogicalUnitReset => {
                if let Some(unit) = unit {
                    fence = self.config.device.reset(unit, self.nexus.id());
                }
                (
                    self.affected(Some(request.lun), request.cmd_sn),
                    TaskManagementResult::Complete,
                )
            }
            TaskManagementFunction::TargetWarmReset => {
                for unit in 0..self.config.device.units().len() {
                    fence.merge(self.config.device.reset(unit, self.nexus.id()));
                }
                (
                    self.affected(None, request.cmd_sn),
                    TaskManagementResult::Complete,
                )
            }
            TaskManagementFunction::TaskReassign => {
                self.reassign(place, link, request, now, trace);
                return Ok(());
            }
            _ => (Vec::new(), TaskManagementResult::NotSupported),
        };
        let tasks = self.abort(&tasks, now, trace);
        let missing = match request.function {
            TaskManagementFunction::AbortTaskSet
            | TaskManagementFunction::ClearTaskSet
            | TaskManagementFunction::LogicalUnitReset
                if result == TaskManagementResult::Complete && self.order.lacks(request.cmd_sn) =>
            {
                Some((request.lun, request.cmd_sn))
            }
            _ => None,
        };
        let mut waiting = Management {
            request: request.task_tag,
            place,
            kind: ManagementKind::Function,
            tasks,
            fence,
            missing,
        };
        if result != TaskManagementResult::Complete || self.is_over(&mut waiting) {
            self.send_managed(link, request.task_tag, result, now, trace);
        } else {
            self.functions.put(waiting);
        }
        Ok(())
    }

    /// The tasks of the unit, or of all units, sent before the function (§11.5.1: later ones are not affected).
    /// Commands that wait for a gap in CmdSN to close are affected as well, and will never become tasks.
    fn affected(&mut self, lun: Option<Lun>, before: Sn) -> Vec<TaskTag> {
        let exp_cmd_sn = self.order.exp_cmd_sn();
        if self.order.lacks(before) {
            let all = 0..before.distance(exp_cmd_sn);
            self.order
                .pass_over(all, &mut self.share, |held| match held {
                    Some(held) => held.is_for(lun),
                    // §4.2.3.3: gaps in the CmdSN space before the function may be plugged for the whole target, but
                    // not for one unit, because a missing command's unit is unknown.
                    None => lun.is_none(),
                });
        }
        self.tasks.tags(|task| {
            lun.is_none_or(|lun| task.lun == lun) && (task.cmd_sn.lt(before) || !task.holds_slot)
        })
    }

    /// ABORT TASK of a command that has not been delivered: its CmdSN counts as received if it is inside the window and
    /// before the function's own (§11.6.1 b). Returns whether it is.
    fn pass_over_one(&mut self, request: &TaskManagementRequest) -> bool {
        let (exp_cmd_sn, wanted) = (self.order.exp_cmd_sn(), request.ref_cmd_sn);
        let in_window = exp_cmd_sn.le(wanted) && wanted.le(self.order.max_cmd_sn());
        let passes = in_window && wanted.lt(request.cmd_sn);
        if passes {
            let ahead = wanted.distance(exp_cmd_sn);
            let one = ahead..ahead + 1;
            self.order.pass_over(one, &mut self.share, |_| true);
        }
        passes
    }

    /// Ends tasks without a response; returns those with store operations outstanding.
    pub(super) fn abort(
        &mut self,
        tags: &[TaskTag],
        now: Instant,
        trace: &mut Recorder,
    ) -> Vec<TaskTag> {
        let mut at_store = Vec::new();
        for &tag in tags {
            let Some(task) = self.tasks.get_mut(tag) else {
                continue;
            };
            if let Stage::AtStore(progress) = &task.stage {
                self.grants.give_back(progress.granted_bytes);
                task.stage = Stage::Aborted;
                at_store.push(tag);
            } else if matches!(task.stage, Stage::Aborted) {
                at_store.push(tag);
            } else {
                self.end_silently(tag, now, trace);
            }
        }
        at_store
    }

    /// Whether no task that a function or a logout ends can land any more.
    pub(super) fn is_over(&self, waiting: &mut Management) -> bool {
        let exp_cmd_sn = self.order.exp_cmd_sn();
        let have_come = waiting
            .missing
            .is_none_or(|(_, before)| before.le(exp_cmd_sn));
        waiting.tasks.retain(|tag| self.tasks.contains(*tag));
        let is_first = self.gate.predecessors_are_over();
        is_first && have_come && waiting.tasks.is_empty() && waiting.fence.is_down()
    }
}

impl Session {
    /// Answers the functions and logouts that have nothing to wait for any more.
    pub(super) fn management_done(&mut self, now: Instant, trace: &mut Recorder) {
        let Session { core, connections } = self;
        let mut functions = std::mem::take(&mut core.functions);
        let over = functions.take_over(|waiting| core.is_over(waiting));
        core.functions = functions;
        for Management {
            request,
            place,
            kind,
            ..
        } in over
        {
            let Some(link) = link_at(connections, place) else {
                continue;
            };
            match kind {
                ManagementKind::Function => {
                    let result = TaskManagementResult::Complete;
                    core.send_managed(link, request, result, now, trace);
                }
                ManagementKind::Logout { own } => {
                    core.send_logout(link, request, LogoutResult::Closed, now, trace);
                    let end = if own { Err(Close::LoggedOut) } else { Ok(()) };
                    core.end_after(place, link, end);
                }
            }
        }
        self.grant_waiting(now, trace);
    }
}
