//! The finder on worlds where the answer is known, and data over paths that lose it: every plan in
//! plans/limits expects its own finding, every plan in plans/checks and plans/topologies its own
//! outcome, every plan in plans/papers the shape of what it rebuilds (in its quick form), and the
//! real programs over the real kernel's TCP must lead to it. Without the effect that a paper is about, its
//! quick form has to fail.
//!
//! Papers take ten minutes: `make test-papers` runs them, and an ordinary run only the [`CANARIES`].
//! What a machine does not allow is counted as ignored, with the reason.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::sync::{Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use wansan_arms::{Arm, one_arm, open_to_all};
use wansan_peers::machine::{unless_disturbed, unless_disturbed_as_seen};
use wansan_tcp::control::Algorithm;
use wansan_tcp::ebpf::{self, EbpfError};

mod prediction;
mod without_effect;

use without_effect::WITHOUT_EFFECT;

/// What the line of an expectation that is not met begins with.
const MISSED: &str = "NOT AS EXPECTED: ";

/// Plans of which a simulated world misses an expectation (docs/internals/simulator.md).
const OTHERWISE_SIMULATED: [&str; 2] = ["p3-ipsec", "p5-dummynet-queue"];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // What measures runs by itself ([`alone`]), and beside it what does not: the longest of all plans, first.
    arguments.test_threads = Some(2);
    let mut trials: Vec<Trial> = plans("plans/papers")
        .into_iter()
        .chain(plans("plans/limits"))
        .chain(plans("plans/checks"))
        .chain(plans("plans/topologies"))
        .chain(plans("plans/congestion"))
        .chain(plans("plans/simulator"))
        .map(|plan| Trial::test(format!("{} is right", name(&plan)), move || is_right(&plan)))
        .collect();
    trials.extend(papers(&arguments));
    let arm = one_arm(makes_a_world);
    for plan in plans("plans/checks") {
        let name = name(&plan);
        let title = arm.name_of(&name);
        let simulated = plan.clone();
        let test = move || comes_out_as_expected(&title, &plan, &[], arm);
        trials.insert(0, arm.trial(&name, test));
        let test = move || comes_out_simulated(&simulated, &["--world", "sim"]);
        trials.push(Trial::test(format!("{name}, simulated"), test));
    }
    for plan in plans("plans/topologies") {
        let name = name(&plan);
        let has_tunnels = text(&plan).contains("vpn = ");
        // An ordinary user seldom may make the devices of tunnels.
        let arm = if has_tunnels { Arm::of_suite() } else { arm };
        let title = arm.name_of(&name);
        let test = move || alone(|| comes_out_as_expected(&title, &plan, &[], arm));
        trials.push(match has_tunnels {
            true => arm.tunnel_trial(name, test),
            false => arm.trial(name, test),
        });
    }
    for plan in plans("plans/limits") {
        let name = name(&plan);
        let simulated = plan.clone();
        let test = move || comes_out_simulated(&simulated, &["--world", "sim"]);
        trials.push(Trial::test(format!("{name}, simulated"), test));
        let title = arm.name_of(&name);
        let test = move || alone(|| comes_out_as_expected(&title, &plan, &[], arm));
        trials.push(arm.trial(name, test));
    }
    let simulated = ["plans/papers", "plans/congestion", "plans/topologies"];
    for plan in simulated.into_iter().flat_map(plans) {
        let name = name(&plan);
        if OTHERWISE_SIMULATED.contains(&&name[..]) {
            continue;
        }
        let form: &[&str] = match text(&plan).contains("\n[quick]") {
            true => &["--quick", "--world", "sim"],
            false => &["--world", "sim"],
        };
        let test = move || comes_out_simulated(&plan, form);
        trials.push(Trial::test(format!("{name}, simulated"), test));
    }
    let mut predicted = |name: &str, test: fn(Arm) -> prediction::Unless| {
        let title = arm.name_of(name);
        let test = move || {
            let mut why = None;
            let completion = alone(|| {
                unless_disturbed(&title, || {
                    why = test(arm)?;
                    Ok(())
                })
            })?;
            Ok(why.map_or(completion, |why| {
                Completion::ignored_with(format!("not measurable: {why}"))
            }))
        };
        trials.push(arm.trial(name.to_owned(), test));
    };
    let name = "a command window before a store is predicted";
    predicted(name, prediction::a_window_before_a_store);
    let name = "a captured command window is predicted";
    predicted(name, prediction::a_captured_window);
    let name = "a command window before a store is found and confirmed";
    predicted(name, prediction::tuning);
    trials.push(Trial::test(
        "a simulated load whose I/Os fail is an error",
        simulated_failure,
    ));
    let name = "a simulated sweep is the same on one processor";
    trials.push(Trial::test(name, same_on_one_processor));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Writes to a unit that is read-only.
