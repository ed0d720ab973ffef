//! Power loss at every point of a load: what the target has answered to a flush or a FUA write is on the
//! medium.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use libtest_mimic::Trial;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::kernel_trial;
use super::served::{Op, Served, Session, is_good};
use super::write_log::{Entry, WriteLog};
use crate::stage::{BLOCK_BYTES, Stop, require};

/// The disk is small, so that blocks are written often.
const DISK_MIB: u64 = 8;
const DISK_BLOCKS: u64 = (DISK_MIB << 20) / BLOCK_BYTES;
const LOG_MIB: u64 = 4096;
const SESSIONS: u64 = 2;
/// Commands of a session at once.
const TASKS: usize = 4;
const MOST_BLOCKS: u64 = 16;
const MARKS: usize = 60;
const FUA_WRITES_BETWEEN_MARKS: u64 = 16;
const SEED: u64 = 15;

pub(crate) fn trials() -> Vec<Trial> {
    vec![kernel_trial(
        "what_was_flushed_outlives_power_loss_at_every_write",
        outlives_power_loss,
    )]
}

/// Sessions write, write with FUA and flush in parallel on a disk whose writes are logged. Meanwhile marks
/// are put into the log, each after a note of what had been answered by then. The log up to any entry
/// behind a mark must hold all that was noted for it.
///
/// A flush brings to the medium what a FUA write should have brought there before, so before every second
/// mark no flush is sent for a while.
fn outlives_power_loss() -> Result<(), Stop> {
    let mut served = Served::boot(&[DISK_MIB, LOG_MIB], "dm-log-writes")?;
    served.dmsetup(&format!(
        "create logged --table '0 {DISK_BLOCKS} log-writes /dev/vda /dev/vdb'"
    ))?;
    // dm-log-writes takes the writes that a flush covers when the flush comes to it. Write-back throttling
    // would let a later flush pass an earlier one below it, and the log would have their writes in an order
    // that the medium never saw.
    served
        .guest
        .run("for disk in vda vdb; do echo 0 >/sys/block/$disk/queue/wbt_lat_usec; done")?;
    served.start("file:/dev/mapper/logged")?;
    let sessions = (0..SESSIONS)
        .map(|n| served.session(&format!("initiator-{n}"), TASKS))
        .collect::<Result<Vec<_>, _>>()?;
    let answers = Answers::new();
    let course = Course::default();
    let mut notes = Vec::new();
    thread::scope(|scope| {
        let loads: Vec<_> = (0..)
            .zip(sessions)
            .map(|(n, session)| {
                let (answers, course) = (&answers, &course);
                scope.spawn(move || Load::new(n, session, answers).run(course))
            })
            .collect();
        let marked = (0..MARKS).try_for_each(|mark| {
            course.flushes.store(mark % 2 == 0, Ordering::Relaxed);
            let before = answers.lock().fua_writes;
            while answers.lock().fua_writes < before + FUA_WRITES_BETWEEN_MARKS
                && !loads.iter().any(|load| load.is_finished())
            {
                thread::sleep(Duration::from_millis(1));
            }
            notes.push(answers.lock().kept.clone());
            let message = format!("message logged 0 mark {mark}");
            served.dmsetup(&message).map(drop)
        });
        course.is_over.store(true, Ordering::Relaxed);
        let ends = loads
            .into_iter()
            .map(|load| load.join().expect("no load panics"));
        ends.collect::<Result<Vec<()>, Stop>>().and(marked)
    })
    .map_err(|stop| served.guest.beside(stop))?;
    served.kill()?;
    served.dmsetup("remove logged")?;

    let replayed = replay(WriteLog::open(served.drive(1))?, &notes)?;
    let answers = answers.lock();
    println!(
        "{} flushes and {} FUA writes answered; power lost at {} writes and {} flushes of the device, \
         {} blocks compared, {} marks",
        answers.flushes,
        answers.fua_writes,
        replayed.writes,
        replayed.flushes,
        replayed.compared,
        replayed.marks
    );
    let all = replayed.marks == MARKS && answers.flushes.min(answers.fua_writes) >= MARKS as u64;
    require(all, || "too little was tried".to_owned())
}

/// What the sessions do.
#[derive(Default)]
struct Course {
    /// They flush now and then.
    flushes: AtomicBool,
    is_over: AtomicBool,
}

/// What all sessions have been answered: versions of each block, 0 for none.
struct Answers(Mutex<Blocks>);

#[derive(Clone)]
struct Blocks {
    /// Given to each write when it is sent.
    last_version: u32,
    /// That a write was answered for.
    written: Vec<u32>,
    /// That must be on the medium, or a later one.
    kept: Vec<u32>,
    flushes: u64,
    fua_writes: u64,
}

