//! Hosts whose clocks show something else.

use std::collections::HashMap;

use serde_json::Value;
use wansan_trace::clock::OtherClock;
use wansan_trace::event::Crossing;
use wansan_trace::file::read_folder;
use wansan_trace::{Direction, Instant, Layer};

use crate::stage::{Stage, check, json, text};

/// By how much the clock of the target's host is ahead.
const AHEAD_NS: u64 = 5_000_000_000_000;

/// Every I/O is in order over both hosts, which it is not by the clocks as they are.
pub(crate) fn shifted(stage: &Stage) -> Result<(), String> {
    let before = format!(
        "unshare --time --monotonic {} --fork --kill-child",
        AHEAD_NS / 1_000_000_000
    );
    let _server = stage.serve("storage", "", 2222, &before)?;
    let ssh = format!("ssh://root@{}:2222", stage.node("storage").address());
    let plan = stage.plan(&ssh, "4s", "")?;
    let run = stage.run(&plan, &[])?;
    let manifest = json(&run.join("manifest.json"))?;
    let clocks = &manifest["cells"][0]["clocks"];
    let of = |host: &str| {
        let all = clocks.as_array().map(Vec::as_slice).unwrap_or_default();
        all.iter().find(|it| it["host"] == host).cloned()
    };
    let (storage, client) = (
        of("storage").ok_or("storage")?,
        of("client").ok_or("client")?,
    );
    check(
        client["by"] == "packets" && client["relative_to"] == "storage",
        || client.to_string(),
    )?;
    let clock = |facts: &Value| OtherClock {
        at: Instant::from_ns(facts["at_ns"].as_u64().unwrap_or_default()),
        ahead_ns: facts["ahead_ns"].as_i64().unwrap_or_default(),
        drift_ppb: facts["drift_ppb"].as_f64().unwrap_or_default(),
    };
    let of_client = clock(&client);
    // The truth is known here: both are one clock.
    let wrong_ns = (0..4)
        .map(|second| {
            let there_ns = of_client.at.ns() + second * 1_000_000_000;
            let of_storage = clock(&storage).here(Instant::from_ns(there_ns + AHEAD_NS));
            let of_client = of_client.here(Instant::from_ns(there_ns));
            of_storage.ns().abs_diff(of_client.ns())
        })
        .max()
        .unwrap_or(u64::MAX);
    let error_ns = client["error_ns"].as_u64().unwrap_or_default();
    check(wrong_ns <= error_ns && error_ns < 6_000_000, || {
        format!("wrong by {wrong_ns} ns: {clocks}")
    })?;
    check(wrong_ns < 1_000_000, || {
        format!("wrong by {wrong_ns} ns: {clocks}")
    })?;

    let table = read_folder::<Crossing>(&run.join("cell-000")).map_err(text)?;
    let mut times = HashMap::new();
    for row in table.ok_or("no records")?.rows {
        let it = row.record;
        times.insert((it.session, it.task, it.layer, it.direction), it.time.ns());
    }
    let mut whole = 0;
    for (&(session, task, layer, direction), &came_ns) in &times {
        if (layer, direction) != (Layer::Target, Direction::Enter) {
            continue;
        }
        let at = |layer, direction| times.get(&(session, task, layer, direction)).copied();
        let sent_ns = at(Layer::Window, Direction::Enter);
        let left_ns = at(Layer::Target, Direction::Leave);
        let answered_ns = at(Layer::Socket, Direction::Leave);
        if let (Some(sent_ns), Some(left_ns), Some(answered_ns)) = (sent_ns, left_ns, answered_ns) {
            let in_order = [sent_ns, came_ns, left_ns, answered_ns].is_sorted();
            check(in_order, || {
                format!("{sent_ns} {came_ns} {left_ns} {answered_ns}")
            })?;
            whole += 1;
        }
    }
    check(whole > 50, || {
        format!("only {whole} I/Os were seen by both hosts")
    })?;
    let results = json(&run.join("results.json"))?;
    let latency_ns = results["cells"][0]["latency_p50_ns"]
        .as_u64()
        .unwrap_or_default();
    check((8_000_000..80_000_000).contains(&latency_ns), || {
        format!("{latency_ns} ns")
    })
}
