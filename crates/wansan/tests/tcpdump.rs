//! Captures of the real tcpdump, taken at both ends of an emulated path as users take them, beside the
//! emulator's own capture of the same packets: `wansan explain` has to name the same stalls.
//!
//! At the ends the kernel's offloads are at work: what is sent is seen before it is cut into segments,
//! and what comes may have been joined again.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use libtest_mimic::Arguments;
use serde_json::Value;
use wansan_arms::{Arm, ROLE, end, one_arm};
use wansan_lab::emulator::{Capture, Config, Direction, Emulator, Route};
use wansan_lab::world::{Interface, Process, TcpSettings, Topology, World, isolate};
use wansan_path::{Effects, Limit, Listed, LossModel};
use wansan_peers::program::find;
use wansan_trace::{Kinds, Recorder};

/// Longer than any machine takes for what these tests do.
const LONG: Duration = Duration::from_secs(120);
const ONE_WAY: Duration = Duration::from_millis(10);
const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");

/// What is captured where, and how.
struct Taken {
    /// The host, and the name of the file.
    host: &'static str,
    file: &'static str,
    options: &'static [&'static str],
    /// Whether lost packets are seen before they are lost, of those that the target sends.
    is_before: bool,
}

const CAPTURES: [Taken; 6] = [
    Taken {
        host: "client",
        file: "client.pcap",
        options: &["-i", "wan"],
        is_before: false,
    },
    Taken {
        host: "storage",
        file: "storage.pcap",
        options: &["-i", "wan"],
        is_before: true,
    },
    // Of all interfaces (LINUX_SLL2), with headers alone.
    Taken {
        host: "client",
        file: "any.pcap",
        options: &["-i", "any", "-s", "160"],
        is_before: false,
    },
    Taken {
        host: "storage",
        file: "old.pcap",
        options: &["-i", "any", "-y", "LINUX_SLL", "-s", "160"],
        is_before: true,
    },
    // What some have from long ago.
    Taken {
        host: "client",
        file: "short.pcap",
        options: &["-i", "wan", "-s", "96"],
        is_before: false,
    },
    Taken {
        host: "storage",
        file: "nano.pcap",
        options: &["-i", "wan", "-s", "96", "--nano"],
        is_before: true,
    },
];

/// A world, and what stalls in it.
struct Case {
    name: &'static str,
    cause: &'static str,
    target: &'static str,
    bench: &'static str,
    /// I/Os side by side.
    parallel: f64,
    /// What is lost of what the target sends.
    lost: &'static [u64],
}

