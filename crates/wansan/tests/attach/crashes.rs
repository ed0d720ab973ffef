//! Crashes: `wansan attach` is killed while it serves a program, its journal loses what was not synced, its target
//! restarts, or loses power and what it had not flushed. What a program finds afterwards must be what a disk with a volatile cache may have kept.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use libtest_mimic::Trial;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wansan_nbd::client::Command;
use wansan_peers::trial::{Stop, trial, trial_on_request};
use wansan_peers::wansan::{Attach, Target};

use crate::faults::kill;
use crate::history::{History, SECTOR_BYTES};
use crate::power::LosingTarget;
use crate::program::Program;
use crate::stage::{DISK_BYTES, Stage, WANSAN, wansan};

/// The part of the disk that is written: so small that writes meet.
const SECTORS: usize = 512;
/// The longest write, in sectors.
const LONGEST: u32 = 32;
/// Requests of a round, at most, and how many are open at once.
const REQUESTS: u32 = 80;
const OPEN: u32 = 16;
/// Rounds of an ordinary run, of each way.
const ROUNDS: u64 = 40;
/// Rounds of all ways together, on request.
const MANY_ROUNDS: u64 = 1000;
/// Rounds with a target that loses power among them.
const MANY_POWER_LOSSES: u64 = 400;
/// The superblocks of a journal, in bytes: what is behind them is its ring.
const SUPERBLOCKS_BYTES: usize = 8192;

/// How the disk is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Journal,
    WriteBehind,
    WriteThrough,
    /// Written through two sessions.
    Multipath,
}

const WAYS: [Way; 4] = [
    Way::Journal,
    Way::WriteBehind,
    Way::WriteThrough,
    Way::Multipath,
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for way in WAYS {
        let name = format!("a disk keeps what was flushed when attach crashes: {way:?}");
        trials.push(trial(name, move || rounds(way, false, 0..ROUNDS)));
        let name = format!("a disk keeps what was flushed when its target loses power: {way:?}");
        trials.push(trial(name, move || rounds(way, true, 0..ROUNDS)));
    }
    trials.push(trial_on_request(
        "a disk keeps what was flushed in a thousand crashes",
        "it takes minutes: ask with --ignored",
        || {
            // Journals have most to lose when attach crashes.
            let [journal, others @ ..] = WAYS;
            let tenth = (MANY_ROUNDS - MANY_POWER_LOSSES) / 10;
            rounds(journal, false, 0..7 * tenth)?;
            others
                .into_iter()
                .try_for_each(|way| rounds(way, false, 0..tenth))?;
            let each = MANY_POWER_LOSSES / WAYS.len() as u64;
            WAYS.into_iter()
                .try_for_each(|way| rounds(way, true, 0..each))
        },
    ));
    trials
}

/// What serves the disk.
enum Served {
    /// A program, while it runs; the disk is a file, which the kernel keeps.
    Program(Option<Target>),
    /// A target whose disk has a volatile cache.
    Losing(LosingTarget),
}

/// A disk through all of its crashes.
struct World {
    way: Way,
    folder: tempfile::TempDir,
    portal: String,
    url: String,
    target: Served,
    history: History,
    torn: u64,
    zeroed: u64,
    trimmed: u64,
}

fn rounds(way: Way, loses_power: bool, seeds: std::ops::Range<u64>) -> Result<(), Stop> {
    let Stage { target, folder } = Stage::new()?;
    let portal = target.address().to_owned();
    let (url, target) = match loses_power {
        false => (target.url(0), Served::Program(Some(target))),
        true => {
            kill(target.id())?;
            drop(target);
            let losing = LosingTarget::start(&portal, DISK_BYTES as usize)?;
            (LosingTarget::url(&portal), Served::Losing(losing))
        }
    };
    let mut world = World {
        way,
        portal,
        url,
        target,
        folder,
        history: History::new(SECTORS),
        torn: 0,
        zeroed: 0,
        trimmed: 0,
    };
    for seed in seeds.clone() {
        let ran = world.round(&mut Pcg64Mcg::seed_from_u64(seed));
        ran.map_err(|stop| Stop::Failed(format!("round {seed}: {stop}")))?;
    }
    // Some journals have lost something, or these rounds show less than they say.
    if way == Way::Journal && world.torn == 0 {
        return Err(Stop::Failed("no journal was torn".to_owned()));
    }
    if let Served::Losing(LosingTarget { lost: 0, .. }) = world.target {
        return Err(Stop::Failed("no target lost anything".to_owned()));
    }
    if world.zeroed == 0 || world.trimmed == 0 {
        return Err(Stop::Failed("nothing was zeroed or trimmed".to_owned()));
    }
    world.end()
}

