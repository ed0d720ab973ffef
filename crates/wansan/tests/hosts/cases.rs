//! What runs, and what is refused.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::stage::{DELAY, LONG, Stage, WANSAN, check, json, text};

/// Report, finding, expectations, comparison and export are those of any run.
pub(crate) fn whole(stage: &Stage) -> Result<(), String> {
    let expected =
        |metric: &str, bound: &str| format!("[[expect]]\nmetric = \"{metric}\"\n{bound}\n");
    let more = [
        "[sweep]\nworkload.parallel = [1, 8]\n".to_owned(),
        expected("cells.latency_p50_ns", "at_least = \"8ms\""),
        expected("cells.latency_p50_ns", "at_most = \"40ms\""),
        expected("finding.limit", "equals = \"too_few_ios\""),
    ]
    .concat();
    let plan = stage.plan("storage", "2s", &more)?;
    let first = stage.run(&plan, &[])?;
    let results = json(&first.join("results.json"))?;
    let met = results["expectations"].as_array().map(Vec::as_slice);
    let met = met
        .unwrap_or_default()
        .iter()
        .filter(|it| it["met"] == true)
        .count();
    check(met == 3, || {
        format!("expectations: {}", results["expectations"])
    })?;
    check(first.join("report.html").exists(), || {
        "no report".to_owned()
    })?;
    check(results["cells"][1]["emulator"] == "hosts", || {
        results["cells"][1].to_string()
    })?;

    let manifest = json(&first.join("manifest.json"))?;
    let hosts = manifest["hosts"].as_array().map_or(0, Vec::len);
    check(hosts == 2, || manifest["hosts"].to_string())?;
    measured(&manifest)?;
    let processes = json(&first.join("results.json"))?["cells"][0]["starved_programs"].clone();
    check(processes.is_array(), || processes.to_string())?;
    let threads = first.join("cell-000/thread.parquet");
    check(threads.exists(), || "no threads were recorded".to_owned())?;

    let second = stage.run(&plan, &[])?;
    let said = wansan(&["lab", "compare", &path(&first), &path(&second), "--json"])?;
    check(said.contains("iops"), || said.clone())?;
    let table = wansan(&["lab", "export", "csv", &path(&first)])?;
    check(table.lines().count() == 3, || table.clone())?;
    let said = wansan(&["explain", &path(&first)])?;
    check(!said.is_empty(), || "nothing is explained".to_owned())
}

/// The path's round trip in the manifest is the emulator's.
fn measured(manifest: &Value) -> Result<(), String> {
    let paths = manifest["measured_paths"].as_array().ok_or("no paths")?;
    check(paths.len() == 2, || format!("{paths:?}"))?;
    let round_trip_ns = 2.0 * DELAY.as_nanos() as f64;
    for path in paths {
        let least_ns = path["rtt_min_ns"].as_f64().unwrap_or_default();
        let is_it = (round_trip_ns..2.0 * round_trip_ns).contains(&least_ns);
        let flows = path["bytes_per_s"].as_f64().unwrap_or_default() > 100_000.0;
        check(is_it && flows, || path.to_string())?;
    }
    Ok(())
}

/// A relay on a host of its own, which is reached by a jump over another.
pub(crate) fn relayed(stage: &Stage) -> Result<(), String> {
    let hosts = stage.hosts(&[
        ("storage", "storage"),
        ("client", "client"),
        ("edge", "edge"),
    ]);
    let plan = stage.write(&format!(
        "title = \"Trial\"\n{hosts}[world]\nkind = \"hosts\"\n\
         [[path]]\nname = \"near\"\nbetween = [\"client\", \"edge\"]\n\
         [[path]]\nname = \"far\"\nbetween = [\"edge\", \"storage\"]\n\
         [[relay]]\nhost = \"edge\"\nto = \"storage\"\n\
         [target]\nhost = \"storage\"\nluns = [\"memory:16MiB\"]\n\
         [[initiator]]\nhost = \"client\"\nthrough = \"relay\"\n\
         [[relay]]\nname = \"split\"\nhost = \"edge\"\nto = \"storage\"\n\
         [[stream]]\nname = \"backup\"\nfrom = \"client\"\nto = \"storage\"\nthrough = \"split\"\n\
         rate = \"20Mbit/s\"\n\
         [workload]\nop = \"read\"\nblock = \"4KiB\"\ntime = \"2s\"\nwarmup = \"200ms\"\n"
    ))?;
    let results = json(&stage.run(&plan, &[])?.join("results.json"))?;
    let cell = &results["cells"][0];
    let latency_ns = cell["latency_p50_ns"].as_f64().unwrap_or_default();
    check(latency_ns > 4.0 * DELAY.as_nanos() as f64, || {
        format!("{latency_ns} ns")
    })?;
    let rate = cell["streams"]["backup"]["bytes_per_s"]
        .as_f64()
        .unwrap_or_default();
    check((1e6..4e6).contains(&rate), || format!("{rate} B/s"))?;
    let relayed = cell["relays"]["relay"]["back_bytes"]
        .as_u64()
        .unwrap_or_default();
    check(relayed > 4096, || cell["relays"].to_string())
}

