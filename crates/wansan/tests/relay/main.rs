//! `wansan relay` as its users run it, and what only namespaces of its own can show: transparent
//! flows, and paths that swallow everything.

mod burst;
mod capable;
mod command;
mod deficit;
mod icmp;
mod latency;
mod linear_topology;
mod machine;
mod namespaces;
mod pair;
mod pause;
mod program;
mod reloads;
mod service;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use wansan_arms::{Arm, ROLE, end, one_arm};
use wansan_lab::world::isolate;
use wansan_peers::machine::judged;
use wansan_peers::program::find;

use machine::Trouble;

type Test = fn() -> Result<(), Failed>;

const COMMAND: [(&str, Test); 9] = [
    ("mistakes are told in a line", command::mistakes),
    ("a file is read again", command::reload),
    ("counters tell what is carried", command::counters),
    ("its flows can be watched", command::watched),
    ("records have both sides", command::records),
    ("flows may end before the relay does", command::drain),
    ("a killed relay does not look like an end", command::killed),
    (
        "an initiator recovers from a killed relay",
        command::recovery,
    ),
    (
        "without descriptors it waits for some",
        command::descriptors,
    ),
];

type Role = fn() -> Result<(), String>;

const ROLES: [(&str, Role); 16] = [
    ("a relay never carries flows to itself", namespaces::circle),
    (
        "transparent flows keep the client's address",
        namespaces::transparent,
    ),
    (
        "a relay that ends takes no last bytes along",
        namespaces::last_bytes,
    ),
    (
        "transparent flows cross a link of small packets",
        icmp::small_packets,
    ),
    (
        "that a transparent flow has no target is told at once",
        icmp::no_target,
    ),
    (
        "a transparent relay takes nothing else",
        namespaces::nothing_else,
    ),
    (
        "flows outlive their transparent listener",
        reloads::listener_is_gone,
    ),
    (
        "flows outlive changes of what is taken",
        reloads::others_are_taken,
    ),
    ("rules that fail leave the old ones", reloads::rules_fail),
    ("rules go with the relay", namespaces::rules),
    (
        "a listener that is transparent no more takes nothing",
        namespaces::no_longer_transparent,
    ),
    (
        "a reload tells of rules as the start does",
        namespaces::told_again,
    ),
    (
        "a path that swallows what is sent ends a flow",
        namespaces::black_hole,
    ),
    ("a silent path ends a silent flow", namespaces::silence),
    (
        "an end that has forgotten a flow ends it",
        namespaces::half_open,
    ),
    ("a host that is gone ends its flows", namespaces::vanished),
];

type Measuring = fn() -> Result<(), Trouble>;

/// What measures.
const MEASURING: [(&str, Measuring); 1] =
    [("a window holds the backlog to a time", latency::window)];

/// Those of laws that load a program into the kernel. What a cut costs is the backlog below which the
/// outgoing side runs dry, and above which it does not.
const SIGNALLING: [(&str, Measuring); 11] = [
    ("only what has ECN is ECN-capable", capable::packets),
    ("arriving segments are answered with ECE", latency::arrival),
    (
        "those of the target too, where it is the one that is near",
        latency::arrival_from_the_target,
    ),
    ("a pause is no round trip", pause::held),
    ("a pause lets what waits drain", burst::judged),
    (
        "where ECE is of no use the window holds the backlog",
        latency::fallbacks,
    ),
    (
        "that ECE is of no use is not told before it is known",
        latency::slow_start,
    ),
    ("P5's laws ask for ECE after reads", latency::of_p5),
    ("below what a cut of Reno costs runs dry", deficit::of_reno),
    (
        "below what a cut of CUBIC costs runs dry",
        deficit::of_cubic,
    ),
    (
        "below what a cut of HighSpeed TCP costs runs dry",
        deficit::of_high_speed,
    ),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, name] = &arguments[..]
        && role == ROLE
    {
        return play(name);
    }
    let mut arguments = Arguments::from_args();
    // What measures sends slowly, and mostly waits.
    arguments.test_threads.get_or_insert(4);
    let mut trials: Vec<Trial> = COMMAND
        .into_iter()
        .map(|(name, test)| Trial::test(name, test))
        .collect();
    let arm = one_arm(|arm| {
        find("nft").map_err(|missing| missing.to_string())?;
        find("ip").map_err(|missing| missing.to_string())?;
        arm.plays(&["isolate"])
    });
    for (name, _) in ROLES {
        trials.push(arm.trial(name, move || arm.plays(&[name])));
    }
    for (name, _) in MEASURING {
        trials.push(arm.trial(name, move || measured(arm, name)));
    }
    let missing = wansan_tcp::ebpf::available().err();
    if let Some(missing) = &missing {
        eprintln!("not run: laws that signal ECE: {missing}");
    }
    let arm = Arm::of_suite();
    let name = "what the service's unit grants is enough for signals";
    trials.push(
        arm.trial(name, service::rights)
            .with_ignored_flag(missing.is_some()),
    );
    for (name, _) in SIGNALLING {
        let trial = arm.trial(name, move || measured(arm, name));
        trials.push(trial.with_ignored_flag(missing.is_some()));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// How a role ends that the machine has disturbed: a temporary failure, as sysexits.h has it.
const EX_TEMPFAIL: u8 = 75;

/// Plays a role that measures, and again only where the machine disturbed it: what a busy machine does to a
/// path is not the relay's doing.
fn measured(arm: Arm, name: &str) -> Result<Completion, Failed> {
    judged(&arm.name_of(name), || {
        let output = arm.role(&[name]).output();
        let output = output.map_err(|error| (error.to_string(), None))?;
        if output.status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        // Its last line says why it failed, those before it what it measured.
        let (measured, why) = stderr.trim().rsplit_once('\n').unwrap_or(("", &stderr));
        Err(match output.status.code() == Some(EX_TEMPFAIL.into()) {
            true => (measured.replace('\n', ", "), Some(why.to_owned())),
            false => (format!("{why}\n{measured}"), None),
        })
    })
}

fn play(name: &str) -> ExitCode {
    if let Err(error) = isolate() {
        return end(Err(error.to_string()));
    }
    if let Some((_, play)) = ROLES.iter().find(|(role, _)| *role == name) {
        return end(play());
    }
    let mut measuring = MEASURING.iter().chain(&SIGNALLING);
    match measuring.find(|(role, _)| *role == name) {
        Some((_, play)) => match play() {
            Err(Trouble::Disturbed(what, disturbance)) => {
                eprintln!("{what}\n{disturbance}");
                ExitCode::from(EX_TEMPFAIL)
            }
            Err(Trouble::Failed(what)) => end(Err(what)),
            Ok(()) => end(Ok(())),
        },
        None if name == "isolate" => end(Ok(())),
        None => end(Err(format!("no role `{name}`"))),
    }
}
