//! Common parts of stand-ins for `wansan target` and `wansan bench`: they read the same settings, print the same
//! messages, and exchange requests of a header's size for answers with a block of data.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;
use wansan_san::settings::BenchSettings;
use wansan_trace::{Instant, Recorder, clock, file};

const BLOCK_BYTES: u32 = 4096;
/// A request: a header (RFC 7143 §11.2.1).
pub(crate) const REQUEST_BYTES: usize = 48;
/// An answer: a header and a block.
pub(crate) const ANSWER_BYTES: usize = REQUEST_BYTES + BLOCK_BYTES as usize;

/// Reads the settings of a program started with `--settings -` from standard input.
pub(crate) fn settings<T: DeserializeOwned>(arguments: &[String]) -> Result<T, String> {
    if arguments[1..] != ["--settings", "-"] {
        return Err(format!("{arguments:?} have no settings"));
    }
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    read.map_err(|error| error.to_string())?;
    wansan_settings::read_json(line.as_bytes(), "standard input").map_err(|error| error.to_string())
}

/// Listens, and reports it.
pub(crate) fn listen(address: impl ToSocketAddrs) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    let event = serde_json::json!({"event": "listening", "address": listener.local_addr()?});
    println!("{event}");
    Ok(listener)
}

/// Answers all requests until SIGTERM.
pub(crate) fn answer(listener: TcpListener) -> std::io::Result<()> {
    let ended = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, ended.clone())?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn serve(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut request = [0; REQUEST_BYTES];
    let answer = vec![0; ANSWER_BYTES];
    while stream.read_exact(&mut request).is_ok() && stream.write_all(&answer).is_ok() {}
}

/// Reports that it is logged in, and waits for its release, as with `--hold`.
pub(crate) fn wait_to_begin() -> std::io::Result<()> {
    println!("{}", serde_json::json!({"event": "ready"}));
    std::io::stdin().read_line(&mut String::new()).map(drop)
}

/// Writes a bench's records, and reports what it has read since `from`.
pub(crate) fn report(
    settings: &BenchSettings,
    recorder: Recorder,
    from: Instant,
    ios: u32,
) -> Result<(), String> {
    let place = &settings.record.place;
    let (Some(folder), Some(host)) = (&place.folder, &place.host) else {
        return Err("nothing is to be recorded".to_owned());
    };
    file::write_part(folder, host.0.as_str(), &[recorder]).map_err(|error| error.to_string())?;
    let to = clock::now();
    let per_s = f64::from(ios) / (to - from).as_secs_f64();
    println!(
        "{}",
        serde_json::json!({
            "ios": ios, "iops": per_s, "bytes_per_s": per_s * f64::from(BLOCK_BYTES), "errors": 0,
            "measured_from_ns": from.ns(), "measured_to_ns": to.ns(),
        })
    );
    Ok(())
}
