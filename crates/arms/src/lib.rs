//! The users that tests of namespaces run as: root, if root runs the suite, and an ordinary user.
//!
//! Such a test has one body for every [`Arm`], and plays it in a process of the arm's user: the `wansan` binary
//! ([`Arm::command`]), or the test program itself in a role ([`Arm::plays`]), since only a single-threaded process can
//! enter a user namespace. An arm that a machine does not permit is counted as ignored, with the reason.
//!
//! [`held`] has a role that holds programs until it is killed, and tests of what remains afterwards.

pub mod holder;

use std::ffi::OsStr;
use std::fmt::{self, Display};
use std::fs::{Permissions, set_permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use libtest_mimic::{Completion, Failed, Trial};
use rustix::process::getuid;
use wansan_peers::machine::unless_disturbed;

/// The user ID that the suite switches to when root starts it.
const NOBODY: u32 = 65_534;

/// The device by which programs create tunnel interfaces.
const TUN: &str = "/dev/net/tun";

/// The first argument of a test program started in a role; the role's arguments follow.
pub const ROLE: &str = "--role";

/// A user who runs tests; displayed as part of test names: `NAME, as ARM`.
#[derive(Debug, Clone, Copy)]
pub struct Arm {
    root: bool,
    able: bool,
}

/// All users to run each test as: root, if root runs the suite, and an ordinary user. The trials of an arm whose
/// `attempt` fails are ignored, and a line `not run as ARM: REASON` gives the reason.
pub fn arms(attempt: impl Fn(Arm) -> Result<(), Failed>) -> Vec<Arm> {
    let mut arms = vec![Arm::ordinary()];
    if getuid().is_root() {
        arms.insert(0, Arm::of_suite());
    }
    for arm in &mut arms {
        arm.able = arm.is_able(&attempt);
    }
    arms
}

/// The user for tests that do not depend on the user: the ordinary user if its `attempt` succeeds, otherwise the user
/// who runs the suite. Other suites test the privileges that a world needs, with [`arms`].
pub fn one_arm(attempt: impl Fn(Arm) -> Result<(), Failed>) -> Arm {
    let user = Arm::ordinary();
    if user.is_able(&attempt) {
        return user;
    }
    let suite = Arm::of_suite();
    Arm {
        able: suite.root && suite.is_able(&attempt),
        ..suite
    }
}

/// How a test ended that did not fail: it passed, or could not run.
pub struct Ended(Completion);

impl From<()> for Ended {
    fn from((): ()) -> Ended {
        Ended(Completion::Completed)
    }
}

impl From<Completion> for Ended {
    fn from(completion: Completion) -> Ended {
        Ended(completion)
    }
}

impl Arm {
    /// The user who runs the suite.
    #[must_use]
    pub fn of_suite() -> Arm {
        Arm {
            root: getuid().is_root(),
            able: true,
        }
    }

    fn ordinary() -> Arm {
        Arm {
            root: false,
            able: true,
        }
    }

    fn is_able(self, attempt: &impl Fn(Arm) -> Result<(), Failed>) -> bool {
        let attempted = attempt(self);
        if let Err(reason) = &attempted {
            let reason = reason.message().unwrap_or_default();
            eprintln!("not run as {self}: {}", reason.trim());
        }
        attempted.is_ok()
    }

    /// Whether it is root.
    #[must_use]
    pub fn is_root(self) -> bool {
        self.root
    }

    /// A test run as this arm.
    pub fn trial<E: Into<Ended>>(
        self,
        name: impl Display,
        test: impl FnOnce() -> Result<E, Failed> + Send + 'static,
    ) -> Trial {
        let test = || test().map(|ended| ended.into().0);
        Trial::ignorable_test(self.name_of(name), test).with_ignored_flag(!self.able)
    }

    /// The name of a test run as this arm.
    #[must_use]
    pub fn name_of(self, name: impl Display) -> String {
        format!("{name}, as {self}")
    }

    /// A measuring test run as this arm: repeated while it fails on a disturbed machine ([`unless_disturbed`]).
    pub fn measuring(
        self,
        name: impl Display,
        test: impl Fn() -> Result<(), Failed> + Send + 'static,
    ) -> Trial {
        let of_trial = self.name_of(&name);
        self.trial(name, move || unless_disturbed(&of_trial, &test))
    }

    /// A command to run as this user.
    pub fn command(self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        if !self.root && getuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// A test of tunnels run as this arm, whose user must be able to create TUN devices.
    pub fn tunnel_trial<E: Into<Ended>>(
        self,
        name: impl Display,
        test: impl FnOnce() -> Result<E, Failed> + Send + 'static,
    ) -> Trial {
        let asked = self
            .command("test")
            .args(["-r", TUN, "-a", "-w", TUN])
            .status();
        let may = asked.is_ok_and(|status| status.success());
        if !may {
            eprintln!("not run: {name}, as {self}: it may not read and write {TUN}");
        }
        let able = self.able && may;
        Arm { able, ..self }.trial(name, test)
    }

    /// This test program in a role, in a working folder that every user may enter.
    ///
    /// # Panics
    /// The system cannot name the program's path.
    #[must_use]
    pub fn role(self, words: &[&str]) -> Command {
        let program = std::env::current_exe().expect("a test has a program");
        let mut command = self.command(program);
        command.arg(ROLE).args(words).current_dir("/");
        command
    }

    /// Runs a role of this test program to completion.
    ///
    /// # Errors
    /// Its stderr if it failed, or why it could not be started.
    pub fn plays(self, words: &[&str]) -> Result<(), Failed> {
        let output = self.role(words).output();
        let output = output.map_err(|e| format!("the test program cannot be started: {e}"))?;
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
        }
    }
}

impl Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.root {
            "root"
        } else {
            "an ordinary user"
        })
    }
}

/// Ends a role: reports an error on stderr, where [`Arm::plays`] reads it.
#[must_use]
pub fn end(played: Result<(), String>) -> ExitCode {
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Makes a folder writable for every arm.
///
/// # Errors
/// The system's error if the folder is not ours.
pub fn open_to_all(folder: &Path) -> io::Result<()> {
    set_permissions(folder, Permissions::from_mode(0o777))
}
