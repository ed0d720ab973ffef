//! Task management (RFC 7143 §11.5, §11.6).

use core::ops::Range;

use wansan_trace::{Instant, Recorder, TaskTag};

use super::connection::Link;
use super::error::Close;
use super::incoming::Held;
use super::session::{Core, Notice, Session, link_at};
use super::task::Stage;
use crate::sequence::Sn;
use crate::wire::{
    Bhs, Lun, RejectReason, ScsiCommand, TaskManagementFunction, TaskManagementRequest,
    TaskManagementResult,
};

/// Functions that may wait at once for tasks that are at a store.
const MAX_WAITING: usize = 16;

/// A function whose answer waits until its tasks have left the stores, and until commands that were
/// sent before it on other connections have come.
#[derive(Debug)]
pub(super) struct Management {
    request: TaskTag,
    pub(super) place: usize,
    tasks: Vec<TaskTag>,
    /// Commands for the unit that come before this CmdSN are affected, too.
    missing: Option<(Lun, Sn)>,
}

impl Core {
    /// Carries out a task management function.
    pub(super) fn manage(
        &mut self,
        place: usize,
        link: &mut Link,
        bhs: &Bhs,
        request: &TaskManagementRequest,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), Close> {
        self.release(!request.immediate);
        if self.management.len() >= MAX_WAITING {
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
        let (tasks, result) = match request.function {
            TaskManagementFunction::AbortTask => {
                let found = self.tasks.contains_key(&request.referenced_task_tag);
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
                // One task set for all initiators (TST 0): theirs are cleared, and they are told.
                let units: Vec<usize> = unit.into_iter().collect();
                for &unit in &units {
                    self.config.device.clear(unit, self.nexus.id());
                }
                self.notices.push_back(Notice::TasksEnded { units });
                (
                    self.affected(Some(request.lun), request.cmd_sn),
                    TaskManagementResult::Complete,
                )
            }
            TaskManagementFunction::LogicalUnitReset => {
                self.reset_units(unit.into_iter().collect());
                (
                    self.affected(Some(request.lun), request.cmd_sn),
                    TaskManagementResult::Complete,
                )
            }
            TaskManagementFunction::TargetWarmReset => {
                self.reset_units((0..self.config.device.units().len()).collect());
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
        let at_store = self.abort(&tasks, now, trace);
        let missing = match request.function {
            TaskManagementFunction::AbortTaskSet
            | TaskManagementFunction::ClearTaskSet
            | TaskManagementFunction::LogicalUnitReset
                if result == TaskManagementResult::Complete && self.lacks(request.cmd_sn) =>
            {
                Some((request.lun, request.cmd_sn))
            }
            _ => None,
        };
        if at_store.is_empty() && missing.is_none() {
            self.send_managed(link, request.task_tag, result, now, trace);
        } else {
            let request = request.task_tag;
            self.management.push(Management {
                request,
                place,
                tasks: at_store,
                missing,
            });
        }
        Ok(())
    }

    /// Whether commands from before `cmd_sn` are still under way: an immediate function on one
    /// connection may overtake them on another, and has to wait for them (§4.2.3.3 b).
    fn lacks(&self, cmd_sn: Sn) -> bool {
        self.window.exp_cmd_sn().lt(cmd_sn) && cmd_sn.sub(1).le(self.window.max_cmd_sn())
    }

    /// Whether a command that has come only now was ended by a function that was sent after it.
    pub(super) fn is_taken_along(&self, command: &ScsiCommand) -> bool {
        let ends = |(lun, before): (Lun, Sn)| command.lun == lun && command.cmd_sn.lt(before);
        let mut missing = self.management.iter().filter_map(|waiting| waiting.missing);
        !command.immediate && missing.any(ends)
    }

    /// The tasks of the unit, or of all units, that were sent before the function (§11.5.1: those
    /// after it are not affected). Commands that wait for a gap in CmdSN to close are affected as
    /// well, and will never become tasks.
    fn affected(&mut self, lun: Option<Lun>, before: Sn) -> Vec<TaskTag> {
        let exp_cmd_sn = self.window.exp_cmd_sn();
        if self.lacks(before) {
            self.pass_over(0..before.distance(exp_cmd_sn), |held| match held {
                Some(held) => held.is_for(lun),
                // §4.2.3.3: the whole target's CmdSN space up to the function may be plugged,
                // while one unit's may not, as nobody knows yet which unit the command is for.
                None => lun.is_none(),
            });
        }
        let affected = self.tasks.iter().filter(|(_, task)| {
            lun.is_none_or(|lun| task.lun == lun) && (task.cmd_sn.lt(before) || !task.holds_slot)
        });
        affected.map(|(tag, _)| *tag).collect()
    }

    /// ABORT TASK of a command that has not been delivered: its CmdSN counts as received if it
    /// lies inside the window and before the function's own (§11.6.1 b). Says whether it does.
    fn pass_over_one(&mut self, request: &TaskManagementRequest) -> bool {
        let (exp_cmd_sn, wanted) = (self.window.exp_cmd_sn(), request.ref_cmd_sn);
        let in_window = exp_cmd_sn.le(wanted) && wanted.le(self.window.max_cmd_sn());
        let passes = in_window && wanted.lt(request.cmd_sn);
        if passes {
            let ahead = wanted.distance(exp_cmd_sn);
            self.pass_over(ahead..ahead + 1, |_| true);
        }
        passes
    }

    fn pass_over(&mut self, ahead: Range<u32>, affected: impl Fn(Option<&Held>) -> bool) {
        for held in self.held.pass_over(ahead, affected) {
            self.let_go(&held);
        }
        self.pass_received();
    }

    /// Ends tasks without an answer; gives those that must wait for their store.
    pub(super) fn abort(
        &mut self,
        tags: &[TaskTag],
        now: Instant,
        trace: &mut Recorder,
    ) -> Vec<TaskTag> {
        let mut at_store = Vec::new();
        for &tag in tags {
            let Some(task) = self.tasks.get_mut(&tag) else {
                continue;
            };
            if let Stage::AtStore(progress) = &task.stage {
                let granted_bytes = progress.granted_bytes;
                task.stage = Stage::Aborted;
                self.return_grant(granted_bytes);
                at_store.push(tag);
            } else if matches!(task.stage, Stage::Aborted) {
                at_store.push(tag);
            } else {
                self.end_silently(tag, now, trace);
            }
        }
        at_store
    }

    /// Tells this initiator and the others that the units were reset.
    fn reset_units(&mut self, units: Vec<usize>) {
        for &unit in &units {
            self.config.device.reset(unit);
        }
        self.notices.push_back(Notice::TasksEnded { units });
    }
}

impl Session {
    /// Another initiator has reset these units or cleared their task sets: ends the tasks there. The
    /// device has noted the unit attention already.
    pub fn end_tasks(&mut self, units: &[usize], now: Instant, trace: &mut Recorder) {
        let tasks = self.core.tasks.iter();
        let hit = tasks
            .filter(|(_, task)| units.contains(&task.unit))
            .map(|(tag, _)| *tag);
        let hit: Vec<TaskTag> = hit.collect();
        self.core.abort(&hit, now, trace);
        self.grant_waiting(now, trace);
    }

    /// Ends the tasks that another nexus has had aborted with its registration (PREEMPT AND ABORT,
    /// SPC-4 5.13.11.5).
    pub(super) fn abort_preempted(&mut self, now: Instant, trace: &mut Recorder) {
        let units = self.core.nexus.take_aborts();
        if units.is_empty() {
            return;
        }
        let tasks = self.core.tasks.iter();
        let hit = tasks.filter(|(_, task)| units.contains(&task.unit));
        let hit: Vec<TaskTag> = hit.map(|(tag, _)| *tag).collect();
        self.core.abort(&hit, now, trace);
    }

    /// Answers the functions whose tasks have all left the stores.
    pub(super) fn management_done(&mut self, now: Instant, trace: &mut Recorder) {
        let Session { core, connections } = self;
        let tasks = &core.tasks;
        let exp_cmd_sn = core.window.exp_cmd_sn();
        let done = |waiting: &mut Management| {
            let have_come = waiting
                .missing
                .is_none_or(|(_, before)| before.le(exp_cmd_sn));
            have_come && waiting.tasks.iter().all(|tag| !tasks.contains_key(tag))
        };
        let answered: Vec<Management> = core.management.extract_if(.., done).collect();
        for Management { request, place, .. } in answered {
            if let Some(link) = link_at(connections, place) {
                core.send_managed(link, request, TaskManagementResult::Complete, now, trace);
            }
        }
        self.grant_waiting(now, trace);
    }
}
