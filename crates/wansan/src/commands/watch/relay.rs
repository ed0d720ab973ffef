//! `wansan watch --relay`: the flows of a relay, by the counters that it serves (`wansan relay --metrics`).

mod told;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use self::told::Told;
use crate::commands::{is_read, remark, try_print, try_print_json};

/// A relay is asked no more often.
const LEAST_INTERVAL: Duration = Duration::from_secs(1);

/// It answers soon, and within its own patience with threads that are in the way; a silence of this length is an
/// error.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest answer that is read, in bytes: that of some thousand flows.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// Shows the flows of the relay whose counters are at `address`, until told to stop or until it ends.
///
/// # Errors
/// When it does not answer, or is no relay.
pub(super) fn watch(
    address: SocketAddr,
    interval: Duration,
    json: bool,
    stop: &AtomicBool,
) -> Result<ExitCode> {
    let asked = || scrape(address).with_context(|| format!("cannot query the relay at {address}"));
    let mut before: Option<Told> = None;
    let mut last = Instant::now();
    let mut text = asked()?;
    if !text.contains("wansan_relay_") {
        bail!("{address} serves no relay metrics (wansan relay --metrics PORT)");
    }
    loop {
        let mut told = Told::read(&text);
        if let Some(before) = &before {
            told.compare(before, last.elapsed());
        }
        last = Instant::now();
        let lines = match json {
            true => told.json()?,
            false => told.lines(),
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
        before = Some(told);
        let next = last + interval.max(LEAST_INTERVAL);
        while Instant::now() < next {
            if stop.load(Ordering::Relaxed) || !is_read() {
                return Ok(ExitCode::SUCCESS);
            }
            thread::sleep(Duration::from_millis(20));
        }
        text = match asked() {
            Ok(text) => text,
            Err(_) => {
                remark(&format!(
                    "wansan watch: the relay at {address} has ended or no longer answers"
                ));
                return Ok(ExitCode::SUCCESS);
            }
        };
    }
}

fn scrape(address: SocketAddr) -> Result<String> {
    answer(address).map_err(|error| match error.kind() {
        // The one of connecting, the other of reading.
        ErrorKind::TimedOut | ErrorKind::WouldBlock => anyhow!(
            "no answer within {} seconds: does the relay serve its metrics there (wansan relay \
             --metrics PORT), and is there no firewall in between?",
            PATIENCE.as_secs()
        ),
        _ => error.into(),
    })
}

fn answer(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")?;
    let mut text = String::new();
    stream.take(MAX_ANSWER_BYTES).read_to_string(&mut text)?;
    Ok(text)
}
