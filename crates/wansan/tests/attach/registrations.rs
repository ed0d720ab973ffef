//! Registrations of an attached disk that are lost, left behind, refused or of no use, seen from another initiator.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use wansan_iscsi::scsi::HostKey;
use wansan_peers::process::{Running, free_address};
use wansan_peers::trial::{Stop, require, trial};
use wansan_peers::wansan::{Attach, Target};

use crate::faults::{freeze, kill, terminate, thaw};
use crate::peer::{
    OWN, PREEMPT, Peer, REGISTER, RESERVE, ROUTES, await_listed, must_write,
    reserves_until_it_ends, writes,
};
use crate::stage::{LIMIT, Stage, WANSAN, relay, wansan};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a session that lost its registration registers again", lost),
        trial(
            "the key of a session that was lost while it registered proves nothing",
            unsure,
        ),
        trial("registrations outlive a loss of power", persistent),
        trial(
            "registrations that do not outlive it are made again",
            volatile,
        ),
        trial(
            "another disk in the place of a reserved one is left alone",
            another_disk,
        ),
        trial(
            "nothing is registered for a disk that was given up",
            given_up,
        ),
        trial("a key that stays behind is reported", left_behind),
        trial(
            "the keys of a route that stands still are removed over another",
            stands_still,
        ),
        trial(
            "a session that is not registered itself removes the keys of others",
            unregistered,
        ),
        trial(
            "a key that another initiator uses as well is refused",
            same_key,
        ),
        trial("a reservation of any type is taken over", types),
        trial(
            "a portal that has no address does not keep the others off",
            no_address,
        ),
    ]
}

/// All sessions, over one route and over two, while the host's key is still there with another nexus.
fn lost() -> Result<(), Stop> {
    for (routes, keys) in [
        (&[][..], &[0xa][..]),
        (&["--multipath", "--connections", "2"], &ROUTES[..2]),
    ] {
        let stage = Stage::new()?;
        let mut peer = Peer::connect(&stage.target.url(0))?;
        let attach =
            stage.attach(&[routes, &["--write-through", "--reservation-key", OWN]].concat())?;
        must_write(&attach)?;
        peer.reserve_out((REGISTER, 0), [0, 0xa])?;
        let all = [&[0xa], keys].concat();
        for _ in 0..3 {
            // A route registers a provisional key first. Listed, but replaced meanwhile, it cannot be preempted.
            peer.await_keys(&all)?;
            peer.preempt(0xa, 0xa)?;
            must_write(&attach)?;
        }
        peer.await_keys(&all)?;
        peer.reserve_out((REGISTER, 0), [0xa, 0])?;
        peer.is_kept_off(true)?;
        must_write(&attach)?;
        require(attach.stop()?.success(), || "attach failed".to_owned())?;
        peer.has_keys(&[])?;
    }
    Ok(())
}

/// Another host has removed the disk's keys; that which a route left in the same moment does not let it back.
fn unsure() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let mut peer = Peer::connect(&stage.target.url(0))?;
    let multipath = ["--write-through", "--multipath", "--connections", "2"];
    let attach = stage.attach(&[&multipath[..], &["--reservation-key", OWN]].concat())?;
    must_write(&attach)?;
    let left = HostKey::unsure(0xa);
    peer.reserve_out((REGISTER, 0), [0, left])?;
    // All registrants but this one, at once.
    peer.reserve_out((PREEMPT, 7), [left, 0])?;
    await_listed(&attach, "preempted", true)?;
    require(!writes(&attach)?, || "it is let back".to_owned())?;
    peer.has_keys(&[left])
}

fn persistent() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let attach = stage.attach(&[
        "--multipath",
        "--connections",
        "2",
        "--reservation-key",
        OWN,
    ])?;
    let mut peer = Peer::connect(&stage.target.url(0))?;
    require(peer.persists()?, || {
        "registrations do not persist".to_owned()
    })?;
    // Host and target lose their power.
    kill(attach.id())?;
    let (portal, folder) = (stage.target.address().to_owned(), stage.folder);
    kill(stage.target.id())?;
    drop((attach, stage.target));
    let target = Stage::serve(folder.path(), &portal)?;
    let mut peer = Peer::connect(&target.url(0))?;
    peer.has_keys(&ROUTES[..2])?;
    peer.is_kept_off(true)?;
    let attach = Attach::start(
        Path::new(WANSAN),
        &target.url(0),
        &["--reservation-key", OWN],
    )?;
    peer.has_keys(&[0xa])?;
    require(peer.persists()?, || {
        "registrations persist no more".to_owned()
    })?;
    require(attach.stop()?.success(), || "attach failed".to_owned())?;
    peer.has_keys(&[])
}

/// A target of a disk in memory, which forgets all with its end.
fn forgetful(portal: &str) -> Result<Target, Stop> {
    Ok(Target::start_at(
        Path::new(WANSAN),
        portal,
        &["--lun", "memory:64MiB"],
    )?)
}

