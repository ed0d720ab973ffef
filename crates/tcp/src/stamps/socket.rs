//! The kernel's interface of timestamps: socket options and control messages, as in Linux's
//! Documentation/networking/timestamping.rst.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use super::calls::Step;
use crate::options::set;

/// Send stamps at the queueing discipline, at the device, and at acknowledgement; receive stamps at the device; all by
/// the kernel's clock, without a copy of the packet. A send stamp names its last byte's number, counted from the byte
/// that is next when the option is set (Linux 6.2).
const FLAGS: libc::c_uint = libc::SOF_TIMESTAMPING_SOFTWARE
    | libc::SOF_TIMESTAMPING_TX_SCHED
    | libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_TX_ACK
    | libc::SOF_TIMESTAMPING_RX_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_ID_TCP
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;

/// `ee_origin` of a stamp (linux/errqueue.h).
const ORIGIN_STAMP: u8 = 4;
/// `ee_info` of a stamp: its kind.
const STEPS: [Step; 3] = [Step::Departed, Step::Scheduled, Step::Acknowledged];

/// Bytes of control messages per message: a stamp, and for send stamps an error with an address of either family.
const CONTROL_BYTES: usize = 160;
/// Messages per call: those of two send calls and some more. Preparing more room would cost more than it saves.
const MESSAGES: usize = 8;

/// Makes the kernel stamp data of the socket from now on.
///
/// # Errors
/// Errors of setsockopt(2): EINVAL on kernels before 6.2.
pub(super) fn enable(socket: impl AsFd) -> io::Result<()> {
    let flags = FLAGS.cast_signed();
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags)
}

/// Control messages, aligned as the kernel's headers.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

impl Control {
    const EMPTY: Control = Control([0; CONTROL_BYTES]);

    /// The control messages that the kernel wrote for this header.
    #[allow(
        clippy::unnecessary_cast,
        reason = "the length's type differs between C libraries"
    )]
    fn filled(&self, header: &libc::msghdr) -> &[u8] {
        &self.0[..(header.msg_controllen as usize).min(CONTROL_BYTES)]
    }
}

/// Reads from the socket, as recv(2) does, and returns the stamp of the last segment read, in ns of CLOCK_REALTIME.
///
/// # Errors
/// Errors of recvmsg(2).
#[allow(unsafe_code, reason = "rustix does not have these control messages")]
pub(super) fn receive(
    socket: impl AsFd,
    space: &mut [u8],
    flags: libc::c_int,
) -> io::Result<(usize, Option<u64>)> {
    let mut control = Control::EMPTY;
    let mut buffer = libc::iovec {
        iov_base: space.as_mut_ptr().cast(),
        iov_len: space.len(),
    };
    let mut message = blank_message();
    message.msg_iov = &raw mut buffer;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_BYTES as _;
    // SAFETY: the message describes `space` and `control`, which outlive the call and are not aliased meanwhile; any
    // bytes are valid for both.
    let bytes = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, flags) };
    let bytes = usize::try_from(bytes).map_err(|_| io::Error::last_os_error())?;
    let messages = ControlMessages::of(control.filled(&message));
    Ok((bytes, messages.realtime_ns))
}

/// Reads up to [`MESSAGES`] send stamps from the socket's error queue, without blocking: each with its step, its byte's
/// number, and its time in ns of CLOCK_REALTIME. Returns the number of messages.
///
/// # Errors
/// Errors of recvmmsg(2) except EAGAIN: an empty queue is no error. A pending error of the socket is left to its
/// reader.
#[allow(unsafe_code, reason = "rustix does not have these control messages")]
pub(super) fn collect(
    socket: impl AsFd,
    mut each: impl FnMut(Step, u32, u64),
) -> io::Result<usize> {
    let mut controls = [Control::EMPTY; MESSAGES];
    let mut messages = controls.each_mut().map(|control| {
        let mut header = blank_message();
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES as _;
        libc::mmsghdr {
            msg_hdr: header,
            msg_len: 0,
        }
    });
    // SAFETY: the messages describe `controls`, which outlives the call and is not aliased meanwhile; any bytes are
    // valid for it. They have no room for data, and there is none.
    let count = unsafe {
        libc::recvmmsg(
            socket.as_fd().as_raw_fd(),
            messages.as_mut_ptr(),
            MESSAGES as libc::c_uint,
            (libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) as _,
            std::ptr::null_mut(),
        )
    };
    let Ok(count) = usize::try_from(count) else {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
            _ => Err(error),
        };
    };
    for (message, control) in messages.iter().zip(&controls).take(count) {
        let messages = ControlMessages::of(control.filled(&message.msg_hdr));
        if let (Some(realtime_ns), Some((step, key))) = (messages.realtime_ns, messages.sent) {
            each(step, key, realtime_ns);
        }
    }
    Ok(count)
}