const CASES: [Case; 5] = [
    Case {
        name: "a separate status waits for Nagle's algorithm",
        cause: "nagle",
        target: "--nagle on --status separate --join-sends off",
        bench: "--error-recovery-level 0 --op read --block 2KiB --parallel 1 --count 40",
        parallel: 1.0,
        lost: &[],
    },
    Case {
        name: "and for a delayed acknowledgement",
        cause: "nagle_against_delayed_ack",
        target: "--nagle on --status separate --join-sends off",
        bench: "--error-recovery-level 0 --op read --block 1KiB --parallel 1 --count 40",
        parallel: 1.0,
        lost: &[],
    },
    Case {
        name: "a segment is lost before others",
        cause: "fast_retransmit",
        target: "",
        bench: "--op read --block 64KiB --parallel 1 --count 40",
        parallel: 1.0,
        lost: &[300, 900],
    },
    Case {
        name: "writes wait to be asked for their data",
        cause: "r2t_wait",
        target: "--initial-r2t yes --immediate-data no",
        bench: "--op write --block 64KiB --parallel 1 --count 40 --initial-r2t yes --immediate-data no",
        parallel: 1.0,
        lost: &[],
    },
    Case {
        name: "reads side by side do not stall",
        cause: "none",
        target: "",
        bench: "--op read --block 4KiB --count 200 --parallel 4",
        parallel: 4.0,
        lost: &[],
    },
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
    let able = |arm: Arm| {
        find("tcpdump").map_err(|missing| missing.to_string())?;
        arm.plays(&["captures"])
    };
    let arm = one_arm(able);
    let trials = CASES
        .iter()
        .map(|Case { name, .. }| arm.measuring(name, move || arm.plays(&[name])))
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn play(name: &str) -> Result<(), String> {
    isolate().map_err(text)?;
    if name == "captures" {
        return captures();
    }
    let case = CASES.iter().find(|case| case.name == name);
    agrees(case.ok_or_else(|| format!("no role `{name}`"))?)
}

/// Whether tcpdump captures anything: it gives up where it may not set its groups, as in the user
/// namespaces of ordinary users.
fn captures() -> Result<(), String> {
    let topology = Topology::flat(&["storage", "client"], &settings(), 1500);
    let world = World::build(&topology).map_err(text)?;
    let folder = tempfile::tempdir().map_err(text)?;
    begin(&world, &CAPTURES[0], folder.path()).map(drop)
}

/// Whether every capture shows what the emulator's shows.
fn agrees(case: &Case) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(text)?;
    run(case, folder.path())?;
    let own = explained(&folder.path().join("emulator.pcapng"))?;
    is_same_in_pieces(&folder.path().join(CAPTURES[0].file))?;
    are_joined(folder.path())?;
    let stalls = &own["summary"]["stalls"];
    let is_there = case.cause == "none" || of_cause(stalls, case.cause, "stalls") > 0.0;
    check(is_there, || format!("the emulator's: {stalls:#}"))?;
    for taken in &CAPTURES {
        let told = explained(&folder.path().join(taken.file))?;
        is_alike(case, taken, &told, &own).map_err(|wrong| {
            let [told, own] = [&told, &own].map(|of| {
                let causes = of["summary"]["stalls"]["causes"].as_array();
                let causes = causes.into_iter().flatten().map(|cause| {
                    format!(
                        "{} x {}, {} ns",
                        cause["stalls"], cause["cause"], cause["cost_ns"]
                    )
                });
                format!("{:?}; {}", causes.collect::<Vec<_>>(), of["connections"])
            });
            format!(
                "{}: {wrong}\n{told}\nbeside the emulator's\n{own}",
                taken.file
            )
        })?;
    }
    Ok(())
}

/// Whether the captures of both ends, in whatever order, tell the path from the target.
fn are_joined(folder: &Path) -> Result<(), String> {
    let ends = [CAPTURES[1].file, CAPTURES[0].file].map(|file| folder.join(file));
    let mut command = Command::new(WANSAN);
    let told = explained_from(command.args(["explain", "--both-ends"]).args(&ends))?;
    let both = &told["both_ends"];
    let is_first = |file: &Path| told["ends"][0]["capture"].as_str() == file.to_str();
    check(is_first(&ends[1]), || told.to_string())?;
    let ns = |name: &str| both[name].as_f64().unwrap_or(f64::NAN);
    let one_way_ns = ONE_WAY.as_nanos() as f64;
    let path_ns = ns("there_ns") + ns("back_ns");
    check(path_ns >= 2.0 * one_way_ns, || both.to_string())?;
    // No clock of one computer is ahead of itself.
    let is_even =
        (ns("there_ns") - path_ns / 2.0).abs() <= ns("between_ns") + path_ns / 2.0 - one_way_ns;
    check(is_even && ns("ahead_ns").abs() <= ns("between_ns"), || {
        both.to_string()
    })
}

/// Whether a capture that is cut in two files, in whatever order they are named, and one that comes through standard input tell
/// what it tells whole.
fn is_same_in_pieces(file: &Path) -> Result<(), String> {
    let whole = explained(file)?;
    let bytes = std::fs::read(file).map_err(text)?;
    let (header, mut rest) = bytes.split_at(24);
    let mut records = Vec::new();
    while rest.len() > 16 {
        let length = u32::from_le_bytes([rest[8], rest[9], rest[10], rest[11]]) as usize;
        let (record, behind) = rest.split_at(16 + length);
        records.push(record);
        rest = behind;
    }
    let (first, second) = records.split_at(records.len() / 2);
    let piece = |name: &str, records: &[&[u8]]| {
        let path = file.with_file_name(name);
        let piece = [header, &records.concat()].concat();
        std::fs::write(&path, piece).map_err(text).map(|()| path)
    };
    let pieces = [piece("second", second)?, piece("first", first)?];
    let of_pieces = explained_from(Command::new(WANSAN).arg("explain").args(&pieces))?;
    check(of_pieces == whole, || {
        format!("two files tell {of_pieces:#}\ninstead of {whole:#}")
    })?;
    let input = std::fs::File::open(file).map_err(text)?;
    let mut command = Command::new(WANSAN);
    let streamed = explained_from(command.args(["explain", "-"]).stdin(input))?;
    check(streamed == whole, || {
        format!("standard input tells {streamed:#}\ninstead of {whole:#}")
    })
}

