//! TCP_INFO: the kernel's view of one connection.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use wansan_trace::event::CongestionState;
use wansan_trace::event::{Ecn, Tcp};
use wansan_trace::{ConnectionId, Instant, SessionId};

use crate::queues;

/// Bytes of `struct tcp_info` to keep; newer kernels return more, older ones less.
const INFO_BYTES: usize = 256;

/// Offset of the number of segments acknowledged with ECE (Linux 4.18).
const DELIVERED_CE: usize = 196;

/// Offset of the window offered to the peer (Linux 6.2).
const RCV_WND: usize = 232;

/// The kernel's state of a TCP socket (tcp(7), `struct tcp_info` of linux/tcp.h).
///
/// The structure has only grown at its end, so fields are read by offset, and those that an older kernel lacks read as
/// 0.
#[derive(Debug, Clone)]
pub struct TcpInfo {
    bytes: [u8; INFO_BYTES],
    /// Bytes that the kernel filled.
    known: usize,
}

impl TcpInfo {
    /// Reads the TCP_INFO of `socket`.
    ///
    /// # Errors
    /// Errors of getsockopt(2): ENOPROTOOPT or EOPNOTSUPP when it is not a TCP socket.
    pub fn of(socket: impl AsFd) -> io::Result<TcpInfo> {
        let mut bytes = [0; INFO_BYTES];
        let known = read_tcp_info(socket, &mut bytes)?;
        Ok(TcpInfo { bytes, known })
    }

    /// Parses the structure as returned by a kernel of any version.
    #[must_use]
    pub fn parse(given: &[u8]) -> TcpInfo {
        let mut bytes = [0; INFO_BYTES];
        let known = given.len().min(INFO_BYTES);
        bytes[..known].copy_from_slice(&given[..known]);
        TcpInfo { bytes, known }
    }

    fn u16_at(&self, offset: usize) -> u16 {
        u16::from_ne_bytes([self.bytes[offset], self.bytes[offset + 1]])
    }

    fn u32_at(&self, offset: usize) -> u32 {
        let mut word = [0; 4];
        word.copy_from_slice(&self.bytes[offset..offset + 4]);
        u32::from_ne_bytes(word)
    }

