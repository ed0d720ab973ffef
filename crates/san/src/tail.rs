//! Has the last of what is written go out at once ([`wansan_iscsi::tail`]).

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::SendFlags;
use wansan_iscsi::tail::ends_record;
use wansan_tcp::{TcpInfo, queues};

/// What a connection's socket has to know for that.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// 0 before it was measured.
    least_round_trip: Duration,
}

impl Tail {
    /// Takes the round trip from what TCP says of the socket.
    pub(crate) fn look_at(&mut self, info: &TcpInfo) {
        self.least_round_trip = Duration::from_nanos(info.min_rtt_ns());
    }

    /// Flags of the send that writes all there is to send for now; it does not block.
    pub(crate) fn flags(&self, socket: impl AsFd) -> SendFlags {
        // A kernel that does not tell goes on as before.
        let unsent_bytes = || queues::unsent_bytes(socket).unwrap_or(u64::MAX);
        let mut flags = SEND;
        flags.set(
            SendFlags::EOR,
            ends_record(self.least_round_trip, unsent_bytes),
        );
        flags
    }
}

/// How a part is written.
pub(crate) const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
