//! Timelines as Perfetto reads them: by its own schema, from PyPI. Its trace processor is a download of its own.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use libtest_mimic::Arguments;
use wansan_peers::process::run;
use wansan_peers::python::programs_with;
use wansan_peers::trial::{Stop, require, run_with, trial};

const LIMIT: Duration = Duration::from_secs(120);

/// Reads of which the first overflow the path's queue, so that windows change.
const PLAN: &str = r#"
title = "Trial"
world.kind = "sim"

[[host]]
name = "array"

[[host]]
name = "client"

[[path]]
between = ["client", "array"]
delay = "4ms"
rate = "20Mbit/s"
queue = "16KiB"

[target]
host = "array"
luns = ["memory:1MiB"]

[[initiator]]
host = "client"

[workload]
op = "read"
block = "64KiB"
parallel = 8
time = "300ms"
"#;

fn main() -> ExitCode {
    let name = "a timeline has the I/Os and windows of its records by Perfetto's own schema";
    run_with(&Arguments::from_args(), vec![trial(name, timeline)])
}

fn timeline() -> Result<(), Stop> {
    let python = programs_with("perfetto", env!("CARGO_TARGET_TMPDIR"))?;
    let folder = tempfile::tempdir()?;
    let wansan = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wansan"));
        run(command.args(arguments).current_dir(folder.path()), LIMIT)?.success()
    };
    std::fs::write(folder.path().join("trial.toml"), PLAN)?;
    wansan(&["lab", "run", "trial.toml"])?;
    wansan(&["lab", "export", "perfetto", "trial", "--out", "timeline"])?;
    let mut runs = std::fs::read_dir(folder.path().join("runs/trial"))?;
    let run_folder = runs.next().ok_or(Stop::Failed("no run".to_owned()))??;
    let check = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/timeline/check.py");
    let mut command = Command::new(python.join("python3"));
    let cell = run_folder.path().join("cell-000");
    let checked = run(
        command
            .arg(check)
            .arg(folder.path().join("timeline"))
            .arg(cell),
        LIMIT,
    )?;
    require(checked.status.success(), || checked.output())
}
