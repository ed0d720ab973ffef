//! Runs from plan to report, with a stand-in for the programs on the hosts.
//!
//! The stand-in is this test program: its `target` answers requests of 48 bytes with 4144 bytes over the real path, and
//! can simulate every failure of a program. Real programs are tested where they are built.

#[path = "stand_in/programs.rs"]
mod stand_in;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libtest_mimic::Arguments;
use wansan_arms::{ROLE, end, one_arm};
use wansan_lab::hosts::Reach;
use wansan_lab::plan::{Phase, Plan};
use wansan_lab::run::{Observer, Options, RunError, run};
use wansan_lab::world::isolate;
use wansan_san::settings::{BenchSettings, TargetSettings};
use wansan_schema::{CellResult, Results};
use wansan_trace::{ConnectionId, Direction, Kinds, Layer, Recorder, SessionId, TaskTag, clock};

use stand_in::{ANSWER_BYTES, REQUEST_BYTES};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let played = match arguments.first().map(String::as_str) {
        Some(ROLE) => play(&arguments[1]),
        Some("target") => target(&arguments),
        Some("bench") => bench(&arguments),
        _ => return test(),
    };
    end(played)
}

/// A test's name and its role.
const TESTS: [(&str, &str); 12] = [
    ("a run leaves all its files", "whole"),
    ("delays are those of the plan", "delays"),
    ("initiators begin together", "together"),
    (
        "a target grants the connections that the plan asks for",
        "crowd",
    ),
    (
        "a congestion control that is not there costs no cell",
        "no-control",
    ),
    ("an unmet expectation is told", "unmet"),
    ("a target that does not start leaves nothing", "no-target"),
    (
        "an initiator that fails is told with its words",
        "bad-bench",
    ),
    ("a target that dies ends the cell", "dying-target"),
    ("babble is told from a report", "babble"),
    ("an interrupted run keeps what is complete", "interrupted"),
    (
        "a run interrupted at once leaves nothing",
        "interrupted at once",
    ),
];

