//! What `attach list` and the metrics say of an attached disk, against what a program did.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::Value;
use wansan_nbd::client::Command;
use wansan_peers::process::free_address;
use wansan_peers::trial::{Stop, require, trial};
use wansan_peers::wansan::Attach;

use crate::faults::{freeze, thaw};
use crate::program::Program;
use crate::stage::{DISK_BYTES, LIMIT, Stage, list, pattern, wansan};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("hits and waste of read-ahead are counted", read_ahead),
        trial("how far the target is behind is listed", behind),
    ]
}

const READ_BYTES: u64 = 4096;

/// An attached disk that serves its metrics.
struct Counted {
    attach: Attach,
    at: String,
}

impl Counted {
    fn new(stage: &Stage, arguments: &[&str]) -> Result<Counted, Stop> {
        let at = free_address()?.to_string();
        let attach = stage.attach(&[arguments, &["--metrics", &at]].concat())?;
        Ok(Counted { attach, at })
    }

    fn scrape(&self) -> Result<String, Stop> {
        let mut stream = TcpStream::connect(&self.at)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n")?;
        stream.set_read_timeout(Some(LIMIT))?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }

    /// What metrics of these names say, once they have `settled`: they are published from time to time.
    fn once<const N: usize>(
        &self,
        names: [&str; N],
        settled: impl Fn(&[u64; N]) -> bool,
    ) -> Result<[u64; N], Stop> {
        let began = Instant::now();
        loop {
            let text = self.scrape()?;
            let value = |name: &str| {
                let name = format!("wansan_attach_{name}{{");
                let line = text.lines().find(|line| line.starts_with(&name));
                let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
                value.ok_or_else(|| Stop::Failed(format!("no {name} in {text}")))
            };
            let mut values = [0; N];
            for (value_of, name) in values.iter_mut().zip(names) {
                *value_of = value(name)?;
            }
            if settled(&values) {
                return Ok(values);
            }
            require(began.elapsed() < LIMIT, || {
                format!("{names:?}: {values:?}: {text}")
            })?;
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A program reads in order, then writes what was read ahead of it.
fn read_ahead() -> Result<(), Stop> {
    const READS: u64 = 2048;
    let stage = Stage::new()?;
    let data = pattern(DISK_BYTES, 21);
    std::fs::write(stage.path("disk.img"), &data)?;
    let disk = Counted::new(&stage, &[])?;
    let mut program = Program::connect(disk.attach.socket())?;
    for number in 0..READS {
        let at = number * READ_BYTES;
        let read = program.read(at, READ_BYTES as usize)?;
        require(read == data[at as usize..][..read.len()], || {
            format!("other data at {at}")
        })?;
    }
    let names = [
        "read_hits_total",
        "read_waits_total",
        "read_misses_total",
        "read_ahead_bytes_total",
        "wasted_bytes_total",
        "ahead_bytes",
    ];
    let all = |it: &[u64; 6]| it[0] + it[1] + it[2] == READS;
    let [hits, waits, misses, fetched, wasted, ahead] = disk.once(names, all)?;
    // Read-ahead starts once the first reads are found to be sequential.
    require(misses < 16, || format!("{misses} misses"))?;
    let served = (hits + waits) * READ_BYTES;
    let unread = fetched - served;
    // Memory is taken by whole pieces, also by one that is being read.
    require(unread > 0 && unread <= ahead && wasted == 0, || {
        format!("{unread} bytes are not read of {ahead} ahead, {wasted} wasted")
    })?;
    let over = vec![7; unread as usize];
    let write = Command::Write {
        offset_bytes: READS * READ_BYTES,
        data: &over,
        fua: true,
    };
    program.submit(write, 0)?;
    program.answer()?;
    let after = disk.once(names, |it| it[4] > 0 && it[5] == 0)?;
    require(after[4] == unread && after[3] == fetched, || {
        format!("{after:?}: {unread} bytes were thrown away")
    })?;
    require(disk.attach.stop()?.success(), || "attach failed".to_owned())
}

/// A program writes while the target stands still.
fn behind() -> Result<(), Stop> {
    const WRITE_BYTES: usize = 1 << 20;
    const WRITES: u64 = 8;
    let stage = Stage::new()?;
    let journal = stage.path("journal").display().to_string();
    for way in [&[][..], &["--journal", &journal, "--journal-size", "64MiB"]] {
        let disk = Counted::new(&stage, way)?;
        let mut program = Program::connect(disk.attach.socket())?;
        freeze(stage.target.id())?;
        let data = vec![9; WRITE_BYTES];
        for number in 0..WRITES {
            let write = Command::Write {
                offset_bytes: number * WRITE_BYTES as u64,
                data: &data,
                fua: false,
            };
            program.submit(write, number)?;
            program.answer()?;
        }
        let bytes = WRITES * WRITE_BYTES as u64;
        let names = ["behind_bytes", "early_acks_total"];
        // In a journal, each write has a record of which its data are a part.
        let is_all = |behind: u64| (bytes..=bytes + WRITES * 4096).contains(&behind);
        let values = disk.once(names, |it| is_all(it[0]))?;
        require(values[1] == WRITES, || format!("{values:?}"))?;
        let listed = || -> Result<Value, Stop> {
            let mut disks = list(&stage.target)?;
            disks.pop().ok_or(Stop::Failed("none is listed".to_owned()))
        };
        let first = listed()?;
        require(first["behind_bytes"].as_u64().is_some_and(is_all), || {
            first.to_string()
        })?;
        let told = wansan(&["attach", "list"])?.success()?.stdout;
        let own = told
            .lines()
            .find(|line| line.contains(disk.attach.socket()));
        require(own.is_some_and(|line| line.contains("8.0 MiB, ")), || {
            told.clone()
        })?;
        thread::sleep(Duration::from_millis(1200));
        let age_ns = |disk: &Value| disk["behind_ns"].as_u64().unwrap_or_default();
        let later = listed()?;
        // What is listed may be a quarter of a second old.
        require(age_ns(&later) >= age_ns(&first) + 500_000_000, || {
            format!("{way:?}: {first} became {later}")
        })?;
        thaw(stage.target.id())?;
        program.submit(Command::Flush, WRITES)?;
        program.answer()?;
        disk.once(["behind_bytes", "behind_nanoseconds"], |it| *it == [0, 0])?;
        require(disk.attach.stop()?.success(), || "attach failed".to_owned())?;
    }
    Ok(())
}