/// Without any registration left there, each route and the one of a single session registers.
fn volatile() -> Result<(), Stop> {
    for (routes, keys) in [
        (&[][..], &[0xa][..]),
        (&["--multipath", "--connections", "2"], &ROUTES[..2]),
    ] {
        let portal = free_address()?.to_string();
        let target = forgetful(&portal)?;
        let arguments = [routes, &["--write-through", "--reservation-key", OWN]].concat();
        let attach = Attach::start(Path::new(WANSAN), &target.url(0), &arguments)?;
        must_write(&attach)?;
        require(!Peer::connect(&target.url(0))?.persists()?, || {
            "it is no such target".to_owned()
        })?;
        kill(target.id())?;
        drop(target);
        let target = forgetful(&portal)?;
        reserves_until_it_ends(attach, &target.url(0), keys)?;
    }
    Ok(())
}

fn another_disk() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let attach = stage.attach(&["--replacement-timeout", "0s", "--reservation-key", OWN])?;
    must_write(&attach)?;
    let portal = stage.target.address().to_owned();
    kill(stage.target.id())?;
    drop(stage.target);
    let folder = tempfile::tempdir()?;
    File::create(folder.path().join("disk.img"))?.set_len(8 << 20)?;
    let target = Stage::serve(folder.path(), &portal)?;
    await_log(&attach, "size")?;
    let mut peer = Peer::connect(&target.url(0))?;
    let generation = peer.generation()?;
    require(generation == 0, || {
        format!("{generation} changes of registrations")
    })?;
    peer.has_keys(&[])
}

fn await_log(attach: &Attach, says: &str) -> Result<(), Stop> {
    let began = Instant::now();
    while !attach.log().contains(says) {
        require(began.elapsed() < LIMIT, || {
            format!("no `{says}`: {}", attach.log())
        })?;
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A disk is given up while a login to it is under way; the process goes on for as long as another disk does not answer.
fn given_up() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let portal = free_address()?.to_string();
    let target = forgetful(&portal)?;
    let way = free_address()?.to_string();
    let relay = relay(&way, &portal)?;
    let url = target.url(0).replace(&portal, &way);
    let file = stage.path("attach.toml");
    let disk = |url: &str, name: &str, more: &str| {
        let socket = stage.path(name);
        format!(
            "[[disk]]\nurl = \"{url}\"\nnbd = \"unix:{}\"\n{more}\n",
            socket.display()
        )
    };
    let reserved = "replacement_timeout = \"0s\"\nreservation_key = \"0xa\"";
    let disks = disk(&stage.target.url(0), "other", "") + &disk(&url, "reserved", reserved);
    fs::write(&file, disks)?;
    let mut command = Command::new(WANSAN);
    command.args(["attach", "--config"]).arg(&file);
    let attach = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
    let stands = |expected: &str| {
        let began = Instant::now();
        loop {
            let listed = wansan(&["attach", "list", "--json"])?.stdout;
            let own = listed.lines().find(|line| line.contains(&way));
            if own.is_some_and(|own| own.contains(expected)) {
                return Ok::<_, Stop>(());
            }
            require(began.elapsed() < LIMIT, || {
                format!("not {expected}: {own:?}")
            })?;
            thread::sleep(Duration::from_millis(20));
        }
    };
    stands("\"connected\"")?;
    Peer::connect(&target.url(0))?.has_keys(&[0xa])?;
    kill(target.id())?;
    drop(target);
    stands("\"lost\"")?;
    freeze(relay.id())?;
    let target = forgetful(&portal)?;
    // Longer than from one attempt to the next.
    thread::sleep(Duration::from_secs(5));
    freeze(stage.target.id())?;
    for _ in 0..3 {
        terminate(attach.id())?;
        thread::sleep(Duration::from_millis(300));
    }
    thaw(relay.id())?;
    // The login has long been over by then.
    thread::sleep(Duration::from_secs(2));
    let mut peer = Peer::connect(&target.url(0))?;
    let generation = peer.generation()?;
    thaw(stage.target.id())?;
    require(generation == 0, || {
        format!("{generation} changes of registrations")
    })?;
    peer.has_keys(&[])
}

fn left_behind() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let way = free_address()?.to_string();
    let relay = relay(&way, stage.target.address())?;
    let url = stage.target.url(0).replace(stage.target.address(), &way);
    let attach = Attach::start(Path::new(WANSAN), &url, &["--reservation-key", OWN])?;
    drop(relay);
    await_listed(&attach, "0 of 1 connections", true)?;
    let says = "key 0xa may still be registered with LUN 0";
    let began = Instant::now();
    while !attach.log().contains(says) {
        // What it has to flush is given up.
        terminate(attach.id())?;
        require(began.elapsed() < LIMIT, || attach.log())?;
        thread::sleep(Duration::from_millis(100));
    }
    Peer::connect(&stage.target.url(0))?.has_keys(&[0xa])
}

