//! What `cc` and `watch` say where programs cannot be brought into the kernel: one line, with the way
//! out.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use wansan_peers::trial::{Stop, require};

use super::commands::NOBODY;

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");

/// A user who may load nothing.
pub(crate) fn rights() -> Result<(), Stop> {
    let told = |arguments: &[&str]| {
        let mut wansan = Command::new(WANSAN);
        wansan.args(arguments).uid(NOBODY).gid(NOBODY);
        wansan
    };
    say(told(&LOAD), told(&WATCH), "need root (CAP_BPF")
}

/// A kernel that does not describe its types; hidden, for the one process, behind an empty folder.
pub(crate) fn types() -> Result<(), Stop> {
    let hide = "mount -t tmpfs none /sys/kernel/btf && exec \"$0\" \"$@\"";
    let told = |arguments: &[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "sh", "-c", hide, WANSAN]);
        unshare.args(arguments);
        unshare
    };
    say(told(&LOAD), told(&WATCH), "CONFIG_DEBUG_INFO_BTF")
}

/// A kernel that refuses: it gives this process no more descriptors than stand here. What was said
/// until then is kept, and the line says where.
pub(crate) fn refusal() -> Result<(), Stop> {
    let scratch = tempfile::tempdir()?;
    let told = |arguments: &[&str]| {
        let mut limited = Command::new("prlimit");
        limited.args(["--nofile=7", WANSAN]).args(arguments);
        limited.env("TMPDIR", scratch.path());
        limited
    };
    let line = refused(told(&LOAD))?;
    require(line.contains("the kernel rejects reno"), || line.clone())?;
    let log = line.trim().rsplit(' ').next().unwrap_or_default();
    require(
        log.ends_with(".verifier.log") && Path::new(log).starts_with(scratch.path()),
        || line.clone(),
    )?;
    let said = std::fs::read_to_string(log)?;
    require(said.contains("libbpf:"), || said)
}

/// A developer who wants to read it has what the verifier says of programs that it takes, too.
pub(crate) fn logs() -> Result<(), Stop> {
    let scratch = tempfile::tempdir()?;
    let folder = scratch.path();
    let with_logs = |arguments: &[&str]| {
        let mut wansan = Command::new(WANSAN);
        wansan.args(arguments).env("WANSAN_VERIFIER_LOGS", folder);
        wansan
    };
    require(first_line(with_logs(&WATCH))?["way"] == "traced", || {
        "it does not trace".to_owned()
    })?;
    let mut logs = std::fs::read_dir(folder)?;
    let log = logs.next().ok_or(Stop::Failed("no log".to_owned()))??;
    let said = std::fs::read_to_string(log.path())?;
    require(said.contains("processed"), || said)?;
    std::fs::remove_dir_all(folder)?;
    let line = refused(with_logs(&LOAD))?;
    require(line.contains("cannot write"), || line.clone())
}

const LOAD: [&str; 3] = ["cc", "load", "wansan_reno"];
const WATCH: [&str; 4] = ["watch", "--json", "--interval", "1h"];

/// `cc load` is refused with a line that says why, and `watch` samples and says why.
fn say(load: Command, watch: Command, why: &str) -> Result<(), Stop> {
    let line = refused(load)?;
    require(line.contains(why), || line.clone())?;
    let first = first_line(watch)?;
    let told = first["why"].as_str().unwrap_or_default();
    require(first["way"] == "sampled" && told.contains(why), || {
        first.to_string()
    })
}

/// The one line on standard error of a program that ends with status 2.
fn refused(mut command: Command) -> Result<String, Stop> {
    let output = command.output()?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let holds = output.status.code() == Some(2) && told.lines().count() == 1;
    require(holds, || format!("{:?}: {told}", output.status))?;
    Ok(told)
}

/// The first line of JSON that a program prints, which is ended then.
fn first_line(mut command: Command) -> Result<Value, Stop> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut line = String::new();
    let stdout = child.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line)?;
    child.kill()?;
    child.wait()?;
    serde_json::from_str(&line).map_err(|error| Stop::Failed(format!("{error}: {line}")))
}
