//! How plans and users get controls.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use wansan_peers::trial::{Stop, require};

use super::lab::{Kept, Scene, good, wansan};

/// Nobody, who may load nothing.
pub(crate) const NOBODY: u32 = 65_534;

fn available(name: &str) -> Result<bool, Stop> {
    let setting = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    Ok(fs::read_to_string(setting)?
        .split_whitespace()
        .any(|other| other == name))
}

fn short(control: &'static str) -> Scene {
    Scene {
        control,
        delay_ms: 1,
        time_ms: 2000,
        ..Scene::default()
    }
}

/// The namespaces of the plan's hosts have it too.
pub(crate) fn of_a_plan() -> Result<(), Stop> {
    let scratch = tempfile::tempdir()?;
    short("wansan_scal").run_in(scratch.path())?;
    let manifest = manifest(scratch.path())?;
    let facts = &manifest["cells"][0]["congestion_control"];
    let loaded =
        json!({"name": "wansan_scal", "origin": "lab", "parameters": {"count": "packets"}});
    require(*facts == loaded, || facts.to_string())?;
    let nodes = manifest["cells"][0]["nodes"].as_array();
    let nodes = nodes.filter(|nodes| nodes.len() >= 2);
    let nodes = nodes.ok_or_else(|| Stop::Failed("the hosts are not told".to_owned()))?;
    for node in nodes {
        let used = &node["settings"]["net.ipv4.tcp_congestion_control"];
        require(used == "wansan_scal", || format!("a host uses {used}"))?;
    }
    require(!available("wansan_scal")?, || {
        "it is still there".to_owned()
    })
}

/// Each cell has the parameters that the plan gives it, and what others have loaded is used only if it
/// has them too.
pub(crate) fn with_parameters() -> Result<(), Stop> {
    let scene = Scene {
        of_tcp: "control = { low_window = 8, low_loss = 0.02, high_loss = 1e-4, high_decrease = 0.2 }",
        time_ms: 300,
        ..short("wansan_hstcp")
    };
    let scratch = tempfile::tempdir()?;
    let swept = scene.plan() + "[sweep]\ntcp.control.high_window = [400, 4000]\n";
    let lab = |text: &str| {
        fs::write(scratch.path().join("trial.toml"), text)?;
        Ok::<_, Stop>(run_lab(scratch.path(), None)?)
    };
    good(&lab(&swept)?)?;
    let all = manifest(scratch.path())?;
    for (cell, high_window) in [(0, 400.0), (1, 4000.0)] {
        let facts = &all["cells"][cell]["congestion_control"];
        let parameters = json!({
            "count": "packets", "low_window": 8.0, "high_window": high_window,
            "low_loss": 0.02, "high_loss": 1e-4, "high_decrease": 0.2,
        });
        require(
            facts["origin"] == "lab" && facts["parameters"] == parameters,
            || facts.to_string(),
        )?;
    }
    fs::remove_dir_all(scratch.path().join("runs"))?;

    let _kept = Kept::load("wansan_hstcp", &["--high-window", "400"])?;
    let refused = lab(&swept)?;
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    require(
        refused.status.code() == Some(2) && told.contains("loaded already, with other parameters"),
        || told,
    )?;
    let same = Scene {
        of_tcp: "control.high_window = 400",
        ..scene
    };
    good(&lab(&same.plan())?)?;
    let facts = &manifest(scratch.path())?["cells"][0]["congestion_control"];
    require(
        facts["origin"] == "before" && facts["parameters"]["high_window"] == 400.0,
        || facts.to_string(),
    )
}

/// That of the only run of the plan in `folder`.
fn manifest(folder: &Path) -> Result<Value, Stop> {
    let run = fs::read_dir(folder.join("runs/trial"))?.flatten().next();
    let run = run.ok_or_else(|| Stop::Failed("there is no run folder".to_owned()))?;
    serde_json::from_slice(&fs::read(run.path().join("manifest.json"))?)
        .map_err(|error| Stop::Failed(error.to_string()))
}

