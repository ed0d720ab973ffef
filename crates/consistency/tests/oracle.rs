//! Tests the oracle: reintroduces faults, fixed or invented ones, one at a time.
//!
//! `make test-oracle` runs it. Each row of `faults.json` replaces a piece of source text in a copy of the tree, where
//! `FAULT` stands for whether the fault is enabled. The copy is built once, with all faults; each run enables one and
//! tries seeds until one breaks a rule. A row whose text is no longer in the tree is an error: the row has to be
//! rewritten.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::Deserialize;

/// Seeds within which each fault must break a rule.
const SEEDS: u64 = 10_000;

/// Most runs to shrink a history.
const SHRINKING_RUNS: u64 = 2_000;

/// Appended to the bottom crate of the copy: selects the enabled fault.
const SWITCH: &str = r#"
/// Whether the fault with that number is on.
#[must_use]
pub fn has_fault(number: usize) -> bool {
    static ON: std::sync::LazyLock<Option<usize>> =
        std::sync::LazyLock::new(|| std::env::var("WANSAN_FAULT").ok()?.parse().ok());
    *ON == Some(number)
}
"#;

#[derive(Deserialize)]
struct Fault {
    name: String,
    file: PathBuf,
    old: String,
    new: String,
    /// The rules of the oracle, one of which it must break first.
    rules: Vec<String>,
}

/// The copy of the tree, and its build directory.
struct Copied {
    tree: PathBuf,
    build: PathBuf,
}

impl Copied {
    /// Copies the tree, with all of `faults` applied.
    fn new(root: &Path, faults: &[Fault]) -> Copied {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("oracle");
        let copied = Copied {
            tree: folder.join("tree"),
            build: folder.join("build"),
        };
        let mut changed = changed(root, faults);
        let switch = Path::new("crates/trace/src/lib.rs");
        let text = std::fs::read_to_string(root.join(switch)).expect("the bottom crate");
        changed.insert(switch, text + SWITCH);
        let listed = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .args(["--", "Cargo.toml", "Cargo.lock", "crates"])
            .current_dir(root)
            .output()
            .expect("git");
        for name in listed.stdout.split(|byte| *byte == 0) {
            let name = Path::new(std::str::from_utf8(name).expect("a name in UTF-8"));
            if let Some(text) = changed.get(name) {
                copied.write(name, text.as_bytes());
            } else if let Ok(content) = std::fs::read(root.join(name)) {
                copied.write(name, &content);
            }
        }
        copied
    }

    /// Writes a file if it differs, so that cargo does not rebuild unchanged files.
    fn write(&self, name: &Path, content: &[u8]) {
        let path = self.tree.join(name);
        if std::fs::read(&path).is_ok_and(|known| known == content) {
            return;
        }
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, content).expect("written");
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO"));
        command
            .args(["test", "--release", "--locked"])
            .args(["--package", "wansan-consistency", "--test", "simulation"])
            // A fast build: the runs take seconds each.
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
            .env("CARGO_TARGET_DIR", &self.build)
            .current_dir(&self.tree);
        command
    }

    fn build(&self) {
        let built = self.command().arg("--no-run").output().expect("cargo");
        let errors = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{errors}");
    }

    /// Runs the seeds except `except` with a fault; without one, lists those that break a rule.
    fn run(&self, fault: Option<usize>, except: &[&str]) -> Output {
        let mut command = self.command();
        command
            .args(["--", "--nocapture", "seeds_break_no_rule"])
            .env("WANSAN_CONSISTENCY_SEEDS", SEEDS.to_string())
            .env("WANSAN_CONSISTENCY_EXCEPT", except.join(","))
            .env("WANSAN_CONSISTENCY_SHRINK", SHRINKING_RUNS.to_string());
        match fault {
            None => command.env("WANSAN_CONSISTENCY_LIST", "1"),
            Some(fault) => command
                .env("WANSAN_CONSISTENCY_STOP", "1")
                .env("WANSAN_FAULT", fault.to_string()),
        };
        command.output().expect("cargo")
    }
}

/// The files that the faults change, with all faults applied.
fn changed<'a>(root: &Path, faults: &'a [Fault]) -> BTreeMap<&'a Path, String> {
    let mut files: BTreeMap<&Path, String> = BTreeMap::new();
    for (number, fault) in faults.iter().enumerate() {
        let text = files
            .entry(&fault.file)
            .or_insert_with(|| std::fs::read_to_string(root.join(&fault.file)).expect("the file"));
        assert_eq!(
            text.matches(&fault.old).count(),
            1,
            "'{}': {} does not have the text once that is to be replaced",
            fault.name,
            fault.file.display()
        );
        let on = format!("wansan_trace::has_fault({number})");
        assert!(fault.new.contains("FAULT"), "'{}' is never on", fault.name);
        *text = text.replace(&fault.old, &fault.new.replace("FAULT", &on));
    }
    files
}

/// The run's report of the first violation, from the line that names the seed.
fn report(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let begin = text
        .find("seed ")
        .filter(|_| text.contains(" breaks the rule "))?;
    let end = text[begin..].find("\nagain: ")? + begin;
    Some(text[begin..end].to_owned())
}

/// Whether the run detected the fault, and the line that reports it.
fn is_seen(fault: &Fault, output: &Output) -> (bool, String) {
    let Some(report) = report(output) else {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().rev().find(|line| !line.is_empty());
        return (false, last.unwrap_or_default().to_owned());
    };
    let expected = |rule: &String| report.contains(&format!(" breaks the rule {rule}:"));
    let line = report.lines().next().unwrap_or_default();
    (fault.rules.iter().any(expected), line.to_owned())
}

#[test]
#[ignore = "builds a copy of the tree with faults: make test-oracle"]
fn every_fault_is_seen() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = include_str!("../faults.json");
    let faults: Vec<Fault> = serde_json::from_str(text).expect("a table of faults");
    let copied = Copied::new(&root, &faults);
    copied.build();
    // A seed that breaks a rule without a fault proves nothing about faults.
    let clean = copied.run(None, &[]);
    let listed = String::from_utf8_lossy(&clean.stdout);
    assert!(
        listed.contains(" commands/s"),
        "{}",
        String::from_utf8_lossy(&clean.stderr)
    );
    let broken = listed.lines().filter_map(|line| line.strip_prefix("seed "));
    let broken: Vec<&str> = broken.filter_map(|line| line.split(':').next()).collect();
    let only = std::env::var("WANSAN_ORACLE_FAULT").unwrap_or_default();
    let chosen = |place: &usize| faults[*place].name.contains(&only);
    let chosen: Vec<usize> = (0..faults.len()).filter(chosen).collect();
    let next = AtomicUsize::new(0);
    let rows = Mutex::new(BTreeMap::new());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(&place) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let output = copied.run(Some(place), &broken);
                    let (seen, line) = is_seen(&faults[place], &output);
                    if let Some(report) = report(&output) {
                        println!("\n== {}\n{report}", faults[place].name);
                    }
                    rows.lock().expect("no panic").insert(place, (seen, line));
                }
            });
        }
    });
    let rows = rows.into_inner().expect("no panic");
    println!();
    for (place, (seen, line)) in &rows {
        let word = if *seen { "seen" } else { "NOT SEEN" };
        println!("{word:8} {}\n         {line}", faults[*place].name);
    }
    let unseen = rows.values().filter(|(seen, _)| !seen).count();
    println!("{} faults, {unseen} of them not seen", rows.len());
    assert_eq!(unseen, 0, "faults that the oracle did not see");
}
