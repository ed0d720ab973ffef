//! Stalls that are made to happen in real worlds: the kernel's TCP and the real programs over emulated
//! paths. Each case must show its cause, and none that nothing in it brings about.

mod captured;
mod filtered;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Failed};
use serde_json::Value;
use wansan_arms::{Arm, one_arm, open_to_all};

/// A world, and what stalls in it.
struct Case {
    name: &'static str,
    /// What must be found.
    cause: &'static str,
    /// What may be found besides, as it comes along with that.
    others: &'static [&'static str],
    /// Lines of the plan, by their tables.
    path: &'static str,
    target: &'static str,
    initiator: &'static str,
    tables: &'static str,
    workload: &'static str,
}

const BLANK: Case = Case {
    name: "",
    cause: "",
    others: &[],
    path: "",
    target: "",
    initiator: "",
    tables: "",
    workload: "",
};

const CASES: [Case; 13] = [
    Case {
        name: "one read at a time does not stall",
        cause: "none",
        workload: "op = \"read\"\nblock = \"4KiB\"\ntime = \"1s\"",
        ..BLANK
    },
    Case {
        name: "a separate status waits for Nagle's algorithm",
        cause: "nagle",
        target: "nagle = true\nstatus = \"separate\"\njoin_sends = false",
        workload: "op = \"read\"\nblock = \"8KiB\"\ntime = \"1s\"",
        ..BLANK
    },
    Case {
        name: "and for a delayed acknowledgement",
        cause: "nagle_against_delayed_ack",
        others: &["nagle"],
        target: "nagle = true\nstatus = \"separate\"\njoin_sends = false",
        workload: "op = \"read\"\nblock = \"1KiB\"\ntime = \"2s\"",
        ..BLANK
    },
    // Each Data-In is a segment, and there is room for one. Linux acknowledges the first one of an answer
    // late, as it has answered all before it with data.
    Case {
        name: "a send buffer of one segment waits for a delayed acknowledgement",
        cause: "delayed_ack",
        others: &["send_buffer"],
        target: "join_sends = false",
        tables: "[tcp]\nwmem = [\"1KiB\", \"1KiB\", \"1KiB\"]\n\
                 [session]\nmax_recv_data_segment = \"1KiB\"\nerror_recovery_level = 0",
        workload: "op = \"read\"\nblock = \"8KiB\"\ntime = \"2s\"",
        ..BLANK
    },
    Case {
        name: "the first long reads fill the congestion window",
        cause: "extra_round_trips",
        others: &["receive_window"],
        workload: "op = \"read\"\nblock = \"1MiB\"\ntime = \"300ms\"",
        ..BLANK
    },
    Case {
        name: "long reads after a pause begin anew",
        cause: "slow_start_after_idle",
        others: &["extra_round_trips", "receive_window"],
        workload: "op = \"read\"\nblock = \"256KiB\"\nrate = \"2 IOPS\"\ntime = \"5s\"",
        ..BLANK
    },
    Case {
        name: "a small receive buffer holds long reads",
        cause: "receive_window",
        others: &["extra_round_trips", "delayed_ack"],
        tables: "[tcp]\nrmem = [\"4KiB\", \"32KiB\", \"32KiB\"]",
        workload: "op = \"read\"\nblock = \"256KiB\"\ntime = \"2s\"",
        ..BLANK
    },
    Case {
        name: "a segment is lost before others",
        cause: "fast_retransmit",
        // Which segment of an answer a packet carries depends on how TCP cut what came before: it may be the last one.
        others: &["extra_round_trips", "slow_start_after_idle", "tail_loss"],
        path: "back.loss = { packets = [120, 500] }",
        workload: "op = \"read\"\nblock = \"64KiB\"\ntime = \"1s\"",
        ..BLANK
    },
    Case {
        name: "a path that is down loses a segment more than once",
        cause: "retransmission_timeout",
        others: &[
            "tail_loss",
            "fast_retransmit",
            "extra_round_trips",
            "slow_start_after_idle",
        ],
        tables: "timeline = [\"at 500ms upper down\", \"at 1200ms upper up\"]",
        workload: "op = \"read\"\nblock = \"64KiB\"\ntime = \"3s\"",
        ..BLANK
    },
    Case {
        name: "an answer of one segment is lost",
        cause: "tail_loss",
        others: &["slow_start_after_idle", "retransmission_timeout"],
        path: "back.loss = { packets = [30] }",
        workload: "op = \"read\"\nblock = \"1KiB\"\ntime = \"2s\"",
        ..BLANK
    },
    Case {
        name: "writes wait to be asked for their data",
        cause: "r2t_wait",
        others: &["extra_round_trips"],
        tables: "[session]\ninitial_r2t = true\nimmediate_data = false",
        workload: "op = \"write\"\nblock = \"64KiB\"\ntime = \"1s\"",
        ..BLANK
    },
    Case {
        name: "commands wait for the command window",
        cause: "command_window",
        others: &["extra_round_trips"],
        target: "command_window = 4",
        workload: "op = \"read\"\nblock = \"4KiB\"\nparallel = 16\ntime = \"1s\"",
        ..BLANK
    },
    Case {
        name: "commands wait for those of a longer route",
        cause: "route_lockstep",
        path: "[[path]]\nname = \"lower\"\nbetween = [\"client\", \"storage\"]\ndelay = \"20ms\"",
        initiator: "routes = [\"upper\", \"lower\"]\nschedule = \"round-robin\"",
        workload: "op = \"read\"\nblock = \"4KiB\"\nparallel = 4\ntime = \"1s\"",
        ..BLANK
    },
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Worlds side by side would take each other's processor time.
    arguments.test_threads = Some(1);
    let arm = one_arm(|arm| Lab::new(arm)?.run(&CASES[0]).map(|_| ()));
    let mut trials: Vec<_> = CASES
        .iter()
        .map(|case| arm.measuring(case.name, move || shows(case, arm)))
        .collect();
    let root = Arm::of_suite();
    for (name, test) in captured::TESTS {
        trials.push(root.measuring(name, move || test(&Lab::new(root)?)));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Whether a run of the case shows its cause.
fn shows(case: &Case, arm: Arm) -> Result<(), Failed> {
    let stalls = &Lab::new(arm)?.run(case)?["stalls"];
    let causes = stalls["causes"]
        .as_array()
        .ok_or("nothing is said of stalls")?;
    let name = |cause: &Value| cause["cause"].as_str().unwrap_or_default().to_owned();
    let found: Vec<String> = causes.iter().map(name).collect();
    let told = || format!("found {found:?}, expected {}: {stalls:#}", case.cause);
    if case.cause == "none" {
        return check(stalls["cause"] == "none", told);
    }
    check(found.iter().any(|cause| cause == case.cause), told)?;
    let is_expected = |cause: &String| cause == case.cause || case.others.contains(&cause.as_str());
    check(found.iter().all(is_expected), told)
}

/// A folder to run labs in.
struct Lab {
    scratch: tempfile::TempDir,
    arm: Arm,
}

impl Lab {
    fn new(arm: Arm) -> Result<Lab, Failed> {
        let scratch = tempfile::tempdir()?;
        open_to_all(scratch.path())?;
        Ok(Lab { scratch, arm })
    }

    fn wansan(&self, arguments: &[&str]) -> Command {
        let mut command = self.arm.command(env!("CARGO_BIN_EXE_wansan"));
        command.args(arguments).current_dir(self.scratch.path());
        command
    }

    /// Runs the case's plan to its end; what its results.json says of its only cell.
    fn run(&self, case: &Case) -> Result<Value, Failed> {
        fs::write(self.scratch.path().join("trial.toml"), plan(case))?;
        let output = self
            .wansan(&["lab", "run", "trial.toml", "--json"])
            .output()?;
        good(&output)?;
        let results: Value = serde_json::from_slice(&output.stdout)?;
        Ok(results["cells"][0].clone())
    }

    /// The folder of the only run's only cell.
    fn cell(&self) -> Result<PathBuf, Failed> {
        let mut runs = fs::read_dir(self.scratch.path().join("runs/trial"))?;
        let run = runs.next().ok_or("there is no run folder")??;
        Ok(run.path().join("cell-000"))
    }
}

/// The case as a plan: a client and a storage 10 ms apart.
fn plan(case: &Case) -> String {
    let Case {
        path,
        target,
        initiator,
        tables,
        workload,
        ..
    } = case;
    // Keys without a table stand first.
    let (keys, tables) = match tables.starts_with('[') {
        true => ("", *tables),
        false => (*tables, ""),
    };
    format!(
        "title = \"Trial\"\n{keys}\n\
         [[host]]\nname = \"storage\"\n[[host]]\nname = \"client\"\n\
         [[path]]\nname = \"upper\"\nbetween = [\"client\", \"storage\"]\ndelay = \"10ms\"\n{path}\n\
         [target]\nhost = \"storage\"\nluns = [\"memory:16MiB\"]\n{target}\n\
         [[initiator]]\nhost = \"client\"\n{initiator}\n\
         {tables}\n\
         [workload]\nwarmup = \"0s\"\n{workload}\n"
    )
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(what().into()) }
}

fn good(output: &Output) -> Result<(), Failed> {
    check(output.status.success(), || {
        String::from_utf8_lossy(&output.stderr).into_owned()
    })
}
