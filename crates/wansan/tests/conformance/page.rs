//! Our target beside tgtd, as a page of Markdown.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

use wansan_peers::cunit::{Outcome, Test, suites};
use wansan_peers::process::PeerError;

use crate::sides;

/// How many tests ended how.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    passed: usize,
    skipped: usize,
    failed: usize,
}

impl Count {
    fn of<'a>(tests: impl IntoIterator<Item = &'a Test>) -> Self {
        let mut count = Self::default();
        for test in tests {
            match test.outcome {
                Outcome::Passed => count.passed += 1,
                Outcome::Skipped(_) => count.skipped += 1,
                Outcome::Failed(_) => count.failed += 1,
            }
        }
        count
    }
}

/// What one suite said of both targets.
struct Row {
    /// `FAMILY.SUITE`.
    suite: String,
    ours: Vec<Test>,
    tgtd: Vec<Test>,
}

/// Runs every suite on both targets and prints the page. The exit status is 0 when ours fails no
/// test and passes more of them than tgtd, 1 when not, and 2 when the suites could not be run.
pub(crate) fn run() -> ExitCode {
    let rows = match rows() {
        Ok(rows) => rows,
        Err(error) => {
            eprintln!("conformance: {error}");
            return ExitCode::from(2);
        }
    };
    print!("{}", page(&rows));
    let ours = Count::of(rows.iter().flat_map(|row| &row.ours));
    let tgtd = Count::of(rows.iter().flat_map(|row| &row.tgtd));
    if ours.failed > 0 || ours.passed <= tgtd.passed {
        eprintln!(
            "conformance: wansan fails {} tests and passes {}, tgtd passes {}",
            ours.failed, ours.passed, tgtd.passed
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn rows() -> Result<Vec<Row>, PeerError> {
    let suites = suites()?;
    let mut rows = Vec::new();
    for (suite, tests) in suites {
        eprintln!("{suite}");
        rows.push(Row {
            ours: sides::ours(&suite)?,
            tgtd: or_failed(sides::tgtd(&suite), &tests)?,
            suite,
        });
    }
    Ok(rows)
}

/// All `tests` as failed when tgtd, or the program while it tested tgtd, did not come to an end.
fn or_failed(said: Result<Vec<Test>, PeerError>, tests: &[String]) -> Result<Vec<Test>, PeerError> {
    match said {
        Err(PeerError::TimedOut { .. } | PeerError::Failed { .. }) => Ok(tests
            .iter()
            .map(|name| Test {
                name: name.clone(),
                outcome: Outcome::Failed("the suite did not come to its end".to_owned()),
            })
            .collect()),
        said => said,
    }
}

fn page(rows: &[Row]) -> String {
    let mut families: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let family = row.suite.split('.').next().unwrap_or_default();
        families.entry(family).or_default().push(row);
    }
    let mut page = String::from(
        "# Conformance\n\n\
         wansan's target beside tgtd under `iscsi-test-cu`, libiscsi's test suite for targets: every \
         suite of its families SCSI and iSCSI (the third, LINUX, repeats tests of SCSI), with data \
         loss allowed, two initiator names and a second path. Each suite gets a fresh target with one \
         disk of 64 MiB that can be unmapped. The suite itself counts a test that skips itself as \
         passed; here it counts as skipped. wansan's disk for GetLBAStatus has blocks of 4096 bytes: \
         where several blocks lie in a physical one, UnmapSingle asks for one and expects another.\n\n\
         `make conformance` runs both and prints this page. It fails unless wansan fails no test and \
         passes more than tgtd.\n\n\
         ## By family\n\n",
    );
    table(
        &mut page,
        "family",
        families
            .iter()
            .map(|(family, rows)| ((*family).to_owned(), rows.clone()))
            .chain([("all".to_owned(), rows.iter().collect())]),
    );
    page.push_str("\n## By suite\n\n");
    table(
        &mut page,
        "suite",
        rows.iter().map(|row| (row.suite.clone(), vec![row])),
    );
    let all = |of: fn(&Row) -> &Vec<Test>| rows.iter().flat_map(of);
    list(
        &mut page,
        "What wansan skips",
        all(|row| &row.ours),
        skipped,
    );
    list(&mut page, "What wansan fails", all(|row| &row.ours), failed);
    list(&mut page, "What tgtd fails", all(|row| &row.tgtd), failed);
    page
}

/// The reason that a test gave for skipping itself.
fn skipped(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Skipped(reason) => Some(reason),
        _ => None,
    }
}

/// The first line of what a failed test printed.
fn failed(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Failed(lines) => lines.lines().next().or(Some("no reason printed")),
        _ => None,
    }
}

/// The tests of one end, with the reason for it; nothing when there are none.
fn list<'a>(
    page: &mut String,
    title: &str,
    tests: impl Iterator<Item = &'a Test>,
    reason: fn(&Outcome) -> Option<&str>,
) {
    let mut lines = tests
        .filter_map(|test| Some((&test.name, reason(&test.outcome)?)))
        .peekable();
    if lines.peek().is_none() {
        return;
    }
    let _ = writeln!(
        page,
        "\n## {title}\n\n| test | what it printed |\n|---|---|"
    );
    for (name, reason) in lines {
        let _ = writeln!(page, "| {name} | {} |", reason.replace('|', "\\|"));
    }
}

/// A table with both targets' counts in each row.
fn table<'a>(page: &mut String, what: &str, rows: impl Iterator<Item = (String, Vec<&'a Row>)>) {
    let _ = writeln!(
        page,
        "| {what} | wansan passed | skipped | failed | tgtd passed | skipped | failed |\n\
         |---|---|---|---|---|---|---|"
    );
    for (name, rows) in rows {
        let ours = Count::of(rows.iter().flat_map(|row| &row.ours));
        let tgtd = Count::of(rows.iter().flat_map(|row| &row.tgtd));
        let _ = writeln!(
            page,
            "| {name} | {} | {} | {} | {} | {} | {} |",
            ours.passed, ours.skipped, ours.failed, tgtd.passed, tgtd.skipped, tgtd.failed
        );
    }
}
