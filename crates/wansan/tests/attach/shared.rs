//! A disk that several hosts use: what one of them has read ahead is not what the others left behind.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::Value;
use wansan_iscsi::initiator::{Command, Schedule, Transfer};
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::scsi::{Cdb, cdb, opcode};
use wansan_iscsi::wire::{Lun, ScsiStatus, TaskAttribute};
use wansan_nbd::client;
use wansan_peers::trial::{Stop, require, trial};
use wansan_peers::wansan::{Attach, Target};
use wansan_san::url::IscsiUrl;
use wansan_san::{DelayedAck, Initiator, InitiatorConfig, Route};
use wansan_trace::Recorder;

use crate::faults::kill;
use crate::program::Program;
use crate::stage::{LIMIT, Stage, list, pattern, peer, wansan};

/// What the hosts write and read: a first part, whose reading has the rest read ahead, and the rest.
const BYTES: usize = 1 << 20;
const FIRST_BYTES: usize = 256 << 10;
/// What one request reads.
const READ_BYTES: usize = 16 << 10;
/// How often one host writes and the other reads.
const ROUNDS: u64 = 12;

/// Service actions of PERSISTENT RESERVE OUT (SPC-4 6.16.2), and the type of a reservation.
const REGISTER: u8 = 0x00;
const RESERVE: u8 = 0x01;
const WRITE_EXCLUSIVE: u8 = 0x01;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial(
            "hosts of which one has registered with a disk read what the others wrote",
            registered,
        ),
        trial(
            "hosts read what the holder of a reservation wrote",
            reserved,
        ),
        trial(
            "a disk that is reserved in the older way is not read ahead",
            reserved_in_the_older_way,
        ),
        trial(
            "what was read ahead is thrown away when another host changes the disk's mode",
            mode_is_changed,
        ),
        trial(
            "what was read ahead is thrown away when another host was registered for a moment",
            registered_for_a_moment,
        ),
        trial(
            "what was read ahead is thrown away when the session is another one",
            session_is_replaced,
        ),
    ]
}

/// Two hosts write and read in turns, and one of other people's initiators writes as well.
fn registered() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let (one, other) = (stage.attach(&[])?, stage.attach(&[])?);
    let mut reader = Program::connect(one.socket())?;
    let mut writer = Program::connect(other.socket())?;
    write(&mut writer, 0, &pattern(BYTES as u64, 0))?;
    read_ahead(&mut reader, &stage.target, &one)?;

    let mut third = Host::log_in(&stage.target)?;
    third.reserve_out(REGISTER, 0, [0, 1])?;
    for attach in [&one, &other] {
        until(&stage.target, attach, "shared", |disk| {
            disk["shared"] == "registered" && disk["ahead_bytes"] == 0
        })?;
    }
    let table = wansan(&["attach", "list"])?.success()?;
    let says = "another initiator has registered with the disk";
    require(table.stdout.contains(says), || table.output())?;
    for round in 1..=ROUNDS {
        let data = pattern(BYTES as u64, round);
        let (first, rest) = data.split_at(FIRST_BYTES);
        write(&mut writer, 0, first)?;
        read(&mut reader, 0, first)?;
        // Now the reader would have read the rest ahead.
        write(&mut writer, FIRST_BYTES, rest)?;
        read(&mut reader, FIRST_BYTES, rest)?;
    }
    foreign_write(&stage, 9)?;
    read(&mut reader, 0, &[9; BYTES])?;
    read(&mut writer, 0, &[9; BYTES])?;

    third.reserve_out(REGISTER, 0, [1, 0])?;
    for attach in [&one, &other] {
        until(&stage.target, attach, "shared no more", |disk| {
            disk["shared"].is_null()
        })?;
    }
    read_ahead(&mut reader, &stage.target, &one)
}

/// The holder of a reservation alone may write.
fn reserved() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let attach = stage.attach(&[])?;
    let mut reader = Program::connect(attach.socket())?;
    read_ahead(&mut reader, &stage.target, &attach)?;
    let mut holder = Host::log_in(&stage.target)?;
    holder.reserve_out(REGISTER, 0, [0, 1])?;
    holder.reserve_out(RESERVE, WRITE_EXCLUSIVE, [1, 0])?;
    until(&stage.target, &attach, "shared", |disk| {
        disk["shared"] == "registered"
    })?;
    for round in 1..=ROUNDS {
        let data = pattern(BYTES as u64, round);
        let (first, rest) = data.split_at(FIRST_BYTES);
        holder.write(0, first)?;
        read(&mut reader, 0, first)?;
        holder.write(FIRST_BYTES, rest)?;
        read(&mut reader, FIRST_BYTES, rest)?;
    }
    // Our own write is refused itself: it is not acknowledged for a flush to fail.
    let write = client::Command::Write {
        offset_bytes: 0,
        data: &[3; READ_BYTES],
        fua: false,
    };
    reader.submit(write, 0)?;
    match reader.answer() {
        Err(Stop::Failed(why)) if why.contains("not permitted") => {}
        answer => return Err(Stop::Failed(format!("another may write: {answer:?}"))),
    }
    read(&mut reader, 0, &pattern(BYTES as u64, ROUNDS))
}

