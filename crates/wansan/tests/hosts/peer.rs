//! `wansan diagnose --peer`: the other end of the path looks, too.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::stage::{DELAY, LONG, Stage, WANSAN, check, text};

/// What the target's store takes for an I/O, in ms; its host's ways take 4 ms each.
const STORES_MS: [u64; 2] = [30, 0];

/// With a slow store the target has the I/Os, and with a quick one the path. What was recorded is explained by itself.
pub(crate) fn both_ends(stage: &Stage) -> Result<(), String> {
    for (port, store_ms) in (3260..).zip(STORES_MS) {
        let told = diagnosed(stage, port, store_ms)?;
        let both = &told["sessions"][0]["both_ends"];
        let ns = |name: &str| both[name].as_f64().unwrap_or(f64::NAN);
        check(ns("ios") >= 10.0, || told.to_string())?;
        let (way_ns, path_ns) = (DELAY.as_nanos() as f64, ns("there_ns") + ns("back_ns"));
        check(path_ns >= 2.0 * way_ns, || both.to_string())?;
        check(ns("target_ns") >= 1e6 * store_ms as f64, || {
            both.to_string()
        })?;
        // With a quick store, a busy computer may well keep the target's program longer than the path takes.
        let is_of_target = ns("target_ns") > path_ns;
        check(is_of_target || store_ms == 0, || both.to_string())?;
        // The clocks of the hosts of one computer are one.
        check(ns("ahead_ns").abs() <= ns("between_ns"), || {
            both.to_string()
        })?;
        let there = told["peer"]["diagnosis"]["sessions"].as_array();
        check(there.is_some_and(|there| there.len() == 1), || {
            told["peer"].to_string()
        })?;
        let recorded = stage.path(&format!("recorded-{port}"));
        let mut explain = Command::new(WANSAN);
        let explained = explain.arg("explain").arg(&recorded).arg("--json").output();
        let explained = explained.map_err(text)?;
        let explained: Value = serde_json::from_slice(&explained.stdout).map_err(text)?;
        let ios = &explained["planned"][0]["summary"]["total"]["ios"];
        check(ios.as_u64() >= Some(10), || explained.to_string())?;
        fs::remove_dir_all(recorded).map_err(text)?;
    }
    Ok(())
}

/// What is said at the initiator's end, with a load.
fn diagnosed(stage: &Stage, port: u16, store_ms: u64) -> Result<Value, String> {
    const NAME: &str = "iqn.2026-11.net.example:it";
    let portal = format!("{}:{port}", stage.node("storage").address());
    let store = match store_ms {
        0 => "memory:16MiB".to_owned(),
        ms => format!("memory:16MiB,service-time={ms}ms,servers=8"),
    };
    let mut target = Command::new(WANSAN);
    target.args([
        "target", "--json", "--listen", &portal, "--name", NAME, "--lun", &store,
    ]);
    let mut target = stage
        .node("storage")
        .start("the target", target)
        .map_err(text)?;
    target.line("listen", LONG).map_err(text)?;
    let mut bench = Command::new(WANSAN);
    bench.args([
        "bench",
        &format!("iscsi://{portal}/{NAME}/0"),
        "--json",
        "--time",
        "60s",
    ]);
    bench.args(["--op", "read", "--block", "4KiB", "--parallel", "4"]);
    let bench = stage
        .node("client")
        .start("the bench", bench)
        .map_err(text)?;
    let mut diagnose = Command::new(WANSAN);
    diagnose.args([
        "diagnose",
        "--for",
        "2s",
        "--json",
        "--peer",
        "ssh://storage",
    ]);
    diagnose.args(["--port", &port.to_string()]);
    diagnose.arg("--ssh-config").arg(stage.path("ssh_config"));
    diagnose
        .arg("--record")
        .arg(stage.path(&format!("recorded-{port}")));
    let diagnose = stage
        .node("client")
        .start("diagnose", diagnose)
        .map_err(text)?;
    let told = diagnose.succeed(LONG).map_err(text)?.join("\n");
    // They are not waited for: dropped, they are killed.
    drop((bench, target));
    serde_json::from_str(&told).map_err(text)
}
