//! Power loss at every point of histories of many initiators, as `wansan-consistency` generates and judges
//! them: what the target has answered must be on the mediums, of which the kernel logs every write.

use std::net::SocketAddr;
use std::path::Path;

use libtest_mimic::Trial;
use wansan_consistency::history::{Scsi, Setup, Step};
use wansan_consistency::{Ending, FailureRates, History, Kept, Ledger, Served};
use wansan_peers::wansan::TARGET_NAME;

use super::kernel_trial;
use super::served::Served as Guest;
use super::write_log::{Entry, WriteLog};
use crate::stage::{BLOCK_BYTES, Stop, require};

const HISTORIES: u64 = 12;
const FIRST_SEED: u64 = 0;
/// Of the drive with the units' blocks, a MiB for each.
const DATA_MIB: u64 = 8;
/// Of the drive with each unit's log.
const LOG_MIB: u64 = 256;
const UNITS: usize = 3;
const EVENTS_BETWEEN_MARKS: u64 = 12;

pub(crate) fn trials() -> Vec<Trial> {
    vec![kernel_trial(
        "histories_outlive_power_loss_at_every_write",
        outlive_power_loss,
    )]
}

fn outlive_power_loss() -> Result<(), Stop> {
    let drives = [DATA_MIB, LOG_MIB, LOG_MIB, LOG_MIB];
    let mut guest = Guest::boot(&drives, "dm-log-writes")?;
    // A later flush must not pass an earlier one below the log: see `power_loss`.
    guest
        .guest
        .run("for disk in vda vdb vdc vdd; do echo 0 >/sys/block/$disk/queue/wbt_lat_usec; done")?;
    let mut all = Replayed::default();
    for seed in FIRST_SEED..FIRST_SEED + HISTORIES {
        run(&mut guest, seed, &mut all).map_err(|stop| match stop {
            Stop::Failed(what) => Stop::Failed(format!("seed {seed}: {what}")),
            other => other,
        })?;
    }
    println!(
        "{HISTORIES} histories, {} commands; power lost at {} writes and {} flushes of the devices, \
         {} blocks compared, {} marks",
        all.commands, all.writes, all.flushes, all.compared, all.marks
    );
    let enough = all.marks >= HISTORIES && all.flushes >= HISTORIES;
    require(enough, || "too little was tried".to_owned())
}

/// What was tried.
#[derive(Default)]
struct Replayed {
    commands: u64,
    writes: u64,
    flushes: u64,
    marks: u64,
    compared: u64,
}

/// Runs the history of a seed, and replays its logs.
fn run(guest: &mut Guest, seed: u64, all: &mut Replayed) -> Result<(), Stop> {
    let mut history = History::of_seed(seed);
    fit(&mut history);
    let setup = &history.setup;
    for (number, unit) in setup.units.iter().enumerate() {
        let (blocks, first) = (unit.blocks, number << 11);
        let log = ["vdb", "vdc", "vdd"][number];
        guest.dmsetup(&format!(
            "create data-{number} --table '0 {blocks} linear /dev/vda {first}'"
        ))?;
        guest.guest.run(&format!(
            "dd if=/dev/zero of=/dev/mapper/data-{number} bs={BLOCK_BYTES} count={blocks} conv=fsync 2>&1"
        ))?;
        guest.dmsetup(&format!(
            "create logged-{number} --table '0 {blocks} log-writes /dev/mapper/data-{number} /dev/{log}'"
        ))?;
    }
    let mut disks = Disks::start(guest, setup)?;
    let ran = history.run_against(&mut disks);
    let notes = std::mem::take(&mut disks.notes);
    let (outcome, ledger) = ran.map_err(Stop::Failed)?;
    all.commands += outcome.commands;
    if let Some(violation) = outcome.violation {
        return Err(Stop::Failed(format!(
            "{:?}: {}\n{}",
            violation.rule,
            violation.what,
            outcome.log.join("\n")
        )));
    }
    for (number, unit) in setup.units.iter().enumerate() {
        guest.dmsetup(&format!("remove logged-{number}"))?;
        guest.dmsetup(&format!("remove data-{number}"))?;
        let log = Log {
            file: guest.drive(1 + number),
            unit: number,
            blocks: usize::from(unit.blocks),
        };
        log.replay(&ledger, &notes, all)
            .map_err(|stop| match stop {
                Stop::Failed(what) => Stop::Failed(format!("{what}\n{}", outcome.log.join("\n"))),
                other => other,
            })?;
    }
    Ok(())
}

/// Leaves out of a history what these disks have not: they do not fail, keep no reservations and take no
/// discards, which the log cannot replay.
fn fit(history: &mut History) {
    history.setup.failures = FailureRates::default();
    history.setup.units.truncate(UNITS);
    for unit in &mut history.setup.units {
        unit.write_cache = true;
        unit.keeps_reservations = false;
        unit.thin = false;
    }
    for step in history
        .sessions
        .iter_mut()
        .flat_map(|script| &mut script.steps)
    {
        if let Step::Do(_, scsi) = step
            && let Scsi::Unmap { lba, blocks } = *scsi
        {
            let zeros = true;
            *scsi = Scsi::WriteSame { lba, blocks, zeros };
        }
    }
}

