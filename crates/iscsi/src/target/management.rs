//! Task management (RFC 7143 §11.5, §11.6).

use wansan_trace::{Instant, Recorder, TaskTag};

use super::connection::Link;
use super::error::Close;
use super::session::{Core, Notice, Session};
use super::task::Stage;
use crate::scsi::UnitAttention;
use crate::sequence::Sn;
use crate::wire::{
    Bhs, Lun, RejectReason, TaskManagementFunction, TaskManagementRequest, TaskManagementResult,
};

/// Functions that may wait at once for tasks that are at a store.
const MAX_WAITING: usize = 16;

/// A function whose answer waits until its tasks have left the stores.
#[derive(Debug)]
pub(super) struct Management {
    request: TaskTag,
    place: usize,
    tasks: Vec<TaskTag>,
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
                self.tasks_of(Some(request.lun), request.cmd_sn),
                TaskManagementResult::Complete,
            ),
            TaskManagementFunction::ClearTaskSet | TaskManagementFunction::LogicalUnitReset => {
                self.reset_units(unit.into_iter().collect());
                (
                    self.tasks_of(Some(request.lun), request.cmd_sn),
                    TaskManagementResult::Complete,
                )
            }
            TaskManagementFunction::TargetWarmReset => {
                self.reset_units((0..self.config.device.units().len()).collect());
                (
                    self.tasks_of(None, request.cmd_sn),
                    TaskManagementResult::Complete,
                )
            }
            TaskManagementFunction::TaskReassign => {
                (Vec::new(), TaskManagementResult::ReassignNotSupported)
            }
            _ => (Vec::new(), TaskManagementResult::NotSupported),
        };
        let at_store = self.abort(&tasks, now, trace);
        if at_store.is_empty() {
            self.send_managed(link, request.task_tag, result, now, trace);
        } else {
            let request = request.task_tag;
            self.management.push(Management {
                request,
                place,
                tasks: at_store,
            });
        }
        Ok(())
    }

    /// The tasks that were sent before the function (§11.5.1: those after it are not affected).
    fn tasks_of(&self, lun: Option<Lun>, before: Sn) -> Vec<TaskTag> {
        let affected = self.tasks.iter().filter(|(_, task)| {
            lun.is_none_or(|lun| task.lun == lun) && (task.cmd_sn.lt(before) || !task.holds_slot)
        });
        affected.map(|(tag, _)| *tag).collect()
    }

    /// Ends tasks without an answer; gives those that must wait for their store.
    fn abort(&mut self, tags: &[TaskTag], now: Instant, trace: &mut Recorder) -> Vec<TaskTag> {
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
            self.nexus.establish(unit, UnitAttention::UnitReset);
        }
        self.notices.push_back(Notice::UnitsReset { units });
    }
}

impl Session {
    /// Another initiator has reset these units: ends the tasks there and notes the unit attention.
    pub fn unit_was_reset(&mut self, units: &[usize], now: Instant, trace: &mut Recorder) {
        for &unit in units {
            self.core.nexus.establish(unit, UnitAttention::UnitReset);
        }
        let tasks = self.core.tasks.iter();
        let hit = tasks
            .filter(|(_, task)| units.contains(&task.unit))
            .map(|(tag, _)| *tag);
        let hit: Vec<TaskTag> = hit.collect();
        self.core.abort(&hit, now, trace);
        self.grant_waiting(now, trace);
    }

    /// Answers the functions whose tasks have all left the stores.
    pub(super) fn management_done(&mut self, now: Instant, trace: &mut Recorder) {
        let Session { core, connections } = self;
        let tasks = &core.tasks;
        let done =
            |waiting: &mut Management| waiting.tasks.iter().all(|tag| !tasks.contains_key(tag));
        let answered: Vec<Management> = core.management.extract_if(.., done).collect();
        for Management { request, place, .. } in answered {
            let link = &mut connections[place].link;
            core.send_managed(link, request, TaskManagementResult::Complete, now, trace);
        }
        self.grant_waiting(now, trace);
    }
}
