//! What goes wrong below an attached disk, and beside it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use wansan_peers::process::{free_address, run};
use wansan_peers::program::find;
use wansan_peers::trial::{Stop, require, trial};
use wansan_peers::wansan::{Attach, Target};

use crate::program::Program;
use crate::stage::{LIMIT, Stage, WANSAN, pattern, peer, relay, wansan};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial(
            "an attached disk waits while its target restarts",
            target_restarts,
        ),
        trial(
            "a disk goes on while one of its routes is lost",
            route_is_lost,
        ),
        trial(
            "requests fail when the target stays away, and succeed when it is back",
            target_stays_away,
        ),
        trial(
            "what was acknowledged is at the disk when attach ends",
            ends,
        ),
        trial(
            "a journal survives kills of attach and of the target",
            journal,
        ),
        trial(
            "a journal takes writes while the target is away",
            journal_alone,
        ),
        trial("a foreign or torn journal is refused", journal_refused),
        trial(
            "a socket is served once, and a stale one is replaced",
            socket,
        ),
        trial("what cannot be attached is told in one line", refusals),
        trial("clients that send garbage do no harm", garbage),
    ]
}

/// The target is killed while a program writes, and comes back at the same place.
fn target_restarts() -> Result<(), Stop> {
    let multipath = ["--multipath", "--connections", "2"];
    for way in [&["--write-through"][..], &[], &multipath] {
        let stage = Stage::new()?;
        let attach = stage.attach(way)?;
        let image = stage.path("image");
        let data = pattern(32 << 20, 3);
        fs::write(&image, &data)?;
        let qemu = find("qemu-img")?;
        let (uri, image) = (attach.uri(), image.display().to_string());
        let copy = thread::spawn(move || {
            // A slow copy: it is not over when the target goes.
            let arguments = [
                "convert", "-n", "-r", "8M", "-f", "raw", "-O", "raw", &image, &uri,
            ];
            run(Command::new(qemu).args(arguments), LIMIT)
        });
        thread::sleep(Duration::from_millis(1500));
        let (portal, folder) = (stage.target.address().to_owned(), stage.folder);
        kill(stage.target.id())?;
        drop(stage.target);
        thread::sleep(Duration::from_millis(500));
        let target = Stage::serve(folder.path(), &portal)?;
        let copied = copy
            .join()
            .map_err(|_| Stop::Failed("the copy panicked".to_owned()))?;
        copied?.success()?;
        require(attach.stop()?.success(), || "attach failed".to_owned())?;
        let disk = fs::read(folder.path().join("disk.img"))?;
        require(disk[..data.len()] == data, || {
            format!("{way:?}: the target has other data")
        })?;
        drop(target);
    }
    Ok(())
}

/// One of two routes, through a relay, is lost between writes, and comes back.
fn route_is_lost() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let way = free_address()?.to_string();
    let target = stage.target.address().to_owned();
    let before = relay(&way, &target)?;
    let attach = stage.attach(&[&way, "--multipath", "--write-through"])?;
    let uri = attach.uri();
    let write = |value: u8, at_mib: u64| {
        let write = format!("write -P {value} {at_mib}M 4M");
        let said = peer("qemu-io", &["-f", "raw", "-c", &write, &uri])?;
        require(said.contains("4194304/4194304"), || said.clone())
    };
    // The list of all attached disks has this one's line.
    let until_listed = |what: &str, is_there: bool| {
        let began = Instant::now();
        loop {
            let listed = wansan(&["attach", "list"])?.success()?.output();
            let own = listed.lines().find(|line| line.contains(attach.socket()));
            if own.is_some_and(|line| line.contains(what) == is_there) {
                return Ok::<_, Stop>(());
            }
            require(began.elapsed() < LIMIT, || {
                format!("{listed}{}", attach.log())
            })?;
            thread::sleep(Duration::from_millis(50));
        }
    };
    until_listed("1 of 2 connections", false)?;
    write(1, 0)?;
    drop(before);
    write(2, 4)?;
    until_listed("1 of 2 connections", true)?;
    write(3, 8)?;
    let after = relay(&way, &target)?;
    until_listed("1 of 2 connections", false)?;
    write(4, 0)?;
    // One that stands still is noticed while nothing is under way, and used again when it goes on.
    signal(after.id(), Signal::STOP)?;
    until_listed("1 of 2 connections", true)?;
    signal(after.id(), Signal::CONT)?;
    until_listed("1 of 2 connections", false)?;
    require(
        attach.log().contains(&format!("route {way} is lost")),
        || attach.log(),
    )?;
    require(attach.log().contains(&format!("route {way} is up")), || {
        attach.log()
    })?;
    require(attach.stop()?.success(), || "attach failed".to_owned())?;
    let disk = stage.disk()?;
    for (value, at) in [(4, 0), (2, 4 << 20), (3, 8 << 20)] {
        let is_right = disk[at..at + (4 << 20)].iter().all(|byte| *byte == value);
        require(is_right, || format!("not all of {value} is at the disk"))?;
    }
    Ok(())
}

