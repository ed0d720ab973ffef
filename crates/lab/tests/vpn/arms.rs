//! Who runs a test, and this program run again in a role.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;

/// The user that the suite drops to when root starts it.
const NOBODY: u32 = 65_534;

#[derive(Clone, Copy)]
pub(crate) struct Arm {
    pub(crate) name: &'static str,
    drop_to: Option<u32>,
}

pub(crate) fn arms() -> Vec<Arm> {
    let user = Arm {
        name: "an ordinary user",
        drop_to: None,
    };
    if rustix::process::getuid().is_root() {
        let root = Arm {
            name: "root",
            drop_to: None,
        };
        let dropped = Arm {
            drop_to: Some(NOBODY),
            ..user
        };
        vec![root, dropped]
    } else {
        vec![user]
    }
}

impl Arm {
    pub(crate) fn role(self, role: &str, kind: &str) -> Command {
        let program = std::env::current_exe().expect("a test has a program");
        let mut command = Command::new(program);
        command.args(["--role", role, kind]).current_dir("/");
        if let Some(id) = self.drop_to {
            command.uid(id).gid(id);
        }
        command
    }

    /// Why this arm cannot make namespaces here, if it cannot.
    pub(crate) fn obstacle(self) -> Option<String> {
        match self.role("isolate", "none").output() {
            Err(error) => Some(format!("the test program cannot be started: {error}")),
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    pub(crate) fn plays(self, role: &str, kind: &str) -> Result<(), Failed> {
        let output = self.role(role, kind).output()?;
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
        }
    }
}

pub(crate) fn is_alive(pid: u32) -> bool {
    // A dead child of a dead parent is a zombie until init has seen it.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        !after_name.starts_with(" Z")
    })
}

pub(crate) fn wait_until(mut done: impl FnMut() -> bool) -> Result<(), ()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if done() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(())
}
