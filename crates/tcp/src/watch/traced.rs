//! Events of a connection as the kernel reports them when they happen.

use std::net::SocketAddr;

use wansan_trace::Instant;
use wansan_trace::event::{Seen, Tcp, TcpEvent};

/// One event of one connection.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Traced {
    /// When.
    pub(super) time: Instant,
    /// The socket's cookie.
    pub(super) cookie: u64,
    /// The event.
    pub(super) what: What,
    /// The connection's state, as far as the eBPF programs can read it.
    pub(super) state: Tcp,
}

/// A kind of event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "ebpf"),
    expect(dead_code, reason = "a build without eBPF traces nothing")
)]
pub(super) enum What {
    /// The connection was established.
    Begin {
        /// The socket's own address.
        local: SocketAddr,
        /// The peer's address.
        remote: SocketAddr,
        /// The interface that the socket is bound to, or 0.
        interface: u32,
        /// The name of its congestion control.
        congestion_control: String,
    },
    /// The connection was closed.
    End,
    /// Any other event, by its name in the vocabulary.
    Event(TcpEvent),
}

impl Traced {
    /// As a record; fields that the eBPF programs cannot read are copied from `last`.
    pub(super) fn record(&self, event: TcpEvent, last: &Tcp) -> Tcp {
        Tcp {
            time: self.time,
            event,
            seen: Seen::Traced,
            session: last.session,
            connection: last.connection,
            ends: last.ends,
            min_rtt_ns: last.min_rtt_ns,
            delivery_bytes_per_s: last.delivery_bytes_per_s,
            busy_ns: last.busy_ns,
            rwnd_limited_ns: last.rwnd_limited_ns,
            sndbuf_limited_ns: last.sndbuf_limited_ns,
            ecn: last.ecn,
            ..self.state
        }
    }
}
