//! wansan against other implementations of iSCSI, and against itself, through its binary.
//!
//! Every test starts what it needs on free ports of loopback and ends it by its own process id.
//! A test whose peer is not on this machine counts as ignored, with a line `not run: TEST: REASON`
//! at the end; so does a test of libiscsi's suite that skips itself, which that suite would count
//! as passed.

mod conformance;
mod foreign_target;
mod libiscsi_tools;
mod negotiation;
mod own_pair;
mod qemu;
mod stage;

use std::sync::{Mutex, MutexGuard, PoisonError};

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
        negotiation::trials(),
    ];
    let conclusion = libtest_mimic::run(&arguments, trials.into_iter().flatten().collect());
    for line in not_run().iter() {
        println!("{line}");
    }
    conclusion.exit();
}

/// The tests that could not run, with their reasons: libtest-mimic does not print them, and a line
/// in the middle of its own would tear that apart.
fn not_run() -> MutexGuard<'static, Vec<String>> {
    static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
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
            not_run().push(format!("not run: {name}: {reason}"));
            Ok(Completion::ignored_with(reason))
        }
        Err(Stop::Failed(reason)) => Err(reason.into()),
    })
}