fn target_stays_away() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let attach = stage.attach(&["--write-through", "--replacement-timeout", "1s"])?;
    let uri = attach.uri();
    let read = ["-f", "raw", "-c", "read 0 4k", &uri];
    peer("qemu-io", &read)?;
    let (portal, folder) = (stage.target.address().to_owned(), stage.folder);
    kill(stage.target.id())?;
    drop(stage.target);
    let qemu = find("qemu-io")?;
    let failed = run(Command::new(&qemu).args(read), LIMIT)?;
    require(failed.output().contains("error"), || failed.output())?;
    let _target = Stage::serve(folder.path(), &portal)?;
    let began = Instant::now();
    loop {
        let again = run(Command::new(&qemu).args(read), LIMIT)?;
        if again.output().contains("4096/4096") {
            break;
        }
        require(began.elapsed() < LIMIT, || {
            format!("it does not come back: {}", attach.log())
        })?;
    }
    require(attach.log().contains("the session is back"), || {
        attach.log()
    })
}

/// Kills a program that the test started, and waits until it has let go of its ports and files. Its exit status is
/// left to be collected.
pub(crate) fn kill(id: u32) -> Result<(), Stop> {
    signal(id, Signal::KILL)?;
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pid(id)?), ended).map_err(|errno| Stop::Failed(errno.to_string()))?;
    Ok(())
}

/// Has it do nothing until it is to go on.
pub(crate) fn freeze(id: u32) -> Result<(), Stop> {
    signal(id, Signal::STOP)
}

pub(crate) fn thaw(id: u32) -> Result<(), Stop> {
    signal(id, Signal::CONT)
}

/// Asks it to end, a second time to end at once.
pub(crate) fn terminate(id: u32) -> Result<(), Stop> {
    signal(id, Signal::TERM)
}

fn signal(id: u32, signal: Signal) -> Result<(), Stop> {
    kill_process(pid(id)?, signal).map_err(|errno| Stop::Failed(errno.to_string()))
}

fn pid(id: u32) -> Result<Pid, Stop> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    id.ok_or(Stop::Failed("no process id".to_owned()))
}

fn ends() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let attach = stage.attach(&[])?;
    // Without a flush.
    let commands = ["-f", "raw", "-t", "unsafe", "-c", "write -P 9 1M 8M"];
    peer("qemu-io", &[&commands[..], &[&attach.uri()]].concat())?;
    require(attach.stop()?.success(), || "attach failed".to_owned())?;
    let disk = stage.disk()?;
    require(disk[1 << 20..9 << 20].iter().all(|byte| *byte == 9), || {
        "data are lost".to_owned()
    })
}

