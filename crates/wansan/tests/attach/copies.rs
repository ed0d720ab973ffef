//! `wansan copy`: from anywhere to anywhere.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use wansan_iscsi::scsi::opcode;
use wansan_peers::trial::{Stop, require, trial};

use crate::stage::{DISK_BYTES, LIMIT, Stage, WANSAN, pattern, peer, wansan};
use crate::way::{self, Change};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial(
            "copies between files, disks and NBD are verified",
            everywhere,
        ),
        trial("copies keep holes", holes),
        trial("what ends in zeros or between blocks is copied", odd_ends),
        trial(
            "nothing is copied to itself, or resumed to another file",
            traps,
        ),
        trial("standard input and output are copied", streams),
        trial("an interrupted copy is resumed", resumed),
        trial("a copy of something else is not resumed", not_resumed),
        trial("a copy that differs is made again as a whole", differs),
        trial("a bandwidth bounds a copy", bandwidth),
        trial("copies that cannot be are told in one line", refusals),
        trial(
            "standard input that is longer than the disk is refused",
            longer,
        ),
        trial("a file is the destination of one copy at a time", at_once),
        trial(
            "a copy shows how far it is, how fast, and the time left",
            progress,
        ),
        trial("a copy has as much under way as the path needs", parallel),
    ]
}

fn copy(from: &str, to: &str, more: &[&str]) -> Result<serde_json::Value, Stop> {
    let finished = wansan(&[&["copy", from, to, "--json"], more].concat())?;
    let finished = finished.success()?;
    serde_json::from_str(&finished.stdout)
        .map_err(|error| Stop::Failed(format!("{error}: {}", finished.output())))
}

fn everywhere() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let attach = stage.attach(&[])?;
    let (image, back) = (stage.path("image"), stage.path("back"));
    let places = [stage.target.url(0), attach.uri()];
    let (image_name, back_name) = (image.display().to_string(), back.display().to_string());
    for (seed, place) in places.iter().enumerate() {
        let data = pattern(DISK_BYTES, seed as u64 + 10);
        fs::write(&image, &data)?;
        let there = copy(&image_name, place, &["--verify"])?;
        require(there["data_bytes"] == DISK_BYTES, || there.to_string())?;
        require(stage.disk()? == data, || {
            format!("{place}: the target has other data")
        })?;
        let again = copy(place, &back_name, &["--verify"])?;
        require(again["sha256"] == there["sha256"], || again.to_string())?;
        require(fs::read(&back)? == data, || {
            format!("{place}: other data came back")
        })?;
    }
    Ok(())
}

fn holes() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let image = stage.path("image");
    let file = File::create(&image)?;
    file.set_len(DISK_BYTES)?;
    let data = pattern(1 << 20, 4);
    file.write_all_at(&data, 8 << 20)?;
    // Old data on the disk where the image has a hole.
    let old = stage.path("old");
    fs::write(&old, pattern(DISK_BYTES, 5))?;
    let url = stage.target.url(0);
    copy(&old.display().to_string(), &url, &[])?;
    let there = copy(&image.display().to_string(), &url, &["--verify"])?;
    require(there["data_bytes"] == 1 << 20, || there.to_string())?;
    require(stage.disk()? == fs::read(&image)?, || {
        "the target has other data".to_owned()
    })?;
    let back = stage.path("back");
    copy(&url, &back.display().to_string(), &["--verify"])?;
    require(fs::read(&back)? == fs::read(&image)?, || {
        "other data came back".to_owned()
    })?;
    let allocated = fs::metadata(&back)?.blocks() * 512;
    require(allocated < 4 << 20, || {
        format!("{allocated} bytes are allocated")
    })
}

fn streams() -> Result<(), Stop> {
    let stage = Stage::new()?;
    // No whole number of blocks.
    let data = pattern(3_000_008, 6);
    let mut child = Command::new(WANSAN)
        .args(["copy", "-", &stage.target.url(0)])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let mut stdin = child
        .stdin
        .take()
        .ok_or(Stop::Failed("no pipe".to_owned()))?;
    stdin.write_all(&data)?;
    drop(stdin);
    require(child.wait()?.success(), || "the copy failed".to_owned())?;
    let out = Command::new(WANSAN)
        .args(["copy", &stage.target.url(0), "-"])
        .output()?;
    require(out.status.success(), || {
        String::from_utf8_lossy(&out.stderr).into_owned()
    })?;
    require(out.stdout.len() as u64 == DISK_BYTES, || {
        format!("{} bytes came", out.stdout.len())
    })?;
    require(out.stdout[..data.len()] == data, || {
        "other data came".to_owned()
    })?;
    require(
        out.stdout[data.len()..].iter().all(|byte| *byte == 0),
        || "no zeros follow".to_owned(),
    )
}

