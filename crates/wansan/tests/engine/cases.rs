//! What runs, and what is refused.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use wansan_peers::trial::{Stop, require};

use crate::stage::{Stage, WANSAN, ends_with, failed, json, until};

/// A simulated plan; `more` stands at its end.
fn simulated(time: &str, more: &str) -> String {
    format!(
        "title = \"Trial\"\nseed = 7\nrepeat = 2\n[world]\nkind = \"sim\"\n\
         [[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
         [[path]]\nname = \"wan\"\nbetween = [\"a\", \"b\"]\ndelay = \"5ms\"\nrate = \"100Mbit/s\"\n\
         queue = \"256KiB\"\nloss = \"0.2%\"\njitter = {{ kind = \"file\", file = \"files/jitter.csv\" }}\n\
         [target]\nhost = \"a\"\nluns = [\"memory:1MiB\"]\n[[initiator]]\nhost = \"b\"\n\
         [workload]\nop = \"read\"\npattern = \"random\"\nblock = \"4KiB\"\ntime = \"{time}\"\n{more}"
    )
}

fn write_plan(stage: &Stage, text: &str) -> Result<PathBuf, Stop> {
    fs::create_dir_all(stage.path("files"))?;
    fs::write(stage.path("files/jitter.csv"), "0us\n100us\n250us\n1ms\n")?;
    stage.plan(text)
}

/// Every file of a run's cells, and its results.
fn given(run: &Path) -> Result<BTreeMap<String, Vec<u8>>, Stop> {
    let mut files = BTreeMap::new();
    files.insert(
        "results.json".to_owned(),
        fs::read(run.join("results.json"))?,
    );
    for entry in fs::read_dir(run)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with("cell-") {
            continue;
        }
        for file in fs::read_dir(entry.path())?.flatten() {
            let file_name = file.file_name().to_string_lossy().into_owned();
            files.insert(format!("{name}/{file_name}"), fs::read(file.path())?);
        }
    }
    Ok(files)
}

/// Fails unless both runs have the same files with the same bytes in them.
fn is_same(here: &Path, there: &Path) -> Result<(), Stop> {
    let (here, there) = (given(here)?, given(there)?);
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    require(names(&here) == names(&there), || {
        format!("{:?}, and there {:?}", names(&here), names(&there))
    })?;
    let other = here.iter().find(|(name, bytes)| there[*name] != **bytes);
    require(other.is_none(), || {
        format!("{} is another one", other.map_or("", |(name, _)| name))
    })?;
    require(here.len() > 8, || format!("only {:?}", names(&here)))
}

/// How many cells each worker has run.
fn shares(run: &Path) -> Result<BTreeMap<String, usize>, Stop> {
    let manifest = json(&run.join("manifest.json"))?;
    let mut shares = BTreeMap::new();
    for worker in manifest["workers"].as_array().into_iter().flatten() {
        let known = ["wansan_version", "wansan_sha256", "machine", "clock_anchor"];
        let is_known = known.iter().all(|key| !worker[*key].is_null());
        require(is_known, || worker.to_string())?;
        shares.insert(worker["worker"].to_string(), 0);
    }
    for cell in manifest["cells"].as_array().into_iter().flatten() {
        let worker = shares.get_mut(&cell["worker"].to_string());
        *worker.ok_or_else(|| failed(format!("no worker: {cell}")))? += 1;
    }
    Ok(shares)
}

pub(crate) fn same(stage: &mut Stage) -> Result<(), Stop> {
    for _ in 0..3 {
        stage.add_worker(&[], None)?;
    }
    let plan = write_plan(
        stage,
        &simulated(
            "300ms",
            "[sweep]\nworkload.parallel = [1, 4, 16]\npath.wan.delay = [\"2ms\", \"9ms\"]\n\
             [[expect]]\nmetric = \"cells.iops\"\nat_least = 1\n",
        ),
    )?;
    ends_with(&mut stage.lab(&plan, "here", &[]), 0)?;
    ends_with(&mut stage.remote(&plan, "there", &[]), 0)?;
    let there = stage.run_in("there")?;
    is_same(&stage.run_in("here")?, &there)?;
    let shares = shares(&there)?;
    let all: usize = shares.values().sum();
    require(all == 12 && shares.len() > 1, || format!("{shares:?}"))?;
    require(there.join("report.html").exists(), || {
        "no report".to_owned()
    })?;
    // Nothing is left on the workers.
    until("the copies are gone", || stage.copies().is_empty())
}

/// What a worker has loaded that is killed, as the kernel does when memory is short, as soon as it has started a cell: those
/// run in threads, apart from what the lab asks a worker before.
const KILLED_AT_WORK: &str = "
import os, signal, subprocess, threading


