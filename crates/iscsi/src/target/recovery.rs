//! Recovery within a connection: SNACK and lost PDUs (RFC 7143 §7.2, §7.8, §11.16).

use core::ops::Range;

use wansan_trace::{Instant, Recorder, TaskTag};

use super::answered::Answered;
use super::connection::Link;
use super::data_in::DataInStream;
use super::error::Close;
use super::layout::Layout;
use super::session::Core;
use super::task::{Repeat, Stage};
use crate::sequence::Sn;
use crate::wire::{BHS_BYTES, Bhs, DataOut, Opcode, RESERVED_TAG, RejectReason, Snack, SnackKind};

impl Core {
    /// A PDU was lost to a data digest error, and a Reject was sent. The initiator resends a request (§7.8); data is
    /// requested by a recovery R2T.
    pub(super) fn data_lost(
        &mut self,
        place: usize,
        link: &mut Link,
        bhs: &Bhs,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), Close> {
        if Opcode::from_wire(bhs[0] & 0x3f) != Opcode::DataOut {
            return Ok(());
        }
        let data_out = DataOut::parse(bhs)?;
        let tag = data_out.task_tag;
        let task = self.tasks.get_mut(tag);
        let Some(task) = task.filter(|task| task.place() == place) else {
            let share = &mut self.share;
            return self.order.hold_data_out(place, tag, bhs, None, share);
        };
        match &mut task.stage {
            Stage::Collecting(collecting) => {
                collecting.lose(&data_out);
                self.continue_write(link, tag, now, trace);
            }
            Stage::Refused(_) if data_out.final_ && data_out.transfer_tag == RESERVED_TAG => {
                self.answer_refused(link, tag, now, trace);
            }
            _ => {}
        }
        Ok(())
    }

    /// Executes a SNACK Request. If the PDUs cannot be resent, it is rejected; error recovery level 0 does not support
    /// SNACK at all (§7.1.5).
    pub(super) fn snack(
        &mut self,
        link: &mut Link,
        bhs: &Bhs,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), Close> {
        let snack = match Snack::parse(bhs) {
            Ok(snack) if self.recovery.resends() => snack,
            Err(error) if self.recovery.resends() => {
                self.reject(link, RejectReason::InvalidPduField, bhs, now, trace);
                return Err(error.into());
            }
            _ => {
                self.reject(link, RejectReason::SnackReject, bhs, now, trace);
                return Ok(());
            }
        };
        link.meter.snacks += 1;
        let done = match snack.kind {
            SnackKind::Status => self.send_answers_again(link, &snack, now, trace),
            SnackKind::DataOrR2t => self.send_run_again(link, &snack, now, trace),
            SnackKind::ResegmentedData => self.resegment(link, &snack, now, trace),
            // This target never sets the A bit in Data-In, so nothing needs acknowledgement; an unsolicited one is
            // harmless.
            SnackKind::DataAck => true,
        };
        if !done {
            self.reject(link, RejectReason::SnackReject, bhs, now, trace);
        }
        Ok(())
    }

    /// Status SNACK: resends responses, identical except for ExpCmdSN and MaxCmdSN (§11.16).
    fn send_answers_again(
        &mut self,
        link: &mut Link,
        snack: &Snack,
        now: Instant,
        trace: &mut Recorder,
    ) -> bool {
        let Some(kept) = link.kept.take() else {
            return false;
        };
        let run = kept.run(Sn(snack.beg_run), snack.run_length);
        let mut done = run.is_some();
        for (stat_sn, answer) in run.into_iter().flatten() {
            if let Some((bhs, data)) = &answer.pdu {
                let mut bhs = *bhs;
                self.update_window(&mut bhs);
                link.push(&bhs, data, now, trace);
            } else {
                done &= self.send_status_in_data_again(link, answer.task, stat_sn, now, trace);
            }
        }
        link.kept = Some(kept);
        done
    }

