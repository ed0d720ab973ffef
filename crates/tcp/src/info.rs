//! TCP_INFO: the kernel's view of one connection.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use wansan_trace::event::{Tcp, TcpEvent};
use wansan_trace::{ConnectionId, Instant, SessionId};

/// Bytes of `struct tcp_info` that are asked for; newer kernels have more, older ones less.
const INFO_BYTES: usize = 256;

/// What the kernel says of a TCP socket (tcp(7), `struct tcp_info` of linux/tcp.h).
///
/// The structure has only ever grown at its end, so fields are read by their offset and those
/// that an older kernel does not have read as 0.
#[derive(Debug, Clone)]
pub struct TcpInfo {
    bytes: [u8; INFO_BYTES],
}

impl TcpInfo {
    /// Asks the kernel about `socket`.
    ///
    /// # Errors
    /// Those of getsockopt(2): ENOPROTOOPT or EOPNOTSUPP when it is not a TCP socket.
    pub fn of(socket: impl AsFd) -> io::Result<TcpInfo> {
        let mut bytes = [0; INFO_BYTES];
        read_tcp_info(socket, &mut bytes)?;
        Ok(TcpInfo { bytes })
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

    /// Smoothed round-trip time in ns; 0 before the first measurement.
    #[must_use]
    pub fn srtt_ns(&self) -> u64 {
        u64::from(self.u32_at(68)) * 1000
    }

    /// The shortest round-trip time in ns of the last minutes (net.ipv4.tcp_min_rtt_wlen); 0 before
    /// the first measurement.
    #[must_use]
    pub fn min_rtt_ns(&self) -> u64 {
        u64::from(self.u32_at(148)) * 1000
    }

    /// Bytes that the peer has acknowledged since the connection began.
    #[must_use]
    pub fn acked_bytes(&self) -> u64 {
        self.u64_at(120)
    }

    /// As a record of the trace vocabulary.
    #[must_use]
    pub fn record(&self, time: Instant, session: SessionId, connection: ConnectionId) -> Tcp {
        Tcp {
            time,
            session,
            connection,
            event: TcpEvent::Sample,
            congestion_state: self.bytes[1],
            cwnd_packets: self.u32_at(80),
            ssthresh_packets: self.u32_at(76),
            mss_bytes: self.u32_at(16),
            in_flight_packets: self.u32_at(24),
            srtt_ns: self.srtt_ns(),
            min_rtt_ns: self.min_rtt_ns(),
            rwnd_bytes: self.u32_at(228),
            unsent_bytes: self.u32_at(144),
            acked_bytes: self.acked_bytes(),
            pacing_bytes_per_s: self.u64_at(104),
            delivery_bytes_per_s: self.u64_at(160),
            busy_ns: self.u64_at(168) * 1000,
            rwnd_limited_ns: self.u64_at(176) * 1000,
            sndbuf_limited_ns: self.u64_at(184) * 1000,
            retransmits: self.u32_at(100),
        }
    }
}

#[allow(unsafe_code, reason = "no safe wrapper of TCP_INFO exists in rustix")]
fn read_tcp_info(socket: impl AsFd, bytes: &mut [u8; INFO_BYTES]) -> io::Result<()> {
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
        Ok(())
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