/// From loading to unloading, with all that can be wrong.
pub(crate) fn by_hand() -> Result<(), Stop> {
    let kept = Kept::load(
        "wansan_hstcp",
        &["--high-window", "40000", "--max-ssthresh", "100"],
    )?;
    let shown = asked(&["cc", "show", "wansan_hstcp", "--json"])?;
    require(
        shown["state"] == "kept"
            && shown["options"]["highspeed"]["high_window"] == 40_000.0
            && shown["options"]["max_ssthresh"] == 100,
        || shown.to_string(),
    )?;
    {
        let marks = wansan_tcp::ece::EceSignal::load();
        let marks = marks.map_err(|error| Stop::Failed(error.to_string()))?;
        let listed = asked(&["cc", "list", "--json"])?;
        let of = |name: &str| {
            let mut all = listed.as_array().into_iter().flatten();
            all.find(|control| control["name"] == name)
                .cloned()
                .unwrap_or_default()
        };
        require(of("wansan_hstcp")["state"] == "kept", || listed.to_string())?;
        require(of("reno")["state"] == "kernel", || listed.to_string())?;
        require(of(marks.name())["state"] == "held", || listed.to_string())?;
    }
    refused(&["cc", "load", "wansan_hstcp"], "loaded already")?;

    // What root has loaded, anybody's plan can use.
    let scratch = tempfile::tempdir()?;
    std::os::unix::fs::chown(scratch.path(), Some(NOBODY), Some(NOBODY))?;
    as_nobody(scratch.path(), "wansan_hstcp", None)?;
    as_nobody(
        scratch.path(),
        "wansan_scal",
        Some("wansan cc load wansan_scal"),
    )?;

    // Where it is what new connections get, they get it afterwards as well.
    let mut elsewhere = Command::new("unshare")
        .args(["--net", "sh", "-c"])
        .arg(
            "echo wansan_hstcp > /proc/sys/net/ipv4/tcp_congestion_control && echo set && exec cat",
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut word = [0; 4];
    let set = elsewhere
        .stdout
        .take()
        .map(|mut out| out.read_exact(&mut word));
    let unloaded = wansan(&["cc", "unload", "wansan_hstcp"])?;
    drop(elsewhere.stdin.take());
    elsewhere.wait()?;
    if let Some(set) = set {
        set?;
    }
    good(&unloaded)?;
    let told = String::from_utf8_lossy(&unloaded.stdout).into_owned();
    require(told.contains("1 network namespace still gives it"), || told)?;
    drop(kept);
    refused(&["cc", "unload", "wansan_hstcp"], "not loaded")?;
    refused(
        &["cc", "load", "wansan_reno", "--low-window", "5"],
        "wansan_hstcp does",
    )?;
    refused(
        &["cc", "load", "wansan_reno", "--max-ssthresh", "1"],
        "2 segments or more",
    )?;
    refused(
        &["cc", "load", "wansan_hstcp", "--high-loss", "0.5"],
        "do not fit",
    )?;
    refused(&["cc", "load", "nonsense"], "not one of wansan's")?;
    require(!available("wansan_hstcp")?, || {
        "it is still there".to_owned()
    })
}

fn asked(arguments: &[&str]) -> Result<Value, Stop> {
    let output = wansan(arguments)?;
    good(&output)?;
    serde_json::from_slice(&output.stdout).map_err(|error| Stop::Failed(error.to_string()))
}

/// Exit status 2 and one line that says `why`.
fn refused(arguments: &[&str], why: &str) -> Result<(), Stop> {
    let output = wansan(arguments)?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let holds = output.status.code() == Some(2) && told.lines().count() == 1 && told.contains(why);
    require(holds, || format!("{arguments:?}: {told}"))
}

/// Runs the plan that is in `folder`, as that user if one is given.
fn run_lab(folder: &Path, user: Option<u32>) -> std::io::Result<Output> {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_wansan"));
    lab.args(["lab", "run", "trial.toml"]).current_dir(folder);
    if let Some(user) = user {
        lab.uid(user).gid(user);
    }
    lab.output()
}

/// Runs a plan as an ordinary user; it goes well, or is refused with a line that says `why`. Where
/// such a user may make no namespaces, nothing can be said.
fn as_nobody(folder: &Path, control: &'static str, why: Option<&str>) -> Result<(), Stop> {
    fs::write(folder.join("trial.toml"), short(control).plan())?;
    let output = run_lab(folder, Some(NOBODY))?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    match why {
        _ if told.contains("namespace") => Ok(()),
        None => good(&output),
        Some(why) => require(
            output.status.code() == Some(2) && told.contains(why) && told.contains("need root"),
            || told,
        ),
    }
}
