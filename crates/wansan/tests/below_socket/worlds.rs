//! Worlds in which it is known where the time goes: on a quiet path, before a congestion window, before a
//! receive window, and under Nagle's algorithm.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use libtest_mimic::Failed;
use wansan_arms::{Arm, open_to_all};
use wansan_insight::below::{self, Leg, Split, Splits, splits};
use wansan_insight::{Cell, Window};
use wansan_schema::BelowSocket;

use crate::{WANSAN, adds_up, one_end, read};

/// One way, in each of the worlds. Send buffers are large where a window is to bind: what waits for it
/// then waits there, and not in the program for room.
const DELAY_NS: u64 = 20_000_000;

/// A world, and what is known of its I/Os.
pub(crate) struct World {
    pub(crate) name: &'static str,
    /// What its plan has beside what all have: of the initiator, and of the path and all behind it.
    initiator: &'static str,
    plan: &'static str,
    check: fn(&Splits, &BelowSocket) -> Result<(), String>,
}

pub(crate) static WORLDS: [World; 9] = [
    World {
        name: "reads on a quiet path",
        initiator: "",
        plan: "delay = \"20ms\"\n[workload]\nop = \"read\"\nblock = \"4KiB\"\nparallel = 4\n",
        check: quiet,
    },
    World {
        name: "writes with R2Ts and digests on a quiet path",
        initiator: "",
        plan: "delay = \"20ms\"\n[session]\nheader_digest = \"always\"\ndata_digest = \"always\"\n\
               initial_r2t = true\nimmediate_data = false\n\
               [workload]\nop = \"write\"\nblock = \"16KiB\"\nparallel = 2\n",
        check: asked_for,
    },
    World {
        name: "answers before a congestion window",
        initiator: "",
        plan: "delay = \"20ms\"\nrate = \"1Gbit/s\"\nqueue = \"4MiB\"\nloss = \"0.2%\"\n\
               [tcp]\ncongestion_control = \"reno\"\nwmem = [\"4KiB\", \"8MiB\", \"8MiB\"]\n\
               [workload]\nop = \"read\"\nblock = \"64KiB\"\nparallel = 32\n",
        check: congested,
    },
    World {
        name: "answers before a receive window",
        initiator: "",
        plan: "delay = \"20ms\"\nrate = \"1Gbit/s\"\nqueue = \"4MiB\"\n\
               [tcp]\nrmem = [\"4KiB\", \"64KiB\", \"64KiB\"]\nwmem = [\"4KiB\", \"8MiB\", \"8MiB\"]\n\
               [workload]\nop = \"read\"\nblock = \"64KiB\"\nparallel = 32\n",
        check: no_receive_window,
    },
    World {
        name: "answers for which a small send buffer has no room",
        initiator: "",
        plan: "delay = \"20ms\"\nrate = \"1Gbit/s\"\nqueue = \"4MiB\"\n\
               [tcp]\nwmem = [\"4KiB\", \"64KiB\", \"64KiB\"]\n\
               [workload]\nop = \"read\"\nblock = \"64KiB\"\nparallel = 32\n",
        check: small_buffer,
    },
    World {
        name: "answers for which a buffer before a receive window has no room",
        initiator: "",
        plan: "delay = \"20ms\"\nrate = \"1Gbit/s\"\nqueue = \"4MiB\"\n\
               [tcp]\nrmem = [\"4KiB\", \"64KiB\", \"64KiB\"]\nwmem = [\"4KiB\", \"512KiB\", \"512KiB\"]\n\
               [workload]\nop = \"read\"\nblock = \"64KiB\"\nparallel = 32\n",
        check: buffer_before_a_window,
    },
    World {
        name: "answers that Nagle's algorithm holds",
        initiator: "",
        plan: "delay = \"20ms\"\n[target]\nhost = \"storage\"\nluns = [\"memory:64MiB\"]\n\
               nagle = true\nstatus = \"separate\"\njoin_sends = false\n\
               [workload]\nop = \"read\"\nblock = \"8KiB\"\nparallel = 1\n",
        check: held_by_nagle,
    },
    World {
        name: "reads over two connections",
        initiator: "connections = 2\n",
        plan: "delay = \"20ms\"\n[workload]\nop = \"read\"\nblock = \"4KiB\"\nparallel = 8\n",
        check: quiet,
    },
    World {
        name: "writes at error recovery level 0",
        initiator: "",
        plan: "delay = \"20ms\"\n[session]\nerror_recovery_level = 0\n\
               [workload]\nop = \"write\"\nblock = \"4KiB\"\nparallel = 4\n",
        check: quiet,
    },
];

