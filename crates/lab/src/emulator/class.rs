//! Packet classes, for priority queues.

use std::fmt;
use std::net::{SocketAddr, SocketAddrV4};

use super::segment::Segment;

/// Classifies packets by source and destination.
pub struct Classes {
    of: Box<dyn Fn(SocketAddrV4, SocketAddrV4) -> u8 + Send>,
    other: u8,
}

impl Classes {
    /// Classifies TCP segments by source and destination with `of`; everything else is of class `other`.
    #[must_use]
    pub fn new(of: impl Fn(SocketAddrV4, SocketAddrV4) -> u8 + Send + 'static, other: u8) -> Self {
        Classes {
            of: Box::new(of),
            other,
        }
    }

    /// The class of an Ethernet frame.
    pub(super) fn of(&self, frame: &[u8]) -> u8 {
        match Segment::parse(frame).map(|segment| (segment.source, segment.destination)) {
            Some((SocketAddr::V4(source), SocketAddr::V4(destination))) => {
                (self.of)(source, destination)
            }
            _ => self.other,
        }
    }
}

impl fmt::Debug for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Classes")
            .field("other", &self.other)
            .finish_non_exhaustive()
    }
}
