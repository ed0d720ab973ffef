//! Disks that are reserved for the host that has attached them, seen from another initiator.

use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::Instant;

use libtest_mimic::Trial;
use tempfile::TempDir;
use wansan_nbd::client::Command as NbdCommand;
use wansan_peers::process::free_address;
use wansan_peers::tgtd::Tgtd;
use wansan_peers::trial::{Stop, require, trial};
use wansan_peers::wansan::Attach;

use crate::faults::kill;
use crate::peer::{
    OTHER, OWN, Peer, REGISTER, ROUTES, await_listed, must_write, reserves_until_it_ends, writes,
};
use crate::program::Program;
use crate::stage::{DISK_BYTES, LIMIT, Stage, WANSAN, pattern, relay, wansan};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a reserved disk is registered over each route", each_route),
        trial(
            "a disk is reserved again at a target that was restarted",
            target_restarts,
        ),
        trial("a disk that another host has is refused", refused),
        trial("a disk is taken over from a host", taken_over),
        trial(
            "a host whose key was removed while it was away stays away",
            taken_over_meanwhile,
        ),
        trial(
            "of two hosts that attach a disk at once one has it at most",
            at_once,
        ),
        trial("a killed attach is followed by another", killed),
        trial(
            "keys of routes that are down are removed",
            detached_with_a_route_down,
        ),
        trial("a disk of tgtd is reserved", tgtd),
    ]
}

/// Has many writes open all the time, until one fails; then all that are open are answered, too, though the target has
/// aborted some.
pub(crate) fn write_until_refused(socket: &str) -> Result<(), Stop> {
    const OPEN: u64 = 16;
    const BYTES: u64 = 64 << 10;
    let mut program = Program::connect(socket)?;
    let data = pattern(BYTES, 7);
    let began = Instant::now();
    let mut is_refused = false;
    let mut number = 0;
    loop {
        while !is_refused && (program.open() as u64) < OPEN {
            let write = NbdCommand::Write {
                offset_bytes: number % OPEN * BYTES,
                data: &data,
                fua: false,
            };
            program.submit(write, number)?;
            number += 1;
        }
        match program.answer() {
            Ok(_) => {}
            Err(Stop::Failed(why)) if why.contains("not permitted") => is_refused = true,
            Err(stop) => return Err(stop),
        }
        if is_refused && program.open() == 0 {
            return Ok(());
        }
        require(began.elapsed() < LIMIT, || "it is never refused".to_owned())?;
    }
}

fn each_route() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let mut peer = Peer::connect(&stage.target.url(0))?;
    let way = free_address()?.to_string();
    let before = relay(&way, stage.target.address())?;
    let attach = stage.attach(&[&way, "--multipath", "--reservation-key", OWN])?;
    peer.has_keys(&ROUTES[..2])?;
    peer.is_kept_off(true)?;
    must_write(&attach)?;
    drop(before);
    await_listed(&attach, "1 of 2 connections", true)?;
    must_write(&attach)?;
    // What the route that is away had registered is lost meanwhile.
    peer.reserve_out((REGISTER, 0), [0, 0xa])?;
    peer.preempt(0xa, 0xa)?;
    must_write(&attach)?;
    peer.reserve_out((REGISTER, 0), [0xa, 0])?;
    peer.has_keys(&[0xa])?;
    let _after = relay(&way, stage.target.address())?;
    await_listed(&attach, "1 of 2 connections", false)?;
    peer.await_keys(&ROUTES[..2])?;
    peer.is_kept_off(true)?;
    must_write(&attach)?;
    require(!attach.log().contains("registered with the disk"), || {
        format!("it takes itself for another: {}", attach.log())
    })?;
    require(attach.stop()?.success(), || "attach failed".to_owned())?;
    peer.has_keys(&[])?;
    peer.is_kept_off(false)
}

/// Without any registration left there, each route and the one of a single session registers.
fn target_restarts() -> Result<(), Stop> {
    for (routes, keys) in [
        (&[][..], &[0xa][..]),
        (&["--multipath", "--connections", "2"], &ROUTES[..2]),
    ] {
        let stage = Stage::new()?;
        let reserve = ["--write-through", "--reservation-key", OWN];
        let attach = stage.attach(&[routes, &reserve].concat())?;
        must_write(&attach)?;
        let (portal, folder) = (stage.target.address().to_owned(), stage.folder);
        kill(stage.target.id())?;
        drop(stage.target);
        let target = Stage::serve(folder.path(), &portal)?;
        reserves_until_it_ends(attach, &target.url(0), keys)?;
    }
    Ok(())
}