/// Whether an arm can run worlds at all.
pub(crate) fn attempt(arm: Arm) -> Result<(), Failed> {
    run(&WORLDS[0], arm).map(drop)
}

/// Runs a world, in which every I/O has to be split, and the shares have to be what is known of it.
pub(crate) fn is_split(world: &World, arm: Arm) -> Result<(), Failed> {
    let (cell, window) = run(world, arm)?;
    let splits = splits(&cell, window).ok_or("no stamps were recorded")?;
    let below = below::below_socket(&cell, window).ok_or("nothing was split")?;
    each_adds_up(&splits)?;
    let of_target = one_end::tells_the_same(&cell, &splits)?;
    let told = format!("{}: {}", world.name, below::sentence(&below));
    println!("{told}");
    // The target, which answers, can tell by itself what its answers wait for.
    let of_target_below = below::from_splits(&of_target, below.stamps.clone());
    (world.check)(&splits, &below)
        .and_then(|()| (world.check)(&of_target, &of_target_below))
        .map_err(|wrong| format!("{wrong}\n{told}").into())
}

/// Runs a world; its records, and when it was measured.
fn run(world: &World, arm: Arm) -> Result<(Cell, Window), Failed> {
    let scratch = tempfile::tempdir()?;
    open_to_all(scratch.path())?;
    let plan = scratch.path().join("plan.toml");
    let target = "[target]\nhost = \"storage\"\nluns = [\"memory:64MiB\"]\n";
    let target = if world.plan.contains("[target]") {
        ""
    } else {
        target
    };
    let text = format!(
        "title = \"{}\"\nseed = 5\n[[host]]\nname = \"storage\"\n[[host]]\nname = \"client\"\n\
         [trace]\nkinds = [\"io\", \"pdu\", \"tcp\", \"stamp\"]\n{target}\
         [[initiator]]\nhost = \"client\"\n{}[[path]]\nbetween = [\"client\", \"storage\"]\n\
         {}warmup = \"1s\"\ntime = \"1s\"\n",
        world.name, world.initiator, world.plan
    );
    fs::write(&plan, text)?;
    let runs = scratch.path().join("runs");
    let output = arm
        .command(WANSAN)
        .args([OsStr::new("lab"), OsStr::new("run"), plan.as_os_str()])
        .arg("--out")
        .arg(&runs)
        .output()?;
    if !output.status.success() {
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        return Err(String::from_utf8_lossy(&text).into_owned().into());
    }
    let told = String::from_utf8_lossy(&output.stdout);
    if !told.contains("by the kernel's stamps of") {
        return Err(format!("the run does not say where the time went: {told}").into());
    }
    let (cell, window) = read(&only(&only(&runs)?)?)?;
    Ok((cell, window.ok_or("the run has no window")?))
}

/// The only folder in a folder.
fn only(folder: &Path) -> Result<std::path::PathBuf, Failed> {
    let mut entries = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let found = entries.find(|path| path.is_dir() && !path.is_symlink());
    found.ok_or_else(|| format!("{} is empty", folder.display()).into())
}

/// What is so of every I/O of every world: its parts are its latency within a hundredth, and it was on
/// the path for as long as its round trips take.
fn each_adds_up(splits: &Splits) -> Result<(), Failed> {
    if splits.told.is_empty() || !splits.untold.is_empty() {
        return Err(format!("{} split, left out {:?}", splits.told.len(), splits.untold).into());
    }
    for split in &splits.told {
        adds_up(split)?;
        let trips_ns = u64::from(split.round_trips) * DELAY_NS;
        let least_ns = (trips_ns - trips_ns / 100).saturating_sub(split.uncertain_ns);
        let was_on_the_path = |leg_ns: u64| leg_ns >= least_ns;
        let was_on_both =
            was_on_the_path(split.to_target.path_ns) && was_on_the_path(split.to_initiator.path_ns);
        if !was_on_both {
            return Err(format!("{split:?}").into());
        }
    }
    Ok(())
}