impl Answers {
    fn new() -> Self {
        let none = vec![0; DISK_BLOCKS as usize];
        Self(Mutex::new(Blocks {
            last_version: 0,
            written: none.clone(),
            kept: none,
            flushes: 0,
            fua_writes: 0,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Blocks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A command on its way.
enum Sent {
    /// Blocks from `lba` on, all of one version.
    Write {
        lba: usize,
        blocks: usize,
        version: u32,
        fua: bool,
    },
    /// With what had been written when it was sent.
    Flush(Vec<u32>),
}

/// The load of one session, on a part of the disk of its own, as nobody knows the order of writes in
/// flight to one block.
struct Load<'a> {
    session: Session,
    answers: &'a Answers,
    first_lba: u64,
    sent: Vec<Option<Sent>>,
    random: Pcg64Mcg,
}

impl<'a> Load<'a> {
    fn new(n: u64, session: Session, answers: &'a Answers) -> Self {
        Self {
            session,
            answers,
            first_lba: n * (DISK_BLOCKS / SESSIONS),
            sent: (0..TASKS).map(|_| None).collect(),
            random: Pcg64Mcg::seed_from_u64(SEED + n),
        }
    }

    fn run(mut self, course: &Course) -> Result<(), Stop> {
        for user in 0..TASKS {
            self.send(user, course);
        }
        while !course.is_over.load(Ordering::Relaxed) {
            let (user, answer) = self.session.next()?;
            require(is_good(&answer), || format!("{answer:?}"))?;
            let user = user as usize;
            if let Some(sent) = self.sent[user].take() {
                self.answered(sent);
            }
            self.send(user, course);
        }
        Ok(())
    }

    fn send(&mut self, user: usize, course: &Course) {
        let kind = self.random.next_u32() % 10;
        let (sent, op) = if kind == 0 && course.flushes.load(Ordering::Relaxed) {
            let written = self.answers.lock().written.clone();
            (Sent::Flush(written), Op::Flush)
        } else {
            self.write(kind <= 3)
        };
        self.sent[user] = Some(sent);
        self.session.submit(op, user as u64);
    }

    fn write(&mut self, fua: bool) -> (Sent, Op) {
        let (lba, blocks) = self.idle_blocks();
        let version = {
            let mut answers = self.answers.lock();
            answers.last_version += 1;
            answers.last_version
        };
        let data = (lba..lba + blocks)
            .flat_map(|block| word(block, version).to_le_bytes().repeat(WORDS))
            .collect();
        let op = Op::Write { lba, data, fua };
        let sent = Sent::Write {
            lba: lba as usize,
            blocks: blocks as usize,
            version,
            fua,
        };
        (sent, op)
    }

    /// Some blocks that no write in flight is about.
    fn idle_blocks(&mut self) -> (u64, u64) {
        loop {
            let blocks = 1 + u64::from(self.random.next_u32()) % MOST_BLOCKS;
            let places = DISK_BLOCKS / SESSIONS - blocks + 1;
            let lba = self.first_lba + u64::from(self.random.next_u32()) % places;
            let is_idle = self.sent.iter().flatten().all(|sent| match sent {
                Sent::Flush(_) => true,
                Sent::Write {
                    lba: other,
                    blocks: others,
                    ..
                } => lba as usize >= other + others || *other >= (lba + blocks) as usize,
            });
            if is_idle {
                return (lba, blocks);
            }
        }
    }

    fn answered(&self, sent: Sent) {
        let mut answers = self.answers.lock();
        let answers = &mut *answers;
        match sent {
            Sent::Write {
                lba,
                blocks,
                version,
                fua,
            } => {
                answers.written[lba..lba + blocks].fill(version);
                if fua {
                    answers.kept[lba..lba + blocks].fill(version);
                    answers.fua_writes += 1;
                }
            }
            Sent::Flush(written) => {
                for (kept, written) in answers.kept.iter_mut().zip(written) {
                    *kept = written.max(*kept);
                }
                answers.flushes += 1;
            }
        }
    }
}

/// A block holds so many times the same word: its LBA and the version.
const WORDS: usize = BLOCK_BYTES as usize / 8;

fn word(lba: u64, version: u32) -> u64 {
    (lba << 32) | u64::from(version)
}

#[derive(Default)]
struct Replayed {
    writes: u64,
    flushes: u64,
    marks: usize,
    compared: u64,
}

/// Replays the log and compares the medium with the note of the last mark: all of it at a mark, and behind
/// that what each write leaves.
fn replay(log: WriteLog, notes: &[Vec<u32>]) -> Result<Replayed, Stop> {
    let mut medium = vec![0; (DISK_BLOCKS * BLOCK_BYTES) as usize];
    let mut replayed = Replayed::default();
    let mut note = &vec![0; DISK_BLOCKS as usize];
    for entry in log {
        let entry = entry?;
        let changed = match &entry {
            Entry::Flush => {
                replayed.flushes += 1;
                0..0
            }
            Entry::Write { sector, data } => {
                let first = *sector as usize;
                medium[first * BLOCK_BYTES as usize..][..data.len()].copy_from_slice(data);
                replayed.writes += 1;
                first..first + data.len() / BLOCK_BYTES as usize
            }
            Entry::Mark(mark) => match mark.parse::<usize>() {
                Ok(mark) => {
                    require(mark == replayed.marks, || format!("mark {mark} comes late"))?;
                    note = &notes[mark];
                    replayed.marks += 1;
                    0..note.len()
                }
                // The kernel's own, at the end.
                Err(_) => 0..0,
            },
        };
        for lba in changed {
            let block = &medium[lba * BLOCK_BYTES as usize..][..BLOCK_BYTES as usize];
            holds(lba, block, note[lba]).map_err(|what| {
                let (Replayed { writes, marks, .. }, last) = (&replayed, entry.kind());
                Stop::Failed(format!(
                    "power lost after {writes} writes and {marks} marks, the last entry a {last}: {what}"
                ))
            })?;
            replayed.compared += u64::from(note[lba] > 0);
        }
    }
    Ok(replayed)
}

/// Fails unless every word of the block is of `version` or a later one.
fn holds(lba: usize, block: &[u8], version: u32) -> Result<(), String> {
    for bytes in block.chunks_exact(8) {
        let found = u64::from_le_bytes(bytes.try_into().expect("a word has 8 bytes"));
        let is_blank = found == 0 && version == 0;
        let is_later = found >> 32 == lba as u64 && found as u32 >= version;
        if !is_blank && !is_later {
            return Err(format!(
                "block {lba} holds {found:016x}, and version {version:x} of it was kept"
            ));
        }
    }
    Ok(())
}
