//! The initiator's view of the command window (RFC 7143 §4.2.2.1).

use crate::sequence::Sn;

/// Owns the session's CmdSNs: each is assigned once, in order, and none beyond MaxCmdSN.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandWindow {
    /// CmdSN of the next non-immediate command.
    cmd_sn: Sn,
    exp_cmd_sn: Sn,
    max_cmd_sn: Sn,
}

impl CommandWindow {
    pub(super) fn new(cmd_sn: Sn, exp_cmd_sn: Sn, max_cmd_sn: Sn) -> Self {
        CommandWindow {
            cmd_sn,
            exp_cmd_sn,
            max_cmd_sn,
        }
    }

    /// Updates ExpCmdSN and MaxCmdSN as in §4.2.2.1: never backwards, and neither when they contradict each other.
    pub(super) fn update(&mut self, (exp_cmd_sn, max_cmd_sn): (Sn, Sn)) {
        if max_cmd_sn.lt(exp_cmd_sn.sub(1)) {
            return;
        }
        if self.exp_cmd_sn.lt(exp_cmd_sn) {
            self.exp_cmd_sn = exp_cmd_sn;
        }
        if self.max_cmd_sn.lt(max_cmd_sn) {
            self.max_cmd_sn = max_cmd_sn;
        }
    }

    /// CmdSN of the next non-immediate command; an immediate one carries it without consuming it.
    pub(super) fn cmd_sn(&self) -> Sn {
        self.cmd_sn
    }

    /// Whether the target accepts another command.
    pub(super) fn is_open(&self) -> bool {
        self.cmd_sn.le(self.max_cmd_sn)
    }

    /// Assigns the CmdSN of a command; the window must be open.
    pub(super) fn take(&mut self) -> Sn {
        debug_assert!(self.is_open());
        let cmd_sn = self.cmd_sn;
        self.cmd_sn = cmd_sn.next();
        cmd_sn
    }

    /// Whether the target has received the command with `cmd_sn`.
    pub(super) fn has_received(&self, cmd_sn: Sn) -> bool {
        cmd_sn.lt(self.exp_cmd_sn)
    }

    /// MaxCmdSN − ExpCmdSN + 1, 0 when the window is closed.
    pub(super) fn size(&self) -> u32 {
        self.max_cmd_sn.next().distance(self.exp_cmd_sn)
    }

    /// The rank of an assigned CmdSN among the others: serial numbers have an order only around one of them.
    pub(super) fn rank(&self, cmd_sn: Sn) -> u32 {
        cmd_sn.distance(self.cmd_sn.sub(1 << 31))
    }
}
