//! Tasks that wait for other sessions' operations to leave the stores.

use wansan_trace::{Instant, Recorder, TaskTag};

use super::session::{Core, Session, link_at};
use super::task::{Fenced, Progress, Stage};
use crate::scsi::{Answer, Fence};

impl Core {
    /// Has a task wait for `fence`. Then it is answered with `answer`, or a store is asked.
    pub(super) fn wait_for(&mut self, tag: TaskTag, fence: Fence, answer: Option<Answer>) {
        let Some(task) = self.tasks.get_mut(&tag) else {
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
        self.fenced.push(tag);
    }
}

impl Session {
    /// Takes in what other sessions have changed: tasks that they have aborted end without an
    /// answer (SAM-5 5.3.1: TAS is 0).
    pub(super) fn refresh(&mut self, now: Instant, trace: &mut Recorder) {
        let units = self.core.nexus.take_aborts();
        if units.is_empty() {
            return;
        }
        let tasks = self.core.tasks.iter();
        let hit = tasks.filter(|(_, task)| units.contains(&task.unit));
        let hit: Vec<TaskTag> = hit.map(|(tag, _)| *tag).collect();
        self.core.abort(&hit, now, trace);
        self.management_done(now, trace);
    }

    /// Goes on with the tasks whose fence is down.
    pub(super) fn pass_fences(&mut self, now: Instant, trace: &mut Recorder) {
        let Session { core, connections } = self;
        for tag in std::mem::take(&mut core.fenced) {
            let Some(task) = core.tasks.get_mut(&tag) else {
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
            let Some(link) = link_at(connections, task.place) else {
                continue;
            };
            match answer {
                Some(answer) => core.answer_task(link, tag, &answer, now, trace),
                None => link.ready.push_back(tag),
            }
        }
    }
}
