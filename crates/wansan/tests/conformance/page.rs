//! Our target beside tgtd, as a page of Markdown.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

use wansan_peers::cunit::{Outcome, Program, SOURCE_VARIABLE, Test};
use wansan_peers::process::PeerError;

use crate::defects::defect_behind;
use crate::sides;
use crate::trials::not_set;

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

/// The results of all suites of one build.
struct Results {
    release: String,
    rows: Vec<Row>,
}

/// Runs every suite on both targets and prints the page. The exit status is 0 when ours fails no
/// test, other than for a defect in libiscsi, and passes more of them than tgtd; 1 otherwise; and 2
/// when the suites could not be run.
pub(crate) fn run() -> ExitCode {
    let results = match results() {
        Ok(results) => results,
        Err(error) => {
            eprintln!("conformance: {error}");
            return ExitCode::from(2);
        }
    };
    print!("{}", page(&results));
    let verdicts: Vec<bool> = results.iter().map(Results::good).collect();
    if verdicts.iter().all(|good| *good) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Of the installed program, then of the one in a checkout if the caller named one.
fn results() -> Result<Vec<Results>, PeerError> {
    let mut programs = vec![Program::installed()?];
    programs.extend(Program::of_checkout()?);
    programs.iter().map(results_of).collect()
}

fn results_of(program: &Program) -> Result<Results, PeerError> {
    let mut rows = Vec::new();
    for (suite, tests) in program.suites()? {
        eprintln!("{}: {suite}", program.release());
        rows.push(Row {
            ours: sides::ours(program, &suite, &tests)?,
            tgtd: or_failed(sides::tgtd(program, &suite, &tests), &suite, &tests)?,
            suite,
        });
    }
    Ok(Results {
        release: program.release().to_owned(),
        rows,
    })
}

/// All `tests` as failed when a program gave no result: the suite on tgtd, or tgtd itself.
fn or_failed(
    results: Result<Vec<Test>, PeerError>,
    suite: &str,
    tests: &[String],
) -> Result<Vec<Test>, PeerError> {
    results.or_else(|error| {
        let why = error.without_result()?;
        let first_line = why.lines().next().unwrap_or_default();
        let failed = |test| Test::failed(&format!("{suite}.{test}"), first_line.to_owned());
        Ok(tests.iter().map(failed).collect())
    })
}

impl Results {
    fn ours(&self) -> impl Iterator<Item = &Test> {
        self.rows.iter().flat_map(|row| &row.ours)
    }

    fn tgtd(&self) -> impl Iterator<Item = &Test> {
        self.rows.iter().flat_map(|row| &row.tgtd)
    }

    /// Whether ours fails no test, other than for a defect in libiscsi, and passes more than tgtd.
    /// Prints a line if not.
    fn good(&self) -> bool {
        let failed = |test: &&Test| matches!(test.outcome, Outcome::Failed(_));
        let failures = self.ours().filter(failed);
        let failures = failures
            .filter(|test| defect_behind(test).is_none())
            .count();
        let (ours, tgtd) = (Count::of(self.ours()), Count::of(self.tgtd()));
        let good = failures == 0 && ours.passed > tgtd.passed;
        if !good {
            eprintln!(
                "conformance: {}: wansan fails {failures} tests and passes {}, tgtd passes {}",
                self.release, ours.passed, tgtd.passed
            );
        }
        good
    }

    #[expect(
        clippy::redundant_closure,
        reason = "the function alone asks for names that live too long"
    )]
    fn write(&self, page: &mut String) {
        let mut families: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
        for row in &self.rows {
            let family = row.suite.split('.').next().unwrap_or_default();
            families.entry(family).or_default().push(row);
        }
        let _ = writeln!(page, "\n## {}\n", self.release);
        table(
            page,
            "family",
            families
                .iter()
                .map(|(family, rows)| ((*family).to_owned(), rows.clone()))
                .chain([("all".to_owned(), self.rows.iter().collect())]),
        );
        page.push('\n');
        table(
            page,
            "suite",
            self.rows.iter().map(|row| (row.suite.clone(), vec![row])),
        );
        list(page, "What wansan skips", self.ours(), skipped);
        list(page, "What wansan fails", self.ours(), |test| {
            defect_behind(test)
                .is_none()
                .then(|| failed(test))
                .flatten()
        });
        list(
            page,
            "What wansan fails because of a defect in libiscsi",
            self.ours(),
            |test| defect_behind(test),
        );
        list(page, "What tgtd fails", self.tgtd(), failed);
    }
}

fn page(results: &[Results]) -> String {
    let mut page = format!(
        "# Conformance\n\n\
         wansan's target compared with tgtd under `iscsi-test-cu`, libiscsi's test suite for targets: every \
         suite of its families SCSI and iSCSI (the third, LINUX, repeats tests of SCSI), with data \
         loss allowed, two initiator names and a second path. Each suite gets a fresh target with one \
         thin disk of 64 MiB; the suite iSCSICHAP gets one that requires CHAP. The suite counts \
         self-skipped tests as passed; here they count as skipped. wansan's disk for \
         GetLBAStatus has 4096-byte blocks: on disks with several logical blocks per physical \
         block, UnmapSingle queries one LBA and expects the descriptor of another.\n\n\
         `{SOURCE_VARIABLE}=DIR make conformance` prints this page. It runs the installed suite and \
         the one built in DIR, a checkout of <https://github.com/sahlberg/libiscsi>; without \
         {SOURCE_VARIABLE} only the installed one. Each test of a checkout runs in its own \
         process, for 60 s at most. The command fails if wansan fails a test, other than for a defect in \
         libiscsi, or does not pass more tests than tgtd.\n"
    );
    for results in results {
        results.write(&mut page);
    }
    if results.len() == 1 {
        let _ = writeln!(page, "\nlibiscsi's current suite: not run: {}", not_set());
    }
    page
}

/// The reason that a test gave for skipping itself.
fn skipped(test: &Test) -> Option<&str> {
    match &test.outcome {
        Outcome::Skipped(reason) => Some(reason),
        _ => None,
    }
}

/// The first line of what a failed test printed.
fn failed(test: &Test) -> Option<&str> {
    match &test.outcome {
        Outcome::Failed(lines) => lines.lines().next().or(Some("no reason printed")),
        _ => None,
    }
}

/// The tests that have a reason to be listed, with that; nothing when there are none.
fn list<'a>(
    page: &mut String,
    title: &str,
    tests: impl Iterator<Item = &'a Test>,
    reason: impl Fn(&'a Test) -> Option<&'a str>,
) {
    let mut lines = tests
        .filter_map(|test| Some((&test.name, reason(test)?)))
        .peekable();
    if lines.peek().is_none() {
        return;
    }
    let _ = writeln!(page, "\n### {title}\n\n| test | why |\n|---|---|");
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
