//! A scheduler of Dask and workers, in a folder of their own.

use std::fmt::Display;
use std::fs;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use wansan_peers::python::programs_with;
use wansan_peers::trial::{Stop, require};

pub(crate) const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
/// Longer than any machine takes for what these tests do.
const LONG: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(crate) struct Stage {
    /// Where Dask's programs are.
    programs: PathBuf,
    port: u16,
    scheduler: Child,
    workers: Vec<Child>,
    scratch: TempDir,
}

impl Stage {
    /// A scheduler without workers.
    pub(crate) fn build() -> Result<Stage, Stop> {
        let programs = programs_with("distributed", env!("CARGO_TARGET_TMPDIR"))?;
        let scratch = tempfile::tempdir()?;
        let port = free_port()?;
        let mut scheduler = Command::new(programs.join("dask"));
        scheduler.args(["scheduler", "--host", "127.0.0.1", "--no-dashboard"]);
        scheduler.args(["--port", &port.to_string()]);
        let scheduler = start(&mut scheduler, scratch.path(), "scheduler")?;
        Ok(Stage {
            programs,
            port,
            scheduler,
            workers: Vec::new(),
            scratch,
        })
    }

    /// A file or folder of the test's own.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// The engine's address.
    pub(crate) fn address(&self) -> String {
        format!("dask://127.0.0.1:{}", self.port)
    }

    /// Starts one more worker, of one thread.
    pub(crate) fn add_worker(
        &mut self,
        arguments: &[&str],
        path: Option<&Path>,
    ) -> Result<(), Stop> {
        let name = format!("worker-{}", self.workers.len());
        let mut worker = Command::new(self.programs.join("dask"));
        worker.args(["worker", &format!("tcp://127.0.0.1:{}", self.port)]);
        worker.args([
            "--host",
            "127.0.0.1",
            "--nthreads",
            "1",
            "--no-nanny",
            "--no-dashboard",
        ]);
        worker.arg("--local-directory").arg(self.path(&name));
        worker.args(arguments);
        if let Some(path) = path {
            worker.env("PATH", format!("{}:/usr/bin:/bin", path.display()));
        }
        let log = self.path(&format!("{name}.log"));
        let worker = start(&mut worker, self.scratch.path(), &name)?;
        self.workers.push(worker);
        until(&format!("{name} is registered"), || {
            let said = fs::read_to_string(&log).unwrap_or_default();
            said.contains("Registered to:")
        })
    }

    /// Sends a signal to a worker.
    pub(crate) fn signal_worker(&self, place: usize, signal: Signal) -> Result<(), Stop> {
        kill_process(Pid::from_child(&self.workers[place]), signal).map_err(failed)
    }

    /// Whether a worker was killed.
    pub(crate) fn was_killed(&mut self, place: usize) -> Result<bool, Stop> {
        let status = self.workers[place].try_wait()?;
        Ok(status.and_then(|status| status.signal()) == Some(Signal::KILL.as_raw()))
    }

    /// Writes a plan.
    pub(crate) fn plan(&self, text: &str) -> Result<PathBuf, Stop> {
        let file = self.path("trial.toml");
        fs::write(&file, text)?;
        Ok(file)
    }

    /// A lab that is to run a plan into a folder of runs, with what Dask takes.
    pub(crate) fn lab(&self, plan: &Path, out: &str, arguments: &[&str]) -> Command {
        let mut lab = Command::new(WANSAN);
        lab.args(["lab", "run"])
            .arg(plan)
            .arg("--out")
            .arg(self.path(out));
        lab.args(arguments);
        let path = std::env::var("PATH").unwrap_or_default();
        lab.env("PATH", format!("{}:{path}", self.programs.display()));
        lab
    }

    /// The same, on the workers.
    pub(crate) fn remote(&self, plan: &Path, out: &str, arguments: &[&str]) -> Command {
        let mut lab = self.lab(plan, out, arguments);
        lab.args(["--on", &self.address()]);
        lab
    }

    /// The only run in a folder of runs.
    pub(crate) fn run_in(&self, out: &str) -> Result<PathBuf, Stop> {
        let runs = fs::read_dir(self.path(out).join("trial"))?;
        let runs: Vec<PathBuf> = runs.flatten().map(|run| run.path()).collect();
        match &runs[..] {
            [only] => Ok(only.clone()),
            other => Err(Stop::Failed(format!("{} runs", other.len()))),
        }
    }

    /// Programs that are running cells.
    pub(crate) fn cells(&self) -> usize {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let scratch = self.scratch.path().to_string_lossy();
        let is_cell =
            |command: &str| command.contains("\0lab\0cell\0") && command.contains(&*scratch);
        let commands =
            processes.filter_map(|it| fs::read_to_string(it.path().join("cmdline")).ok());
        commands.filter(|command| is_cell(command)).count()
    }

    /// Copies of wansan, and what cells have, on the workers.
    pub(crate) fn copies(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for place in 0..self.workers.len() {
            gather(&self.path(&format!("worker-{place}")), &mut found);
        }
        found
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for child in self.workers.iter_mut().chain([&mut self.scheduler]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The files named `wansan` and the folders of cells below a folder.
fn gather(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if name == "wansan" || name == "cell" {
            found.push(path);
        } else if path.is_dir() {
            gather(&path, found);
        }
    }
}

fn free_port() -> Result<u16, Stop> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn start(command: &mut Command, folder: &Path, name: &str) -> Result<Child, Stop> {
    let log = fs::File::create(folder.join(format!("{name}.log")))?;
    command.current_dir(folder).env("NO_COLOR", "1");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    Ok(command.spawn()?)
}

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) -> Result<(), Stop> {
    let deadline = Instant::now() + LONG;
    while !holds() {
        require(Instant::now() < deadline, || {
            format!("not so in time: {what}")
        })?;
        thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// What a lab did; fails unless it ended with that status.
pub(crate) fn ends_with(lab: &mut Command, status: i32) -> Result<Output, Stop> {
    lab.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = lab.spawn()?;
    ended(&mut running)?;
    let output = running.wait_with_output()?;
    require(output.status.code() == Some(status), || {
        format!(
            "{}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )
    })?;
    Ok(output)
}

pub(crate) fn json(file: &Path) -> Result<Value, Stop> {
    serde_json::from_slice(&fs::read(file)?).map_err(failed)
}

pub(crate) fn failed(error: impl Display) -> Stop {
    Stop::Failed(error.to_string())
}

/// How a lab has ended; one that does not is killed.
pub(crate) fn ended(lab: &mut Child) -> Result<ExitStatus, Stop> {
    if let Err(late) = until("the lab has ended", || {
        matches!(lab.try_wait(), Ok(Some(_)))
    }) {
        lab.kill()?;
        return Err(late);
    }
    Ok(lab.wait()?)
}
