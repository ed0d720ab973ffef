//! Tests that may find at run time that their peer is missing.
//!
//! The suites that need third-party programs are lists of [`trial`]s, run by [`run`]. A test whose peer is missing
//! counts as ignored, and a line `not run: TEST: REASON` gives the reason.

use std::fmt::{self, Display};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libtest_mimic::{Arguments, Completion, Trial};

use crate::process::PeerError;
use crate::program::Missing;

/// Why a test stops early.
#[derive(Debug)]
pub enum Stop {
    /// It cannot run here.
    NotRun(String),
    /// An expectation does not hold.
    Failed(String),
}

impl From<PeerError> for Stop {
    fn from(error: PeerError) -> Self {
        match error {
            PeerError::Missing(missing) => missing.into(),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<Missing> for Stop {
    fn from(missing: Missing) -> Self {
        Self::NotRun(missing.to_string())
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Stop::NotRun(reason) | Stop::Failed(reason)) = self;
        f.write_str(reason)
    }
}

/// Fails with `what` unless `holds`.
///
/// # Errors
/// [`Stop::Failed`] if it does not hold.
pub fn require(holds: bool, what: impl FnOnce() -> String) -> Result<(), Stop> {
    if holds {
        Ok(())
    } else {
        Err(Stop::Failed(what()))
    }
}

/// A named test.
pub fn trial(
    name: impl Into<String>,
    body: impl FnOnce() -> Result<(), Stop> + Send + 'static,
) -> Trial {
    let name = name.into();
    Trial::ignorable_test(name.clone(), move || match body() {
        Ok(()) => Ok(Completion::Completed),
        Err(Stop::NotRun(reason)) => {
            not_run().push(format!("not run: {name}: {reason}"));
            Ok(Completion::ignored_with(reason))
        }
        Err(Stop::Failed(reason)) => Err(reason.into()),
    })
}

/// A test that runs only with `--ignored` or `--include-ignored`; `reason` says why ordinary runs skip it.
pub fn trial_on_request(
    name: impl Into<String>,
    reason: &str,
    body: impl FnOnce() -> Result<(), Stop> + Send + 'static,
) -> Trial {
    let name = name.into();
    let arguments = Arguments::from_args();
    if !arguments.ignored && !arguments.include_ignored {
        not_run().push(format!("not run: {name}: {reason}"));
    }
    trial(name, body).with_ignored_flag(true)
}

/// Runs the tests selected on the command line, then lists those that could not run.
#[must_use]
pub fn run(trials: Vec<Trial>) -> ExitCode {
    run_with(&Arguments::from_args(), trials)
}

/// See [`run`]; with arguments changed by the suite, for example to run one test at a time.
#[must_use]
pub fn run_with(arguments: &Arguments, trials: Vec<Trial>) -> ExitCode {
    let conclusion = libtest_mimic::run(arguments, trials);
    for line in not_run().iter() {
        println!("{line}");
    }
    conclusion.exit_code()
}

/// The tests that could not run, with their reasons: libtest-mimic does not print them, and printing them during the
/// run would break up its output.
fn not_run() -> MutexGuard<'static, Vec<String>> {
    static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}
