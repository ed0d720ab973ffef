//! What a relay tells of itself and its flows, read from its counters, as lines for people and for
//! programs.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use wansan_trace::units::format_bytes;

/// All of it, at one moment.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// By their numbers.
    flows: BTreeMap<u64, Flow>,
    total: Total,
}

/// A flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Flow {
    flow: String,
    client: String,
    target: String,
    law: String,
    onward: Direction,
    back: Direction,
    /// The connection to the client.
    r#in: Side,
    /// The connection to the target.
    out: Side,
    /// Times that ECE to the side that is asked began; those that CWR answered.
    ece_signals: u64,
    ece_answers: u64,
    /// Why signals are of no use; null where they are, or where there are none.
    fallback: Option<String>,
}

/// All flows together.
#[derive(Debug, Default, Serialize)]
struct Total {
    flows: u64,
    onward: Direction,
    back: Direction,
    ece_signals: u64,
}

/// One direction, of a flow or of all.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Direction {
    bytes: u64,
    /// Since the last time; null at the first.
    bytes_per_s: Option<f64>,
    backlog_bytes: u64,
    /// Null where the other side has not been measured; of all flows the longest.
    backlog_ms: Option<f64>,
}

/// A connection, as the relay's kernel sends there.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Side {
    cwnd_packets: u64,
    srtt_ms: f64,
    /// Time with data to send, and what of it the peer's window and a full send buffer stopped.
    busy_s: f64,
    rwnd_limited_s: f64,
    sndbuf_limited_s: f64,
    /// The same as shares of the time since the last time; null at the first.
    busy_share: Option<f64>,
    rwnd_limited_share: Option<f64>,
    sndbuf_limited_share: Option<f64>,
}

/// A line of JSON says of what it is.
#[derive(Serialize)]
struct Line<'a, T> {
    kind: &'static str,
    #[serde(flatten)]
    of: &'a T,
}

impl Told {
    /// Reads OpenMetrics text.
    pub(super) fn read(text: &str) -> Told {
        let mut told = Told::default();
        for line in text.lines() {
            if let Some((name, labels, value)) = sample(line) {
                told.take(name, &labels, value);
            }
        }
        told
    }

    fn take(&mut self, name: &str, labels: &BTreeMap<&str, &str>, value: f64) {
        let label = |key: &str| labels.get(key).copied().unwrap_or_default();
        let Ok(number) = label("flow").parse() else {
            self.total.take(name, label("direction"), value);
            return;
        };
        let flow = self.flows.entry(number).or_insert_with(|| Flow {
            flow: number.to_string(),
            client: label("client").to_owned(),
            target: label("target").to_owned(),
            ..Flow::default()
        });
        if let Some(name) = name.strip_prefix("side_") {
            match label("side") {
                "out" => flow.out.take(name, value),
                _ => flow.r#in.take(name, value),
            }
            return;
        }
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

    /// Reckons rates and shares since `before`, so long ago.
    pub(super) fn compare(&mut self, before: &Told, passed: Duration) {
        let seconds = passed.as_secs_f64().max(1e-3);
        for (number, flow) in &mut self.flows {
            if let Some(old) = before.flows.get(number) {
                flow.onward.compare(&old.onward, seconds);
                flow.back.compare(&old.back, seconds);
                flow.r#in.compare(&old.r#in, seconds);
                flow.out.compare(&old.out, seconds);
            }
        }
        let old = &before.total;
        self.total.onward.compare(&old.onward, seconds);
        self.total.back.compare(&old.back, seconds);
    }

    /// A line for each flow, and one for all of them.
    pub(super) fn lines(&self) -> Vec<String> {
        let flows = self.flows.values().map(Flow::line);
        flows.chain([self.total.line()]).collect()
    }

    /// The same as JSON.
    ///
    /// # Errors
    /// None is known: all values have a form in JSON.
    pub(super) fn json(&self) -> Result<Vec<String>> {
        let flow = |of| serde_json::to_string(&Line { kind: "flow", of });
        let mut lines: Vec<String> = self.flows.values().map(flow).collect::<Result<_, _>>()?;
        lines.push(serde_json::to_string(&Line {
            kind: "total",
            of: &self.total,
        })?);
        Ok(lines)
    }
}

/// The name of a relay's family, the labels and the value of a line of OpenMetrics text, if it has one.
/// Labels of a relay's flows have no quotes or commas in them.
fn sample(line: &str) -> Option<(&str, BTreeMap<&str, &str>, f64)> {
    let (rest, value) = line.strip_prefix("wansan_relay_")?.rsplit_once(' ')?;
    let (name, labels) = rest.split_once('{').unwrap_or((rest, ""));
    let labels = labels.trim_end_matches('}').split(',').filter_map(|label| {
        let (key, value) = label.split_once('=')?;
        Some((key, value.trim_matches('"')))
    });
    Some((name, labels.collect(), value.trim().parse().ok()?))
}

impl Total {
    fn take(&mut self, name: &str, direction: &str, value: f64) {
        let way = match direction {
            "back" => &mut self.back,
            _ => &mut self.onward,
        };
        match name {
            "flows" => self.flows = value as u64,
            "ece_signals_total" => self.ece_signals = value as u64,
            "bytes_total" => way.bytes = value as u64,
            "backlog_bytes" => way.backlog_bytes = value as u64,
            "backlog_max_seconds" => way.backlog_ms = Some(value * 1e3),
            _ => {}
        }
    }