fn socket() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let attach = stage.attach(&[])?;
    let place = format!("unix:{}", attach.socket());
    let second = wansan(&["attach", &stage.target.url(0), "--nbd", &place])?;
    require(second.status.code() == Some(2), || second.output())?;
    require(second.stderr.contains("a program serves at"), || {
        second.output()
    })?;
    // Whoever only looks is not worth a line.
    for _ in 0..20 {
        drop(std::os::unix::net::UnixStream::connect(attach.socket())?);
    }
    Program::connect(attach.socket())?.read(0, 4096)?;
    require(!attach.log().contains("ended"), || attach.log())?;
    // A crash leaves the socket.
    let own = stage.path("own");
    let own_place = format!("unix:{}", own.display());
    for _ in 0..2 {
        let mut child = Command::new(WANSAN)
            .args(["attach", &stage.target.url(0), "--nbd", &own_place])
            .stdout(std::process::Stdio::piped())
            .spawn()?;
        let began = Instant::now();
        while std::os::unix::net::UnixStream::connect(&own).is_err() {
            require(began.elapsed() < LIMIT, || "it does not serve".to_owned())?;
            thread::sleep(Duration::from_millis(10));
        }
        child.kill()?;
        child.wait()?;
        require(own.exists(), || "the socket has gone".to_owned())?;
    }
    Ok(())
}

fn refusals() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let file = stage.path("file");
    fs::write(&file, "x")?;
    let url = stage.target.url(0);
    let file = format!("unix:{}", file.display());
    for (arguments, says) in [
        (vec!["attach", &url], "--nbd"),
        (
            vec!["attach", &url, "--nbd", "nowhere"],
            "neither unix:PATH nor ADDRESS:PORT",
        ),
        (
            vec!["attach", &url, "--nbd", &file],
            "the file is no socket",
        ),
        (
            vec!["attach", &stage.target.url(7), "--nbd", "127.0.0.1:0"],
            "LUN 7",
        ),
        (
            vec![
                "attach",
                "iscsi://127.0.0.1:1/iqn.2026-01.net.example:x/0",
                "--nbd",
                "127.0.0.1:0",
            ],
            "refused",
        ),
        (
            vec![
                "attach",
                &url,
                "--nbd",
                "127.0.0.1:0",
                "--write-through",
                "--write-behind",
                "1MiB",
            ],
            "--write-behind",
        ),
        (
            vec![
                "attach",
                &url,
                "--nbd",
                "127.0.0.1:0",
                "--journal-size",
                "1GiB",
            ],
            "`journal_size` needs `journal`",
        ),
    ] {
        let refused = wansan(&arguments)?;
        require(refused.status.code() == Some(2), || refused.output())?;
        require(refused.stderr.contains(says), || {
            format!("no `{says}` in {}", refused.output())
        })?;
        require(refused.stderr.trim().lines().count() == 1, || {
            refused.output()
        })?;
    }
    Ok(())
}

fn garbage() -> Result<(), Stop> {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    let stage = Stage::new()?;
    let attach = stage.attach(&[])?;
    for seed in 0..50 {
        let mut client = UnixStream::connect(attach.socket())?;
        client.set_read_timeout(Some(LIMIT))?;
        // The server may close before all is written.
        let _ = client.write_all(&pattern(64 << 10, seed));
        let _ = client.read(&mut [0; 1024]);
    }
    let said = peer("qemu-io", &["-f", "raw", "-c", "read 0 4k", &attach.uri()])?;
    require(said.contains("4096/4096"), || said.clone())?;
    require(attach.log().lines().count() < 100, || {
        "the log is flooded".to_owned()
    })
}

