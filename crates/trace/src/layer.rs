//! The layers of one I/O.

use core::fmt;

use crate::named::named;

named! {
    /// A layer that an I/O passes, top to bottom. A request enters layers downward and its answer
    /// leaves them upward; in flight at a layer = entered − left.
    Layer {
        /// Entered when a program's request reaches an attached disk; left when its reply is queued. One request may
        /// need several I/Os, one or none, so [`crate::event::Request`] records it instead of crossings.
        Cache = "cache",
        /// Entered when the caller submits the I/O; left when the caller has its result.
        App = "app",
        /// Entered when the CDB is built; left when status and residual are decoded.
        Scsi = "scsi",
        /// Entered when it joins the session's queue; left when it is removed as complete.
        Queue = "queue",
        /// Entered with a CmdSN inside MaxCmdSN; left when that CmdSN's slot is released.
        Window = "window",
        /// Entered when the socket accepted the last byte of the command PDU; left when the first
        /// byte of its answer was read from the socket.
        Socket = "socket",
        /// Entered when the initiator's kernel hands that byte to the device; left when it receives
        /// the answer's first byte (socket timestamps).
        TcpInitiator = "tcp_initiator",
        /// Entered and left when request and answer pass the observation point.
        Wire = "wire",
        /// Entered when the target's kernel receives the request; left when it hands the answer to
        /// the device.
        TcpTarget = "tcp_target",
        /// Entered when the target has parsed the PDU; left when the answer PDU is queued.
        Target = "target",
        /// Entered when the command, with all its data, goes to the SCSI device server; left when
        /// status is ready. The wait of a write above it is its R2T round trips.
        Device = "device",
        /// Entered when the operation goes to the backing store; left when the store has answered.
        Store = "store",
    }
}

impl Layer {
    /// The layer's place from the top, 0 to 11.
    #[must_use]
    pub const fn depth(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

named! {
    /// Which way a layer's boundary was crossed.
    Direction {
        /// The request went down into the layer.
        Enter = "enter",
        /// The answer came up out of it.
        Leave = "leave",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_depths_agree() {
        for (depth, layer) in Layer::ALL.into_iter().enumerate() {
            assert_eq!(layer.depth(), depth);
            assert_eq!(Layer::from_name(layer.name()), Some(layer));
        }
        assert_eq!(Layer::from_name("syscall"), None);
    }
}
