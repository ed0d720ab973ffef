//! Splitting of long writes for targets that solicit little data at a time.
//!
//! A target requests a write's data with R2Ts of at most MaxBurstLength each, with up to MaxOutstandingR2T outstanding
//! (RFC 7143 §4.2.4.2, §13.13, §13.17). Many targets allow one: a write of 4 MiB in bursts of 256 KiB then takes 17
//! round trips, whatever the path's capacity. Such a write is split into several that need one round of R2Ts each, all
//! outstanding at once: two round trips.
//!
//! What that means for the caller:
//!
//! - The write completes once, when all its parts have: with the status of the first part that failed, if any. Later
//!   parts may have been written, as after any write that failed in the middle (SBC-3 guarantees nothing about the
//!   blocks of a failed WRITE).
//! - Its parts are SIMPLE tasks, which a target may carry out in any order (SAM-5 §8.6.2), so to others it is not
//!   atomic; no WRITE is promised to be. Overlapping outstanding writes have no order anyway.
//! - Only plain writes of SIMPLE tasks are split: commands that compare, verify or order are not.
//! - DPO, FUA and the group number are those of the write, in every part.
//! - Each part is an I/O of its own in trace records.

use std::collections::VecDeque;

use super::session::Full;
use super::task::{Answer, Command, Completion, TaskError, Transfer};
use crate::keys::SessionParameters;
use crate::scsi::opcode;
use crate::wire::{Residual, ScsiStatus, TaskAttribute};

/// Most outstanding parts, plus one of each write: as many as the command windows of targets that request one burst at
/// a time usually admit. Each is a copy of its data.
const MOST_PARTS: usize = 128;

/// Sits between a caller and a [`Session`](super::Session), and splits writes too long for one round of R2Ts.
///
/// 1. The caller's commands go to [`Splitter::submit`], which returns unsplit ones for the session;
/// 2. commands of [`Splitter::poll_command`] go to the session, until it returns `None`;
/// 3. the session's completions go to [`Splitter::completed`], which returns the caller's, and may make room for 2.
///
/// It must see all commands of the session, whose identifiers ([`Command::user`]) it replaces with its own. The session
/// must hold [`Splitter::session_tasks`] tasks. Each of the caller's commands has at least one outstanding there, so a
/// session that ends completes them all.
#[derive(Debug)]
pub struct Splitter {
    /// Most outstanding commands of the caller.
    tasks: usize,
    under_way: usize,
    /// The origin of each command submitted, by its number.
    given: Vec<Option<Origin>>,
    free: Vec<usize>,
    parts: usize,
    /// Commands for the session, oldest first.
    ready: VecDeque<Command>,
    wholes: Vec<Option<Whole>>,
    /// Writes with parts not submitted yet, by their index in `wholes`, oldest first.
    unfinished: VecDeque<usize>,
}

/// The origin of a command.
#[derive(Debug, Clone, Copy)]
enum Origin {
    /// The caller's, with this number.
    Caller(u64),
    /// A part of the write at this index.
    Part(usize),
}

/// A split write.
#[derive(Debug)]
struct Whole {
    command: Command,
    part_bytes: usize,
    block_bytes: usize,
    /// Start of the next part; the end of the data when there is none.
    next_bytes: usize,
    parts_under_way: usize,
    /// The worst outcome of its parts.
    outcome: Result<Answer, TaskError>,
}

impl Splitter {
    /// For a caller with at most `tasks` outstanding commands.
    #[must_use]
    pub fn new(tasks: usize) -> Self {
        Splitter {
            tasks,
            under_way: 0,
            given: Vec::new(),
            free: Vec::new(),
            parts: 0,
            ready: VecDeque::new(),
            wholes: Vec::new(),
            unfinished: VecDeque::new(),
        }
    }

    /// Tasks that a session must hold behind a splitter for `tasks` commands.
    #[must_use]
    pub fn session_tasks(tasks: usize) -> usize {
        tasks.saturating_add(MOST_PARTS)
    }

