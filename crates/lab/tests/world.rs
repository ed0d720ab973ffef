//! Worlds of real namespaces, built by root and by an ordinary user.
//!
//! Every test reruns this program in a role of its own.

use std::path::Path;
use std::process::{Child, Command, ExitCode};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed};
use wansan_arms::holder::{is_alive, is_inhabited, network_of, until_killed, wait_until};
use wansan_arms::{Arm, ROLE, arms, end};
use wansan_lab::plan::{Phase, Plan};
use wansan_lab::world::{TcpSettings, Topology, World, isolate};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(ROLE) {
        return end(play(&arguments.next().unwrap_or_default()));
    }
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for arm in arms(|arm| arm.plays(&["isolate"])) {
        let tests: [(&str, Test); 4] = [
            ("hosts are namespaces of their own", |arm| {
                arm.plays(&["hosts"])
            }),
            ("programs are ended in order", |arm| {
                arm.plays(&["programs"])
            }),
            ("a killed lab leaves nothing", a_killed_lab_leaves_nothing),
            ("two labs run side by side", two_labs_run_side_by_side),
        ];
        for (name, test) in tests {
            trials.push(arm.trial(name, move || test(arm)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

type Test = fn(Arm) -> Result<(), Failed>;

/// Starts a lab of hosts and routers that holds a program on one of each; returns the lab and the programs' process
/// IDs.
fn hold_two(arm: Arm) -> Result<(Child, [u32; 2]), Failed> {
    let (lab, programs) = arm.holds(&["hold"])?;
    let programs = <[u32; 2]>::try_from(programs).map_err(|_| "not two programs")?;
    Ok((lab, programs))
}

/// Interfaces and files that only a lab creates, in the namespace and on the disk of its user. Other programs may
/// create others meanwhile.
fn left_behind() -> Vec<String> {
    let list = |folder: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
    };
    let is_end = |name: &String| {
        let number = name.strip_prefix("wan").or(name.strip_prefix('h'));
        number.is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit() || b == b'-'))
    };
    // /run/wansan is the folder of attached disks, not a lab's.
    let is_ours = |name: &String| name.contains("wansan") && name != "wansan";
    list("/sys/class/net")
        .filter(is_end)
        .chain(list("/run/netns").filter(is_ours))
        .chain(list("/run").filter(is_ours))
        .collect()
}

fn a_killed_lab_leaves_nothing(arm: Arm) -> Result<(), Failed> {
    let (mut lab, programs) = hold_two(arm)?;
    let networks = programs.map(network_of);
    for (program, network) in programs.into_iter().zip(&networks) {
        if !is_alive(program) || network.is_err() {
            return Err("a program did not live".into());
        }
    }
    lab.kill()?;
    lab.wait()?;
    for program in programs {
        wait_until(|| !is_alive(program), "a program outlived its lab")?;
    }
    for network in networks.into_iter().flatten() {
        wait_until(|| !is_inhabited(&network), "a namespace outlived its lab")?;
    }
    match &left_behind()[..] {
        [] => Ok(()),
        left => Err(format!("the lab has left {} behind", left.join(", ")).into()),
    }
}

fn two_labs_run_side_by_side(arm: Arm) -> Result<(), Failed> {
    let (mut first, [program_of_first, _]) = hold_two(arm)?;
    let (mut second, [program_of_second, _]) = hold_two(arm)?;
    arm.plays(&["hosts"])?;
    let apart = network_of(program_of_first)? != network_of(program_of_second)?;
    first.kill()?;
    first.wait()?;
    let second_lives = is_alive(program_of_second);
    second.kill()?;
    second.wait()?;
    if apart && second_lives {
        Ok(())
    } else {
        Err(format!("apart: {apart}, the second lives: {second_lives}").into())
    }
}

fn play(role: &str) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    isolate().map_err(|e| text(&e))?;
    if role == "isolate" {
        return Ok(());
    }
    let tcp = TcpSettings {
        congestion_control: "reno".to_owned(),
        rmem_bytes: [4096, 131_072, 50_000_000],
        wmem_bytes: [4096, 16_384, 40_000_000],
        ecn: true,
    };
    if role == "hold" {
        return hold();
    }
    let topology = Topology::flat(&["storage", "client-1", "client-2"], &tcp, 1500);
    let world = World::build(&topology).map_err(|e| text(&e))?;
    match role {
        "hosts" => hosts(&world),
        "programs" => programs(&world),
        other => Err(format!("no role `{other}`")),
    }
}