    fn line(&self) -> String {
        let (onward, back) = (self.onward.words("at most "), self.back.words("at most "));
        let ece = self.ece_signals;
        format!("{} flows: {onward}; back {back}; ECE {ece}", self.flows)
    }
}

impl Direction {
    fn compare(&mut self, before: &Direction, seconds: f64) {
        let moved = self.bytes.saturating_sub(before.bytes);
        self.bytes_per_s = Some(moved as f64 / seconds);
    }

    /// `bound` stands before the time, where it is that of the slowest.
    fn words(&self, bound: &str) -> String {
        let rate = self
            .bytes_per_s
            .map_or("-".to_owned(), |rate| format!("{:.1} Mbit/s", rate * 8e-6));
        let time = self
            .backlog_ms
            .map_or("?".to_owned(), |ms| format!("{bound}{ms:.1} ms"));
        let bytes = format_bytes(self.backlog_bytes);
        format!("{rate}, backlog {bytes}, {time}")
    }
}

impl Side {
    fn take(&mut self, name: &str, value: f64) {
        match name {
            "cwnd_packets" => self.cwnd_packets = value as u64,
            "round_trip_seconds" => self.srtt_ms = value * 1e3,
            "busy_seconds_total" => self.busy_s = value,
            "rwnd_limited_seconds_total" => self.rwnd_limited_s = value,
            "sndbuf_limited_seconds_total" => self.sndbuf_limited_s = value,
            _ => {}
        }
    }

    fn compare(&mut self, before: &Side, seconds: f64) {
        let share = |now: f64, then: f64| Some(((now - then) / seconds).clamp(0.0, 1.0));
        self.busy_share = share(self.busy_s, before.busy_s);
        self.rwnd_limited_share = share(self.rwnd_limited_s, before.rwnd_limited_s);
        self.sndbuf_limited_share = share(self.sndbuf_limited_s, before.sndbuf_limited_s);
    }

