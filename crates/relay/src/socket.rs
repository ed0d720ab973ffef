//! Sockets with their settings, applied before the handshake.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{
    set_ip_tos, set_ipv6_tclass, set_socket_keepalive, set_socket_linger, set_socket_oobinline,
    set_socket_reuseaddr, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl,
    set_tcp_user_timeout, tcp_congestion,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with};
use wansan_settings::quantity::{Size, Span};
use wansan_split::{CLIENT, NAMES, TARGET};
use wansan_tcp::buffers::{Buffer, BufferError};
use wansan_tcp::{congestion, delays, options};

use crate::error::{ConnectError, RelayError};
use crate::settings::{ListenerConfig, SideSettings};

/// Length of the accept queue; the kernel's own limit is net.core.somaxconn.
pub(crate) const BACKLOG: usize = 4096;

/// Unanswered keepalive probes before the peer counts as dead.
const KEEP_ALIVE_QUESTIONS: u32 = 5;

const INWARD: &str = NAMES[CLIENT];
const OUTWARD: &str = NAMES[TARGET];

/// Makes the listening socket of `config` at `address`. Accepted sockets inherit its settings.
pub(crate) fn listener(
    config: &ListenerConfig,
    address: SocketAddr,
) -> Result<OwnedFd, RelayError> {
    let failed = |errno: Errno| RelayError::Listen {
        listen: config.listen.clone(),
        source: errno.into(),
    };
    let socket = stream(address.ip()).map_err(failed)?;
    set_socket_reuseaddr(&socket, true).map_err(failed)?;
    set_inward(&socket, config)?;
    bind(&socket, &address).map_err(failed)?;
    listen(&socket, BACKLOG as i32).map_err(failed)?;
    Ok(socket)
}

/// Applies the settings of `config` to its listening socket, also later.
pub(crate) fn set_inward(socket: impl AsFd, config: &ListenerConfig) -> Result<(), RelayError> {
    set_all(&socket, &config.flow.r#in, &config.listen, INWARD)?;
    if config.transparent {
        options::set_transparent(&socket, true).map_err(|source| RelayError::Transparent {
            listen: config.listen.clone(),
            source,
        })?;
    }
    Ok(())
}

/// Resets options of a listening socket that earlier settings set and `config` does not, to those of a new socket.
pub(crate) fn unset_inward(socket: impl AsFd, config: &ListenerConfig) -> Result<(), RelayError> {
    let ListenerConfig { listen, flow, .. } = config;
    let inward = &flow.r#in;
    if inward.congestion_control.is_none() {
        set_usual_control(&socket, config)?;
    }
    for (buffer, bytes) in buffers(inward) {
        if bytes.is_none() {
            let left = buffer.leave_to_kernel(&socket);
            left.map_err(buffer_error(listen, INWARD))?;
        }
    }
    if inward.user_timeout.and_then(Span::some).is_none() {
        let unset = set_tcp_user_timeout(&socket, 0);
        unset.map_err(option_error(listen, INWARD, "TCP_USER_TIMEOUT"))?;
    }
    if inward.dscp.is_none() {
        let unset = set_traffic_class(&socket, 0);
        unset.map_err(option_error(listen, INWARD, "IP_TOS"))?;
    }
    if inward.mss.is_none() {
        let unset = options::set_mss(&socket, 0);
        unset.map_err(option_error(listen, INWARD, "TCP_MAXSEG"))?;
    }
    if !config.transparent {
        let unset = options::set_transparent(&socket, false);
        unset.map_err(option_error(listen, INWARD, "IP_TRANSPARENT"))?;
    }
    Ok(())
}

/// Resets the congestion control of the listening socket of `config` to the default.
fn set_usual_control(socket: impl AsFd, config: &ListenerConfig) -> Result<(), RelayError> {
    let usual = stream(Ipv4Addr::UNSPECIFIED.into()).and_then(tcp_congestion);
    let usual = usual.map_err(|errno| RelayError::Machine(errno.into()))?;
    congestion::choose(socket, &usual).map_err(|source| RelayError::Congestion {
        listen: config.listen.clone(),
        side: INWARD,
        source,
    })
}

/// Checks that sockets with the settings of `config` can be made, without connecting any.
pub(crate) fn try_settings(config: &ListenerConfig) -> Result<(), RelayError> {
    let any = Ipv4Addr::UNSPECIFIED.into();
    let machine = |errno: Errno| RelayError::Machine(errno.into());
    set_inward(stream(any).map_err(machine)?, config)?;
    set_all(
        &stream(any).map_err(machine)?,
        &config.flow.out,
        &config.listen,
        OUTWARD,
    )
}

/// Starts to connect to `to`: from the address `from`, if the flow is transparent. If there are
/// data to send (`has_data`), they carry the handshake's last ACK, and a brief connection takes one segment fewer.
pub(crate) fn connecting(
    config: &ListenerConfig,
    to: SocketAddr,
    from: Option<IpAddr>,
    has_data: bool,
) -> Result<OwnedFd, ConnectError> {
    let socket = stream(to.ip())?;
    // The same settings were tried when the relay started; a congestion control may have been unloaded since.
    set_all(&socket, &config.flow.out, &config.listen, OUTWARD)
        .map_err(|error| ConnectError::Settings(error.to_string()))?;
    if let Some(address) = from {
        options::set_transparent(&socket, true)?;
        options::choose_port_late(&socket)?;
        bind(&socket, &SocketAddr::new(address, 0))?;
    }
    if has_data {
        delays::await_data_to_ack(&socket)?;
    }
    match connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno.into()),
    }
}

