//! Measured streams over simulated TCP, compared with what the path and the settings allow.

use std::net::SocketAddr;
use std::time::Duration;

use wansan_path::{Effects, Limit, Rate};
use wansan_schema::StreamReport;
use wansan_sim::network::Network;
use wansan_sim::storage::{
    ConnectionConfig, EndConfig, Ended, ReceiverConfig, Storage, StorageError, StreamConfig,
};
use wansan_sim::tcp::congestion::Law;
use wansan_sim::tcp::jiffies::Hz;
use wansan_sim::tcp::receive::ReceiveConfig;
use wansan_sim::tcp::send::SendConfig;
use wansan_trace::{Kinds, Recorder};

/// One-way delay: the round trip is 40 ms.
const DELAY: Duration = Duration::from_millis(20);
const MBIT_PER_S: u64 = 100;

/// Streams over a path of 100 Mbit/s and 40 ms, whose queue holds one bandwidth-delay product.
struct Case {
    flows: u16,
    rate_bytes_per_s: Option<f64>,
    most_unsent_bytes: Option<u64>,
    so_rcvbuf_bytes: Option<u64>,
}

impl Default for Case {
    fn default() -> Self {
        Case {
            flows: 1,
            rate_bytes_per_s: None,
            most_unsent_bytes: None,
            so_rcvbuf_bytes: None,
        }
    }
}

impl Case {
    fn end(&self) -> EndConfig {
        EndConfig {
            send: SendConfig {
                nodelay: true,
                most_unsent_bytes: self.most_unsent_bytes,
                ..SendConfig::default()
            },
            receive: ReceiveConfig {
                so_rcvbuf_bytes: self.so_rcvbuf_bytes,
                ..ReceiveConfig::default()
            },
            law: Law::named("reno", Hz::default(), 1).expect("it is known"),
            law_name: "reno".to_owned(),
            quick_acks: false,
        }
    }

    fn run(&self, trace: Recorder) -> Result<Ended, StorageError> {
        let mut network = Network::default();
        let effects = Effects {
            delay: DELAY,
            capacity: Rate::from_bits_per_s(MBIT_PER_S * 1_000_000)
                .expect("a rate")
                .into(),
            queue_limit: Limit::bytes(500_000),
            ..Effects::default()
        };
        let links = [1, 2].map(|seed| network.link(&effects, seed).expect("plain effects"));
        let mut storage = Storage::new(network, Duration::from_millis(10));
        let address = |last: u8, port: u16| SocketAddr::from(([10, 0, 0, last], port));
        storage.receive(&ReceiverConfig {
            listen: vec![address(2, 5201)],
            read_bytes: 256 << 10,
        });
        let connections = (0..self.flows).map(|number| ConnectionConfig {
            ends: [self.end(), self.end()],
            routes: links.map(|link| vec![link.into()]),
            addresses: [address(1, 40_000 + number), address(2, 5201)],
        });
        storage.send(StreamConfig {
            connections: connections.collect(),
            every_bytes: 100_000,
            rate_bytes_per_s: self.rate_bytes_per_s,
            warmup: Duration::from_secs(5),
            time: Duration::from_secs(20),
            trace,
        })?;
        let ended = storage.run(Duration::from_secs(60), &mut |_| true)?;
        Ok(ended.expect("nobody ends it"))
    }

    fn report(&self) -> StreamReport {
        let ended = self.run(Recorder::off()).expect("it runs");
        let [(report, _)] = &ended.streams[..] else {
            panic!("there is one sender");
        };
        report.clone()
    }
}

/// Goodput of the path in bytes per second.
fn capacity() -> f64 {
    MBIT_PER_S as f64 * 1e6 / 8.0 * 1448.0 / 1514.0
}