    /// Takes a command of the caller for a session with these parameters; returns it for the
    /// session if it is not split.
    ///
    /// # Errors
    /// [`Full`] returns the command: take completions first.
    pub fn submit(
        &mut self,
        mut command: Command,
        parameters: &SessionParameters,
    ) -> Result<Option<Command>, Full> {
        if self.under_way >= self.tasks {
            return Err(Full(command));
        }
        self.under_way += 1;
        if let Some(block_bytes) = block_bytes(&command) {
            let part_bytes = part_bytes(parameters);
            let is_long = command.transfer.len_bytes() as usize > part_bytes;
            if is_long && part_bytes.is_multiple_of(block_bytes) {
                self.begin(command, part_bytes, block_bytes);
                return Ok(None);
            }
        }
        command.user = self.number(Origin::Caller(command.user));
        Ok(Some(command))
    }

    /// The next command for the session.
    pub fn poll_command(&mut self) -> Option<Command> {
        if let Some(command) = self.ready.pop_front() {
            return Some(command);
        }
        if self.parts < MOST_PARTS
            && let Some(&place) = self.unfinished.front()
        {
            self.give_part(place);
        }
        self.ready.pop_front()
    }

    /// Takes a completion of the session; returns the caller's, if it was that or the last part of
    /// one.
    #[inline]
    pub fn completed(&mut self, mut completion: Completion) -> Option<Completion> {
        let number = usize::try_from(completion.user).ok()?;
        let origin = self.given.get_mut(number)?.take()?;
        self.free.push(number);
        match origin {
            Origin::Caller(user) => {
                self.under_way -= 1;
                completion.user = user;
                Some(completion)
            }
            Origin::Part(place) => self.part_completed(place, completion),
        }
    }

    /// A part of the write at `place` has completed.
    fn part_completed(&mut self, place: usize, completion: Completion) -> Option<Completion> {
        self.parts -= 1;
        let whole = self.wholes[place].as_mut()?;
        whole.parts_under_way -= 1;
        whole.take(completion.outcome);
        if whole.has_failed() {
            // Remaining parts are never submitted.
            whole.next_bytes = whole.command.transfer.len_bytes() as usize;
            self.unfinished.retain(|unfinished| *unfinished != place);
        }
        if whole.parts_under_way > 0 {
            return None;
        }
        if !whole.is_sent() {
            self.give_part(place);
            return None;
        }
        let whole = self.wholes[place].take()?;
        self.under_way -= 1;
        Some(Completion {
            user: whole.command.user,
            task: completion.task,
            transfer: whole.command.transfer,
            outcome: whole.outcome,
        })
    }

    fn begin(&mut self, command: Command, part_bytes: usize, block_bytes: usize) {
        let whole = Whole {
            command,
            part_bytes,
            block_bytes,
            next_bytes: 0,
            parts_under_way: 0,
            outcome: Ok(Answer {
                status: ScsiStatus::Good,
                residual: Residual::None,
                sense: Vec::new(),
            }),
        };
        let place = match self.wholes.iter().position(Option::is_none) {
            Some(place) => {
                self.wholes[place] = Some(whole);
                place
            }
            None => {
                self.wholes.push(Some(whole));
                self.wholes.len() - 1
            }
        };
        self.unfinished.push_back(place);
        self.give_part(place);
    }

    /// Makes the next part of the write at `place` ready; there must be one.
    fn give_part(&mut self, place: usize) {
        let number = self.number(Origin::Part(place));
        if let Some(whole) = &mut self.wholes[place] {
            self.ready.push_back(whole.next_part(number));
            self.parts += 1;
            if whole.is_sent() {
                self.unfinished.retain(|unfinished| *unfinished != place);
            }
        }
    }

    fn number(&mut self, origin: Origin) -> u64 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.given.push(None);
            self.given.len() - 1
        });
        self.given[number] = Some(origin);
        number as u64
    }
}

impl Whole {
    fn is_sent(&self) -> bool {
        self.next_bytes >= self.command.transfer.len_bytes() as usize
    }

    fn has_failed(&self) -> bool {
        !matches!(&self.outcome, Ok(answer) if answer.status == ScsiStatus::Good)
    }