class Popen(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        if threading.current_thread() is not threading.main_thread():
            os.kill(os.getpid(), signal.SIGKILL)


subprocess.Popen = Popen
";

pub(crate) fn killed(stage: &mut Stage) -> Result<(), Stop> {
    let preload = stage.path("killed_at_work.py");
    fs::write(&preload, KILLED_AT_WORK)?;
    stage.add_worker(&[], None)?;
    stage.add_worker(&["--preload", &preload.to_string_lossy()], None)?;
    stage.add_worker(&[], None)?;
    let plan = write_plan(
        stage,
        &simulated("300ms", "[sweep]\nworkload.parallel = [1, 4, 16, 32]\n"),
    )?;
    ends_with(&mut stage.lab(&plan, "here", &[]), 0)?;
    ends_with(&mut stage.remote(&plan, "there", &[]), 0)?;
    require(stage.was_killed(1)?, || {
        "the worker had no cell to run".to_owned()
    })?;
    let there = stage.run_in("there")?;
    is_same(&stage.run_in("here")?, &there)?;
    let shares = shares(&there)?;
    let all: usize = shares.values().sum();
    require(all == 8, || format!("{shares:?}"))
}

pub(crate) fn advised(stage: &mut Stage) -> Result<(), Stop> {
    stage.add_worker(&[], None)?;
    stage.add_worker(&[], None)?;
    let text = simulated("500ms", "[sweep]\nworkload.parallel = [8, 64]\n");
    let text = text
        .replace("repeat = 2", "apply_advice = true")
        .replace("loss = \"0.2%\"\n", "")
        .replace(
            "luns = [\"memory:1MiB\"]",
            "luns = [\"memory:1MiB\"]\ncommand_window = 4",
        );
    let plan = write_plan(stage, &text)?;
    ends_with(&mut stage.lab(&plan, "here", &[]), 0)?;
    ends_with(&mut stage.remote(&plan, "there", &[]), 0)?;
    let there = stage.run_in("there")?;
    is_same(&stage.run_in("here")?, &there)?;
    let results = json(&there.join("results.json"))?;
    require(results["cells"][3]["phase"] == "advised", || {
        results["advised"].to_string()
    })
}

pub(crate) fn failing(stage: &mut Stage) -> Result<(), Stop> {
    stage.add_worker(&[], None)?;
    stage.add_worker(&[], None)?;
    let text = simulated(
        "300ms",
        "[sweep]\npath.wan.loss = [\"0%\", \"100%\", \"0.1%\"]\n",
    );
    let plan = write_plan(stage, &text.replace("repeat = 2\n", ""))?;
    let here = ends_with(&mut stage.lab(&plan, "here", &[]), 2)?;
    let there = ends_with(&mut stage.remote(&plan, "there", &[]), 2)?;
    is_same(&stage.run_in("here")?, &stage.run_in("there")?)?;
    let last = |stderr: &[u8]| {
        let said = String::from_utf8_lossy(stderr).into_owned();
        let line = said.lines().rfind(|line| line.starts_with("wansan: "));
        line.and_then(|line| line.split(" (see").next())
            .map(str::to_owned)
    };
    require(last(&here.stderr) == last(&there.stderr), || {
        format!("{:?}: {:?}", last(&here.stderr), last(&there.stderr))
    })
}

pub(crate) fn namespaces(stage: &mut Stage) -> Result<(), Stop> {
    // Whether there are any here is for others to test.
    let probe = Command::new("unshare")
        .args(["--user", "--net", "true"])
        .output()?;
    if !probe.status.success() {
        return Err(Stop::NotRun(
            "no network namespaces can be made here".to_owned(),
        ));
    }
    stage.add_worker(&[], None)?;
    let text = simulated("1s", "[sweep]\nworkload.parallel = [1, 4]\n");
    let text = text
        .replace("kind = \"sim\"", "kind = \"netns\"")
        .replace("repeat = 2\n", "");
    let plan = write_plan(stage, &text)?;
    says(
        &mut stage.remote(&plan, "there", &[]),
        &["no worker at dask://", "--resources netns=1"],
    )?;
    stage.add_worker(&["--resources", "netns=1"], None)?;
    ends_with(&mut stage.remote(&plan, "there", &[]), 0)?;
    let there = stage.run_in("there")?;
    let manifest = json(&there.join("manifest.json"))?;
    let workers = manifest["workers"].as_array().map_or(0, Vec::len);
    let nodes = manifest["cells"][1]["nodes"].as_array().map_or(0, Vec::len);
    require(workers == 1 && nodes == 2, || manifest["cells"].to_string())?;
    let results = json(&there.join("results.json"))?;
    let latency_ns = |cell: usize| results["cells"][cell]["latency_p50_ns"].as_f64();
    require(latency_ns(1) > Some(10e6), || results["cells"].to_string())?;
    require(there.join("cell-001/packet.parquet").exists(), || {
        "no packets were recorded".to_owned()
    })
}

pub(crate) fn other_build(stage: &mut Stage) -> Result<(), Stop> {
    let installed = stage.path("installed");
    fs::create_dir(&installed)?;
    let wansan = installed.join("wansan");
    let plan = write_plan(stage, &simulated("300ms", ""))?;
    stage.add_worker(&[], Some(&installed))?;
    let run = |stage: &Stage| stage.remote(&plan, "there", &["--no-copy"]);
    says(
        &mut run(stage),
        &["cannot run this wansan", "no wansan is on its PATH"],
    )?;
    // One of another version says so of itself.
    let hello = hello()?.replace(env!("CARGO_PKG_VERSION"), "0.0.1-old");
    fs::write(
        &wansan,
        format!("#!/bin/sh\necho '{hello}'\ncat > /dev/null\n"),
    )?;
    fs::set_permissions(&wansan, fs::Permissions::from_mode(0o755))?;
    says(
        &mut run(stage),
        &[
            "worker tcp://127.0.0.1:",
            "has wansan 0.0.1-old",
            "leave --no-copy out",
        ],
    )?;
    // The same one is taken.
    fs::remove_file(&wansan)?;
    std::os::unix::fs::symlink(WANSAN, &wansan)?;
    ends_with(&mut run(stage), 0)?;
    let there = stage.run_in("there")?;
    ends_with(&mut stage.lab(&plan, "here", &[]), 0)?;
    is_same(&stage.run_in("here")?, &there)?;
    // What is no program at all.
    fs::remove_file(&wansan)?;
    fs::write(&wansan, "\x7fELF of another computer")?;
    fs::set_permissions(&wansan, fs::Permissions::from_mode(0o755))?;
    says(
        &mut run(stage),
        &["cannot run this wansan (Exec format error)"],
    )
}

/// What this wansan says of itself.
fn hello() -> Result<String, Stop> {
    let mut cell = Command::new(WANSAN);
    let said = cell
        .args(["lab", "cell", "/nowhere"])
        .stdin(std::process::Stdio::null());
    let said = said.output()?;
    let hello = String::from_utf8(said.stdout).map_err(failed)?;
    let _: Value = serde_json::from_str(&hello).map_err(failed)?;
    require(!hello.contains('\''), || hello.clone())?;
    Ok(hello.trim().to_owned())
}

pub(crate) fn refused(stage: &mut Stage) -> Result<(), Stop> {
    let plan = write_plan(stage, &simulated("300ms", ""))?;
    let mut nobody = stage.lab(&plan, "there", &["--on", "dask://127.0.0.1:1"]);
    says(
        &mut nobody,
        &[
            "no scheduler answers at dask://127.0.0.1:1",
            "dask scheduler",
        ],
    )?;
    let mut other = stage.lab(&plan, "there", &["--on", "ray://head"]);
    let said = other.output()?;
    let stderr = String::from_utf8_lossy(&said.stderr);
    require(
        said.status.code() == Some(2) && stderr.contains("'ray://head' is no engine"),
        || stderr.clone().into_owned(),
    )?;
    // A Python that has nothing installed.
    let bare = stage.path("bare");
    fs::create_dir(&bare)?;
    let script = bare.join("python3");
    fs::write(
        &script,
        "#!/bin/sh\nexec /usr/bin/env -i PATH=/usr/bin:/bin python3 -S \"$@\"\n",
    )?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let mut without = stage.remote(&plan, "there", &[]);
    without.env("PATH", format!("{}:/usr/bin:/bin", bare.display()));
    says(&mut without, &["has no Dask", "pip install distributed"])?;
    without.env("PATH", stage.path("empty"));
    says(
        &mut without,
        &["cannot start python3", "pip install distributed"],
    )?;
    let above = fs::read_to_string(&plan)?.replace("files/jitter.csv", "../jitter.csv");
    fs::create_dir(stage.path("below"))?;
    fs::write(stage.path("jitter.csv"), "0us\n1ms\n")?;
    let above_plan = stage.path("below/trial.toml");
    fs::write(&above_plan, above)?;
    let mut above = stage.remote(&above_plan, "there", &[]);
    says(
        &mut above,
        &["the plan names the file `../jitter.csv`", "beside it"],
    )
}

/// Fails unless a lab refuses with one line that has these words, and leaves no run.
fn says(lab: &mut Command, words: &[&str]) -> Result<(), Stop> {
    let output = ends_with(lab, 2)?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = stderr
        .lines()
        .filter(|line| line.starts_with("wansan: "))
        .collect();
    let is_said = lines.len() == 1 && words.iter().all(|word| lines[0].contains(word));
    require(is_said, || stderr.clone().into_owned())
}
