//! One PDU in a receiver's buffer.

use super::bhs::{self, at};
use super::{Bhs, Opcode};
use crate::sequence::Sn;
use wansan_trace::TaskTag;

/// A complete PDU with valid digests, if any. It borrows the [`Receiver`](super::Receiver)'s
/// buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pdu<'a> {
    /// Basic Header Segment.
    pub bhs: &'a Bhs,
    /// Additional header segments with their padding; read them with
    /// [`Ahs::parse_all`](super::Ahs::parse_all).
    pub ahs: &'a [u8],
    /// Data segment without padding.
    pub data: &'a [u8],
    /// Its offset in its direction's TCP stream, from 0.
    pub stream_offset: u64,
}

impl Pdu<'_> {
    /// The opcode.
    #[inline]
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        bhs::opcode(self.bhs)
    }

    /// Whether it is an immediate request (I bit).
    #[inline]
    #[must_use]
    pub const fn immediate(&self) -> bool {
        bhs::immediate(self.bhs)
    }

    /// Initiator Task Tag.
    #[inline]
    #[must_use]
    pub fn task_tag(&self) -> TaskTag {
        bhs::task_tag(self.bhs)
    }

    /// CmdSN, at the same offset in all initiator PDUs except Data-Out and SNACK.
    #[must_use]
    pub fn cmd_sn(&self) -> Sn {
        bhs::sn_at(self.bhs, at::CMD_SN)
    }

    /// ExpStatSN, at the same offset in all initiator PDUs.
    #[must_use]
    pub fn exp_stat_sn(&self) -> Sn {
        bhs::sn_at(self.bhs, at::EXP_STAT_SN)
    }

    /// ExpCmdSN and MaxCmdSN, at the same offsets in all target PDUs.
    #[must_use]
    pub fn command_window(&self) -> (Sn, Sn) {
        let sn = |place| bhs::sn_at(self.bhs, place);
        (sn(at::EXP_CMD_SN), sn(at::MAX_CMD_SN))
    }
}
