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

/// One task between its command and its response.
///
/// It moves between tables on its way, so it is boxed. State that few tasks need is kept separately.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) tag: TaskTag,
    pub(super) lun: Lun,
    /// The index of its connection in the session: data and status stay on it (RFC 7143 §4.2.2.1, connection
    /// allegiance).
    place: usize,
    connection: ConnectionId,
    pub(super) cmd_sn: Sn,
    /// Immediate commands use no slot of the command window.
    pub(super) holds_slot: bool,
    pub(super) expected_bytes: u32,
    /// The initiator accepts Data-In.
    pub(super) takes_data: bool,
    /// When the command arrived.
    pub(super) began: Instant,
    /// The logical unit's index, and the operation.
    pub(super) unit: usize,
    pub(super) operation: StoreOperation,
    /// Bytes to transfer: the minimum of the CDB's and the initiator's length.
    pub(super) moved_bytes: u32,
    /// The charge of its data on the session's share of memory.
    pub(super) charged_bytes: usize,
    /// Bytes requested from the store and not yet queued for sending.
    at_store_bytes: usize,
    /// The layout of its Data-In.
    pub(super) layout: Layout,
    /// SNACK Tag of the last R-Data SNACK for it, else 0 (RFC 7143 §11.4.10).
    pub(super) snack_tag: u32,
    pub(super) repeat: Repeat,
    /// While the store operation is outstanding.
    pub(super) ticket: Option<Ticket>,
    pub(super) stage: Stage,
}

/// Whether the task has been answered before.
#[derive(Debug)]
pub(super) enum Repeat {
    /// It has not.
    No,
    /// Answered, and only data is resent.
    Data(Box<SentStatus>),
    /// Answered, and will be answered again, because the initiator has missed it.
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
    ) -> Box<Task> {
        Box::new(Task {
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
        })
    }

    /// The index of its connection.
    pub(super) fn place(&self) -> usize {
        self.place
    }

    /// Its connection.
    pub(super) fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// Moves a task without an outstanding store operation to the connection `id` at `place`.
    pub(super) fn reassign(&mut self, place: usize, id: ConnectionId) {
        self.place = place;
        self.connection = id;
    }

    /// Bytes requested from the store and not yet queued for sending.
    pub(super) fn at_store_bytes(&self) -> usize {
        self.at_store_bytes
    }

    /// The next Data-In PDU, of the bytes requested from the store.
    pub(super) fn next_segment(&self, progress: &Progress) -> Segment {
        let end_bytes = progress.sent_bytes + self.at_store_bytes as u32;
        self.layout
            .segment(progress.data_sn, progress.sent_bytes, end_bytes)
    }

    /// Notes that its store operation has started; returns whether it is the first.
    pub(super) fn enter_store(&mut self) -> bool {
        match &mut self.stage {
            Stage::AtStore(progress) => !std::mem::replace(&mut progress.store_entered, true),
            _ => false,
        }
    }

    /// Bytes granted to it of the session's limit on solicited data.
    pub(super) fn granted_bytes(&self) -> u32 {
        match &self.stage {
            Stage::Collecting(collecting) => collecting.granted_bytes,
            Stage::Ready(progress) | Stage::AtStore(progress) => progress.granted_bytes,
            Stage::Fenced(fenced) => fenced.progress.granted_bytes,
            Stage::Refused(_) | Stage::Aborted => 0,
        }
    }

    /// Whether some of its data was requested again before its end.
    pub(super) fn was_requested_again(&self) -> bool {
        match &self.stage {
            Stage::Ready(progress) | Stage::AtStore(progress) => progress.again.is_some(),
            _ => false,
        }
    }

    /// Whether its Data-In comes from a store.
    pub(super) fn reads(&self) -> bool {
        matches!(self.operation, StoreOperation::Read { .. })
    }

    /// Whether its store operation completes a change of shared state.
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

    /// The fence of the change of reservations that was saved for the task, if any.
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

    /// The CDB's transfer length, whatever the initiator expects: SPDTL in RFC 7143 §11.4.5.
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

/// The stage of a task.
#[derive(Debug)]
pub(super) enum Stage {
    /// Data-Out is arriving.
    Collecting(Box<Collecting>),
    /// The response is decided, but unsolicited Data-Out still has to be discarded.
    Refused(Refusal),
    /// Queued for the store.
    Ready(Progress),
    /// The store operation is outstanding.
    AtStore(Progress),
    /// The store operation is outstanding, and a task management function has ended the task: there will be no
    /// response.
    Aborted,
    /// Waits for store operations of other sessions to complete.
    Fenced(Box<Fenced>),
}

