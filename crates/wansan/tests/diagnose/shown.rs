//! What is shown and recorded while a diagnosis goes on.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use wansan_lab::world::Node;

use crate::cases::CASES;
use crate::world::{LONG, Loaded, WANSAN, check, text};

/// Nobody else is in the namespace.
const WEB: u16 = 9001;
const PROMETHEUS: u16 = 9002;

/// The page and the metrics have what the report has at the end, and what was recorded is explained.
pub(crate) fn shown() -> Result<(), String> {
    let case = &CASES[0];
    let loaded = Loaded::begin(case)?;
    let [_, client] = loaded.hosts();
    connected(client)?;
    let folder = tempfile::tempdir().map_err(text)?;
    let recorded = folder.path().join("recorded");
    let mut diagnose = Command::new(WANSAN);
    diagnose.args(["diagnose", "--json", "--interval", "500ms"]);
    diagnose.args(["--web", &WEB.to_string()]);
    diagnose.args(["--prometheus", &PROMETHEUS.to_string()]);
    diagnose.arg("--record").arg(&recorded);
    let diagnose = client.start("diagnose", diagnose).map_err(text)?;
    let limit = "limit=\"command_window\"} 1";
    until(client, PROMETHEUS, "/metrics", limit)?;
    until(client, WEB, "/", "<main id=\"diagnosis\">")?;
    until(client, WEB, "/events", "\"limit\":\"bound\"")?;
    diagnose.terminate();
    let told = diagnose.succeed(LONG).map_err(text)?.join("\n");
    let told: Value = serde_json::from_str(&told).map_err(text)?;
    check(told["slices"].as_u64() > Some(1), || told.to_string())?;
    let sampled = &told["sessions"][0]["sampled"];
    check(sampled["slices"].as_u64() > Some(1), || told.to_string())?;
    loaded.end()?;
    let mut explain = Command::new(WANSAN);
    let explained = explain.arg("explain").arg(&recorded).arg("--json").output();
    let explained = explained.map_err(text)?;
    let explained: Value = serde_json::from_slice(&explained.stdout).map_err(text)?;
    // What waits above the window no packet tells, but that it is full.
    let session = &explained["planned"][0]["summary"]["sessions"][0];
    let slots = &session["command_window"]["slots"];
    check(slots == 8, || explained.to_string())
}

/// Waits for the load to connect: before, there is nothing to diagnose.
fn connected(node: &Node) -> Result<(), String> {
    let deadline = Instant::now() + LONG;
    // An established connection with port 3260.
    while !node.namespace().run(|| {
        std::fs::read_to_string("/proc/thread-self/net/tcp")
            .is_ok_and(|table| table.contains(":0CBC 01 "))
    }) {
        check(Instant::now() < deadline, || "no load connects".to_owned())?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Asks until there is an answer with that in it.
fn until(node: &Node, port: u16, path: &'static str, wanted: &str) -> Result<(), String> {
    let deadline = Instant::now() + LONG;
    loop {
        let answer = node.namespace().run(move || ask(port, path));
        if answer.as_ref().is_ok_and(|answer| answer.contains(wanted)) {
            return Ok(());
        }
        check(Instant::now() < deadline, || {
            format!("{path} has no {wanted}: {answer:?}")
        })?;
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What is answered within a second, which a stream of events does not end.
fn ask(port: u16, path: &str) -> std::io::Result<String> {
    const LIMIT: Duration = Duration::from_secs(1);
    let deadline = Instant::now() + LIMIT;
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    let mut part = vec![0; 1 << 16];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        stream.set_read_timeout(Some(left))?;
        // Where it does not end, what has come counts.
        match stream.read(&mut part) {
            Ok(0) | Err(_) => break,
            Ok(count) => answer.extend_from_slice(&part[..count]),
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
