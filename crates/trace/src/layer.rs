//! The layers of one I/O.

use core::fmt;

/// A layer that an I/O passes, top to bottom. A request enters layers downward and its answer
/// leaves them upward; in flight at a layer = entered − left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Layer {
    /// Entered when the caller submits the I/O; left when the caller has its result.
    App,
    /// Entered when the CDB is built; left when status and residual are decoded.
    Scsi,
    /// Entered when put on the session's queue; left when taken off as done.
    Queue,
    /// Entered with a CmdSN inside MaxCmdSN; left when that CmdSN's slot is released.
    Window,
    /// Entered when the socket accepted the last byte of the command PDU; left when the first
    /// byte of its answer was read from the socket.
    Socket,
    /// Entered when the initiator's kernel hands that byte to the device; left when it receives
    /// the answer's first byte (socket timestamps).
    TcpInitiator,
    /// Entered and left when request and answer pass the observation point.
    Wire,
    /// Entered when the target's kernel receives the request; left when it hands the answer to
    /// the device.
    TcpTarget,
    /// Entered when the target has parsed the PDU; left when the answer PDU is queued.
    Target,
    /// Entered when the command, with all its data, goes to the SCSI device server; left when
    /// status is ready. What a write waits above it are its R2T round trips.
    Device,
    /// Entered when the backing store is asked; left when it has answered.
    Store,
}

impl Layer {
    /// All layers, top to bottom.
    pub const ALL: [Layer; 11] = [
        Layer::App,
        Layer::Scsi,
        Layer::Queue,
        Layer::Window,
        Layer::Socket,
        Layer::TcpInitiator,
        Layer::Wire,
        Layer::TcpTarget,
        Layer::Target,
        Layer::Device,
        Layer::Store,
    ];

    /// The layer's name in files and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Layer::App => "app",
            Layer::Scsi => "scsi",
            Layer::Queue => "queue",
            Layer::Window => "window",
            Layer::Socket => "socket",
            Layer::TcpInitiator => "tcp_initiator",
            Layer::Wire => "wire",
            Layer::TcpTarget => "tcp_target",
            Layer::Target => "target",
            Layer::Device => "device",
            Layer::Store => "store",
        }
    }

    /// The layer with that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Layer> {
        Layer::ALL.into_iter().find(|layer| layer.name() == name)
    }

    /// The layer's place from the top, 0 to 10.
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

/// Which way a layer's boundary was crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Direction {
    /// The request went down into the layer.
    Enter,
    /// The answer came up out of it.
    Leave,
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