fn simulated_failure() -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    let plan = scratch.path().join("writes.toml");
    let text = text(&repository("plans/limits/path-rate.toml"));
    let text = text.replace("memory:64MiB", "memory:64MiB,read-only");
    let text = text.replace("op = \"read\"", "op = \"write\"");
    std::fs::write(&plan, text)?;
    let output = wansan(Arm::of_suite())
        .args(["lab", "run", "--world", "sim"])
        .arg(&plan)
        .arg("--out")
        .arg(scratch.path().join("runs"))
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let is_named = said.contains("cell 0 failed: the initiator on `client`: ")
        && said.contains("I/Os failed, the first with: ");
    match output.status.code() == Some(2) && is_named {
        true => Ok(()),
        false => Err(format!("{}: {said}", output.status).into()),
    }
}

/// A sweep of simulated cells with losses, on all processors and on the first: results and records.
fn same_on_one_processor() -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    let plan = scratch.path().join("sweep.toml");
    let text = text(&repository("plans/limits/path-rate.toml"));
    let text = text.split("[[expect]]").next().unwrap_or_default();
    let text = text.replace("rate = ", "loss = \"0.1%\"\nrate = ");
    let sweep =
        "[sweep]\nworkload.parallel = [1, 2, 4, 8, 16, 32]\nworkload.op = [\"read\", \"mix\"]\n";
    std::fs::write(&plan, format!("{text}\n{sweep}"))?;
    let run = |out: &str, command: &[&str]| {
        let folder = scratch.path().join(out);
        let output = Command::new(command[0])
            .args(&command[1..])
            .args(["lab", "run", "--world", "sim"])
            .arg(&plan)
            .arg("--out")
            .arg(&folder)
            .output()?;
        told(&output, output.status.success())?;
        let runs = std::fs::read_dir(folder.join("sweep"))?;
        let run = runs.flatten().next().ok_or("it left no run")?;
        Ok::<PathBuf, Failed>(run.path())
    };
    let wansan = env!("CARGO_BIN_EXE_wansan");
    let all = run("all", &[wansan])?;
    let one = run("one", &["taskset", "-c", "0", wansan])?;
    let files = [
        "results.json",
        "cell-000/io.parquet",
        "cell-011/packet.parquet",
    ];
    for file in files {
        let read = |run: &Path| std::fs::read(run.join(file));
        if read(&all)? != read(&one)? {
            return Err(format!("{file} differs").into());
        }
    }
    Ok(())
}

/// Quick forms of papers that an ordinary run has as well.
const CANARIES: [&str; 3] = ["p1-fig16", "p2-command-window", "relay-latency"];

/// The quick forms of papers, with their effects and without.
fn papers(arguments: &Arguments) -> Vec<Trial> {
    let with_effect = plans("plans/papers").into_iter().map(|plan| {
        let name = name(&plan);
        let title = format!("{name} in its quick form");
        let is_canary = CANARIES.contains(&name.as_str());
        let of_plan = plan.clone();
        let of_trial = title.clone();
        let form = &["--quick"];
        let test = move || alone(|| comes_out_as_expected(&of_trial, &plan, form, Arm::of_suite()));
        (is_canary, with_controls(&of_plan, title, test))
    });
    let without_effect = WITHOUT_EFFECT.iter().map(|without| {
        let plan = repository(&format!("plans/papers/{}.toml", without.plan));
        let title = format!("{} without {} fails", without.plan, without.effect);
        let text = text(&plan);
        let test = move || {
            let fails = alone(|| without.fails(&text, Arm::of_suite()));
            fails.map(|()| Completion::Completed)
        };
        (false, with_controls(&plan, title, test))
    });
    let all: Vec<(bool, Trial)> = with_effect.chain(without_effect).collect();
    if arguments.ignored {
        let possible = all.into_iter().map(|(_, trial)| trial);
        let possible = possible.filter(|trial| !trial.has_ignored_flag());
        return possible
            .map(|trial| trial.with_ignored_flag(true))
            .collect();
    }
    let others = all.iter().filter(|(is_canary, _)| !is_canary).count();
    println!("not run {others} papers' plans: they take ten minutes: make test-papers");
    let trials = all.into_iter().map(|(is_canary, trial)| {
        let ignored = trial.has_ignored_flag() || !is_canary;
        trial.with_ignored_flag(ignored)
    });
    trials.collect()
}

