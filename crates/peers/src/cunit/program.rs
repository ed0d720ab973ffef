//! The builds of `iscsi-test-cu` on this machine, and how to run them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Outcome, Test, parse};
use crate::process::{PeerError, run};
use crate::program::find;

/// The environment variable with the path of a libiscsi checkout in which libiscsi has been built.
pub const SOURCE_VARIABLE: &str = "LIBISCSI_SOURCE";

/// Time limit of a suite that runs in one process; most take milliseconds.
const SUITE_LIMIT: Duration = Duration::from_secs(300);
/// Time limit of a test that runs by itself.
const TEST_LIMIT: Duration = Duration::from_secs(60);
/// Time limit for printing a version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// The families whose suites [`Program::suites`] returns. The third, LINUX, repeats some SCSI tests for local devices.
const FAMILIES: [&str; 2] = ["SCSI", "iSCSI"];

/// The names of the two initiators that a test may need.
const INITIATOR_NAMES: [&str; 2] = [
    "iqn.2026-11.net.example:first",
    "iqn.2026-11.net.example:second",
];

/// One build of `iscsi-test-cu`.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    release: String,
    /// Each test runs in its own process.
    one_by_one: bool,
}

impl Program {
    /// The installed build. It runs whole suites: in libiscsi 1.19 some tests depend on state that the previous test
    /// left in the process.
    ///
    /// # Errors
    /// [`PeerError::Missing`] if none is installed.
    pub fn installed() -> Result<Self, PeerError> {
        let path = find("iscsi-test-cu")?;
        let mut query = Command::new("dpkg-query");
        query.args(["--show", "--showformat=${Version}", "libiscsi-bin"]);
        let version = line_of(&mut query).unwrap_or_else(|| "of an unknown version".to_owned());
        Ok(Self {
            path,
            release: format!("libiscsi-bin {version}"),
            one_by_one: false,
        })
    }

    /// The build in the checkout named by [`SOURCE_VARIABLE`]; `None` if the variable is not set. It runs each test by
    /// itself, so that one that hangs, or leaves the process without a session, does not affect the results of others.
    ///
    /// # Errors
    /// [`PeerError::NotBuilt`] if the program is not there.
    pub fn of_checkout() -> Result<Option<Self>, PeerError> {
        std::env::var_os(SOURCE_VARIABLE)
            .map(Self::built_in)
            .transpose()
    }

    fn built_in(folder: OsString) -> Result<Self, PeerError> {
        let folder = PathBuf::from(folder);
        let path = folder.join("test-tool/iscsi-test-cu");
        // Absolute, as tests run in a temporary folder.
        let Ok(path) = path.canonicalize() else {
            let variable = SOURCE_VARIABLE;
            return Err(PeerError::NotBuilt { variable, path });
        };
        let mut describe = Command::new("git");
        describe.arg("-C").arg(&folder);
        describe.args(["describe", "--tags", "--always", "--dirty"]);
        let version = line_of(&mut describe).unwrap_or_else(|| "of an unknown version".to_owned());
        Ok(Self {
            path,
            release: format!("libiscsi {version}"),
            one_by_one: true,
        })
    }

    /// Its package and version, or its commit.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Every suite, as `FAMILY.SUITE` (such as `SCSI.Inquiry`), with the names of its tests.
    ///
    /// # Errors
    /// It lists none.
    pub fn suites(&self) -> Result<Vec<(String, Vec<String>)>, PeerError> {
        let finished = run(Command::new(&self.path).arg("--list"), SUITE_LIMIT)?;
        let mut suites: Vec<(String, Vec<String>)> = Vec::new();
        for line in finished.stdout.lines() {
            match *line.split('.').collect::<Vec<_>>() {
                [family, suite] if FAMILIES.contains(&family) => {
                    suites.push((format!("{family}.{suite}"), Vec::new()));
                }
                [family, _, test] if FAMILIES.contains(&family) => {
                    if let Some((_, tests)) = suites.last_mut() {
                        tests.push(test.to_owned());
                    }
                }
                _ => (),
            }
        }
        if suites.is_empty() {
            return Err(finished.failure("it lists no suites"));
        }
        Ok(suites)
    }

    /// Runs `tests`, all of the suite `FAMILY.SUITE`, against the unit at `url`; tests that want a second path open
    /// sessions of their own there. They may overwrite data. `folder` becomes the working folder.
    ///
    /// # Errors
    /// A process that runs the whole suite does not exit, or does not print a result for each test. A test that runs by
    /// itself counts as failed instead.
    pub fn run(
        &self,
        suite: &str,
        tests: &[String],
        url: &str,
        folder: &Path,
    ) -> Result<Vec<Test>, PeerError> {
        if !self.one_by_one {
            return self.run_named(suite, SUITE_LIMIT, url, folder);
        }
        let mut done = Vec::new();
        for test in tests {
            let full_name = format!("{suite}.{test}");
            match self.run_named(&full_name, TEST_LIMIT, url, folder) {
                Ok(printed) => done.extend(printed),
                Err(error) => done.push(Test::failed(&full_name, error.without_result()?)),
            }
        }
        Ok(done)
    }

    /// Runs the suite or the test of this name in one process.
    fn run_named(
        &self,
        name: &str,
        limit: Duration,
        url: &str,
        folder: &Path,
    ) -> Result<Vec<Test>, PeerError> {
        let mut command = Command::new(&self.path);
        let [first, second] = INITIATOR_NAMES;
        command
            .current_dir(folder)
            .args(["-d", "-v", "-i", first, "-I", second])
            .args([&format!("--test={name}"), url, url]);
        let finished = run(&mut command, limit)?;
        match parse(&finished.stdout) {
            Ok(tests) if tests.is_empty() => Err(finished.failure("it ran no test")),
            Ok(tests) => Ok(tests),
            Err(what) => Err(finished.failure(what)),
        }
    }
}

impl Test {
    /// A test, `FAMILY.SUITE.TEST`, without a result of its own.
    pub fn failed(full_name: &str, why: String) -> Self {
        let name = full_name
            .split_once('.')
            .map_or(full_name, |(_, name)| name);
        Self {
            name: name.to_owned(),
            outcome: Outcome::Failed(why),
        }
    }
}

/// A command's output, if it succeeds and prints anything.
fn line_of(command: &mut Command) -> Option<String> {
    let finished = run(command, VERSION_LIMIT).ok()?.success().ok()?;
    let line = finished.stdout.trim();
    (!line.is_empty()).then(|| line.to_owned())
}
