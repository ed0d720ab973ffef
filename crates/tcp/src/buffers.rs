//! Socket buffers: their sizes, and the limits of the kernel's autotuning.

use std::io;
use std::os::fd::AsFd;

use rustix::net::{AddressFamily, SocketType, socket, sockopt};

use crate::options;

/// One of a socket's two buffers. The kernel counts memory, and reserves half of it for overhead (socket(7)); sizes
/// here are of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// Data received and not read; it limits the window offered to the peer.
    Receive,
    /// Data written and not acknowledged.
    Send,
}

/// Setting a buffer's size failed.
#[derive(Debug, thiserror::Error)]
pub enum BufferError {
    /// The kernel grants a smaller buffer.
    #[error(
        "{setting} allows a buffer of {granted_bytes} bytes, not {wanted_bytes}: raise it, or run \
         with CAP_NET_ADMIN"
    )]
    TooSmall {
        /// The setting that limits it.
        setting: &'static str,
        /// The requested size.
        wanted_bytes: usize,
        /// The granted size.
        granted_bytes: usize,
    },
    /// Any other error of setsockopt(2).
    #[error("a socket's buffer cannot be set: {0}")]
    Socket(#[from] io::Error),
}

impl Buffer {
    /// The range of sizes to request: the kernel's own minimum is some 2 KiB of memory.
    pub const RANGE_BYTES: (u64, u64) = (1024, 1 << 30);

    /// Sets the size of a buffer of `socket` and turns its autotuning off: above [`Self::setting`] too where
    /// CAP_NET_ADMIN allows it. Accepted sockets inherit the size.
    ///
    /// # Errors
    /// [`BufferError`]; when the kernel grants less, the buffer has the largest size allowed.
    pub fn set(self, socket: impl AsFd, bytes: usize) -> Result<(), BufferError> {
        let socket = socket.as_fd();
        let set = match self {
            Buffer::Receive => sockopt::set_socket_recv_buffer_size_force(socket, bytes)
                .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, bytes)),
            Buffer::Send => sockopt::set_socket_send_buffer_size_force(socket, bytes)
                .or_else(|_| sockopt::set_socket_send_buffer_size(socket, bytes)),
        };
        set.map_err(io::Error::from)?;
        let granted_bytes = self.bytes(socket)?;
        if granted_bytes >= bytes {
            return Ok(());
        }
        Err(BufferError::TooSmall {
            setting: self.setting(),
            wanted_bytes: bytes,
            granted_bytes,
        })
    }

    /// The size of the buffer of `socket` now, in bytes.
    ///
    /// # Errors
    /// Errors of getsockopt(2).
    pub fn bytes(self, socket: impl AsFd) -> io::Result<usize> {
        let memory = match self {
            Buffer::Receive => sockopt::socket_recv_buffer_size(socket),
            Buffer::Send => sockopt::socket_send_buffer_size(socket),
        };
        Ok(memory? / 2)
    }

    /// Reverts [`Self::set`]: the buffer gets the size of a new socket's, and the kernel autotunes it again
    /// (SO_BUF_LOCK, since Linux 5.14).
    ///
    /// # Errors
    /// As for [`Self::set`].
    pub fn leave_to_kernel(self, socket: impl AsFd) -> Result<(), BufferError> {
        let socket = socket.as_fd();
        let locks = options::get(socket, libc::SOL_SOCKET, libc::SO_BUF_LOCK)?;
        if locks & self.lock() == 0 {
            return Ok(());
        }
        let new = self::socket(AddressFamily::INET, SocketType::STREAM, None);
        let usual_bytes = self.bytes(new.map_err(io::Error::from)?)?;
        self.set(socket, usual_bytes)?;
        let locks = locks & !self.lock();
        options::set(socket, libc::SOL_SOCKET, libc::SO_BUF_LOCK, locks)?;
        Ok(())
    }

    /// The setting that limits the size for a process without CAP_NET_ADMIN.
    fn setting(self) -> &'static str {
        match self {
            Buffer::Receive => "net.core.rmem_max",
            Buffer::Send => "net.core.wmem_max",
        }
    }

    /// SOCK_RCVBUF_LOCK and SOCK_SNDBUF_LOCK of linux/socket.h.
    fn lock(self) -> libc::c_int {
        match self {
            Buffer::Receive => 2,
            Buffer::Send => 1,
        }
    }
}

/// The limits of autotuning, in bytes (tcp(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferLimits {
    /// Third number of `net.ipv4.tcp_rmem`.
    pub receive_bytes: u64,
    /// Third number of `net.ipv4.tcp_wmem`.
    pub send_bytes: u64,
}

impl BufferLimits {
    /// The limits of this network namespace.
    ///
    /// # Errors
    /// Errors of reading /proc; `InvalidData` unless there are three numbers.
    pub fn here() -> io::Result<BufferLimits> {
        let greatest = |name: &str| {
            let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"))?;
            let third = text.split_whitespace().nth(2);
            third.and_then(|bytes| bytes.parse().ok()).ok_or_else(|| {
                let problem = format!("net.ipv4.{name} is '{}', no three numbers", text.trim());
                io::Error::new(io::ErrorKind::InvalidData, problem)
            })
        };
        Ok(BufferLimits {
            receive_bytes: greatest("tcp_rmem")?,
            send_bytes: greatest("tcp_wmem")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_size_is_kept_until_it_is_left_to_the_kernel() {
        let new = TcpListener::bind("127.0.0.1:0").unwrap();
        let changed = TcpListener::bind("127.0.0.1:0").unwrap();
        let locks = || options::get(&changed, libc::SOL_SOCKET, libc::SO_BUF_LOCK).unwrap();
        for buffer in [Buffer::Receive, Buffer::Send] {
            buffer.set(&changed, 50_000).unwrap();
            assert_eq!(buffer.bytes(&changed).unwrap(), 50_000);
        }
        assert_eq!(locks(), 3);
        Buffer::Receive.leave_to_kernel(&changed).unwrap();
        assert_eq!(locks(), 1, "the other one stays");
        Buffer::Send.leave_to_kernel(&changed).unwrap();
        assert_eq!(locks(), 0);
        for buffer in [Buffer::Receive, Buffer::Send] {
            let usual = buffer.bytes(&new).unwrap();
            assert_eq!(buffer.bytes(&changed).unwrap(), usual, "{buffer:?}");
        }
    }

    #[test]
    fn what_is_not_granted_is_said() {
        // The kernel stores 31 bits, and doubles the size.
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = Buffer::Send.set(&socket, 1 << 30).unwrap_err().to_string();
        assert!(error.contains("net.core.wmem_max"), "{error}");
    }

    #[test]
    fn every_kernel_says_how_far_buffers_grow() {
        let limits = BufferLimits::here().unwrap();
        assert!(
            limits.receive_bytes >= 4096 && limits.send_bytes >= 4096,
            "{limits:?}"
        );
    }
}