/// Holds a program on a host and one on a router, with two routes through routers.
fn hold() -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let plan = include_str!("../../../plans/topologies/p1-two-routes.toml");
    let plan = Plan::parse(Path::new("p1-two-routes.toml"), plan).map_err(|e| text(&e))?;
    let cells = plan.cells(Phase::Planned, &[]).map_err(|e| text(&e))?;
    let world = World::build(&cells[0].scenario.topology).map_err(|e| text(&e))?;
    let mut programs = Vec::new();
    for name in ["storage", "far"] {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$; exec sleep 1000"]);
        let node = world.node(name).ok_or("a node is missing")?;
        programs.push(node.start("sleep", command).map_err(|e| text(&e))?);
    }
    let ids: Vec<String> = programs
        .iter_mut()
        .map(|program| program.line("start", LONG))
        .collect::<Result<_, _>>()
        .map_err(|e| text(&e))?;
    until_killed(&ids)
}

const LONG: Duration = Duration::from_secs(20);

fn check(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

fn output(world: &World, host: usize, script: &str) -> Result<Vec<String>, String> {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    world.nodes()[host]
        .start(script, command)
        .and_then(|program| program.succeed(LONG))
        .map_err(|error| error.to_string())
}

fn hosts(world: &World) -> Result<(), String> {
    let namespaces: Vec<Vec<String>> = (0..3)
        .map(|host| output(world, host, "readlink /proc/self/ns/net"))
        .collect::<Result<_, _>>()?;
    check(
        namespaces[0] != namespaces[1],
        "two hosts share a namespace",
    )?;
    check(
        namespaces[1] != namespaces[2],
        "two hosts share a namespace",
    )?;
    let devices = output(
        world,
        1,
        "cut -s -d: -f1 /proc/net/dev | tr -d ' ' | grep -v '|' | sort",
    )?;
    check(
        devices.iter().any(|name| name == "wan"),
        "a host has no `wan`",
    )?;
    check(
        devices.iter().any(|name| name == "lo"),
        "a host has no `lo`",
    )?;
    let neighbours = output(world, 1, "cat /proc/net/arp")?;
    check(
        neighbours
            .iter()
            .any(|line| line.starts_with("10.83.0.1 ") && line.contains("02:53:41:4e:00:01")),
        &format!("a neighbour is unknown: {neighbours:?}"),
    )?;
    let settings = world.nodes()[2].settings();
    for (name, value) in [
        ("net.ipv4.tcp_rmem", "4096 131072 50000000"),
        ("net.ipv4.tcp_wmem", "4096 16384 40000000"),
        ("net.ipv4.tcp_ecn", "1"),
        ("net.ipv4.tcp_congestion_control", "reno"),
        ("net.ipv4.tcp_no_metrics_save", "1"),
    ] {
        let found = settings.get(name).map(String::as_str);
        check(
            found == Some(value),
            &format!("{name} is {found:?}, not {value}"),
        )?;
    }
    // Loopback works, and a connection to a host's own address succeeds.
    let name = world.nodes()[0].address().to_string();
    let connected = world.nodes()[0].namespace().run(move || {
        let listener = std::net::TcpListener::bind((name.as_str(), 0))?;
        std::net::TcpStream::connect(listener.local_addr()?).map(drop)
    });
    connected.map_err(|error| format!("a host does not reach itself: {error}"))
}

fn programs(world: &World) -> Result<(), String> {
    let host = &world.nodes()[0];
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        host.start("the script", command)
            .map_err(|error| error.to_string())
    };
    let mut polite =
        shell("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done")?;
    let line = polite.line("get ready", LONG).map_err(|e| e.to_string())?;
    check(line == "ready", "the first line is not the first")?;
    polite.terminate();
    let lines = polite.succeed(LONG).map_err(|e| e.to_string())?;
    check(lines == ["bye"], "the last line is lost")?;

    let failed = shell("echo the disk is on fire >&2; exit 3")?.succeed(LONG);
    let message = failed.expect_err("it failed").to_string();
    check(
        message.contains("the disk is on fire") && message.contains('3'),
        &message,
    )?;

    let silent = shell("sleep 1000")?.line("speak", Duration::from_millis(50));
    let message = silent.expect_err("it said nothing").to_string();
    check(message.contains("did not speak"), &message)?;

    let talkative = shell("head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; seq 5000")?;
    let lines = talkative.succeed(LONG).map_err(|e| e.to_string())?;
    check(
        lines.last().is_some_and(|line| line == "5000"),
        "output is lost",
    )?;

    let missing = host.start("the ghost", Command::new("/nowhere/ghost"));
    check(missing.is_err(), "a program that is not there was started")
}