#[test]
fn a_stream_fills_the_path_and_its_marks_wait_in_the_queue() {
    let case = Case {
        most_unsent_bytes: Some(64 << 10),
        ..Case::default()
    };
    let report = case.report();
    let share = report.bytes_per_s.expect("marks came") / capacity();
    assert!((0.97..=1.001).contains(&share), "{share}");
    let latency = report.latency_ns.expect("marks came");
    // The round trip, a queue of the same length, and the unsent data.
    let unsent_ms = f64::from((64 << 10) + 65_160) / capacity() * 1e3;
    assert!(latency.min >= 40_000_000, "{latency:?}");
    assert!(latency.p50 as f64 / 1e6 < 81.0 + unsent_ms, "{latency:?}");
    let one_way = report.one_way_ns.expect("all have one clock");
    assert!(
        one_way.min >= 20_000_000 && one_way.p50 + 20_000_000 <= latency.p50,
        "{one_way:?}"
    );
    assert!(report.flows[0].retransmits > 0, "a full queue drops");
    assert_eq!(
        report.measured_to_ns - report.measured_from_ns,
        20_000_000_000
    );
}

#[test]
fn a_rate_below_the_path_s_is_kept_and_nothing_waits() {
    let report = Case {
        rate_bytes_per_s: Some(1e6),
        ..Case::default()
    }
    .report();
    let rate = report.bytes_per_s.expect("marks came");
    assert!((rate / 1e6 - 1.0).abs() < 0.01, "{rate}");
    let latency = report.latency_ns.expect("marks came");
    assert!(latency.p99 < 45_000_000, "{latency:?}");
}

/// TCP_NOTSENT_LOWAT: the unsent data is at most that, plus one burst that the kernel takes at once.
#[test]
fn a_bound_on_unsent_data_takes_the_send_buffer_out_of_the_latency() {
    let latency = |most_unsent_bytes| {
        let case = Case {
            most_unsent_bytes,
            so_rcvbuf_bytes: Some(250_000),
            ..Case::default()
        };
        let report = case.report();
        let latency = report.latency_ns.expect("marks came").p50;
        (report.bytes_per_s.expect("marks came"), latency)
    };
    let (rate, short) = latency(Some(16 << 10));
    let (other, long) = latency(None);
    // Flow control limits both to one window per round trip.
    assert!((rate / other - 1.0).abs() < 0.05, "{rate} {other}");
    let most_ns = 41e6 + f64::from((16 << 10) + 65_160) / rate * 1e9;
    assert!(short as f64 <= most_ns, "{short} {most_ns}");
    assert!(long > 2 * short, "{long} {short}");
}

#[test]
fn streams_share_the_path_and_are_recorded_each_by_its_ends() {
    let kinds = Kinds {
        tcp: true,
        connection: true,
        ..Kinds::NONE
    };
    let case = Case {
        flows: 4,
        ..Case::default()
    };
    let ended = case.run(Recorder::new(kinds, 64 << 20)).expect("it runs");
    let (report, trace) = &ended.streams[0];
    assert_eq!(report.flows.len(), 4);
    assert!(report.fairness.expect("marks came") > 0.8, "{report:?}");
    assert_eq!(report.flows[3].local, "10.0.0.1:40003");
    assert_eq!(trace.dropped(), 0);
    let records = format!("{trace:?}");
    for flow in &report.flows {
        assert!(records.contains(&flow.local), "{}", flow.local);
    }
}

#[test]
fn a_sender_without_a_receiver_is_an_error() {
    let mut network = Network::default();
    let link = network.link(&Effects::default(), 1).expect("no effects");
    let mut storage = Storage::new(network, Duration::from_millis(10));
    let end = Case::default().end();
    let error = storage.send(StreamConfig {
        connections: vec![ConnectionConfig {
            ends: [end.clone(), end],
            routes: [link; 2].map(|link| vec![link.into()]),
            addresses: [
                SocketAddr::from(([10, 0, 0, 1], 40_000)),
                SocketAddr::from(([10, 0, 0, 2], 5201)),
            ],
        }],
        every_bytes: 100_000,
        rate_bytes_per_s: None,
        warmup: Duration::ZERO,
        time: Duration::from_secs(1),
        trace: Recorder::off(),
    });
    let said = error.expect_err("nobody listens").to_string();
    assert_eq!(said, "nobody listens at 10.0.0.2:5201");
}
