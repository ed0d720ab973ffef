//! Paths under a lab that runs: changed by the plan's timeline and by `wansan path set`, captured, shared
//! by routes, and carried by netem.

mod capture;
mod routed;
mod together;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed};
use serde_json::Value;
use wansan_arms::{Arm, one_arm, open_to_all};
use wansan_trace::{event, file};

/// Longest wait for something that a lab does.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a session without a connection tries to come back.
const GIVEN_UP: Duration = Duration::from_secs(120);

type Test = fn(&Lab) -> Result<(), Failed>;

const TESTS: [(&str, Test); 11] = [
    (
        "initiators far and near are measured together",
        together::far_and_near,
    ),
    ("a timeline changes paths at its times", timeline),
    ("a path goes down and comes up under a session", outage),
    (
        "a path that stays down fails its cell, which can be explained",
        stays_down,
    ),
    (
        "a session routed by port comes back from its port after an outage",
        routed::outage,
    ),
    (
        "a shared path serves the route first that has priority",
        routed::priority,
    ),
    ("paths are shown and set while a lab runs", by_hand),
    (
        "a capture has every packet and what became of it",
        capture::whole_file,
    ),
    (
        "single elements are captured on both their sides",
        capture::single_elements,
    ),
    ("a killed lab is not taken for a running one", killed),
    (
        "netem carries a path, or it is said what the kernel lacks",
        netem,
    ),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Worlds side by side would take each other's processor time.
    arguments.test_threads = Some(1);
    let arm = one_arm(|arm| Lab::new(arm)?.runs_at_all());
    let trials = TESTS
        .map(|(name, test)| arm.measuring(name, move || test(&Lab::new(arm)?)))
        .into();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A folder to run labs in.
struct Lab {
    scratch: tempfile::TempDir,
    arm: Arm,
}

/// A running lab; dropping it kills it.
struct Running {
    child: Child,
    folder: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Lab {
    fn new(arm: Arm) -> Result<Lab, Failed> {
        let scratch = tempfile::tempdir()?;
        // A path that no socket's address has room for.
        let deep = scratch.path().join("d".repeat(120));
        fs::create_dir(&deep)?;
        for folder in [scratch.path(), &deep] {
            open_to_all(folder)?;
        }
        Ok(Lab { scratch, arm })
    }

    fn folder(&self) -> PathBuf {
        self.scratch.path().join("d".repeat(120))
    }

    fn wansan(&self, arguments: &[&str]) -> Command {
        let mut command = self.arm.command(env!("CARGO_BIN_EXE_wansan"));
        command.args(arguments).current_dir(self.folder());
        command
    }

    /// A plan with one read at a time over a path; `more` stands at its top, `of_path` in the path.
    fn plan(&self, time: &str, more: &str, of_path: &str) -> Result<(), Failed> {
        let text = format!(
            "title = \"Trial\"\n{more}\n\
             [[host]]\nname = \"storage\"\n[[host]]\nname = \"client\"\n\
             [[path]]\nname = \"upper\"\nbetween = [\"client\", \"storage\"]\ndelay = \"2ms\"\n\
             {of_path}\n\
             [target]\nhost = \"storage\"\nluns = [\"memory:16MiB\"]\n\
             [[initiator]]\nhost = \"client\"\n\
             [workload]\nop = \"read\"\nblock = \"4KiB\"\ntime = \"{time}\"\nwarmup = \"0s\"\n\
             [trace]\nkinds = [\"io\", \"path\"]\nmemory = \"32MiB\"\n"
        );
        self.write(&text)
    }

    fn write(&self, plan: &str) -> Result<(), Failed> {
        Ok(fs::write(self.folder().join("trial.toml"), plan)?)
    }

    fn runs_at_all(&self) -> Result<(), Failed> {
        self.plan("100ms", "", "")?;
        self.run().map(|_| ())
    }

    /// Runs the plan to its end; what its results.json says of its only cell.
    fn run(&self) -> Result<Value, Failed> {
        let output = self
            .wansan(&["lab", "run", "trial.toml", "--json"])
            .output()?;
        good(&output)?;
        let results: Value = serde_json::from_slice(&output.stdout)?;
        Ok(results["cells"][0].clone())
    }

    /// Starts the plan and waits until it is under load.
    fn start(&self) -> Result<Running, Failed> {
        let mut command = self.wansan(&["lab", "run", "trial.toml"]);
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut running = Running {
            child,
            folder: PathBuf::new(),
        };
        let until = Instant::now() + PATIENCE;
        while !self.path(&["show"])?.status.success() {
            check(Instant::now() < until, || {
                "the lab does not start".to_owned()
            })?;
            check(running.child.try_wait()?.is_none(), || {
                "the lab has ended".to_owned()
            })?;
            std::thread::sleep(Duration::from_millis(50));
        }
        running.folder = self.runs()?.pop().ok_or("there is no run folder")?;
        Ok(running)
    }

    fn runs(&self) -> Result<Vec<PathBuf>, Failed> {
        let mut runs = Vec::new();
        for entry in fs::read_dir(self.folder().join("runs/trial"))? {
            runs.push(entry?.path());
        }
        runs.sort();
        Ok(runs)
    }

    fn path(&self, arguments: &[&str]) -> Result<Output, Failed> {
        Ok(self.wansan(&["path"]).args(arguments).output()?)
    }

    /// What `wansan path … --json` says.
    fn asked(&self, arguments: &[&str]) -> Result<Value, Failed> {
        let output = self.path(&[arguments, &["--json"]].concat())?;
        good(&output)?;
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// The one line with which `wansan path …` is refused.
    fn refused(&self, arguments: &[&str]) -> Result<String, Failed> {
        let output = self.path(arguments)?;
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        check(output.status.code() == Some(2), || told.clone())?;
        check(told.lines().count() == 1, || told.clone())?;
        Ok(told)
    }
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(what().into()) }
}

fn good(output: &Output) -> Result<(), Failed> {
    check(output.status.success(), || {
        String::from_utf8_lossy(&output.stderr).into_owned()
    })
}

fn whole(value: &Value) -> Result<u64, Failed> {
    value
        .as_u64()
        .ok_or_else(|| format!("{value} is no number").into())
}

/// The path's direction of that name.
fn direction<'v>(paths: &'v Value, name: &str) -> Result<&'v Value, Failed> {
    let mut paths = paths.as_array().into_iter().flatten();
    let found = paths.find(|path| path["name"] == name);
    found.ok_or_else(|| format!("there is no {name}").into())
}