fn reserved_in_the_older_way() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let attach = stage.attach(&[])?;
    let mut reader = Program::connect(attach.socket())?;
    read_ahead(&mut reader, &stage.target, &attach)?;
    let mut holder = Host::log_in(&stage.target)?;
    holder.good(&[opcode::RESERVE_6], Transfer::None)?;
    until(&stage.target, &attach, "shared", |disk| {
        disk["shared"] == "reserved" && disk["ahead_bytes"] == 0
    })?;
    holder.write(0, &[7; BYTES])?;
    holder.good(&[opcode::RELEASE_6], Transfer::None)?;
    until(&stage.target, &attach, "shared no more", |disk| {
        disk["shared"].is_null()
    })?;
    read(&mut reader, 0, &[7; BYTES])
}

/// Nobody has registered; a unit attention says that another host was there.
fn mode_is_changed() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let attach = stage.attach(&[])?;
    let mut reader = Program::connect(attach.socket())?;
    read_ahead(&mut reader, &stage.target, &attach)?;
    foreign_write(&stage, 5)?;
    for swp in ["on", "off"] {
        peer("iscsi-swp", &["--swp", swp, &stage.target.url(0)])?;
    }
    thrown_away(&stage.target, &attach)?;
    read(&mut reader, 0, &[5; BYTES])
}

/// So short a time that no answer to a look has a key in it, if it goes well; the generation has changed all the same.
fn registered_for_a_moment() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let attach = stage.attach(&[])?;
    let mut reader = Program::connect(attach.socket())?;
    read_ahead(&mut reader, &stage.target, &attach)?;
    let mut third = Host::log_in(&stage.target)?;
    third.write(0, &[6; BYTES])?;
    third.reserve_out(REGISTER, 0, [0, 1])?;
    third.reserve_out(REGISTER, 0, [1, 0])?;
    thrown_away(&stage.target, &attach)?;
    read(&mut reader, 0, &[6; BYTES])
}

/// While there is no session, the disk changes.
fn session_is_replaced() -> Result<(), Stop> {
    let stage = Stage::new()?;
    let attach = stage.attach(&[])?;
    let mut reader = Program::connect(attach.socket())?;
    read_ahead(&mut reader, &stage.target, &attach)?;
    let (portal, folder) = (stage.target.address().to_owned(), stage.folder);
    kill(stage.target.id())?;
    drop(stage.target);
    let disk = File::options()
        .write(true)
        .open(folder.path().join("disk.img"))?;
    disk.write_all_at(&[8; BYTES], 0)?;
    let target = Stage::serve(folder.path(), &portal)?;
    thrown_away(&target, &attach)?;
    read(&mut reader, 0, &[8; BYTES])
}

/// Reads until the rest is read ahead.
fn read_ahead(reader: &mut Program, target: &Target, attach: &Attach) -> Result<(), Stop> {
    for place in (0..FIRST_BYTES).step_by(READ_BYTES) {
        reader.read(place as u64, READ_BYTES)?;
    }
    until(target, attach, "read ahead", |disk| {
        disk["ahead_bytes"].as_u64() > Some(0)
    })
}

fn thrown_away(target: &Target, attach: &Attach) -> Result<(), Stop> {
    until(target, attach, "thrown away", |disk| {
        disk["ahead_bytes"] == 0
    })
}