    fn u64_at(&self, offset: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[offset..offset + 8]);
        u64::from_ne_bytes(word)
    }

    /// Whether there is nothing left to send: the peer has acknowledged the FIN and all before it, or the connection is
    /// gone.
    #[must_use]
    pub fn has_sent_all(&self) -> bool {
        const FIN_WAIT2: u8 = 5;
        /// Also the state of a socket whose connection is in TIME-WAIT.
        const CLOSE: u8 = 7;
        matches!(self.bytes[0], FIN_WAIT2 | CLOSE)
    }

    /// Smoothed round-trip time in ns; 0 before the first measurement.
    #[must_use]
    pub fn srtt_ns(&self) -> u64 {
        u64::from(self.u32_at(68)) * 1000
    }

    /// The minimum round-trip time of recent minutes (net.ipv4.tcp_min_rtt_wlen) in ns; 0 before the first measurement.
    #[must_use]
    pub fn min_rtt_ns(&self) -> u64 {
        match self.u32_at(148) {
            // The kernel's value before it.
            u32::MAX => 0,
            us => u64::from(us) * 1000,
        }
    }

    /// Send MSS, in bytes without options.
    #[must_use]
    pub fn mss_bytes(&self) -> u32 {
        self.u32_at(16)
    }

    /// Advertised MSS, in bytes without options.
    #[must_use]
    pub fn advertised_mss_bytes(&self) -> u32 {
        self.u32_at(84)
    }

    /// The window offered by the peer, in bytes.
    #[must_use]
    pub fn peer_window_bytes(&self) -> u32 {
        self.u32_at(228)
    }

    /// The receiver's estimate of the round-trip time in ns; 0 before anything arrived. Too long if the peer pauses.
    #[must_use]
    pub fn receiver_rtt_ns(&self) -> u64 {
        u64::from(self.u32_at(92)) * 1000
    }

    /// Time with data to send since the connection began, in ns.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        self.u64_at(168) * 1000
    }

    /// The part of it limited by the peer's receive window, in ns.
    #[must_use]
    pub fn rwnd_limited_ns(&self) -> u64 {
        self.u64_at(176) * 1000
    }

    /// The last window offered to the peer, in bytes; `None` on kernels that do not report it.
    #[must_use]
    pub fn offered_window_bytes(&self) -> Option<u32> {
        (self.known >= RCV_WND + 4).then(|| self.u32_at(RCV_WND))
    }

    /// Bytes written and not sent yet.
    #[must_use]
    pub fn unsent_bytes(&self) -> u32 {
        self.u32_at(144)
    }

    /// The pacing rate in bytes per second; `u64::MAX`: unlimited.
    #[must_use]
    pub fn pacing_bytes_per_s(&self) -> u64 {
        self.u64_at(104)
    }

    /// Bytes that the peer has acknowledged since the connection began.
    #[must_use]
    pub fn acked_bytes(&self) -> u64 {
        self.u64_at(120)
    }

    /// Bytes received in order since the connection began; a FIN counts as one.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.u64_at(128)
    }

    /// Congestion window in segments.
    #[must_use]
    pub fn cwnd_packets(&self) -> u32 {
        self.u32_at(80)
    }

    /// Slow-start threshold in segments; the kernel's maximum, 2^31 − 1, while none is set.
    #[must_use]
    pub fn ssthresh_packets(&self) -> u32 {
        self.u32_at(76)
    }

    /// Segments in flight: sent, less those SACKed or considered lost, plus those retransmitted
    /// (`tcp_packets_in_flight` of the kernel).
    #[must_use]
    pub fn in_flight_packets(&self) -> u32 {
        let [unacked, sacked, lost, retrans] = [24, 28, 32, 36].map(|at| self.u32_at(at));
        unacked
            .saturating_sub(sacked.saturating_add(lost))
            .saturating_add(retrans)
    }

    /// Segments acknowledged with ECE; `None` on kernels that do not count them.
    #[must_use]
    pub fn delivered_ce(&self) -> Option<u32> {
        (self.known >= DELIVERED_CE + 4).then(|| self.u32_at(DELIVERED_CE))
    }

    /// Duplicate segments that the peer reported by D-SACK (RFC 2883); 0 on kernels that do not count them (before
    /// Linux 4.20).
    #[must_use]
    pub fn duplicates(&self) -> u32 {
        self.u32_at(216)
    }

    /// Window scales (RFC 7323 §2.2): of windows that this end announces, and of the peer's.
    #[must_use]
    pub fn window_scales(&self) -> (u8, u8) {
        let both = self.bytes[6];
        // Bit fields of a byte: the first is the lower half on little-endian machines.
        let (of_peer, own) = if cfg!(target_endian = "little") {
            (both & 0xf, both >> 4)
        } else {
            (both >> 4, both & 0xf)
        };
        (own, of_peer)
    }

    /// The ECN state of the connection.
    #[must_use]
    pub fn ecn(&self) -> Ecn {
        const NEGOTIATED: u8 = 8;
        const SEEN: u8 = 16;
        match self.bytes[5] {
            options if options & SEEN != 0 => Ecn::Seen,
            options if options & NEGOTIATED != 0 => Ecn::Negotiated,
            _ => Ecn::Off,
        }
    }

    /// Reads the TCP_INFO of `socket` as a record of the trace vocabulary.
    ///
    /// # Errors
    /// As for [`TcpInfo::of`].
    pub fn sample(
        socket: impl AsFd,
        time: Instant,
        session: SessionId,
        connection: ConnectionId,
    ) -> io::Result<Tcp> {
        let record = TcpInfo::of(&socket)?.record(time, session, connection);
        let memory = queues::memory(&socket)?;
        Ok(Tcp {
            send_memory_bytes: memory.sent_bytes,
            send_buffer_bytes: memory.send_buffer_bytes,
            ..record
        })
    }

    /// A record of the trace vocabulary, with the fields that `struct tcp_info` has.
    #[must_use]
    pub fn record(&self, time: Instant, session: SessionId, connection: ConnectionId) -> Tcp {
        Tcp {
            time,
            session,
            connection,
            congestion_state: CongestionState(self.bytes[1]),
            cwnd_packets: self.cwnd_packets(),
            ssthresh_packets: self.ssthresh_packets(),
            mss_bytes: self.mss_bytes(),
            in_flight_packets: self.u32_at(24),
            srtt_ns: self.srtt_ns(),
            min_rtt_ns: self.min_rtt_ns(),
            rwnd_bytes: self.peer_window_bytes(),
            unsent_bytes: self.unsent_bytes(),
            acked_bytes: self.acked_bytes(),
            pacing_bytes_per_s: self.pacing_bytes_per_s(),
            delivery_bytes_per_s: self.u64_at(160),
            busy_ns: self.busy_ns(),
            rwnd_limited_ns: self.rwnd_limited_ns(),
            sndbuf_limited_ns: self.u64_at(184) * 1000,
            retransmits: self.u32_at(100),
            delivered_ce: self.delivered_ce().unwrap_or_default(),
            timeouts: u32::from(self.u16_at(242)),
            ecn: self.ecn(),
            ..Tcp::BLANK
        }
    }
}

#[allow(unsafe_code, reason = "no safe wrapper of TCP_INFO exists in rustix")]
fn read_tcp_info(socket: impl AsFd, bytes: &mut [u8; INFO_BYTES]) -> io::Result<usize> {
    let mut length = INFO_BYTES as libc::socklen_t;
    // SAFETY: `bytes` is writable for `length` bytes and the kernel writes no more than that;
    // any byte pattern is valid for it.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if status == 0 {
        Ok(length as usize)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn all_is_sent_when_the_fin_was_acknowledged_or_the_connection_is_gone() {
        let states = (1..=11).filter(|state| TcpInfo::parse(&[*state]).has_sent_all());
        assert_eq!(states.collect::<Vec<u8>>(), [5, 7]);
    }

    #[test]
    fn a_connection_that_moved_data_shows_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 5000]).unwrap();
        let mut got = [0; 5000];
        server.read_exact(&mut got).unwrap();
        server.write_all(b"done").unwrap();
        client.read_exact(&mut got[..4]).unwrap();

        let session = SessionId::new([1, 2, 3, 4, 5, 6], 7);
        let record =
            TcpInfo::of(&client)
                .unwrap()
                .record(Instant::from_ns(9), session, ConnectionId(3));
        assert_eq!(
            (record.time.ns(), record.session, record.connection.0),
            (9, session, 3)
        );
        assert!(record.acked_bytes >= 5000, "{record:?}");
        assert!(
            record.cwnd_packets >= 2 && record.mss_bytes > 500,
            "{record:?}"
        );
        assert!(record.rwnd_bytes > 0 && record.srtt_ns > 0, "{record:?}");
    }

    #[test]
    fn another_kind_of_socket_is_an_error() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(TcpInfo::of(&socket).is_err());
    }
}
