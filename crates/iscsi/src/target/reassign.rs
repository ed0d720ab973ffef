//! TASK REASSIGN: a task moves to another connection (RFC 7143 §7.2.2, §11.5.1).

use wansan_trace::{Instant, Recorder};

use super::connection::Link;
use super::layout::Layout;
use super::session::Core;
use super::task::Stage;
use crate::wire::{TaskManagementRequest, TaskManagementResult};

impl Core {
    /// Moves the requested task to the connection at `place`, which received the request, and continues it from what
    /// the initiator has received.
    pub(super) fn reassign(
        &mut self,
        place: usize,
        link: &mut Link,
        request: &TaskManagementRequest,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let result = self.may_move(request);
        self.send_managed(link, request.task_tag, result, now, trace);
        if result != TaskManagementResult::Complete {
            return;
        }
        self.meters.session.reassigned_tasks += 1;
        if self.tasks.contains(request.referenced_task_tag) {
            self.move_active(place, link, request, now, trace);
        } else {
            self.move_answered(place, link, request, now, trace);
        }
    }

    /// Whether the task exists and its connection is gone.
    fn may_move(&self, request: &TaskManagementRequest) -> TaskManagementResult {
        let tag = request.referenced_task_tag;
        let active = self.tasks.get(tag);
        let active = active.filter(|task| !matches!(task.stage, Stage::Aborted));
        let answered = self.recovery.get(tag).map(|answered| &*answered.task);
        match active.or(answered) {
            _ if !self.recovery.keeps_tasks() => TaskManagementResult::ReassignNotSupported,
            None => TaskManagementResult::TaskDoesNotExist,
            Some(task) if !self.places.is_lost(task.place()) => {
                TaskManagementResult::TaskStillAllegiant
            }
            Some(_) => TaskManagementResult::Complete,
        }
    }

    fn move_active(
        &mut self,
        place: usize,
        link: &mut Link,
        request: &TaskManagementRequest,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let tag = request.referenced_task_tag;
        let relaid = self.layout(link);
        self.tasks.reassign(tag, place, link.id);
        let Some(task) = self.tasks.get_mut(tag) else {
            return;
        };
        let (reads, moved_bytes) = (task.reads(), task.moved_bytes);
        let layout = task.layout;
        match &mut task.stage {
            Stage::Ready(progress) | Stage::AtStore(progress) if reads => {
                let exp_data_sn = request.exp_data_sn.min(progress.data_pdus());
                let waits = matches!(task.stage, Stage::Ready(_));
                self.read_from(tag, layout.resumed(exp_data_sn, moved_bytes, &relaid));
                if waits {
                    link.ready.push_back(tag);
                }
            }
            Stage::Ready(_) => link.ready.push_back(tag),
            Stage::Collecting(collecting) => {
                collecting.ask_again(request.exp_data_sn);
                self.continue_write(link, tag, now, trace);
            }
            Stage::Refused(_) => self.answer_refused(link, tag, now, trace),
            // The store's completion, or the fence, will find the task at its present index.
            Stage::AtStore(_) | Stage::Aborted | Stage::Fenced(_) => {}
        }
    }

    /// A completed task, whose response and some data the initiator may have missed.
    fn move_answered(
        &mut self,
        place: usize,
        link: &mut Link,
        request: &TaskManagementRequest,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let relaid = self.layout(link);
        let Some(mut answered) = self.recovery.take(request.referenced_task_tag) else {
            return;
        };
        let task = &mut answered.task;
        task.reassign(place, link.id);
        let exp_data_sn = request.exp_data_sn.min(answered.sent_status.data_pdus);
        let bytes = match answered.data.len() {
            0 => task.moved_bytes,
            bytes => bytes as u32,
        };
        let layout = task.layout.resumed(exp_data_sn, bytes, &relaid);
        self.answer_again(link, answered, layout, 0, now, trace);
    }
}

impl Layout {
    /// The layout of the rest of `bytes` when the PDUs before `data_sn` were received in this layout, and the others
    /// are sent in `relaid`.
    fn resumed(&self, data_sn: u32, bytes: u32, relaid: &Layout) -> Layout {
        let data_sn = data_sn.max(self.first_sn);
        Layout {
            first_sn: data_sn,
            first_bytes: self.offset(data_sn).min(bytes),
            ..*relaid
        }
    }
}
