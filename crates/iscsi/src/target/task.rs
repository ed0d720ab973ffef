//! The target's tasks.

mod table;

use core::ops::Range;
use std::collections::VecDeque;

use wansan_trace::{ConnectionId, Instant, TaskTag};

pub(super) use table::{TagHash, Tasks};

use super::answered::SentStatus;
use super::connection::Link;
use super::data_in::Segment;
use super::layout::Layout;
use crate::scsi::{Answer, Fence, MediumOperation, Sense, StoreOperation, Ticket};
use crate::sequence::Sn;
use crate::wire::{Lun, ScsiCommand, ScsiStatus};

/// One task between its command and its answer.
///
/// It goes through several hands on its way, each of which copies it: what few tasks need is kept
/// apart.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) tag: TaskTag,
    pub(super) lun: Lun,
    /// The place of its connection in the session: data and status stay with it (RFC 7143
    /// §4.2.2.1, connection allegiance).
    place: usize,
    connection: ConnectionId,
    pub(super) cmd_sn: Sn,
    /// Immediate commands hold no slot of the command window.
    pub(super) holds_slot: bool,
    pub(super) expected_bytes: u32,
    /// The initiator takes Data-In.
    pub(super) takes_data: bool,
    /// When the command came.
    pub(super) began: Instant,
    /// What the logical unit wants done, and where.
    pub(super) unit: usize,
    pub(super) operation: StoreOperation,
    /// Bytes that will move: the least of what the CDB and what the initiator say.
    pub(super) moved_bytes: u32,
    /// What its data takes of the session's share of memory.
    pub(super) charged_bytes: usize,
    /// Bytes that the store has been asked for and that have not been queued for sending.
    at_store_bytes: usize,
    /// How its Data-In is cut up.
    pub(super) layout: Layout,
    /// SNACK Tag of the last R-Data SNACK for it, else 0 (RFC 7143 §11.4.10).
    pub(super) snack_tag: u32,
    pub(super) repeat: Repeat,
    /// While the store is at work.
    pub(super) ticket: Option<Ticket>,
    pub(super) stage: Stage,
}

/// Whether the task has been answered before.
#[derive(Debug)]
pub(super) enum Repeat {
    /// It has not.
    No,
    /// It has, and only data is resent.
    Data(Box<SentStatus>),
    /// It has, and will be answered again, because the initiator has missed it.
    All,
}

impl Task {
    pub(super) fn new(
        place: usize,
        link: &Link,
        command: &ScsiCommand,
        (unit, operation): (usize, StoreOperation),
        moved_bytes: u32,
        layout: Layout,
        now: Instant,
    ) -> Task {
        Task {
            tag: command.task_tag,
            lun: command.lun,
            place,
            connection: link.id,
            cmd_sn: command.cmd_sn,
            holds_slot: !command.immediate,
            expected_bytes: command.expected_data_transfer_length,
            takes_data: command.read,
            began: now,
            unit,
            operation,
            moved_bytes,
            charged_bytes: 0,
            at_store_bytes: 0,
            layout,
            snack_tag: 0,
            repeat: Repeat::No,
            ticket: None,
            stage: Stage::Ready(Progress::default()),
        }
    }

    /// The place of its connection.
    pub(super) fn place(&self) -> usize {
        self.place
    }

    /// Its connection.
    pub(super) fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// Moves a task that no store works on to the connection `id` at `place`.
    pub(super) fn reassign(&mut self, place: usize, id: ConnectionId) {
        self.place = place;
        self.connection = id;
    }

    /// Bytes that the store has been asked for and that have not been queued for sending.
    pub(super) fn at_store_bytes(&self) -> usize {
        self.at_store_bytes
    }

    /// The next Data-In PDU, of the bytes that the store was asked for.
    pub(super) fn next_segment(&self, progress: &Progress) -> Segment {
        let end_bytes = progress.sent_bytes + self.at_store_bytes as u32;
        self.layout
            .segment(progress.data_sn, progress.sent_bytes, end_bytes)
    }

    /// Notes that its store has been asked; says whether that was for the first time.
    pub(super) fn enter_store(&mut self) -> bool {
        match &mut self.stage {
            Stage::AtStore(progress) => !std::mem::replace(&mut progress.store_entered, true),
            _ => false,
        }
    }