impl World {
    fn attach(&self) -> Result<Attach, Stop> {
        let journal = self.journal().display().to_string();
        let arguments = match self.way {
            Way::Journal => vec!["--journal", &journal, "--journal-size", "64MiB"],
            Way::WriteBehind => vec![],
            Way::WriteThrough => vec!["--write-through"],
            Way::Multipath => vec!["--write-through", "--multipath", "--connections", "2"],
        };
        // At the same place its session is the same, and the target ends the one before: no old write comes after.
        let socket = self.folder.path().join("socket");
        Ok(Attach::start_at(
            Path::new(WANSAN),
            &self.url,
            &socket,
            &arguments,
        )?)
    }

    fn journal(&self) -> std::path::PathBuf {
        self.folder.path().join("journal")
    }

    /// One crash, and a look at what is there after the one before.
    fn round(&mut self, random: &mut Pcg64Mcg) -> Result<(), Stop> {
        let attach = self.attach()?;
        let mut program = Program::connect(attach.socket())?;
        let disk = program.read(0, SECTORS * SECTOR_BYTES)?;
        self.history.settle(&disk, self.way == Way::Journal)?;
        if let Served::Losing(_) = self.target {
            // What the program has just seen may be in the target's cache alone.
            self.flush(&mut program)?;
        }
        let tears = self.way == Way::Journal && random.next_u32().is_multiple_of(3);
        let often = match self.target {
            Served::Program(_) => 8,
            Served::Losing(_) => 2,
        };
        let restarts = random.next_u32().is_multiple_of(often);
        let requests = random.next_u32() % REQUESTS;
        let restarts_at = restarts.then(|| random.next_u32() % REQUESTS);
        for number in 0..requests {
            if Some(number) == restarts_at {
                self.restart_target(random)?;
            }
            self.request(&mut program, random, true)?;
        }
        let mut kept = None;
        if tears {
            // Nothing drains meanwhile, which would sync the journal.
            self.kill_target(random)?;
            kept = Some(self.flushed_journal(&mut program)?);
            for _ in 0..random.next_u32() % REQUESTS {
                self.request(&mut program, random, false)?;
            }
        }
        thread::sleep(Duration::from_micros(u64::from(random.next_u32() % 3000)));
        kill(attach.id())?;
        drop(attach);
        // The whole path is without power.
        let is_cut = random.next_u32().is_multiple_of(2);
        if kept.is_none() && is_cut && matches!(self.target, Served::Losing(_)) {
            self.restart_target(random)?;
        }
        let target = self.target_settles()?;
        if self.way == Way::Journal {
            self.history.check_past(&target)?;
        }
        if let Some(kept) = kept {
            self.tear(&kept, random)?;
            self.serve()?;
        }
        Ok(())
    }

    /// Sends a request, once there is room for it.
    fn request(
        &mut self,
        program: &mut Program,
        random: &mut Pcg64Mcg,
        flushes: bool,
    ) -> Result<(), Stop> {
        // What is only in a journal that is to be torn does not.
        let survives = match self.way {
            Way::Journal => flushes,
            Way::WriteBehind => false,
            Way::WriteThrough | Way::Multipath => matches!(self.target, Served::Program(_)),
        };
        let open = 1 + random.next_u32() % OPEN;
        while let Some((answered, _)) = program.poll_answer()? {
            self.history.answered(answered, survives);
        }
        while program.open() >= open as usize {
            let (answered, _) = program.answer()?;
            self.history.answered(answered, survives);
        }
        if flushes && random.next_u32().is_multiple_of(8) {
            let number = self.history.flush();
            return program.submit(Command::Flush, number);
        }
        let count = 1 + (random.next_u32() % LONGEST) as usize;
        let first = random.next_u32() as usize % (self.history.sectors() - count + 1);
        let fua = flushes && random.next_u32().is_multiple_of(16);
        while self.history.is_busy(first, count) {
            let (answered, _) = program.answer()?;
            self.history.answered(answered, survives);
        }
        let (offset_bytes, length_bytes) =
            ((first * SECTOR_BYTES) as u64, (count * SECTOR_BYTES) as u64);
        let chosen = random.next_u32() % 4;
        if chosen < 2 && self.history.may_zero(first, count) {
            if chosen == 0 {
                self.trimmed += 1;
                let number = self.history.zero(first, count, fua);
                let trim = Command::Trim {
                    offset_bytes,
                    length_bytes,
                    fua,
                };
                return program.submit(trim, number);
            }
            self.zeroed += 1;
            let number = self.history.zero(first, count, fua);
            // The target has WRITE SAME, and a journal keeps zeros as a record: both are fast.
            let zero = Command::WriteZeroes {
                offset_bytes,
                length_bytes,
                fua,
                may_unmap: random.next_u32().is_multiple_of(2),
                fast: random.next_u32().is_multiple_of(2),
            };
            return program.submit(zero, number);
        }
        let (number, data) = self.history.write(first, count, fua);
        let write = Command::Write {
            offset_bytes,
            data: &data,
            fua,
        };
        program.submit(write, number)
    }