/// Whether one capture has what another has.
fn is_alike(case: &Case, taken: &Taken, told: &Value, own: &Value) -> Result<(), String> {
    check(told["end"]["how"] == "whole", || told["end"].to_string())?;
    let number = |of: &Value, at: &str| of.pointer(at).and_then(Value::as_f64).unwrap_or(-1.0);
    let ios = [told, own].map(|of| number(of, "/summary/total/ios"));
    let is_cut_off = taken.options.contains(&"-s");
    let hidden = number(told, "/connections/0/hidden");
    if is_cut_off && hidden > 0.0 {
        // Where a frame has several PDUs, the first alone shows, and each time that some do not is said.
        // No more commands share a frame than are under way side by side.
        let commands = [told, own].map(|of| number(of, "/connections/0/pdus/SCSI Command"));
        let explained = commands[1] - (case.parallel - 1.0) * hidden;
        let least = explained.max(commands[1] / case.parallel);
        return check((least..=commands[1]).contains(&commands[0]), || {
            format!("{commands:?} commands")
        });
    }
    check(ios[0] > 0.0 && ios[0] == ios[1] && hidden == 0.0, || {
        format!("{ios:?} I/Os, {hidden} times hidden")
    })?;
    let trips = [told, own].map(|of| {
        number(of, "/connections/0/initiator_round_trip_ns")
            + number(of, "/connections/0/target_round_trip_ns")
    });
    check((trips[0] / trips[1] - 1.0).abs() < 0.15, || {
        format!("{trips:?} ns of least round trip")
    })?;
    let stalls = [told, own].map(|of| &of["summary"]["stalls"]);
    let causes = stalls.map(|of| &of["cause"]);
    check(causes[0] == causes[1], || format!("{causes:?}"))?;
    // Where the machine holds packets up, an end may tell what the middle of the path cannot.
    let [found, due] = stalls.map(|of| of_cause(of, case.cause, "stalls"));
    let most = match case.lost.len() {
        0 => ios[1],
        lost => lost as f64,
    };
    check((0.8 * due..=most).contains(&found), || {
        format!("{found} stalls of {due}")
    })?;
    let costs = stalls.map(|of| of_cause(of, case.cause, "cost_ns"));
    let [cost, due] = [costs[0] / found, costs[1] / due];
    check(
        case.cause == "none" || (cost / due - 1.0).abs() < 0.2,
        || format!("{cost} of {due} ns in each I/O for each stall"),
    )?;
    // What was lost on the path behind it was sent twice there.
    let lost = case.lost.len() as f64;
    let again = number(told, "/connections/0/sent_again/1");
    let is_seen = if taken.is_before {
        again >= lost
    } else {
        again >= 0.0
    };
    check(is_seen, || format!("{again} sent again, of {lost}"))
}

/// A number of the stalls of that cause.
fn of_cause(stalls: &Value, cause: &str, number: &str) -> f64 {
    let causes = stalls["causes"].as_array().into_iter().flatten();
    let of_it = causes.filter(|of| of["cause"] == cause);
    of_it.map(|of| of[number].as_f64().unwrap_or(0.0)).sum()
}

fn explained(file: &Path) -> Result<Value, String> {
    explained_from(Command::new(WANSAN).arg("explain").arg(file))
}