/// Waits until a disk is listed so.
fn until(
    target: &Target,
    attach: &Attach,
    what: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Result<(), Stop> {
    let began = Instant::now();
    loop {
        let disks = list(target)?;
        let own = disks.iter().find(|disk| disk["process"] == attach.id());
        if own.is_some_and(&is_so) {
            return Ok(());
        }
        require(began.elapsed() < LIMIT, || {
            format!("not {what}: {own:?} {}", attach.log())
        })?;
        thread::sleep(Duration::from_millis(20));
    }
}

/// Reads piece by piece, as a stream that would be read ahead.
fn read(program: &mut Program, offset: usize, expected: &[u8]) -> Result<(), Stop> {
    for (number, piece) in expected.chunks(READ_BYTES).enumerate() {
        let place = offset + number * READ_BYTES;
        let data = program.read(place as u64, piece.len())?;
        require(data == piece, || format!("old data at {place}"))?;
    }
    Ok(())
}

/// Writes and flushes.
fn write(program: &mut Program, offset: usize, data: &[u8]) -> Result<(), Stop> {
    let write = client::Command::Write {
        offset_bytes: offset as u64,
        data,
        fua: false,
    };
    program.submit(write, 0)?;
    program.answer()?;
    program.submit(client::Command::Flush, 0)?;
    program.answer().map(drop)
}

/// QEMU writes all of it, over its own iSCSI session.
fn foreign_write(stage: &Stage, value: u8) -> Result<(), Stop> {
    let write = format!("write -P {value} 0 {BYTES}");
    let commands = ["-f", "raw", "-c", &write, "-c", "flush"];
    let said = peer(
        "qemu-io",
        &[&commands[..], &[&stage.target.url(0)]].concat(),
    );
    match said {
        Err(Stop::Failed(why)) if why.contains("Unknown protocol 'iscsi'") => {
            let reason = "qemu-io has no iSCSI driver (Debian package qemu-block-extra)";
            Err(Stop::NotRun(reason.to_owned()))
        }
        said => {
            let said = said?;
            require(said.contains(&format!("{BYTES}/{BYTES}")), || said.clone())
        }
    }
}

/// Another host, with a session of its own.
struct Host(Initiator);

impl Host {
    fn log_in(target: &Target) -> Result<Host, Stop> {
        let failed = |error: &dyn ToString| Stop::Failed(error.to_string());
        let url: IscsiUrl = target.url(0).parse().map_err(|error| failed(&error))?;
        let config = InitiatorConfig {
            name: "iqn.2026-01.net.example:third".to_owned(),
            reservation: None,
            isid: [0x80, 0, 0, 0, 0, 1],
            chap: None,
            wanted: Wanted::default(),
            tasks: 4,
            routes: vec![Route::to(&url)],
            multipath: false,
            schedule: Schedule::default(),
            congestion_control: None,
            delayed_ack: DelayedAck::On,
            patience: LIMIT,
            replacement_timeout: Duration::ZERO,
            tcp_interval: Duration::from_secs(1),
        };
        let session = Initiator::connect(&url, &config, Recorder::off());
        let mut host = Host(session.map_err(|error| failed(&error))?);
        // What the unit has to say of its past is said to the first commands.
        for _ in 0..8 {
            host.run(&cdb::test_unit_ready(), Transfer::None)?;
        }
        Ok(host)
    }

    fn run(&mut self, cdb: &[u8], transfer: Transfer) -> Result<ScsiStatus, Stop> {
        let mut padded = Cdb::default();
        padded[..cdb.len()].copy_from_slice(cdb);
        let command = Command {
            lun: Lun::default(),
            cdb: padded,
            attribute: TaskAttribute::Simple,
            transfer,
            user: 0,
        };
        let done = self.0.execute(command);
        let done = done.map_err(|error| Stop::Failed(error.to_string()))?;
        match done.outcome {
            Ok(answer) => Ok(answer.status),
            Err(error) => Err(Stop::Failed(error.to_string())),
        }
    }

    fn good(&mut self, cdb: &[u8], transfer: Transfer) -> Result<(), Stop> {
        let status = self.run(cdb, transfer)?;
        require(status == ScsiStatus::Good, || {
            format!("{cdb:x?}: {status:?}")
        })
    }

    /// PERSISTENT RESERVE OUT with the key that is registered and the one that is to be.
    fn reserve_out(&mut self, action: u8, kind: u8, keys: [u64; 2]) -> Result<(), Stop> {
        const LIST_BYTES: u8 = 24;
        let mut list: Vec<u8> = keys.into_iter().flat_map(u64::to_be_bytes).collect();
        list.resize(LIST_BYTES.into(), 0);
        let cdb = [
            opcode::PERSISTENT_RESERVE_OUT,
            action,
            kind,
            0,
            0,
            0,
            0,
            0,
            LIST_BYTES,
        ];
        self.good(&cdb, Transfer::Write(list))
    }

    fn write(&mut self, offset: usize, data: &[u8]) -> Result<(), Stop> {
        const BLOCK_BYTES: usize = 512;
        let (lba, blocks) = (offset / BLOCK_BYTES, data.len() / BLOCK_BYTES);
        let cdb = cdb::write(lba as u64, blocks as u32, false);
        self.good(&cdb, Transfer::Write(data.to_vec()))
    }
}
