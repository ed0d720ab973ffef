//! A UDP socket with receive timestamps that reads many packets at once.

use std::mem::{MaybeUninit, zeroed};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use wansan_trace::clock;

/// A UDP socket with SO_TIMESTAMPNS and UDP_GRO.
pub(crate) struct Stamped {
    socket: UdpSocket,
    /// How far CLOCK_REALTIME is ahead of CLOCK_MONOTONIC.
    realtime_ahead_ns: u64,
}

/// Packets received as one.
pub(crate) struct Arrival {
    /// Kernel receive time (CLOCK_MONOTONIC).
    pub(crate) stamped_ns: u64,
    /// Total payload bytes.
    pub(crate) bytes: usize,
    /// Payload bytes of each but the last.
    pub(crate) segment_bytes: usize,
}

impl Stamped {
    pub(crate) fn new(socket: UdpSocket) -> std::io::Result<Self> {
        set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        set_option(&socket, libc::SOL_UDP, libc::UDP_GRO, 1)?;
        // An unprivileged user gets at most net.core.rmem_max from the second option.
        let _ = set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, 64 << 20);
        let _ = set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 64 << 20);
        Ok(Stamped {
            socket,
            realtime_ahead_ns: clock::realtime_ns() - clock::now().ns(),
        })
    }

    /// The next packets, or `None` if none is queued.
    #[allow(
        unsafe_code,
        reason = "neither std nor rustix gives a packet's time of arrival"
    )]
    pub(crate) fn receive(&self, payload: &mut [u8]) -> Option<Arrival> {
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
        let bytes = unsafe {
            libc::recvmsg(
                self.socket.as_raw_fd(),
                &raw mut message,
                libc::MSG_DONTWAIT,
            )
        };
        let bytes = usize::try_from(bytes).ok()?;
        let (mut stamped_ns, mut segment_bytes) = (0, bytes.max(1));
        // SAFETY: the kernel has filled in the control buffer; both macros check its length.
        let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
        while let Some(found) = header {
            match (found.cmsg_level, found.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    // SAFETY: the data of SCM_TIMESTAMPNS is one timespec.
                    let stamp = unsafe { data::<libc::timespec>(found) };
                    let realtime_ns = stamp.tv_sec as u64 * 1_000_000_000 + stamp.tv_nsec as u64;
                    stamped_ns = realtime_ns - self.realtime_ahead_ns;
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    // SAFETY: the data of UDP_GRO is one int.
                    segment_bytes = unsafe { data::<i32>(found) } as usize;
                }
                _ => {}
            }
            // SAFETY: as above.
            header = unsafe { libc::CMSG_NXTHDR(&raw const message, found).as_ref() };
        }
        Some(Arrival {
            stamped_ns,
            bytes,
            segment_bytes,
        })
    }
}

/// The data of a control message.
///
/// # Safety
/// It is a `T`.
#[allow(unsafe_code, reason = "the data of a control message may be unaligned")]
unsafe fn data<T: Copy>(header: &libc::cmsghdr) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the caller says that there is a `T` behind the header.
    unsafe {
        let data = libc::CMSG_DATA(header);
        value
            .as_mut_ptr()
            .cast::<u8>()
            .copy_from_nonoverlapping(data, size_of::<T>());
        value.assume_init()
    }
}

/// setsockopt(2) of an int.
#[allow(unsafe_code, reason = "rustix does not have these options")]
pub(crate) fn set_option(
    socket: &impl AsRawFd,
    level: i32,
    option: i32,
    value: i32,
) -> std::io::Result<()> {
    // SAFETY: the kernel reads one int.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as u32,
        )
    };
    match answer {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
