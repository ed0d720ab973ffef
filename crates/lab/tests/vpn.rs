//! Real tunnels between routers of real worlds, as root and as an ordinary user, with a spy on the path between them
//! that sees every packet.
//!
//! Every test reruns this program in a role of its own. A test whose prerequisites the machine lacks counts as ignored,
//! with the reason.

#[path = "vpn/scene.rs"]
mod scene;
#[path = "vpn/spy.rs"]
mod spy;

use std::collections::BTreeSet;
use std::fs;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed};
use wansan_arms::holder::{is_alive, is_inhabited, network_of, until_killed, wait_until};
use wansan_arms::{Arm, ROLE, arms, end};
use wansan_lab::vpn::{self, Cipher, Kind, VpnError};
use wansan_lab::world::isolate;

use scene::{FIRST_PORTS, OTHER_PORTS, Scene};
use spy::Seen;

const KINDS: [Kind; 4] = [
    Kind::WireGuard,
    Kind::Ipsec(Cipher::AesGcm),
    Kind::Ipsec(Cipher::AesCbc),
    Kind::Ipsec(Cipher::TripleDes),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        // The lab starts `wansan wireguard` this way.
        ["wireguard"] => {
            let Err(error) = wansan_wireguard::run(std::io::stdin(), std::io::stdout());
            return end(Err(error.to_string()));
        }
        [ROLE, role, kind] => return end(play(role, kind)),
        _ => {}
    }
    let arguments = Arguments::from_args();
    let ipsec = vpn::check(&[Kind::Ipsec(Cipher::AesGcm)]).err();
    if let Some(reason) = &ipsec {
        eprintln!("not run with IPsec: {reason}");
    }
    let mut trials = Vec::new();
    for arm in arms(|arm| arm.plays(&["isolate", "none"])) {
        for kind in KINDS {
            let lacks = ipsec.is_some() && kind != Kind::WireGuard;
            let tests: [(&str, Test); 5] = [
                ("what a tunnel carries is not to be read", |arm, kind| {
                    arm.plays(&["carry", kind.cipher_name()])
                }),
                ("two tunnels are told apart by port", |arm, kind| {
                    arm.plays(&["ports", kind.cipher_name()])
                }),
                ("a VPN that dies is named", |arm, kind| {
                    arm.plays(&["death", kind.cipher_name()])
                }),
                ("nobody waits for a tunnel in vain", |arm, kind| {
                    arm.plays(&["stop", kind.cipher_name()])
                }),
                ("a killed lab leaves nothing of its tunnels", leaves_nothing),
            ];
            for (name, test) in tests {
                // WireGuard knows only addresses.
                if name.contains("by port") && kind == Kind::WireGuard {
                    continue;
                }
                let name = format!("{name}, {}", kind.cipher_name());
                let trial = arm.tunnel_trial(name, move || test(arm, kind));
                trials.push(if lacks {
                    trial.with_ignored_flag(true)
                } else {
                    trial
                });
            }
        }
        let open = move || arm.plays(&["open", "none"]);
        trials.push(arm.trial("without a tunnel all is read", open));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

type Test = fn(Arm, Kind) -> Result<(), Failed>;

/// The programs and network namespaces of a killed lab disappear.
fn leaves_nothing(arm: Arm, kind: Kind) -> Result<(), Failed> {
    let before = files_of_strongswan();
    let (mut lab, programs) = arm.holds(&["hold", kind.cipher_name()])?;
    if programs.len() != 2 {
        return Err(format!("two routers have the programs {programs:?}").into());
    }
    let networks: Vec<_> = programs
        .iter()
        .map(|id| network_of(*id))
        .collect::<Result<_, _>>()?;
    lab.kill()?;
    lab.wait()?;
    let gone = || {
        let alive = programs.iter().any(|id| is_alive(*id));
        !alive && !networks.iter().any(|network| is_inhabited(network))
    };
    wait_until(gone, "programs or namespaces outlived their lab")?;
    if files_of_strongswan() == before {
        Ok(())
    } else {
        Err("files of charon are left in /run".into())
    }
}

/// charon's files in /run.
fn files_of_strongswan() -> BTreeSet<String> {
    let entries = fs::read_dir("/run").into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains("charon") || name.contains("strongswan"))
        .collect()
}

fn play(role: &str, kind: &str) -> Result<(), String> {
    isolate().map_err(|error| error.to_string())?;
    if role == "isolate" {
        return Ok(());
    }
    let kind = KINDS.into_iter().find(|known| known.cipher_name() == kind);
    let scene = Scene::build()?;
    match (role, kind) {
        ("carry", Some(kind)) => carry(&scene, kind),
        ("ports", Some(kind)) => ports(&scene, kind),
        ("death", Some(kind)) => death(&scene, kind),
        ("stop", Some(kind)) => stop(&scene, kind),
        ("open", None) => open(&scene),
        ("hold", Some(kind)) => {
            let _tunnels = scene.tunnels(kind, &[("only", None)])?;
            until_killed(&programs()?)
        }
        _ => Err(format!("no role `{role}`")),
    }
}

fn check(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

/// This process's child programs.
fn programs() -> Result<Vec<u32>, String> {
    let mut programs = Vec::new();
    let tasks = fs::read_dir("/proc/self/task").map_err(|error| error.to_string())?;
    for task in tasks.flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        programs.extend(
            children
                .split_ascii_whitespace()
                .flat_map(str::parse::<u32>),
        );
    }
    Ok(programs)
}

