//! What users get beside the binary: man pages, completions and units of systemd.

mod command_line;
mod units;

use std::process::ExitCode;

use wansan_peers::trial::run;

fn main() -> ExitCode {
    let trials = [command_line::trials(), units::trials()];
    run(trials.into_iter().flatten().collect())
}

/// The binary under test.
const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
/// The root of the repository.
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// What one program may take before the test fails: generous, as the machine may be busy.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(600);
