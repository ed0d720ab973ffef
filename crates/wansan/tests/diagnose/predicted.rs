//! What changes are predicted to bring, and what they do bring.

use serde_json::Value;

use crate::cases::{CASES, Case};
use crate::world::{LONG, Loaded, begin, check, text};

/// How far what a change brings may be from what was predicted, as a share of the throughput.
const MOST_OFF: f64 = 0.1;

/// A command window is enlarged as it is advised.
pub(crate) fn predicted() -> Result<(), String> {
    let small = CASES[0];
    let told = [diagnosed(&small)?, diagnosed(&small)?];
    let gained = told.iter().find_map(|told| {
        let gain = told["changes"][0]["predicted"]["gain"]["median"].as_f64()?;
        Some((told, gain))
    });
    let said = || format!("{:#} {:#}", told[0]["changes"], told[1]["changes"]);
    let (told, gain) = gained.ok_or_else(|| format!("nothing is predicted: {}", said()))?;
    let settings = &told["changes"][0]["settings"];
    let is_it = |place: usize, parameter: &str| {
        let setting = &settings[place];
        setting["parameter"] == parameter && setting["value"] == "16"
    };
    let is_advised = is_it(0, "target.command_window") && is_it(1, "workload.parallel");
    check(is_advised, said)?;
    let large = Case {
        target: "--command-window 16",
        bench: "--op read --block 4KiB --parallel 16",
        ..small
    };
    let changed = diagnosed(&large)?;
    let iops = |told: &Value| told["iops"].as_f64().unwrap_or(0.0);
    let off = iops(&changed) / (iops(told) * (1.0 + gain)) - 1.0;
    check(off.abs() <= MOST_OFF, || {
        format!(
            "{} IOPS became {}, and {gain:+} was predicted: {}",
            iops(told),
            iops(&changed),
            said()
        )
    })
}

/// The diagnosis of the session, at the target.
fn diagnosed(case: &Case) -> Result<Value, String> {
    let loaded = Loaded::begin(case)?;
    // Windows have grown by then.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let [storage, _] = loaded.hosts();
    let told = begin(storage)?.succeed(LONG).map_err(text)?.join("\n");
    let told: Value = serde_json::from_str(&told).map_err(text)?;
    loaded.end()?;
    Ok(told["sessions"][0].clone())
}
