//! Makes the last segments of a burst go out at once ([`wansan_iscsi::tail`]).

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::SendFlags;
use wansan_iscsi::tail::ends_record;
use wansan_tcp::{TcpInfo, queues};

/// State of a connection's socket for it.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// 0 before the first measurement.
    least_round_trip: Duration,
}

impl Tail {
    /// Updates the round-trip time from the socket's TCP_INFO.
    pub(crate) fn look_at(&mut self, info: &TcpInfo) {
        self.least_round_trip = Duration::from_nanos(info.min_rtt_ns());
    }

    /// Flags of the non-blocking send that writes all pending data.
    pub(crate) fn flags(&self, socket: impl AsFd) -> SendFlags {
        // On a kernel that does not report it, nothing changes.
        let unsent_bytes = || queues::unsent_bytes(socket).unwrap_or(u64::MAX);
        let mut flags = SEND;
        flags.set(
            SendFlags::EOR,
            ends_record(self.least_round_trip, unsent_bytes),
        );
        flags
    }
}

/// Flags of a partial write.
pub(crate) const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
