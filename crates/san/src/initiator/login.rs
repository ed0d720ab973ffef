//! How a session begins: connecting, login, and what to say when the target is not there.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use wansan_iscsi::initiator::{Event, Handshake, HandshakeError};
use wansan_iscsi::login::InitiatorLoginError;
use wansan_iscsi::text::send_targets::TargetRecord;
use wansan_iscsi::wire::LoginStatus;
use wansan_tcp::congestion;
use wansan_trace::{Recorder, clock};

use super::{BLOCKING_WAIT, Initiator, InitiatorConfig, InitiatorError, wait};
use crate::url::IscsiUrl;

/// Logs in to the target that `url` names. When there is none, asks which there are.
pub(super) fn connect(
    url: &IscsiUrl,
    config: &InitiatorConfig,
    trace: Recorder,
) -> Result<Initiator, InitiatorError> {
    let connected = log_in(&url.host, url.port, Some(&url.target), config, trace);
    let Err(InitiatorError::Login { source, .. }) = &connected else {
        return connected;
    };
    if !matches!(**source, HandshakeError::Login(InitiatorLoginError::Refused { status }) if status == LoginStatus::NotFound)
    {
        return connected;
    }
    // Some portals offer nothing to those they do not know; then the refusal says it all.
    let Ok(targets) = discover(&url.host, url.port, config) else {
        return connected;
    };
    Err(InitiatorError::NoSuchTarget {
        target: url.target.clone(),
        portal: portal(&url.host, url.port),
        offered: targets.into_iter().map(|target| target.name).collect(),
    })
}

/// Asks a portal for its targets in a discovery session.
fn discover(
    host: &str,
    port: u16,
    config: &InitiatorConfig,
) -> Result<Vec<TargetRecord>, InitiatorError> {
    let deadline = clock::now() + config.patience;
    let mut initiator = log_in(host, port, None, config, Recorder::off())?;
    initiator
        .session
        .send_targets(clock::now(), &mut initiator.trace);
    while clock::now() < deadline {
        if let Some(Event::Targets(targets)) = initiator.poll_event() {
            let _ = initiator.logout();
            return Ok(targets);
        }
        initiator.turn(deadline)?;
    }
    Err(InitiatorError::Silent {
        portal: portal(host, port),
        patience: config.patience,
    })
}

/// Which of the names that a portal offers is meant by `wanted`, in words.
pub(super) fn nearest(wanted: &str, offered: &[String]) -> String {
    let near = offered
        .iter()
        .min_by_key(|name| strsim::damerau_levenshtein(wanted, name));
    match (near, offered.len()) {
        (None, _) => "it offers no target to this initiator".to_owned(),
        (Some(near), 1) => format!("its only one is {near}"),
        (Some(near), all) => format!("the nearest of its {all} is {near}"),
    }
}

fn portal(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}") // as in URLs, so that it is clear where an IPv6 address ends
    } else {
        format!("{host}:{port}")
    }
}

/// Connects and logs in to `target`, or for discovery when there is none.
fn log_in(
    host: &str,
    port: u16,
    target: Option<&str>,
    config: &InitiatorConfig,
    trace: Recorder,
) -> Result<Initiator, InitiatorError> {
    let portal = portal(host, port);
    let deadline = clock::now() + config.patience;
    let stream = open(host, port, config.patience).map_err(|source| InitiatorError::Connect {
        portal: portal.clone(),
        source,
    })?;
    if let Some(name) = &config.congestion_control {
        congestion::choose(&stream, name)?;
    }
    let login = |source| InitiatorError::Login {
        target: target.unwrap_or("a discovery session").to_owned(),
        portal: portal.clone(),
        source: Box::new(source),
    };
    let socket = |errno: Errno| InitiatorError::Socket {
        portal: portal.clone(),
        source: errno.into(),
    };
    let closed = || InitiatorError::Closed {
        portal: portal.clone(),
    };
    let mut handshake = Handshake::begin(&config.name, config.isid, target, config.wanted.clone())
        .map_err(login)?;
    loop {
        while !handshake.pending().is_empty() {
            match send(&stream, handshake.pending(), SendFlags::NOSIGNAL) {
                Ok(bytes) => handshake.sent(bytes),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(socket(errno)),
            }
        }
        if handshake.is_done() {
            break;
        }
        let left = deadline.since(clock::now());
        if left.is_zero() {
            return Err(InitiatorError::Silent {
                portal,
                patience: config.patience,
            });
        }
        if !wait(&stream, true, false, left).unwrap_or(true) {
            continue;
        }
        match recv(&stream, handshake.space(), RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(closed()),
            Ok((bytes, _)) => handshake.filled(bytes),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(socket(errno)),
        }
        handshake.receive().map_err(login)?;
    }
    let now = clock::now();
    let session = handshake.into_session(config.tasks).ok_or_else(closed)?;
    Ok(Initiator {
        stream,
        portal,
        session,
        trace,
        patience: config.patience,
        last_heard: now,
        tcp_interval: config.tcp_interval,
        next_tcp_sample: now,
    })
}

/// Connects to the first address of `host` that answers.
fn open(host: &str, port: u16, patience: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(stream) => {
                // PDUs are put together before they are sent; waiting for more can only delay.
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(BLOCKING_WAIT))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portals_are_written_as_in_urls() {
        assert_eq!(portal("disk.example.net", 3260), "disk.example.net:3260");
        assert_eq!(portal("::1", 3260), "[::1]:3260");
    }

    #[test]
    fn the_nearest_target_is_named() {
        let offered = ["iqn.a:disk1", "iqn.a:tape"].map(str::to_owned);
        assert!(nearest("iqn.a:dsik1", &offered).ends_with("of its 2 is iqn.a:disk1"));
        assert!(nearest("x", &offered[..1]).ends_with("iqn.a:disk1"));
        assert!(nearest("x", &[]).contains("no target"));
    }
}
