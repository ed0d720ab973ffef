//! Generic netlink (linux/genetlink.h): requests with attributes, and replies.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
    sockopt,
};

/// The controller family, which resolves the IDs of all others.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// Netlink message type for errors and acknowledgements, and message flags.
const ERROR: u16 = 2;
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;

const NETLINK_HEADER_BYTES: usize = 16;
const HEADER_BYTES: usize = NETLINK_HEADER_BYTES + 4;

/// Attribute flag: nested.
const NESTED: u16 = 1 << 15;

/// Timeout: the kernel answers at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest reply, in bytes.
const ANSWER_BYTES: usize = 64 << 10;

/// Attributes of a message.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    fn put(&mut self, kind: u16, value: &[u8]) {
        // A 4-byte header; both are padded to 4.
        let length = (4 + value.len()) as u16;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    pub(super) fn u32(&mut self, kind: u16, value: u32) {
        self.put(kind, &value.to_ne_bytes());
    }

    pub(super) fn u64(&mut self, kind: u16, value: u64) {
        self.put(kind, &value.to_ne_bytes());
    }

    fn text(&mut self, kind: u16, value: &str) {
        self.put(kind, &[value.as_bytes(), &[0]].concat());
    }

    pub(super) fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Attributes)) {
        let mut inner = Attributes::default();
        fill(&mut inner);
        self.put(kind | NESTED, &inner.0);
    }

    fn find(&self, kind: u16) -> Option<&[u8]> {
        let mut rest = &self.0[..];
        while rest.len() >= 4 {
            let length = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
            let found = u16::from_ne_bytes([rest[2], rest[3]]) & !NESTED;
            let value = rest.get(4..length)?;
            if found == kind {
                return Some(value);
            }
            rest = rest.get(length.next_multiple_of(4)..)?;
        }
        None
    }

    pub(super) fn find_u32(&self, kind: u16) -> Option<u32> {
        Some(u32::from_ne_bytes(self.find(kind)?.try_into().ok()?))
    }

    fn find_u16(&self, kind: u16) -> Option<u16> {
        Some(u16::from_ne_bytes(self.find(kind)?.try_into().ok()?))
    }
}

/// A resolved family.
#[derive(Debug)]
pub(super) struct Family {
    socket: OwnedFd,
    id: u16,
    sequence: u32,
}

impl Family {
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the kernel has no family of that name.
    pub(super) fn open(name: &str) -> io::Result<Family> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            flags,
            Some(GENERIC),
        )?;
        bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
        let mut control = Family {
            socket,
            id: CONTROL,
            sequence: 0,
        };
        let mut request = Attributes::default();
        request.text(FAMILY_NAME, name);
        let answer = control.ask(GET_FAMILY, &request)?;
        let id = answer.and_then(|answer| answer.find_u16(FAMILY_ID));
        Ok(Family {
            id: id.ok_or(io::ErrorKind::NotFound)?,
            ..control
        })
    }

    /// Sends a command; returns the reply, if there is one.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn ask(
        &mut self,
        command: u8,
        request: &Attributes,
    ) -> io::Result<Option<Attributes>> {
        self.sequence += 1;
        let mut message = Vec::new();
        message.extend(((HEADER_BYTES + request.0.len()) as u32).to_ne_bytes());
        message.extend(self.id.to_ne_bytes());
        message.extend((REQUEST | ACKNOWLEDGE).to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend(0_u32.to_ne_bytes());
        // Command, version and two reserved bytes.
        message.extend([command, 1, 0, 0]);
        message.extend(&request.0);
        send(&self.socket, &message, SendFlags::empty())?;
        let mut answer = None;
        loop {
            let mut bytes = vec![0; ANSWER_BYTES];
            let (_, received) = recv(&self.socket, &mut bytes[..], RecvFlags::empty())?;
            let mut rest = &bytes[..received];
            while let Some((kind, payload)) = next(&mut rest) {
                if kind != ERROR {
                    let attributes = payload.get(HEADER_BYTES - NETLINK_HEADER_BYTES..);
                    answer = Some(Attributes(attributes.unwrap_or_default().to_vec()));
                    continue;
                }
                let code = payload.get(..4).and_then(|code| code.try_into().ok());
                return match code.map(i32::from_ne_bytes) {
                    Some(0) => Ok(answer),
                    Some(code) => Err(io::Error::from_raw_os_error(-code)),
                    None => Err(io::ErrorKind::InvalidData.into()),
                };
            }
        }
    }
}

/// Type and payload of the next message.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(u16, &'a [u8])> {
    let header = rest.get(..NETLINK_HEADER_BYTES)?;
    let length = u32::from_ne_bytes(header[..4].try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes([header[4], header[5]]);
    let payload = rest.get(NETLINK_HEADER_BYTES..length)?;
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_again() {
        let mut attributes = Attributes::default();
        attributes.text(7, "nbd");
        attributes.nested(5, |inner| inner.u32(1, 3));
        attributes.u64(2, 9);
        attributes.u32(1, 0xdead_beef);
        assert_eq!(attributes.find(7), Some(&b"nbd\0"[..]));
        assert_eq!(attributes.find_u32(1), Some(0xdead_beef));
        assert_eq!(attributes.find_u32(3), None);
        let inner = Attributes(attributes.find(5).expect("it is there").to_vec());
        assert_eq!(inner.find_u32(1), Some(3));
    }

    #[test]
    fn a_family_that_is_not_there_is_not_found() {
        let error = Family::open("no-such-family").expect_err("no kernel has it");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(Family::open("nlctrl").is_ok());
    }
}