fn timeline(lab: &Lab) -> Result<(), Failed> {
    // The same with and without the change, after which a read takes ten times as long.
    lab.plan("2s", "", "")?;
    let steady = lab.run()?;
    let entries =
        "timeline = [\"at 100ms upper.forward.delay = 38ms\", \"at 600ms upper.mark = 1%\"]";
    lab.plan("2s", entries, "")?;
    let changed = lab.run()?;
    let p50 = |cell: &Value| whole(&cell["latency_p50_ns"]);
    let ratio = p50(&changed)? as f64 / p50(&steady)? as f64;
    check(ratio > 3.0, || format!("{ratio} times as long"))?;
    check(steady["timeline"] == serde_json::json!([]), || {
        steady["timeline"].to_string()
    })?;
    let made = changed["timeline"].as_array().ok_or("no timeline")?;
    check(made.len() == 2, || format!("{made:?}"))?;
    for (change, at_ns) in made.iter().zip([100_000_000, 600_000_000]) {
        check(change["asked_by"] == "plan", || change.to_string())?;
        check(change["planned_ns"] == at_ns, || change.to_string())?;
        // Not before its time; how long after is a matter of the machine.
        check(whole(&change["made_after_ns"])? >= at_ns, || {
            change.to_string()
        })?;
    }
    // The records have it from that very moment on, for the direction and its element.
    let made_at_ns = whole(&made[0]["made_at_ns"])?;
    let run = lab.runs()?.pop().ok_or("there is no run folder")?;
    let records = file::read::<event::Path>(&run.join("cell-000/path.parquet"))?;
    let mut rows = [0, 0];
    for row in &records.rows {
        let of = event::Path::element(records.names.get(row.record.path));
        if !matches!(of, ("upper:forward", None | Some("delay"))) {
            continue;
        }
        let is_after = row.record.time.ns() >= made_at_ns;
        let asked_ns = if is_after { 38_000_000 } else { 2_000_000 };
        check(row.record.delay_ns == asked_ns, || {
            format!("{of:?} {row:?}")
        })?;
        rows[usize::from(of.1.is_some())] += 1;
    }
    check(rows[0] > 50 && rows[1] > 50, || format!("{rows:?} records"))?;
    let forward = direction(&changed["paths"], "upper:forward")?;
    check(forward["delay_asked_ns"] == 38_000_000, || {
        forward.to_string()
    })?;
    let back = direction(&changed["paths"], "upper:back")?;
    check(back["delay_asked_ns"] == 2_000_000, || back.to_string())
}

