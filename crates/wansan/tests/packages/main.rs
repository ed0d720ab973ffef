//! What users get beside the binary: man pages and completions.

mod command_line;

use std::process::ExitCode;

use wansan_peers::trial::run;

fn main() -> ExitCode {
    run(command_line::trials())
}

/// The binary under test.
const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
/// The root of the repository.
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// What one program may take before the test fails: generous, as the machine may be busy.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(600);