    fn next_part(&mut self, user: u64) -> Command {
        let Transfer::Write(data) = &self.command.transfer else {
            unreachable!("only writes are split");
        };
        let from = self.next_bytes;
        let to = data.len().min(from + self.part_bytes);
        self.next_bytes = to;
        self.parts_under_way += 1;
        let mut cdb = self.command.cdb;
        let (first, blocks) = (from / self.block_bytes, (to - from) / self.block_bytes);
        if let Some((lba, _)) = range(&cdb) {
            set_range(&mut cdb, lba + first as u64, blocks as u32);
        }
        Command {
            lun: self.command.lun,
            cdb,
            attribute: self.command.attribute,
            transfer: Transfer::Write(data[from..to].to_vec()),
            user,
        }
    }

    /// Merges a part's outcome: the first failure stays, and residuals add up. If the session has ended, that is the
    /// outcome of the whole: a part without a response may still be executed.
    fn take(&mut self, part: Result<Answer, TaskError>) {
        if matches!(part, Err(TaskError::SessionEnded)) {
            self.outcome = part;
            return;
        }
        let before = match &self.outcome {
            Ok(answer) if answer.status == ScsiStatus::Good => answer.residual,
            _ => return,
        };
        self.outcome = part.map(|answer| Answer {
            residual: together(before, answer.residual),
            ..answer
        });
    }
}

/// The residual of two parts of a write.
fn together(one: Residual, other: Residual) -> Residual {
    match (one, other) {
        (Residual::Underflow(one), Residual::Underflow(other)) => {
            Residual::Underflow(one.saturating_add(other))
        }
        (Residual::None, other) => other,
        (one, _) => one,
    }
}

/// The data of one round of R2Ts, rounded to a power of two, so that parts are aligned for the stores behind targets.
/// Immediate data, without other unsolicited data, is ignored: it is little.
#[must_use]
pub fn part_bytes(parameters: &SessionParameters) -> usize {
    let unasked = if parameters.initial_r2t {
        0
    } else {
        parameters.first_burst_bytes
    };
    let bytes = u64::from(unasked) + parameters.solicited_bytes();
    usize::try_from(1_u64 << bytes.max(1).ilog2()).unwrap_or(usize::MAX)
}

/// The block length of a write that may be split: its data are whole blocks, as many as in its CDB.
fn block_bytes(command: &Command) -> Option<usize> {
    let Transfer::Write(data) = &command.transfer else {
        return None;
    };
    if command.attribute != TaskAttribute::Simple {
        return None;
    }
    let (lba, blocks) = range(&command.cdb)?;
    // The address of the last part must fit in the CDB's field.
    let fits = command.cdb[0] == opcode::WRITE_16 || lba + u64::from(blocks) <= 1 << 32;
    let blocks = usize::try_from(blocks).ok().filter(|blocks| *blocks > 0)?;
    let whole = data.len().is_multiple_of(blocks) && !data.is_empty();
    (fits && whole).then(|| data.len() / blocks)
}

/// First block and number of blocks of WRITE (10), (12) and (16) (SBC-3 §5.31 to §5.33).
fn range(cdb: &[u8; 16]) -> Option<(u64, u32)> {
    let long = |at: usize| u32::from_be_bytes([cdb[at], cdb[at + 1], cdb[at + 2], cdb[at + 3]]);
    match cdb[0] {
        opcode::WRITE_10 => {
            let blocks = u16::from_be_bytes([cdb[7], cdb[8]]);
            Some((long(2).into(), blocks.into()))
        }
        opcode::WRITE_12 => Some((long(2).into(), long(6))),
        opcode::WRITE_16 => {
            let lba = u64::from(long(2)) << 32 | u64::from(long(6));
            Some((lba, long(10)))
        }
        _ => None,
    }
}

