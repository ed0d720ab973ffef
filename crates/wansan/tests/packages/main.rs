//! What users get beside the binary, man pages and completions, and how they get it: as a Debian package, which is
//! installed into a clean Debian and used there, as a static binary, and as an image of a container.
//!
//! `make test-packages` makes all these first. What an ordinary run has not made is left out, and counted.

mod alone;
mod command_line;
mod debian;
mod root;
mod units;

use std::process::ExitCode;

use wansan_peers::trial::run;

fn main() -> ExitCode {
    let trials = [
        command_line::trials(),
        units::trials(),
        debian::trials(),
        alone::trials(),
    ];
    run(trials.into_iter().flatten().collect())
}

/// The binary under test, where no package brings its own.
const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
/// The root of the repository.
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// What one program may take before the test fails: generous, as the machine may be busy.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(600);
