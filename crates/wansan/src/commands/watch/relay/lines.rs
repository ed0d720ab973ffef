//! A relay's status as lines of text or JSON.

use serde::Serialize;
use wansan_relay::{DirectionStatus, FlowStatus, SideStatus, Status, TotalStatus};
use wansan_trace::units::format_bytes;

/// A line per flow, and one for the total.
pub(super) fn text(status: &Status) -> Vec<String> {
    let flows = status.flows.iter().map(flow);
    flows.chain([total(&status.total)]).collect()
}

/// The same as JSON, each line with its kind.
///
/// # Errors
/// None is known: all values can be expressed in JSON.
pub(super) fn json(status: &Status) -> serde_json::Result<Vec<String>> {
    #[derive(Serialize)]
    struct Line<'a, T> {
        kind: &'static str,
        #[serde(flatten)]
        of: &'a T,
    }
    let flow = |of| serde_json::to_string(&Line { kind: "flow", of });
    let mut lines: Vec<String> = status.flows.iter().map(flow).collect::<Result<_, _>>()?;
    lines.push(serde_json::to_string(&Line {
        kind: "total",
        of: &status.total,
    })?);
    Ok(lines)
}

fn total(total: &TotalStatus) -> String {
    let onward = direction(&total.onward, "at most ");
    let back = direction(&total.back, "at most ");
    let TotalStatus {
        flows, ece_signals, ..
    } = total;
    format!("{flows} flows: {onward}; back {back}; ECE {ece_signals}")
}

fn flow(status: &FlowStatus) -> String {
    let FlowStatus {
        flow,
        client,
        target,
        law,
        ..
    } = status;
    let (onward, back) = (direction(&status.onward, ""), direction(&status.back, ""));
    let (inward, outward) = (side(&status.r#in), side(&status.out));
    let mut line = format!(
        "{flow} {client} > {target} {law}: {onward}; back {back}; in {inward}; out {outward}"
    );
    if status.ece_signals > 0 {
        line += &format!("; ECE {}, CWR {}", status.ece_signals, status.ece_answers);
    }
    if let Some(reason) = &status.fallback {
        let what = if law.starts_with("ece-") {
            "not held"
        } else {
            "window alone"
        };
        line += &format!("; {what} ({reason})");
    }
    line
}

/// `bound` precedes the time if it is that of the slowest flow.
fn direction(status: &DirectionStatus, bound: &str) -> String {
    let rate = status
        .bytes_per_s
        .map_or("-".to_owned(), |rate| format!("{:.1} Mbit/s", rate * 8e-6));
    let time = status
        .backlog_ms
        .map_or("?".to_owned(), |ms| format!("{bound}{ms:.1} ms"));
    let bytes = format_bytes(status.backlog_bytes);
    format!("{rate}, backlog {bytes}, {time}")
}

fn side(status: &SideStatus) -> String {
    let mut words = format!("cwnd {}, RTT {:.1} ms", status.cwnd_packets, status.srtt_ms);
    for (what, share) in [
        ("busy", status.busy_share),
        ("rwnd-limited", status.rwnd_limited_share),
        ("sndbuf-limited", status.sndbuf_limited_share),
    ] {
        if let Some(share) = share.filter(|share| *share >= 0.005) {
            words += &format!(", {what} {:.0} %", share * 1e2);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_and_their_sums_have_a_line_each() {
        let status: Status = serde_json::from_value(serde_json::json!({
            "flows": [{
                "flow": "7", "client": "[::1]:40", "target": "[::1]:50", "law": "arrival",
                "onward": { "bytes": 1000, "bytes_per_s": 500.0, "backlog_bytes": 500, "backlog_ms": 20.0 },
                "back": { "bytes": 30, "bytes_per_s": 15.0, "backlog_bytes": 0, "backlog_ms": null },
                "in": { "cwnd_packets": 10, "srtt_ms": 0.0, "busy_s": 0.0, "rwnd_limited_s": 0.0,
                    "sndbuf_limited_s": 0.0, "busy_share": 0.0, "rwnd_limited_share": 0.0,
                    "sndbuf_limited_share": 0.0 },
                "out": { "cwnd_packets": 250, "srtt_ms": 40.0, "busy_s": 2.0, "rwnd_limited_s": 0.5,
                    "sndbuf_limited_s": 0.0, "busy_share": 1.0, "rwnd_limited_share": 0.25,
                    "sndbuf_limited_share": 0.0 },
                "ece_signals": 4, "ece_answers": 0, "fallback": "powerless",
            }],
            "total": {
                "flows": 3, "ece_signals": 9,
                "onward": { "bytes": 1_000_000, "bytes_per_s": 500e3, "backlog_bytes": 0, "backlog_ms": null },
                "back": { "bytes": 0, "bytes_per_s": 0.0, "backlog_bytes": 700, "backlog_ms": 1500.0 },
            },
        }))
        .unwrap();
        assert_eq!(
            text(&status),
            [
                "7 [::1]:40 > [::1]:50 arrival: 0.0 Mbit/s, backlog 500B, 20.0 ms; \
                 back 0.0 Mbit/s, backlog 0B, ?; in cwnd 10, RTT 0.0 ms; \
                 out cwnd 250, RTT 40.0 ms, busy 100 %, rwnd-limited 25 %; \
                 ECE 4, CWR 0; window alone (powerless)",
                "3 flows: 4.0 Mbit/s, backlog 0B, ?; \
                 back 0.0 Mbit/s, backlog 700B, at most 1500.0 ms; ECE 9"
            ]
        );
        let lines = json(&status).unwrap();
        let lines: Vec<serde_json::Value> = lines
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines[0]["kind"], "flow");
        assert_eq!(lines[0]["out"]["rwnd_limited_share"], 0.25);
        assert_eq!(lines[1]["kind"], "total");
        assert_eq!(lines[1]["back"]["backlog_ms"], 1500.0);
    }
}