    /// Bytes granted to it out of the session's bound on solicited data.
    pub(super) fn granted_bytes(&self) -> u32 {
        match &self.stage {
            Stage::Collecting(collecting) => collecting.granted_bytes,
            Stage::Ready(progress) | Stage::AtStore(progress) => progress.granted_bytes,
            Stage::Fenced(fenced) => fenced.progress.granted_bytes,
            Stage::Refused(_) | Stage::Aborted => 0,
        }
    }

    /// Whether a store gives its Data-In.
    pub(super) fn reads(&self) -> bool {
        matches!(self.operation, StoreOperation::Read { .. })
    }

    /// Whether its store completes a change of what initiators share.
    pub(super) fn is_change(&self) -> bool {
        match &self.stage {
            Stage::Ready(progress) => progress.medium.as_ref().is_some_and(|medium| {
                matches!(
                    **medium,
                    MediumOperation::KeepReservations(_) | MediumOperation::FlushFor(_)
                )
            }),
            _ => false,
        }
    }

    /// What the change of reservations that was kept for the task has to wait for, if anything.
    pub(super) fn take_fence(&mut self) -> Option<Fence> {
        let Stage::AtStore(progress) = &mut self.stage else {
            return None;
        };
        let MediumOperation::KeepReservations(change) = progress.medium.as_deref()? else {
            return None;
        };
        let mut fence = change.take_fence();
        (!fence.is_down()).then_some(fence)
    }

    /// Bytes that the CDB moves, whatever the initiator expects: SPDTL in RFC 7143 §11.4.5.
    pub(super) fn presented_bytes(&self) -> u64 {
        match self.operation {
            StoreOperation::Read { len_bytes, .. } | StoreOperation::Write { len_bytes, .. } => {
                u64::from(len_bytes)
            }
            StoreOperation::Deferred { data_out_bytes, .. } => u64::from(data_out_bytes),
            StoreOperation::Flush { .. } => 0,
        }
    }
}

/// How far a task is.
#[derive(Debug)]
pub(super) enum Stage {
    /// Data-Out is coming.
    Collecting(Box<Collecting>),
    /// The answer is settled, but unsolicited Data-Out still has to be let past.
    Refused(Refusal),
    /// Waits to be asked of the store.
    Ready(Progress),
    /// The store is at work.
    AtStore(Progress),
    /// The store is at work, and a task management function has ended the task: there will be no
    /// answer.
    Aborted,
    /// Waits for operations of other sessions to leave the stores.
    Fenced(Box<Fenced>),
}

/// What becomes of a task when its fence is down.
#[derive(Debug)]
pub(super) struct Fenced {
    pub(super) fence: Fence,
    /// It is answered with this; otherwise a store is asked.
    pub(super) answer: Option<Answer>,
    pub(super) progress: Progress,
}

impl Stage {
    /// Whether the device server has got the command: a write gets there with its data.
    pub(super) fn reached_device(&self) -> bool {
        match self {
            Stage::Ready(_) | Stage::AtStore(_) | Stage::Aborted | Stage::Fenced(_) => true,
            Stage::Collecting(_) | Stage::Refused(_) => false,
        }
    }
}

/// Why a command is not carried out. The answer waits for the end of unsolicited data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusal {
    pub(super) status: ScsiStatus,
    pub(super) sense: Option<Sense>,
}

impl From<Sense> for Refusal {
    fn from(sense: Sense) -> Self {
        Refusal {
            status: ScsiStatus::CheckCondition,
            sense: Some(sense),
        }
    }
}

impl Refusal {
    /// There is no memory for the command's data: TASK SET FULL beside `others`, commands of the
    /// same initiator, and BUSY when it is alone (SAM-5 5.3.1).
    pub(super) fn no_memory(others: usize) -> Refusal {
        let status = match others {
            0 => ScsiStatus::Busy,
            _ => ScsiStatus::TaskSetFull,
        };
        Refusal {
            status,
            sense: None,
        }
    }
}

/// The data that a write has so far.
#[derive(Debug)]
pub(super) struct Collecting {
    /// In order from the start: DataPDUInOrder and DataSequenceInOrder are always Yes here.
    pub(super) data: Vec<u8>,
    /// Bytes that have come; more than `data` holds when the initiator sends more than the CDB
    /// takes.
    pub(super) received_bytes: u32,
    /// Unsolicited Data-Out is still to come, up to this many bytes in all.
    pub(super) unsolicited_to: Option<u32>,
    pub(super) unsolicited_data_sn: u32,
    /// R2Ts that are not answered in full, oldest first.
    pub(super) asked: VecDeque<Asked>,
    /// Where the next R2T begins.
    pub(super) ask_from: u32,
    pub(super) r2t_sn: u32,
    /// Bytes granted out of the session's bound on solicited data.
    pub(super) granted_bytes: u32,
    /// What was lost and has to be asked for again, before anything new.
    pub(super) again: VecDeque<Range<u32>>,
    /// Of the unsolicited data a PDU was lost: what follows it is let go and asked for later.
    pub(super) unsolicited_lost: bool,
}

