//! One PDU in a receiver's buffer.

use super::bhs::{self, at};
use super::{Bhs, Opcode};
use crate::sequence::Sn;
use wansan_trace::TaskTag;

/// A whole PDU whose digests, if any, were right. It borrows the [`Receiver`](super::Receiver)'s
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
    /// Where the PDU begins in its direction's TCP stream, from 0.
    pub stream_offset: u64,
}

impl Pdu<'_> {
    /// Which PDU it is.
    #[inline]
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        bhs::opcode(self.bhs)
    }

    /// Whether it is marked for immediate delivery (the I bit of a request).
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

    /// CmdSN, which stands at the same place in all of an initiator's PDUs but Data-Out and SNACK.
    #[must_use]
    pub fn cmd_sn(&self) -> Sn {
        bhs::sn_at(self.bhs, at::CMD_SN)
    }

    /// ExpStatSN, which stands at the same place in all of an initiator's PDUs.
    #[must_use]
    pub fn exp_stat_sn(&self) -> Sn {
        bhs::sn_at(self.bhs, at::EXP_STAT_SN)
    }

    /// ExpCmdSN and MaxCmdSN, which stand at the same places in all of a target's PDUs.
    #[must_use]
    pub fn command_window(&self) -> (Sn, Sn) {
        let sn = |place| bhs::sn_at(self.bhs, place);
        (sn(at::EXP_CMD_SN), sn(at::MAX_CMD_SN))
    }
}
