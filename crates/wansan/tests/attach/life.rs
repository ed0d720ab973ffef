//! Several disks of one file, and speaking to a process that attaches disks.

use std::fs::{self, File};
use std::path::Path;
use std::process::{self, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use wansan_nbd::client::Command;
use wansan_peers::process::free_address;
use wansan_peers::trial::{Stop, require, trial};
use wansan_peers::wansan::Target;

use crate::program::Program;
use crate::stage::{LIMIT, Stage, WANSAN, list, peer, wansan};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("attached disks are listed and detached", listed),
        trial(
            "a disk is detached whole while others are listed",
            listed_while_detached,
        ),
        trial("a file of disks is reloaded", reloaded),
        trial("a file of disks with a mistake changes nothing", mistaken),
        trial("a target that is away holds up no other disk", late_target),
        trial(
            "a target that is silent holds up no other disk",
            silent_target,
        ),
        trial("a signal ends what is being attached", interrupted),
        trial("metrics of attached disks are served", metrics),
        trial("what attached disks wait for is recorded", recorded),
    ]
}

fn listed() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let attach = stage.attach(&[])?;
    let disks = list(&stage.target)?;
    require(disks.len() == 1, || format!("{disks:?}"))?;
    let disk = &disks[0];
    let is_right = disk["nbd"] == format!("unix:{}", attach.socket())
        && disk["standing"] == "connected"
        && disk["process"] == attach.id()
        && disk["size_bytes"] == 64 << 20;
    require(is_right, || disk.to_string())?;
    let table = wansan(&["attach", "list"])?.success()?;
    require(table.stdout.contains(&stage.target.url(0)), || {
        table.output()
    })?;
    let wrong = wansan(&[
        "attach",
        "detach",
        "iscsi://192.0.2.1/iqn.2026-01.net.example:x/0",
    ])?;
    require(wrong.status.code() == Some(2), || wrong.output())?;
    require(wrong.stderr.contains("attach list"), || wrong.output())?;
    let place = format!("unix:{}", attach.socket());
    wansan(&["attach", "detach", &place])?.success()?;
    require(list(&stage.target)?.is_empty(), || {
        "it is still there".to_owned()
    })?;
    let began = Instant::now();
    while Path::new(attach.socket()).exists() {
        require(began.elapsed() < LIMIT, || {
            "its socket is still there".to_owned()
        })?;
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn signal(process: u32, signal: Signal) -> Result<(), Stop> {
    let id = i32::try_from(process).ok().and_then(Pid::from_raw);
    let id = id.ok_or(Stop::Failed("no process id".to_owned()))?;
    kill_process(id, signal).map_err(|errno| Stop::Failed(errno.to_string()))
}

/// A request that is answered while a disk is being detached does not end the process before it is.
fn listed_while_detached() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let attach = stage.attach(&[])?;
    let url = stage.target.url(0);
    signal(stage.target.id(), Signal::STOP)?;
    let mut program = Program::connect(attach.socket())?;
    let write = Command::Write {
        offset_bytes: 0,
        data: &[7; 1 << 20],
        fua: false,
    };
    program.submit(write, 0)?;
    program.answer()?;
    drop(program);
    let detach = thread::spawn(move || wansan(&["attach", "detach", &url]));
    let began = Instant::now();
    let mut lists_since = 0;
    while lists_since < 5 {
        let is_taken = list(&stage.target)?.is_empty();
        lists_since += u32::from(is_taken);
        require(began.elapsed() < LIMIT, || "it is still listed".to_owned())?;
    }
    signal(stage.target.id(), Signal::CONT)?;
    let detach = detach.join();
    detach
        .map_err(|_| Stop::Failed("detach panicked".to_owned()))??
        .success()?;
    let kept = stage.disk()?;
    require(kept[..1 << 20].iter().all(|byte| *byte == 7), || {
        "what was acknowledged is lost".to_owned()
    })
}

