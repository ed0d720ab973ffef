//! The stream meter over loopback: it measures actual traffic, and refuses peers that violate its protocol.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use wansan_relay::{ListenerConfig, ProcessSettings, Relay, RelayFile, RelaySettings};
use wansan_schema::StreamReport;
use wansan_settings::quantity::{Rate, Size, SomeTime};
use wansan_settings::usual;
use wansan_stream::{
    LoadSettings, ReceiveSettings, Receiver, SendSettings, Sender, StreamError, TakingSettings,
};
use wansan_trace::{Kinds, Recorder};

fn receiver(max_flows: u32) -> Receiver {
    Receiver::start(&receiving(64 << 10, max_flows), |_| {}).unwrap()
}

fn receiving(read_bytes: u64, most: u32) -> ReceiveSettings {
    ReceiveSettings {
        listen: "127.0.0.1:0".to_owned(),
        json: false,
        taking: TakingSettings {
            read: Size(read_bytes),
            most,
            buffer: usual(),
        },
    }
}

fn sending(to: SocketAddr) -> SendSettings {
    let mut load: LoadSettings = usual();
    load.bytes = Some(Size(2_000_000));
    load.stream.every = Size(10_000);
    load.stream.congestion_control = Some("reno".to_owned());
    load.tcp.tcp_interval = SomeTime(Duration::from_millis(5));
    SendSettings {
        to: to.to_string(),
        load,
    }
}

/// As [`sending`], with a duration.
fn sending_for(to: SocketAddr, time: Duration) -> SendSettings {
    let mut settings = sending(to);
    settings.load.bytes = None;
    settings.load.time = Some(SomeTime(time));
    settings
}

fn measure(config: &SendSettings) -> Result<StreamReport, StreamError> {
    Sender::connect(config, Recorder::off())?.run(|_| {})
}

#[test]
fn every_mark_of_every_stream_comes_back() {
    let receiver = receiver(10);
    let mut config = sending(receiver.address());
    config.load.flows = 3;
    let report = measure(&config).unwrap();
    let counts = receiver.stop();
    assert_eq!(report.flows.len(), 3);
    for flow in &report.flows {
        let latency = flow.latency_ns.as_ref().unwrap();
        assert_eq!(latency.count, 200);
        // The first mark is at 0 B and the last at 1,990,000 B.
        assert_eq!(flow.bytes, 1_990_000);
        assert_eq!(flow.congestion_control, "reno");
        // On one host the one-way delay is part of the round trip.
        let one_way = flow.one_way_ns.as_ref().unwrap();
        assert!(
            one_way.min <= latency.min && one_way.mean <= latency.mean,
            "{flow:?}"
        );
    }
    let sum = report.flows.iter().map(|flow| flow.bytes_per_s).sum();
    assert_eq!(report.bytes_per_s, sum);
    assert_eq!(report.latency_ns.unwrap().count, 600);
    let fairness = report.fairness.unwrap();
    assert!(fairness > 1.0 / 3.0 && fairness <= 1.0);
    assert_eq!((counts.streams, counts.finished, counts.lost), (3, 3, 0));
    assert_eq!((counts.marks, counts.refused), (600, 0));
    assert_eq!(counts.bytes, 3 * (2_000_000 + 40));
}

#[test]
fn a_stream_with_a_rate_keeps_to_it() {
    let receiver = receiver(10);
    let mut config = sending_for(receiver.address(), Duration::from_millis(700));
    config.load.stream.rate = Some(Rate(Some(8_000_000)));
    let report = measure(&config).unwrap();
    // The sender can be late on a busy machine, but never early.
    assert!(report.flows[0].bytes <= 720_000, "{report:?}");
    assert!(report.flows[0].bytes >= 100_000, "{report:?}");
}

#[test]
fn tcp_is_recorded_under_the_streams_ends() {
    let receiver = receiver(10);
    let kinds = Kinds {
        tcp: true,
        ..Kinds::NONE
    };
    let mut sender =
        Sender::connect(&sending(receiver.address()), Recorder::new(kinds, 16 << 20)).unwrap();
    let report = sender.run(|_| {}).unwrap();
    let records = sender.into_records();
    let last = records.tcp.iter().last().unwrap();
    let ends = format!("{} > {}", report.flows[0].local, report.flows[0].peer);
    assert_eq!(records.name_of(last.ends), ends);
}

