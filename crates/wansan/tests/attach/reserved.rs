//! Disks that are reserved for the host that has attached them, seen from another initiator.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use tempfile::TempDir;
use wansan_iscsi::initiator::{Answer, Command as ScsiCommand, Schedule, Transfer};
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::scsi::{Cdb, ReserveOut, Sense, SenseKey, cdb};
use wansan_iscsi::wire::{Lun, ScsiStatus, TaskAttribute};
use wansan_nbd::client::Command as NbdCommand;
use wansan_peers::process::{free_address, run};
use wansan_peers::program::find;
use wansan_peers::tgtd::Tgtd;
use wansan_peers::trial::{Stop, require, trial};
use wansan_peers::wansan::Attach;
use wansan_san::load::address;
use wansan_san::url::IscsiUrl;
use wansan_san::{DelayedAck, Initiator, InitiatorConfig, Route};
use wansan_trace::Recorder;

use crate::faults::kill;
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

const OWN: &str = "0xa";
const OTHER: &str = "0xb";

/// Another initiator.
struct Peer {
    session: Initiator,
    lun: Lun,
}

impl Peer {
    fn connect(url: &str) -> Result<Peer, Stop> {
        let broken = |error: String| Stop::Failed(error);
        let url: IscsiUrl = url
            .parse()
            .map_err(|_| broken(format!("`{url}` is no URL")))?;
        let config = InitiatorConfig {
            name: "iqn.2026-01.net.example:peer".to_owned(),
            isid: [0x80, 0, 0, 0, 0, 1],
            chap: None,
            wanted: Wanted::default(),
            tasks: 4,
            routes: vec![Route::to(&url)],
            multipath: false,
            reservation: None,
            schedule: Schedule::default(),
            congestion_control: None,
            delayed_ack: DelayedAck::On,
            patience: LIMIT,
            replacement_timeout: Duration::ZERO,
            tcp_interval: Duration::from_secs(1),
        };
        let session = Initiator::connect(&url, &config, Recorder::off());
        Ok(Peer {
            session: session.map_err(|error| broken(error.to_string()))?,
            lun: address(url.lun).map_err(|error| broken(error.to_string()))?,
        })
    }

    /// Carries out a command; unit attentions are passed over.
    fn run(&mut self, cdb: Cdb, transfer: &Transfer) -> Result<(Answer, Vec<u8>), Stop> {
        loop {
            let command = ScsiCommand {
                lun: self.lun,
                cdb,
                attribute: TaskAttribute::Simple,
                transfer: transfer.clone(),
                user: 0,
            };
            let done = self.session.execute(command);
            let done = done.map_err(|error| Stop::Failed(error.to_string()))?;
            let answer = done.outcome.map_err(|why| Stop::Failed(why.to_string()))?;
            let sense = Sense::parse(&answer.sense).ok();
            if sense.is_none_or(|sense| sense.key != SenseKey::UnitAttention) {
                return Ok((answer, done.transfer.into_buffer()));
            }
        }
    }

