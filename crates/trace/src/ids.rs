//! Identifiers of the objects in records.

use core::fmt;

/// A session, as identified by both of its ends: the initiator's 48-bit ISID above the target's 16-bit TSIH (RFC 7143
/// §3.4.3, §11.12.5, §11.12.6). Records of both ends join on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SessionId(pub u64);

impl SessionId {
    /// The id of the session with this ISID and TSIH.
    #[must_use]
    pub const fn new(isid: [u8; 6], tsih: u16) -> Self {
        let [a, b, c, d, e, f] = isid;
        let [g, h] = tsih.to_be_bytes();
        SessionId(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}/{}", self.0 >> 16, self.0 & 0xffff)
    }
}

/// A connection's CID inside its session (RFC 7143 §11.12.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ConnectionId(pub u16);

/// An Initiator Task Tag (RFC 7143 §11.2.1.8). wansan's own initiator uses each value once per 2^32 tasks, so within
/// one run (session, tag) identifies one I/O. A third-party initiator may reuse a tag at once; the order of events then
/// distinguishes its uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TaskTag(pub u32);

/// An interned name of one recorder (for example of a path); see [`crate::Recorder::name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NameId(pub u16);

impl NameId {
    /// No name: reads as the empty string.
    pub const NONE: NameId = NameId(u16::MAX);
}
