//! Synchronous requests to the kernel's routing netlink.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// A routing netlink socket of the calling thread's network namespace.
pub(super) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Netlink {
            socket,
            sequence: 0,
        })
    }

    /// Sends a request and waits for its acknowledgement. `flags` are added to NLM_F_REQUEST and NLM_F_ACK.
    pub(super) fn ask(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        match self.answer(request, NLM_F_ACK | flags)? {
            // An acknowledgement is an error message without a code.
            NetlinkPayload::Error(verdict) if verdict.code.is_none() => Ok(()),
            NetlinkPayload::Error(verdict) => Err(verdict.to_io()),
            other => Err(unexpected(&other)),
        }
    }

    /// Queries a single object.
    pub(super) fn get(&mut self, request: RouteNetlinkMessage) -> io::Result<RouteNetlinkMessage> {
        match self.answer(request, 0)? {
            NetlinkPayload::InnerMessage(known) => Ok(known),
            NetlinkPayload::Error(verdict) => Err(verdict.to_io()),
            other => Err(unexpected(&other)),
        }
    }

    fn answer(
        &mut self,
        request: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<NetlinkPayload<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;

        let (answer, _) = self.socket.recv_from_full()?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(answer.payload)
    }
}

fn unexpected(answer: &NetlinkPayload<RouteNetlinkMessage>) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("netlink answers a request with {answer:?}"),
    )
}
