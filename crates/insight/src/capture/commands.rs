//! The SCSI commands of captured I/Os, by which kernel events of the same I/Os are matched.

use foldhash::HashMap;
use std::sync::OnceLock;

use wansan_trace::event::{Pdu, PduDirection};
use wansan_trace::{Layer, NameId, SessionId, TaskTag};

use super::Capture;
use super::records::TARGET;
use crate::cell::Cell;
use crate::opcode::DATA_OUT;

/// The contents of a SCSI Command PDU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) lun: [u8; 8],
    pub(super) cdb: [u8; 16],
    pub(super) cmd_sn: u32,
}

/// A captured SCSI command. Times are since 1970, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CapturedCommand {
    /// Its session.
    pub session: SessionId,
    /// Its Initiator Task Tag.
    pub tag: TaskTag,
    /// Its CmdSN; 0 if not captured.
    pub cmd_sn: u32,
    /// Its LUN, by peripheral or flat addressing (SAM-5 §4.7.6).
    pub lun: u64,
    /// The first 16 bytes of its CDB.
    pub cdb: [u8; 16],
    /// When its first byte left the initiator.
    pub sent_ns: u64,
    /// When its status had arrived there.
    pub answered_ns: Option<u64>,
    /// When it had arrived at the target, delivered in CmdSN order.
    pub came_ns: Option<u64>,
    /// When the target had its answer ready.
    pub ready_ns: Option<u64>,
    /// When the last byte of its header passed the capture point, and when the first byte of its answer did.
    pub passed_ns: [Option<u64>; 2],
    /// Index of its I/O among the cell's tasks.
    pub task: usize,
}

/// A command, by its session, tag and the time when it left.
type Key = (SessionId, TaskTag, u64);

/// The commands of a cell's I/Os, which are derived on first use.
#[derive(Debug)]
pub(super) struct Commands {
    asked: Vec<(Key, Asked)>,
    of_ios: OnceLock<Vec<CapturedCommand>>,
}

impl Commands {
    /// Stores the contents of each command of the capture.
    pub(super) fn of(asked: Vec<(Key, Asked)>) -> Commands {
        Commands {
            asked,
            of_ios: OnceLock::new(),
        }
    }
}

/// The commands of a cell's I/Os.
fn of_ios(cell: &Cell, asked: &[(Key, Asked)]) -> Vec<CapturedCommand> {
    let asked: HashMap<Key, Asked> = asked.iter().copied().collect();
    let tasks = cell.joined.tasks.iter().enumerate();
    let commands = tasks.filter_map(|(place, task)| {
        let sent_ns = task.enter_ns(Layer::Window)?;
        let Asked { lun, cdb, cmd_sn } = *asked.get(&(task.session, task.tag, sent_ns))?;
        Some(CapturedCommand {
            session: task.session,
            tag: task.tag,
            cmd_sn,
            lun: u64::from(lun[0] & 0x3f) << 8 | u64::from(lun[1]),
            cdb,
            sent_ns,
            answered_ns: task.leave_ns(Layer::Window),
            came_ns: task.enter_ns(Layer::Target),
            ready_ns: task.leave_ns(Layer::Target),
            passed_ns: [task.enter_ns(Layer::Wire), task.leave_ns(Layer::Wire)],
            task: place,
        })
    });
    commands.collect()
}

impl Capture {
    /// The SCSI commands of the I/Os, in the same order.
    #[must_use]
    pub fn commands(&self) -> &[CapturedCommand] {
        let Commands {
            asked,
            of_ios: known,
        } = &self.commands;
        known.get_or_init(|| of_ios(&self.cell, asked))
    }

    /// Adds when a target's kernel began and finished each command in its backing store, since 1970. A write begins
    /// there once its data has arrived.
    pub fn add_store_times(
        &mut self,
        times: impl IntoIterator<Item = (CapturedCommand, u64, u64)>,
    ) {
        // Tags are reused.
        let mut data_came: HashMap<(SessionId, TaskTag), Vec<u64>> = HashMap::default();
        let mut see = |host: NameId, pdu: &Pdu| {
            let is_at_target = host == TARGET && pdu.direction == PduDirection::Received;
            if is_at_target && pdu.opcode == DATA_OUT {
                let came = data_came.entry((pdu.session, pdu.task));
                came.or_default().push(pdu.time.ns());
            }
        };
        { self.cell.pdu.iter() }.for_each(|pdus| pdus.for_each(&mut see));
        for (command, began_ns, done_ns) in times {
            let data = data_came.get(&(command.session, command.tag));
            let mut data = data.into_iter().flatten().copied().rev();
            let whole_ns = data.find(|ns| (command.sent_ns..=done_ns).contains(ns));
            let task = &mut self.cell.joined.tasks[command.task];
            // Times by packets and by the kernel's probes may differ by microseconds.
            let (Some(came_ns), Some(ready_ns)) = (command.came_ns, command.ready_ns) else {
                continue;
            };
            let within = |ns: u64| ns.clamp(came_ns, ready_ns.max(came_ns));
            let enter_ns = within(began_ns.max(whole_ns.unwrap_or(0)));
            let leave_ns = within(done_ns).max(enter_ns);
            for layer in [Layer::Device, Layer::Store] {
                task.set(layer, Some(enter_ns), Some(leave_ns));
            }
        }
        self.cell.joined.take_stock();
    }
}