fn resumed() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let (image, journal) = (stage.path("image"), stage.path("journal"));
    let data = pattern(DISK_BYTES, 7);
    fs::write(&image, &data)?;
    let (url, image, journal_name) = (
        stage.target.url(0),
        image.display().to_string(),
        journal.display().to_string(),
    );
    let arguments = ["copy", &image, &url, "--journal", &journal_name];
    let mut child = Command::new(WANSAN)
        .args(arguments)
        .args(["--bandwidth", "80Mbit/s"])
        .spawn()?;
    let done = await_done(&journal)?;
    child.kill()?;
    child.wait()?;
    let rest = copy(&image, &url, &["--journal", &journal_name, "--verify"])?;
    let resumed = rest["resumed_bytes"].as_u64().unwrap_or_default();
    require(resumed >= done && resumed < DISK_BYTES, || rest.to_string())?;
    require(rest["data_bytes"] == DISK_BYTES - resumed, || {
        rest.to_string()
    })?;
    require(!journal.exists(), || {
        "the journal is still there".to_owned()
    })?;
    require(stage.disk()? == data, || {
        "the target has other data".to_owned()
    })
}

fn not_resumed() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let (image, to) = (stage.path("image"), stage.path("to"));
    fs::write(&image, pattern(4 << 20, 8))?;
    let journal = stage.path("to.wansan-copy");
    let (image, to) = (image.display().to_string(), to.display().to_string());
    for (kept, says) in [
        ("{", "not a copy journal"),
        (
            r#"{"from":"x","source":"","to":"y","destination":"","size_bytes":4194304,"done_bytes":7}"#,
            "it belongs to a copy from x to y",
        ),
    ] {
        fs::write(&journal, kept)?;
        let refused = wansan(&["copy", &image, &to])?;
        require(refused.status.code() == Some(2), || refused.output())?;
        require(refused.stderr.contains(says), || refused.output())?;
    }
    Ok(())
}

fn bandwidth() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let (image, to) = (stage.path("image"), stage.path("to"));
    fs::write(&image, pattern(8 << 20, 9))?;
    let copied = copy(
        &image.display().to_string(),
        &to.display().to_string(),
        &["--bandwidth", "32Mbit/s"],
    )?;
    // 8 MiB at 4 MB/s are 2.1 s; the first piece need not wait.
    let time = copied["time_s"].as_f64().unwrap_or_default();
    require(time > 1.5, || copied.to_string())
}

