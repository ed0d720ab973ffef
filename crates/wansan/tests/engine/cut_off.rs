//! Labs that end before their cells.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use wansan_peers::trial::{Stop, require};

use crate::stage::{Stage, ended, ends_with, failed, until};

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

/// Ctrl-C, while one worker has the program and it is on its way to another, which does not listen.
pub(crate) fn early(stage: &mut Stage) -> Result<(), Stop> {
    stage.add_worker(&[], None)?;
    stage.add_worker(&[], None)?;
    let plan = long(stage)?;
    stage.signal_worker(1, Signal::STOP)?;
    let mut lab = stage.remote(&plan, "there", &[]);
    let mut lab = lab.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    until("a worker has the program", || stage.copies().len() == 1)?;
    kill_process(Pid::from_child(&lab), Signal::INT).map_err(failed)?;
    // One that takes it back at once has done so by then.
    thread::sleep(Duration::from_secs(2));
    stage.signal_worker(1, Signal::CONT)?;
    let status = ended(&mut lab)?;
    require(status.code() == Some(130), || status.to_string())?;
    // Behind another lab, no worker has anything of this one left to do.
    let short = fs::read_to_string(&plan)?
        .replace("2000s", "101ms")
        .replace("2001s", "102ms");
    let short = stage.plan(&short)?;
    ends_with(&mut stage.remote(&short, "later", &[]), 0)?;
    gone(stage)
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
