//! Data queued in a socket: bytes received and not read, bytes written and not sent or not acknowledged, and the urgent
//! mark (tcp(7)).

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::ioctl::{Getter, Opcode, ioctl};

/// SIOCATMARK of asm-generic/sockios.h.
const AT_MARK: Opcode = 0x8905;

/// SIOCOUTQNSD of linux/sockios.h.
const UNSENT: Opcode = 0x894B;

/// Bytes received in order and not read yet (SIOCINQ); 0 for a listening socket or an ended connection.
///
/// # Errors
/// Errors of ioctl(2).
pub fn received_bytes(socket: impl AsFd) -> io::Result<u64> {
    Ok(rustix::io::ioctl_fionread(socket)?)
}

/// The kernel's memory for a socket, in bytes, with its overhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Memory of bytes not read yet, including segments received out of order.
    pub received_bytes: u32,
    /// The receive buffer, which limits it.
    pub receive_buffer_bytes: u32,
    /// Memory of bytes not sent or not acknowledged.
    pub sent_bytes: u32,
    /// The send buffer, which limits it.
    pub send_buffer_bytes: u32,
}

/// SK_MEMINFO_RMEM_ALLOC, _RCVBUF, _WMEM_ALLOC, _SNDBUF, _FWD_ALLOC and _WMEM_QUEUED of linux/sock_diag.h: the first
/// words of the kernel's array.
const MEMINFO_WORDS: usize = 6;

impl Memory {
    fn of(words: [u32; MEMINFO_WORDS]) -> Memory {
        let [
            received_bytes,
            receive_buffer_bytes,
            _,
            send_buffer_bytes,
            _,
            sent_bytes,
        ] = words;
        Memory {
            received_bytes,
            receive_buffer_bytes,
            sent_bytes,
            send_buffer_bytes,
        }
    }

    /// From the attribute of INET_DIAG; `None` if it is shorter.
    pub(crate) fn parse(attribute: &[u8]) -> Option<Memory> {
        let mut words = [0; MEMINFO_WORDS];
        for (word, bytes) in words.iter_mut().zip(attribute.chunks_exact(4)) {
            *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        (attribute.len() >= 4 * MEMINFO_WORDS).then(|| Memory::of(words))
    }
}

/// Memory used by a socket's buffers (SO_MEMINFO).
///
/// # Errors
/// Errors of getsockopt(2).
#[allow(unsafe_code, reason = "no safe wrapper of SO_MEMINFO exists in rustix")]
pub fn memory(socket: impl AsFd) -> io::Result<Memory> {
    let mut words = [0_u32; MEMINFO_WORDS];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of `words`.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if status == 0 {
        Ok(Memory::of(words))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Bytes written and not acknowledged yet, including unsent ones; a FIN counts as one (SIOCOUTQ).
///
/// # Errors
/// Errors of ioctl(2).
pub fn unacked_bytes(socket: impl AsFd) -> io::Result<u64> {
    number::<{ libc::TIOCOUTQ as Opcode }>(socket)
}

/// Bytes written and not sent yet (SIOCOUTQNSD).
///
/// # Errors
/// Errors of ioctl(2).
pub fn unsent_bytes(socket: impl AsFd) -> io::Result<u64> {
    number::<UNSENT>(socket)
}

/// Whether the next byte to read is the urgent one (sockatmark(3)); needs urgent data in line (SO_OOBINLINE).
///
/// # Errors
/// Errors of ioctl(2).
pub fn is_at_urgent_byte(socket: impl AsFd) -> io::Result<bool> {
    Ok(number::<AT_MARK>(socket)? != 0)
}

#[allow(
    unsafe_code,
    reason = "no safe wrapper of these requests exists in rustix"
)]
fn number<const REQUEST: Opcode>(socket: impl AsFd) -> io::Result<u64> {
    // SAFETY: each of the requests above writes one int where the argument points to.
    let number = unsafe { ioctl(socket, Getter::<REQUEST, c_int>::new())? };
    Ok(u64::try_from(number).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{SendFlags, send};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn queues_fill_and_empty() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        assert_eq!(received_bytes(&server).unwrap(), 0);
        client.write_all(&[7; 5000]).unwrap();
        // Loopback delivers before write returns.
        assert_eq!(received_bytes(&server).unwrap(), 5000);
        let given = memory(&server).unwrap();
        assert!(given.received_bytes >= 5000, "{given:?}");
        let buffer = rustix::net::sockopt::socket_recv_buffer_size(&server).unwrap();
        assert_eq!(given.receive_buffer_bytes as usize, buffer);
        server.read_exact(&mut [0; 5000]).unwrap();
        assert_eq!(received_bytes(&server).unwrap(), 0);
        // Nobody reads: in the end both kernels' buffers are full.
        client.set_nonblocking(true).unwrap();
        while client.write(&[7; 65_536]).is_ok() {}
        let given = memory(&client).unwrap();
        assert!(
            given.sent_bytes * 3 > given.send_buffer_bytes * 2,
            "{given:?}"
        );
        let unsent = unsent_bytes(&client).unwrap();
        assert!(unsent > 0 && unacked_bytes(&client).unwrap() >= unsent);
    }

    #[test]
    fn the_urgent_byte_is_found_in_its_place() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        rustix::net::sockopt::set_socket_oobinline(&server, true).unwrap();
        send(&client, b"ab", SendFlags::empty()).unwrap();
        send(&client, b"!", SendFlags::OOB).unwrap();
        assert!(!is_at_urgent_byte(&server).unwrap());
        server.read_exact(&mut [0; 2]).unwrap();
        assert!(is_at_urgent_byte(&server).unwrap());
    }
}
