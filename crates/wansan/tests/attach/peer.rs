//! Another initiator with a reserved disk, and what the host that has attached it can do meanwhile.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use wansan_iscsi::initiator::{Answer, Command as ScsiCommand, Schedule, Transfer};
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::scsi::{Cdb, Sense, SenseKey, cdb, opcode};
use wansan_iscsi::wire::{Lun, ScsiStatus, TaskAttribute};
use wansan_peers::process::run;
use wansan_peers::program::find;
use wansan_peers::trial::{Stop, require};
use wansan_peers::wansan::Attach;
use wansan_san::load::address;
use wansan_san::url::IscsiUrl;
use wansan_san::{DelayedAck, Initiator, InitiatorConfig, Route};
use wansan_trace::Recorder;

use crate::stage::{DISK_BYTES, LIMIT, wansan};

/// Service actions of PERSISTENT RESERVE IN (SPC-4 6.15), and of PERSISTENT RESERVE OUT (6.16).
const READ_KEYS: u8 = 0;
const READ_RESERVATION: u8 = 1;
const REPORT_CAPABILITIES: u8 = 2;
pub(crate) const REGISTER: u8 = 0;
pub(crate) const RESERVE: u8 = 1;
pub(crate) const PREEMPT: u8 = 4;

pub(crate) const OWN: &str = "0xa";
pub(crate) const OTHER: &str = "0xb";

/// What a host with key 0xa registers over each of three routes.
pub(crate) const ROUTES: [u64; 3] = [0xa, 0x0100_0000_0000_000a, 0x0200_0000_0000_000a];

/// Another initiator.
pub(crate) struct Peer {
    session: Initiator,
    lun: Lun,
}

impl Peer {
    pub(crate) fn connect(url: &str) -> Result<Peer, Stop> {
        Peer::connect_as(url, "iqn.2026-01.net.example:peer", [0x80, 0, 0, 0, 0, 1])
    }

