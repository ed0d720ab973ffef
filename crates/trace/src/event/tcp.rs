//! TCP's own view of a connection.

use core::net::SocketAddr;

use super::CongestionState;
use crate::named::named;
use crate::record::record;
use crate::{ConnectionId, Instant, NameId, SessionId};

/// The smallest slow-start threshold that means that none is set.
const NO_THRESHOLD: u32 = i32::MAX as u32;

/// The pacing rate that means unlimited.
const UNPACED: u64 = u64::MAX;

named! {
    /// What made a `tcp` record.
    TcpEvent {
        /// A periodic sample.
        Sample = "sample",
        /// The congestion window was reduced without a loss (ECE or a full local queue).
        Cwr = "cwr",
        /// Fast recovery began.
        Recovery = "recovery",
        /// A retransmission timeout.
        Loss = "loss",
        /// A segment was retransmitted.
        Retransmit = "retransmit",
        /// As [`TcpEvent::Cwr`], and known to be because the peer echoed a mark (ECE, RFC 3168 §6.1.2).
        CwrByEce = "cwr_by_ece",
        /// As [`TcpEvent::Cwr`], and known to be because a queue of the sending host was full.
        CwrByDevice = "cwr_by_device",
        /// A window reduction was undone, because the apparent loss was only a delay (RFC 4015 §3).
        Undo = "undo",
        /// The congestion window or the slow-start threshold changed.
        Change = "change",
        /// The first record of the connection.
        Begin = "begin",
        /// The last record of the connection.
        End = "end",
    }
}

named! {
    /// The source of a `tcp` record.
    Seen {
        /// The kernel was polled: an event is inferred from the difference between two samples, and
        /// its time is that of the later one.
        Sampled = "sampled",
        /// The kernel reported it when it happened.
        Traced = "traced",
    }
}

named! {
    /// The ECN state of a connection (RFC 3168).
    Ecn {
        /// It was not negotiated, or not recorded.
        Off = "off",
        /// It was negotiated, but no ECN-capable packet has arrived yet.
        Negotiated = "negotiated",
        /// ECN-capable packets have arrived.
        Seen = "seen",
    }
}

record! {
    /// `tcp`: the kernel's view of one connection (TCP_INFO of Linux).
    Tcp in "tcp" named by ends grouped by |tcp| tcp.session.0 as usize ^ usize::from(tcp.connection.0) => {
        /// When.
        time: Instant => Grows,
        /// The session; for a connection watched from outside, the socket's cookie.
        session: SessionId => Repeats,
        /// The connection.
        connection: ConnectionId => Repeats,
        /// Why it was recorded.
        event: TcpEvent => Repeats,
        /// Congestion state: 0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss.
        congestion_state: CongestionState => Repeats,
        /// Congestion window, in segments.
        cwnd_packets: u32 => Repeats,
        /// Slow-start threshold, in segments (2^31 − 1 while none is set).
        ssthresh_packets: u32 => Repeats none NO_THRESHOLD,
        /// Sending maximum segment size, in bytes.
        mss_bytes: u32 => Repeats,
        /// Segments sent but not acknowledged.
        in_flight_packets: u32 => Repeats,
        /// Smoothed round-trip time.
        srtt_ns: u64 => Varies,
        /// Minimum round-trip time.
        min_rtt_ns: u64 => Repeats,
        /// Receive window advertised by the peer.
        rwnd_bytes: u32 => Repeats,
        /// Unsent bytes in the send buffer.
        unsent_bytes: u32 => Varies,
        /// Bytes that the peer has acknowledged since the connection began.
        acked_bytes: u64 => Varies,
        /// Pacing rate, bytes per second (`u64::MAX`: unlimited).
        pacing_bytes_per_s: u64 => Varies none UNPACED,
        /// Delivery rate last measured, bytes per second.
        delivery_bytes_per_s: u64 => Varies,
        /// Cumulative time with data to send.
        busy_ns: u64 => Varies,
        /// Part of it stopped by the peer's window.
        rwnd_limited_ns: u64 => Varies,
        /// Part of it stopped by a full local send buffer.
        sndbuf_limited_ns: u64 => Varies,
        /// Segments retransmitted since the connection began.
        retransmits: u32 => Repeats,
        /// Segments that the peer acknowledged with ECE since the connection began.
        delivered_ce: u32 => Repeats; added,
        /// Number of recoveries that a retransmission timeout began; 0 on kernels before 6.7.
        timeouts: u32 => Repeats; added,
        /// For a relay: bytes that arrived and were not forwarded yet, in the receive queue and in the
        /// relay's own memory; 0 for others.
        unread_bytes: u32 => Repeats; added,
        /// For a relay: number of times that ECE to the peer began because the backlog exceeded its bound; 0 for others.
        ece_signals: u32 => Repeats; added,
        /// The memory that unsent and unacknowledged data uses in the send buffer, including the kernel's overhead;
        /// 0 if not recorded.
        send_memory_bytes: u32 => Varies; added,
        /// The limit of that memory (SO_SNDBUF as the kernel counts it); 0 if not recorded.
        send_buffer_bytes: u32 => Repeats; added,
        /// ECN.
        ecn: Ecn => Repeats; added,
        /// Both ends as [`Tcp::ends_name`] writes them, or [`NameId::NONE`] if not recorded.
        ends: NameId => Repeats; added,
        /// Its source.
        seen: Seen => Repeats; added,
    }
}

impl Tcp {
    /// The slow-start threshold in segments, once one is set.
    #[must_use]
    pub fn threshold_packets(&self) -> Option<u32> {
        Some(self.ssthresh_packets).filter(|packets| *packets < NO_THRESHOLD)
    }

    /// The pacing rate in bytes per second, if one is set.
    #[must_use]
    pub fn pacing_rate_bytes_per_s(&self) -> Option<u64> {
        Some(self.pacing_bytes_per_s).filter(|rate| *rate < UNPACED)
    }

    /// The name in records of the two ends of a connection: the recording end first.
    #[must_use]
    pub fn ends_name(local: SocketAddr, remote: SocketAddr) -> String {
        format!("{local} > {remote}")
    }
}