/// The continuation of a task when its fence is down.
#[derive(Debug)]
pub(super) struct Fenced {
    pub(super) fence: Fence,
    /// Answer it with this; `None`: start a store operation.
    pub(super) answer: Option<Answer>,
    pub(super) progress: Progress,
}

impl Stage {
    /// Whether the command has reached the device server: a write does so with its data.
    pub(super) fn reached_device(&self) -> bool {
        match self {
            Stage::Ready(_) | Stage::AtStore(_) | Stage::Aborted | Stage::Fenced(_) => true,
            Stage::Collecting(_) | Stage::Refused(_) => false,
        }
    }
}

/// Why a command is not executed. The response waits for the end of unsolicited data.
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
    /// There is no memory for the command's data: TASK SET FULL if there are `others`, commands of the same initiator,
    /// and BUSY if not (SAM-5 5.3.1).
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

/// The data received for a write.
#[derive(Debug)]
pub(super) struct Collecting {
    /// In order from the start: DataPDUInOrder and DataSequenceInOrder are always Yes here.
    pub(super) data: Vec<u8>,
    /// Bytes received; more than in `data` when the initiator sends more than the CDB's length.
    pub(super) received_bytes: u32,
    /// Unsolicited Data-Out is still expected, up to this many bytes in total.
    pub(super) unsolicited_to: Option<u32>,
    pub(super) unsolicited_data_sn: u32,
    /// R2Ts not answered in full, oldest first.
    pub(super) asked: VecDeque<Asked>,
    /// Start of the next R2T.
    pub(super) ask_from: u32,
    pub(super) r2t_sn: u32,
    /// Bytes granted of the session's limit on solicited data.
    pub(super) granted_bytes: u32,
    /// Lost data that must be requested again, before anything new.
    pub(super) again: VecDeque<Range<u32>>,
    /// A PDU of the unsolicited data was lost: the data after it is dropped and requested later.
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
    /// A PDU was lost: the rest of the sequence is dropped.
    pub(super) lost: bool,
}

/// Progress of a task.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The data of a write; empty for others.
    pub(super) data: Vec<u8>,
    /// The store operation of a deferred command. A change of reservations stays here while the store saves it.
    pub(super) medium: Option<Box<MediumOperation>>,
    /// Bytes sent of a read.
    pub(super) sent_bytes: u32,
    /// Number of Data-In and R2T PDUs sent, which is the DataSN of the next Data-In.
    pub(super) data_sn: u32,
    /// Data to be resent, if requested.
    pub(super) again: Option<Box<Again>>,
    /// The store's result will be discarded, because the task's data must be sent in another layout.
    pub(super) restart: bool,
    /// Granted bytes to release at the end.
    pub(super) granted_bytes: u32,
    /// A store operation has started before.
    pub(super) store_entered: bool,
}

/// Data of a read that was requested again.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// While PDUs are resent: where the task itself continues, and where they end.
    detour: Option<Detour>,
    /// DataSNs queued for it.
    runs: VecDeque<Range<u32>>,
}

/// Most queued runs of one task.
const MAX_RUNS: usize = 16;

/// PDUs of a read that are being resent.
#[derive(Debug, Clone, Copy)]
struct Detour {
    until_bytes: u32,
    sent_bytes: u32,
    data_sn: u32,
}

impl Progress {
    /// Starts at the first PDU of a layout.
    pub(super) fn begin_at(&mut self, layout: &Layout) {
        self.restart = false;
        self.again = None;
        self.sent_bytes = layout.first_bytes;
        self.data_sn = layout.first_sn;
    }

    /// Queues these DataSNs to be resent; returns whether that is allowed.
    pub(super) fn ask_again(&mut self, run: Range<u32>) -> bool {
        let runs = &mut self.again.get_or_insert_default().runs;
        let fits = runs.len() < MAX_RUNS;
        if fits {
            runs.push_back(run);
        }
        fits
    }

    /// Turns to a requested run, if any.
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

    /// Continues where it was before the run, once that is sent; returns whether anything is left.
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

    /// Number of Data-In PDUs that the task itself has sent.
    pub(super) fn data_pdus(&self) -> u32 {
        self.detour().map_or(self.data_sn, |detour| detour.data_sn)
    }

    fn detour(&self) -> Option<Detour> {
        self.again.as_deref()?.detour
    }
}
