//! Whether the oracle sees: faults that were mended, or invented, are put back one by one.
//!
//! `make test-oracle` runs it. Each row of `faults.json` replaces a piece of source text in a copy of
//! the tree, which is built and runs seeds until the fault shows. A row whose text is not there any
//! more is an error: the fault has to be put back otherwise.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde::Deserialize;

/// Seeds within which each fault has to show.
const SEEDS: u64 = 10_000;

#[derive(Deserialize)]
struct Fault {
    name: String,
    file: PathBuf,
    old: String,
    new: String,
    /// The rules of the oracle that may be the first to see it.
    rules: Vec<String>,
}

/// The copy of the tree, and where it is built.
struct Copied {
    tree: PathBuf,
    build: PathBuf,
}

impl Copied {
    fn new(root: &Path) -> Copied {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("oracle");
        let copied = Copied {
            tree: folder.join("tree"),
            build: folder.join("build"),
        };
        std::fs::create_dir_all(&copied.tree).expect("a folder for the copy");
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--", "Cargo.toml", "Cargo.lock", "crates"])
            .current_dir(root)
            .output()
            .expect("git");
        for name in listed.stdout.split(|byte| *byte == 0) {
            let name = std::str::from_utf8(name).expect("a name in UTF-8");
            let Ok(content) = std::fs::read(root.join(name)) else {
                continue; // Deleted, but not committed.
            };
            copied.write(Path::new(name), &content);
        }
        copied
    }

    /// Writes a file if it differs, so that what is the same is not built again.
    fn write(&self, name: &Path, content: &[u8]) {
        let path = self.tree.join(name);
        if std::fs::read(&path).is_ok_and(|known| known == content) {
            return;
        }
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, content).expect("written");
    }

    /// Runs the seeds, but for those of `except`; with `lists`, only lists those that break a rule.
    fn run(&self, lists: bool, except: &[&str]) -> Output {
        let how = match lists {
            true => "WANSAN_CONSISTENCY_LIST",
            false => "WANSAN_CONSISTENCY_STOP",
        };
        Command::new(env!("CARGO"))
            .args(["test", "--locked", "--package", "wansan-consistency"])
            .args([
                "--test",
                "simulation",
                "--",
                "--nocapture",
                "seeds_break_no_rule",
            ])
            .env("CARGO_TARGET_DIR", &self.build)
            .env("WANSAN_CONSISTENCY_SEEDS", SEEDS.to_string())
            .env("WANSAN_CONSISTENCY_EXCEPT", except.join(","))
            .env(how, "1")
            .current_dir(&self.tree)
            .output()
            .expect("cargo")
    }
}

/// What the run said of the first rule that was broken, from the line that names the seed.
fn report(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let begin = text
        .find("seed ")
        .filter(|_| text.contains(" breaks the rule "))?;
    let end = text[begin..].find("\nagain: ")? + begin;
    Some(text[begin..end].to_owned())
}

#[test]
#[ignore = "builds the tree once for each fault: make test-oracle"]
fn every_fault_is_seen() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = include_str!("../faults.json");
    let faults: Vec<Fault> = serde_json::from_str(text).expect("a table of faults");
    let copied = Copied::new(&root);
    let only = std::env::var("WANSAN_ORACLE_FAULT").ok();
    // What breaks a rule without a fault shows none.
    let clean = copied.run(true, &[]);
    let listed = String::from_utf8_lossy(&clean.stdout);
    assert!(
        listed.contains(" commands/s"),
        "{}",
        String::from_utf8_lossy(&clean.stderr)
    );
    let broken = listed.lines().filter_map(|line| line.strip_prefix("seed "));
    let broken: Vec<&str> = broken.filter_map(|line| line.split(':').next()).collect();
    let mut rows = Vec::new();
    let mut unseen = 0;
    for fault in &faults {
        if only.as_ref().is_some_and(|only| !fault.name.contains(only)) {
            continue;
        }
        let sound = std::fs::read_to_string(root.join(&fault.file)).expect("the file");
        assert_eq!(
            sound.matches(&fault.old).count(),
            1,
            "'{}': {} does not have the text once that is to be replaced",
            fault.name,
            fault.file.display()
        );
        let faulty = sound.replace(&fault.old, &fault.new);
        copied.write(&fault.file, faulty.as_bytes());
        let output = copied.run(false, &broken);
        copied.write(&fault.file, sound.as_bytes());
        let seen = report(&output);
        let rule = |report: &String| {
            fault
                .rules
                .iter()
                .any(|rule| report.contains(&format!(" breaks the rule {rule}:")))
        };
        match &seen {
            Some(report) if rule(report) => {
                let line = report.lines().next().unwrap_or_default();
                rows.push(format!("seen    {}\n        {line}", fault.name));
                println!("\n== {}\n{report}", fault.name);
            }
            other => {
                unseen += 1;
                let why = other.clone().unwrap_or_else(|| {
                    let errors = String::from_utf8_lossy(&output.stderr);
                    let lines = errors.lines().filter(|line| line.starts_with("error"));
                    lines.take(3).collect::<Vec<_>>().join("\n")
                });
                rows.push(format!("NOT SEEN {}\n        {why}", fault.name));
            }
        }
    }
    println!("\n{}", rows.join("\n"));
    assert_eq!(unseen, 0, "faults that the oracle did not see");
}