/// Messages that [`collect`] reads per call.
pub(super) const AT_ONCE: usize = MESSAGES;

#[allow(unsafe_code, reason = "padding differs between C libraries")]
fn blank_message() -> libc::msghdr {
    // SAFETY: all-zero is a valid `msghdr`: no name, no data, no control messages.
    unsafe { std::mem::zeroed() }
}

/// The content of one message's control messages.
#[derive(Debug, Default, PartialEq, Eq)]
struct ControlMessages {
    realtime_ns: Option<u64>,
    sent: Option<(Step, u32)>,
}

impl ControlMessages {
    /// Parses each `struct cmsghdr` (cmsg(3)) in turn; ignores truncated ones.
    fn of(mut control: &[u8]) -> ControlMessages {
        /// A word-sized length, a level and a type.
        const HEADER_BYTES: usize = size_of::<usize>() + 8;
        let mut found = ControlMessages::default();
        while let Some((length, rest)) = control.split_first_chunk() {
            let length = usize::from_ne_bytes(*length);
            let Some(data) = control.get(HEADER_BYTES..length) else {
                break;
            };
            match (word(rest, 0).cast_signed(), word(rest, 4).cast_signed()) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => found.realtime_ns = realtime(data),
                (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => {
                    found.sent = step(data);
                }
                _ => {}
            }
            let next = length.next_multiple_of(size_of::<usize>());
            control = control.get(next..).unwrap_or_default();
        }
        found
    }
}

/// The first `timespec` of `struct scm_timestamping`: the kernel's own clock.
fn realtime(data: &[u8]) -> Option<u64> {
    let (seconds, rest) = data.split_first_chunk()?;
    let nanoseconds = rest.first_chunk()?;
    let ns = u64::from_ne_bytes(*seconds).checked_mul(1_000_000_000)?;
    let ns = ns.checked_add(u64::from_ne_bytes(*nanoseconds))?;
    Some(ns).filter(|ns| *ns > 0)
}

/// `struct sock_extended_err` of linux/errqueue.h, if it is a stamp.
fn step(data: &[u8]) -> Option<(Step, u32)> {
    let data = data.get(..16)?;
    let is_stamp = data[4] == ORIGIN_STAMP;
    let step = STEPS.get(word(data, 8) as usize).filter(|_| is_stamp)?;
    Some((*step, word(data, 12)))
}

/// The 32 bits at `offset`.
fn word(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_ne_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let length = size_of::<usize>() + 8 + data.len();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(length.next_multiple_of(size_of::<usize>()), 0);
        bytes
    }

    fn stamp() -> Vec<u8> {
        let mut times = Vec::new();
        for word in [3_u64, 5, 0, 0, 0, 0] {
            times.extend(word.to_ne_bytes());
        }
        message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &times)
    }

    fn error(origin: u8, info: u32) -> Vec<u8> {
        let mut data = vec![42, 0, 0, 0, origin, 0, 0, 0];
        data.extend(info.to_ne_bytes());
        data.extend(7u32.to_ne_bytes());
        data.extend([0; 16]);
        message(libc::SOL_IP, libc::IP_RECVERR, &data)
    }

    #[test]
    fn stamps_are_read_and_other_errors_are_not() {
        let control = [stamp(), error(ORIGIN_STAMP, 1)].concat();
        let messages = ControlMessages::of(&control);
        assert_eq!(messages.realtime_ns, Some(3_000_000_005));
        assert_eq!(messages.sent, Some((Step::Scheduled, 7)));
        assert_eq!(ControlMessages::of(&error(ORIGIN_STAMP, 9)).sent, None);
        // ICMP.
        assert_eq!(ControlMessages::of(&error(2, 0)).sent, None);
    }

    #[test]
    fn messages_that_are_cut_short_are_left_out() {
        let control = [stamp(), error(ORIGIN_STAMP, 0)].concat();
        let whole = stamp().len();
        for bytes in 0..whole {
            assert_eq!(
                ControlMessages::of(&control[..bytes]),
                ControlMessages::default()
            );
        }
        for bytes in whole..control.len() - 8 {
            assert_eq!(ControlMessages::of(&control[..bytes]).sent, None);
        }
        let mut endless = stamp();
        endless[..8].fill(0);
        assert_eq!(ControlMessages::of(&endless), ControlMessages::default());
        endless[..8].fill(0xff);
        assert_eq!(ControlMessages::of(&endless), ControlMessages::default());
    }
}