    /// As the nexus of another session, which ends (RFC 7143 6.3.5).
    pub(crate) fn connect_as(url: &str, name: &str, isid: [u8; 6]) -> Result<Peer, Stop> {
        let broken = |error: String| Stop::Failed(error);
        let url: IscsiUrl = url
            .parse()
            .map_err(|_| broken(format!("`{url}` is no URL")))?;
        let config = InitiatorConfig {
            name: name.to_owned(),
            isid,
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
    pub(crate) fn run(&mut self, cdb: Cdb, transfer: &Transfer) -> Result<(Answer, Vec<u8>), Stop> {
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

    /// The registered keys, of each nexus its own, in order.
    pub(crate) fn keys(&mut self) -> Result<Vec<u64>, Stop> {
        let bytes = 8 + 8 * 8;
        let buffer = Transfer::Read(vec![0; bytes.into()]);
        let (answer, data) = self.run(cdb::persistent_reserve_in_keys(bytes), &buffer)?;
        require(answer.status == ScsiStatus::Good, || format!("{answer:?}"))?;
        let number = |bytes: &[u8]| {
            let bytes = bytes.iter();
            bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        let length = number(&data[4..8]) as usize;
        let mut keys: Vec<u64> = data[8..][..length].chunks(8).map(number).collect();
        keys.sort_unstable();
        Ok(keys)
    }

    /// The initiator ports that are registered, by name and ISID, in order (SPC-4 6.15.5 and 7.6.4.6).
    pub(crate) fn ports(&mut self) -> Result<Vec<(String, [u8; 6])>, Stop> {
        const BYTES: u16 = 4096;
        const SEPARATOR: &str = ",i,0x";
        let buffer = Transfer::Read(vec![0; BYTES.into()]);
        let cdb = cdb::persistent_reserve_in_full_status(BYTES);
        let (answer, data) = self.run(cdb, &buffer)?;
        require(answer.status == ScsiStatus::Good, || format!("{answer:?}"))?;
        let text = String::from_utf8_lossy(&data).into_owned();
        let each = text.match_indices(SEPARATOR).filter_map(|(at, _)| {
            let name = text[..at]
                .rfind("iqn.")
                .map(|from| text[from..at].to_owned());
            let isid =
                u64::from_str_radix(text.get(at + SEPARATOR.len()..)?.get(..12)?, 16).ok()?;
            let [_, _, isid @ ..] = isid.to_be_bytes();
            Some((name?, isid))
        });
        let mut ports: Vec<_> = each.collect();
        ports.sort();
        Ok(ports)
    }

    /// PERSISTENT RESERVE OUT with its own key and the one that the action is about.
    pub(crate) fn reserve_out(
        &mut self,
        (action, kind): (u8, u8),
        keys: [u64; 2],
    ) -> Result<(), Stop> {
        const LIST_BYTES: u8 = 24;
        let mut list: Vec<u8> = keys.into_iter().flat_map(u64::to_be_bytes).collect();
        list.resize(LIST_BYTES.into(), 0);
        let mut cdb = Cdb::default();
        cdb[..3].copy_from_slice(&[opcode::PERSISTENT_RESERVE_OUT, action, kind]);
        cdb[8] = LIST_BYTES;
        let (answer, _) = self.run(cdb, &Transfer::Write(list))?;
        require(answer.status == ScsiStatus::Good, || {
            format!("service action {action:#x}: {answer:?}")
        })
    }

    /// Removes all keys that `host` has registered for its routes, as one that has registered `own`.
    pub(crate) fn preempt(&mut self, own: u64, host: u64) -> Result<(), Stop> {
        let mut keys = self.keys()?;
        keys.retain(|key| key & 0xff == host);
        keys.dedup();
        let mut each = keys.into_iter();
        each.try_for_each(|key| self.reserve_out((PREEMPT, 7), [own, key]))
    }

    /// Eight bytes of an answer to PERSISTENT RESERVE IN from `at` on.
    fn reserve_in(&mut self, action: u8, at: usize) -> Result<[u8; 8], Stop> {
        const BYTES: u8 = 64;
        let mut cdb = Cdb::default();
        cdb[..2].copy_from_slice(&[opcode::PERSISTENT_RESERVE_IN, action]);
        cdb[8] = BYTES;
        let buffer = Transfer::Read(vec![0; BYTES.into()]);
        let (answer, data) = self.run(cdb, &buffer)?;
        require(answer.status == ScsiStatus::Good, || format!("{answer:?}"))?;
        let bytes = data[at..].first_chunk();
        bytes
            .copied()
            .ok_or(Stop::Failed("a short answer".to_owned()))
    }

    /// PRGENERATION: changes of the registrations since the target was started.
    pub(crate) fn generation(&mut self) -> Result<u8, Stop> {
        self.reserve_in(READ_KEYS, 0).map(|bytes| bytes[3])
    }

    /// The type of the reservation; 0 if there is none.
    pub(crate) fn reservation_type(&mut self) -> Result<u8, Stop> {
        self.reserve_in(READ_RESERVATION, 16)
            .map(|bytes| bytes[5] & 0x0f)
    }

    /// PTPL_A: what is registered outlives a loss of power.
    pub(crate) fn persists(&mut self) -> Result<bool, Stop> {
        self.reserve_in(REPORT_CAPABILITIES, 0)
            .map(|bytes| bytes[3] & 1 == 1)
    }

    /// The keys have to be these, now or soon.
    pub(crate) fn await_keys(&mut self, expected: &[u64]) -> Result<(), Stop> {
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

    pub(crate) fn has_keys(&mut self, expected: &[u64]) -> Result<(), Stop> {
        let keys = self.keys()?;
        require(keys == expected, || {
            format!("the keys are {keys:x?}, not {expected:x?}")
        })
    }

    /// How a write, and then a read, of the last block is answered.
    pub(crate) fn writes_and_reads(&mut self) -> Result<(ScsiStatus, ScsiStatus), Stop> {
        let last = DISK_BYTES / 512 - 1;
        let data = Transfer::Write(vec![1; 512]);
        let (written, _) = self.run(cdb::write(last, 1, false), &data)?;
        let buffer = Transfer::Read(vec![0; 512]);
        let (read, _) = self.run(cdb::read(last, 1, false), &buffer)?;
        Ok((written.status, read.status))
    }

    /// It may read the disk, and write it or not.
    pub(crate) fn is_kept_off(&mut self, is_kept_off: bool) -> Result<(), Stop> {
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
pub(crate) fn await_listed(attach: &Attach, what: &str, is_there: bool) -> Result<(), Stop> {
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
pub(crate) fn writes(attach: &Attach) -> Result<bool, Stop> {
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

pub(crate) fn must_write(attach: &Attach) -> Result<(), Stop> {
    require(writes(attach)?, || {
        format!("it cannot be written: {}", attach.log())
    })
}

/// The disk can be written by its host alone, which has registered these keys, and removes them when it ends.
pub(crate) fn reserves_until_it_ends(attach: Attach, url: &str, keys: &[u64]) -> Result<(), Stop> {
    must_write(&attach)?;
    let mut peer = Peer::connect(url)?;
    peer.await_keys(keys)?;
    peer.is_kept_off(true)?;
    require(attach.stop()?.success(), || "attach failed".to_owned())?;
    peer.has_keys(&[])
}
