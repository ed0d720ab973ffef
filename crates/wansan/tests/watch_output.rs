//! `wansan watch`, as its users start it: lines, the live page, counters and records of a connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use wansan_trace::event::{Tcp, TcpEvent};
use wansan_trace::file;

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
const LIMIT: Duration = Duration::from_secs(60);

/// A connection over loopback on a port of its own.
struct Pair {
    client: TcpStream,
    server: TcpStream,
}

impl Pair {
    fn connect() -> Pair {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        Pair { client, server }
    }

    fn port(&self) -> String {
        self.server.local_addr().unwrap().port().to_string()
    }

    /// Moves some data.
    fn work(&mut self) {
        self.client.write_all(&[1; 10_000]).unwrap();
        self.server.read_exact(&mut [0; 10_000]).unwrap();
    }
}

/// A running watch; it is killed when a test fails.
struct Watching(Child);

impl Watching {
    fn start(arguments: &[&str]) -> Watching {
        let child = Command::new(WANSAN)
            .args(["watch", "--interval", "20ms"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Watching(child.unwrap())
    }

    fn lines(&mut self) -> impl Iterator<Item = Value> + use<> {
        let lines = BufReader::new(self.0.stdout.take().unwrap()).lines();
        lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap())
    }

    /// The address in the line on standard error that starts like this, and all that follows it.
    fn address(&mut self, start: &str) -> (String, BufReader<impl Read + use<>>) {
        let mut stderr = BufReader::new(self.0.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with(start) {
            line.clear();
            assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "no '{start}'");
        }
        let address = line.trim_end().split("//").nth(1).unwrap();
        let address = address.split('/').next().unwrap().to_owned();
        (address, stderr)
    }

    /// Tells it to end; it does so in order.
    fn end(mut self) {
        let id = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // One that has ended is not there any more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ask(address: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    stream
}

#[test]
fn lines_tell_a_connection_from_its_begin_to_its_end() {
    let mut pair = Pair::connect();
    let port = pair.port();
    let mut watch = Watching::start(&["--json", "dport", "=", &port]);
    let mut lines = watch.lines();
    let first = lines.next().unwrap();
    assert_eq!(first["kind"], "watch");
    assert!(["traced", "sampled"].contains(&first["way"].as_str().unwrap()));
    let begin = lines.find(|line| line["kind"] == "begin").unwrap();
    let ends = (
        pair.client.local_addr().unwrap(),
        pair.client.peer_addr().unwrap(),
    );
    assert_eq!(begin["local"], ends.0.to_string());
    assert_eq!(begin["remote"], ends.1.to_string());
    pair.work();
    let moved =
        |line: &Value| line["kind"] == "sample" && line["acked_bytes"].as_u64() >= Some(10_000);
    let sample = lines.find(moved).unwrap();
    assert_eq!(sample["connection"], begin["connection"]);
    assert!(sample["cwnd_packets"].as_u64() > Some(0), "{sample}");
    assert!(sample["srtt_ns"].as_u64() > Some(0), "{sample}");
    assert!(sample["busy_share"].is_number(), "{sample}");
    drop(pair);
    let end = lines.find(|line| line["kind"] == "end").unwrap();
    assert_eq!(end["connection"], begin["connection"]);
    watch.end();
    assert_eq!(lines.last().unwrap()["kind"], "over");
}

#[test]
fn a_reader_that_goes_ends_it() {
    let pair = Pair::connect();
    let mut watch = Watching::start(&["--json", "--port", &pair.port()]);
    drop(watch.0.stdout.take());
    assert!(watch.0.wait().unwrap().success());
}

#[test]
fn it_ends_when_its_reader_goes_though_nothing_happens() {
    let mut watch = Watching::start(&["--json", "sport = 1 and dport = 1"]);
    assert_eq!(watch.lines().next().unwrap()["kind"], "watch");
    // The lines were dropped, and the pipe with them.
    assert!(watch.0.wait().unwrap().success());
    let mut told = String::new();
    let mut stderr = watch.0.stderr.take().unwrap();
    stderr.read_to_string(&mut told).unwrap();
    assert_eq!(told, "");
}

#[test]
fn what_is_no_relay_is_told() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        let mut request = [0; 1024];
        let read = stream.read(&mut request).unwrap();
        stream
            .write_all(b"HTTP/1.1 404 Not Found\r\n\r\nmetrics are at /metrics\n")
            .unwrap();
        String::from_utf8_lossy(&request[..read]).into_owned()
    });
    let watch = Command::new(WANSAN)
        .args(["watch", "--relay", &address])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&watch.stderr);
    assert_eq!(watch.status.code(), Some(2), "{told}");
    let said = format!("{address} serves no relay status (wansan relay --metrics PORT)");
    assert!(told.contains(&said) && told.lines().count() == 1, "{told}");
    assert!(answers.join().unwrap().starts_with("GET /status "));
}

