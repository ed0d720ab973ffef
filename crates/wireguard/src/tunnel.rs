//! One end of a tunnel.

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use boringtun::noise::{Tunn, TunnResult};
use ipnet::Ipv4Net;
use rustix::net::{RecvFlags, recv, sockopt};

use crate::config::TunnelConfig;
use crate::device::Device;
use crate::{OVERHEAD_BYTES, WireGuardError};

/// Packets taken from one side of a tunnel before others get their turn.
pub const TURN_PACKETS: usize = 64;
/// Maximum length of an IP packet.
const MAX_PACKET_BYTES: usize = 65_535;
/// Requested size of the socket's receive buffer; the kernel grants at most `net.core.rmem_max`.
pub const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Interval of the initiating end's keepalives, which maintain the session and the state of middleboxes (NAT) on an
/// idle tunnel.
const KEEPALIVE_S: u16 = 25;

/// A TUN device, a UDP socket and the session between them.
pub(crate) struct Tunnel {
    name: String,
    device: Device,
    socket: UdpSocket,
    session: Tunn,
    peer: IpAddr,
    allowed: Vec<Ipv4Net>,
    initiates: bool,
    up: bool,
    plain: Box<[u8]>,
    sealed: Box<[u8]>,
}

impl Tunnel {
    /// Creates the device and opens the socket; `index` distinguishes the sessions of this router.
    pub(crate) fn open(config: &TunnelConfig, index: u32) -> Result<Tunnel, WireGuardError> {
        let name = config.device.clone();
        let device = Device::make(&name).map_err(|source| WireGuardError::Device {
            device: name.clone(),
            source,
        })?;
        let socket = connect(config).map_err(|source| WireGuardError::Socket {
            device: name.clone(),
            address: config.local,
            source,
        })?;
        let session = Tunn::new(
            config.private_key.secret(),
            config.peer_public_key.as_public(),
            Some(config.preshared_key.bytes()),
            config.initiates.then_some(KEEPALIVE_S),
            index,
            None,
        );
        Ok(Tunnel {
            name,
            device,
            socket,
            session,
            peer: IpAddr::V4(*config.peer.ip()),
            allowed: config.allowed.clone(),
            initiates: config.initiates,
            up: false,
            plain: vec![0; MAX_PACKET_BYTES].into(),
            sealed: vec![0; MAX_PACKET_BYTES + OVERHEAD_BYTES as usize].into(),
        })
    }

    /// The device's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The descriptors to poll: the device, then the socket.
    pub(crate) fn sides(&self) -> [BorrowedFd<'_>; 2] {
        [self.device.as_fd(), self.socket.as_fd()]
    }

    /// Starts the handshake, if this end initiates.
    pub(crate) fn begin(&mut self) {
        if self.initiates {
            let result = self
                .session
                .format_handshake_initiation(&mut self.sealed, false);
            send(&self.socket, result);
        }
    }

    /// Whether the first handshake has completed since the last call.
    pub(crate) fn came_up(&mut self) -> bool {
        let before = self.up;
        self.up = before || self.session.time_since_last_handshake().is_some();
        self.up && !before
    }

    /// Runs the session's timers: handshake retries, rekeying, keepalives. Must be called several times a second.
    pub(crate) fn tick(&mut self) {
        let result = self.session.update_timers(&mut self.sealed);
        send(&self.socket, result);
    }

    /// Encrypts and sends packets that the kernel has routed into the device.
    pub(crate) fn seal(&mut self) -> Result<(), WireGuardError> {
        for _ in 0..TURN_PACKETS {
            let length = match self.device.read(&mut self.plain) {
                Ok(length) => length,
                Err(error) if passes(&error) => return Ok(()),
                Err(source) => return Err(self.refused("read a packet from the device", source)),
            };
            let packet = &self.plain[..length];
            if destination(packet).is_some_and(|address| self.is_peers(address)) {
                let result = self.session.encapsulate(packet, &mut self.sealed);
                send(&self.socket, result);
            }
        }
        Ok(())
    }

    /// Decrypts datagrams from the outer path and passes the packets to the kernel.
    pub(crate) fn open_sealed(&mut self) -> Result<(), WireGuardError> {
        for _ in 0..TURN_PACKETS {
            let length = match recv(&self.socket, &mut *self.sealed, RecvFlags::DONTWAIT) {
                Ok((length, _)) => length,
                Err(errno) if passes(&errno.into()) => return Ok(()),
                Err(errno) => {
                    return Err(self.refused("receive from the socket", errno.into()));
                }
            };
            let datagram = &self.sealed[..length];
            match self
                .session
                .decapsulate(Some(self.peer), datagram, &mut self.plain)
            {
                TunnResult::WriteToTunnelV4(packet, source) => {
                    if self.allowed.iter().any(|net| net.contains(&source)) {
                        // The kernel drops packets that it has no room for, as on any interface.
                        let _ = self.device.write(packet);
                    }
                }
                answer @ TunnResult::WriteToNetwork(_) => {
                    send(&self.socket, answer);
                    self.send_what_waited();
                }
                // A datagram that is not the peer's, a replay, a keepalive, or an IPv6 packet.
                TunnResult::Done | TunnResult::Err(_) | TunnResult::WriteToTunnelV6(..) => {}
            }
        }
        Ok(())
    }

    /// Sends packets queued before the session was established; the session queues up to 256.
    fn send_what_waited(&mut self) {
        while let answer @ TunnResult::WriteToNetwork(_) =
            self.session.decapsulate(None, &[], &mut self.plain)
        {
            send(&self.socket, answer);
        }
    }

    fn is_peers(&self, address: Ipv4Addr) -> bool {
        self.allowed.iter().any(|net| net.contains(&address))
    }

    fn refused(&self, action: &'static str, source: io::Error) -> WireGuardError {
        WireGuardError::Refused {
            action,
            device: self.name.clone(),
            source,
        }
    }
}

/// A socket connected between the two outer addresses, which receives from no other.
fn connect(config: &TunnelConfig) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(config.local)?;
    sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES)?;
    socket.connect(config.peer)?;
    Ok(socket)
}

/// Sends what a session has to send. A datagram that the kernel refuses is lost like any other; the inner flow's sender
/// recovers from it.
fn send(socket: &UdpSocket, result: TunnResult<'_>) {
    if let TunnResult::WriteToNetwork(datagram) = result {
        let _ = socket.send(datagram);
    }
}

/// Whether an error only means that nothing is available, that the other end is not up yet (reported to a connected
/// socket by ICMP), or that the device is down.
fn passes(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock
            | io::ErrorKind::Interrupted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
    ) || error.raw_os_error() == Some(libc::EIO)
}

/// The destination of an IPv4 packet.
fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    match Tunn::dst_address(packet)? {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}