    fn words(&self) -> String {
        let mut words = format!("cwnd {}, RTT {:.1} ms", self.cwnd_packets, self.srtt_ms);
        for (what, share) in [
            ("busy", self.busy_share),
            ("rwnd-limited", self.rwnd_limited_share),
            ("sndbuf-limited", self.sndbuf_limited_share),
        ] {
            if let Some(share) = share.filter(|share| *share >= 0.005) {
                words += &format!(", {what} {:.0} %", share * 1e2);
            }
        }
        words
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
        let (onward, back) = (self.onward.words(""), self.back.words(""));
        let (inward, outward) = (self.r#in.words(), self.out.words());
        let mut line = format!(
            "{flow} {client} > {target} {law}: {onward}; back {back}; in {inward}; out {outward}"
        );
        if self.ece_signals > 0 {
            line += &format!("; ECE {}, CWR {}", self.ece_signals, self.ece_answers);
        }
        if let Some(reason) = &self.fallback {
            let what = if law.starts_with("ece-") {
                "not held"
            } else {
                "window alone"
            };
            line += &format!("; {what} ({reason})");
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: &str = r#"flow="7",listen="[::1]:0",client="[::1]:40",target="[::1]:50""#;

    #[test]
    fn flows_and_their_sums_are_found_among_counters() {
        let text = format!(
            "# TYPE wansan_relay_flows gauge\n\
             wansan_relay_flows 3\n\
             wansan_relay_ece_signals_total 9\n\
             wansan_relay_bytes_total{{direction=\"onward\"}} 1000000\n\
             wansan_relay_backlog_bytes{{direction=\"back\"}} 700\n\
             wansan_relay_backlog_max_seconds{{direction=\"back\"}} 1.5\n\
             wansan_relay_flow_bytes_total{{{ENDS},direction=\"onward\"}} 1000\n\
             wansan_relay_flow_bytes_total{{{ENDS},direction=\"back\"}} 30\n\
             wansan_relay_flow_backlog_bytes{{{ENDS},direction=\"onward\",queue=\"send\"}} 200\n\
             wansan_relay_flow_backlog_bytes{{{ENDS},direction=\"onward\",queue=\"relay\"}} 300\n\
             wansan_relay_flow_backlog_seconds{{{ENDS},direction=\"onward\"}} 0.02\n\
             wansan_relay_flow_law{{{ENDS},law=\"arrival\"}} 1\n\
             wansan_relay_flow_ece_signals_total{{{ENDS}}} 4\n\
             wansan_relay_flow_fallback{{{ENDS},reason=\"no_ecn\"}} 0\n\
             wansan_relay_flow_fallback{{{ENDS},reason=\"powerless\"}} 1\n\
             wansan_relay_side_cwnd_packets{{{ENDS},side=\"in\"}} 10\n\
             wansan_relay_side_cwnd_packets{{{ENDS},side=\"out\"}} 250\n\
             wansan_relay_side_round_trip_seconds{{{ENDS},side=\"out\"}} 0.04\n\
             wansan_relay_side_busy_seconds_total{{{ENDS},side=\"out\"}} 2.0\n\
             wansan_relay_side_rwnd_limited_seconds_total{{{ENDS},side=\"out\"}} 0.5\n"
        );
        let mut told = Told::read(&text);
        let mut before = Told::default();
        before.flows.insert(7, Flow::default());
        told.compare(&before, Duration::from_secs(2));
        assert_eq!(
            told.lines(),
            [
                "7 [::1]:40 > [::1]:50 arrival: 0.0 Mbit/s, backlog 500B, 20.0 ms; \
                 back 0.0 Mbit/s, backlog 0B, ?; in cwnd 10, RTT 0.0 ms; \
                 out cwnd 250, RTT 40.0 ms, busy 100 %, rwnd-limited 25 %; \
                 ECE 4, CWR 0; window alone (powerless)",
                "3 flows: 4.0 Mbit/s, backlog 0B, ?; \
                 back 0.0 Mbit/s, backlog 700B, at most 1500.0 ms; ECE 9"
            ]
        );
        let json = told.json().unwrap();
        let json: Vec<serde_json::Value> = json
            .iter()
            .map(|it| serde_json::from_str(it).unwrap())
            .collect();
        assert_eq!(json[0]["kind"], "flow");
        assert_eq!(json[0]["onward"]["bytes_per_s"], 500.0);
        assert_eq!(json[0]["in"]["cwnd_packets"], 10);
        assert_eq!(json[0]["out"]["rwnd_limited_share"], 0.25);
        assert_eq!(json[1]["kind"], "total");
        assert_eq!(json[1]["back"]["backlog_ms"], 1500.0);
    }
}
