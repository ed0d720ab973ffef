//! A stream through a relay between a fast LAN and a slow path, under each law.

use std::net::SocketAddr;
use std::time::Duration;

use wansan_path::{Effects, Limit, Rate};
use wansan_schema::{RelayEnd, StreamReport};
use wansan_sim::network::Network;
use wansan_sim::storage::{
    ConnectionConfig, EndConfig, ReceiverConfig, RelayConfig, Storage, StreamConfig,
};
use wansan_sim::tcp::congestion::Law as Control;
use wansan_sim::tcp::jiffies::Hz;
use wansan_sim::tcp::receive::ReceiveConfig;
use wansan_sim::tcp::send::SendConfig;
use wansan_split::{Bound, CLIENT, Law, SignalSettings};
use wansan_trace::Recorder;

/// Goodput of the slow path of 50 Mbit/s, in bytes per second.
const CAPACITY: f64 = 50e6 / 8.0 * 1448.0 / 1514.0;

/// A client, a LAN of 2 ms and 1 Gbit/s, the relay, a WAN of 40 ms and 50 Mbit/s with a queue of two bandwidth-delay
/// products, and the receiver.
struct Case {
    bound: Option<Bound>,
    buffer_bytes: usize,
    /// The rate of the stream; `None` for as fast as possible.
    rate_bytes_per_s: Option<f64>,
    /// Whether the relay's sockets have fixed buffers of 256 KiB.
    has_small_sockets: bool,
}

impl Default for Case {
    fn default() -> Self {
        Case {
            bound: None,
            buffer_bytes: 4 << 20,
            rate_bytes_per_s: None,
            has_small_sockets: false,
        }
    }
}

fn end(control: &str) -> EndConfig {
    EndConfig {
        send: SendConfig {
            nodelay: true,
            most_unsent_bytes: Some(128 << 10),
            ecn: true,
            ..SendConfig::default()
        },
        receive: ReceiveConfig {
            ecn: true,
            ..ReceiveConfig::default()
        },
        law: Control::named(control, Hz::default(), 1).expect("it is known"),
        law_name: control.to_owned(),
        quick_acks: false,
    }
}

/// The relay's end towards the target. Only the law limits its unsent data.
fn onward() -> EndConfig {
    EndConfig {
        send: SendConfig {
            most_unsent_bytes: None,
            ..end("cubic").send
        },
        ..end("cubic")
    }
}

fn bound(law: Law, latency_ms: u64) -> Bound {
    Bound {
        law,
        latency: Duration::from_millis(latency_ms),
        signals: SignalSettings::default(),
        asked: (law != Law::Window).then_some(CLIENT),
    }
}

impl Case {
    fn run(&self) -> (StreamReport, RelayEnd) {
        let mut network = Network::default();
        let mut path = |delay_ms: u64, mbit_per_s: u64, queue_bytes: u64| {
            let effects = Effects {
                delay: Duration::from_millis(delay_ms),
                capacity: Rate::from_bits_per_s(mbit_per_s * 1_000_000)
                    .expect("a rate")
                    .into(),
                queue_limit: Limit::bytes(queue_bytes),
                ..Effects::default()
            };
            [1, 2].map(|seed| vec![network.link(&effects, seed).expect("plain effects").into()])
        };
        let small = self.has_small_sockets.then_some(256 << 10);
        let mut inward = end("reno");
        inward.receive.so_rcvbuf_bytes = small;
        let mut outward = onward();
        outward.send.buffer.so_sndbuf_bytes = small;
        let lan = path(1, 1_000, 4 << 20);
        let wan = path(20, 50, 500_000);
        let mut storage = Storage::new(network, Duration::from_millis(10));
        let address = |last: u8, port: u16| SocketAddr::from(([10, 0, 0, last], port));
        storage.receive(&ReceiverConfig {
            listen: vec![address(3, 5201)],
            read_bytes: 256 << 10,
        });
        storage.relay(RelayConfig {
            listen: vec![address(2, 4000)],
            onward: ConnectionConfig {
                ends: [outward, end("reno")],
                routes: wan,
                addresses: [address(2, 40_000), address(3, 5201)],
            },
            buffer_bytes: self.buffer_bytes,
            bound: self.bound,
            receive_buffers: [None; 2],
            trace: Recorder::off(),
        });
        let sent = storage.send(StreamConfig {
            connections: vec![ConnectionConfig {
                ends: [end("reno"), inward],
                routes: lan,
                addresses: [address(1, 40_000), address(2, 4000)],
            }],
            every_bytes: 50_000,
            rate_bytes_per_s: self.rate_bytes_per_s,
            warmup: Duration::from_secs(10),
            time: Duration::from_secs(20),
            trace: Recorder::off(),
        });
        sent.expect("it connects");
        let ended = storage.run(Duration::from_secs(60), &mut |_| true);
        let ended = ended.expect("it runs").expect("nobody ends it");
        let (report, _) = &ended.streams[0];
        let (done, law, _) = &ended.relays[0];
        assert_eq!(*law, self.bound.map_or(Law::None, |bound| bound.law));
        (report.clone(), done.clone())
    }

