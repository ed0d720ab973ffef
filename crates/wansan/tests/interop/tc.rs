//! What a plan's paths by netem are told, read by tc(8) itself.

use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;
use wansan_lab::plan::NetemSetting;
use wansan_lab::plan::{Phase, Plan};
use wansan_peers::process::run;
use wansan_peers::program::find;
use wansan_peers::trial::trial;

use crate::stage::{LIMIT, Stop, require};

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("tc::takes_what_netem_is_told", takes)]
}

/// Paths with everything that netem can do.
const PATHS: [&str; 7] = [
    r#"delay = "0ms""#,
    r#"delay = "12500ns""#,
    r#"delay = "20ms", jitter = { kind = "uniform", spread = "1500us", reorder = true }"#,
    r#"delay = "60s", jitter = { kind = "normal", deviation = "2s", reorder = true }"#,
    r#"rate = "5Gbit/s", queue = "100packets", overhead = "24B", loss = "0.0000001%""#,
    r#"loss = { kind = "gilbert-elliott", p = "1%", r = "30%", good = "0.1%", bad = "99.9%" }"#,
    r#"reorder = { share = "1%", by = "5ms" }, duplicate = "0.1%", corrupt = "100%""#,
];

/// tc reads its arguments, and then finds that there is no such interface, which needs no rights.
fn takes() -> Result<(), Stop> {
    let tc = find("tc")?;
    for path in PATHS {
        let setting = setting(path).map_err(Stop::Failed)?;
        let mut command = Command::new(&tc);
        command.args("qdisc add dev nowhere root netem".split(' '));
        let said = run(command.args(setting.split(' ')), LIMIT)?;
        require(said.stderr.contains("Cannot find device"), || {
            format!("{path} as `{setting}`: {}", said.output())
        })?;
    }
    Ok(())
}

/// What netem is told for a path with these keys.
fn setting(keys: &str) -> Result<String, String> {
    let plan = format!(
        r#"
title = "netem"
world = {{ emulator = "netem" }}
host = [{{ name = "client" }}, {{ name = "storage" }}]
path = [{{ between = ["client", "storage"], {keys} }}]
target = {{ host = "storage", luns = ["memory:1MiB"] }}
initiator = [{{ host = "client" }}]
workload = {{ op = "read", block = "4KiB", time = "1s" }}
trace = {{ kinds = ["io"] }}
"#
    );
    let cells = Plan::parse(Path::new("netem.toml"), &plan)
        .and_then(|plan| plan.cells(Phase::Planned, &[]))
        .map_err(|error| error.to_string())?;
    let direction = &cells[0].scenario.links[0].forward;
    let setting = NetemSetting::of(direction, 1500).map_err(|no| no.what)?;
    Ok(setting.to_string())
}