fn test() -> ExitCode {
    let arguments = Arguments::from_args();
    let arm = one_arm(|arm| arm.plays(&["isolate"]));
    let trials = TESTS
        .map(|(name, role)| arm.trial(name, move || arm.plays(&[role])))
        .into();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn play(role: &str) -> Result<(), String> {
    let rights = isolate().map_err(|error| error.to_string())?;
    if role == "isolate" {
        return Ok(());
    }
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let stop = AtomicBool::new(role == "interrupted at once");
    let trial = Lab {
        options: Options {
            program: std::env::current_exe().map_err(|error| error.to_string())?,
            out: scratch.path().join("runs"),
            rights,
            reach: Reach::default(),
            on: None,
            budget: None,
            stop: &stop,
        },
    };
    match role {
        "whole" => trial.whole(),
        "delays" => trial.delays(),
        "together" => trial.together(),
        "crowd" => run(&plan("crowd", ""), &trial.options, &mut Seen::default())
            .map(drop)
            .map_err(|error| error.to_string()),
        "no-control" => trial.no_control(),
        "unmet" => trial.unmet(),
        "no-target" => trial.no_target(),
        "bad-bench" => trial.fails_with(
            "break",
            &["the initiator on `client-", "the disk is on fire"],
        ),
        "dying-target" => trial.fails_with("die", &["the target on `storage`", "out of order"]),
        "babble" => trial.fails_with("babble", &["instead of a report of a bench", "hello"]),
        "interrupted" => trial.interrupted(),
        "interrupted at once" => trial.interrupted_at_once(),
        other => Err(format!("no role `{other}`")),
    }
}

/// Prefix of the stand-in target's name; its behaviour follows.
const NAMING: &str = "iqn.2026-11.net.wansan:";

/// More than a target's default.
const CONNECTIONS: u32 = 40;

/// The plan of all tests; the target's name selects the stand-in's behaviour.
fn plan(behaviour: &str, more: &str) -> Plan {
    let behaviour = format!("{NAMING}{behaviour}");
    let text = format!(
        "title = \"Trial\"\n{more}\n\
         [[host]]\nname = \"storage\"\n[[host]]\nname = \"client\"\ncount = 2\n\
         [[path]]\nbetween = [\"client\", \"storage\"]\ndelay = \"5ms\"\nrate = \"1Gbit/s\"\n\
         [target]\nhost = \"storage\"\nname = \"{behaviour}\"\nluns = [\"memory:1MiB\"]\n\
         [[initiator]]\nhost = \"client\"\nconnections = {CONNECTIONS}\n\
         [workload]\nop = \"read\"\nblock = \"4KiB\"\ntime = \"300ms\"\nwarmup = \"50ms\"\n\
         [trace]\nkinds = [\"io\", \"path\", \"packet\"]\nmemory = \"32MiB\"\n\
         [sweep]\nworkload.parallel = [1, 4]\n"
    );
    Plan::parse(Path::new("trial.toml"), &text).expect("the trial's plan is right")
}

/// A plan's `[paper]` table.
const PAPER: &str = "[paper]\ntitle = \"A paper\"\ndiffers = [\"Ours is short.\"]\n";

/// The data embedded in a report's page.
fn page_data(page: &Path) -> Result<serde_json::Value, String> {
    let text = std::fs::read_to_string(page).map_err(|error| error.to_string())?;
    let data = text.split(r#"<script id="run-data" type="application/json">"#);
    let data = data.last().and_then(|rest| rest.split("</script>").next());
    serde_json::from_str(data.unwrap_or_default()).map_err(|error| error.to_string())
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

struct Lab<'a> {
    options: Options<'a>,
}

#[derive(Default)]
struct Seen {
    phases: usize,
    cells: usize,
    found: usize,
}

impl Observer for Seen {
    fn phase(&mut self, _phase: Phase, _cells: usize, _left: Duration) {
        self.phases += 1;
    }
    fn progress(&mut self, _done: usize, _cells: usize, _left: Duration) {}
    fn cell(&mut self, _result: &CellResult) {
        self.cells += 1;
    }
    fn found(&mut self, _results: &Results) {
        self.found += 1;
    }
}

impl Lab<'_> {
    fn whole(&self) -> Result<(), String> {
        let mut seen = Seen::default();
        let outcome =
            run(&plan("well", PAPER), &self.options, &mut seen).map_err(|e| e.to_string())?;
        check((seen.phases, seen.cells, seen.found) == (1, 2, 1), || {
            "a call is missing".into()
        })?;
        for name in [
            "manifest.json",
            "results.json",
            "report.html",
            "cell-000/io.parquet",
            "cell-001/path.parquet",
            "cell-001/packet.parquet",
        ] {
            check(outcome.folder.join(name).exists(), || {
                format!("{name} is missing")
            })?;
        }
        let parts =
            std::fs::read_dir(outcome.folder.join("cell-000")).map_err(|e| e.to_string())?;
        for part in parts.flatten() {
            let name = part.file_name().to_string_lossy().into_owned();
            check(!name.contains(".part."), || format!("{name} is left"))?;
        }
        let manifest = read_json(&outcome.folder.join("manifest.json"))?;
        let settings = &manifest["cells"][0]["nodes"][0]["settings"];
        check(settings["net.ipv4.tcp_ecn"] == "0", || {
            format!("{settings}")
        })?;
        let paths = manifest["cells"][1]["paths"].as_array().map_or(0, Vec::len);
        check(paths == 2, || format!("{paths} directions"))?;
        for name in [
            "emulator_ring_drops",
            "emulator_strays",
            "emulator_offloaded",
        ] {
            let count = &manifest["cells"][1][name];
            check(count == 0, || format!("{name} is {count}"))?;
        }
        let results = read_json(&outcome.folder.join("results.json"))?;
        check(
            results["cells"][1]["initiators"][1]["host"] == "client-2",
            || results.to_string(),
        )?;
        check(!results["finding"].is_null(), || {
            "there is no finding".into()
        })?;
        let page = page_data(&outcome.folder.join("report.html"))?;
        check(page["paper"]["differs"][0] == "Ours is short.", || {
            page["paper"].to_string()
        })?;
        check(page["load"] == "initiators", || page["load"].to_string())?;
        let nested = &page["cells"][1]["measures"]["in_flight.app"];
        let app = &results["cells"][1]["in_flight"]["app"];
        check(app.is_number() && nested == app, || {
            page["cells"][1]["measures"].to_string()
        })
    }

    fn delays(&self) -> Result<(), String> {
        let expectations = "[[expect]]\nmetric = \"cells.latency_p50_ns\"\nat_least = \"10ms\"\n";
        let outcome = run(
            &plan("well", expectations),
            &self.options,
            &mut Seen::default(),
        )
        .map_err(|error| error.to_string())?;
        check(outcome.as_expected(), || {
            format!("{:?}", outcome.results.expectations)
        })?;
        // Each cell's queue depth holds over that time, however slow the machine.
        let [one, four] = [0, 1].map(|cell| outcome.results.cells[cell].in_flight["app"]);
        let ratio = four / one;
        check(ratio > 2.0, || format!("4 asked for are {ratio} times 1"))
    }

    fn together(&self) -> Result<(), String> {
        let outcome = run(&plan("slow", ""), &self.options, &mut Seen::default())
            .map_err(|error| error.to_string())?;
        let cell = &outcome.results.cells[0];
        let [one, other] = &cell.initiators[..] else {
            return Err(format!("{:?}", cell.initiators));
        };
        check(other.measured_from_ns < one.measured_to_ns, || {
            format!("one was done before the other began: {:?}", cell.initiators)
        })
    }

    fn unmet(&self) -> Result<(), String> {
        let expectations = "[[expect]]\nmetric = \"cells.latency_p50_ns\"\nat_most = \"9ms\"\n";
        let outcome = run(
            &plan("well", expectations),
            &self.options,
            &mut Seen::default(),
        )
        .map_err(|error| error.to_string())?;
        check(!outcome.as_expected(), || "light has been overtaken".into())
    }

    fn no_control(&self) -> Result<(), String> {
        let text = "[quick]\ntcp.congestion_control = \"nonsense\"\n";
        let plan = plan("well", text).quick().map_err(|e| e.to_string())?;
        let mut seen = Seen::default();
        let error = run(&plan, &self.options, &mut seen)
            .map(|_| ())
            .expect_err("there is no such control");
        let message = error.to_string();
        check(matches!(error, RunError::Plan(_)), || message.clone())?;
        check(message.contains("'nonsense' is not in"), || message.clone())?;
        check(seen.phases == 0 && !self.options.out.exists(), || {
            "it began nevertheless".into()
        })
    }

    fn no_target(&self) -> Result<(), String> {
        let error = run(&plan("refuse", ""), &self.options, &mut Seen::default())
            .map(|_| ())
            .expect_err("the target refuses");
        let message = error.to_string();
        check(matches!(error, RunError::NotStarted(_)), || message.clone())?;
        check(message.contains("I will not"), || message.clone())?;
        check(!self.options.out.exists(), || "a folder is left".into())
    }

    fn fails_with(&self, behaviour: &str, parts: &[&str]) -> Result<(), String> {
        let error = run(&plan(behaviour, ""), &self.options, &mut Seen::default())
            .map(|_| ())
            .expect_err("it is to fail");
        let message = error.to_string();
        for part in parts {
            check(message.contains(part), || {
                format!("no `{part}` in: {message}")
            })?;
        }
        let RunError::Cell {
            cell: 0, folder, ..
        } = error
        else {
            return Err(message);
        };
        let manifest = read_json(&folder.join("manifest.json"))?;
        let facts = &manifest["cells"][0];
        check(
            facts["nodes"]
                .as_array()
                .is_some_and(|nodes| nodes.len() == 3)
                && facts["programs"]["storage"].is_string(),
            || format!("what was built is not told: {facts}"),
        )?;
        let results = read_json(&folder.join("results.json"))?;
        let told = results["cells"][0]["failure"].as_str().unwrap_or_default();
        check(parts.iter().all(|part| told.contains(part)), || {
            results.to_string()
        })?;
        check(folder.join("report.html").exists(), || {
            "there is no report".into()
        })
    }

    fn interrupted(&self) -> Result<(), String> {
        let mut after_one = StopAfterOne(self.options.stop);
        match run(&plan("well", ""), &self.options, &mut after_one) {
            Err(RunError::Interrupted {
                folder: Some(folder),
            }) => {
                let results = read_json(&folder.join("results.json"))?;
                let cells = results["cells"].as_array().map_or(0, Vec::len);
                check(cells == 1, || results.to_string())?;
                check(folder.join("cell-000/io.parquet").exists(), || {
                    "records are gone".into()
                })?;
                check(!folder.join("cell-001").exists(), || {
                    "half a cell is left".into()
                })
            }
            other => Err(format!("{:?}", other.map(|outcome| outcome.folder))),
        }
    }

    fn interrupted_at_once(&self) -> Result<(), String> {
        match run(&plan("well", ""), &self.options, &mut Seen::default()) {
            Err(RunError::Interrupted { folder: None }) => {
                check(!self.options.out.exists(), || "a folder is left".into())
            }
            other => Err(format!("{:?}", other.map(|outcome| outcome.folder))),
        }
    }
}

/// Interrupts the run after its first cell.
struct StopAfterOne<'a>(&'a AtomicBool);