fn refused() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let url = stage.target.url(0);
    let mut peer = Peer::connect(&url)?;
    let attach = stage.attach(&["--reservation-key", OWN])?;
    let other = ["attach", &url, "--nbd", "127.0.0.1:0"];
    let refuse = |more: &[&str], says: &str| {
        let refused = wansan(&[&other[..], more].concat())?;
        require(refused.status.code() == Some(2), || refused.output())?;
        require(refused.stderr.contains(says), || refused.output())?;
        let lines = refused.stderr.trim().lines().count();
        require(lines == 1, || refused.output())
    };
    let multipath = ["--multipath", "--connections", "2"];
    for routes in [&[][..], &multipath] {
        let key = ["--reservation-key", OTHER];
        refuse(
            &[routes, &key].concat(),
            "registered key 0xa; detach it there, or use --preempt",
        )?;
        peer.has_keys(&[0xa])?;
    }
    must_write(&attach)?;
    require(attach.stop()?.success(), || "attach failed".to_owned())?;
    // What else does not go, and that nothing of it is left.
    let journal = stage.path("journal");
    std::fs::write(&journal, pattern(64 << 10, 1))?;
    let journal = journal.display().to_string();
    let with_journal = ["--reservation-key", OTHER, "--journal", &journal];
    refuse(&with_journal, "it is no journal")?;
    peer.has_keys(&[])?;
    refuse(&["--preempt"], "`preempt` needs `reservation_key`")?;
    refuse(&["--reservation-key", "0"], "is no reservation key")?;
    let one_session = ["--connections", "2", "--reservation-key", OTHER];
    refuse(&one_session, "add `multipath`")
}

fn taken_over() -> Result<(), Stop> {
    let multipath = ["--write-through", "--multipath", "--connections", "2"];
    for way in [&["--write-through"][..], &multipath, &["--journal"]] {
        let stage = Stage::new()?;
        let mut peer = Peer::connect(&stage.target.url(0))?;
        let mut arguments = [way, &[]].concat();
        let journal = stage.path("journal").display().to_string();
        if way == ["--journal"] {
            arguments.push(&journal);
        }
        arguments.extend(["--reservation-key", OWN]);
        let first = stage.attach(&arguments)?;
        must_write(&first)?;
        let second = thread::scope(|scope| {
            let writer = scope.spawn(|| write_until_refused(first.socket()));
            let second = stage.attach(&["--preempt", "--reservation-key", OTHER]);
            let written = writer.join();
            written.map_err(|_| Stop::Failed("the writer panicked".to_owned()))??;
            second
        })?;
        peer.has_keys(&[0xb])?;
        await_listed(&first, "preempted", true)?;
        require(!writes(&first)?, || "both can write".to_owned())?;
        let says = "another host has taken LUN 0 over: key 0xb is registered, 0xa is not any more";
        require(first.log().contains(says), || first.log())?;
        must_write(&second)?;
        // It leaves without touching what the other one has.
        let detached = wansan(&["attach", "detach", &format!("unix:{}", first.socket())])?;
        let is_kept = way == ["--journal"];
        require(detached.status.success() == is_kept, || detached.output())?;
        drop(first);
        peer.has_keys(&[0xb])?;
        peer.is_kept_off(true)?;
        must_write(&second)?;
    }
    Ok(())
}

/// The first host's only route is cut while the second one takes the disk over, and comes back.
fn taken_over_meanwhile() -> Result<(), Stop> {
    // Recovered, and lost and replaced by a new session; also if the second host has left by then.
    for (timeout, leaves) in [("120s", false), ("0s", false), ("120s", true)] {
        let stage = Stage::new()?;
        let mut peer = Peer::connect(&stage.target.url(0))?;
        let way = free_address()?.to_string();
        let before = relay(&way, stage.target.address())?;
        let url = stage.target.url(0).replace(stage.target.address(), &way);
        let arguments = ["--reservation-key", OWN, "--replacement-timeout", timeout];
        let first = Attach::start(Path::new(WANSAN), &url, &arguments)?;
        must_write(&first)?;
        drop(before);
        await_listed(&first, "0 of 1 connections", true)?;
        let second = stage.attach(&["--preempt", "--reservation-key", OTHER])?;
        peer.has_keys(&[0xb])?;
        let leave = |second: Attach| {
            must_write(&second)?;
            require(second.stop()?.success(), || "attach failed".to_owned())
        };
        let mut second = Some(second);
        if leaves {
            second.take().map_or(Ok(()), leave)?;
        }
        let _after = relay(&way, stage.target.address())?;
        await_listed(&first, "preempted", true)?;
        require(!writes(&first)?, || "both can write".to_owned())?;
        peer.has_keys(if leaves { &[] } else { &[0xb] })?;
        second.take().map_or(Ok(()), leave)?;
        // Nobody has it now, and nobody takes it unasked.
        require(!writes(&first)?, || "it came back by itself".to_owned())?;
        peer.has_keys(&[])?;
    }
    Ok(())
}

