//! Paths that change while a lab runs: by the plan's timeline, and by `wansan path set`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use wansan_trace::{event, file};

/// The user that the suite drops to when root starts it.
const NOBODY: u32 = 65_534;
/// Longest wait for something that a lab does.
const PATIENCE: Duration = Duration::from_secs(60);

type Test = fn(&Lab) -> Result<(), Failed>;

const TESTS: [(&str, Test); 5] = [
    ("a timeline changes paths at its times", timeline),
    ("a path goes down and comes up under a session", outage),
    ("paths are shown and set while a lab runs", by_hand),
    ("a capture has every packet and what became of it", capture),
    ("a killed lab is not taken for a running one", killed),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Worlds side by side would take each other's processor time.
    arguments.test_threads = Some(1);
    let mut arms = vec![("an ordinary user", None)];
    if rustix::process::getuid().is_root() {
        arms = vec![("root", None), ("an ordinary user", Some(NOBODY))];
    }
    let mut trials = Vec::new();
    for (arm, drop_to) in arms {
        let obstacle = Lab::new(drop_to).and_then(|lab| lab.obstacle());
        if let Err(reason) = &obstacle {
            eprintln!("not run as {arm}: {}", reason.message().unwrap_or_default());
        }
        for (name, test) in TESTS {
            let trial = Trial::test(format!("{name}, as {arm}"), move || {
                test(&Lab::new(drop_to)?)
            });
            trials.push(trial.with_ignored_flag(obstacle.is_err()));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A folder to run labs in.
struct Lab {
    scratch: tempfile::TempDir,
    drop_to: Option<u32>,
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
    fn new(drop_to: Option<u32>) -> Result<Lab, Failed> {
        let scratch = tempfile::tempdir()?;
        // A path that no socket's address has room for.
        let deep = scratch.path().join("d".repeat(120));
        fs::create_dir(&deep)?;
        for folder in [scratch.path(), &deep] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o777))?;
        }
        Ok(Lab { scratch, drop_to })
    }

    fn folder(&self) -> PathBuf {
        self.scratch.path().join("d".repeat(120))
    }

    fn wansan(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wansan"));
        command.args(arguments).current_dir(self.folder());
        if let Some(id) = self.drop_to {
            command.uid(id).gid(id);
        }
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
        Ok(fs::write(self.folder().join("trial.toml"), text)?)
    }

    fn obstacle(&self) -> Result<(), Failed> {
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

fn by_hand(lab: &Lab) -> Result<(), Failed> {
    let none = lab.refused(&["show"])?;
    check(none.contains("no lab runs"), || none.clone())?;
    lab.plan("8s", "", "rate = \"100Mbit/s\"")?;
    let mut running = lab.start()?;
    let socket = running.folder.join("control");
    let mode = fs::metadata(&socket)?.permissions().mode();
    check(mode & 0o777 == 0o600, || format!("{mode:o}"))?;
    for (statement, part) in [
        ("uper down", "did you mean `upper`?"),
        ("upper.dely = 1ms", "did you mean `delay`?"),
        ("upper.delay = 70s", "more than 60s"),
        ("nonsense", "PATH.KEY = VALUE"),
    ] {
        let told = lab.refused(&["set", "upper.delay = 7ms", statement])?;
        check(told.contains(part), || told.clone())?;
    }
    let folder = running.folder.to_string_lossy().into_owned();
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
    let words = lab.path(&["show"])?;
    let words = String::from_utf8_lossy(&words.stdout).into_owned();
    check(words.contains("upper:back: delay 20.000 ms asked"), || {
        words.clone()
    })?;
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
    let over = lab.refused(&["set", "upper down", "--run", &folder])?;
    check(over.contains("no lab runs there"), || over.clone())
}

fn killed(lab: &Lab) -> Result<(), Failed> {
    lab.plan("60s", "", "")?;
    let mut running = lab.start()?;
    running.child.kill()?;
    running.child.wait()?;
    let told = lab.refused(&["show"])?;
    check(told.contains("no lab runs"), || told.clone())?;
    let folder: &Path = &running.folder;
    let told = lab.refused(&["set", "upper up", "--run", &folder.to_string_lossy()])?;
    check(told.contains("no lab runs there"), || told.clone())?;
    // A new one is found beside it.
    lab.plan("2s", "", "")?;
    let mut again = lab.start()?;
    check(again.child.wait()?.success(), || {
        "the lab has failed".to_owned()
    })
}

fn capture(lab: &Lab) -> Result<(), Failed> {
    lab.plan("1s", "", "capture = true\nloss = { packets = [8, 12] }")?;
    let plan = lab.folder().join("trial.toml");
    let cell = lab.run()?;
    let run = lab.runs()?.pop().ok_or("there is no run folder")?;
    let file = run.join("cell-000/upper.pcapng");
    let packets = captured(&fs::read(&file)?)?;
    for (interface, name) in [(0, "upper:forward"), (1, "upper:back")] {
        let path = direction(&cell["paths"], name)?;
        let here = packets
            .iter()
            .filter(|packet| packet.interface == interface);
        let all = whole(&path["out_packets"])? + whole(&path["dropped_packets"])?;
        check(here.clone().count() as u64 == all, || {
            format!("{name}: not {all}")
        })?;
        let lost: Vec<&Packet> = here.filter(|packet| !packet.comment.is_empty()).collect();
        let dropped = whole(&path["dropped_packets"])?;
        check(dropped == 2 && lost.len() == 2, || {
            format!("{name}: {} and {dropped} are lost", lost.len())
        })?;
        let told = lost.iter().all(|packet| packet.comment == "wansan: lost");
        check(told, || lost[0].comment.clone())?;
    }
    check(packets.is_sorted_by_key(|packet| packet.time_ns), || {
        "they are out of order".to_owned()
    })?;
    // IPv4 or ARP, as hosts send them.
    let known = packets
        .iter()
        .all(|packet| matches!(packet.ethertype, 0x0800 | 0x0806));
    check(known, || "there are strange frames".to_owned())?;
    let span_ns = packets.last().map_or(0, |packet| packet.time_ns) - packets[0].time_ns;
    check(span_ns > 400_000_000, || format!("only {span_ns} ns"))?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let age_ns = now.as_nanos() as u64 - packets[0].time_ns;
    check(age_ns < PATIENCE.as_nanos() as u64, || {
        format!("{age_ns} ns ago")
    })?;
    // Where Wireshark's tools are, they agree.
    if let Ok(output) = Command::new("capinfos")
        .args(["-c", "-M", "-r", "-T"])
        .arg(&file)
        .output()
    {
        good(&output)?;
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        check(told.contains(&packets.len().to_string()), || told.clone())?;
    }
    // A name that is none of a file is refused with its line, before anything runs.
    let text = fs::read_to_string(&plan)?;
    fs::write(&plan, text.replace("\"upper\"", "\"../upper\""))?;
    let output = lab.wansan(&["lab", "check", "trial.toml"]).output()?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    check(output.status.code() == Some(2), || told.clone())?;
    check(
        told.contains("trial.toml:") && told.contains("capture's file"),
        || told.clone(),
    )
}

/// A frame of a capture.
struct Packet {
    interface: u32,
    time_ns: u64,
    ethertype: u16,
    comment: String,
}

/// Reads a little-endian pcapng file of one section.
fn captured(file: &[u8]) -> Result<Vec<Packet>, Failed> {
    let word = |at: usize| -> Result<u32, Failed> {
        let bytes = file.get(at..at + 4).ok_or("it is cut short")?;
        Ok(u32::from_le_bytes(bytes.try_into()?))
    };
    check(word(0)? == 0x0a0d_0d0a && word(8)? == 0x1a2b_3c4d, || {
        "it is no pcapng file".to_owned()
    })?;
    let mut packets = Vec::new();
    let mut at = 0;
    while at < file.len() {
        let length = word(at + 4)? as usize;
        check(
            length >= 12 && word(at + length - 4)? as usize == length,
            || format!("the block at {at} has two lengths"),
        )?;
        if word(at)? == 6 {
            let bytes = word(at + 20)? as usize;
            check(bytes == word(at + 24)? as usize, || {
                "a frame is cut".to_owned()
            })?;
            let options = at + 28 + bytes.next_multiple_of(4);
            let comment = if options < at + length - 4 {
                let of = &file[options + 4..options + 4 + usize::from(file[options + 2])];
                String::from_utf8_lossy(of).into_owned()
            } else {
                String::new()
            };
            packets.push(Packet {
                interface: word(at + 8)?,
                time_ns: u64::from(word(at + 12)?) << 32 | u64::from(word(at + 16)?),
                ethertype: u16::from_be_bytes([file[at + 40], file[at + 41]]),
                comment,
            });
        }
        at += length;
    }
    check(!packets.is_empty(), || "it has no packets".to_owned())?;
    Ok(packets)
}
