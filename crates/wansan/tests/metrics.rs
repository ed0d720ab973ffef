//! `wansan target --metrics`: what was done is what is told.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use wansan_peers::session::log_in;
use wansan_peers::wansan::{TARGET_NAME, Target, bench};

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
const LIMIT: Duration = Duration::from_secs(60);

fn target() -> Target {
    let arguments = ["--lun", "memory:16MiB", "--metrics", "127.0.0.1:0"];
    Target::start(Path::new(WANSAN), &arguments).unwrap()
}

/// All samples, by name and labels as they are written.
fn scrape(target: &Target) -> BTreeMap<String, f64> {
    let address = target.metrics_address().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(body.ends_with("# EOF\n"), "{body}");
    let samples = body.lines().filter(|line| !line.starts_with('#'));
    let read = samples.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    });
    read.collect()
}

fn of_lun(name: &str, operation: &str) -> String {
    format!("wansan_{name}{{target=\"{TARGET_NAME}\",lun=\"0\",operation=\"{operation}\"}}")
}

#[test]
fn operations_and_bytes_are_counted_and_stay_when_the_session_has_ended() {
    let target = target();
    let write = ["--op", "write", "--block", "8KiB", "--count", "300"];
    let read = ["--op", "read", "--block", "4KiB", "--count", "500"];
    for arguments in [&write[..], &read[..]] {
        let done = bench(Path::new(WANSAN), &target.url(0), arguments, LIMIT).unwrap();
        assert_eq!(done["errors"], 0, "{done}");
    }
    let samples = scrape(&target);
    for (name, operation, value) in [
        ("lun_operations_total", "write", 300.0),
        ("lun_bytes_total", "write", 300.0 * 8192.0),
        ("lun_operations_total", "read", 500.0),
        ("lun_bytes_total", "read", 500.0 * 4096.0),
        ("lun_errors_total", "read", 0.0),
        ("lun_latency_seconds_count", "write", 300.0),
    ] {
        let name = of_lun(name, operation);
        assert_eq!(samples.get(&name), Some(&value), "{name} in {samples:#?}");
    }
    assert_eq!(samples["wansan_logins_total"], 2.0);
    let sessions = |name: &&String| name.starts_with("wansan_session_");
    assert_eq!(samples.keys().find(sessions), None, "no session is left");
}

#[test]
fn a_session_that_lives_is_told_with_its_connection() {
    let target = target();
    let name = "iqn.2026-11.net.example:idle";
    let stream = log_in(target.address(), TARGET_NAME, name).unwrap();
    // Login is answered before the session is there for others to see.
    let samples = scrape(&target);
    let found = samples.iter().find(|(sample, _)| {
        sample.starts_with("wansan_session_connections{") && sample.contains(name)
    });
    assert_eq!(found.map(|(_, value)| *value), Some(1.0), "{samples:#?}");
    let own = format!("address=\"{}\"", stream.local_addr().unwrap());
    let bytes = samples.iter().find(|(sample, _)| {
        sample.starts_with("wansan_connection_sent_bytes_total{") && sample.contains(&own)
    });
    assert!(bytes.is_some(), "{own} is not in {samples:#?}");
}
