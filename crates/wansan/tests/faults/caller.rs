//! The user of the disk: it keeps many I/Os in flight, and writes a block again only when the last
//! write to it has been acknowledged, as a real one does that cares for the order.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use wansan_iscsi::initiator::{Command, Completion, Transfer};
use wansan_iscsi::scsi::cdb;
use wansan_iscsi::wire::{Lun, Residual, ScsiStatus, TaskAttribute};
use wansan_san::sessions::{Execute, Sessions};
use wansan_trace::clock;

use crate::model::{BLOCK_BYTES, Flush, Model};

/// Writes in flight.
pub(crate) const WRITES_IN_FLIGHT: usize = 64;
/// Reads in flight beside them, so that what is wrong for a while only shows as well.
const READS_IN_FLIGHT: usize = 4;
/// Tasks that the caller's session must hold: a flush as well.
pub(crate) const TASKS: usize = WRITES_IN_FLIGHT + READS_IN_FLIGHT + 1;
/// A flush follows each this many writes.
const WRITES_PER_FLUSH: u64 = 40;
/// Length of the longest writes, in blocks: several bursts of the shorter ones negotiated.
const LONGEST_BLOCKS: u64 = 256;
/// How long a turn lasts, so that faults come when they are due.
const TURN: Duration = Duration::from_millis(5);

/// One I/O that is under way.
#[derive(Debug)]
enum Io {
    Write { range: Range<usize>, fua: bool },
    Read { range: Range<usize> },
    Flush(Flush),
}

/// The caller, with its session and what it knows of its disk.
pub(crate) struct Caller {
    sessions: Sessions,
    model: Model,
    random: Pcg64Mcg,
    under_way: HashMap<u64, Io>,
    next_user: u64,
    writes: usize,
    reads: usize,
    is_flushing: bool,
    /// Writes that have been sent.
    pub(crate) begun: u64,
    /// Writes that have been acknowledged.
    pub(crate) done: u64,
}

impl Caller {
    /// A caller of a disk that holds only zeros.
    pub(crate) fn new(sessions: Sessions, model: Model, random: Pcg64Mcg) -> Self {
        Caller {
            sessions,
            model,
            random,
            under_way: HashMap::new(),
            next_user: 0,
            writes: 0,
            reads: 0,
            is_flushing: false,
            begun: 0,
            done: 0,
        }
    }

    /// Sends as many I/Os as are to be in flight.
    pub(crate) fn fill(&mut self) -> Result<(), String> {
        while self.writes < WRITES_IN_FLIGHT {
            let Some(range) = self.idle_range() else {
                break;
            };
            let fua = self.below(16) == 0;
            let data = self.model.begin_write(range.clone());
            let cdb = cdb::write(range.start as u64, range.len() as u32, fua);
            self.send(cdb, Transfer::Write(data), Io::Write { range, fua })?;
            (self.writes, self.begun) = (self.writes + 1, self.begun + 1);
            if self.begun.is_multiple_of(WRITES_PER_FLUSH) && !self.is_flushing {
                self.is_flushing = true;
                let flush = self.model.begin_flush();
                self.send(
                    cdb::synchronize_cache(0, 0, false),
                    Transfer::None,
                    Io::Flush(flush),
                )?;
            }
        }
        while self.reads < READS_IN_FLIGHT {
            let Some(range) = self.idle_range() else {
                break;
            };
            self.model.begin_read(range.clone());
            self.send_read(range)?;
            self.reads += 1;
        }
        Ok(())
    }

