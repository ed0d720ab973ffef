//! Asynchronous Message (RFC 7143 §11.9).

use super::bhs::{self, FINAL, at};
use super::{Bhs, Lun, Opcode, ParseError, RESERVED_TAG};
use crate::sequence::Sn;

open_code! {
    /// Asynchronous events (RFC 7143 §11.9.1).
    AsyncEvent: u8 {
        /// A SCSI asynchronous event, with sense data.
        ScsiEvent = 0,
        /// The target requests a logout within Parameter3 seconds.
        LogoutRequest = 1,
        /// The target will drop connection Parameter1; reconnect after Parameter2 seconds.
        DropConnection = 2,
        /// The target will drop all connections of the session.
        DropAllConnections = 3,
        /// The target requests a text negotiation within Parameter3 seconds.
        NegotiationRequest = 4,
        /// All active tasks for the LUN and initiator are being terminated.
        TaskSetTermination = 5,
        /// A vendor-specific event, given by AsyncVCode.
        Vendor = 255,
    }
}

/// Asynchronous Message: an unsolicited message from the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AsyncMessage {
    /// Logical unit, for events about one.
    pub lun: Lun,
    /// StatSN.
    pub stat_sn: Sn,
    /// ExpCmdSN.
    pub exp_cmd_sn: Sn,
    /// MaxCmdSN.
    pub max_cmd_sn: Sn,
    /// AsyncEvent.
    pub event: AsyncEvent,
    /// AsyncVCode.
    pub vendor_code: u8,
    /// Parameter1.
    pub parameter1: u16,
    /// Parameter2.
    pub parameter2: u16,
    /// Parameter3.
    pub parameter3: u16,
}

impl AsyncMessage {
    /// Parses a header.
    ///
    /// # Errors
    /// [`ParseError::WrongOpcode`].
    pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
        bhs::expect(bhs, Opcode::AsyncMessage)?;
        Ok(AsyncMessage {
            lun: Lun(bhs::array(bhs, at::LUN)),
            stat_sn: bhs::sn_at(bhs, at::STAT_SN),
            exp_cmd_sn: bhs::sn_at(bhs, at::EXP_CMD_SN),
            max_cmd_sn: bhs::sn_at(bhs, at::MAX_CMD_SN),
            event: AsyncEvent::from_wire(bhs[36]),
            vendor_code: bhs[37],
            parameter1: bhs::u16_at(bhs, 38),
            parameter2: bhs::u16_at(bhs, 40),
            parameter3: bhs::u16_at(bhs, 42),
        })
    }

    /// Encodes the whole header, with lengths of zero.
    pub fn emit(&self, bhs: &mut Bhs) {
        bhs::begin(bhs, Opcode::AsyncMessage, false, FINAL);
        bhs::put(bhs, at::LUN, &self.lun.0);
        bhs::put_u32(bhs, at::TASK_TAG, RESERVED_TAG);
        bhs::put_target_numbers(bhs, self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn);
        bhs[36] = self.event.to_wire();
        bhs[37] = self.vendor_code;
        bhs::put_u16(bhs, 38, self.parameter1);
        bhs::put_u16(bhs, 40, self.parameter2);
        bhs::put_u16(bhs, 42, self.parameter3);
    }
}
