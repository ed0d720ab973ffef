//! `wansan watch --relay`: the flows of a relay, by the counters that it serves (`wansan relay --metrics`).

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use wansan_trace::units::format_bytes;

use crate::commands::{is_heard, remark, tell_heard, tell_json_heard};

/// A relay is asked no more often.
const LEAST_INTERVAL: Duration = Duration::from_secs(1);

/// It answers at once; a silence of this length is an error.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest answer that is read, in bytes: that of some thousand flows.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// A flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Flow {
    flow: String,
    client: String,
    target: String,
    law: String,
    onward: Direction,
    back: Direction,
    /// Times that ECE to the client began; those that CWR answered.
    ece_signals: u64,
    ece_answers: u64,
    /// Why signals are of no use; null where they are, or where there are none.
    fallback: Option<String>,
}

/// One direction of a flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Direction {
    bytes: u64,
    /// Since the last time; null at the first.
    bytes_per_s: Option<f64>,
    backlog_bytes: u64,
    /// Null where the other side has not been measured.
    backlog_ms: Option<f64>,
}

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
    let asked = || scrape(address).with_context(|| format!("cannot ask the relay at {address}"));
    let mut before: BTreeMap<String, Flow> = BTreeMap::new();
    let mut last = Instant::now();
    let mut text = asked()?;
    if !text.contains("wansan_relay_") {
        bail!("{address} serves no counters of a relay (wansan relay --metrics PORT)");
    }
    loop {
        let mut flows = flows(&text);
        let passed = last.elapsed().as_secs_f64();
        last = Instant::now();
        for (number, flow) in &mut flows {
            if let Some(old) = before.get(number) {
                flow.onward.rate_since(&old.onward, passed);
                flow.back.rate_since(&old.back, passed);
            }
            let heard = match json {
                true => tell_json_heard(&serde_json::to_string(flow)?)?,
                false => tell_heard(|out| writeln!(out, "{}", flow.line()))?,
            };
            if !heard {
                return Ok(ExitCode::SUCCESS);
            }
        }
        before = flows;
        let next = last + interval.max(LEAST_INTERVAL);
        while Instant::now() < next {
            if stop.load(Ordering::Relaxed) || !is_heard() {
                return Ok(ExitCode::SUCCESS);
            }
            thread::sleep(Duration::from_millis(20));
        }
        text = match asked() {
            Ok(text) => text,
            Err(_) => {
                remark(&format!(
                    "wansan watch: the relay at {address} has ended, or answers no more"
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
            "nobody answered within {} seconds: is that where it serves its counters (wansan relay \
             --metrics PORT), and does no firewall stand between?",
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

/// The flows in OpenMetrics text, by their numbers.
fn flows(text: &str) -> BTreeMap<String, Flow> {
    let mut flows: BTreeMap<String, Flow> = BTreeMap::new();
    for line in text.lines() {
        let Some((name, labels, value)) = sample(line) else {
            continue;
        };
        let label = |key: &str| labels.get(key).copied().unwrap_or_default();
        let Some(number) = labels.get("flow") else {
            continue;
        };
        let flow = flows.entry((*number).to_owned()).or_insert_with(|| Flow {
            flow: (*number).to_owned(),
            client: label("client").to_owned(),
            target: label("target").to_owned(),
            ..Flow::default()
        });
        let direction = match label("direction") {
            "back" => &mut flow.back,
            _ => &mut flow.onward,
        };
        match name {
            "flow_bytes_total" => direction.bytes = value as u64,
            "flow_backlog_bytes" => direction.backlog_bytes += value as u64,
            "flow_backlog_seconds" => direction.backlog_ms = Some(value * 1e3),
            "flow_law" => flow.law = label("law").to_owned(),
            "flow_ece_signals_total" => flow.ece_signals = value as u64,
            "flow_ece_answers_total" => flow.ece_answers = value as u64,
            "flow_fallback" if value > 0.0 => flow.fallback = Some(label("reason").to_owned()),
            _ => {}
        }
    }
    flows
}

/// The name of a relay's family, the labels and the value of a line of OpenMetrics text, if it has one.
/// Labels of a relay's flows have no quotes or commas in them.
fn sample(line: &str) -> Option<(&str, BTreeMap<&str, &str>, f64)> {
    let (name, rest) = line.strip_prefix("wansan_relay_")?.split_once('{')?;
    let (labels, value) = rest.rsplit_once("} ")?;
    let labels = labels.split(',').filter_map(|label| {
        let (key, value) = label.split_once('=')?;
        Some((key, value.trim_matches('"')))
    });
    Some((name, labels.collect(), value.trim().parse().ok()?))
}

impl Direction {
    fn rate_since(&mut self, before: &Direction, seconds: f64) {
        let moved = self.bytes.saturating_sub(before.bytes);
        self.bytes_per_s = Some(moved as f64 / seconds.max(1e-3));
    }

    fn words(&self) -> String {
        let rate = self
            .bytes_per_s
            .map_or("-".to_owned(), |rate| format!("{:.1} Mbit/s", rate * 8e-6));
        let time = self
            .backlog_ms
            .map_or("?".to_owned(), |ms| format!("{ms:.1} ms"));
        let bytes = format_bytes(self.backlog_bytes);
        format!("{rate}, {bytes} wait for {time}")
    }
}

impl Flow {
    fn line(&self) -> String {
        let Flow {
            flow,
            client,
            target,
            law,
            ..
        } = self;
        let (onward, back) = (self.onward.words(), self.back.words());
        let mut line = format!("{flow} {client} > {target} {law}: {onward}; back {back}");
        if self.ece_signals > 0 {
            line += &format!("; ECE {}, CWR {}", self.ece_signals, self.ece_answers);
        }
        if let Some(reason) = &self.fallback {
            line += &format!("; window alone ({reason})");
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_found_among_counters() {
        let ends = r#"flow="7",listen="[::1]:0",client="[::1]:40",target="[::1]:50""#;
        let text = format!(
            "# TYPE wansan_relay_flows gauge\n\
             wansan_relay_flows 1\n\
             wansan_relay_flow_bytes_total{{{ends},direction=\"onward\"}} 1000\n\
             wansan_relay_flow_bytes_total{{{ends},direction=\"back\"}} 30\n\
             wansan_relay_flow_backlog_bytes{{{ends},direction=\"onward\",queue=\"send\"}} 200\n\
             wansan_relay_flow_backlog_bytes{{{ends},direction=\"onward\",queue=\"relay\"}} 300\n\
             wansan_relay_flow_backlog_seconds{{{ends},direction=\"onward\"}} 0.02\n\
             wansan_relay_flow_law{{{ends},law=\"arrival\"}} 1\n\
             wansan_relay_flow_ece_signals_total{{{ends}}} 4\n\
             wansan_relay_flow_fallback{{{ends},reason=\"no_ecn\"}} 0\n\
             wansan_relay_flow_fallback{{{ends},reason=\"powerless\"}} 1\n"
        );
        let mut flows = flows(&text);
        let flow = flows.get_mut("7").unwrap();
        flow.onward.rate_since(&Direction::default(), 2.0);
        assert_eq!(
            flow.line(),
            "7 [::1]:40 > [::1]:50 arrival: 0.0 Mbit/s, 500B wait for 20.0 ms; back -, 0B wait for ?; \
             ECE 4, CWR 0; window alone (powerless)"
        );
        assert_eq!(flow.onward.bytes_per_s, Some(500.0));
    }
}
