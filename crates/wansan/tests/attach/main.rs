//! Disks that are attached and copied, through the binary: NBD clients of others, faults, and every byte.

mod clients;
mod copies;
mod faults;
mod life;
mod stage;

use std::process::ExitCode;

use wansan_peers::trial::run;

fn main() -> ExitCode {
    let trials = [
        clients::trials(),
        faults::trials(),
        life::trials(),
        copies::trials(),
    ];
    run(trials.into_iter().flatten().collect())
}
