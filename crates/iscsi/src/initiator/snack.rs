//! Recovery within a connection: PDUs lost to a digest error are requested again (error recovery level 1; RFC 7143
//! §7.1.4.2, §7.8, §7.9, §11.16).

use wansan_trace::{Instant, Recorder, TaskTag};

use super::connection::Link;
use super::error::SessionError;
use super::session::Core;
use super::task::{Answer, Stage, Task};
use crate::sequence::Sn;
use crate::wire::{
    BHS_BYTES, Bhs, DataIn, FrameError, Lun, Opcode, RESERVED_TAG, RESERVED_TASK_TAG, Snack,
    SnackKind,
};

/// Most missing numbers of one task or one connection.
const MAX_MISSING: usize = 4096;
/// Most SNACKs queued on one connection.
const MAX_SNACKS: usize = 1024;

/// The numbers of a sequence that were received: all before `expected`, except the missing ones.
#[derive(Debug, Default)]
pub(super) struct Came {
    /// The number after the highest that was received or is known to be lost.
    pub(super) expected: u32,
    /// Missing numbers before it, ascending.
    missing: Vec<u32>,
}

impl Came {
    pub(super) fn from(expected: u32) -> Self {
        Came {
            expected,
            missing: Vec::new(),
        }
    }

    /// Whether nothing is missing.
    pub(super) fn is_whole(&self) -> bool {
        self.missing.is_empty()
    }

    /// The lowest missing number: all before it were received.
    pub(super) fn first_missing(&self) -> u32 {
        self.missing.first().copied().unwrap_or(self.expected)
    }

    /// `number` was received; returns whether for the first time.
    pub(super) fn take(&mut self, number: u32) -> bool {
        if number == self.expected {
            self.expected = self.expected.wrapping_add(1);
            return true;
        }
        let place = self.missing.iter().position(|missing| *missing == number);
        place.map(|place| self.missing.remove(place)).is_some()
    }

    /// All numbers before `end` are known to have been sent: returns the newly missing ones, as the first and their
    /// count; `None` when there are too many.
    pub(super) fn sent_up_to(&mut self, end: u32) -> Option<(u32, u32)> {
        let first = self.expected;
        let count = end.wrapping_sub(first);
        if count >= 1 << 31 {
            return Some((first, 0)); // Sent before.
        }
        if self.missing.len() + count as usize > MAX_MISSING {
            return None;
        }
        self.missing
            .extend((0..count).map(|n| first.wrapping_add(n)));
        self.expected = end;
        Some((first, count))
    }
}

impl Link {
    /// A numbered PDU with `stat_sn` was received; returns whether for the first time. Above error recovery level 0 it
    /// requests those that turn out to be missing (§7.9).
    pub(super) fn take_status(&mut self, stat_sn: Sn) -> Result<bool, SessionError> {
        if self.recovers && stat_sn.0 != self.stat_sns.expected {
            self.statuses_sent_up_to(stat_sn)?;
        }
        if self.stat_sns.take(stat_sn.0) {
            self.acknowledge();
            return Ok(true);
        }
        if self.recovers {
            return Ok(false);
        }
        Err(SessionError::StatusOutOfOrder {
            got: stat_sn,
            expected: self.exp_stat_sn,
        })
    }

    /// Acknowledges the statuses received without a gap. The target forgets the tasks that they complete, so none is
    /// covered whose data may have to be resent (§11.16).
    fn acknowledge(&mut self) {
        let received = Sn(self.stat_sns.first_missing());
        let held = self.held.iter().map(|(_, stat_sn)| *stat_sn);
        self.exp_stat_sn = held.fold(received, |first, held| match held.lt(first) {
            true => held,
            false => first,
        });
    }

    /// Acknowledges those statuses whose tasks no longer lack data.
    pub(super) fn release_statuses(&mut self, lacks_data: impl Fn(TaskTag) -> bool) {
        if !self.held.is_empty() {
            self.held.retain(|(tag, _)| lacks_data(*tag));
            self.acknowledge();
        }
    }

    /// Requests the statuses before `end` that have not been requested yet.
    fn statuses_sent_up_to(&mut self, end: Sn) -> Result<(), SessionError> {
        let lost = self.stat_sns.sent_up_to(end.0);
        let (beg_run, run_length) = lost.ok_or(SessionError::StatusOutOfOrder {
            got: end,
            expected: self.exp_stat_sn,
        })?;
        self.snack(SnackKind::Status, None, beg_run, run_length)
    }

