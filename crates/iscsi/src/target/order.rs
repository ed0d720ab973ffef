//! Commands in CmdSN order: the command window, and commands held behind a gap (RFC 7143 §4.2.2.1).

use core::ops::Range;

use wansan_trace::TaskTag;

use super::error::Close;
use super::hold::HoldQueue;
use super::memory::Share;
use super::window::{Admission, CommandWindow};
use crate::keys::SessionParameters;
use crate::login::AnnouncedWindow;
use crate::sequence::Sn;
use crate::wire::{Bhs, Lun, ScsiCommand};

/// A command that waits for those before it.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) place: usize,
    pub(super) bhs: Bhs,
    pub(super) data: Vec<u8>,
    /// Unsolicited Data-Out that followed the command. It arrives on the command's connection however long the command
    /// has to wait (§4.2.2.1); of a lost PDU only the header is known.
    pub(super) data_out: Vec<(Bhs, Option<Vec<u8>>)>,
}

/// PDUs behind a gap in CmdSN, and their data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HeldLoad {
    pub(super) pdus: usize,
    pub(super) data_bytes: usize,
}

impl HeldLoad {
    const fn pdu(data_bytes: usize) -> HeldLoad {
        HeldLoad {
            pdus: 1,
            data_bytes,
        }
    }

    /// Its charge on the session's share of memory.
    const fn charged_bytes(self) -> usize {
        self.pdus * size_of::<Held>() + self.data_bytes
    }

    fn add(&mut self, other: HeldLoad) {
        self.pdus += other.pdus;
        self.data_bytes += other.data_bytes;
    }

    fn subtract(&mut self, other: HeldLoad) {
        self.pdus -= other.pdus;
        self.data_bytes -= other.data_bytes;
    }
}

/// The smallest value of MaxRecvDataSegmentLength (RFC 7143 §13.12).
const MIN_MAX_RECV_DATA_BYTES: usize = 512;

impl Held {
    fn load(&self) -> HeldLoad {
        let mut load = HeldLoad::pdu(self.data.len());
        for (_, data) in &self.data_out {
            load.add(HeldLoad::pdu(data.as_ref().map_or(0, Vec::len)));
        }
        load
    }

    /// Whether it is the SCSI command of that task, with unsolicited data to follow.
    fn is_write(&self, tag: TaskTag) -> bool {
        ScsiCommand::parse(&self.bhs)
            .is_ok_and(|command| command.task_tag == tag && command.write && !command.final_)
    }

    /// Whether it is a SCSI command for that unit, or, for `None`, for any.
    pub(super) fn is_for(&self, lun: Option<Lun>) -> bool {
        ScsiCommand::parse(&self.bhs).is_ok_and(|command| lun.is_none_or(|lun| command.lun == lun))
    }
}

/// Owns the order of a session's commands: each CmdSN is delivered once, in order, or counts as
/// received without delivery.
///
/// Held commands are inside the window, and `load` is their sum, which is charged on the session's share of memory.
#[derive(Debug)]
pub(super) struct CommandOrder {
    window: CommandWindow,
    held: HoldQueue<Held>,
    load: HeldLoad,
    /// Limit of the load: all unsolicited data of a full command window, FirstBurstLength for each command, in PDUs of
    /// the smallest MaxRecvDataSegmentLength.
    bounds: HeldLoad,
}

impl CommandOrder {
    /// A window of `size` commands whose first command has CmdSN `first`; at most `unsolicited_bytes` of their
    /// unsolicited data may be held.
    pub(super) fn new(
        first: Sn,
        size: u32,
        unsolicited_bytes: u32,
        parameters: &SessionParameters,
    ) -> Self {
        let first_burst_bytes = parameters.first_burst_bytes as usize;
        let pdus_per_command = 1 + first_burst_bytes.div_ceil(MIN_MAX_RECV_DATA_BYTES);
        CommandOrder {
            window: CommandWindow::new(first, size),
            held: HoldQueue::default(),
            load: HeldLoad::default(),
            bounds: HeldLoad {
                pdus: size as usize * pdus_per_command,
                data_bytes: unsolicited_bytes as usize,
            },
        }
    }

    /// ExpCmdSN for every response.
    pub(super) fn exp_cmd_sn(&self) -> Sn {
        self.window.exp_cmd_sn()
    }

    /// MaxCmdSN for every response.
    pub(super) fn max_cmd_sn(&self) -> Sn {
        self.window.max_cmd_sn()
    }

    /// Both, for the next response.
    pub(super) fn announced(&self) -> AnnouncedWindow {
        self.window.announced_after(false)
    }

    /// Both, for a response that frees a slot if `released`.
    pub(super) fn announced_after(&self, released: bool) -> AnnouncedWindow {
        self.window.announced_after(released)
    }

    /// Resizes the window to `size` commands, at most its initial size.
    pub(super) fn resize_window(&mut self, size: u32) {
        self.window.resize(size);
    }

