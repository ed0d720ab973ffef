//! Socket options of tcp(7), ip(7) and socket(7) that no safe library has.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The largest segment that is sent and, set before the handshake, offered to the peer, in bytes
/// without options (RFC 9293 §3.7.1, TCP_MAXSEG): 88 to 32,767, or 0 for what the path allows.
///
/// # Errors
/// Those of setsockopt(2): EINVAL out of the range.
pub fn set_mss(socket: impl AsFd, bytes: u16) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, bytes.into())
}

/// Whether `socket` may have addresses that are not this host's: accept what is routed to it, or
/// connect from it (IP_TRANSPARENT, which is that of IPv6 too).
///
/// # Errors
/// Those of setsockopt(2): EPERM without CAP_NET_ADMIN or CAP_NET_RAW.
pub fn set_transparent(socket: impl AsFd, may: bool) -> io::Result<()> {
    set(socket, libc::SOL_IP, libc::IP_TRANSPARENT, may.into())
}

/// Leaves the choice of a local port from bind(2) to connect(2), which needs it to be free towards
/// one peer only (IP_BIND_ADDRESS_NO_PORT).
///
/// # Errors
/// Those of setsockopt(2).
pub fn choose_port_late(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// The most that the peer of a connection is ever offered beyond what has come, in bytes, also while it
/// runs (TCP_WINDOW_CLAMP). It is no bound on what waits to be read: for that there is the receive
/// buffer, to which the kernel fits the offered window.
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_window_clamp(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    set(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes)
}

/// A socket takes no more while it has so many bytes that were not sent yet, and becomes writable
/// again when there are less than half of them (TCP_NOTSENT_LOWAT); 0 is the namespace's own bound
/// (`net.ipv4.tcp_notsent_lowat`), as a rule none.
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_most_unsent(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    set(socket, libc::SOL_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// A socket is readable once it has so many bytes (SO_RCVLOWAT); with less where the window that it offers is nearly used up,
/// and once the connection has ended.
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_least_readable(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    set(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
}

/// Sets an option that is an int.
#[allow(
    unsafe_code,
    reason = "no safe wrapper of these options exists in rustix"
)]
pub(crate) fn set(socket: impl AsFd, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the kernel reads one int, which lives until the call returns.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// What an option that is an int has.
#[allow(
    unsafe_code,
    reason = "no safe wrapper of these options exists in rustix"
)]
pub(crate) fn get(socket: impl AsFd, level: c_int, option: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes `length` bytes at most, which `value` has.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if status == 0 {
        Ok(value)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TcpInfo;
    use std::net::{TcpListener, TcpStream};
    use wansan_trace::{ConnectionId, Instant, SessionId};

    #[test]
    fn a_listener_offers_the_segments_that_it_was_given() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_mss(&listener, 1200).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = TcpInfo::of(&client).unwrap();
        let record = info.record(Instant::ZERO, SessionId(0), ConnectionId(0));
        // What timestamps take is off already (RFC 6691).
        assert!((1100..=1200).contains(&record.mss_bytes), "{record:?}");
        assert!(set_mss(&listener, 20).is_err());
    }

    #[test]
    fn a_port_can_be_left_to_the_connection() {
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
            None,
        );
        choose_port_late(socket.unwrap()).unwrap();
    }
}