    /// Queues a SNACK for `run_length` PDUs, if not zero.
    fn snack(
        &mut self,
        kind: SnackKind,
        task: Option<(Lun, TaskTag)>,
        beg_run: u32,
        run_length: u32,
    ) -> Result<(), SessionError> {
        if run_length == 0 {
            return Ok(());
        }
        if self.snacks.len() >= MAX_SNACKS {
            return Err(SessionError::Damaged);
        }
        let (lun, task_tag) = task.unwrap_or((Lun::default(), RESERVED_TASK_TAG));
        self.snacks.push_back(Snack {
            kind,
            lun,
            task_tag,
            transfer_tag: RESERVED_TAG,
            exp_stat_sn: self.exp_stat_sn,
            beg_run,
            run_length,
        });
        Ok(())
    }

    /// Sends the oldest queued SNACK.
    pub(super) fn send_snack(&mut self, mut snack: Snack, now: Instant, trace: &mut Recorder) {
        snack.exp_stat_sn = self.exp_stat_sn;
        let mut bhs = [0; BHS_BYTES];
        snack.emit(&mut bhs);
        self.push(&bhs, &[], now, trace);
    }

    /// Acknowledges the data of `task` up to its DataSN `exp_data_sn` (DataACK, §11.16.1), as requested by a Data-In
    /// with its A bit set.
    pub(super) fn acknowledge_data(
        &mut self,
        data_in: &DataIn,
        exp_data_sn: u32,
    ) -> Result<(), SessionError> {
        if self.snacks.len() >= MAX_SNACKS {
            return Err(SessionError::PingFlood);
        }
        self.snacks.push_back(Snack {
            kind: SnackKind::DataAck,
            lun: data_in.lun,
            task_tag: RESERVED_TASK_TAG,
            transfer_tag: data_in.transfer_tag,
            exp_stat_sn: self.exp_stat_sn,
            beg_run: exp_data_sn,
            run_length: 0,
        });
        Ok(())
    }
}

impl Task {
    /// A Data-In or an R2T with this DataSN or R2TSN was received; returns whether for the first time. Above error
    /// recovery level 0 it requests those that turn out to be missing.
    pub(super) fn take_data_sn(&mut self, link: &mut Link, sn: u32) -> Result<bool, SessionError> {
        self.data_sent_up_to(link, sn)?;
        Ok(self.data_sns.take(sn))
    }

    /// Requests the Data-In PDUs or R2Ts before `end` that have not been requested yet.
    #[inline]
    pub(super) fn data_sent_up_to(
        &mut self,
        link: &mut Link,
        end: u32,
    ) -> Result<(), SessionError> {
        if end == self.data_sns.expected {
            return Ok(());
        }
        self.data_missed(link, end)
    }

    #[cold]
    fn data_missed(&mut self, link: &mut Link, end: u32) -> Result<(), SessionError> {
        let lost = self.data_sns.sent_up_to(end);
        let (beg_run, run_length) = lost.ok_or(SessionError::Damaged)?;
        let whose = Some((self.lun, self.tag));
        link.snack(SnackKind::DataOrR2t, whose, beg_run, run_length)
    }
}

impl Core {
    /// A PDU could not be read from the stream. Above error recovery level 0, one with a data digest error is requested
    /// again.
    ///
    /// # Errors
    /// Errors that cannot be recovered within the connection.
    pub(super) fn mend(&mut self, link: &mut Link, error: FrameError) -> Result<(), SessionError> {
        let FrameError::DataDigest { bhs, .. } = &error else {
            return Err(error.into());
        };
        if !link.recovers {
            return Err(error.into());
        }
        match Opcode::from_wire(bhs[0] & 0x3f) {
            Opcode::DataIn => self.data_lost(link, &DataIn::parse(bhs)?),
            // §7.8: repeating an unsolicited ping is up to the target.
            Opcode::NopIn if task_tag(bhs) == RESERVED_TASK_TAG => Ok(()),
            // All other PDUs with data from a target have a StatSN, at the same offset.
            _ => link.status_lost(stat_sn(bhs)),
        }
    }