    /// Slots in use.
    pub(super) fn in_hand(&self) -> u32 {
        self.window.in_hand()
    }

    /// Whether no command may arrive until a slot is freed.
    pub(super) fn is_closed(&self) -> bool {
        self.window.is_closed()
    }

    /// Frees a slot of the window if the request held one.
    pub(super) fn release(&mut self, held_slot: bool) {
        if held_slot {
            self.window.release();
        }
    }

    /// Number of held commands.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Bytes of held data.
    pub(super) fn held_bytes(&self) -> usize {
        self.load.data_bytes
    }

    /// Whether commands before `cmd_sn` are still missing: an immediate function on one connection may overtake them on
    /// another, and has to wait for them (§4.2.3.3 b).
    pub(super) fn lacks(&self, cmd_sn: Sn) -> bool {
        self.exp_cmd_sn().lt(cmd_sn) && cmd_sn.sub(1).le(self.max_cmd_sn())
    }

    /// Decides on a non-immediate command that has just arrived. [`Admission::Deliver`] takes its
    /// slot.
    pub(super) fn admit(&mut self, cmd_sn: Sn) -> Admission {
        match self.window.admit(cmd_sn) {
            Admission::Deliver => {
                self.held.advance();
                Admission::Deliver
            }
            Admission::Hold(ahead) if self.held.has(ahead) => Admission::Ignore,
            other => other,
        }
    }

    /// Holds a command that is, by [`Admission::Hold`], `ahead` positions ahead.
    pub(super) fn hold(
        &mut self,
        ahead: u32,
        command: Held,
        share: &mut Share,
    ) -> Result<(), Close> {
        self.charge(command.data.len(), share)?;
        self.held.put(ahead, command);
        Ok(())
    }

    /// Keeps a Data-Out PDU of `tag` whose command is held; `data` is `None` if it was lost. One without a command is
    /// dropped: its task was aborted.
    pub(super) fn hold_data_out(
        &mut self,
        place: usize,
        tag: TaskTag,
        bhs: &Bhs,
        data: Option<&[u8]>,
        share: &mut Share,
    ) -> Result<(), Close> {
        let is_its = |held: &Held| held.place == place && held.is_write(tag);
        if self.held.newest(is_its).is_none() {
            return Ok(());
        }
        self.charge(data.map_or(0, <[u8]>::len), share)?;
        if let Some(held) = self.held.newest(is_its) {
            held.data_out.push((*bhs, data.map(<[u8]>::to_vec)));
        }
        Ok(())
    }

    /// Charges memory for a PDU with `data_bytes` of data that waits behind a gap in CmdSN.
    fn charge(&mut self, data_bytes: usize, share: &mut Share) -> Result<(), Close> {
        let mut load = self.load;
        load.add(HeldLoad::pdu(data_bytes));
        if load.data_bytes > self.bounds.data_bytes {
            return Err(Close::Protocol("too much data behind a gap in CmdSN"));
        }
        if load.pdus > self.bounds.pdus {
            return Err(Close::Protocol("too many PDUs behind a gap in CmdSN"));
        }
        if !share.take(HeldLoad::pdu(data_bytes).charged_bytes()) {
            return Err(Close::NoMemory);
        }
        self.load = load;
        Ok(())
    }

    /// The next command in CmdSN order, if it is held.
    pub(super) fn next(&mut self, share: &mut Share) -> Option<Held> {
        if self.held.is_empty() {
            return None;
        }
        self.pass_received();
        let held = self.held.take()?;
        // Held commands are inside the window, and MaxCmdSN never decreases.
        self.window.admit(self.window.exp_cmd_sn());
        self.uncharge(&held, share);
        Some(held)
    }

    /// Marks commands in `range`, in positions after the expected one, as received, so that they will never be
    /// delivered: those selected by `affected`, where a missing command is `None`.
    pub(super) fn pass_over(
        &mut self,
        range: Range<u32>,
        share: &mut Share,
        affected: impl Fn(Option<&Held>) -> bool,
    ) {
        for held in self.held.pass_over(range, affected) {
            self.uncharge(&held, share);
        }
        self.pass_received();
    }

    /// Drops the commands that the connection at `place` received ahead of a gap, as if they had never arrived.
    pub(super) fn discard(&mut self, place: usize, share: &mut Share) {
        for held in self.held.discard(|held| held.place == place) {
            self.uncharge(&held, share);
        }
    }

    fn uncharge(&mut self, held: &Held, share: &mut Share) {
        self.load.subtract(held.load());
        share.give(held.load().charged_bytes());
    }

    /// Advances past commands that count as received without having arrived.
    fn pass_received(&mut self) {
        while self.held.pass() {
            self.window.admit(self.window.exp_cmd_sn());
            self.window.release();
        }
    }
}