fn differs() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let (image, to) = (stage.path("image"), stage.path("to"));
    let data = pattern(8 << 20, 13);
    fs::write(&image, &data)?;
    let (image, to_name) = (image.display().to_string(), to.display().to_string());
    let journal = stage.path("to.wansan-copy");
    let mut child = Command::new(WANSAN)
        .args(["copy", &image, &to_name, "--verify"])
        .args(["--bandwidth", "16Mbit/s"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let damaged = await_done(&journal).and_then(|_| {
        let file = File::options().write(true).open(&to)?;
        Ok(file.write_all_at(b"damaged", 0)?)
    });
    if damaged.is_err() {
        child.kill()?;
    }
    let status = child.wait()?;
    damaged?;
    require(status.code() == Some(1), || format!("{status}"))?;
    let again = copy(&image, &to_name, &["--verify"])?;
    require(again["resumed_bytes"] == 0, || again.to_string())?;
    require(fs::read(&to)? == data, || {
        "other data were copied".to_owned()
    })
}

/// Waits until something is known to be done; how many bytes.
fn await_done(journal: &Path) -> Result<u64, Stop> {
    let began = Instant::now();
    loop {
        let kept = fs::read_to_string(journal).unwrap_or_default();
        let kept: serde_json::Value = serde_json::from_str(&kept).unwrap_or_default();
        match kept["done_bytes"].as_u64() {
            Some(done) if done > 0 => return Ok(done),
            _ => require(began.elapsed() < Duration::from_secs(60), || {
                "nothing is kept".to_owned()
            })?,
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn refusals() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let large = stage.path("large");
    File::create(&large)?.set_len(2 * DISK_BYTES)?;
    let (large, url) = (large.display().to_string(), stage.target.url(0));
    let missing = stage.path("missing").display().to_string();
    let by_another_name = url.replace("127.0.0.1", "localhost");
    for (arguments, says) in [
        (vec!["copy", &url, &by_another_name], "the same"),
        (vec!["copy", &large, &url], "fewer than the"),
        (vec!["copy", &missing, &url], "No such file"),
        (vec!["copy", &large, &large], "the same"),
        (vec!["copy", "ftp://x/y", &url], "`ftp://` is not known"),
        (vec!["copy", &large, "-", "--verify"], "standard output"),
        (
            vec!["copy", "nbd+unix:///?socket=/nowhere/x", &missing],
            "No such file",
        ),
        (
            vec!["copy", "/dev/null", &missing],
            "neither a file nor a block device",
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

fn longer() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let long = stage.path("long");
    File::create(&long)?.set_len(DISK_BYTES + 1)?;
    let copied = Command::new(WANSAN)
        .args(["copy", "-", &stage.target.url(0)])
        .stdin(File::open(&long)?)
        .output()?;
    let told = String::from_utf8_lossy(&copied.stderr);
    require(copied.status.code() == Some(2), || {
        told.clone().into_owned()
    })?;
    let is_told = told.contains("the source is longer than") && told.trim().lines().count() == 1;
    require(is_told, || told.into_owned())
}

fn at_once() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let (image, to) = (stage.path("image"), stage.path("to"));
    let data = pattern(8 << 20, 14);
    fs::write(&image, &data)?;
    let (image, to_name) = (image.display().to_string(), to.display().to_string());
    let mut first = Command::new(WANSAN)
        .args(["copy", "-", &to_name])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let pipe = first.stdin.take();
    let mut pipe = pipe.ok_or(Stop::Failed("no pipe".to_owned()))?;
    pipe.write_all(&data)?;
    let began = Instant::now();
    while fs::metadata(&to).map_or(0, |found| found.len()) == 0 {
        require(began.elapsed() < LIMIT, || "nothing is copied".to_owned())?;
        thread::sleep(Duration::from_millis(20));
    }
    let refused = wansan(&["copy", &image, &to_name])?;
    drop(pipe);
    let status = first.wait()?;
    let is_told = refused.stderr.contains("locked by another copy");
    require(refused.status.code() == Some(2) && is_told, || {
        refused.output()
    })?;
    require(status.success() && fs::read(&to)? == data, || {
        format!("{status}: other data were copied")
    })
}

/// On a terminal, which `script` provides.
fn progress() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let (image, to) = (stage.path("image"), stage.path("to"));
    fs::write(&image, pattern(8 << 20, 15))?;
    let line = format!(
        "{WANSAN} copy {} {} --verify --bandwidth 32Mbit/s",
        image.display(),
        to.display()
    );
    let shown = peer("script", &["-qec", &line, "/dev/null"])?;
    let copying = shown.split("copying [").count() - 1;
    require(copying > 2, || format!("shown {copying} times: {shown:?}"))?;
    let has = |what: &str| shown.contains(what);
    require(has("of 8.00 MiB, ") && has("/s, ") && has("s left"), || {
        format!("{shown:?}")
    })?;
    require(has("verified  SHA-256 "), || format!("{shown:?}"))
}

/// Counts the reads, and the writes, that are under way at once.
#[derive(Default)]
struct UnderWay {
    tags: Mutex<HashSet<[u8; 4]>>,
    most: AtomicUsize,
}

impl Change for UnderWay {
    fn asked(&self, _: u64, pdu: &mut [u8]) {
        const SCSI_COMMAND: u8 = 0x01;
        let transfers = [
            opcode::READ_10,
            opcode::READ_16,
            opcode::WRITE_10,
            opcode::WRITE_16,
        ];
        let is_transfer = transfers.contains(&pdu[32]);
        if way::opcode(pdu) == SCSI_COMMAND && is_transfer {
            let mut tags = self.tags.lock().expect("no panic");
            tags.insert([pdu[16], pdu[17], pdu[18], pdu[19]]);
            self.most.fetch_max(tags.len(), Ordering::Relaxed);
        }
    }

    fn answered(&self, _: u64, pdu: &mut [u8]) {
        const SCSI_RESPONSE: u8 = 0x21;
        const DATA_IN: u8 = 0x25;
        let has_status = match way::opcode(pdu) {
            SCSI_RESPONSE => true,
            DATA_IN => pdu[1] & 1 == 1,
            _ => false,
        };
        if has_status {
            // A delay on the path keeps several transfers in flight.
            thread::sleep(Duration::from_millis(5));
            let mut tags = self.tags.lock().expect("no panic");
            tags.remove(&[pdu[16], pdu[17], pdu[18], pdu[19]]);
        }
    }
}

fn parallel() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let image = stage.path("image");
    fs::write(&image, pattern(DISK_BYTES, 16))?;
    let image = image.display().to_string();
    let target = stage.target.address();
    let to = target.parse().expect("an address");
    for reads in [false, true] {
        let seen = Arc::new(UnderWay::default());
        let way = way::open(to, Arc::clone(&seen))?.to_string();
        let url = stage.target.url(0).replace(target, &way);
        let back = stage.path("back").display().to_string();
        match reads {
            true => copy(&url, &back, &[])?,
            false => copy(&image, &url, &[])?,
        };
        // At least 8 MiB in pieces of 1 MiB.
        let most = seen.most.load(Ordering::Relaxed);
        require(most >= 8, || format!("{most} at once, reads: {reads}"))?;
    }
    require(fs::read(stage.path("back"))? == fs::read(&image)?, || {
        "other data came back".to_owned()
    })
}

/// Images that end in a hole, between two blocks, or both, to a file and to a disk with other data.
fn odd_ends() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let url = stage.target.url(0);
    let (image, old) = (stage.path("image"), stage.path("old"));
    fs::write(&old, pattern(DISK_BYTES, 3))?;
    let (image_name, old) = (image.display().to_string(), old.display().to_string());
    let data = pattern(1 << 20, 11);
    for (at, bytes) in [
        (0, 3_000_008),
        (1 << 20, 2 << 20),
        (0, 1_000_100),
        (4096 + 512, 2_500_001),
    ] {
        let file = File::create(&image)?;
        file.set_len(bytes)?;
        let room = usize::try_from(bytes.saturating_sub(at)).unwrap_or(0);
        file.write_all_at(&data[..data.len().min(room)], at)?;
        let expected = fs::read(&image)?;
        copy(&old, &url, &[])?;
        copy(&image_name, &url, &["--verify"])?;
        let disk = stage.disk()?;
        let is_right = disk[..expected.len()] == expected;
        require(is_right, || {
            format!("{bytes} bytes: the target has other data")
        })?;
        // The rest of the last block is zeroed, what is behind it stays.
        let behind = expected.len().next_multiple_of(512);
        require(
            disk[expected.len()..behind].iter().all(|byte| *byte == 0),
            || "no zeros".to_owned(),
        )?;
        require(disk[behind..] == fs::read(&old)?[behind..], || {
            "more was written".to_owned()
        })?;
        let to = stage.path("to");
        let mut child = Command::new(WANSAN)
            .args(["copy", "-", &to.display().to_string()])
            .stdin(File::open(&image)?)
            .stdout(Stdio::null())
            .spawn()?;
        require(child.wait()?.success(), || "the copy failed".to_owned())?;
        require(fs::read(&to)? == expected, || {
            format!("{bytes} bytes: the file is another")
        })?;
    }
    Ok(())
}

fn traps() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let (image, link, to) = (stage.path("image"), stage.path("link"), stage.path("to"));
    let data = pattern(8 << 20, 12);
    fs::write(&image, &data)?;
    fs::hard_link(&image, &link)?;
    let (image_name, link, to_name) = (
        image.display().to_string(),
        link.display().to_string(),
        to.display().to_string(),
    );
    let refused = wansan(&["copy", &image_name, &link])?;
    require(
        refused.status.code() == Some(2) && refused.stderr.contains("the same"),
        || refused.output(),
    )?;
    require(fs::read(&image)? == data, || {
        "the source was written".to_owned()
    })?;
    // A copy that is interrupted, and whose destination is removed.
    let mut child = Command::new(WANSAN)
        .args(["copy", &image_name, &to_name, "--bandwidth", "16Mbit/s"])
        .stdout(Stdio::null())
        .spawn()?;
    let journal = stage.path("to.wansan-copy");
    await_done(&journal)?;
    child.kill()?;
    child.wait()?;
    fs::remove_file(&to)?;
    let refused = wansan(&["copy", &image_name, &to_name])?;
    let is_told = refused.status.code() == Some(2) && refused.stderr.contains("delete");
    require(is_told, || refused.output())?;
    fs::write(&to, [])?;
    let refused = wansan(&["copy", &image_name, &to_name])?;
    require(
        refused.status.code() == Some(2) && refused.stderr.contains("delete"),
        || refused.output(),
    )?;
    fs::remove_file(&journal)?;
    copy(&image_name, &to_name, &["--verify"])?;
    require(fs::read(&to)? == data, || {
        "other data were copied".to_owned()
    })
}
