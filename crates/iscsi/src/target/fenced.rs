//! Tasks that wait for other sessions' store operations to complete.

use wansan_trace::{Instant, Recorder, TaskTag};

use super::session::{Core, Session, link_at};
use super::task::{Fenced, Progress, Stage};
use crate::scsi::{Answer, Fence};

impl Core {
    /// Makes a task wait for `fence`. Then it is answered with `answer`, or a store operation starts.
    pub(super) fn wait_for(&mut self, tag: TaskTag, fence: Fence, answer: Option<Answer>) {
        let Some(task) = self.tasks.get_mut(tag) else {
            return;
        };
        let progress = match &mut task.stage {
            Stage::Ready(progress) => std::mem::take(progress),
            _ => Progress::default(),
        };
        task.stage = Stage::Fenced(Box::new(Fenced {
            fence,
            answer,
            progress,
        }));
        if self.fenced.len() >= self.tasks.len() {
            // Some have been aborted.
            self.fenced.retain(|tag| self.tasks.contains(*tag));
        }
        self.fenced.push(tag);
    }

    /// Applies the changes of other sessions: the tasks that they have aborted end without a response (SAM-5 5.3.1: TAS
    /// is 0).
    ///
    /// Call it before each command: one that arrives after the unit attention for such a change is not among the
    /// aborted ones.
    #[inline]
    pub(super) fn refresh(&mut self, now: Instant, trace: &mut Recorder) {
        if self.nexus.has_aborts() {
            self.abort_for_others(now, trace);
        }
    }

    #[cold]
    fn abort_for_others(&mut self, now: Instant, trace: &mut Recorder) {
        let units = self.nexus.take_aborts();
        let hit = self.tasks.tags(|task| units.contains(&task.unit));
        self.abort(&hit, now, trace);
    }
}

impl Session {
    /// Applies the changes of other sessions.
    #[inline]
    pub(super) fn refresh(&mut self, now: Instant, trace: &mut Recorder) {
        if self.core.nexus.has_aborts() {
            self.abort_for_others(now, trace);
        }
    }

    #[cold]
    fn abort_for_others(&mut self, now: Instant, trace: &mut Recorder) {
        let was_closed = self.core.order.is_closed();
        self.core.abort_for_others(now, trace);
        self.management_done(now, trace);
        self.announce_window(was_closed, now, trace);
    }

    /// Continues the tasks whose fence is down.
    pub(super) fn pass_fences(&mut self, now: Instant, trace: &mut Recorder) {
        let Session { core, connections } = self;
        for tag in std::mem::take(&mut core.fenced) {
            let Some(task) = core.tasks.get_mut(tag) else {
                continue;
            };
            let Stage::Fenced(fenced) = &mut task.stage else {
                continue;
            };
            if !fenced.fence.is_down() {
                core.fenced.push(tag);
                continue;
            }
            let answer = fenced.answer.take();
            task.stage = Stage::Ready(std::mem::take(&mut fenced.progress));
            let Some(link) = link_at(connections, task.place()) else {
                continue;
            };
            match answer {
                Some(answer) => core.answer_task(link, tag, &answer, now, trace),
                None => core.queue(link, tag),
            }
        }
    }
}