/// Of two that are up, and of two beside one that is down.
fn stands_still() -> Result<(), Stop> {
    for is_one_down in [false, true] {
        let stage = Stage::new()?;
        let mut peer = Peer::connect(&stage.target.url(0))?;
        let [still, down] = [free_address()?.to_string(), free_address()?.to_string()];
        let stands = relay(&still, stage.target.address())?;
        let ends = relay(&down, stage.target.address())?;
        // The first one, as the first is asked to remove what others have left.
        let url = stage.target.url(0).replace(stage.target.address(), &still);
        let routes = [stage.target.address(), &down, "--multipath"];
        let own = ["--write-through", "--reservation-key", OWN];
        let attach = Attach::start(Path::new(WANSAN), &url, &[&routes[..], &own].concat())?;
        peer.has_keys(&ROUTES)?;
        if is_one_down {
            drop(ends);
            await_listed(&attach, "2 of 3 connections", true)?;
        }
        freeze(stands.id())?;
        require(attach.stop()?.success(), || "attach failed".to_owned())?;
        // What it has kept of the way must not arrive.
        kill(stands.id())?;
        peer.has_keys(&[])?;
    }
    Ok(())
}

/// The peer takes the nexus of the route that is down, and removes the key of the one that is up.
fn unregistered() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let url = stage.target.url(0);
    let way = free_address()?.to_string();
    let relay = relay(&way, stage.target.address())?;
    let attach = stage.attach(&[
        &way,
        "--multipath",
        "--write-through",
        "--reservation-key",
        OWN,
    ])?;
    let mut peer = Peer::connect(&url)?;
    let ports = peer.ports()?;
    require(ports.len() == 2, || format!("{ports:?}"))?;
    drop(relay);
    await_listed(&attach, "1 of 2 connections", true)?;
    let (name, isid) = &ports[1];
    let mut second = Peer::connect_as(&url, name, *isid)?;
    second.reserve_out((PREEMPT, 7), [ROUTES[1], 0xa])?;
    let left = peer.ports()?;
    require(left == ports[1..], || format!("{left:?}"))?;
    require(attach.stop()?.success(), || "attach failed".to_owned())?;
    peer.has_keys(&[])
}

fn same_key() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let url = stage.target.url(0);
    let mut peer = Peer::connect(&url)?;
    peer.reserve_out((REGISTER, 0), [0, 0xa])?;
    for more in [&[][..], &["--preempt"]] {
        let attach = [
            "attach",
            &url,
            "--nbd",
            "127.0.0.1:0",
            "--reservation-key",
            OWN,
        ];
        let refused = wansan(&[&attach[..], more].concat())?;
        require(refused.status.code() == Some(2), || refused.output())?;
        let says = "iqn.2026-01.net.example:peer uses reservation key 0xa";
        require(refused.stderr.contains(says), || refused.output())?;
        require(refused.stderr.trim().lines().count() == 1, || {
            refused.output()
        })?;
        peer.has_keys(&[0xa])?;
    }
    Ok(())
}

fn types() -> Result<(), Stop> {
    for kind in [1, 3, 5, 6, 7, 8] {
        let stage = Stage::new()?;
        let mut peer = Peer::connect(&stage.target.url(0))?;
        peer.reserve_out((REGISTER, 0), [0, 0xc])?;
        peer.reserve_out((RESERVE, kind), [0xc, 0])?;
        require(stage.attach(&["--reservation-key", OWN]).is_err(), || {
            "it was not refused".to_owned()
        })?;
        peer.has_keys(&[0xc])?;
        let multipath = ["--multipath", "--connections", "2"];
        let attach =
            stage.attach(&[&multipath[..], &["--preempt", "--reservation-key", OWN]].concat())?;
        peer.has_keys(&ROUTES[..2])?;
        let held = peer.reservation_type()?;
        require(held == 7, || format!("type {held} after {kind}"))?;
        must_write(&attach)?;
        peer.is_kept_off(true)?;
        require(attach.stop()?.success(), || "attach failed".to_owned())?;
        peer.has_keys(&[])?;
    }
    Ok(())
}

fn no_address() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let nowhere = ["nobody.invalid", "--multipath"];
    let attach = stage.attach(&[&nowhere[..], &["--reservation-key", OWN]].concat())?;
    must_write(&attach)?;
    await_listed(&attach, "1 of 2 connections", true)?;
    await_log(&attach, "route nobody.invalid:3260 cannot be used")?;
    let alone = [
        "attach",
        "iscsi://nobody.invalid/iqn.2026-01.net.example:x/0",
        "--nbd",
        "127.0.0.1:0",
    ];
    let refused = wansan(&[&alone[..], &["--multipath", "--connections", "2"]].concat())?;
    require(refused.status.code() == Some(2), || refused.output())
}