/// `--no-copy` finds wansan by PATH, and copies nothing.
pub(crate) fn installed(stage: &Stage) -> Result<(), String> {
    let mut stage_more = Server::new(stage);
    let there = stage.path("bin");
    fs::create_dir(&there).map_err(text)?;
    symlink(WANSAN, there.join("wansan")).map_err(text)?;
    let path_of = format!("PATH={}:/usr/bin:/bin", there.display());
    stage_more.serve("storage", &path_of, 2222)?;
    stage_more.serve("client", &path_of, 2222)?;
    let hosts = stage.hosts(&[
        (
            "storage",
            &format!("ssh://root@{}:2222", stage.node("storage").address()),
        ),
        (
            "client",
            &format!("ssh://root@{}:2222", stage.node("client").address()),
        ),
    ]);
    let plan = fs::read_to_string(stage.plan("storage", "500ms", "")?).map_err(text)?;
    let from = plan.find("[world]").ok_or("a plan")?;
    let plan = stage.write(&format!("title = \"Trial\"\n{hosts}{}", &plan[from..]))?;
    stage.run(&plan, &["--no-copy"])?;
    // Where there is none, that is said.
    let plan = stage.plan("storage", "500ms", "")?;
    let said = stage.refusal(&plan, &["--no-copy"])?;
    says(
        &said,
        &[
            "host `storage`",
            "no wansan in PATH",
            "install wansan there",
        ],
    )
}

/// One line each, which names the host and what to do.
pub(crate) fn refused(stage: &Stage) -> Result<(), String> {
    let said = |ssh: &str, more: &str, arguments: &[&str]| {
        let plan = stage.plan(ssh, "500ms", more)?;
        stage.refusal(&plan, arguments)
    };
    says(
        &said("nowhere.invalid", "", &[])?,
        &[
            "host `storage`",
            "nowhere.invalid",
            "correct `ssh` of the [[host]]",
        ],
    )?;
    // Nobody knows this key.
    let stranger = fs::read_to_string(stage.path("ssh_config")).map_err(text)?;
    let stranger = stranger.replace("/user", "/stranger");
    let config = stage.path("ssh_config_of_stranger");
    fs::write(&config, stranger).map_err(text)?;
    let plan = stage.plan("storage", "500ms", "")?;
    let mut lab = Command::new(WANSAN);
    lab.args(["lab", "run"])
        .arg(&plan)
        .arg("--ssh-config")
        .arg(&config);
    lab.current_dir(stage.path(""));
    let ended = stage.node("lab").start("the lab", lab).map_err(text)?;
    let ended = ended.end(LONG).map_err(text)?;
    says(
        &ended.stderr,
        &[
            "host `storage`",
            "Permission denied (publickey)",
            "without a password",
        ],
    )?;

    let mut more = Server::new(stage);
    let fake = stage.path("fake");
    fs::create_dir(&fake).map_err(text)?;
    let uname = fake.join("uname");
    fs::write(
        &uname,
        "#!/bin/sh\n[ $1 = -s ] && echo Linux || echo mips64\n",
    )
    .map_err(text)?;
    Command::new("chmod")
        .arg("755")
        .arg(&uname)
        .status()
        .map_err(text)?;
    more.serve(
        "storage",
        &format!("PATH={}:/usr/bin:/bin", fake.display()),
        2223,
    )?;
    let address = stage.node("storage").address();
    says(
        &said(&format!("ssh://root@{address}:2223"), "", &[])?,
        &["host `storage`", "Linux mips64", "--no-copy"],
    )?;
    // No program may be run from there.
    let temporary = stage.temporary("storage", 2224);
    let noexec = format!("mount -t tmpfs -o noexec tmpfs {} && ", temporary.display());
    more.serve_after("storage", 2224, &noexec)?;
    says(
        &said(&format!("ssh://root@{address}:2224"), "", &[])?,
        &["host `storage`", "Permission denied", "set TMPDIR"],
    )?;
    says(
        &said("storage", "[tcp]\ncongestion_control = \"nonesuch\"\n", &[])?,
        &[
            "host `storage`",
            "'nonesuch' is not there",
            "modprobe tcp_nonesuch",
        ],
    )?;
    let plan = fs::read_to_string(stage.plan("storage", "500ms", "")?).map_err(text)?;
    let elsewhere = plan.replace(&format!("\"{address}\""), "\"10.83.0.77\"");
    says(
        &stage.refusal(&stage.write(&elsewhere)?, &[])?,
        &["host `storage`", "10.83.0.77", "correct `address`"],
    )?;
    let is_left = stage.path("runs").join("trial");
    let left = fs::read_dir(is_left).map_or(0, Iterator::count);
    check(left == 0, || {
        format!("{left} runs are left that never began")
    })
}

/// Servers beside those of a stage.
struct Server<'a> {
    stage: &'a Stage,
    running: Vec<wansan_lab::world::Process>,
}

impl<'a> Server<'a> {
    fn new(stage: &'a Stage) -> Server<'a> {
        Server {
            stage,
            running: Vec::new(),
        }
    }

    fn serve(&mut self, host: &str, environment: &str, port: u16) -> Result<(), String> {
        self.running
            .push(self.stage.serve(host, environment, port, "")?);
        Ok(())
    }

    fn serve_after(&mut self, host: &str, port: u16, before: &str) -> Result<(), String> {
        self.running.push(self.stage.serve(host, "", port, before)?);
        Ok(())
    }
}

pub(crate) fn says(line: &str, parts: &[&str]) -> Result<(), String> {
    let lacks = parts.iter().find(|part| !line.contains(**part));
    lacks.map_or(Ok(()), |part| Err(format!("lacks {part:?}: {line}")))
}

fn wansan(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(WANSAN)
        .args(arguments)
        .output()
        .map_err(text)?;
    check(output.status.success(), || {
        format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr))
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
