//! Plans whose cells run on workers of Dask: a scheduler and workers of its own on loopback.

mod cases;
mod cut_off;
mod stage;

use libtest_mimic::Arguments;
use std::process::ExitCode;
use wansan_peers::trial::{Stop, run_with, trial};

use stage::Stage;

type Test = fn(&mut Stage) -> Result<(), Stop>;

const TESTS: [(&str, Test); 10] = [
    ("a sweep is the same as on this computer", cases::same),
    (
        "cells of a worker that is killed are run again",
        cases::killed,
    ),
    ("advice is followed on workers too", cases::advised),
    (
        "cells that fail leave the others, with the same words",
        cases::failing,
    ),
    (
        "cells in namespaces go to workers that take them",
        cases::namespaces,
    ),
    ("a worker with another build is refused", cases::other_build),
    ("what is wrong is said in one line", cases::refused),
    ("Ctrl-C ends the cells of all workers", cut_off::interrupted),
    (
        "Ctrl-C takes the program back from all workers, however early",
        cut_off::early,
    ),
    (
        "a lab that is killed leaves no cell running",
        cut_off::lab_killed,
    ),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each has a cluster of its own.
    arguments.test_threads = Some(1);
    let trials = TESTS.map(|(name, test)| trial(name, move || test(&mut Stage::build()?)));
    run_with(&arguments, trials.into())
}
