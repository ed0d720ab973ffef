//! Runs tc(8) of iproute2 in the WAN's namespace.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::NetemError;
use crate::world::Namespace;

/// Folders to search beyond an ordinary user's `PATH`.
const FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// tc's messages if the kernel lacks a qdisc, a classifier or an action.
const LACKS: [&str; 4] = [
    "Specified qdisc kind is unknown",
    "TC classifier not found",
    "Failed to load TC action module",
    "RTNETLINK answers: No such file or directory",
];

/// The path of tc.
pub(super) fn find() -> Result<PathBuf, NetemError> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(FOLDERS.map(PathBuf::from));
    let mut programs = folders.map(|folder| folder.join("tc"));
    let is_program = |file: &PathBuf| {
        let metadata = file.metadata();
        metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    programs.find(is_program).ok_or(NetemError::ProgramMissing)
}

/// Runs a command with `tc`, which needs these kernel modules (`parts`); returns its output.
pub(super) fn run(
    wan: &Namespace,
    tc: &Path,
    command: &str,
    parts: &'static str,
) -> Result<String, NetemError> {
    let output = output(wan, tc, command)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(refused(
        command,
        parts,
        &String::from_utf8_lossy(&output.stderr),
    ))
}

/// Whether it can seed netem's random numbers: from iproute2 6.6 on.
pub(super) fn takes_seed(wan: &Namespace, tc: &Path) -> Result<bool, NetemError> {
    let help = output(wan, tc, "qdisc add dev lo root netem help")?;
    Ok(String::from_utf8_lossy(&help.stderr).contains("[ seed "))
}

fn output(wan: &Namespace, tc: &Path, command: &str) -> Result<Output, NetemError> {
    let mut program = Command::new(tc);
    program
        .args(command.split(' '))
        .stdin(Stdio::null())
        .env("LC_ALL", "C");
    wan.run(move || program.output())
        .map_err(|source| NetemError::NotRun {
            program: tc.to_owned(),
            source,
        })
}

/// Interprets tc's error message for a command.
fn refused(command: &str, parts: &'static str, said: &str) -> NetemError {
    if LACKS.iter().any(|lacks| said.contains(lacks)) {
        return NetemError::KernelLacks { parts };
    }
    let lines: Vec<&str> = said
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    NetemError::Refused {
        command: format!("tc {command}"),
        said: lines.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_part_of_the_kernel_is_named() {
        let said = refused(
            "qdisc add dev h1 root netem limit 10",
            "sch_netem",
            "Error: Specified qdisc kind is unknown.\n",
        );
        let said = said.to_string();
        assert!(said.contains("needs sch_netem") && said.contains("modprobe -a sch_netem"));
        assert_eq!(said.lines().count(), 1);
    }

    #[test]
    fn any_other_complaint_is_told_in_one_line() {
        let said = refused(
            "qdisc add dev h1 root netem limit 10",
            "sch_netem",
            "Error: Exclusivity flag on,\n cannot modify.\n",
        );
        assert_eq!(
            said.to_string(),
            "`tc qdisc add dev h1 root netem limit 10`: Error: Exclusivity flag on,; cannot modify."
        );
    }
}