fn explained_from(command: &mut Command) -> Result<Value, String> {
    let output = command
        .arg("--json")
        .output()
        .map_err(|error| error.to_string())?;
    check(output.status.success(), || {
        String::from_utf8_lossy(&output.stderr).into_owned()
    })?;
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

fn settings() -> TcpSettings {
    TcpSettings {
        congestion_control: "cubic".to_owned(),
        rmem_bytes: [4_096, 131_072, 6_291_456],
        wmem_bytes: [4_096, 16_384, 4_194_304],
        ecn: false,
    }
}

/// Runs a case, and leaves all captures in `folder`.
fn run(case: &Case, folder: &Path) -> Result<(), String> {
    let topology = Topology::flat(&["storage", "client"], &settings(), 1500);
    let world = World::build(&topology).map_err(text)?;
    let (emulator, own) = emulate(&world, case, &folder.join("emulator.pcapng"))?;
    let [storage, client] = world.nodes() else {
        return Err("two hosts".to_owned());
    };
    let mut captures = Vec::new();
    for taken in &CAPTURES {
        captures.push(begin(&world, taken, folder)?);
    }
    let portal = format!("{}:3260", storage.address());
    let mut target = Command::new(WANSAN);
    target.args([
        "target",
        "--json",
        "--listen",
        &portal,
        "--lun",
        "memory:16MiB",
    ]);
    target
        .args(["--name", "iqn.2026-11.net.example:it"])
        .args(case.target.split_whitespace());
    let mut target = storage.start("the target", target).map_err(text)?;
    target.line("listen", LONG).map_err(text)?;
    let mut bench = Command::new(WANSAN);
    bench.args([
        "bench",
        &format!("iscsi://{portal}/iqn.2026-11.net.example:it/0"),
    ]);
    bench.arg("--json").args(case.bench.split_whitespace());
    let bench = client.start("the bench", bench).map_err(text)?;
    bench.succeed(LONG).map_err(text)?;
    target.terminate();
    target.end(LONG).map_err(text)?;
    for capture in captures {
        capture.terminate();
        let said = capture.succeed(LONG).map_err(text)?;
        let is_whole = said
            .iter()
            .any(|line| line == "0 packets dropped by kernel");
        check(is_whole, || format!("tcpdump: {said:?}"))?;
    }
    emulator.stop().map_err(text)?;
    own.end().map_err(text)
}

/// Starts the emulator, which captures what leaves the path.
fn emulate(world: &World, case: &Case, file: &Path) -> Result<(Emulator, Capture), String> {
    let (capture, taps) = Capture::begin(file, &["forward", "back"], "Frames").map_err(text)?;
    let listed = Listed::new(case.lost.to_vec()).map_err(text)?;
    let forward = Effects {
        delay: ONE_WAY,
        queue_limit: Limit::bytes(16 << 20),
        ..Effects::default()
    };
    let back = Effects {
        loss: LossModel::Listed(listed),
        ..forward.clone()
    };
    let ways = [("forward", &forward), ("back", &back)]
        .into_iter()
        .zip(taps);
    let directions: Result<Vec<Direction>, String> = ways
        .map(|((name, effects), tap)| {
            let chain = effects.chain(1).map_err(text)?;
            Ok(Direction {
                tap: Some(tap),
                ..Direction::new(name, chain)
            })
        })
        .collect();
    let interfaces = world.nodes().iter().flat_map(|node| node.interfaces());
    let route = |from, to, direction| Route {
        from,
        to,
        direction,
    };
    let config = Config {
        ports: interfaces.filter_map(Interface::port).collect(),
        directions: directions?,
        routes: vec![route(1, 0, 0), route(0, 1, 1)],
        mtu_bytes: 1500,
        sample_interval: Duration::from_millis(100),
        recorder: Recorder::new(Kinds::NONE, 0),
    };
    let emulator = Emulator::start(world.wan().handle(), config).map_err(text)?;
    Ok((emulator, capture))
}

/// A tcpdump that captures.
fn begin(world: &World, taken: &Taken, folder: &Path) -> Result<Process, String> {
    let tcpdump = find("tcpdump").map_err(text)?;
    let mut command = Command::new("sh");
    // It speaks on its standard error, and in a user namespace it cannot become another user.
    command
        .args(["-c", "exec \"$@\" 2>&1", "sh"])
        .arg(tcpdump)
        // Its usual buffer of 2 MiB holds a few frames of the greatest length only, as it reckons them.
        .args(["-Z", "root", "-n", "--immediate-mode", "-B", "65536", "-w"])
        .arg(folder.join(taken.file))
        .args(taken.options)
        .args(["tcp", "port", "3260"]);
    let host = world.node(taken.host).ok_or("no such host")?;
    let mut process = host.start(taken.file, command).map_err(text)?;
    let mut said = Vec::new();
    loop {
        match process.line("listen", LONG) {
            Ok(line) if line.contains("listening on") => return Ok(process),
            Ok(line) => said.push(line),
            Err(error) => return Err(format!("{error}: {}", said.join("; "))),
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
