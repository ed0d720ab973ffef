//! Labs that end before their cells.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use wansan_peers::trial::{Stop, require};

use crate::stage::{Stage, ended, failed, until};

/// A plan whose cells would take long.
fn long(stage: &Stage) -> Result<PathBuf, Stop> {
    stage.plan(
        "title = \"Trial\"\n[world]\nkind = \"sim\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
         [[path]]\nname = \"wan\"\nbetween = [\"a\", \"b\"]\ndelay = \"1ms\"\n\
         [target]\nhost = \"a\"\nluns = [\"memory:1MiB\"]\n[[initiator]]\nhost = \"b\"\n\
         [workload]\nop = \"read\"\nblock = \"4KiB\"\ntime = \"100ms\"\nparallel = 16\n\
         [trace]\nkinds = [\"io\"]\n\
         [sweep]\nworkload.time = [\"100ms\", \"2000s\", \"2001s\"]\n",
    )
}

/// Two workers, and a lab that has them run cells of which two take long.
fn begin(stage: &mut Stage) -> Result<Child, Stop> {
    stage.add_worker(&[], None)?;
    stage.add_worker(&[], None)?;
    let plan = long(stage)?;
    let mut lab = stage.remote(&plan, "there", &[]);
    Ok(lab.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
}

pub(crate) fn interrupted(stage: &mut Stage) -> Result<(), Stop> {
    let mut lab = begin(stage)?;
    until("the first cell has ended, and two run", || {
        let results = stage.run_in("there").map(|run| run.join("results.json"));
        let results = results.ok().and_then(|file| fs::read_to_string(file).ok());
        results.is_some_and(|text| text.contains("\"iops\"")) && stage.cells() == 2
    })?;
    kill_process(Pid::from_child(&lab), Signal::INT).map_err(failed)?;
    let status = ended(&mut lab)?;
    require(status.code() == Some(130), || status.to_string())?;
    gone(stage)?;
    let run = stage.run_in("there")?;
    let whole = run.join("cell-000").exists() && run.join("report.html").exists();
    let rest = run.join("cell-001").exists() || run.join("cell-002").exists();
    require(whole && !rest, || {
        "what is complete is not what is kept".to_owned()
    })
}

pub(crate) fn lab_killed(stage: &mut Stage) -> Result<(), Stop> {
    let mut lab = begin(stage)?;
    until("two cells run that take long", || {
        stage
            .run_in("there")
            .is_ok_and(|run| run.join("cell-000").exists())
            && stage.cells() == 2
    })?;
    lab.kill()?;
    lab.wait()?;
    gone(stage)
}

/// Waits until nothing runs on the workers, and nothing of ours is there.
fn gone(stage: &Stage) -> Result<(), Stop> {
    until("no cell runs", || stage.cells() == 0)?;
    until("the copies are gone", || stage.copies().is_empty())
}