fn stream(address: IpAddr) -> Result<OwnedFd, Errno> {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, SocketType::STREAM, flags, None)
}

/// Applies all settings of a side to a socket without a connection.
fn set_all(
    socket: &impl AsFd,
    side: &SideSettings,
    listen: &str,
    name: &'static str,
) -> Result<(), RelayError> {
    let set = |what, result: Result<(), Errno>| result.map_err(option_error(listen, name, what));
    // See `Side`.
    set("SO_LINGER", set_socket_linger(socket, Some(Duration::ZERO)))?;
    set("SO_OOBINLINE", set_socket_oobinline(socket, true))?;
    let nagle = delays::set_nagle(socket, false);
    nagle.map_err(option_error(listen, name, "TCP_NODELAY"))?;
    if let Some(control) = &side.congestion_control {
        congestion::choose(socket, control).map_err(|source| RelayError::Congestion {
            listen: listen.to_owned(),
            side: name,
            source,
        })?;
    }
    for (buffer, bytes) in buffers(side) {
        if let Some(bytes) = bytes {
            let set = buffer.set(socket, bytes);
            set.map_err(buffer_error(listen, name))?;
        }
    }
    set(
        "SO_KEEPALIVE",
        set_socket_keepalive(socket, side.keep_alive.some().is_some()),
    )?;
    if let Some(silence) = side.keep_alive.some() {
        let seconds = Duration::from_secs(silence.as_secs().max(1));
        let pause = Duration::from_secs((seconds / KEEP_ALIVE_QUESTIONS).as_secs().max(1));
        set("TCP_KEEPIDLE", set_tcp_keepidle(socket, seconds))?;
        set("TCP_KEEPINTVL", set_tcp_keepintvl(socket, pause))?;
        set("TCP_KEEPCNT", set_tcp_keepcnt(socket, KEEP_ALIVE_QUESTIONS))?;
    }
    if let Some(time) = side.user_timeout.and_then(Span::some) {
        let ms = u32::try_from(time.as_millis().max(1)).unwrap_or(u32::MAX);
        set("TCP_USER_TIMEOUT", set_tcp_user_timeout(socket, ms))?;
    }
    if let Some(dscp) = side.dscp {
        set("IP_TOS", set_traffic_class(socket, dscp.0.traffic_class()))?;
    }
    if let Some(bytes) = side.mss {
        let mss = options::set_mss(socket, bytes);
        mss.map_err(option_error(listen, name, "TCP_MAXSEG"))?;
    }
    Ok(())
}

