//! `iscsi-test-cu`, libiscsi's test suite for targets, and its output.
//!
//! The suite counts a test that finds nothing to test ("[SKIPPED]") as passed, and exits with status 0 for an unknown
//! test name. Its output is therefore parsed test by test, and checked against its closing summary.

mod program;

pub use program::{Program, SOURCE_VARIABLE};

/// The result of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Every assertion held, and nothing was skipped.
    Passed,
    /// The test skipped itself, or a part of itself, with the reason printed.
    Skipped(String),
    /// Assertions failed; the lines that report them.
    Failed(String),
}

/// One test in the suite's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// `SUITE.TEST`.
    pub name: String,
    /// Its result.
    pub outcome: Outcome,
}

/// Parses the output of `iscsi-test-cu -v`.
///
/// # Errors
/// A description, if a test has no result or the closing summary disagrees.
pub fn parse(printed: &str) -> Result<Vec<Test>, String> {
    let mut suite = "";
    let mut tests = Vec::new();
    let mut open: Option<(String, Vec<&str>)> = None;
    let mut summary = None;
    for line in printed.lines() {
        let line = without_time(line.trim());
        if let Some(name) = line.strip_prefix("Suite: ") {
            close(&mut open, &mut tests)?;
            suite = name;
        } else if let Some((name, rest)) = line.strip_prefix("Test: ").and_then(split_test) {
            close(&mut open, &mut tests)?;
            open = Some((format!("{suite}.{name}"), vec![without_time(rest.trim())]));
        } else if line.starts_with("Run Summary:") {
            close(&mut open, &mut tests)?;
        } else if let Some(counts) = line.strip_prefix("tests ") {
            summary = Some(counts);
        } else if let Some((_, lines)) = &mut open {
            lines.push(line);
        }
    }
    close(&mut open, &mut tests)?;
    check_summary(summary, &tests)?;
    Ok(tests)
}

/// `NAME ...REST`: the first line of a test.
fn split_test(line: &str) -> Option<(&str, &str)> {
    line.split_once(" ...")
}

/// The line without the timestamp that libiscsi puts before remarks since 1.20.1.
fn without_time(line: &str) -> &str {
    const FORM: &[u8] = b"0000-00-00 00:00:00.000000";
    let fits = |time: &str| {
        time.bytes().zip(FORM).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            _ => byte == *form,
        })
    };
    match line.split_at_checked(FORM.len()) {
        Some((time, rest)) if fits(time) => rest.trim_start(),
        _ => line,
    }
}

fn close(open: &mut Option<(String, Vec<&str>)>, tests: &mut Vec<Test>) -> Result<(), String> {
    if let Some((name, lines)) = open.take() {
        let outcome = outcome_of(&lines).ok_or_else(|| format!("{name} has no result"))?;
        tests.push(Test { name, outcome });
    }
    Ok(())
}

/// The result of a test from its lines. `passed` or `FAILED` starts a line, as other output of the test ends with a
/// line feed; the suite's own remarks are indented and bracketed ("[FAILED] …" is a remark that passing tests print
/// too).
fn outcome_of(lines: &[&str]) -> Option<Outcome> {
    let verdict = lines.iter().position(|line| is_verdict(line))?;
    if lines[verdict].starts_with("FAILED") {
        let reasons = lines
            .iter()
            .filter(|line| !line.is_empty() && !is_verdict(line));
        return Some(Outcome::Failed(
            reasons.copied().collect::<Vec<_>>().join("\n"),
        ));
    }
    let skipped = lines
        .iter()
        .find_map(|line| line.strip_prefix("[SKIPPED]").map(str::trim));
    Some(match skipped {
        Some(reason) => Outcome::Skipped(reason.to_owned()),
        None => Outcome::Passed,
    })
}

fn is_verdict(line: &str) -> bool {
    line.starts_with("passed") || line.starts_with("FAILED")
}