    /// Resends the last Data-In of a task, which carried the status `stat_sn`, if it is still needed; returns false if that
    /// is not possible.
    fn send_status_in_data_again(
        &mut self,
        link: &mut Link,
        task: Option<TaskTag>,
        stat_sn: Sn,
        now: Instant,
        trace: &mut Recorder,
    ) -> bool {
        let Some(tag) = task else { return false };
        let active = self.tasks.get(tag);
        let (task, sent_status) = match (active, self.recovery.get(tag)) {
            (Some(task), _) => match &task.repeat {
                Repeat::Data(sent_status) => (task, **sent_status),
                Repeat::All => return false,
                Repeat::No => return true,
            },
            (None, Some(answered)) => (&*answered.task, answered.sent_status),
            (None, None) => return true,
        };
        // Another task has the tag: the initiator has received this one's status, and asks for others.
        if task.connection() != link.id || !sent_status.in_data || sent_status.stat_sn != stat_sn {
            return true;
        }
        let last = sent_status.data_pdus - 1;
        self.send_data_run_again(link, tag, |_| Some(last..last + 1), now, trace)
    }

    fn update_window(&self, bhs: &mut Bhs) {
        bhs[28..32].copy_from_slice(&self.order.exp_cmd_sn().0.to_be_bytes());
        bhs[32..36].copy_from_slice(&self.order.max_cmd_sn().0.to_be_bytes());
    }

    /// Data or R2T SNACK: resends PDUs of one task. Returns whether that is possible.
    fn send_run_again(
        &mut self,
        link: &mut Link,
        snack: &Snack,
        now: Instant,
        trace: &mut Recorder,
    ) -> bool {
        self.send_data_run_again(link, snack.task_tag, |pdus| run_of(snack, pdus), now, trace)
    }

    /// Resends the Data-In PDUs or R2Ts of a task that `run` returns for the number of all of them.
    fn send_data_run_again(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        run: impl Fn(u32) -> Option<Range<u32>>,
        now: Instant,
        trace: &mut Recorder,
    ) -> bool {
        if let Some(task) = self.tasks.get_mut(tag) {
            if task.connection() != link.id {
                return false;
            }
            return match &mut task.stage {
                Stage::Ready(progress) | Stage::AtStore(progress) => {
                    let run = run(progress.data_pdus());
                    let run = run.filter(|run| task.layout.first_sn <= run.start);
                    run.is_some_and(|run| progress.ask_again(run))
                }
                Stage::Collecting(collecting) => {
                    let Some(run) = run(collecting.r2t_sn) else {
                        return false;
                    };
                    // R2Ts answered in full need not be resent.
                    for asked in collecting
                        .asked
                        .iter()
                        .filter(|asked| run.contains(&asked.r2t_sn))
                    {
                        let r2t = asked.r2t(task.lun, tag, link.stat_sn, self.order.announced());
                        let mut bhs = [0; BHS_BYTES];
                        r2t.emit(&mut bhs);
                        link.push(&bhs, &[], now, trace);
                    }
                    true
                }
                Stage::Refused(_) | Stage::Aborted | Stage::Fenced(_) => false,
            };
        }
        let Some(answered) = self.recovery.get(tag) else {
            return false;
        };
        let first_sn = answered.task.layout.first_sn;
        let run = run(answered.sent_status.data_pdus).filter(|run| first_sn <= run.start);
        let (Some(run), true) = (run, answered.task.connection() == link.id) else {
            return false;
        };
        self.send_data_again(link, tag, run, now, trace)
    }

    /// Resends Data-In of a completed task: from its kept data, or by reading it again.
    fn send_data_again(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        run: Range<u32>,
        now: Instant,
        trace: &mut Recorder,
    ) -> bool {
        let Some(answered) = self.recovery.take(tag) else {
            return false;
        };
        if answered.data.is_empty() {
            if !answered.task.reads() {
                self.recovery.put(answered);
                return false;
            }
            let sent_status = answered.sent_status;
            self.revive(answered, Repeat::Data(Box::new(sent_status)));
            if let Some(Stage::Ready(progress)) =
                self.tasks.get_mut(tag).map(|task| &mut task.stage)
            {
                progress.ask_again(run);
                link.ready.push_back(tag);
            }
        } else {
            let status = answered.sent_status.in_data();
            let stream = DataInStream::of_bytes(&answered.task, &answered.data, status);
            self.send_data(link, &stream, &answered.data, run, now, trace);
            self.recovery.put(answered);
        }
        true
    }

