//! The builds of `iscsi-test-cu` on this machine, and running them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Outcome, Test, parse};
use crate::process::{PeerError, run};
use crate::program::find;

/// The environment variable that names a checkout of libiscsi's repository, with libiscsi built in it.
pub const SOURCE_VARIABLE: &str = "LIBISCSI_SOURCE";

/// Time for a suite that runs in one process; most take milliseconds.
const SUITE_LIMIT: Duration = Duration::from_secs(300);
/// Time for a test that runs by itself.
const TEST_LIMIT: Duration = Duration::from_secs(60);
/// Time to name a version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// The families whose suites [`Program::suites`] gives. The third, LINUX, has some of the tests of
/// SCSI again, for devices of the local kernel.
const FAMILIES: [&str; 2] = ["SCSI", "iSCSI"];

/// The names of both initiators that a test may need.
const INITIATOR_NAMES: [&str; 2] = [
    "iqn.2026-11.net.example:first",
    "iqn.2026-11.net.example:second",
];

/// One build of `iscsi-test-cu`.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    release: String,
    /// Each test runs in a process of its own.
    one_by_one: bool,
}

impl Program {
    /// The installed one. It runs whole suites: in libiscsi 1.19 some tests rely on what the test
    /// before them left in the process.
    ///
    /// # Errors
    /// [`PeerError::Missing`] when there is none.
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

    /// The one that was built in the checkout that [`SOURCE_VARIABLE`] names; `None` when the
    /// variable is not set. It runs each test by itself, so that one that never ends, or leaves the
    /// process without a session, costs no other test its result.
    ///
    /// # Errors
    /// [`PeerError::NotBuilt`] when the program is not in its place there.
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
    /// When it lists none.
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

    /// Runs `tests`, all of the suite `FAMILY.SUITE`, on the unit at `url`, and on sessions of its
    /// own there for tests that want a second path. They may overwrite data. `folder` becomes the
    /// working folder.
    ///
    /// # Errors
    /// When a process that runs the whole suite does not end, or does not print a result for each
    /// test. A test that runs by itself has failed then.
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
    /// A test, `FAMILY.SUITE.TEST`, that has no result of its own.
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

/// What a command prints, if it succeeds and prints anything.
fn line_of(command: &mut Command) -> Option<String> {
    let finished = run(command, VERSION_LIMIT).ok()?.success().ok()?;
    let line = finished.stdout.trim();
    (!line.is_empty()).then(|| line.to_owned())
}
