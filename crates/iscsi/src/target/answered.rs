//! Completed tasks whose response the initiator has not acknowledged (RFC 7143 §4.2.2.2).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use wansan_trace::{ConnectionId, Instant, Recorder, TaskTag};

use super::connection::Link;
use super::data_in::InData;
use super::kept;
use super::layout::Layout;
use super::session::Core;
use super::task::{Progress, Repeat, Stage, TagHash, Task};
use crate::scsi::Sense;
use crate::sequence::Sn;
use crate::wire::{Bhs, Residual, ScsiStatus};

/// How a SCSI task ended.
pub(super) type Outcome = (ScsiStatus, Option<Sense>, Residual);

/// The status sent for a task.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentStatus {
    /// StatSN of the response on the task's connection.
    pub(super) stat_sn: Sn,
    pub(super) outcome: Outcome,
    /// Number of its Data-In PDUs, or R2Ts.
    pub(super) data_pdus: u32,
    /// It was in the last of its Data-In PDUs (§11.7.3).
    pub(super) in_data: bool,
}

impl SentStatus {
    /// If the last Data-In has it: what a replica of that needs.
    pub(super) fn in_data(&self) -> Option<InData> {
        let (.., residual) = self.outcome;
        self.in_data.then_some(InData {
            stat_sn: self.stat_sn,
            residual,
        })
    }
}

/// A task that may have to be answered again. Data from a store is then read again; other data is kept.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) task: Box<Task>,
    pub(super) sent_status: SentStatus,
    /// Its data, if not from a store.
    pub(super) data: Vec<u8>,
}

/// Owns the state that error recovery needs of completed tasks: each is kept from its response until ExpStatSN covers
/// that, under a tag that no active task has. At error recovery level 0 nothing is kept.
#[derive(Debug)]
pub(super) struct Recovery {
    error_recovery_level: u8,
    answered: HashMap<TaskTag, Answered, TagHash>,
}

impl Recovery {
    pub(super) fn new(error_recovery_level: u8) -> Self {
        Recovery {
            error_recovery_level,
            answered: HashMap::default(),
        }
    }

    /// Whether PDUs lost within a connection are resent (error recovery level 1 and up).
    pub(super) fn resends(&self) -> bool {
        self.error_recovery_level > 0
    }

    /// Whether the tasks of a lost connection are kept (error recovery level 2).
    pub(super) fn keeps_tasks(&self) -> bool {
        self.error_recovery_level > 1
    }

    /// Keeps a task until its response is acknowledged. Its slot and memory were released with the response.
    pub(super) fn keep(&mut self, mut task: Box<Task>, sent_status: SentStatus, data: Vec<u8>) {
        task.holds_slot = false;
        task.charged_bytes = 0;
        task.stage = Stage::Ready(Progress::default());
        self.put(Answered {
            task,
            sent_status,
            data,
        });
    }

    /// Keeps a task taken by [`Recovery::take`].
    pub(super) fn put(&mut self, answered: Answered) {
        self.answered.insert(answered.task.tag, answered);
    }

    pub(super) fn get(&self, tag: TaskTag) -> Option<&Answered> {
        self.answered.get(&tag)
    }

    pub(super) fn take(&mut self, tag: TaskTag) -> Option<Answered> {
        self.answered.remove(&tag)
    }

    /// Forgets the tasks of the connection at `place`.
    pub(super) fn discard(&mut self, place: usize) {
        self.answered
            .retain(|_, answered| answered.task.place() != place);
    }

    /// The response is acknowledged, or will not be resent: its task is over.
    fn forget(&mut self, connection: ConnectionId, (stat_sn, answer): &(Sn, kept::Answer)) {
        if let Some(tag) = answer.task
            && let Entry::Occupied(answered) = self.answered.entry(tag)
            && answered.get().task.connection() == connection
            && answered.get().sent_status.stat_sn == *stat_sn
        {
            answered.remove();
        }
    }

    /// The initiator has acknowledged all responses of the connection before `exp_stat_sn`.
    pub(super) fn acknowledge(&mut self, link: &mut Link, exp_stat_sn: Sn) {
        let Some(kept) = &mut link.kept else { return };
        for _ in 0..kept.acknowledged(exp_stat_sn) {
            if let Some(acknowledged) = kept.pop() {
                self.forget(link.id, &acknowledged);
            }
        }
    }

