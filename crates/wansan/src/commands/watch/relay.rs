//! `wansan watch --relay`: the flows of a relay, from the status that it serves beside its metrics
//! (`wansan relay --metrics`).

mod lines;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use wansan_relay::Status;

use crate::commands::relay::metrics::STATUS_PATH;
use crate::commands::{is_read, remark, try_print, try_print_json};

/// Shortest polling interval.
const LEAST_INTERVAL: Duration = Duration::from_secs(1);

/// Timeout. A relay answers soon, and within its own timeout for busy threads.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longest answer, in bytes: enough for some thousand flows.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// Shows the flows of the relay whose status is at `address`, until asked to stop or until the relay exits.
///
/// # Errors
/// It does not answer, or is not a relay.
pub(super) fn watch(
    address: SocketAddr,
    interval: Duration,
    json: bool,
    stop: &AtomicBool,
) -> Result<ExitCode> {
    let mut before: Option<Status> = None;
    let mut last = Instant::now();
    let mut status =
        ask(address).with_context(|| format!("cannot query the relay at {address}"))?;
    loop {
        if let Some(before) = &before {
            status.compare(before, last.elapsed());
        }
        last = Instant::now();
        let lines = match json {
            true => lines::json(&status)?,
            false => lines::text(&status),
        };
        for line in lines {
            let heard = match json {
                true => try_print_json(&line)?,
                false => try_print(|out| writeln!(out, "{line}"))?,
            };
            if !heard {
                return Ok(ExitCode::SUCCESS);
            }
        }
        before = Some(status);
        let next = last + interval.max(LEAST_INTERVAL);
        while Instant::now() < next {
            if stop.load(Ordering::Relaxed) || !is_read() {
                return Ok(ExitCode::SUCCESS);
            }
            thread::sleep(Duration::from_millis(20));
        }
        status = match ask(address) {
            Ok(status) => status,
            Err(_) => {
                remark(&format!(
                    "wansan watch: the relay at {address} has ended or no longer answers"
                ));
                return Ok(ExitCode::SUCCESS);
            }
        };
    }
}

/// The status of the relay at `address`.
fn ask(address: SocketAddr) -> Result<Status> {
    let answer = get(address).map_err(|error| match error.kind() {
        // One is from connecting, the other from reading.
        ErrorKind::TimedOut | ErrorKind::WouldBlock => anyhow!(
            "no answer within {} seconds: does the relay serve its metrics there (wansan relay \
             --metrics PORT), and is there no firewall in between?",
            PATIENCE.as_secs()
        ),
        _ => error.into(),
    })?;
    let body = answer
        .split_once("\r\n\r\n")
        .filter(|(head, _)| head.starts_with("HTTP/1.1 200 "));
    match body.map(|(_, body)| serde_json::from_str(body)) {
        Some(Ok(status)) => Ok(status),
        _ => bail!("{address} serves no relay status (wansan relay --metrics PORT)"),
    }
}

/// Sends a GET request and returns the whole answer.
fn get(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!("GET {STATUS_PATH} HTTP/1.1\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.take(MAX_ANSWER_BYTES).read_to_string(&mut text)?;
    Ok(text)
}