fn outage(lab: &Lab) -> Result<(), Failed> {
    let entries = "timeline = [\"at 500ms upper down\", \"at 1500ms upper up\"]";
    let expects = "[[expect]]\nmetric = \"cells.path_dropped\"\nat_least = 1\n";
    lab.plan("4s", entries, "")?;
    let file = lab.folder().join("trial.toml");
    fs::write(&file, fs::read_to_string(&file)? + expects)?;
    let cell = lab.run()?;
    let made = &cell["timeline"];
    let (down, up) = (
        whole(&made[0]["made_at_ns"])?,
        whole(&made[1]["made_at_ns"])?,
    );
    let forward = direction(&cell["paths"], "upper:forward")?;
    let back = direction(&cell["paths"], "upper:back")?;
    let lost = whole(&forward["outage_drops"])? + whole(&back["outage_drops"])?;
    check(lost > 0, || "nothing was lost".to_owned())?;
    // Nothing was done meanwhile, and I/Os went on after it: the longest took as long as it.
    let longest = whole(&cell["initiators"][0]["latency_ns"]["max"])?;
    check(longest + 50_000_000 >= up - down, || format!("{longest}"))?;
    let iops = cell["iops"].as_f64().unwrap_or_default();
    check(iops * 4.0 > 150.0, || format!("{iops} IOPS"))
}

