//! A plan with one connection that reads in sequence, and what TCP was recorded of its sender.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use wansan_peers::trial::{Stop, require};
use wansan_trace::event::{Tcp, TcpEvent};
use wansan_trace::file;

/// What is different from plan to plan.
pub(crate) struct Scene {
    pub(crate) control: &'static str,
    /// One way, in ms.
    pub(crate) delay_ms: u32,
    /// More lines of the path.
    pub(crate) of_path: &'static str,
    /// More lines of `[tcp]`.
    pub(crate) of_tcp: &'static str,
    /// The packets towards the reader that are lost, counted from 1.
    pub(crate) lost: Vec<u64>,
    /// Before what is measured, in ms; losses and records are of all the time.
    pub(crate) warmup_ms: u32,
    pub(crate) time_ms: u32,
}

impl Default for Scene {
    fn default() -> Scene {
        Scene {
            control: "wansan_reno",
            delay_ms: 10,
            of_path: "",
            of_tcp: "",
            lost: Vec::new(),
            warmup_ms: 0,
            time_ms: 3000,
        }
    }
}

/// A run of one.
pub(crate) struct Ran {
    /// Its only cell in results.json.
    pub(crate) cell: Value,
    /// The sender's samples, in order of time.
    pub(crate) samples: Vec<Tcp>,
}

pub(crate) fn wansan(arguments: &[&str]) -> Result<Output, Stop> {
    Ok(Command::new(env!("CARGO_BIN_EXE_wansan"))
        .args(arguments)
        .output()?)
}

pub(crate) fn good(output: &Output) -> Result<(), Stop> {
    require(output.status.success(), || {
        String::from_utf8_lossy(&output.stderr).into_owned()
    })
}

impl Scene {
    pub(crate) fn plan(&self) -> String {
        let loss = if self.lost.is_empty() {
            String::new()
        } else {
            format!("[path.back]\nloss = {{ packets = {:?} }}\n", self.lost)
        };
        format!(
            "title = \"Trial\"\n\
             [[host]]\nname = \"storage\"\n[[host]]\nname = \"client\"\n\
             [[path]]\nname = \"wan\"\nbetween = [\"client\", \"storage\"]\n\
             delay = \"{}ms\"\n{}\n{loss}\
             [target]\nhost = \"storage\"\nluns = [\"memory:64MiB\"]\n\
             [[initiator]]\nhost = \"client\"\n\
             [tcp]\ncongestion_control = \"{}\"\n{}\nrmem = [\"4KiB\", \"32MiB\", \"64MiB\"]\n\
             wmem = [\"4KiB\", \"4MiB\", \"64MiB\"]\n\
             [workload]\nop = \"read\"\npattern = \"sequential\"\nblock = \"256KiB\"\n\
             parallel = 64\nwarmup = \"{}ms\"\ntime = \"{}ms\"\n\
             [trace]\nkinds = [\"io\", \"tcp\"]\nmemory = \"64MiB\"\n",
            self.delay_ms, self.of_path, self.control, self.of_tcp, self.warmup_ms, self.time_ms,
        )
    }

    /// Runs it.
    pub(crate) fn run(&self) -> Result<Ran, Stop> {
        let scratch = tempfile::tempdir()?;
        self.run_in(scratch.path())
    }

    /// Runs it with its files in `folder`.
    pub(crate) fn run_in(&self, folder: &Path) -> Result<Ran, Stop> {
        fs::write(folder.join("trial.toml"), self.plan())?;
        let output = Command::new(env!("CARGO_BIN_EXE_wansan"))
            .args(["lab", "run", "trial.toml", "--json"])
            .current_dir(folder)
            .output()?;
        good(&output)?;
        let run = fs::read_dir(folder.join("runs/trial"))?
            .next()
            .ok_or_else(|| Stop::Failed("there is no run folder".to_owned()))??
            .path();
        let results: Value = serde_json::from_slice(&fs::read(run.join("results.json"))?)
            .map_err(|error| Stop::Failed(error.to_string()))?;
        let table = file::read::<Tcp>(&run.join("cell-000/tcp.parquet"))
            .map_err(|error| Stop::Failed(error.to_string()))?;
        let of_storage = table
            .rows
            .iter()
            .filter(|row| table.names.get(row.host) == "storage");
        let samples = of_storage
            .map(|row| row.record)
            .filter(|record| record.event == TcpEvent::Sample)
            .collect();
        Ok(Ran {
            cell: results["cells"][0].clone(),
            samples,
        })
    }
}

/// A name from `wansan cc load` on, until it is dropped.
pub(crate) struct Kept(&'static str);

impl Kept {
    pub(crate) fn load(name: &'static str, options: &[&str]) -> Result<Kept, Stop> {
        good(&wansan(&[&["cc", "load", name], options].concat())?)?;
        Ok(Kept(name))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // A test that unloads it by itself has seen to it.
        let _ = wansan(&["cc", "unload", self.0]);
    }
}