/// The summary's `tests` line has Total, Ran, Passed, Failed and Inactive.
fn check_summary(counts: Option<&str>, tests: &[Test]) -> Result<(), String> {
    let counts = counts.ok_or("no closing summary")?;
    let numbers: Vec<usize> = counts
        .split_ascii_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    let failed = tests
        .iter()
        .filter(|test| matches!(test.outcome, Outcome::Failed(_)))
        .count();
    match numbers[..] {
        [_, ran, _, failures, _] if ran == tests.len() && failures == failed => Ok(()),
        _ => Err(format!(
            "the closing summary counts otherwise: tests {}",
            counts.trim()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of libiscsi 1.19.0 against tgtd 1.0.85.
    const SKIPPED: &str = "

     CUnit - A unit testing framework for C - Version 2.1-3
     http://cunit.sourceforge.net/


Suite: Inquiry
  Test: Standard ...passed
  Test: BlockLimits ...    [SKIPPED] Logical unit is fully provisioned. Skipping test
passed
  Test: Control ...    [WARNING] BUSY_TIMEOUT_PERIOD is undefined.
passed

Run Summary:    Type  Total    Ran Passed Failed Inactive
              suites      1      1    n/a      0        0
               tests      3      3      3      0        0
             asserts    278    278    278      0      n/a

Elapsed time =    0.005 seconds
Tests completed with return value: 0
";
    const FAILED: &str = "
Suite: iSCSIcmdsn
  Test: iSCSICmdSnTooHigh ...passed
Suite: iSCSIdatasn
  Test: iSCSIDataSnInvalid ...FAILED
    1. test_iscsi_datasn_invalid.c:98  - CU_ASSERT_NOT_EQUAL(ret,0)
    2. test_iscsi_datasn_invalid.c:116  - CU_ASSERT_NOT_EQUAL(ret,0)
Suite: Reserve6
  Test: 2Initiators ...    Take out a RESERVE6 from the first initiator
    MODE SENSE should fail from the second initiator
    [FAILED] MODESENSE6 successful but should have failed
FAILED
    1. test_reserve6_2initiators.c:70  - CU_ASSERT_EQUAL(_r,0)
  Test: LUNReset ...passed    [FAILED] PRIN command: failed with sense. SENSE KEY:UNIT_ATTENTION


Run Summary:    Type  Total    Ran Passed Failed Inactive
              suites      3      3    n/a      0        0
               tests      4      4      2      2        0
             asserts    337    337    333      4      n/a
";

    #[test]
    fn skips_are_told_from_passes() {
        let tests = parse(SKIPPED).unwrap();
        let outcomes: Vec<_> = tests
            .iter()
            .map(|t| (t.name.as_str(), &t.outcome))
            .collect();
        let reason = "Logical unit is fully provisioned. Skipping test".to_owned();
        assert_eq!(
            outcomes,
            [
                ("Inquiry.Standard", &Outcome::Passed),
                ("Inquiry.BlockLimits", &Outcome::Skipped(reason)),
                ("Inquiry.Control", &Outcome::Passed),
            ]
        );
    }

    /// Output format of libiscsi's commit 65ebd14.
    #[test]
    fn remarks_may_begin_with_the_time() {
        let printed = "
Suite: CompareAndWrite
  Test: DpoFua ...    2026-11-24 02:15:37.834199     [SKIPPED] NOT IMPLEMENTED.
    2026-11-24 02:15:37.834214     [SKIPPED] NOT IMPLEMENTED.
passed
  Test: InvalidDataOutSize ...    2026-11-24 02:01:51.169387     [FAILED] wrong sense.

FAILED
    1. test.c:63  - CU_ASSERT_EQUAL(_r,0)

Run Summary:    Type  Total    Ran Passed Failed Inactive
               tests      2      2      1      1        0
";
        let outcomes: Vec<_> = parse(printed)
            .unwrap()
            .into_iter()
            .map(|test| test.outcome)
            .collect();
        let failed = "[FAILED] wrong sense.\n1. test.c:63  - CU_ASSERT_EQUAL(_r,0)";
        assert_eq!(
            outcomes,
            [
                Outcome::Skipped("NOT IMPLEMENTED.".to_owned()),
                Outcome::Failed(failed.to_owned())
            ]
        );
    }

    #[test]
    fn failures_keep_their_reasons() {
        let tests = parse(FAILED).unwrap();
        assert_eq!(tests[0].outcome, Outcome::Passed);
        let Outcome::Failed(reasons) = &tests[1].outcome else {
            panic!("{:?}", tests[1])
        };
        assert!(
            reasons.contains("test_iscsi_datasn_invalid.c:116"),
            "{reasons}"
        );
        let Outcome::Failed(reasons) = &tests[2].outcome else {
            panic!("{:?}", tests[2])
        };
        assert!(reasons.contains("MODESENSE6 successful"), "{reasons}");
        assert_eq!(tests[3].outcome, Outcome::Passed);
    }

    #[test]
    fn an_unknown_name_runs_nothing() {
        let printed = "Run Summary:    Type  Total    Ran Passed Failed Inactive\n\
                       tests      0      0      0      0        0\n";
        assert_eq!(parse(printed), Ok(vec![]));
    }

    #[test]
    fn a_suite_that_died_is_an_error() {
        let (died, _) = SKIPPED.split_once("\nRun Summary").unwrap();
        assert_eq!(parse(died), Err("no closing summary".to_owned()));
        let (died, _) = SKIPPED.split_once("passed\n  Test: Control").unwrap();
        assert_eq!(
            parse(died),
            Err("Inquiry.BlockLimits has no result".to_owned())
        );
    }

    #[test]
    fn a_summary_that_counts_otherwise_is_an_error() {
        let lying = FAILED.replace("4      4      2      2", "4      4      3      1");
        assert!(parse(&lying).unwrap_err().contains("counts otherwise"));
    }
}