/// The target in its guest.
struct Disks<'a> {
    guest: &'a mut Guest,
    arguments: String,
    blocks: Vec<u16>,
    /// What must be on the mediums from each mark on.
    notes: Vec<Kept>,
    is_up: bool,
}

impl<'a> Disks<'a> {
    fn start(guest: &'a mut Guest, setup: &Setup) -> Result<Disks<'a>, Stop> {
        let mut arguments = setup.arguments();
        for number in 0..setup.units.len() {
            arguments.push(setup.lun(number, &format!("/dev/mapper/logged-{number}")));
        }
        let mut disks = Disks {
            guest,
            arguments: arguments.join(" "),
            blocks: setup.units.iter().map(|unit| unit.blocks).collect(),
            notes: Vec::new(),
            is_up: false,
        };
        disks.begin()?;
        Ok(disks)
    }

    fn begin(&mut self) -> Result<(), Stop> {
        self.guest.start_with(&self.arguments)?;
        self.is_up = true;
        Ok(())
    }
}

fn in_words(stop: Stop) -> String {
    match stop {
        Stop::Failed(what) => what,
        other => format!("{other:?}"),
    }
}

impl Served for Disks<'_> {
    fn name(&self) -> &str {
        TARGET_NAME
    }

    fn address(&self) -> SocketAddr {
        self.guest.address()
    }

    fn stop(&mut self, ending: Ending) -> Result<(), String> {
        if !std::mem::take(&mut self.is_up) {
            return Ok(());
        }
        let signal = match ending {
            Ending::Terminated => "TERM",
            Ending::Killed => "KILL",
        };
        self.guest.end(signal).map_err(in_words)
    }

    fn start(&mut self) -> Result<(), String> {
        self.begin().map_err(in_words)
    }

    fn content(&mut self, unit: usize) -> Result<Vec<u8>, String> {
        let command = format!("hexdump -v -e '64/1 \"%02x\" \"\\n\"' /dev/mapper/logged-{unit}");
        let printed = self.guest.guest.run(&command).map_err(in_words)?;
        let digits: Vec<u8> = printed
            .bytes()
            .filter(u8::is_ascii_hexdigit)
            .map(|digit| (digit as char).to_digit(16).unwrap_or(0) as u8)
            .collect();
        let bytes: Vec<u8> = (digits.as_chunks::<2>().0.iter())
            .map(|[high, low]| high << 4 | low)
            .collect();
        let wanted = usize::from(self.blocks[unit]) * BLOCK_BYTES as usize;
        match bytes.len() == wanted {
            true => Ok(bytes),
            false => Err(format!("unit {unit} has {} bytes: {printed}", bytes.len())),
        }
    }

    fn events_between_marks(&self) -> Option<u64> {
        Some(EVENTS_BETWEEN_MARKS)
    }

    fn mark(&mut self, kept: Kept) -> Result<(), String> {
        let mark = self.notes.len();
        self.notes.push(kept);
        let messages: Vec<String> = (0..self.blocks.len())
            .map(|unit| format!("dmsetup message logged-{unit} 0 mark {mark}"))
            .collect();
        let command = messages.join(" && ");
        self.guest.guest.run(&command).map_err(in_words).map(drop)
    }
}

/// The log of a unit's writes.
struct Log<'a> {
    file: &'a Path,
    unit: usize,
    blocks: usize,
}

impl Log<'_> {
    /// Replays it, and holds the medium to the note of the last mark: all of it at a mark, and behind that
    /// what each write leaves.
    fn replay(&self, ledger: &Ledger, notes: &[Kept], all: &mut Replayed) -> Result<(), Stop> {
        let block_bytes = BLOCK_BYTES as usize;
        let mut medium = vec![0; self.blocks * block_bytes];
        let mut note = None;
        let (mut writes, mut marks) = (0, 0);
        for entry in WriteLog::open(self.file)? {
            let entry = entry?;
            let changed = match &entry {
                Entry::Flush => {
                    all.flushes += 1;
                    0..0
                }
                Entry::Write { sector, data } => {
                    let first = *sector as usize;
                    medium[first * block_bytes..][..data.len()].copy_from_slice(data);
                    writes += 1;
                    first..first + data.len() / block_bytes
                }
                Entry::Mark(mark) => match mark.parse::<usize>() {
                    Ok(mark) => {
                        require(mark == marks, || format!("mark {mark} comes late"))?;
                        note = Some(&notes[mark]);
                        marks += 1;
                        0..self.blocks
                    }
                    // The kernel's own, at the end.
                    Err(_) => 0..0,
                },
            };
            let Some(note) = note else { continue };
            for lba in changed {
                let block = &medium[lba * block_bytes..][..block_bytes];
                let checked = ledger.check(note, self.unit, lba as u32, block);
                checked.map_err(|what| {
                    Stop::Failed(format!(
                        "unit {}, power lost after {writes} writes and {marks} marks, the last entry a \
                         {}: {what}",
                        self.unit,
                        entry.kind()
                    ))
                })?;
                all.compared += 1;
            }
        }
        all.writes += writes;
        all.marks += marks as u64;
        require(marks == notes.len(), || {
            format!("{marks} of {} marks are in the log", notes.len())
        })
    }
}
