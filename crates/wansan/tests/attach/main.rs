//! Disks that are attached and copied, through the binary: NBD clients of others, faults, and every byte.

mod clients;
mod copies;
mod crashes;
mod faults;
mod figures;
mod flushes;
mod groups;
mod history;
mod journal;
mod life;
mod other_disk;
mod peer;
mod power;
mod program;
mod refusing;
mod registrations;
mod reserved;
mod shared;
mod stage;
mod takeover;
mod way;

use std::process::ExitCode;

use wansan_peers::trial::run;

fn main() -> ExitCode {
    let trials = [
        clients::trials(),
        faults::trials(),
        figures::trials(),
        flushes::trials(),
        crashes::trials(),
        life::trials(),
        other_disk::trials(),
        journal::trials(),
        reserved::trials(),
        registrations::trials(),
        refusing::trials(),
        takeover::trials(),
        groups::trials(),
        copies::trials(),
        shared::trials(),
    ];
    run(trials.into_iter().flatten().collect())
}