    /// Keeps a response sent on the connection until it is acknowledged: a PDU, or `None` if it was a Data-In. `task` is
    /// the SCSI task that it completes, with the length of the data kept with it.
    fn keep_answer(
        &mut self,
        link: &mut Link,
        pdu: Option<(&Bhs, &[u8])>,
        task: Option<(TaskTag, usize)>,
    ) {
        let Some(kept) = &mut link.kept else { return };
        let let_go = kept.push(kept::Answer {
            pdu: pdu.map(|(bhs, data)| (*bhs, data.into())),
            task: task.map(|(tag, _)| tag),
            task_bytes: task.map_or(0, |(_, bytes)| bytes),
        });
        if let Some(let_go) = let_go {
            self.forget(link.id, &let_go);
        }
    }
}

impl InData {
    /// The status of a task with `presented_bytes` of data, to be sent next.
    pub(super) fn next(link: &Link, task: &Task, presented_bytes: u64) -> InData {
        InData {
            stat_sn: link.stat_sn,
            residual: Residual::of(task.expected_bytes, presented_bytes),
        }
    }

    /// The status that the last Data-In of a read may carry. A read that is answered again has it in a SCSI Response, for
    /// its SNACK Tag (§11.4.10). So has a read of which data was requested again before its end.
    pub(super) fn of_read(link: &Link, task: &Task) -> Option<InData> {
        match &task.repeat {
            Repeat::Data(sent_status) => sent_status.in_data(),
            Repeat::No if task.snack_tag == 0 && !task.was_requested_again() => {
                Some(InData::next(link, task, task.presented_bytes()))
            }
            Repeat::No | Repeat::All => None,
        }
    }
}

impl Core {
    /// A task has been answered by `status` in the last of its `data_pdus` Data-In PDUs: takes the StatSN, and keeps the
    /// task, with data not from a store, if it may have to be resent.
    pub(super) fn answered_in_data(
        &mut self,
        link: &mut Link,
        task: Box<Task>,
        status: InData,
        data_pdus: u32,
        data: &[u8],
    ) {
        let stat_sn = link.take_stat_sn();
        debug_assert_eq!(stat_sn, status.stat_sn);
        if !self.recovery.resends() {
            return;
        }
        let sent_status = SentStatus {
            stat_sn,
            outcome: (ScsiStatus::Good, None, status.residual),
            data_pdus,
            in_data: true,
        };
        let kept = Some((task.tag, data.len()));
        self.recovery.keep_answer(link, None, kept);
        self.recovery.keep(task, sent_status, data.to_vec());
    }

    /// How the Data-In of a task that starts on that connection is split into PDUs.
    pub(super) fn layout(&self, link: &Link) -> Layout {
        let pdu_bytes = link.parameters.max_send_data_bytes;
        Layout::new(pdu_bytes, self.parameters.max_burst_bytes)
    }

    /// Makes a completed task active, to resend some of its data, or the whole response.
    pub(super) fn revive(&mut self, answered: Answered, repeat: Repeat) {
        let Answered {
            mut task,
            sent_status,
            ..
        } = answered;
        task.repeat = repeat;
        task.stage = Stage::Ready(Progress {
            sent_bytes: task.moved_bytes,
            data_sn: sent_status.data_pdus,
            store_entered: true,
            ..Progress::default()
        });
        self.tasks.insert(task);
    }

    /// The data of a completed task has been resent, or cannot be: keeps the task unless its status was acknowledged
    /// meanwhile.
    pub(super) fn repeated(&mut self, link: &Link, tag: TaskTag) {
        if let Some(mut task) = self.end(tag)
            && let Repeat::Data(sent_status) = std::mem::replace(&mut task.repeat, Repeat::No)
            && let Some(kept) = &link.kept
            && kept.has(sent_status.stat_sn)
        {
            self.recovery.keep(task, *sent_status, Vec::new());
        }
    }

    /// Queues a response that has taken a StatSN, and keeps it until it is acknowledged. `task` is the SCSI task that
    /// it completes, with the length of the data kept with it.
    pub(super) fn push_answer(
        &mut self,
        link: &mut Link,
        bhs: &Bhs,
        data: &[u8],
        task: Option<(TaskTag, usize)>,
        now: Instant,
        trace: &mut Recorder,
    ) {
        link.push(bhs, data, now, trace);
        self.recovery.keep_answer(link, Some((bhs, data)), task);
    }
}