/// What half of the I/Os have more of, and half have less.
fn median(splits: &Splits, part: fn(&Split) -> u64) -> u64 {
    let mut parts: Vec<u64> = splits.told.iter().map(part).collect();
    let middle = parts.len() / 2;
    *parts.select_nth_unstable(middle).1
}

/// The part of all time in the target's send buffer that answers waited there for one reason.
fn share(splits: &Splits, part: fn(&Leg) -> u64) -> f64 {
    let legs = || splits.told.iter().map(|split| &split.to_initiator);
    let all = |leg: &Leg| leg.cwnd_ns + leg.rwnd_ns + leg.nagle_ns + leg.other_ns;
    legs().map(part).sum::<u64>() as f64 / legs().map(all).sum::<u64>() as f64
}

/// Answers wait mostly for one reason, and half of the I/Os wait for it for a round trip or so.
fn binds(
    name: &str,
    splits: &Splits,
    of_leg: fn(&Leg) -> u64,
    of_io: fn(&Split) -> u64,
) -> Result<(), String> {
    let (share, median_ns) = (share(splits, of_leg), median(splits, of_io));
    if share >= 0.8 && median_ns >= DELAY_NS {
        return Ok(());
    }
    Err(format!(
        "{name}: {share:.3} of the time in the send buffer, {median_ns} ns"
    ))
}

/// Nothing waits for a window.
fn quiet(splits: &Splits, below: &BelowSocket) -> Result<(), String> {
    if (below.round_trips - 1.0).abs() > 1e-9 {
        return Err(format!("{} round trips", below.round_trips));
    }
    nothing_binds(splits)
}

fn asked_for(splits: &Splits, below: &BelowSocket) -> Result<(), String> {
    if (below.round_trips - 2.0).abs() > 1e-9 {
        return Err(format!("{} round trips", below.round_trips));
    }
    nothing_binds(splits)
}

fn nothing_binds(splits: &Splits) -> Result<(), String> {
    let windows = |leg: &Leg| leg.cwnd_ns + leg.rwnd_ns + leg.nagle_ns;
    let held = splits
        .told
        .iter()
        .filter(|split| windows(&split.to_target) + windows(&split.to_initiator) > DELAY_NS);
    match held.count() * 20 <= splits.told.len() {
        true => Ok(()),
        false => Err("more than one I/O in twenty waits for a window".to_owned()),
    }
}

fn congested(splits: &Splits, _: &BelowSocket) -> Result<(), String> {
    let of_io = |split: &Split| split.to_initiator.cwnd_ns;
    binds("the congestion window", splits, |leg| leg.cwnd_ns, of_io)
}

fn no_receive_window(splits: &Splits, _: &BelowSocket) -> Result<(), String> {
    let of_io = |split: &Split| split.to_initiator.rwnd_ns;
    binds("the receive window", splits, |leg| leg.rwnd_ns, of_io)
}

/// Answers wait for room, and mostly for one reason.
fn has_no_room(name: &str, splits: &Splits, part: fn(&Leg) -> u64) -> Result<(), String> {
    let legs = || splits.told.iter().map(|split| &split.to_initiator);
    let all: u64 = legs().map(|leg| leg.no_room_ns).sum();
    let of_it: u64 = legs().map(part).sum();
    let median_ns = median(splits, |split| split.to_initiator.no_room_ns);
    let share = of_it as f64 / all as f64;
    if share >= 0.8 && median_ns >= DELAY_NS {
        return Ok(());
    }
    Err(format!(
        "{name}: {share:.3} of the time without room, {median_ns} ns"
    ))
}

fn small_buffer(splits: &Splits, _: &BelowSocket) -> Result<(), String> {
    has_no_room("the buffer", splits, |leg| leg.no_room_buffer_ns)
}

fn buffer_before_a_window(splits: &Splits, _: &BelowSocket) -> Result<(), String> {
    has_no_room("the window", splits, |leg| leg.no_room_rwnd_ns)
}

/// The status waits for the acknowledgement of the data.
fn held_by_nagle(splits: &Splits, _: &BelowSocket) -> Result<(), String> {
    let of_io = |split: &Split| split.to_initiator.nagle_ns;
    binds("Nagle's algorithm", splits, |leg| leg.nagle_ns, of_io)
}