/// A relay is part of the measured path: one with small buffers, in front of a receiver with small reads.
#[test]
fn a_relay_can_stand_between() {
    let receiver = receiver(10);
    let to = receiver.address().to_string();
    let settings = RelaySettings {
        file: RelayFile {
            listener: vec![ListenerConfig::new("127.0.0.1:0", &to)],
        },
        process: ProcessSettings {
            threads: Some(1),
            flows: 10,
            memory: Size(1 << 20),
            ..usual()
        },
    };
    let relay = Relay::start(&settings, |_| {}).unwrap();
    let report = measure(&sending(relay.addresses()[0])).unwrap();
    assert_eq!(report.flows[0].latency_ns.as_ref().unwrap().count, 200);
    assert_eq!(report.flows[0].peer, relay.addresses()[0].to_string());
    drop(relay.stop());
    assert_eq!(receiver.stop().marks, 200);
}

#[test]
fn clients_that_are_no_streams_are_refused_and_others_go_on() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let report: fn(&str) = |line| SAID.lock().unwrap().push(line.to_owned());
    let receiver = Receiver::start(&receiving(1024, 3), report).unwrap();
    let address = receiver.address();
    let mut nonsense = TcpStream::connect(address).unwrap();
    nonsense
        .write_all(b"GET / HTTP/1.1\r\nHost: example.net\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    // It is reset, and gets no answer.
    let read = nonsense.read_to_end(&mut answer);
    assert!(read.is_err() && answer.is_empty(), "{read:?} {answer:?}");
    // Closed before it sent anything.
    drop(TcpStream::connect(address).unwrap());
    let report = measure(&sending(address)).unwrap();
    assert_eq!(report.flows[0].latency_ns.as_ref().unwrap().count, 200);
    // Above the limit: they wait for a welcome message that never comes, and are reset.
    let silent: Vec<_> = (0..3)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    let refused = loop {
        match measure(&sending(address)) {
            // Not all three were accepted yet.
            Ok(_) => thread::yield_now(),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, StreamError::Connect { .. }), "{refused}");
    drop(silent);
    let counts = receiver.stop();
    assert!(counts.refused >= 3 && counts.lost == 0, "{counts:?}");
    let said = SAID.lock().unwrap();
    assert!(
        said.iter()
            .any(|line| line.contains("is refused: not a stream of")),
        "{said:?}"
    );
    assert!(
        said.iter()
            .any(|line| line.contains("there are 3 streams already")),
        "{said:?}"
    );
}

#[test]
fn receivers_that_are_none_are_named() {
    // No listener.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = gone.local_addr().unwrap();
    drop(gone);
    let error = measure(&sending(address)).unwrap_err();
    assert!(
        error.to_string().contains("wansan stream receive"),
        "{error}"
    );
    // A foreign server.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let answering = thread::spawn(move || {
        let (mut client, _) = other.accept().unwrap();
        client.write_all(b"220 mail.example.net ESMTP\r\n").unwrap();
        // Until the client closes.
        let _ = client.read_to_end(&mut Vec::new());
    });
    let error = measure(&sending(address)).unwrap_err();
    assert!(
        matches!(error, StreamError::Nonsense { flow: 0, .. }),
        "{error}"
    );
    answering.join().unwrap();
}

#[test]
fn a_receiver_that_goes_away_is_told() {
    let receiver = receiver(10);
    let config = sending_for(receiver.address(), Duration::from_secs(60));
    let mut sender = Sender::connect(&config, Recorder::off()).unwrap();
    let ending = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        receiver.stop()
    });
    let error = sender.run(|_| {}).unwrap_err();
    assert!(
        matches!(error, StreamError::Lost { flow: 0, .. }),
        "{error}"
    );
    assert!(ending.join().unwrap().streams == 1);
}

#[test]
fn what_cannot_be_had_is_said() {
    let receiver = receiver(10);
    let mut unknown = sending(receiver.address());
    unknown.load.stream.congestion_control = Some("nonsense".to_owned());
    let error = measure(&unknown).unwrap_err().to_string();
    assert!(
        error.contains("nonsense") && error.contains("reno"),
        "{error}"
    );
    let mut short = sending_for(receiver.address(), Duration::from_millis(1));
    short.load.stream.rate = Some(Rate(Some(8000)));
    let error = measure(&short).unwrap_err();
    assert!(matches!(error, StreamError::NoMark { .. }), "{error}");
}