/// The configured sizes of a side's buffers.
fn buffers(side: &SideSettings) -> [(Buffer, Option<usize>); 2] {
    [
        (Buffer::Receive, side.receive_buffer.map(Size::bytes)),
        (Buffer::Send, side.send_buffer.map(Size::bytes)),
    ]
}

fn set_traffic_class(socket: &impl AsFd, class: u8) -> Result<(), Errno> {
    // An IPv4 socket has no IPv6 options.
    let _ = set_ipv6_tclass(socket, u32::from(class));
    set_ip_tos(socket, class)
}

/// Maps an error of setting a buffer.
fn buffer_error(listen: &str, side: &'static str) -> impl FnOnce(BufferError) -> RelayError {
    move |source| RelayError::SocketBuffer {
        listen: listen.to_owned(),
        side,
        source,
    }
}

/// Maps an error of setting an option.
fn option_error<E: Into<io::Error>>(
    listen: &str,
    side: &'static str,
    what: &'static str,
) -> impl FnOnce(E) -> RelayError {
    move |source| RelayError::Option {
        listen: listen.to_owned(),
        side,
        what,
        source: source.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::accept;
    use rustix::net::sockopt::{
        ip_tos, socket_keepalive, socket_linger, socket_oobinline, tcp_keepidle, tcp_nodelay,
        tcp_user_timeout,
    };
    use std::net::TcpListener;
    use wansan_tcp::TcpInfo;
    use wansan_trace::{ConnectionId, Instant, SessionId};

    fn settings() -> SideSettings {
        SideSettings {
            congestion_control: Some("reno".to_owned()),
            receive_buffer: Some(Size(100_000)),
            send_buffer: Some(Size(120_000)),
            keep_alive: Span(Duration::from_secs(7)),
            user_timeout: Some(Span(Duration::from_millis(1500))),
            dscp: Some("af11".parse().unwrap()),
            mss: Some(1000),
        }
    }

    fn holds(socket: &OwnedFd) {
        assert_eq!(tcp_congestion(socket).unwrap(), "reno");
        assert_eq!(Buffer::Receive.bytes(socket).unwrap(), 100_000);
        assert_eq!(Buffer::Send.bytes(socket).unwrap(), 120_000);
        assert!(socket_keepalive(socket).unwrap());
        assert_eq!(tcp_keepidle(socket).unwrap(), Duration::from_secs(7));
        assert_eq!(tcp_user_timeout(socket).unwrap(), 1500);
        assert_eq!(ip_tos(socket).unwrap(), 10 << 2);
        assert_eq!(socket_linger(socket).unwrap(), Some(Duration::ZERO));
        assert!(socket_oobinline(socket).unwrap() && tcp_nodelay(socket).unwrap());
        let info = TcpInfo::of(socket).unwrap();
        let record = info.record(Instant::ZERO, SessionId(0), ConnectionId(0));
        // Timestamps are deducted already (RFC 6691).
        assert!((900..=1000).contains(&record.mss_bytes), "{record:?}");
    }

    #[test]
    fn both_sides_have_what_was_asked_for() {
        let mut config = ListenerConfig::new("127.0.0.1:0", "127.0.0.1:1");
        config.flow.r#in = settings();
        config.flow.out = settings();
        let inward = listener(&config, "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = SocketAddr::try_from(rustix::net::getsockname(&inward).unwrap()).unwrap();
        let _client = std::net::TcpStream::connect(address).unwrap();
        holds(&accept(&inward).unwrap());

        let target = TcpListener::bind("127.0.0.1:0").unwrap();
        let outward = connecting(&config, target.local_addr().unwrap(), None, false).unwrap();
        let _accepted = target.accept().unwrap();
        holds(&outward);
    }

    #[test]
    fn a_congestion_control_that_has_gone_is_named() {
        let mut config = ListenerConfig::new("127.0.0.1:0", "127.0.0.1:1");
        config.flow.out.congestion_control = Some("gone".to_owned());
        let error = connecting(&config, "127.0.0.1:1".parse().unwrap(), None, false).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("gone") && text.contains("wansan cc load"),
            "{text}"
        );
    }
}