    /// Sends and receives for a little while.
    pub(crate) fn turn(&mut self) -> Result<(), String> {
        let turned = self.sessions.turn(clock::now() + TURN);
        turned.map_err(|error| format!("the caller saw the session end: {error}"))?;
        while let Some((_, done)) = self.sessions.poll_completion(clock::now()) {
            self.complete(done)?;
        }
        Ok(())
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// How many connections there are now.
    pub(crate) fn connections(&self) -> usize {
        self.sessions.connections().0
    }

    /// How many commands each connection has carried, in the order of the CIDs.
    pub(crate) fn commands(&self) -> Vec<u64> {
        let tallies = self.sessions.tallies(clock::now()).into_iter();
        tallies.map(|(_, tally)| tally.commands).collect()
    }

    /// What is under way, in words.
    pub(crate) fn in_words(&self) -> String {
        format!(
            "{} writes, {} reads and {} flush under way after {} of {} writes and {:?}",
            self.writes,
            self.reads,
            u8::from(self.is_flushing),
            self.done,
            self.begun,
            self.sessions.recoveries()
        )
    }

    /// Ends the session as a caller does that is done, or by just going away.
    pub(crate) fn leave(self, politely: bool) -> Model {
        if politely {
            let _ = self.sessions.logout();
        }
        self.model
    }

    fn send(&mut self, cdb: cdb::Cdb, transfer: Transfer, io: Io) -> Result<(), String> {
        let user = self.next_user;
        self.next_user += 1;
        let command = Command {
            lun: Lun::default(),
            cdb,
            attribute: TaskAttribute::Simple,
            transfer,
            user,
        };
        self.sessions
            .submit(command, clock::now())
            .map_err(|full| full.to_string())?;
        self.under_way.insert(user, io);
        Ok(())
    }

    fn send_read(&mut self, range: Range<usize>) -> Result<(), String> {
        let buffer = vec![0; range.len() * BLOCK_BYTES];
        let cdb = cdb::read(range.start as u64, range.len() as u32, false);
        self.send(cdb, Transfer::Read(buffer), Io::Read { range })
    }

    fn complete(&mut self, done: Completion) -> Result<(), String> {
        let Some(io) = self.under_way.remove(&done.user) else {
            return Err(format!("I/O {} was completed twice", done.user));
        };
        if let Some(failure) = failure(&done) {
            return Err(format!("the caller saw an error: {io:.60?}: {failure}"));
        }
        match io {
            Io::Write { range, fua } => {
                self.model.acknowledge_write(range, fua);
                (self.writes, self.done) = (self.writes - 1, self.done + 1);
            }
            Io::Flush(flush) => {
                self.model.acknowledge_flush(&flush);
                self.is_flushing = false;
            }
            Io::Read { range } => {
                self.reads -= 1;
                let data = done.transfer.into_buffer();
                let read = self.model.end_read(range, &data);
                read.map_err(|wrong| format!("in the round: {wrong}"))?;
            }
        }
        Ok(())
    }

    /// A range on which nothing is under way, mostly a short one.
    fn idle_range(&mut self) -> Option<Range<usize>> {
        /// Tries before the disk is taken to be full of I/Os.
        const TRIES: usize = 64;
        (0..TRIES).find_map(|_| {
            let longest = if self.below(8) == 0 {
                LONGEST_BLOCKS
            } else {
                16
            };
            let length = 1 + self.below(longest) as usize;
            let start = self.below((self.model.blocks() - length) as u64 + 1) as usize;
            let range = start..start + length;
            self.model.is_idle(&range).then_some(range)
        })
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }
}

/// Reads the whole disk over a session of its own, and checks every block.
pub(crate) fn check_all(sessions: &mut impl Execute, model: &Model) -> Result<(), String> {
    let at_once = LONGEST_BLOCKS as usize;
    for start in (0..model.blocks()).step_by(at_once) {
        let range = start..(start + at_once).min(model.blocks());
        let cdb = cdb::read(start as u64, range.len() as u32, false);
        let transfer = Transfer::Read(vec![0; range.len() * BLOCK_BYTES]);
        let done = execute(sessions, cdb, &transfer)?;
        let data = done.transfer.into_buffer();
        let checked = model.check(range, &data);
        checked.map_err(|wrong| format!("after the round: {wrong}"))?;
    }
    Ok(())
}

/// Runs one command at a time, past what the unit has to say of its past (unit attentions).
pub(crate) fn execute(
    sessions: &mut impl Execute,
    cdb: cdb::Cdb,
    transfer: &Transfer,
) -> Result<Completion, String> {
    /// More unit attentions than a target queues.
    const TRIES: usize = 8;
    let mut failed = String::new();
    for _ in 0..TRIES {
        let command = Command {
            lun: Lun::default(),
            cdb,
            attribute: TaskAttribute::Simple,
            transfer: transfer.clone(),
            user: 0,
        };
        let done = sessions
            .execute(command)
            .map_err(|error| error.to_string())?;
        match failure(&done) {
            None => return Ok(done),
            Some(failure) => failed = failure,
        }
    }
    Err(failed)
}

/// Why a command has not done all it should.
fn failure(done: &Completion) -> Option<String> {
    match &done.outcome {
        Err(error) => Some(error.to_string()),
        Ok(answer) if answer.status != ScsiStatus::Good => Some(format!(
            "{:?} with sense data {:02x?}",
            answer.status, answer.sense
        )),
        Ok(answer) if answer.residual != Residual::None => Some(format!("{:?}", answer.residual)),
        Ok(_) => None,
    }
}
