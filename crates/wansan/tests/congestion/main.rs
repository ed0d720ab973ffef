//! Our congestion controls in the running kernel, over emulated paths: what each law makes of losses,
//! how its window grows, and how a plan and a user get them. Needs root, and a build with eBPF.
//!
//! Growth is held to the packets that were acknowledged, and losses come at chosen packets, so that
//! nothing depends on how fast the machine is.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use wansan_peers::machine::unless_disturbed;
use wansan_peers::trial::{Stop, trial};

mod commands;
mod growth;
mod lab;
mod lacking;
mod losses;

type Test = fn() -> Result<(), Stop>;

const TESTS: [(&str, Test); 12] = [
    (
        "each law takes its share of the window at a loss",
        losses::shares,
    ),
    (
        "HighSpeed TCP's window at five loss rates is RFC 3649's",
        losses::response,
    ),
    ("windows grow by their laws", growth::by_law),
    (
        "limited slow start adds half of its bound in a round trip",
        growth::limited,
    ),
    (
        "counted by ACKs, stretched ACKs slow the growth",
        growth::by_acks,
    ),
    (
        "a plan has its control for the run, and leaves none",
        commands::of_a_plan,
    ),
    (
        "a plan's parameters are those of its cells",
        commands::with_parameters,
    ),
    ("without rights one line says so", lacking::rights),
    (
        "without the kernel's types one line says so",
        lacking::types,
    ),
    (
        "where the kernel refuses, one line names its verifier's log",
        lacking::refusal,
    ),
    (
        "verifiers' logs are kept where they are wanted",
        lacking::logs,
    ),
    ("cc load, show, list and unload", commands::by_hand),
];

fn main() -> ExitCode {
    let trials: Vec<Trial> = TESTS
        .into_iter()
        .map(|(name, test)| {
            trial(name, move || {
                wansan_tcp::ebpf::available().map_err(|reason| Stop::NotRun(reason.to_string()))?;
                match unless_disturbed(name, || test().map_err(Failed::from)) {
                    Ok(Completion::Completed) => Ok(()),
                    Ok(Completion::Ignored { reason }) => {
                        Err(Stop::NotRun(reason.unwrap_or_default()))
                    }
                    Err(wrong) => Err(Stop::Failed(wrong.message().unwrap_or_default().to_owned())),
                }
            })
        })
        .collect();
    // Names of controls are the whole machine's, and worlds take each other's processor time.
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    wansan_peers::trial::run_with(&arguments, trials)
}
