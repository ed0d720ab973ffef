//! Messages of INET_DIAG (sock_diag(7), linux/inet_diag.h): encoding and decoding.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Connection, SocketInfo};
use crate::TcpInfo;
use crate::queues::Memory;

/// `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// `struct inet_diag_req_v2`.
const REQUEST_BYTES: usize = 56;
/// `struct inet_diag_msg`.
const ANSWER_BYTES: usize = 72;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;

const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
const INET_DIAG_SKMEMINFO: u16 = 7;
const INET_DIAG_REQ_BYTECODE: u16 = 1;

/// The attributes to request.
const EXTENSIONS: u8 =
    1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1) | 1 << (INET_DIAG_SKMEMINFO - 1);

/// ESTABLISHED, SYN_SENT, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK and CLOSING: sockets of a connection with windows.
/// LISTEN has none, and for TIME_WAIT the kernel keeps only addresses.
const STATES: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;

/// Requests all sockets of a family that match `filter`.
pub(super) fn dump_request(family: i32, sequence: u32, filter: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = request(family, sequence, NLM_F_DUMP, &[0; 48]);
    if let Some(program) = filter {
        bytes.extend(((4 + program.len()) as u16).to_ne_bytes());
        bytes.extend(INET_DIAG_REQ_BYTECODE.to_ne_bytes());
        bytes.extend(program);
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
    }
    bytes
}

/// Requests one socket.
pub(super) fn exact_request(connection: &Connection, sequence: u32) -> Vec<u8> {
    let family = match connection.local {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    request(family, sequence, 0, &connection.identity())
}

fn request(family: i32, sequence: u32, flags: u16, identity: &[u8; 48]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + REQUEST_BYTES);
    bytes.extend(((HEADER_BYTES + REQUEST_BYTES) as u32).to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | flags).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend([family as u8, libc::IPPROTO_TCP as u8, EXTENSIONS, 0]);
    bytes.extend(STATES.to_ne_bytes());
    bytes.extend(identity);
    bytes
}

impl Connection {
    /// `struct inet_diag_sockid`.
    fn identity(&self) -> [u8; 48] {
        let mut bytes = [0; 48];
        for (end, port_at, address_at) in [(self.local, 0, 4), (self.remote, 2, 20)] {
            bytes[port_at..port_at + 2].copy_from_slice(&end.port().to_be_bytes());
            match end.ip() {
                IpAddr::V4(ip) => bytes[address_at..address_at + 4].copy_from_slice(&ip.octets()),
                IpAddr::V6(ip) => bytes[address_at..address_at + 16].copy_from_slice(&ip.octets()),
            }
        }
        bytes[36..40].copy_from_slice(&self.interface.to_ne_bytes());
        bytes[40..44].copy_from_slice(&(self.cookie as u32).to_ne_bytes());
        bytes[44..48].copy_from_slice(&((self.cookie >> 32) as u32).to_ne_bytes());
        bytes
    }
}

/// One message from the kernel.
#[derive(Debug)]
pub(super) enum Answer {
    /// A socket; `None` without TCP_INFO, as such a socket is not watched.
    Socket {
        /// The sequence number of the request.
        sequence: u32,
        /// The socket.
        socket: Option<Box<SocketInfo>>,
    },
    /// The kernel rejects a request.
    Refused(io::Error),
    /// End of the dump.
    Done,
}

/// Parses the messages of one datagram; stops at the first malformed one.
pub(super) fn answers(datagram: &[u8]) -> impl Iterator<Item = Answer> + '_ {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        loop {
            let length = u32_at(rest, 0)? as usize;
            let message = rest.get(..length).filter(|m| m.len() >= HEADER_BYTES)?;
            rest = rest.get(aligned(length)..).unwrap_or_default();
            let sequence = u32_at(message, 8)?;
            let body = &message[HEADER_BYTES..];
            match u16_at(message, 4)? {
                NLMSG_DONE => return Some(Answer::Done),
                NLMSG_ERROR => {
                    let code = u32_at(body, 0)?.cast_signed();
                    let error = io::Error::from_raw_os_error(code.saturating_neg());
                    return Some(Answer::Refused(error));
                }
                SOCK_DIAG_BY_FAMILY => {
                    let socket = socket(body).map(Box::new);
                    return Some(Answer::Socket { sequence, socket });
                }
                _ => {}
            }
        }
    })
}

fn socket(body: &[u8]) -> Option<SocketInfo> {
    let fixed = body.get(..ANSWER_BYTES)?;
    let end = |port_at: usize, address_at: usize| {
        let port = u16::from_be_bytes([fixed[port_at], fixed[port_at + 1]]);
        let ip = match i32::from(fixed[0]) {
            libc::AF_INET => {
                let octets: [u8; 4] = fixed[address_at..address_at + 4].try_into().ok()?;
                IpAddr::V4(Ipv4Addr::from(octets))
            }
            libc::AF_INET6 => {
                let octets: [u8; 16] = fixed[address_at..address_at + 16].try_into().ok()?;
                IpAddr::V6(Ipv6Addr::from(octets))
            }
            _ => return None,
        };
        Some(SocketAddr::new(ip, port))
    };
    let connection = Connection {
        local: end(4, 8)?,
        remote: end(6, 24)?,
        interface: u32_at(fixed, 40)?,
        cookie: u64::from(u32_at(fixed, 44)?) | u64::from(u32_at(fixed, 48)?) << 32,
        inode: u32_at(fixed, 68)?,
    };
    let mut info = None;
    let mut memory = None;
    let mut congestion_control = String::new();
    let mut rest = &body[ANSWER_BYTES..];
    while let Some(length) = u16_at(rest, 0).map(usize::from) {
        let Some(attribute) = rest.get(4..length) else {
            break;
        };
        match u16_at(rest, 2)? {
            INET_DIAG_INFO => info = Some(TcpInfo::parse(attribute)),
            INET_DIAG_SKMEMINFO => memory = Memory::parse(attribute),
            INET_DIAG_CONG => {
                let name = attribute
                    .split(|byte| *byte == 0)
                    .next()
                    .unwrap_or_default();
                congestion_control = String::from_utf8_lossy(name).into_owned();
            }
            _ => {}
        }
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    Some(SocketInfo {
        connection,
        info: info?,
        congestion_control,
        memory,
    })
}

/// Netlink aligns messages and attributes to 4 bytes.
fn aligned(length: usize) -> usize {
    length.saturating_add(3) & !3
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes([bytes[0], bytes[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_comes_is_taken_apart_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            length in 0_u32..400,
            kind in prop::sample::select(vec![2_u16, 3, 20]),
        ) {
            let mut datagram = length.to_ne_bytes().to_vec();
            datagram.extend(kind.to_ne_bytes());
            datagram.extend(&bytes);
            prop_assert!(answers(&datagram).count() <= datagram.len());
            prop_assert!(answers(&bytes).count() <= bytes.len());
        }
    }
}
