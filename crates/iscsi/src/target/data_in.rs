//! Data-In PDUs of a task (RFC 7143 §11.7).

use wansan_trace::{Instant, Recorder, TaskTag};

use super::connection::Link;
use super::layout::Layout;
use super::task::Task;
use crate::login::AnnouncedWindow;
use crate::sequence::Sn;
use crate::wire::{BHS_BYTES, Bhs, DataIn, Lun, RESERVED_TAG, Residual, ScsiStatus};

/// The Data-In of one task: all its PDUs are made here, with data from a store or from the device server.
#[derive(Debug, Clone, Copy)]
pub(super) struct DataInStream {
    pub(super) lun: Lun,
    pub(super) task_tag: TaskTag,
    pub(super) layout: Layout,
    /// The length of all its data.
    pub(super) total_bytes: u32,
    /// The status in the last PDU; `None` if a SCSI Response has it (§11.7.3).
    pub(super) status: Option<InData>,
}

/// The status GOOD in the last Data-In of a task.
#[derive(Debug, Clone, Copy)]
pub(super) struct InData {
    pub(super) stat_sn: Sn,
    pub(super) residual: Residual,
}

/// The position of one Data-In PDU in its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) data_sn: u32,
    pub(super) offset_bytes: u32,
    pub(super) len_bytes: u32,
}

impl Segment {
    pub(super) fn end_bytes(&self) -> u32 {
        self.offset_bytes + self.len_bytes
    }
}

impl DataInStream {
    /// The stream of a task with all its data in `data`, with `status` in its last PDU.
    pub(super) fn of_bytes(task: &Task, data: &[u8], status: Option<InData>) -> DataInStream {
        DataInStream {
            lun: task.lun,
            task_tag: task.tag,
            layout: task.layout,
            total_bytes: data.len() as u32,
            status,
        }
    }

    /// The stream of a read, with `status` in its last PDU.
    pub(super) fn of_read(task: &Task, status: Option<InData>) -> DataInStream {
        DataInStream {
            lun: task.lun,
            task_tag: task.tag,
            layout: task.layout,
            total_bytes: task.moved_bytes,
            status,
        }
    }

    /// Whether `segment` is the last one and has the status.
    pub(super) fn has_status(&self, segment: &Segment) -> bool {
        self.status.is_some() && segment.end_bytes() == self.total_bytes
    }

    #[inline]
    fn header(&self, segment: &Segment, window: AnnouncedWindow) -> Bhs {
        let end_bytes = segment.end_bytes();
        let status = self.status.filter(|_| self.has_status(segment));
        let data_in = DataIn {
            final_: end_bytes == self.total_bytes || self.layout.ends_burst(end_bytes),
            acknowledge: false,
            status: status.map(|_| ScsiStatus::Good),
            residual: status.map_or(Residual::None, |status| status.residual),
            lun: self.lun,
            task_tag: self.task_tag,
            transfer_tag: RESERVED_TAG,
            stat_sn: status.map_or(Sn(0), |status| status.stat_sn),
            exp_cmd_sn: window.exp_cmd_sn,
            max_cmd_sn: window.max_cmd_sn,
            data_sn: segment.data_sn,
            buffer_offset: segment.offset_bytes,
        };
        let mut bhs = [0; BHS_BYTES];
        data_in.emit(&mut bhs);
        bhs
    }

    /// Queues the PDU of `segment`, whose data is in the transmitter's data space.
    #[inline]
    pub(super) fn push_filled(
        &self,
        segment: &Segment,
        link: &mut Link,
        window: AnnouncedWindow,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let bhs = self.header(segment, window);
        let stream_offset = link.transmitter.queued_end();
        let len_bytes = segment.len_bytes as usize;
        link.transmitter.push_filled(&bhs, len_bytes);
        link.record(&bhs, len_bytes, stream_offset, now, trace);
    }

    /// Queues the PDU of `segment` with a copy of its data.
    pub(super) fn push(
        &self,
        segment: &Segment,
        data: &[u8],
        link: &mut Link,
        window: AnnouncedWindow,
        now: Instant,
        trace: &mut Recorder,
    ) {
        if link.is_lost() {
            return;
        }
        link.transmitter
            .data_space(data.len())
            .copy_from_slice(data);
        self.push_filled(segment, link, window, now, trace);
    }
}