/// The inverse. A part lies inside the range of its write, so both fit.
fn set_range(cdb: &mut [u8; 16], lba: u64, blocks: u32) {
    match cdb[0] {
        opcode::WRITE_10 => {
            cdb[2..6].copy_from_slice(&(lba as u32).to_be_bytes());
            cdb[7..9].copy_from_slice(&(blocks as u16).to_be_bytes());
        }
        opcode::WRITE_12 => {
            cdb[2..6].copy_from_slice(&(lba as u32).to_be_bytes());
            cdb[6..10].copy_from_slice(&blocks.to_be_bytes());
        }
        _ => {
            cdb[2..10].copy_from_slice(&lba.to_be_bytes());
            cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Wanted;
    use crate::scsi::cdb;
    use crate::wire::Lun;
    use wansan_trace::TaskTag;

    const BLOCK_BYTES: usize = 512;
    const BURST_BYTES: usize = 8192;

    /// A target that requests one burst at a time, and accepts no unsolicited data.
    fn one_r2t() -> SessionParameters {
        let wanted = Wanted::default();
        SessionParameters {
            max_connections: 1,
            initial_r2t: true,
            immediate_data: true,
            max_burst_bytes: BURST_BYTES as u32,
            first_burst_bytes: BURST_BYTES as u32,
            time2wait_s: wanted.time2wait_s,
            time2retain_s: wanted.time2retain_s,
            max_outstanding_r2t: 1,
            data_pdu_in_order: true,
            data_sequence_in_order: true,
            error_recovery_level: 0,
        }
    }

    fn write(lba: u64, bytes: usize, user: u64) -> Command {
        let data = (0..bytes).map(|at| (at / 7) as u8).collect();
        Command {
            lun: Lun::default(),
            cdb: cdb::write(lba, (bytes / BLOCK_BYTES) as u32, true),
            attribute: TaskAttribute::Simple,
            transfer: Transfer::Write(data),
            user,
        }
    }

    fn answered(command: Command, status: ScsiStatus) -> Completion {
        Completion {
            user: command.user,
            task: TaskTag(7),
            transfer: command.transfer,
            outcome: Ok(Answer {
                status,
                residual: Residual::None,
                sense: Vec::new(),
            }),
        }
    }

    fn commands(splitter: &mut Splitter) -> Vec<Command> {
        std::iter::from_fn(|| splitter.poll_command()).collect()
    }

    #[test]
    fn the_parts_are_the_write() {
        // The second begins beyond the range of WRITE (10).
        for lba in [1000, 1 << 32] {
            let whole = write(lba, 16 * BURST_BYTES + 512, 42);
            let Transfer::Write(expected) = whole.transfer.clone() else {
                panic!("it is a write");
            };
            let mut splitter = Splitter::new(1);
            splitter.submit(whole, &one_r2t()).unwrap();
            let parts = commands(&mut splitter);
            assert_eq!(parts.len(), 17);
            let mut written = vec![0; expected.len()];
            let mut done = Vec::new();
            // They may complete in any order.
            for part in parts.into_iter().rev() {
                let (first, blocks) = range(&part.cdb).unwrap();
                assert_eq!(part.cdb[1], cdb::write(0, 1, true)[1], "FUA stays");
                let Transfer::Write(data) = &part.transfer else {
                    panic!("a part is a write");
                };
                assert_eq!(data.len(), blocks as usize * BLOCK_BYTES);
                let from = (first - lba) as usize * BLOCK_BYTES;
                written[from..from + data.len()].copy_from_slice(data);
                done.extend(splitter.completed(answered(part, ScsiStatus::Good)));
            }
            assert_eq!(written, expected);
            let [done] = &done[..] else {
                panic!("one write, {} completions", done.len());
            };
            assert_eq!(done.user, 42);
            assert_eq!(done.transfer, Transfer::Write(expected));
            assert!(matches!(&done.outcome, Ok(answer) if answer.status == ScsiStatus::Good));
        }
    }

    #[test]
    fn what_fits_one_round_goes_whole() {
        let many_r2ts = SessionParameters {
            max_outstanding_r2t: 16,
            ..one_r2t()
        };
        let ordered = Command {
            attribute: TaskAttribute::Ordered,
            ..write(0, 16 * BURST_BYTES, 3)
        };
        for (command, parameters) in [
            (write(0, BURST_BYTES, 1), one_r2t()),
            // The end of the range has no address in WRITE (10).
            (
                write(u64::from(u32::MAX) - 8, 2 * BURST_BYTES, 4),
                one_r2t(),
            ),
            (write(0, 16 * BURST_BYTES, 2), many_r2ts),
            (ordered, one_r2t()),
        ] {
            let (cdb, user) = (command.cdb, command.user);
            let mut splitter = Splitter::new(1);
            let sent = splitter.submit(command, &parameters).unwrap();
            let sent = sent.expect("it goes whole");
            assert_eq!(sent.cdb, cdb);
            assert!(splitter.poll_command().is_none());
            let done = splitter.completed(answered(sent, ScsiStatus::Good));
            assert_eq!(done.map(|done| done.user), Some(user));
        }
    }

    #[test]
    fn a_part_that_fails_fails_the_write_and_stops_it() {
        let bytes = BURST_BYTES * (MOST_PARTS + 10);
        let mut splitter = Splitter::new(2);
        splitter.submit(write(0, bytes, 9), &one_r2t()).unwrap();
        let mut parts = commands(&mut splitter).into_iter();
        assert_eq!(parts.len(), MOST_PARTS);
        let failed = answered(parts.next().unwrap(), ScsiStatus::CheckCondition);
        assert!(splitter.completed(failed).is_none());
        assert!(splitter.poll_command().is_none(), "the rest stays here");
        let done: Vec<_> = parts
            .filter_map(|part| splitter.completed(answered(part, ScsiStatus::Good)))
            .collect();
        assert_eq!(done.len(), 1);
        assert!(
            matches!(&done[0].outcome, Ok(answer) if answer.status == ScsiStatus::CheckCondition)
        );
        assert_eq!(splitter.under_way, 0);
    }

    #[test]
    fn no_more_than_the_callers_tasks_and_the_bounded_parts_are_under_way() {
        let mut splitter = Splitter::new(2);
        let bytes = BURST_BYTES * MOST_PARTS;
        splitter.submit(write(0, bytes, 0), &one_r2t()).unwrap();
        splitter.submit(write(0, bytes, 1), &one_r2t()).unwrap();
        let Err(Full(back)) = splitter.submit(write(0, 512, 2), &one_r2t()) else {
            panic!("a third was taken");
        };
        assert_eq!(back.user, 2);
        let parts = commands(&mut splitter);
        assert_eq!(parts.len(), MOST_PARTS);
        // The session ends, and both writes with it, although the second has hardly begun.
        let ended = parts.into_iter().filter_map(|part| {
            let completion = answered(part, ScsiStatus::Good);
            splitter.completed(Completion {
                outcome: Err(TaskError::SessionEnded),
                ..completion
            })
        });
        let ended: Vec<_> = ended.map(|done| (done.user, done.outcome)).collect();
        assert_eq!(ended.len(), 2);
        for user in [0, 1] {
            assert!(ended.contains(&(user, Err(TaskError::SessionEnded))));
        }
        assert!(splitter.poll_command().is_none());
    }

    #[test]
    fn a_write_goes_on_while_others_fill_the_room() {
        let mut splitter = Splitter::new(2);
        let bytes = BURST_BYTES * (MOST_PARTS + 1);
        splitter.submit(write(0, bytes, 0), &one_r2t()).unwrap();
        splitter
            .submit(write(0, 3 * BURST_BYTES, 1), &one_r2t())
            .unwrap();
        let mut parts = commands(&mut splitter);
        // The second write has one part outstanding; each completion makes room for its next one.
        for left in (0..3).rev() {
            let at = parts.iter().position(|part| {
                let number = part.user as usize;
                matches!(splitter.given[number], Some(Origin::Part(1)))
            });
            let part = parts.remove(at.expect("it has a part under way"));
            let done = splitter.completed(answered(part, ScsiStatus::Good));
            assert_eq!(done.map(|done| done.user), (left == 0).then_some(1));
            parts.extend(commands(&mut splitter));
        }
    }
}