fn stays_down(lab: &Lab) -> Result<(), Failed> {
    lab.plan("2s", "timeline = [\"at 1s upper down\"]", "")?;
    let begun = Instant::now();
    let output = lab.wansan(&["lab", "run", "trial.toml"]).output()?;
    // Sooner than the session gives up by itself.
    let took = begun.elapsed();
    check(took < GIVEN_UP, || format!("it took {took:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().last().unwrap_or_default();
    let parts = ["cell 0 failed", "I/Os cannot complete", "s upper down"];
    check(output.status.code() == Some(2), || said.clone())?;
    check(parts.iter().all(|part| last.contains(part)), || {
        said.clone()
    })?;
    let run = lab.runs()?.pop().ok_or("there is no run folder")?;
    let results: Value = serde_json::from_slice(&fs::read(run.join("results.json"))?)?;
    let cell = &results["cells"][0];
    check(
        cell["failure"].is_string() && cell["iops"].is_null(),
        || cell.to_string(),
    )?;
    check(cell["timeline"][0]["made_at_ns"].is_u64(), || {
        cell.to_string()
    })?;
    let lost = |name: &str| whole(&direction(&cell["paths"], name)?["outage_drops"]);
    check(lost("upper:forward")? + lost("upper:back")? > 0, || {
        "nothing was lost".to_owned()
    })?;
    let folder = run.join("cell-000").to_string_lossy().into_owned();
    let explained = lab.wansan(&["explain", &folder]).output()?;
    good(&explained)?;
    let told = String::from_utf8_lossy(&explained.stdout).into_owned();
    check(
        told.contains("s upper down (by plan)") && told.contains("Cell 0 failed: "),
        || told.clone(),
    )
}

fn by_hand(lab: &Lab) -> Result<(), Failed> {
    let none = lab.refused(&["show"])?;
    check(none.contains("no lab is running"), || none.clone())?;
    lab.plan("8s", "", "rate = \"100Mbit/s\"")?;
    let mut running = lab.start()?;
    let socket = running.folder.join("control");
    let mode = fs::metadata(&socket)?.permissions().mode();
    check(mode & 0o777 == 0o600, || format!("{mode:o}"))?;
    for (statement, part) in [
        ("uper down", "did you mean `upper`?"),
        ("upper.dely = 1ms", "did you mean `delay`?"),
        ("upper.delay = 70s", "more than 60s"),
        ("upper.delay = 5", "`upper.delay`"),
        ("upper.queue.limit = 5KiB", ": `upper.queue.limit`"),
        ("upper.rate = none", "`unlimited`"),
        ("nonsense", "PATH.KEY = VALUE"),
    ] {
        let told = lab.refused(&["set", "upper.delay = 7ms", statement])?;
        check(told.contains(part), || told.clone())?;
    }
    let folder = running.folder.to_string_lossy().into_owned();
    let name = folder.rsplit('/').next().unwrap_or_default();
    for called in ["trial", &name[..9], &format!("trial/{name}")] {
        lab.asked(&["show", "--run", called])?;
    }
    let shown = lab.asked(&["show", "--run", &folder])?;
    let forward = direction(&shown["paths"], "upper:forward")?;
    check(forward["delay_asked_ns"] == 2_000_000, || {
        "half of what was refused has been made".to_owned()
    })?;
    check(shown["timeline"] == serde_json::json!([]), || {
        shown.to_string()
    })?;
    let made = lab.asked(&["set", "upper.delay = 20ms", "upper.back.rate = 50Mbit/s"])?;
    check(made[1]["made_at_ns"].is_u64(), || made.to_string())?;
    check(made[0]["made_at_ns"] == made[1]["made_at_ns"], || {
        made.to_string()
    })?;
    let until = Instant::now() + PATIENCE;
    loop {
        let shown = lab.asked(&["show"])?;
        let back = direction(&shown["paths"], "upper:back")?;
        let (delay, rate) = (&back["delay_asked_ns"], &back["rate_asked_bits_per_s"]);
        if *delay == 20_000_000 && *rate == 50_000_000 {
            check(whole(&back["in_packets"])? > 0, || back.to_string())?;
            let link = back["elements"].as_array().into_iter().flatten();
            let link = link.clone().find(|element| element["name"] == "link");
            check(link.is_some_and(|link| link["in_packets"] != 0), || {
                back.to_string()
            })?;
            break;
        }
        check(Instant::now() < until, || shown.to_string())?;
    }
    lab.asked(&["set", "upper.forward.rate = unlimited"])?;
    // What is shown is of the last sample.
    let until = Instant::now() + PATIENCE;
    loop {
        let shown = lab.asked(&["show"])?;
        let forward = direction(&shown["paths"], "upper:forward")?;
        if forward["rate_asked_bits_per_s"].is_null() {
            break;
        }
        check(Instant::now() < until, || forward.to_string())?;
    }
    let words = lab.path(&["show"])?;
    let words = String::from_utf8_lossy(&words.stdout).into_owned();
    check(words.contains("upper:back: delay 20.000 ms asked"), || {
        words.clone()
    })?;
    check(words.contains("rate unlimited asked, "), || words.clone())?;
    check(words.contains("upper.delay = 20ms (by hand)"), || {
        words.clone()
    })?;
    check(running.child.wait()?.success(), || {
        "the lab has failed".to_owned()
    })?;
    check(!socket.exists(), || "its socket is left".to_owned())?;
    let results = fs::read(running.folder.join("results.json"))?;
    let results: Value = serde_json::from_slice(&results)?;
    let timeline = &results["cells"][0]["timeline"];
    check(timeline[0]["asked_by"] == "hand", || timeline.to_string())?;
    check(
        timeline[1]["statement"] == "upper.back.rate = 50Mbit/s",
        || timeline.to_string(),
    )?;
    // Whoever looks at the run is told.
    let told = |arguments: &[&str]| -> Result<String, Failed> {
        let output = lab.wansan(arguments).output()?;
        good(&output)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    for arguments in [
        &["lab", "show", "trial"][..],
        &["lab", "export", "csv", "trial"],
        &["explain", &folder],
        &["explain", "trial"],
        &["explain", &format!("{folder}/cell-000")],
    ] {
        let told = told(arguments)?;
        let parts = [
            "upper.delay = 20ms (by hand)",
            "upper.back.rate = 50Mbit/s (by hand)",
        ];
        check(parts.iter().all(|part| told.contains(part)), || {
            format!("{arguments:?}: {told}")
        })?;
    }
    let timeline = running.folder.join("timeline.pftrace");
    let out = timeline.display().to_string();
    told(&["lab", "export", "perfetto", "trial", "--out", &out])?;
    check(fs::metadata(&timeline)?.len() > 10_000, || {
        "a timeline without I/Os".to_owned()
    })?;
    let export = ["lab", "export", "perfetto", "trial", "--cell", "9"];
    let missing = lab.wansan(&export).output()?;
    let complaint = String::from_utf8_lossy(&missing.stderr);
    check(complaint.contains("has no cell 9"), || {
        complaint.to_string()
    })?;
    lab.plan("1s", "", "rate = \"100Mbit/s\"")?;
    lab.run()?;
    let compared = told(&["lab", "compare", &folder, "trial"])?;
    check(
        compared.contains("A, cell 0: at ") && compared.contains("; A changed by hand"),
        || compared.clone(),
    )?;
    let over = lab.refused(&["set", "upper down", "--run", &folder])?;
    check(over.contains("no lab is running there"), || over.clone())
}

/// With sch_netem in the kernel or without.
fn netem(lab: &Lab) -> Result<(), Failed> {
    lab.plan("200ms", "world.emulator = \"netem\"", "")?;
    let file = lab.folder().join("trial.toml");
    let plan = fs::read_to_string(&file)?.replace("\"io\", \"path\"", "\"io\"");
    fs::write(&file, plan)?;
    let run = lab
        .wansan(&["lab", "run", "trial.toml", "--json"])
        .output()?;
    if run.status.success() {
        let results: Value = serde_json::from_slice(&run.stdout)?;
        let cell = &results["cells"][0];
        check(cell["emulator"] == "netem", || cell.to_string())?;
        let directions = cell["netem"].as_array().map_or(0, Vec::len);
        let carried = |direction: usize| cell["netem"][direction]["out_packets"].as_u64();
        return check(
            directions == 2 && carried(0) > Some(0) && carried(1) > Some(0),
            || cell.to_string(),
        );
    }
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    let last = said.lines().last().unwrap_or_default();
    let is_named = last.contains("sch_netem") || last.contains("apt-get install iproute2");
    check(run.status.code() == Some(2) && is_named, || said.clone())?;
    // Nor is a sweep begun that netem's cells would end.
    lab.plan("200ms", "", "")?;
    let plan = fs::read_to_string(&file)?.replace("\"io\", \"path\"", "\"io\"");
    fs::write(
        &file,
        plan + "[sweep]\n\"world.emulator\" = [\"user\", \"netem\"]\n",
    )?;
    let sweep = lab.wansan(&["lab", "run", "trial.toml"]).output()?;
    let said = String::from_utf8_lossy(&sweep.stderr).into_owned();
    check(sweep.status.code() == Some(2), || said)?;
    check(!lab.folder().join("runs").exists(), || {
        "a run that did not begin left its folder".to_owned()
    })
}

fn killed(lab: &Lab) -> Result<(), Failed> {
    lab.plan("60s", "", "")?;
    let mut running = lab.start()?;
    let listed = || -> Result<Value, Failed> {
        let output = lab.wansan(&["lab", "list", "--json"]).output()?;
        good(&output)?;
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    let list = listed()?;
    check(list[0]["running"] == true, || list.to_string())?;
    running.child.kill()?;
    running.child.wait()?;
    let list = listed()?;
    let killed = &list[0];
    check(
        killed["running"] == false && killed["complete"] == false && killed["plan"] == "trial",
        || list.to_string(),
    )?;
    let told = lab.refused(&["show"])?;
    check(told.contains("no lab is running"), || told.clone())?;
    let folder: &Path = &running.folder;
    let told = lab.refused(&["set", "upper up", "--run", &folder.to_string_lossy()])?;
    check(told.contains("no lab is running there"), || told.clone())?;
    // A new one is found beside it.
    lab.plan("2s", "", "")?;
    let mut again = lab.start()?;
    check(again.child.wait()?.success(), || {
        "the lab has failed".to_owned()
    })
}
