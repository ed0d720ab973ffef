//! Settings of a relay.

use std::time::Duration;

use wansan_settings::address::ListenAddress;
use wansan_settings::quantity::{Size, SomeTime, Span};
use wansan_settings::record::{RecordSettings, TcpSettings};
use wansan_settings::{Text, given, settings, usual};
use wansan_split::{DEFAULT_BUFFER_BYTES, Law};
use wansan_tcp::buffers::Buffer;
use wansan_tcp::network::Network;

use crate::dscp::Dscp;

/// The least and the greatest buffer of a socket to ask for.
const SOCKET_BUFFER: (Size, Size) = (Size(Buffer::RANGE_BYTES.0), Size(Buffer::RANGE_BYTES.1));

settings! {
    /// All settings of `wansan relay`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RelaySettings {
        with file: RelayFile;
        with process: ProcessSettings;
    }
}

settings! {
    /// The settings that a running relay can reload: a `relay.toml`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RelayFile {
        /// Listeners and their destinations; at least one
        pub listener: Vec<ListenerConfig>, of ListenerConfig;
    }
}

settings! {
    /// Of a relay as a whole.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ProcessSettings {
        /// Install the nftables table and the policy route that transparent listeners need, and remove
        /// them on exit, instead of printing the commands
        pub setup: bool = false;
        /// Most concurrent flows; further connections wait in the kernel's accept queue
        pub flows: u32 = 32_768, in 1..=1_000_000, "N";
        /// Buffer memory for all flows together; once it is used up, flows continue unbuffered
        pub memory: Size = Size(256 << 20), "BYTES";
        /// Worker threads that carry flows [default: one per core]
        pub threads: Option<u16>, in 1..=1024, "N";
        /// On shutdown, how long to wait for flows to finish; 0s resets them at once
        pub drain: Span = Span(Duration::from_secs(10)), "TIME";
        /// Serve Prometheus metrics at this address, under /metrics, without authentication. A port
        /// alone means loopback
        pub metrics: Option<Text<ListenAddress>>, "[ADDRESS:]PORT";
        /// Print events as JSON, one per line
        pub json: bool = false;
        /// What to record, and where
        pub record: RecordSettings = usual(), of RecordSettings;
        with tcp: TcpSettings;
    }
}

settings! {
    /// One listener, and the target of its flows.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ListenerConfig {
        /// Listen address; port 0 picks a free port
        pub listen: String, "ADDRESS:PORT";
        /// Target of the flows; with --transparent, destinations to intercept: ADDRESS[/PREFIX]:PORT
        pub to: String, "HOST:PORT";
        /// Intercept connections routed through this host and keep the client's address (TPROXY)
        pub transparent: bool = false;
        /// Time limit for one connection attempt to the target
        pub connect_timeout: SomeTime = SomeTime(Duration::from_secs(10)), "TIME";
        /// Networks or addresses that clients may connect from; repeat for each. An empty list admits
        /// nobody [default: all]
        pub networks: Option<Vec<Text<Network>>>, "ADDRESS/PREFIX", as "allow-network";
        with flow: FlowSettings;
    }
}

settings! {
    /// How each flow is carried.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FlowSettings {
        /// Relay buffer per direction of a flow, in addition to the kernel's socket buffers
        pub buffer: Size = Size(DEFAULT_BUFFER_BYTES as u64), in FlowSettings::MIN_BUFFER..=Size(1 << 30), "BYTES";
        /// Bound on the queueing delay in the relay and its sockets' queues [default: none]
        pub latency: Option<SomeTime>, "TIME";
        /// Control law that enforces --latency: none, window, ece-bound, ece-red or arrival [default:
        /// arrival if eBPF programs can be loaded, else window]
        pub law: Option<Text<Law>>, "LAW";
        /// The client's side
        pub r#in: SideSettings = usual(), of SideSettings, "Client side", as "in-";
        /// The target's side
        pub out: SideSettings = usual(), of SideSettings, "Target side", as "out-";
        with ece: EceSettings, "Laws ece-bound and ece-red";
    }
}

settings! {
    /// Parameters of P5's laws, which signal ECE by the backlog after a read (§5.6 there).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct EceSettings {
        /// Bound on the backlog, in bytes [default: what drains within --latency]
        pub ece_bound: Option<Size>, "BYTES";
        /// ece-red only: how far below the bound signalling starts, with a probability that rises to 1
        /// at the bound [default: half the bound]
        pub ece_ramp: Option<Size>, "BYTES";
        /// Decide after this many bytes read [default: after each round of reads]
        pub ece_every: Size = Size(0), "BYTES";
    }
}

settings! {
    /// How one side of a flow uses TCP. It is set before the handshake, so that it holds for it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SideSettings {
        /// Congestion control for data sent to this side, by its kernel name
        pub congestion_control: Option<String>, "NAME", as "cc";
        /// Receive buffer, which bounds the advertised window [default: kernel autotuning]
        pub receive_buffer: Option<Size>, in SOCKET_BUFFER.0..=SOCKET_BUFFER.1, "BYTES";
        /// Send buffer [default: kernel autotuning]
        pub send_buffer: Option<Size>, in SOCKET_BUFFER.0..=SOCKET_BUFFER.1, "BYTES";
        /// Keepalive: idle time before the peer is probed; after the same time without an answer the flow is aborted
        /// (RFC 9293 §3.8.4); 0s disables it
        pub keep_alive: Span = Span(Duration::from_secs(60)), "TIME";
        /// User timeout: how long data may stay unacknowledged, or the peer's window closed, before the
        /// flow is aborted (RFC 9293 §3.8.3) [default: as set by net.ipv4.tcp_retries2]
        pub user_timeout: Option<Span>, "TIME";
        /// DSCP of the packets sent: 0 to 63, or cs0 to cs7, af11 to af43, ef, le
        pub dscp: Option<Text<Dscp>>, "DSCP";
        /// Maximum segment size in both directions, in bytes
        pub mss: Option<u16>, in 88..=32_767, "N";
    }
}

impl ProcessSettings {
    /// Threads that forward flows.
    #[must_use]
    pub fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or_else(cores, usize::from)
    }
}

impl ListenerConfig {
    /// A listener with default settings.
    #[must_use]
    pub fn new(listen: &str, to: &str) -> ListenerConfig {
        given::<ListenerConfig>(|given| {
            given.listen = Some(listen.to_owned());
            given.to = Some(to.to_owned());
        })
    }
}

impl FlowSettings {
    /// The smallest buffer.
    pub const MIN_BUFFER: Size = Size(64 << 10);
}
