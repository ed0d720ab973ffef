//! What a watch sees of connections in worlds of real namespaces, traced and sampled, as root and as
//! an ordinary user.
//!
//! Every test runs this program again in a role of its own. Traced trials count as not run where
//! programs cannot be brought into the kernel.

mod causes;
mod many;
mod ss;
mod world;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use wansan_arms::{Arm, ROLE, arms, end};
use wansan_lab::world::isolate;
use wansan_peers::machine::unless_disturbed_as_seen;
use wansan_tcp::ebpf;

use world::Sight;

type Role = fn(Sight) -> Result<(), String>;

const ROLES: [(&str, Role); 13] = [
    (
        "an echoed mark is told from all else",
        causes::an_echoed_mark,
    ),
    (
        "an echoed mark is told when all has been sent",
        causes::a_mark_after_the_last_byte,
    ),
    ("a full device is told from all else", causes::a_full_device),
    (
        "listed losses are seen, and no others",
        causes::listed_losses,
    ),
    ("a silent path is a timeout", causes::a_silent_path),
    (
        "what is late is taken for lost, and back",
        causes::a_late_path,
    ),
    ("what ss says is what is seen", ss::at_rest),
    (
        "what ss says while data moves is what is seen",
        ss::in_motion,
    ),
    (
        "200 connections are seen from begin to end",
        many::two_hundred,
    ),
    (
        "records that nobody takes are counted to the end",
        many::records_without_takers,
    ),
    ("a device that goes away ends nothing", many::a_device_goes),
    ("a process that ends ends its watch", many::a_process_ends),
    (
        "a namespace that goes ends its watch",
        many::a_namespace_goes,
    ),
];

/// What only traced events have.
const TRACED_ROLES: [(&str, Role); 1] =
    [("events without room are counted", many::events_without_room)];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, name, sight] = &arguments[..]
        && role == ROLE
    {
        return end(play(name, sight));
    }
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for arm in arms(|arm| arm.plays(&["isolate", "sampled"])) {
        for (name, _) in ROLES {
            trials.push(trial(arm, name, Sight::Sampled));
        }
    }
    let root = Arm::of_suite();
    let missing = ebpf::available().err();
    if let Some(missing) = &missing {
        eprintln!("not run, traced: {missing}");
    }
    for (name, _) in ROLES.iter().chain(&TRACED_ROLES) {
        let traced = trial(root, name, Sight::Traced);
        trials.push(traced.with_ignored_flag(missing.is_some()));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(arm: Arm, name: &'static str, sight: Sight) -> Trial {
    let sight = sight.name();
    let title = format!("{name}, {sight}");
    let of_arm = arm.name_of(&title);
    // A machine that holds packets up for longer than a round trip has them sent twice.
    arm.trial(title, move || {
        unless_disturbed_as_seen(&of_arm, || {
            arm.plays(&[name, sight]).map_err(|failed| {
                let mut lines = failed.message().unwrap_or_default().lines();
                let by = lines.find_map(|line| line.strip_prefix(causes::DISTURBED));
                let by = by.map(str::to_owned);
                (failed, by)
            })
        })
    })
}

fn play(name: &str, sight: &str) -> Result<(), String> {
    isolate().map_err(|error| error.to_string())?;
    if name == "isolate" {
        return Ok(());
    }
    let mut roles = ROLES.iter().chain(&TRACED_ROLES);
    let (_, play) = roles
        .find(|(role, _)| *role == name)
        .ok_or_else(|| format!("no role `{name}`"))?;
    play(Sight::named(sight)?)
}
