//! wansan against other implementations of iSCSI, and against itself, through its binary; and what it has
//! other programs and kernels do.
//!
//! Every test starts what it needs on free ports of loopback and ends it by its own process id.
//! A test whose peer is not on this machine counts as ignored, with a line `not run: TEST: REASON`
//! at the end.

mod chap;
mod foreign_target;
mod kernels;
mod libiscsi_tools;
mod negotiation;
mod own_pair;
mod qemu;
mod stage;
mod tc;

use std::process::ExitCode;

use kernels::lio_tracing;
use wansan_peers::trial::{run, trial};

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(lio_tracing::LISTEN) {
        return match lio_tracing::listen() {
            Ok(()) => ExitCode::SUCCESS,
            Err(wrong) => {
                println!("{wrong}");
                ExitCode::FAILURE
            }
        };
    }
    let trials = [
        libiscsi_tools::trials(),
        qemu::trials(),
        foreign_target::trials(),
        own_pair::trials(),
        negotiation::trials(),
        chap::trials(),
        tc::trials(),
        kernels::trials(),
    ];
    run(trials.into_iter().flatten().collect())
}