    fn data_lost(&mut self, link: &mut Link, data_in: &DataIn) -> Result<(), SessionError> {
        if data_in.status.is_some() {
            link.status_lost(data_in.stat_sn)?;
        }
        let Some(task) = self.tasks.on(link.id, data_in.task_tag)? else {
            return Ok(());
        };
        if data_in.data_sn == task.data_sns.expected {
            return task.data_sent_up_to(link, data_in.data_sn.wrapping_add(1));
        }
        task.data_sent_up_to(link, data_in.data_sn)?;
        if task.data_sns.expected == data_in.data_sn {
            return task.data_sent_up_to(link, data_in.data_sn.wrapping_add(1));
        }
        // The resent PDU was corrupted again.
        let whose = Some((task.lun, task.tag));
        link.snack(SnackKind::DataOrR2t, whose, data_in.data_sn, 1)
    }

    /// The response to a task arrived: completes it, unless some of its data is still missing.
    pub(super) fn answer_came(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        (stat_sn, answer): (Sn, Answer),
        now: Instant,
        trace: &mut Recorder,
    ) {
        match self.tasks.get_mut(tag) {
            Some(task) if !task.data_sns.is_whole() => {
                task.answer = Some(answer);
                link.held.push((tag, stat_sn));
                link.acknowledge();
            }
            _ => self.answered(tag, answer, now, trace),
        }
    }

    /// Data of a task arrived: completes it if its response was waiting for that.
    pub(super) fn data_came(&mut self, tag: TaskTag, now: Instant, trace: &mut Recorder) {
        if let Some(task) = self.tasks.get_mut(tag)
            && task.data_sns.is_whole()
            && let Some(answer) = task.answer.take()
        {
            self.answered(tag, answer, now, trace);
        }
    }

    /// The target has lost the PDU with this header to a digest error (§7.8). For data, the target itself requests it
    /// again, or fails the task.
    pub(super) fn lost_at_target(
        &mut self,
        link: &mut Link,
        bhs: &Bhs,
    ) -> Result<(), SessionError> {
        match Opcode::from_wire(bhs[0] & 0x3f) {
            Opcode::ScsiCommand => self.retry_command(link, task_tag(bhs)),
            Opcode::DataOut | Opcode::NopOut => {}
            _ => return Err(SessionError::Damaged),
        }
        Ok(())
    }

    /// The target has lost a command to a digest error: resends it, with the same CmdSN (retry, §7.2.1).
    fn retry_command(&mut self, link: &mut Link, tag: TaskTag) {
        if let Some(task) = self.tasks.get_mut(tag)
            && task.stage == Stage::Sent(link.id)
        {
            task.bursts.clear();
            link.retries.push_back(tag);
        }
    }
}

impl Link {
    /// The PDU with `stat_sn` was corrupted.
    fn status_lost(&mut self, stat_sn: Sn) -> Result<(), SessionError> {
        let is_old = stat_sn.lt(Sn(self.stat_sns.expected));
        if is_old {
            return self.snack(SnackKind::Status, None, stat_sn.0, 1);
        }
        self.statuses_sent_up_to(stat_sn.next())
    }
}

fn task_tag(bhs: &Bhs) -> TaskTag {
    TaskTag(word(bhs, 16))
}

fn stat_sn(bhs: &Bhs) -> Sn {
    Sn(word(bhs, 24))
}

fn word(bhs: &Bhs, at: usize) -> u32 {
    u32::from_be_bytes([bhs[at], bhs[at + 1], bhs[at + 2], bhs[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_asked_for_once_and_taken_once() {
        let mut came = Came::from(u32::MAX - 1);
        assert!(came.take(u32::MAX - 1));
        assert_eq!(came.sent_up_to(2), Some((u32::MAX, 3)));
        assert_eq!(came.sent_up_to(2), Some((2, 0)));
        assert!(came.take(2));
        assert!(!came.take(2));
        assert_eq!(came.first_missing(), u32::MAX);
        for number in [0, u32::MAX, 1] {
            assert!(!came.is_whole() && came.take(number) && !came.take(number));
        }
        assert!(came.is_whole());
        assert_eq!(came.first_missing(), 3);
        assert_eq!(came.sent_up_to(1 << 20), None);
    }
}
