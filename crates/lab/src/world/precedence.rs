//! Processor precedence of programs on a busy computer.
//!
//! A world is a measuring instrument: its routers and hosts stand for dedicated computers. One I/O through two VPN
//! routers wakes six programs in turn; if each had to queue for a processor, it would take tens of milliseconds
//! whatever the path does.
//!
//! Linux divides processors among scheduling groups, one per session if `kernel.sched_autogroup_enabled` is set
//! (sched(7)), and within a group by nice value. Each program of a world gets its own session, so that it does not
//! share its group, and, if the lab is permitted to, a higher priority for both group and process.

use std::fs;
use std::io;

use rustix::process::{Pid, setpriority_process, setsid};

/// Highest priority.
const FIRST: i32 = -20;

/// Puts the calling process into its own session, and thereby scheduling group. Makes only a plain system call: safe
/// between fork and exec.
pub(super) fn set_apart() -> io::Result<()> {
    setsid()?;
    Ok(())
}

/// Raises the priority of a process, if permitted: requires CAP_SYS_NICE. Otherwise it is scheduled like any other.
pub(super) fn put_first(id: u32) {
    let _ = fs::write(format!("/proc/{id}/autogroup"), FIRST.to_string());
    let _ = setpriority_process(Pid::from_raw(id as i32), FIRST);
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::super::process::Process;

    #[test]
    fn a_program_shares_its_group_with_nobody_and_goes_first() {
        let own = group(std::process::id());
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo ready; exec sleep 600"]);
        let mut program = Process::spawn("it".to_owned(), shell).unwrap();
        super::put_first(program.id());
        program.line("speak", Duration::from_secs(60)).unwrap();
        let Some((own, _)) = own else {
            eprintln!("this kernel has no groups");
            return;
        };
        let (name, nice) = group(program.id()).expect("all processes have one, or none");
        assert_ne!(name, own);
        let file = format!("/proc/{}/autogroup", program.id());
        let may = std::fs::write(file, "-20").is_ok();
        assert_eq!(nice, if may { "-20" } else { "0" });
    }

    /// A process's scheduling group and nice value.
    fn group(id: u32) -> Option<(String, String)> {
        let text = std::fs::read_to_string(format!("/proc/{id}/autogroup")).ok()?;
        let (name, nice) = text.trim().split_once(" nice ")?;
        Some((name.to_owned(), nice.to_owned()))
    }
}
