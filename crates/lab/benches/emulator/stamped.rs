//! A UDP socket that tells when the kernel got each packet.

use std::mem::{MaybeUninit, zeroed};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use wansan_trace::clock;

/// A UDP socket with SO_TIMESTAMPNS.
pub(crate) struct Stamped(UdpSocket);

#[allow(
    unsafe_code,
    reason = "neither std nor rustix gives a packet's time of arrival"
)]
impl Stamped {
    pub(crate) fn new(socket: UdpSocket) -> Self {
        for (option, value) in [
            (libc::SO_TIMESTAMPNS, 1i32),
            (libc::SO_RCVBUFFORCE, 16 << 20),
            (libc::SO_RCVBUF, 16 << 20),
        ] {
            // SAFETY: the kernel reads one int. An ordinary user gets the second buffer size as
            // far as net.core.rmem_max goes.
            unsafe {
                libc::setsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_SOCKET,
                    option,
                    (&raw const value).cast(),
                    size_of_val(&value) as u32,
                );
            }
        }
        Stamped(socket)
    }

    /// The next packet's time of arrival (CLOCK_MONOTONIC, nanoseconds), or nothing when none waits.
    pub(crate) fn receive(&self, payload: &mut [u8]) -> Option<u64> {
        let mut buffer = libc::iovec {
            iov_base: payload.as_mut_ptr().cast(),
            iov_len: payload.len(),
        };
        let mut control = [0u64; 16];
        // SAFETY: all-zero is a valid `msghdr`.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_iov = &raw mut buffer;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        // SAFETY: the message describes `payload` and `control`, which outlive the call.
        if unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) } < 0 {
            return None;
        }
        // SAFETY: the kernel has filled in the control buffer; CMSG_FIRSTHDR checks its length.
        let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
        let header = header.filter(|header| header.cmsg_type == libc::SCM_TIMESTAMPNS)?;
        let mut stamp = MaybeUninit::<libc::timespec>::uninit();
        // SAFETY: the data of SCM_TIMESTAMPNS is one timespec.
        let stamp = unsafe {
            let data = libc::CMSG_DATA(header);
            stamp
                .as_mut_ptr()
                .cast::<u8>()
                .copy_from_nonoverlapping(data, size_of_val(&stamp));
            stamp.assume_init()
        };
        let realtime_ns = stamp.tv_sec as u64 * 1_000_000_000 + stamp.tv_nsec as u64;
        Some(realtime_ns - (clock::realtime_ns() - clock::now().ns()))
    }
}