/// Without a tunnel the spy reads everything, which proves that it could in the other tests.
fn open(scene: &Scene) -> Result<(), String> {
    scene.lead_around_tunnels()?;
    let seen = scene.spied(|| scene.transfer(*FIRST_PORTS.start()))?;
    check(seen.tcp_packets > 10, &format!("no TCP was seen: {seen:?}"))?;
    check(seen.readable, "the spy did not find what nobody hid")
}

fn carry(scene: &Scene, kind: Kind) -> Result<(), String> {
    let mut tunnels = scene.tunnels(kind, &[("only", None)])?;
    let tunnel = tunnels.tunnels()[0].clone();
    check(
        tunnel.mtu_bytes == kind.mtu_bytes(1500),
        "the MTU is another than was foretold",
    )?;
    let from_ns = wansan_trace::clock::now().ns();
    tunnels.sample().map_err(|error| error.to_string())?;
    let seen = scene.spied(|| scene.transfer(*FIRST_PORTS.start()))?;
    tunnels.sample().map_err(|error| error.to_string())?;
    check(!seen.readable, "the spy could read what was sent")?;
    check(
        seen.tcp_packets == 0 && seen.other_packets == 0,
        &format!("not only the tunnel's packets are on the path: {seen:?}"),
    )?;
    check(
        seen.udp_packets > 1000 && seen.fragments == 0,
        &format!("packets are missing or in fragments: {seen:?}"),
    )?;
    check(
        seen.longest_bytes <= 1500
            && seen.longest_bytes as u32 >= tunnel.mtu_bytes + tunnel.overhead_bytes - 16,
        &format!("{tunnel:?}, but the longest packet is: {seen:?}"),
    )?;
    let usage = tunnels
        .end()
        .usage(from_ns, wansan_trace::clock::now().ns());
    let of = |name: &str| usage.iter().find(|usage| usage.router == name);
    let (Some(near), Some(far)) = (of("near"), of("far")) else {
        return Err(format!("a router is missing: {usage:?}"));
    };
    let carried = scene::TRANSFER_BYTES as u64;
    for (usage, bytes) in [(near, near.sent_bytes), (far, far.received_bytes)] {
        check(
            bytes > carried && usage.cpu_ns > 0 && usage.cpu_s_per_gib.is_some(),
            &format!("what was carried does not show: {usage:?}"),
        )?;
    }
    Ok(())
}

/// Two IPsec tunnels with the same addresses: each carries the traffic of its ports.
fn ports(scene: &Scene, kind: Kind) -> Result<(), String> {
    let specs = [("first", Some(FIRST_PORTS)), ("other", Some(OTHER_PORTS))];
    let _tunnels = scene.tunnels(kind, &specs)?;
    let first = scene.spied(|| scene.transfer(*FIRST_PORTS.start()))?;
    let other = scene.spied(|| scene.transfer(*OTHER_PORTS.start()))?;
    // The last segments of a connection may come while the next transfer is watched.
    let carriers = |seen: &Seen| {
        let most = seen.associations.values().max().copied().unwrap_or(0);
        let carriers = seen
            .associations
            .iter()
            .filter(|(_, packets)| **packets * 100 >= most);
        carriers
            .map(|(association, _)| *association)
            .collect::<BTreeSet<_>>()
    };
    let carried_by_first = carriers(&first);
    check(
        !carried_by_first.is_empty() && carried_by_first.is_disjoint(&carriers(&other)),
        &format!(
            "both take the security associations {:?} and {:?}",
            first.associations, other.associations
        ),
    )?;
    check(
        scene
            .connect(OTHER_PORTS.end() + 1, Duration::from_secs(1))
            .is_err(),
        "a connection from a port of neither tunnel came through",
    )
}

/// Setting `stop` during a handshake returns without waiting for its timeout.
fn stop(scene: &Scene, kind: Kind) -> Result<(), String> {
    scene.cut()?;
    let stop = AtomicBool::new(false);
    let started = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(2));
            stop.store(true, Ordering::Relaxed);
        });
        scene.start(kind, &[("only", None)], &stop)
    });
    match started {
        Err(VpnError::Interrupted) => Ok(()),
        other => Err(format!(
            "{:?}",
            other.map(|tunnels| tunnels.tunnels().to_vec())
        )),
    }
}

fn death(scene: &Scene, kind: Kind) -> Result<(), String> {
    let mut tunnels = scene.tunnels(kind, &[("only", None)])?;
    tunnels.sample().map_err(|error| error.to_string())?;
    let program = programs()?[0];
    let id = rustix::process::Pid::from_raw(program as i32).ok_or("no process id")?;
    rustix::process::kill_process(id, rustix::process::Signal::KILL)
        .map_err(|error| error.to_string())?;
    let mut told = None;
    wait_until(
        || {
            told = tunnels.sample().err();
            told.is_some()
        },
        "nobody noticed that a VPN had died",
    )?;
    match told {
        Some(VpnError::Program(error)) => {
            let line = error.to_string();
            check(
                line.contains("of router `") && line.contains("SIGKILL") && !line.contains('\n'),
                &line,
            )
        }
        other => Err(format!("{other:?}")),
    }
}
