//! Records a socket's connection.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::{getpeername, getsockname, sockopt};
use wansan_trace::Recorder;
use wansan_trace::event::Connection;

use crate::buffers::BufferLimits;
use crate::{TcpInfo, congestion};

/// Records the connection of a socket, if such records are enabled: `known` holds what the program knows of it. A
/// socket whose peer has closed already gives no information, and is left out.
pub fn record(socket: impl AsFd, known: Connection, trace: &mut Recorder) {
    if !trace.connection.is_kept() {
        return;
    }
    let limits = BufferLimits::here().ok();
    let told = (|| -> io::Result<_> {
        let socket = socket.as_fd();
        let address = |found: rustix::net::SocketAddrAny| {
            SocketAddr::try_from(found).map_err(|_| io::Error::from(Errno::AFNOSUPPORT))
        };
        let info = TcpInfo::of(socket)?;
        let (local_window_scale, remote_window_scale) = info.window_scales();
        let record = Connection {
            local: address(getsockname(socket)?)?,
            remote: address(getpeername(socket)?.ok_or(Errno::NOTCONN)?)?,
            mss_bytes: info.mss_bytes(),
            local_window_scale,
            remote_window_scale,
            nagle: !sockopt::tcp_nodelay(socket)?,
            send_buffer_max_bytes: limits.map_or(0, |limits| limits.send_bytes),
            receive_buffer_max_bytes: limits.map_or(0, |limits| limits.receive_bytes),
            sampled_one_in: trace.sample().number(),
            ..known
        };
        Ok((record, congestion::of(socket)?))
    })();
    if let Ok((record, congestion_control)) = told {
        let congestion_control = trace.name(&congestion_control);
        trace.connection(Connection {
            congestion_control,
            ..record
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use wansan_trace::event::Role;
    use wansan_trace::{ConnectionId, Kinds, SessionId};

    #[test]
    fn both_ends_record_the_same_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let mut trace = Recorder::new(Kinds::ALL, Recorder::MIN_BYTES);
        let of = |role| Connection {
            session: SessionId(1),
            connection: ConnectionId(2),
            role,
            max_burst_bytes: 512,
            ..Connection::BLANK
        };
        near.set_nodelay(true).unwrap();
        record(&near, of(Role::Initiator), &mut trace);
        record(&far, of(Role::Target), &mut trace);
        let kept: Vec<Connection> = trace.connection.iter().collect();
        let [near, far] = kept[..] else {
            panic!("{kept:?}");
        };
        assert_eq!((near.local, near.remote), (far.remote, far.local));
        assert_eq!(near.local_window_scale, far.remote_window_scale);
        assert_eq!(far.local_window_scale, near.remote_window_scale);
        assert!(near.mss_bytes > 500, "{near:?}");
        assert!(!near.nagle && far.nagle);
        assert!(near.send_buffer_max_bytes > 0 && near.receive_buffer_max_bytes > 0);
        assert_eq!((far.role, far.max_burst_bytes), (Role::Target, 512));
        assert!(!trace.name_of(near.congestion_control).is_empty());
        let mut off = Recorder::off();
        record(&listener, of(Role::Target), &mut off);
        assert!(off.connection.is_empty());
    }
}
