//! wansan against other implementations of iSCSI, and against itself, through its binary.
//!
//! Every test starts what it needs on free ports of loopback and ends it by its own process id.
//! A test whose peer is not on this machine prints `not run: TEST: REASON` and counts as ignored;
//! so does a test of libiscsi's suite that skips itself, which that suite would count as passed.

mod conformance;
mod foreign_target;
mod libiscsi_tools;
mod own_pair;
mod qemu;
mod stage;

use libtest_mimic::{Arguments, Completion, Trial};

use stage::Stop;

fn main() {
    let arguments = Arguments::from_args();
    let trials = [
        libiscsi_tools::trials(),
        qemu::trials(),
        conformance::trials(),
        foreign_target::trials(),
        own_pair::trials(),
    ];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit();
}

/// A test by the name of its function.
fn trial(
    name: impl Into<String>,
    body: impl FnOnce() -> Result<(), Stop> + Send + 'static,
) -> Trial {
    let name = name.into();
    Trial::ignorable_test(name.clone(), move || match body() {
        Ok(()) => Ok(Completion::Completed),
        Err(Stop::NotRun(reason)) => {
            println!("not run: {name}: {reason}");
            Ok(Completion::ignored_with(reason))
        }
        Err(Stop::Failed(reason)) => Err(reason.into()),
    })
}