fn reloaded() -> Result<(), Stop> {
    let folder = tempfile::tempdir()?;
    let mut arguments = Vec::new();
    for name in ["one", "two", "three"] {
        let path = folder.path().join(name);
        File::create(&path)?.set_len(8 << 20)?;
        arguments.extend(["--lun".to_owned(), format!("file:{}", path.display())]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let target = Target::start(Path::new(WANSAN), &arguments)?;
    let file = folder.path().join("attach.toml");
    let write = |luns: &[u64]| {
        let disks = luns.iter().map(|lun| {
            let socket = folder.path().join(format!("socket-{lun}"));
            format!(
                "[[disk]]\nurl = \"{}\"\nnbd = \"unix:{}\"\n",
                target.url(*lun),
                socket.display()
            )
        });
        fs::write(&file, disks.collect::<String>())
    };
    write(&[0, 1])?;
    let mut child = process::Command::new(WANSAN)
        .args(["attach", "--json", "--config"])
        .arg(&file)
        .stdout(Stdio::null())
        .spawn()?;
    let await_luns = |luns: &[u64]| -> Result<(), Stop> {
        let expected: Vec<String> = luns.iter().map(|lun| target.url(*lun)).collect();
        let began = Instant::now();
        loop {
            let mut urls: Vec<String> = list(&target)?
                .iter()
                .filter_map(|disk| Some(disk["url"].as_str()?.to_owned()))
                .collect();
            urls.sort();
            if urls == expected {
                return Ok(());
            }
            require(began.elapsed() < LIMIT, || {
                format!("{urls:?} instead of {expected:?}")
            })?;
            thread::sleep(Duration::from_millis(50));
        }
    };
    let signal = |order| signal(child.id(), order);
    let result = (|| {
        await_luns(&[0, 1])?;
        write(&[1, 2])?;
        signal(Signal::HUP)?;
        await_luns(&[1, 2])?;
        // A mistake changes nothing.
        fs::write(&file, "[[disk]]\nurll = 1\n")?;
        signal(Signal::HUP)?;
        thread::sleep(Duration::from_millis(200));
        await_luns(&[1, 2])?;
        signal(Signal::TERM)
    })();
    if result.is_err() {
        child.kill()?;
    }
    let status = child.wait()?;
    result?;
    require(status.success(), || format!("{status}"))
}

/// A target that is away when the process starts holds up no other disk.
/// A `wansan attach` with disks of a file.
struct OfFile {
    child: process::Child,
    folder: tempfile::TempDir,
}

impl OfFile {
    fn start(tables: &[String]) -> Result<OfFile, Stop> {
        let folder = tempfile::tempdir()?;
        write_tables(folder.path(), tables)?;
        let log = File::create(folder.path().join("log"))?;
        let child = process::Command::new(WANSAN)
            .args(["attach", "--config"])
            .arg(folder.path().join("attach.toml"))
            .current_dir(folder.path())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Ok(OfFile { child, folder })
    }

    fn reload(&self, tables: &[String]) -> Result<(), Stop> {
        write_tables(self.folder.path(), tables)?;
        signal(self.child.id(), Signal::HUP)
    }

    /// Waits until it has said that so many times.
    fn await_line(&self, says: &str, times: usize) -> Result<(), Stop> {
        let began = Instant::now();
        loop {
            let log = fs::read_to_string(self.folder.path().join("log"))?;
            if log.matches(says).count() >= times {
                return Ok(());
            }
            require(began.elapsed() < LIMIT, || {
                format!("not {times} times `{says}`: {log}")
            })?;
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn end(mut self) -> Result<(), Stop> {
        signal(self.child.id(), Signal::TERM)?;
        let status = self.child.wait()?;
        require(status.success(), || format!("{status}"))
    }
}

impl Drop for OfFile {
    fn drop(&mut self) {
        // It has ended, unless a test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write_tables(folder: &Path, tables: &[String]) -> Result<(), Stop> {
    Ok(fs::write(folder.join("attach.toml"), tables.concat())?)
}

fn table(url: &str, socket: &str, more: &str) -> String {
    format!("[[disk]]\nurl = \"{url}\"\nnbd = \"unix:{socket}\"\n{more}\n")
}

fn mistaken() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let url = stage.target.url(0);
    let old = table(&url, "old", "");
    let attach = OfFile::start(std::slice::from_ref(&old))?;
    attach.await_line("at unix:old", 1)?;
    let chap = "[disk.chap]\nuser = \"x\"\nsecret_file = \"missing\"";
    for (number, (tables, says)) in [
        (vec!["disk = []\n".to_owned()], "at least one disk"),
        (vec![table(&url, "old", chap)], "missing"),
        (
            vec![table(&url, "old", "preempt = true")],
            "`reservation_key`",
        ),
        (
            vec![
                table(&url, "new", ""),
                table(&url, "new", "read_only = true"),
            ],
            "`nbd` unix:new is also that of disk[0]",
        ),
        (
            vec![
                table(&url, "new", "journal = \"j\""),
                table(&url, "other", "journal = \"j\""),
            ],
            "`journal` j is also",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        attach.reload(&tables)?;
        attach.await_line("not reloaded", number + 1)?;
        attach.await_line(says, 1)?;
        Program::connect(&attach.folder.path().join("old").display().to_string())?.read(0, 4096)?;
        let fresh = OfFile::start(&tables)?;
        fresh.await_line(says, 1)?;
    }
    attach.reload(&[old])?;
    attach.await_line("1 unchanged", 1)?;
    attach.end()
}

/// A portal that takes connections and says nothing.
fn silent() -> Result<(std::net::TcpListener, String), Stop> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let url = format!(
        "iscsi://{}/iqn.2026-11.net.example:silent/0",
        listener.local_addr()?
    );
    Ok((listener, url))
}

fn silent_target() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let (_silent, url) = silent()?;
    let long = "patience = \"1h\"";
    let attach = OfFile::start(&[
        table(&url, "silent", long),
        table(&stage.target.url(0), "disk", ""),
    ])?;
    let socket = attach.folder.path().join("disk").display().to_string();
    let began = Instant::now();
    while Program::connect(&socket)
        .and_then(|mut program| program.read(0, 4096))
        .is_err()
    {
        require(began.elapsed() < LIMIT, || "it is not served".to_owned())?;
        thread::sleep(Duration::from_millis(20));
    }
    attach.end()
}

fn interrupted() -> Result<(), Stop> {
    let (silent, url) = silent()?;
    let attach = OfFile::start(&[table(&url, "disk", "patience = \"1h\"")])?;
    let _connection = silent.accept()?;
    attach.end()
}

fn late_target() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let folder = tempfile::tempdir()?;
    let (portal, away) = (free_address()?.to_string(), free_address()?.to_string());
    let url = |portal: &str| stage.target.url(0).replace(stage.target.address(), portal);
    let file = folder.path().join("attach.toml");
    let disks = [stage.target.url(0), url(&portal), url(&away)];
    let disks = disks.iter().zip(0..).map(|(url, number)| {
        let socket = folder.path().join(format!("socket-{number}"));
        format!(
            "[[disk]]\nurl = \"{url}\"\nnbd = \"unix:{}\"\n",
            socket.display()
        )
    });
    fs::write(&file, disks.collect::<String>())?;
    let mut child = process::Command::new(WANSAN)
        .args(["attach", "--config"])
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let await_standing = |target: &str, standing: Option<&str>| -> Result<(), Stop> {
        let began = Instant::now();
        loop {
            let listed = wansan(&["attach", "list", "--json"])?.success()?.stdout;
            let disks = listed.lines().map(serde_json::from_str::<Value>);
            let disk = disks.flatten().find(|disk| disk["url"] == target);
            let found = disk.as_ref().and_then(|disk| disk["standing"].as_str());
            if found == standing {
                return Ok(());
            }
            require(began.elapsed() < LIMIT, || {
                format!("{target} is {found:?} instead of {standing:?}")
            })?;
            thread::sleep(Duration::from_millis(50));
        }
    };
    let mut late = None;
    let result = (|| {
        await_standing(&stage.target.url(0), Some("connected"))?;
        await_standing(&url(&portal), Some("waiting"))?;
        let image = folder.path().join("late.img");
        File::create(&image)?.set_len(8 << 20)?;
        let lun = format!("file:{}", image.display());
        late = Some(Target::start_at(
            Path::new(WANSAN),
            &portal,
            &["--lun", &lun],
        )?);
        await_standing(&url(&portal), Some("connected"))?;
        let mut program = Program::connect(&folder.path().join("socket-1").display().to_string())?;
        program.read(0, 4096)?;
        // One that waits is detached as any other.
        wansan(&["attach", "detach", &url(&away)])?.success()?;
        await_standing(&url(&away), None)?;
        signal(child.id(), Signal::TERM)
    })();
    if result.is_err() {
        child.kill()?;
    }
    let status = child.wait()?;
    drop(late);
    result?;
    require(status.success(), || format!("{status}"))
}

fn metrics() -> Result<(), Stop> {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpStream;

    let stage = Stage::new()?;
    let mut child = process::Command::new(WANSAN)
        .args([
            "attach",
            &stage.target.url(0),
            "--nbd",
            "127.0.0.1:0",
            "--metrics",
            "0",
            "--json",
        ])
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = child
        .stdout
        .take()
        .ok_or(Stop::Failed("no pipe".to_owned()))?;
    let lines = BufReader::new(stdout)
        .lines()
        .take(2)
        .collect::<Result<Vec<_>, _>>();
    let scraped = lines.map_err(Stop::from).and_then(|lines| {
        let metrics: Value = serde_json::from_str(&lines[1]).unwrap_or_default();
        let mut stream = TcpStream::connect(metrics["metrics"].as_str().unwrap_or_default())?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n")?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut text = String::new();
        // Some servers keep the connection.
        let _ = stream.read_to_string(&mut text);
        Ok(text)
    });
    child.kill()?;
    child.wait()?;
    let text = scraped?;
    for name in [
        "wansan_attach_connected{url=",
        "wansan_attach_behind_bytes{url=",
        "wansan_attach_shared{url=",
        "wansan_attach_read_hits_total{url=",
    ] {
        require(text.contains(name), || format!("no {name} in {text}"))?;
    }
    Ok(())
}

fn recorded() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let records = stage.path("records").display().to_string();
    let attach = stage.attach(&["--record", &records])?;
    peer(
        "qemu-io",
        &[
            "-f",
            "raw",
            "-c",
            "write 0 1M",
            "-c",
            "flush",
            &attach.uri(),
        ],
    )?;
    require(attach.stop()?.success(), || "attach failed".to_owned())?;
    let explained = wansan(&["explain", &records, "--json"])?;
    require(explained.status.success(), || explained.output())?;
    let json: serde_json::Value = serde_json::from_str(&explained.stdout)
        .map_err(|error| Stop::Failed(format!("{error}: {}", explained.output())))?;
    let requests = &json["planned"][0]["summary"]["requests"];
    let kinds = requests.as_array().into_iter().flatten();
    let kinds: Vec<&str> = kinds.filter_map(|one| one["kind"].as_str()).collect();
    require(kinds.contains(&"write") && kinds.contains(&"flush"), || {
        requests.to_string()
    })?;
    let told = wansan(&["explain", &records])?;
    require(told.stdout.contains("Cell 0: requests of programs"), || {
        told.output()
    })
}