fn at_once() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let mut peer = Peer::connect(&stage.target.url(0))?;
    let leave = |attach: Attach| {
        must_write(&attach)?;
        require(attach.stop()?.success(), || "attach failed".to_owned())
    };
    for _ in 0..32 {
        let attached = thread::scope(|scope| {
            let attach = |key: &'static str| {
                let stage = &stage;
                scope.spawn(move || stage.attach(&["--reservation-key", key]))
            };
            let both = [attach(OWN), attach(OTHER)];
            both.map(|attached| attached.join())
        });
        let mut winner = None;
        for attached in attached.into_iter().flatten() {
            match attached {
                Ok(attach) => {
                    let before = winner.replace(attach);
                    require(before.is_none(), || "both have it".to_owned())?;
                }
                Err(Stop::Failed(why)) if why.contains("which has registered key 0x") => {}
                Err(stop) => return Err(stop),
            }
        }
        let keys = peer.keys()?;
        require(keys.len() == usize::from(winner.is_some()), || {
            format!("{keys:x?}")
        })?;
        // Where each has seen the other, nothing of both is left.
        let has_it = winner.map_or_else(|| stage.attach(&["--reservation-key", OWN]), Ok);
        leave(has_it?)?;
        peer.has_keys(&[])?;
    }
    Ok(())
}

fn killed() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let url = stage.target.url(0);
    let mut peer = Peer::connect(&url)?;
    let socket = stage.path("socket");
    let attach = |routes: &[&str]| {
        let arguments = [&["--reservation-key", OWN], routes].concat();
        Attach::start_at(Path::new(WANSAN), &url, &socket, &arguments)
    };
    for (before, after, keys) in [(1, 1, &[0xa][..]), (3, 1, &[0xa]), (1, 3, &ROUTES)] {
        let routes = |count: u32| ["--multipath".to_owned(), format!("--connections={count}")];
        let [before, after] = [before, after].map(routes);
        let first = attach(&before.each_ref().map(String::as_str))?;
        kill(first.id())?;
        drop(first);
        require(!peer.keys()?.is_empty(), || "no key is left".to_owned())?;
        peer.is_kept_off(true)?;
        // What other sessions have left is removed, and no more than that.
        let again = attach(&after.each_ref().map(String::as_str))?;
        must_write(&again)?;
        peer.has_keys(keys)?;
        kill(again.id())?;
        drop(again);
        // Without any of it the next one registers anew.
        peer.reserve_out((REGISTER, 0), [0, 0xc])?;
        peer.preempt(0xc, 0xa)?;
        peer.reserve_out((REGISTER, 0), [0xc, 0])?;
        let again = attach(&after.each_ref().map(String::as_str))?;
        peer.has_keys(keys)?;
        peer.is_kept_off(true)?;
        require(again.stop()?.success(), || "attach failed".to_owned())?;
        peer.has_keys(&[])?;
    }
    Ok(())
}

fn detached_with_a_route_down() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let mut peer = Peer::connect(&stage.target.url(0))?;
    let way = free_address()?.to_string();
    let attached = || {
        let relay = relay(&way, stage.target.address())?;
        let attach = stage.attach(&[&way, "--multipath", "--reservation-key", OWN])?;
        drop(relay);
        await_listed(&attach, "1 of 2 connections", true)?;
        Ok::<_, Stop>(attach)
    };
    let attach = attached()?;
    peer.has_keys(&ROUTES[..2])?;
    require(attach.stop()?.success(), || "attach failed".to_owned())?;
    peer.has_keys(&[])?;
    // Another host's key is not removed with them.
    let attach = attached()?;
    peer.reserve_out((REGISTER, 0), [0, 0xc])?;
    require(attach.stop()?.success(), || "attach failed".to_owned())?;
    peer.has_keys(&[0xc])
}

fn tgtd() -> Result<(), Stop> {
    let folder = TempDir::with_prefix("wansan-test-attach-")?;
    let disk = folder.path().join("disk.img");
    File::create(&disk)?.set_len(DISK_BYTES)?;
    let tgtd = Tgtd::start(&disk)?;
    let mut peer = Peer::connect(&tgtd.url())?;
    let attach = |arguments: &[&str]| Attach::start(Path::new(WANSAN), &tgtd.url(), arguments);
    let both = [
        "--multipath",
        "--connections",
        "2",
        "--reservation-key",
        OWN,
    ];
    let first = attach(&both)?;
    peer.has_keys(&ROUTES[..2])?;
    peer.is_kept_off(true)?;
    must_write(&first)?;
    let second = attach(&["--preempt", "--reservation-key", OTHER])?;
    peer.has_keys(&[0xb])?;
    await_listed(&first, "preempted", true)?;
    require(!writes(&first)?, || "both can write".to_owned())?;
    must_write(&second)?;
    require(second.stop()?.success(), || "attach failed".to_owned())?;
    peer.has_keys(&[])?;
    peer.is_kept_off(false)?;
    // What a killed one has left over more routes is removed, and a registration that is lost is renewed.
    let killed = attach(&both)?;
    kill(killed.id())?;
    drop(killed);
    let again = attach(&["--reservation-key", OWN])?;
    peer.has_keys(&[0xa])?;
    peer.reserve_out((REGISTER, 0), [0, 0xa])?;
    peer.preempt(0xa, 0xa)?;
    must_write(&again)?;
    peer.reserve_out((REGISTER, 0), [0xa, 0])?;
    peer.has_keys(&[0xa])?;
    require(again.stop()?.success(), || "attach failed".to_owned())?;
    peer.has_keys(&[])
}