    /// R-Data SNACK: resends all data of a task, split by the present MaxRecvDataSegmentLength, and then its status
    /// with the SNACK Tag (§11.16.3).
    fn resegment(
        &mut self,
        link: &mut Link,
        snack: &Snack,
        now: Instant,
        trace: &mut Recorder,
    ) -> bool {
        let tag = snack.task_tag;
        let layout = self.layout(link);
        if let Some(answered) = self.recovery.take(tag) {
            let is_own = answered.task.connection() == link.id;
            if !is_own || answered.data.is_empty() && !answered.task.reads() {
                self.recovery.put(answered);
                return false;
            }
            self.answer_again(link, answered, layout, snack.transfer_tag, now, trace);
            return true;
        }
        let task = self.tasks.get_mut(tag);
        let Some(task) = task.filter(|task| task.connection() == link.id && task.reads()) else {
            return false;
        };
        task.snack_tag = snack.transfer_tag;
        self.read_from(tag, layout);
        true
    }

    /// Answers a task again, with its data from the first PDU of `layout` on.
    pub(super) fn answer_again(
        &mut self,
        link: &mut Link,
        answered: Answered,
        layout: Layout,
        snack_tag: u32,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let Answered {
            mut task,
            sent_status,
            data,
        } = answered;
        let tag = task.tag;
        task.snack_tag = snack_tag;
        task.layout = layout;
        if data.is_empty() && task.reads() && layout.first_bytes < task.moved_bytes {
            self.revive(
                Answered {
                    task,
                    sent_status,
                    data,
                },
                Repeat::All,
            );
            self.read_from(tag, layout);
            link.ready.push_back(tag);
            return;
        }
        let data_pdus = if data.is_empty() {
            sent_status.data_pdus
        } else {
            let stream = DataInStream::of_bytes(&task, &data, None);
            self.send_data(link, &stream, &data, 0..u32::MAX, now, trace)
        };
        task.repeat = Repeat::All;
        self.send_status(
            link,
            tag,
            task,
            sent_status.outcome,
            data_pdus,
            data,
            now,
            trace,
        );
    }

    /// Continues an active read from the first PDU of `layout`.
    pub(super) fn read_from(&mut self, tag: TaskTag, layout: Layout) {
        let Some(task) = self.tasks.get_mut(tag) else {
            return;
        };
        task.layout = layout;
        if let Repeat::Data(_) = task.repeat {
            task.repeat = Repeat::All;
        }
        match &mut task.stage {
            Stage::Ready(progress) => progress.begin_at(&layout),
            Stage::AtStore(progress) => progress.restart = true,
            Stage::Collecting(_) | Stage::Refused(_) | Stage::Aborted | Stage::Fenced(_) => {}
        }
    }

    /// The store has completed a read that must restart.
    pub(super) fn restart(&mut self, tag: TaskTag) {
        if let Some(task) = self.tasks.get_mut(tag)
            && let Stage::AtStore(progress) = &mut task.stage
        {
            progress.begin_at(&task.layout);
            self.tasks.set_aside(tag);
        }
    }
}

/// The requested DataSNs or R2TSNs of a task that has had `pdus` of them: from BegRun on, RunLength of them or all when
/// that is 0.
fn run_of(snack: &Snack, pdus: u32) -> Option<Range<u32>> {
    let end = match snack.run_length {
        0 => pdus,
        length => snack.beg_run.checked_add(length)?,
    };
    (snack.beg_run < end && end <= pdus).then_some(snack.beg_run..end)
}