/// One R2T.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) transfer_tag: u32,
    pub(super) next_bytes: u32,
    pub(super) end_bytes: u32,
    pub(super) data_sn: u32,
    pub(super) r2t_sn: u32,
    /// A PDU was lost: what follows it in the sequence is let go.
    pub(super) lost: bool,
}

/// What of a task has been done.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The data of a write; empty for others.
    pub(super) data: Vec<u8>,
    /// What the store is to do for a deferred command. A change of reservations stays here while the
    /// store keeps it.
    pub(super) medium: Option<Box<MediumOperation>>,
    /// Bytes of a read that have been sent.
    pub(super) sent_bytes: u32,
    /// How many Data-In and R2T PDUs have been sent, which is DataSN of the next Data-In.
    pub(super) data_sn: u32,
    /// What of its data is to be resent, once that was asked for.
    pub(super) again: Option<Box<Again>>,
    /// The answer of the store will not do, as the task's data is to be sent in another way.
    pub(super) restart: bool,
    /// Granted bytes to be given back at the end.
    pub(super) granted_bytes: u32,
    /// The store has been asked once.
    pub(super) store_entered: bool,
}

/// Data of a read that was asked for again.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// While PDUs are resent: where the task itself goes on, and where they end.
    detour: Option<Detour>,
    /// The DataSNs of those that wait for that.
    runs: VecDeque<Range<u32>>,
}

/// Runs of one task that may wait to be resent.
const MAX_RUNS: usize = 16;

/// PDUs of a read that are resent.
#[derive(Debug, Clone, Copy)]
struct Detour {
    until_bytes: u32,
    sent_bytes: u32,
    data_sn: u32,
}

impl Progress {
    /// Begins with the first PDU of a layout.
    pub(super) fn begin_at(&mut self, layout: &Layout) {
        self.restart = false;
        self.again = None;
        self.sent_bytes = layout.first_bytes;
        self.data_sn = layout.first_sn;
    }

    /// Has these DataSNs resent; says whether that may be.
    pub(super) fn ask_again(&mut self, run: Range<u32>) -> bool {
        let runs = &mut self.again.get_or_insert_default().runs;
        let fits = runs.len() < MAX_RUNS;
        if fits {
            runs.push_back(run);
        }
        fits
    }

    /// Turns to a run that has been asked for again, if there is one.
    pub(super) fn turn_back(&mut self, layout: &Layout, moved_bytes: u32) {
        if let Some(again) = &mut self.again
            && again.detour.is_none()
            && let Some(run) = again.runs.pop_front()
        {
            again.detour = Some(Detour {
                until_bytes: layout.offset(run.end).min(moved_bytes),
                sent_bytes: self.sent_bytes,
                data_sn: self.data_sn,
            });
            self.sent_bytes = layout.offset(run.start).min(moved_bytes);
            self.data_sn = run.start;
        }
    }

    /// Where reading ends for now.
    pub(super) fn until_bytes(&self, moved_bytes: u32) -> u32 {
        self.detour()
            .map_or(moved_bytes, |detour| detour.until_bytes)
    }

    /// Goes on where it was before the run, once that is sent; says whether anything is left.
    pub(super) fn turn_forth(&mut self, moved_bytes: u32) -> bool {
        if let Some(again) = &mut self.again
            && let Some(detour) = again.detour
            && self.sent_bytes >= detour.until_bytes
        {
            again.detour = None;
            (self.sent_bytes, self.data_sn) = (detour.sent_bytes, detour.data_sn);
        }
        let waits = |again: &Again| !again.runs.is_empty();
        self.sent_bytes < self.until_bytes(moved_bytes) || self.again.as_deref().is_some_and(waits)
    }

    /// How many Data-In PDUs the task itself has sent.
    pub(super) fn data_pdus(&self) -> u32 {
        self.detour().map_or(self.data_sn, |detour| detour.data_sn)
    }

    fn detour(&self) -> Option<Detour> {
        self.again.as_deref()?.detour
    }
}
