//! A plan with IPsec on a computer that has no strongSwan: one line that says what to install, exit
//! status 2, and nothing left. The computer is this one, with what it has of strongSwan hidden.

use std::path::Path;
use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Failed, Trial};

/// Hides strongSwan in a mount namespace, and does what follows there.
const HIDE: &str =
    "[ ! -d /usr/lib/ipsec ] || mount -t tmpfs none /usr/lib/ipsec || exit 77; exec \"$@\"";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let reason = obstacle();
    let trial = Trial::test("missing packages are named", missing_packages_are_named)
        .with_ignored_flag(reason.is_some());
    if let Some(reason) = reason {
        eprintln!("not run: missing packages are named: {reason}");
    }
    libtest_mimic::run(&arguments, vec![trial]).exit_code()
}

fn hidden(program: &str, arguments: &[&str]) -> std::io::Result<Output> {
    Command::new("unshare")
        .args([
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            HIDE,
            "sh",
            program,
        ])
        .args(arguments)
        .output()
}

/// Why strongSwan cannot be hidden here, if it cannot.
fn obstacle() -> Option<String> {
    match hidden("true", &[]) {
        Err(error) => Some(format!("unshare cannot be started: {error}")),
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

fn missing_packages_are_named() -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("plans/topologies/p1-two-tunnels.toml"))?;
    let plan = scratch.path().join("ipsec.toml");
    std::fs::write(&plan, text.replace("\"wireguard\"", "\"ipsec\""))?;
    let out = scratch.path().join("runs");
    let words = [
        "lab",
        "run",
        &plan.to_string_lossy(),
        "--out",
        &out.to_string_lossy(),
    ];
    let output = hidden(env!("CARGO_BIN_EXE_wansan"), &words)?;
    let told = String::from_utf8_lossy(&output.stderr);
    let line = told.trim_end();
    let good = output.status.code() == Some(2)
        && !line.contains('\n')
        && line.contains("apt-get install strongswan-charon ")
        && line.contains("libcharon-extra-plugins")
        && !out.exists();
    if good {
        Ok(())
    } else {
        Err(format!("{}, {line}, left: {}", output.status, out.exists()).into())
    }
}