    /// The registered keys, of each nexus its own.
    fn keys(&mut self) -> Result<Vec<u64>, Stop> {
        let bytes = 8 + 8 * 8;
        let buffer = Transfer::Read(vec![0; bytes.into()]);
        let (answer, data) = self.run(cdb::persistent_reserve_in_keys(bytes), &buffer)?;
        require(answer.status == ScsiStatus::Good, || format!("{answer:?}"))?;
        let number = |bytes: &[u8]| {
            let bytes = bytes.iter();
            bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        let length = number(&data[4..8]) as usize;
        Ok(data[8..][..length].chunks(8).map(number).collect())
    }

    /// The keys have to be these, now or soon.
    fn await_keys(&mut self, expected: &[u64]) -> Result<(), Stop> {
        let began = Instant::now();
        loop {
            let keys = self.keys()?;
            if keys == expected {
                return Ok(());
            }
            require(began.elapsed() < LIMIT, || {
                format!("the keys are {keys:x?}, not {expected:x?}")
            })?;
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn has_keys(&mut self, expected: &[u64]) -> Result<(), Stop> {
        let keys = self.keys()?;
        require(keys == expected, || {
            format!("the keys are {keys:x?}, not {expected:x?}")
        })
    }

    /// How a write, and then a read, of the last block is answered.
    fn writes_and_reads(&mut self) -> Result<(ScsiStatus, ScsiStatus), Stop> {
        let last = DISK_BYTES / 512 - 1;
        let data = Transfer::Write(vec![1; 512]);
        let (written, _) = self.run(cdb::write(last, 1, false), &data)?;
        let buffer = Transfer::Read(vec![0; 512]);
        let (read, _) = self.run(cdb::read(last, 1, false), &buffer)?;
        Ok((written.status, read.status))
    }

    /// It may read the disk, and write it or not.
    fn is_kept_off(&mut self, is_kept_off: bool) -> Result<(), Stop> {
        let written = match is_kept_off {
            true => ScsiStatus::ReservationConflict,
            false => ScsiStatus::Good,
        };
        let answers = self.writes_and_reads()?;
        require(answers == (written, ScsiStatus::Good), || {
            format!("a write and a read get {answers:?}")
        })
    }
}

/// What `wansan attach list` says of a disk that is attached.
fn await_listed(attach: &Attach, what: &str, is_there: bool) -> Result<(), Stop> {
    let began = Instant::now();
    loop {
        let listed = wansan(&["attach", "list"])?.success()?.output();
        let own = listed.lines().find(|line| line.contains(attach.socket()));
        if own.is_some_and(|line| line.contains(what) == is_there) {
            return Ok(());
        }
        require(began.elapsed() < LIMIT, || {
            format!("{listed}{}", attach.log())
        })?;
        thread::sleep(Duration::from_millis(50));
    }
}

/// Writes through an attached disk; whether that succeeds.
fn writes(attach: &Attach) -> Result<bool, Stop> {
    let arguments = [
        "-f",
        "raw",
        "-t",
        "none",
        "-c",
        "write -P 3 0 64k",
        "-c",
        "flush",
        &attach.uri(),
    ];
    let finished = run(Command::new(find("qemu-io")?).args(arguments), LIMIT)?;
    Ok(finished.status.success() && finished.output().contains("65536/65536"))
}

fn must_write(attach: &Attach) -> Result<(), Stop> {
    require(writes(attach)?, || {
        format!("it cannot be written: {}", attach.log())
    })
}

/// Has many writes open all the time, until one fails; then all that are open are answered, too, though the target has
/// aborted some.
fn write_until_refused(socket: &str) -> Result<(), Stop> {
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
    peer.has_keys(&[0xa, 0xa])?;
    peer.is_kept_off(true)?;
    must_write(&attach)?;
    drop(before);
    await_listed(&attach, "1 of 2 connections", true)?;
    must_write(&attach)?;
    let _after = relay(&way, stage.target.address())?;
    await_listed(&attach, "1 of 2 connections", false)?;
    peer.has_keys(&[0xa, 0xa])?;
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
        (&["--multipath", "--connections", "2"], &[0xa, 0xa]),
    ] {
        let stage = Stage::new()?;
        let reserve = ["--write-through", "--reservation-key", OWN];
        let attach = stage.attach(&[routes, &reserve].concat())?;
        must_write(&attach)?;
        let (portal, folder) = (stage.target.address().to_owned(), stage.folder);
        kill(stage.target.id())?;
        drop(stage.target);
        let target = Stage::serve(folder.path(), &portal)?;
        must_write(&attach)?;
        let mut peer = Peer::connect(&target.url(0))?;
        peer.await_keys(keys)?;
        peer.is_kept_off(true)?;
        require(attach.stop()?.success(), || "attach failed".to_owned())?;
        peer.has_keys(&[])?;
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
    for _ in 0..32 {
        let attached = thread::scope(|scope| {
            let attach = |key: &'static str| {
                let stage = &stage;
                scope.spawn(move || stage.attach(&["--reservation-key", key]))
            };
            let both = [attach(OWN), attach(OTHER)];
            both.map(|attached| attached.join())
        });
        let attached: Vec<Attach> = attached.into_iter().flatten().flatten().collect();
        require(attached.len() <= 1, || "both have it".to_owned())?;
        let keys = peer.keys()?;
        require(keys.len() == attached.len(), || format!("{keys:x?}"))?;
        for attach in attached {
            must_write(&attach)?;
            require(attach.stop()?.success(), || "attach failed".to_owned())?;
        }
        peer.has_keys(&[])?;
    }
    Ok(())
}

fn killed() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let url = stage.target.url(0);
    let mut peer = Peer::connect(&url)?;
    let socket = stage.path("socket");
    let attach = || {
        let key = ["--reservation-key", OWN];
        Attach::start_at(Path::new(WANSAN), &url, &socket, &key)
    };
    let first = attach()?;
    kill(first.id())?;
    drop(first);
    peer.has_keys(&[0xa])?;
    peer.is_kept_off(true)?;
    let again = attach()?;
    must_write(&again)?;
    peer.has_keys(&[0xa])?;
    require(again.stop()?.success(), || "attach failed".to_owned())?;
    peer.has_keys(&[])
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
    peer.has_keys(&[0xa, 0xa])?;
    require(attach.stop()?.success(), || "attach failed".to_owned())?;
    peer.has_keys(&[])?;
    // Another host's key is not removed with them.
    let attach = attached()?;
    let register = ReserveOut::Register { key: 0xc };
    peer.run(register.cdb(), &Transfer::Write(register.list()))?;
    require(attach.stop()?.success(), || "attach failed".to_owned())?;
    peer.has_keys(&[0xa, 0xc])
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
    peer.has_keys(&[0xa, 0xa])?;
    peer.is_kept_off(true)?;
    must_write(&first)?;
    let second = attach(&["--preempt", "--reservation-key", OTHER])?;
    peer.has_keys(&[0xb])?;
    await_listed(&first, "preempted", true)?;
    require(!writes(&first)?, || "both can write".to_owned())?;
    must_write(&second)?;
    require(second.stop()?.success(), || "attach failed".to_owned())?;
    peer.has_keys(&[])?;
    peer.is_kept_off(false)
}
