//! Runs histories generated from seeds, and those that once broke a rule.
//!
//! `WANSAN_CONSISTENCY_SEEDS` sets the number of seeds to run, `WANSAN_CONSISTENCY_FIRST` the first,
//! `WANSAN_CONSISTENCY_STOP` ends the run at the first that breaks a rule, `WANSAN_CONSISTENCY_LIST` lists all such
//! seeds and shrinks no history, `WANSAN_CONSISTENCY_SHRINK` bounds the runs to shrink one, `WANSAN_CONSISTENCY_EXCEPT`
//! skips seeds, and `WANSAN_CONSISTENCY_HISTORY` names a file with one history to run and log instead.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use wansan_consistency::{History, Violation};

/// Seeds per run of the suite: about a minute of one core in the release profile.
const SEEDS: u64 = 50_000;

/// Most runs to shrink one history.
const SHRINKING_RUNS: u64 = 20_000;

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is {value}, which is no number")),
    )
}

/// The processor time of this process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Formats the history as lines: its setup, then each session with its steps.
fn in_words(history: &History) -> String {
    let mut text = format!("{}\n", serde_json::to_string(&history.setup).unwrap());
    for (number, script) in history.sessions.iter().enumerate() {
        let steps = script.steps.iter().map(|step| format!("{step:?}"));
        let steps: Vec<String> = steps.collect();
        if !steps.is_empty() {
            writeln!(
                text,
                "session {number} of host {}, {} connections, level {}: {}",
                script.host,
                script.keys.connections,
                script.keys.recovery,
                steps.join("; ")
            )
            .unwrap();
        }
    }
    for incident in &history.incidents {
        writeln!(text, "after {} steps: {:?}", incident.after, incident.what).unwrap();
    }
    text
}

/// Shrinks a history that breaks a rule, and reports how to rerun it.
fn report(seed: u64, history: &History, violation: &Violation) -> String {
    let runs = number("WANSAN_CONSISTENCY_SHRINK").unwrap_or(SHRINKING_RUNS);
    let small = history.shrink(violation.rule, runs as usize);
    let outcome = small.run_logged();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("consistency-{seed}.json"));
    std::fs::write(&file, serde_json::to_string_pretty(&small).unwrap()).unwrap();
    let what = outcome.violation.map(|violation| violation.what);
    format!(
        "seed {seed} breaks the rule {:?}: {}\nas small as it was made:\n{}{}\n{}\nagain: \
         WANSAN_CONSISTENCY_HISTORY={} cargo test -p wansan-consistency --test simulation\n",
        violation.rule,
        violation.what,
        in_words(&small),
        outcome.log.join("\n"),
        what.unwrap_or_default(),
        file.display()
    )
}

#[test]
fn seeds_break_no_rule() {
    if let Some(file) = std::env::var_os("WANSAN_CONSISTENCY_HISTORY") {
        let text = std::fs::read_to_string(file).expect("a file with a history");
        let history: History = serde_json::from_str(&text).expect("a history");
        let outcome = history.run_logged();
        println!("{}{}", in_words(&history), outcome.log.join("\n"));
        assert_eq!(outcome.violation, None);
        return;
    }
    let first = number("WANSAN_CONSISTENCY_FIRST").unwrap_or(0);
    let count = number("WANSAN_CONSISTENCY_SEEDS").unwrap_or(SEEDS);
    let began = processor_time();
    let mut commands = 0;
    let mut reports = Vec::new();
    let mut rules = Vec::new();
    let lists = std::env::var_os("WANSAN_CONSISTENCY_LIST").is_some();
    let except = std::env::var("WANSAN_CONSISTENCY_EXCEPT").unwrap_or_default();
    let except: Vec<u64> = except
        .split(',')
        .filter_map(|seed| seed.parse().ok())
        .collect();
    for done in 0..count {
        if done > 0 && done % 10_000 == 0 {
            let spent = (processor_time() - began).as_secs_f64();
            let left = spent / done as f64 * (count - done) as f64;
            eprintln!("{done} of {count} seeds, {left:.0} s of a processor left");
        }
        if except.contains(&(first + done)) {
            continue;
        }
        let history = History::of_seed(first + done);
        let outcome = history.run();
        commands += outcome.commands;
        let Some(violation) = outcome.violation else {
            continue;
        };
        if lists {
            println!(
                "seed {}: {:?}: {}",
                first + done,
                violation.rule,
                violation.what
            );
            reports.push(String::new());
        } else if !rules.contains(&violation.rule) {
            // One report per rule is enough.
            rules.push(violation.rule);
            let report = report(first + done, &history, &violation);
            eprintln!("{report}");
            reports.push(report);
            if std::env::var_os("WANSAN_CONSISTENCY_STOP").is_some() {
                break;
            }
        }
    }
    let seconds = (processor_time() - began).as_secs_f64();
    println!(
        "{count} seeds from {first} on, {commands} commands, {seconds:.1} s of a processor, {:.0} \
         commands/s",
        commands as f64 / seconds
    );
    assert!(reports.is_empty(), "{} rules were broken", reports.len());
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..200 {
        let once = History::of_seed(seed).run();
        let again = History::of_seed(seed).run_logged();
        assert_eq!(once.fingerprint, again.fingerprint, "seed {seed}");
        assert_eq!(once.commands, again.commands, "seed {seed}");
    }
}

/// Files in `kept`: histories that once broke a rule, each named after what it found.
#[test]
fn histories_that_were_kept_break_no_rule() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kept");
    let files = std::fs::read_dir(folder).expect("a folder");
    let files = files.map(|file| file.expect("a file").path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("text");
        let mut history: History = serde_json::from_str(&text).expect("a history");
        // Its own schedule, and others: code changes shift events.
        let own = history.schedule;
        for schedule in [own, 1, 2, 3, 4, 5, 6, 7] {
            history.schedule = schedule;
            let violation = history.run().violation;
            assert_eq!(violation, None, "{} with {schedule}", file.display());
        }
    }
}
