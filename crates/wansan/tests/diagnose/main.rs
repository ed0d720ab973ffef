//! `wansan diagnose` beside programs that work over an emulated path, with one limit set at a time: it has to name that
//! one at either end of the path, and none where there is none.

mod cases;
mod predicted;
mod shown;
mod world;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use wansan_arms::{Arm, ROLE, end, one_arm};
use wansan_lab::world::isolate;

use cases::CASES;

const SHOWN: &str = "what I/Os wait for is shown meanwhile, and recorded";
const PREDICTED: &str = "a change brings what is predicted of it";

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
    let arm = one_arm(|arm: Arm| arm.plays(&["packets"]));
    let cases = CASES.iter().map(|case| case.name);
    let trials = cases.chain([SHOWN, PREDICTED]);
    let trials = trials
        .map(|name| arm.measuring(name, move || arm.plays(&[name])))
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn play(name: &str) -> Result<(), String> {
    isolate().map_err(|error| error.to_string())?;
    if name == "packets" {
        return world::sees_packets();
    }
    if name == SHOWN {
        return shown::shown();
    }
    if name == PREDICTED {
        return predicted::predicted();
    }
    let case = CASES.iter().find(|case| case.name == name);
    world::diagnose(case.ok_or_else(|| format!("no role `{name}`"))?)
}
