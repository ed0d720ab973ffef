//! A plan of the lab, carried out in a guest that has our binary.

use serde_json::Value;
use wansan_peers::guest::Guest;

use crate::stage::Stop;

/// results.json and manifest.json of a run.
pub(super) struct Ran {
    pub(super) results: Value,
    pub(super) manifest: Value,
}

impl Ran {
    pub(super) fn parse(results: &str, manifest: &str) -> Result<Ran, Stop> {
        let parse = |text: &str| {
            serde_json::from_str(text).map_err(|error| Stop::Failed(format!("{error}: {text}")))
        };
        Ok(Ran {
            results: parse(results)?,
            manifest: parse(manifest)?,
        })
    }
}

/// Runs `plan`, which has no apostrophes, as NAME.toml.
pub(super) fn run(guest: &mut Guest, name: &str, plan: &str) -> Result<Ran, Stop> {
    let lines: Vec<String> = plan.lines().map(|line| format!("'{line}'")).collect();
    let lines = lines.join(" ");
    guest.run(&format!("printf '%s\\n' {lines} >/run/{name}.toml"))?;
    let run = format!("cd /run && wansan lab run {name}.toml --out runs >log 2>&1");
    guest.run(&format!("({run}) || {{ cat /run/log; false; }}"))?;
    let mut read = |file: &str| guest.run(&format!("cat /run/runs/{name}/*/{file}"));
    Ran::parse(&read("results.json")?, &read("manifest.json")?)
}