impl Observer for StopAfterOne<'_> {
    fn phase(&mut self, _phase: Phase, _cells: usize, _left: Duration) {}
    fn progress(&mut self, _done: usize, _cells: usize, _left: Duration) {}
    fn cell(&mut self, _result: &CellResult) {
        self.0.store(true, Ordering::Relaxed);
    }
    fn found(&mut self, _results: &Results) {}
}

fn read_json(path: &Path) -> Result<serde_json::Value, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

fn target(arguments: &[String]) -> Result<(), String> {
    let settings: TargetSettings = stand_in::settings(arguments)?;
    let target = &settings.file.target[0];
    let behaviour = target.name.trim_start_matches(NAMING);
    if behaviour == "refuse" {
        return Err("I will not".to_owned());
    }
    let granted = u32::from(target.max_connections);
    if behaviour == "crowd" && granted < CONNECTIONS {
        return Err(format!("I take {granted} and no more"));
    }
    let listener = stand_in::listen(&settings.file.listen[0]).map_err(|error| error.to_string())?;
    if behaviour == "die" {
        std::thread::sleep(Duration::from_millis(100));
        return Err("out of order".to_owned());
    }
    stand_in::answer(listener).map_err(|error| error.to_string())
}

fn bench(arguments: &[String]) -> Result<(), String> {
    let settings: BenchSettings = stand_in::settings(arguments)?;
    let url = &settings.initiator.url.0;
    let behaviour = url.target.trim_start_matches(NAMING);
    match behaviour {
        "break" => return Err("the disk is on fire".to_owned()),
        "babble" => {
            stand_in::wait_to_begin().map_err(|error| error.to_string())?;
            println!("hello");
            return Ok(());
        }
        _ => {}
    }
    let parallel = settings.load.parallel;
    let mut stream =
        TcpStream::connect((url.host.as_str(), url.port)).map_err(|e| e.to_string())?;
    stream.set_nodelay(true).map_err(|e| e.to_string())?;
    let kinds = Kinds {
        io: true,
        ..Kinds::NONE
    };
    let mut recorder = Recorder::new(kinds, 32 << 20);
    let session = SessionId::new(
        [0, 0, 0, 0, 0, url.target.len() as u8],
        std::process::id() as u16,
    );
    let mut cross = |task: u32, direction| {
        recorder.crossing(
            clock::now(),
            session,
            ConnectionId(0),
            TaskTag(task),
            Layer::App,
            direction,
        );
    };
    let mut answer = vec![0; ANSWER_BYTES];
    let host = settings.record.place.host.as_ref();
    if behaviour.starts_with("slow") && host.is_some_and(|host| host.0.as_str() == "client-2") {
        // Longer than the other's measurement.
        std::thread::sleep(Duration::from_millis(600));
    }
    stand_in::wait_to_begin().map_err(|error| error.to_string())?;
    let from = clock::now();
    let mut asked = 0u32;
    let mut answered = 0u32;
    let ends = from + Duration::from_millis(350);
    while clock::now() < ends || answered < asked {
        while asked < answered + parallel && clock::now() < ends {
            cross(asked, Direction::Enter);
            stream
                .write_all(&[0; REQUEST_BYTES])
                .map_err(|e| e.to_string())?;
            asked += 1;
        }
        if answered < asked {
            stream.read_exact(&mut answer).map_err(|e| e.to_string())?;
            cross(answered, Direction::Leave);
            answered += 1;
        }
    }
    stand_in::report(&settings, recorder, from, answered)
}
