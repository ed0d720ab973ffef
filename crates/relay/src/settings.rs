//! What a relay is asked to do.

use std::time::Duration;

use wansan_tcp::network::Network;
use wansan_trace::Kinds;

use crate::dscp::Dscp;
use crate::law::Law;

/// A relay's settings.
#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// Where it listens, and what it does with what comes there; at least one.
    pub listeners: Vec<ListenerConfig>,
    /// Threads that carry flows, at least 1.
    pub threads: usize,
    /// Flows at once, of all listeners; more wait in the kernel's queues until others end.
    pub max_flows: usize,
    /// What the relay's own buffers, those of pipes among them, may hold together, in bytes. Where it
    /// is used up flows go on, and hold nothing.
    pub memory_bytes: usize,
    /// What to record; a relay has records of kind `tcp` only.
    pub kinds: Kinds,
    /// Memory for each thread's records, in bytes.
    pub record_bytes: usize,
    /// How often TCP_INFO of each connection is recorded.
    pub tcp_interval: Duration,
    /// Is told, in one line, of what goes wrong.
    pub report: fn(&str),
}

/// One listener, and where its flows go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerConfig {
    /// `ADDRESS:PORT`; port 0 takes a free one.
    pub listen: String,
    /// Where flows go: `HOST:PORT`; of a transparent listener, what it takes:
    /// `ADDRESS[/PREFIX]:PORT`.
    pub to: String,
    /// Takes connections that are routed through this host (TPROXY), and goes on from the client's
    /// address to where they were meant to go.
    pub transparent: bool,
    /// The client's side.
    pub inward: SideSettings,
    /// The target's side.
    pub outward: SideSettings,
    /// What the relay itself may hold of each direction of a flow while the receiving side takes no
    /// more, beside what the kernel's queues hold, in bytes.
    pub buffer_bytes: usize,
    /// How long a byte may wait in the relay and its sockets' queues; `None`: as long as it takes.
    pub latency: Option<Duration>,
    /// By what; `None` chooses the best that can be had, where there is a latency.
    pub law: Option<Law>,
    /// Parameters of [`Law::EceBound`] and [`Law::EceRed`].
    pub ece: EceSettings,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// Networks that clients may come from; none given: all.
    pub networks: Vec<Network>,
}

impl ListenerConfig {
    /// The least buffer, in bytes.
    pub const MIN_BUFFER_BYTES: usize = 64 << 10;

    /// A listener with the usual settings.
    #[must_use]
    pub fn new(listen: &str, to: &str) -> ListenerConfig {
        ListenerConfig {
            listen: listen.to_owned(),
            to: to.to_owned(),
            transparent: false,
            inward: SideSettings::default(),
            outward: SideSettings::default(),
            buffer_bytes: 256 << 10,
            latency: None,
            law: None,
            ece: EceSettings::default(),
            connect_timeout: Duration::from_secs(10),
            networks: Vec::new(),
        }
    }
}

/// Parameters of P5's laws, which signal ECE by what waits after a read (§5.6 there).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EceSettings {
    /// What may wait, in bytes; `None`: what drains in the latency.
    pub bound_bytes: Option<u64>,
    /// Of [`Law::EceRed`]: from so many bytes below the bound on ECE is signalled with a chance that
    /// grows to 1 at the bound; `None`: half of it.
    pub ramp_bytes: Option<u64>,
    /// It is decided when so many bytes were read; 0: after each turn in which something was read.
    pub every_bytes: u64,
}

/// How one side of a flow uses TCP. It is set before the handshake, so that it holds for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideSettings {
    /// The kernel's congestion control for what the relay sends there, or its default.
    pub congestion_control: Option<String>,
    /// The receive buffer in bytes, or as the kernel tunes it. It bounds the window that the peer is
    /// offered.
    pub receive_buffer_bytes: Option<usize>,
    /// The send buffer in bytes, or as the kernel tunes it.
    pub send_buffer_bytes: Option<usize>,
    /// How long a connection may be silent before the peer is asked whether it is there (RFC 9293
    /// §3.8.4); it is given up after as long again. `None` never asks.
    pub keep_alive: Option<Duration>,
    /// How long what was sent may stay unacknowledged, and a peer that takes nothing may offer no
    /// window, before the connection is given up (RFC 9293 §3.8.3, TCP_USER_TIMEOUT); `None` leaves
    /// it to net.ipv4.tcp_retries2, and waits for a peer that takes nothing for as long as it answers.
    pub user_timeout: Option<Duration>,
    /// The class of its packets (RFC 2474).
    pub dscp: Option<Dscp>,
    /// The largest segment in bytes (RFC 9293 §3.7.1), both ways; 88 to 32,767.
    pub mss_bytes: Option<u16>,
}

impl Default for SideSettings {
    fn default() -> Self {
        SideSettings {
            congestion_control: None,
            receive_buffer_bytes: None,
            send_buffer_bytes: None,
            keep_alive: Some(Duration::from_secs(60)),
            user_timeout: None,
            dscp: None,
            mss_bytes: None,
        }
    }
}