/// A program writes and flushes; attach is killed now and then, and the target as well. What was flushed is there.
fn journal() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let journal = stage.path("journal").display().to_string();
    let way = ["--journal", &journal, "--journal-size", "64MiB"];
    let (portal, url) = (stage.target.address().to_owned(), stage.target.url(0));
    let (folder, mut target) = (stage.folder, Some(stage.target));
    let mut expected = vec![0; 4 << 20];
    for round in 0..12_u8 {
        let attach = Attach::start(Path::new(WANSAN), &url, &way)?;
        // What was flushed before is there, from the journal or from the target.
        let read = folder.path().join("read");
        let (from, to) = (
            format!("if={}", attach.uri()),
            format!("of={}", read.display()),
        );
        let dd = ["dd", "-f", "raw", "-O", "raw", "bs=1M", "count=4"];
        peer("qemu-img", &[&dd[..], &[&from, &to]].concat())?;
        let is_right = fs::read(&read)? == expected;
        require(is_right, || {
            format!("round {round}: flushed data are lost: {}", attach.log())
        })?;
        let value = round + 1;
        for place in 0..8_usize {
            let at = (usize::from(round) * 7 + place * 13) % 60 * (64 << 10);
            let write = format!("write -P {value} {at} 64k");
            let qemu = ["-f", "raw", "-t", "none", "-c", &write, "-c", "flush"];
            peer("qemu-io", &[&qemu[..], &[&attach.uri()]].concat())?;
            expected[at..at + (64 << 10)].fill(value);
        }
        if round % 3 == 2
            && let Some(gone) = target.take()
        {
            kill(gone.id())?;
            drop(gone);
        }
        kill(attach.id())?;
        drop(attach);
        if target.is_none() {
            target = Some(Stage::serve(folder.path(), &portal)?);
        }
    }
    // Detached, all of it is at the target.
    let attach = Attach::start(Path::new(WANSAN), &url, &way)?;
    wansan(&["attach", "detach", &url])?.success()?;
    drop(attach);
    let disk = fs::read(folder.path().join("disk.img"))?;
    require(disk[..expected.len()] == expected, || {
        "the target has other data".to_owned()
    })
}

fn journal_alone() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let journal = stage.path("journal").display().to_string();
    let attach = stage.attach(&["--journal", &journal, "--replacement-timeout", "1s"])?;
    let portal = stage.target.address().to_owned();
    kill(stage.target.id())?;
    let (folder, gone) = (stage.folder, stage.target);
    drop(gone);
    let began = Instant::now();
    while !attach.log().contains("the session is lost") {
        require(began.elapsed() < LIMIT, || attach.log())?;
        thread::sleep(Duration::from_millis(50));
    }
    let write = ["write -P 5 1M 1M", "flush", "read -P 5 1M 1M"];
    let mut arguments = vec!["-f", "raw", "-t", "none"];
    write
        .iter()
        .for_each(|command| arguments.extend(["-c", command]));
    let uri = attach.uri();
    arguments.push(&uri);
    let said = peer("qemu-io", &arguments)?;
    require(!said.contains("failed"), || said.clone())?;
    let _target = Stage::serve(folder.path(), &portal)?;
    loop {
        let disk = fs::read(folder.path().join("disk.img"))?;
        if disk[1 << 20..2 << 20].iter().all(|byte| *byte == 5) {
            return Ok(());
        }
        require(began.elapsed() < LIMIT, || {
            format!("it never gets there: {}", attach.log())
        })?;
        thread::sleep(Duration::from_millis(50));
    }
}

fn journal_refused() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let (torn, own) = (stage.path("torn"), stage.path("own"));
    fs::write(&torn, pattern(64 << 10, 1))?;
    let (torn, own) = (torn.display().to_string(), own.display().to_string());
    let url = stage.target.url(0);
    let refuse = |url: &str, journal: &str, says: &str| {
        let arguments = ["attach", url, "--nbd", "127.0.0.1:0", "--journal", journal];
        let refused = wansan(&arguments)?;
        require(refused.status.code() == Some(2), || refused.output())?;
        require(refused.stderr.contains(says), || {
            format!("no `{says}` in {}", refused.output())
        })
    };
    refuse(&url, &torn, "it is no journal")?;
    for bytes in [0, 100] {
        let short = stage.path("short");
        fs::write(&short, pattern(bytes, 1))?;
        refuse(&url, &short.display().to_string(), "it is no journal")?;
    }
    let attach = stage.attach(&["--journal", &own])?;
    refuse(&url, &own, "another process uses it")?;
    require(attach.stop()?.success(), || "attach failed".to_owned())?;
    let other = stage.path("other.img");
    fs::File::create(&other)?.set_len(32 << 20)?;
    let lun = format!("file:{}", other.display());
    let other = Target::start(Path::new(WANSAN), &["--lun", &lun])?;
    refuse(&other.url(0), &own, "it belongs to another disk")
}
