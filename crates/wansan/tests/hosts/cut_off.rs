//! Runs that end before their time.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use wansan_lab::world::Process;

use crate::stage::{LONG, Stage, check, text};

/// A lab in the middle of a cell of the usual plan.
fn under_load(stage: &Stage) -> Result<Process, String> {
    let plan = stage.plan("storage", "60s", "")?;
    running(stage, &plan, ["wansan target", "wansan bench"])
}

/// A lab in the middle of a cell, of which these are programs.
pub(crate) fn running(stage: &Stage, plan: &Path, programs: [&str; 2]) -> Result<Process, String> {
    let lab = stage.lab(plan, &[])?;
    let deadline = Instant::now() + LONG;
    let is_loaded = || {
        let running = stage.left_running();
        let has = |what: &str| running.iter().any(|command| command.contains(what));
        programs.iter().all(|program| has(program))
    };
    while !is_loaded() {
        check(Instant::now() < deadline, || "no cell begins".to_owned())?;
        std::thread::sleep(Duration::from_millis(20));
    }
    // Into the load.
    std::thread::sleep(Duration::from_secs(1));
    Ok(lab)
}

fn send(process: u32, signal: Signal) -> Result<(), String> {
    let id = i32::try_from(process).ok().and_then(Pid::from_raw);
    kill_process(id.ok_or("a process")?, signal).map_err(text)
}

pub(crate) fn interrupted(stage: &Stage) -> Result<(), String> {
    interrupt(stage, under_load(stage)?)
}

/// The lab is interrupted by Ctrl-C.
pub(crate) fn interrupt(stage: &Stage, lab: Process) -> Result<(), String> {
    send(lab.id(), Signal::INT)?;
    let ended = lab.end(LONG).map_err(text)?;
    check(ended.status.code() == Some(130), || {
        format!("{}: {}", ended.status, ended.stderr)
    })?;
    // Its own end waits for that of the agents.
    let left = stage.left_running();
    check(left.is_empty(), || format!("{left:?}"))
}

pub(crate) fn lab_killed(stage: &Stage) -> Result<(), String> {
    let lab = under_load(stage)?;
    send(lab.id(), Signal::KILL)?;
    lab.end(LONG).map_err(text)?;
    stage.is_clean()
}

pub(crate) fn connection_lost(stage: &Stage) -> Result<(), String> {
    lose(stage, under_load(stage)?, "storage")
}

/// The lab's connection to a host ends.
pub(crate) fn lose(stage: &Stage, lab: Process, host: &str) -> Result<(), String> {
    let ssh = child_of(lab.id(), host).ok_or_else(|| format!("the lab has no ssh to `{host}`"))?;
    send(ssh, Signal::KILL)?;
    let ended = lab.end(LONG).map_err(text)?;
    let said = ended.stderr;
    let is_said = said.contains(&format!("`{host}`")) && said.contains("connection");
    check(ended.status.code() == Some(2) && is_said, || said.clone())?;
    stage.is_clean()
}

/// A network that is gone says nothing: an agent that hears nobody for long ends by itself.
pub(crate) fn silent(stage: &Stage) -> Result<(), String> {
    silence(stage, under_load(stage)?, "storage")
}

/// The lab's connection to a host carries nothing any more.
pub(crate) fn silence(stage: &Stage, lab: Process, host: &str) -> Result<(), String> {
    let ssh = child_of(lab.id(), host).ok_or_else(|| format!("the lab has no ssh to `{host}`"))?;
    send(ssh, Signal::STOP)?;
    let temporary = stage.temporary(host, 22);
    let temporary = temporary.to_string_lossy();
    let deadline = Instant::now() + LONG;
    loop {
        let running = stage.left_running();
        if !running.iter().any(|command| command.contains(&*temporary)) {
            break;
        }
        check(Instant::now() < deadline, || format!("{running:?}"))?;
        std::thread::sleep(Duration::from_millis(100));
    }
    send(ssh, Signal::KILL)?;
    lab.end(LONG).map_err(text)?;
    stage.is_clean()
}

/// The shell that started an agent removes what that has left.
pub(crate) fn agent_killed(stage: &Stage) -> Result<(), String> {
    let lab = under_load(stage)?;
    let running = stage.left_running();
    let temporary = stage.temporary("storage", 22);
    let temporary = temporary.to_string_lossy();
    let agent = running
        .iter()
        .find(|it| it.contains("lab attend") && it.contains(&*temporary));
    let agent = agent.and_then(|command| command.split(':').next()?.parse().ok());
    send(
        agent.ok_or_else(|| format!("no agent: {running:?}"))?,
        Signal::KILL,
    )?;
    let ended = lab.end(LONG).map_err(text)?;
    check(ended.status.code() == Some(2), || ended.stderr.clone())?;
    stage.is_clean()
}

/// A child of a process whose arguments have that word.
fn child_of(parent: u32, word: &str) -> Option<u32> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut ids = processes.filter_map(|it| it.file_name().to_string_lossy().parse().ok());
    ids.find(|id: &u32| {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let command = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let is_child = status.lines().any(|it| it == format!("PPid:\t{parent}"));
        is_child && command.split('\0').any(|it| it == word)
    })
}