    /// Throughput as a share of the path's capacity, and the mean latency of marks in ms.
    fn measure(&self) -> (f64, f64) {
        let (report, done) = self.run();
        // A backlog that takes longer than a second at the end is cut off.
        assert_eq!((done.accepted, done.finished + done.cut_off), (1, 1));
        assert!(
            done.back_bytes > 0 && done.onward_bytes > done.back_bytes,
            "{done:?}"
        );
        let latency = report.latency_ns.expect("marks came");
        (
            report.bytes_per_s.expect("marks came") / CAPACITY,
            latency.mean / 1e6,
        )
    }
}

#[test]
fn a_relay_adds_nothing_to_a_stream_that_does_not_fill_it() {
    let case = Case {
        rate_bytes_per_s: Some(1e6),
        ..Case::default()
    };
    let (share, latency_ms) = case.measure();
    assert!((share * CAPACITY / 1e6 - 1.0).abs() < 0.01, "{share}");
    // Both round trips. The 50 ms between marks do not count, as a mark is reported at its first byte.
    assert!((42.0..44.0).contains(&latency_ms), "{latency_ms}");
}

#[test]
fn without_a_law_the_relay_s_buffer_is_the_latency() {
    let measure = |buffer_bytes| {
        let case = Case {
            buffer_bytes,
            has_small_sockets: true,
            ..Case::default()
        };
        let (share, latency_ms) = case.measure();
        assert!((0.95..1.01).contains(&share), "{share}");
        latency_ms
    };
    let (large_ms, small_ms) = (measure(4 << 20), measure(1 << 20));
    // The relay holds three MiB less.
    let less_ms = 3.0 * 1_048_576.0 / CAPACITY * 1e3;
    let difference = (large_ms - small_ms) / less_ms;
    assert!((0.85..1.15).contains(&difference), "{large_ms} {small_ms}");
}

/// Beyond the path's round trip and queue, a byte waits only for the configured bound and the client's own queue.
#[test]
fn the_window_law_holds_the_backlog_to_a_time_and_keeps_the_throughput() {
    let (_, free_ms) = Case::default().measure();
    let case = Case {
        bound: Some(bound(Law::Window, 50)),
        ..Case::default()
    };
    let (share, latency_ms) = case.measure();
    assert!((0.93..1.01).contains(&share), "{share}");
    let most_ms = 42.0 + 500_000.0 / CAPACITY * 1e3 + 50.0 + f64::from(128 << 10) / CAPACITY * 1e3;
    assert!(latency_ms < most_ms, "{latency_ms} {most_ms}");
    assert!(latency_ms < free_ms / 3.0, "{latency_ms} {free_ms}");
}

#[test]
fn laws_that_signal_have_the_client_slow_down_by_ece() {
    for law in [Law::Arrival, Law::EceBound, Law::EceRed] {
        let case = Case {
            bound: Some(bound(law, 50)),
            ..Case::default()
        };
        let (report, done) = case.run();
        let share = report.bytes_per_s.expect("marks came") / CAPACITY;
        assert!((0.5..1.01).contains(&share), "{law}: {share}");
        assert!(done.ece_signals > 5, "{law}: {done:?}");
        assert!(
            done.fallbacks.values().all(|times| *times == 0),
            "{law}: {done:?}"
        );
        assert_eq!(done.finished, 1, "{law}: {done:?}");
        let latency_ms = report.latency_ns.expect("marks came").mean / 1e6;
        assert!(latency_ms < 400.0, "{law}: {latency_ms}");
    }
}
