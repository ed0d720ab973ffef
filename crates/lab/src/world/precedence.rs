//! Who gets a processor first when a computer has other work to do.
//!
//! A world is a measuring instrument: its routers and hosts stand for computers of their own, which
//! nobody's compiler runs on. One I/O through two VPN routers wakes six programs one after the other;
//! where each has to queue for a processor, it takes tens of milliseconds whatever the path does.
//!
//! Linux shares processors out among scheduling groups, one for each session of processes where
//! `kernel.sched_autogroup_enabled` is set (sched(7)), and inside a group by nice values. A program
//! of a world gets a session of its own, so that it shares its part with nobody, and where the lab may
//! ask for it, group and process go before others.

use std::fs;
use std::io;

use rustix::process::{Pid, setpriority_process, setsid};

/// As far before others as can be asked for.
const FIRST: i32 = -20;

/// Gives the calling process a session, and with it a scheduling group, of its own. Only makes a plain
/// system call: it may be called between fork and exec.
pub(super) fn set_apart() -> io::Result<()> {
    setsid()?;
    Ok(())
}

/// Has the process with that id go first, if the lab may: it takes CAP_SYS_NICE. Whoever may not shares
/// as everybody does.
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

    /// The scheduling group of a process and its nice value.
    fn group(id: u32) -> Option<(String, String)> {
        let text = std::fs::read_to_string(format!("/proc/{id}/autogroup")).ok()?;
        let (name, nice) = text.trim().split_once(" nice ")?;
        Some((name.to_owned(), nice.to_owned()))
    }
}
