//! Socket options of tcp(7), ip(7) and socket(7) that no safe library provides.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The largest segment to send and, set before the handshake, to advertise, in bytes without options (RFC 9293 §3.7.1,
/// TCP_MAXSEG): 88 to 32,767, or 0 for the path's limit.
///
/// # Errors
/// Errors of setsockopt(2): EINVAL out of range.
pub fn set_mss(socket: impl AsFd, bytes: u16) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, bytes.into())
}

/// Whether `socket` may use addresses that are not local: accept connections routed to it, or connect from such an
/// address (IP_TRANSPARENT, which covers IPv6 too).
///
/// # Errors
/// Errors of setsockopt(2): EPERM without CAP_NET_ADMIN or CAP_NET_RAW.
pub fn set_transparent(socket: impl AsFd, may: bool) -> io::Result<()> {
    set(socket, libc::SOL_IP, libc::IP_TRANSPARENT, may.into())
}

/// Defers the choice of a local port from bind(2) to connect(2), so that it must be free towards one peer only
/// (IP_BIND_ADDRESS_NO_PORT).
///
/// # Errors
/// Errors of setsockopt(2).
pub fn choose_port_late(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// The upper limit of the offered window, in bytes; may change on a connected socket (TCP_WINDOW_CLAMP). It does not
/// limit unread data: the receive buffer does, to which the kernel fits the offered window.
///
/// # Errors
/// Errors of setsockopt(2).
pub fn set_window_clamp(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    set(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes)
}

/// Limits unsent bytes: the socket accepts no more data at this limit, and becomes writable again below half of it
/// (TCP_NOTSENT_LOWAT); 0 is the namespace's limit (`net.ipv4.tcp_notsent_lowat`), by default none.
///
/// # Errors
/// Errors of setsockopt(2).
pub fn set_most_unsent(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    set(socket, libc::SOL_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// A socket is readable from this number of bytes (SO_RCVLOWAT); earlier when the offered window is nearly used up, or
/// the connection has ended.
///
/// # Errors
/// Errors of setsockopt(2).
pub fn set_least_readable(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    set(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
}

/// Sets an integer option.
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

/// Returns an integer option.
#[allow(
    unsafe_code,
    reason = "no safe wrapper of these options exists in rustix"
)]
pub(crate) fn get(socket: impl AsFd, level: c_int, option: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of `value`.
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
        // Timestamps are deducted already (RFC 6691).
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
