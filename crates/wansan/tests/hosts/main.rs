//! Plans on real computers: servers of ssh in namespaces of their own, with paths between them, and a lab in one
//! more that reaches them by nothing but `ssh`.

mod cases;
mod clocks;
mod cut_off;
mod peer;
mod routed;
mod stage;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion};
use rustix::process::getuid;
use wansan_arms::{Arm, ROLE, end};
use wansan_lab::world::isolate;
use wansan_peers::machine::unless_disturbed;
use wansan_peers::program::find;
use wansan_peers::trial::{Stop, run_with, trial};

use stage::Stage;

type Test = fn(&Stage) -> Result<(), String>;

const TESTS: [(&str, Test); 17] = [
    (
        "a plan runs on hosts as in a world of namespaces",
        cases::whole,
    ),
    ("streams and relays run on three hosts", cases::relayed),
    (
        "an installed wansan is run where it is the same",
        cases::installed,
    ),
    (
        "what is wrong with a host is said in one line",
        cases::refused,
    ),
    (
        "a host between two others emulates the path of a plan",
        routed::emulated,
    ),
    (
        "what is wrong with a router is said in one line",
        routed::refused,
    ),
    (
        "an ordinary user will do, but for a router",
        routed::unprivileged,
    ),
    (
        "a router that is interrupted leaves nothing behind",
        routed::interrupted,
    ),
    (
        "a router to which the connection is lost leaves nothing behind",
        routed::connection_lost,
    ),
    (
        "a router that hears nobody leaves nothing behind",
        routed::silent,
    ),
    (
        "records are joined although a clock is far ahead",
        clocks::shifted,
    ),
    (
        "a diagnosis with a peer tells the path from the target",
        peer::both_ends,
    ),
    ("Ctrl-C leaves nothing behind", cut_off::interrupted),
    (
        "a lab that is killed leaves nothing behind",
        cut_off::lab_killed,
    ),
    (
        "a connection that is lost leaves nothing behind",
        cut_off::connection_lost,
    ),
    (
        "an agent that hears nobody leaves nothing behind",
        cut_off::silent,
    ),
    (
        "an agent that is killed leaves nothing behind",
        cut_off::agent_killed,
    ),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, name] = &arguments[..]
        && role == ROLE
    {
        return end(play(name));
    }
    let mut arguments = Arguments::from_args();
    // Worlds side by side would take each other's processor time.
    arguments.test_threads = Some(1);
    let trials = TESTS.map(|(name, _)| {
        trial(name, move || {
            for program in ["sshd", "ssh", "unshare"] {
                find(program)?;
            }
            if !getuid().is_root() {
                let reason = "sshd lets nobody in but as root";
                return Err(Stop::NotRun(reason.to_owned()));
            }
            let plays = || Arm::of_suite().plays(&[name]);
            match unless_disturbed(name, plays) {
                Ok(Completion::Completed) => Ok(()),
                Ok(Completion::Ignored { reason }) => Err(Stop::NotRun(reason.unwrap_or_default())),
                Err(failed) => Err(Stop::Failed(
                    failed.message().unwrap_or_default().to_owned(),
                )),
            }
        })
    });
    run_with(&arguments, trials.into())
}

fn play(name: &str) -> Result<(), String> {
    isolate().map_err(|error| error.to_string())?;
    let test = TESTS.iter().find(|(other, _)| *other == name);
    let (_, test) = test.ok_or_else(|| format!("no role `{name}`"))?;
    let stage = Stage::build()?;
    test(&stage)?;
    stage.is_clean()
}
