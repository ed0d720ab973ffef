//! The finder on worlds where the answer is known, and data over paths that lose it: every plan in
//! plans/limits expects its own finding, every plan in plans/checks and plans/topologies its own
//! outcome, every plan in plans/papers the shape of what it rebuilds (in its quick form), and the
//! real programs over the real kernel's TCP must lead to it.
//!
//! Each plan is run as root, where the suite is root, and as an ordinary user. What a machine does
//! not allow is counted as ignored, with the reason.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Failed, Trial};

/// The user that the suite drops to when root starts it.
const NOBODY: u32 = 65_534;
/// How often a plan about throughput is run until it comes out as expected.
const TRIES: u32 = 3;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Worlds side by side would take each other's processor time.
    arguments.test_threads = Some(1);
    let mut trials: Vec<Trial> = plans("plans/papers")
        .into_iter()
        .chain(plans("plans/limits"))
        .chain(plans("plans/checks"))
        .chain(plans("plans/topologies"))
        .map(|plan| Trial::test(format!("{} is right", name(&plan)), move || is_right(&plan)))
        .collect();
    let mut arms = vec![("an ordinary user", None)];
    if is_root() {
        arms = vec![("root", None), ("an ordinary user", Some(NOBODY))];
    }
    for plan in plans("plans/papers") {
        trials.push(Trial::test(
            format!("{} in its quick form", name(&plan)),
            move || has_its_shape(&plan, &["--quick"], None),
        ));
    }
    for (arm, drop_to) in arms {
        let obstacle = obstacle(drop_to);
        if let Some(reason) = &obstacle {
            eprintln!("not run as {arm}: {reason}");
        }
        let mut runs = plans("plans/limits");
        for plan in plans("plans/topologies") {
            let trial = Trial::test(format!("{}, as {arm}", name(&plan)), move || {
                has_its_shape(&plan, &[], drop_to)
            });
            trials.push(trial.with_ignored_flag(obstacle.is_some()));
        }
        // Long ones, and no different for another user: once.
        if drop_to.is_some() || !is_root() {
            runs.extend(plans("plans/checks"));
        }
        for plan in runs {
            let trial = Trial::test(format!("{}, as {arm}", name(&plan)), move || {
                comes_out_as_expected(&plan, drop_to)
            });
            trials.push(trial.with_ignored_flag(obstacle.is_some()));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The plans in a folder of the repository, by name.
fn plans(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = std::fs::read_dir(root.join(folder)).expect("the repository has plans");
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

fn wansan(drop_to: Option<u32>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wansan"));
    if let Some(id) = drop_to {
        command.uid(id).gid(id);
    }
    command
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout == b"0\n")
}

/// Why no world can be made by that user, if none can: a plan whose target does not start gets as
/// far as its world and leaves nothing.
fn obstacle(drop_to: Option<u32>) -> Option<String> {
    let scratch = match tempfile::tempdir() {
        Ok(scratch) => scratch,
        Err(error) => return Some(error.to_string()),
    };
    let plan = scratch.path().join("obstacle.toml");
    let text = std::fs::read_to_string(&plans("plans/limits")[0]).expect("it was listed");
    let text = text.replace("memory:64MiB", "file:/nowhere/disk.img");
    if let Err(error) = std::fs::write(&plan, text).and_then(|()| open_to_all(scratch.path())) {
        return Some(error.to_string());
    }
    let out = scratch.path().join("runs");
    match wansan(drop_to)
        .args(["lab", "run"])
        .arg(&plan)
        .arg("--out")
        .arg(out)
        .output()
    {
        Err(error) => Some(format!("the wansan binary cannot be started: {error}")),
        Ok(output) => {
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            (!told.contains("/nowhere/disk.img")).then_some(told)
        }
    }
}

/// The dropped-to user must be able to write there.
fn open_to_all(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777))
}

fn is_right(plan: &Path) -> Result<(), Failed> {
    let output = wansan(None).args(["lab", "check"]).arg(plan).output()?;
    told(&output, output.status.success())
}

fn comes_out_as_expected(plan: &Path, drop_to: Option<u32>) -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    open_to_all(scratch.path())?;
    let output = wansan(drop_to)
        .args(["lab", "run"])
        .arg(plan)
        .arg("--out")
        .arg(scratch.path().join("runs"))
        .output()?;
    told(&output, output.status.code() == Some(0))
}

/// A curve's shape shows in one of a few tries: what else runs on the machine can only hide it.
fn has_its_shape(plan: &Path, form: &[&str], drop_to: Option<u32>) -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    open_to_all(scratch.path())?;
    let mut outcome = Ok(());
    for _ in 0..TRIES {
        let output = wansan(drop_to)
            .args(["lab", "run"])
            .args(form)
            .arg(plan)
            .arg("--out")
            .arg(scratch.path().join("runs"))
            .output()?;
        let missed = output.status.code() == Some(1);
        outcome = told(&output, output.status.success());
        if !missed {
            break;
        }
    }
    outcome
}

fn told(output: &Output, good: bool) -> Result<(), Failed> {
    if good {
        return Ok(());
    }
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    Err(String::from_utf8_lossy(&text).into_owned().into())
}
