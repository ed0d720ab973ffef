//! What goes wrong below an attached disk, and beside it.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use wansan_peers::process::run;
use wansan_peers::program::find;
use wansan_peers::trial::{Stop, require, trial};

use crate::stage::{LIMIT, Stage, WANSAN, pattern, peer, wansan};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial(
            "an attached disk waits while its target restarts",
            target_restarts,
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
            "a socket is served once, and a stale one is replaced",
            socket,
        ),
        trial("what cannot be attached is told in one line", refusals),
        trial("clients that send garbage do no harm", garbage),
    ]
}

/// The target is killed while a program writes, and comes back at the same place.
fn target_restarts() -> Result<(), Stop> {
    for way in [&["--write-through"][..], &[]] {
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

fn kill(id: u32) -> Result<(), Stop> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    let id = id.ok_or(Stop::Failed("no process id".to_owned()))?;
    kill_process(id, Signal::KILL).map_err(|errno| Stop::Failed(errno.to_string()))
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