    /// Flushes, and returns the journal as it is then: all that it has is on the local disk.
    fn flushed_journal(&mut self, program: &mut Program) -> Result<Vec<u8>, Stop> {
        self.flush(program)?;
        Ok(fs::read(self.journal())?)
    }

    fn flush(&mut self, program: &mut Program) -> Result<(), Stop> {
        let number = self.history.flush();
        program.submit(Command::Flush, number)?;
        while program.open() > 0 {
            let (answered, _) = program.answer()?;
            self.history.answered(answered, true);
        }
        Ok(())
    }

    /// Takes away some of what the journal got since, as a loss of power may. Where its superblocks have changed, it
    /// was synced meanwhile: then nothing tells what the local disk has.
    fn tear(&mut self, kept: &[u8], random: &mut Pcg64Mcg) -> Result<(), Stop> {
        let now = fs::read(self.journal())?;
        if now[..SUPERBLOCKS_BYTES] != kept[..SUPERBLOCKS_BYTES] {
            return Ok(());
        }
        let file = File::options().write(true).open(self.journal())?;
        let before = kept.chunks(SECTOR_BYTES);
        for (place, (before, now)) in before.zip(now.chunks(SECTOR_BYTES)).enumerate() {
            if before != now && random.next_u32().is_multiple_of(3) {
                file.write_all_at(before, (place * SECTOR_BYTES) as u64)?;
                self.torn += 1;
            }
        }
        Ok(())
    }

    fn restart_target(&mut self, random: &mut Pcg64Mcg) -> Result<(), Stop> {
        self.kill_target(random)?;
        thread::sleep(Duration::from_millis(u64::from(random.next_u32() % 50)));
        self.serve()
    }

    fn kill_target(&mut self, random: &mut Pcg64Mcg) -> Result<(), Stop> {
        match &mut self.target {
            Served::Program(target) => target.take().map_or(Ok(()), |target| kill(target.id())),
            Served::Losing(target) => {
                target.cut(random);
                Ok(())
            }
        }
    }

    fn serve(&mut self) -> Result<(), Stop> {
        match &mut self.target {
            Served::Program(target) => {
                *target = Some(Stage::serve(self.folder.path(), &self.portal)?);
                Ok(())
            }
            Served::Losing(target) => target.serve(),
        }
    }

    /// What the target holds, read while it was not seen to write.
    fn target_settles(&self) -> Result<Vec<u8>, Stop> {
        let mut held = self.target_holds()?;
        loop {
            thread::sleep(Duration::from_millis(5));
            let now = self.target_holds()?;
            if now == held {
                return Ok(held);
            }
            held = now;
        }
    }

    fn target_holds(&self) -> Result<Vec<u8>, Stop> {
        let mut held = vec![0; SECTORS * SECTOR_BYTES];
        if let Served::Losing(target) = &self.target {
            return Ok(target.holds(held.len()));
        }
        File::open(self.folder.path().join("disk.img"))?.read_exact_at(&mut held, 0)?;
        Ok(held)
    }

    /// Detached, all of it is at the target.
    fn end(mut self) -> Result<(), Stop> {
        let attach = self.attach()?;
        let mut program = Program::connect(attach.socket())?;
        let disk = program.read(0, SECTORS * SECTOR_BYTES)?;
        self.history.settle(&disk, self.way == Way::Journal)?;
        drop(program);
        wansan(&["attach", "detach", &self.url])?.success()?;
        drop(attach);
        match self.target_holds()? == disk {
            true => Ok(()),
            false => Err(Stop::Failed("the target has other data".to_owned())),
        }
    }
}