#[test]
fn a_relay_that_does_not_answer_is_told() {
    // Somebody is there, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let watch = Command::new(WANSAN)
        .args(["watch", "--relay", &address])
        .output();
    let watch = watch.unwrap();
    let told = String::from_utf8_lossy(&watch.stderr);
    assert_eq!(watch.status.code(), Some(2), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    for word in [
        &address,
        "no answer within 10 seconds",
        "wansan relay --metrics",
    ] {
        assert!(told.contains(word), "no '{word}' in: {told}");
    }
}

#[test]
fn the_page_and_its_events_are_served_here_only() {
    let mut pair = Pair::connect();
    let mut watch = Watching::start(&["--web", "0", "--port", &pair.port()]);
    let (address, _stderr) = watch.address("live page at");
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let mut page = String::new();
    ask(&address, "/").read_to_string(&mut page).unwrap();
    assert!(page.contains("<title>wansan watch</title>"), "no page");
    pair.work();
    let events = BufReader::new(ask(&address, "/events")).lines();
    let messages = events.filter_map(|line| {
        let line = line.unwrap();
        let json = line.strip_prefix("data: ")?.to_owned();
        Some(serde_json::from_str::<Value>(&json).unwrap())
    });
    let ends = [&pair.client, &pair.server].map(|end| end.local_addr().unwrap().to_string());
    let is_ours = |message: &Value| {
        ["local", "remote"]
            .iter()
            .all(|end| ends.iter().any(|ours| message[end] == **ours))
    };
    let mut kinds: Vec<String> = Vec::new();
    for message in messages {
        // Another program may have a connection from that port.
        if message["kind"] == "begin" && !is_ours(&message) {
            continue;
        }
        kinds.push(message["kind"].as_str().unwrap().to_owned());
        if message["kind"] == "frame" && message["connections"].as_array().unwrap().len() == 2 {
            break;
        }
    }
    assert_eq!(kinds[0], "watch", "{kinds:?}");
    assert_eq!(
        kinds.iter().filter(|kind| *kind == "begin").count(),
        2,
        "{kinds:?}"
    );
    watch.end();
}

#[test]
fn a_scraper_gets_what_was_last_seen() {
    let mut pair = Pair::connect();
    let port = pair.port();
    let mut watch = Watching::start(&["--prometheus", "0", "sport", "=", &port]);
    let (address, _stderr) = watch.address("metrics at");
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    pair.work();
    let began = std::time::Instant::now();
    loop {
        let mut text = String::new();
        ask(&address, "/metrics").read_to_string(&mut text).unwrap();
        let own = format!("local=\"127.0.0.1:{port}\"");
        let cwnd =
            |line: &&str| line.starts_with("wansan_tcp_cwnd_packets{") && line.contains(&own);
        if text.lines().any(|line| cwnd(&line)) && text.contains("wansan_tcp_connections 1\n") {
            break;
        }
        assert!(began.elapsed() < LIMIT, "{text}");
    }
    watch.end();
}

#[test]
fn a_recording_without_connections_says_so_in_a_line() {
    let folder = TempDir::with_prefix("wansan-watch-").unwrap();
    let place = folder.path().join("run");
    let place = place.to_str().unwrap();
    let mut watch = Watching::start(&["--record", place, "--json", "sport = 1 and dport = 1"]);
    assert_eq!(watch.lines().next().unwrap()["kind"], "watch");
    watch.end();
    let explain = |more: &[&str]| {
        let output = Command::new(WANSAN)
            .args(["explain", place])
            .args(more)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let words = explain(&[]);
    assert_eq!(words.lines().count(), 1, "{words}");
    for told in [place, "hold no connection", "wansan watch --record"] {
        assert!(words.contains(told), "no '{told}' in: {words}");
    }
    let told: Value = serde_json::from_str(&explain(&["--json"])).unwrap();
    assert_eq!(told["connections"], serde_json::json!([]));
}

#[test]
fn records_of_a_watch_are_read_like_others() {
    let folder = TempDir::with_prefix("wansan-watch-").unwrap();
    let place = folder.path().join("run");
    let mut pair = Pair::connect();
    let port = pair.port();
    let recorded = [
        "--record",
        place.to_str().unwrap(),
        "--json",
        "--port",
        &port,
    ];
    let mut watch = Watching::start(&recorded);
    let mut lines = watch.lines();
    pair.work();
    let moved =
        |line: &Value| line["kind"] == "sample" && line["acked_bytes"].as_u64() >= Some(10_000);
    // Two samples of each end at least.
    for _ in 0..6 {
        lines.find(moved).unwrap();
    }
    watch.end();
    lines.for_each(drop);
    let path: &Path = &place.join("tcp.watch.part.parquet");
    let table = file::read::<Tcp>(path).unwrap();
    let ends = Tcp::ends_name(
        pair.client.local_addr().unwrap(),
        pair.client.peer_addr().unwrap(),
    );
    let of_client = |event: TcpEvent| {
        let rows = table
            .rows
            .iter()
            .filter(|row| table.names.get(row.record.ends) == ends && row.record.event == event);
        rows.count()
    };
    assert_eq!(of_client(TcpEvent::Begin), 1);
    assert!(of_client(TcpEvent::Sample) > 0);
    // Nothing is known of I/Os: what TCP says is told, and is no error.
    let explain = |more: &[&str]| {
        let mut command = Command::new(WANSAN);
        let output = command.arg("explain").arg(&place).args(more).output();
        let output = output.unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        String::from_utf8(output.stdout).unwrap()
    };
    let words = explain(&[]);
    for told in [&ends, "limited by its congestion window", "acknowledged"] {
        assert!(words.contains(told), "no '{told}' in: {words}");
    }
    let told: Value = serde_json::from_str(&explain(&["--json"])).unwrap();
    let connections = told["connections"].as_array().unwrap();
    let client = connections.iter().find(|one| one["ends"] == ends).unwrap();
    assert_eq!(client["events"]["begin"], 1, "{client}");
    assert!(client["sender"]["samples"].as_u64() > Some(1), "{client}");
    let shares = ["rwnd_limited_share", "sndbuf_limited_share"];
    let share = |name: &str| client["sender"][name].as_f64().unwrap();
    assert!(shares.iter().all(|name| (0.0..=1.0).contains(&share(name))));
}