/// A file or folder of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// The plans in a folder of the repository, by name.
fn plans(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository(folder)).expect("the repository has plans");
    let mut plans: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    plans.sort();
    plans
}

fn name(plan: &Path) -> String {
    plan.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn text(plan: &Path) -> String {
    std::fs::read_to_string(plan).expect("the plan is there")
}

/// A test of a plan; one that does not run where a congestion control that the plan names cannot be had.
fn with_controls(
    plan: &Path,
    title: String,
    test: impl FnOnce() -> Result<Completion, Failed> + Send + 'static,
) -> Trial {
    let obstacle = lacks_controls(plan);
    if let Some(reason) = &obstacle {
        println!("not run: {title}: {reason}");
    }
    Trial::ignorable_test(title, test).with_ignored_flag(obstacle.is_some())
}

/// Why a plan cannot have the congestion controls that it names, if it names any of ours.
fn lacks_controls(plan: &Path) -> Option<EbpfError> {
    let text = text(plan);
    let wanted = Algorithm::ALL.iter().any(|law| text.contains(law.name()));
    wanted.then(ebpf::available)?.err()
}

fn wansan(arm: Arm) -> Command {
    arm.command(env!("CARGO_BIN_EXE_wansan"))
}

/// Whether this arm can make worlds here: a plan whose target does not start gets as far as its
/// world and leaves nothing.
fn makes_a_world(arm: Arm) -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    let plan = scratch.path().join("obstacle.toml");
    let text = text(&plans("plans/limits")[0]);
    let text = text.replace("memory:64MiB", "file:/dev/null");
    std::fs::write(&plan, text)?;
    open_to_all(scratch.path())?;
    let output = wansan(arm)
        .args(["lab", "run"])
        .arg(&plan)
        .arg("--out")
        .arg(scratch.path().join("runs"))
        .output()
        .map_err(|error| format!("the wansan binary cannot be started: {error}"))?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if told.contains("/dev/null") {
        Ok(())
    } else {
        Err(told.into())
    }
}

fn is_right(plan: &Path) -> Result<(), Failed> {
    let output = wansan(Arm::of_suite())
        .args(["lab", "check"])
        .arg(plan)
        .output()?;
    told(&output, output.status.success())
}

/// Runs a test that measures while no other one does: worlds side by side take each other's processor time.
fn alone<C>(test: impl FnOnce() -> Result<C, Failed>) -> Result<C, Failed> {
    static MEASURES: Mutex<()> = Mutex::new(());
    let _alone = MEASURES.lock().unwrap_or_else(PoisonError::into_inner);
    test()
}

/// Runs a plan, which has to meet all that it expects. `title` is the test's.
fn comes_out_as_expected(
    title: &str,
    plan: &Path,
    form: &[&str],
    arm: Arm,
) -> Result<Completion, Failed> {
    unless_disturbed_as_seen(title, || {
        let scratch = tempfile::tempdir().map_err(|error| (error.into(), None))?;
        let met = meets_expectations(plan, form, arm, scratch.path());
        // Of a run that did not come out, the paths say whether the machine was busy.
        met.map_err(|wrong| (wrong, lateness(scratch.path())))
    })
}

/// Runs a plan once in a simulated world, which nothing disturbs.
fn comes_out_simulated(plan: &Path, form: &[&str]) -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    meets_expectations(plan, form, Arm::of_suite(), scratch.path())
}

/// That the emulator was late in one of the cells of the only run in a folder, if it was.
fn lateness(out: &Path) -> Option<String> {
    let plan = fs::read_dir(out.join("runs")).ok()?.next()?.ok()?.path();
    let run = fs::read_dir(plan).ok()?.next()?.ok()?.path();
    prediction::late([&run]).ok()?
}

/// Runs a plan once, which has to meet all that it expects.
fn meets_expectations(plan: &Path, form: &[&str], arm: Arm, out: &Path) -> Result<(), Failed> {
    open_to_all(out)?;
    let output = wansan(arm)
        .args(["lab", "run"])
        .args(form)
        .arg(plan)
        .arg("--out")
        .arg(out.join("runs"))
        .output()?;
    told(&output, output.status.success())
}

fn told(output: &Output, good: bool) -> Result<(), Failed> {
    if good {
        return Ok(());
    }
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    // A suite's closing lines show the first line of each failure.
    let missed: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix(MISSED))
        .collect();
    Err(format!("{}\n{text}", missed.join("; ")).into())
}
