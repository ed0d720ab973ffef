//! The oracle: checks what the initiators observe against the standards.
//!
//! It does not know how the target works. Its input is when commands and functions are sent and answered, when sessions
//! begin and end, and when a block changes on a medium. For each answer, it checks whether some order of the
//! outstanding commands explains it.

pub(crate) mod attentions;
pub(crate) mod blocks;
pub(crate) mod commands;
pub(crate) mod possible;
pub(crate) mod rights;

use wansan_iscsi::scsi::{Sense, SenseKey};
use wansan_iscsi::wire::ScsiStatus;

use self::attentions::{Attention, Attentions};
use self::blocks::{Bits, Block, NEVER, Wrong};
use self::commands::{Attempt, Commands};
use self::copies::Copies;
use self::possible::Possible;
use self::rights::{Change, Class, Established, Nexus, Out, Outcome, Port, Rights, class_of};
use crate::block::BLOCK_BYTES;
use crate::command::{Blocks, Content, Effect, word, writer};
use crate::history::{BIT_BLOCKS, Function, Scsi, Setup};
use crate::observer::Answered;

/// A violation of the standards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule that was broken.
    pub rule: Rule,
    /// What happened.
    pub what: String,
}

/// The oracle's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A read returns the data of the last completed write or of an outstanding one; after a power loss, that of the
    /// last write made durable by SYNCHRONIZE CACHE, FUA or a cleared WCE, or of a later one (SBC-3 4.10, 4.15).
    Read,
    /// A command does not change the medium after its answer, or after the answer of whatever ended it (SAM-5 5.6, RFC
    /// 7143 §11.5.1, §11.14, §6.3.5).
    Landing,
    /// A rejected command changes nothing (SAM-5 5.3.1).
    Refused,
    /// A write lands while its nexus may have the right to write (SPC-4 5.13.1).
    Rights,
    /// Commands conflict with reservations exactly as tabulated (SPC-4 5.13.1).
    Conflict,
    /// Each nexus for which a unit attention is established reports it once, and no other nexus does; a reset is
    /// reported first, the others in any order (SAM-5 5.14).
    Attention,
    /// The state of the unit explains how a command ends (SBC-3, SPC-4).
    Outcome,
    /// Each task has one answer, or none if aborted; each function, login and logout has one (SAM-5 5.3, RFC 7143 §6.3,
    /// §11.4, §11.6, §11.15).
    Answer,
    /// CmdSN, StatSN, DataSN and R2TSN (RFC 7143 §4.2.2).
    Numbers,
    /// Commands of a session are delivered in CmdSN order (RFC 7143 §4.2.2.1).
    Order,
    /// One end violated the protocol, according to the other end (RFC 7143).
    Protocol,
    /// A command returns a state that its unit had while the command was outstanding (SPC-4 6.13, 7.5).
    Contents,
    /// No two COMPARE AND WRITE replace the same content (SBC-3 5.2).
    Atomic,
}

/// Maximum number of outstanding changes of one unit's state.
const CHANGES: usize = 3;

/// Maximum number of possible states of one unit.
const STATES: usize = 256;

/// An outstanding task management function.
#[derive(Debug)]
struct Managed {
    nexus: Nexus,
    function: Function,
    units: Vec<u8>,
    sent: u64,
    cmd_sn: u32,
    /// The attempt that ABORT TASK names.
    task: Option<u32>,
    /// Its change of each unit's state.
    changes: Vec<(u8, u32)>,
    /// Attempts that end with its answer.
    ends: Vec<u32>,
    /// When it was answered, or when its session ended at the target; [`NEVER`] before.
    over: u64,
    answered: bool,
    /// Its answer says that nothing was done.
    refused: bool,
}

impl Managed {
    /// Whether it is a reset of the unit that was outstanding at some time from `from` to `to`.
    fn resets(&self, unit: u8, from: u64, to: u64) -> bool {
        let resets = matches!(self.function, Function::UnitReset | Function::TargetReset);
        resets && self.units.contains(&unit) && self.sent < to && self.over > from
    }

    /// Whether it affects tasks of other sessions.
    const fn affects_others(&self) -> bool {
        matches!(
            self.function,
            Function::ClearTaskSet | Function::UnitReset | Function::TargetReset
        )
    }
}

/// The unit attention that a function establishes for other sessions.
const fn establishes(function: Function) -> Option<Attention> {
    match function {
        Function::ClearTaskSet => Some(Attention::CommandsCleared),
        Function::UnitReset | Function::TargetReset => Some(Attention::Reset),
        _ => None,
    }
}

/// A PREEMPT AND ABORT that may have ended tasks.
#[derive(Debug)]
struct Preempt {
    attempt: u32,
    /// The ports whose tasks it may have ended; without an answer, all but its own.
    ports: Option<Vec<Port>>,
}

/// A session of an initiator.
#[derive(Debug)]
struct SessionView {
    nexus: Nexus,
    host: u8,
    /// Its error recovery level.
    recovery: u8,
    /// Unanswered attempts.
    open: Vec<u32>,
    /// The initiator has dropped it.
    is_lost: bool,
    /// The target has ended it.
    is_gone: bool,
    /// Sessions of the same initiator that had ended at the target before this one began.
    predecessors: Vec<u32>,
}

/// A logical unit.
#[derive(Debug)]
struct Unit {
    blocks: Vec<Block>,
    bits: Vec<Bits>,
    possible: Possible,
    /// By session.
    attentions: Vec<Attentions>,
    write_cache: bool,
    keeps_reservations: bool,
    /// No data was lost since the last power loss.
    survives: bool,
    /// When an operation on the medium failed last; 0 if none has.
    failed: u64,
    /// The medium has lost data since the target started.
    has_lost: bool,
    /// Every PREEMPT AND ABORT that ended with GOOD or is unanswered.
    preempts: Vec<Preempt>,
    /// Words that COMPARE AND WRITE has replaced, by block.
    replaced: Vec<(u32, u64)>,
}

/// How much of the target can be observed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    /// A read may return a block of which an outstanding write has changed only a part.
    pub(crate) tears_blocks: bool,
    /// The target is idle whenever an initiator retries after one of the long waits for BUSY.
    pub(crate) rests_when_busy: bool,
}

/// This many consecutive BUSY answers to one command are a violation. The initiator makes this many retries over half a
/// minute, and in virtual time all but the first few find the target idle.
const BUSY_TRIES: u8 = 20;

/// The oracle.
#[derive(Debug)]
pub(crate) struct Oracle {
    pub(crate) commands: Commands,
    units: Vec<Unit>,
    sessions: Vec<SessionView>,
    managed: Vec<Managed>,
    copies: Copies,
    next_change: u32,
    /// Outstanding changes: number, unit and attempt.
    changes: Vec<(u32, u8, u32)>,
    /// How much of the target can be observed.
    view: View,
    pub(crate) violation: Option<Violation>,
}

/// The meaning of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Good,
    Conflict,
    /// BUSY, TASK SET FULL: nothing was done, and the unit accepts the command later (SAM-5 5.3.1).
    Busy,
    Attention(Attention),
    NotReady,
    Protected,
    Illegal,
    Miscompare,
    /// The medium failed: the command may have been executed in part.
    Medium,
    /// COPY TARGET DEVICE NOT REACHABLE and the like.
    Unreachable,
    Other,
}

impl Verdict {
    fn of(answered: &Answered) -> Verdict {
        match answered.status {
            ScsiStatus::Good => return Verdict::Good,
            ScsiStatus::ReservationConflict => return Verdict::Conflict,
            ScsiStatus::Busy | ScsiStatus::TaskSetFull => return Verdict::Busy,
            _ => {}
        }
        let Some(sense) = &answered.sense else {
            return Verdict::Other;
        };
        let (code, qualifier) = (sense.additional.code, sense.additional.qualifier);
        match (sense.key, code) {
            (SenseKey::UnitAttention, _) => match Attention::of_sense(code, qualifier) {
                Some(attention) => Verdict::Attention(attention),
                None => Verdict::Other,
            },
            (SenseKey::NotReady, _) => Verdict::NotReady,
            // WRITE PROTECTED and SOFTWARE WRITE PROTECTED; 27h/07h is SPACE ALLOCATION FAILED.
            (SenseKey::DataProtect, 0x27) if qualifier != 0x07 => Verdict::Protected,
            (SenseKey::DataProtect | SenseKey::MediumError | SenseKey::HardwareError, _) => {
                Verdict::Medium
            }
            (SenseKey::IllegalRequest, _) => Verdict::Illegal,
            (SenseKey::Miscompare, _) => Verdict::Miscompare,
            (SenseKey::AbortedCommand | SenseKey::CopyAborted, _) => Verdict::Unreachable,
            _ => Verdict::Other,
        }
    }
}

impl Oracle {
    pub(crate) fn new(setup: &Setup, view: View) -> Oracle {
        let units = setup.units.iter().map(|unit| Unit {
            blocks: (0..unit.blocks).map(|_| Block::new()).collect(),
            bits: (0..BIT_BLOCKS).map(|_| Bits::default()).collect(),
            possible: Possible::new(Rights::initial(unit.write_cache)),
            attentions: Vec::new(),
            write_cache: unit.write_cache,
            keeps_reservations: unit.keeps_reservations,
            survives: false,
            failed: 0,
            has_lost: false,
            preempts: Vec::new(),
            replaced: Vec::new(),
        });
        Oracle {
            commands: Commands::default(),
            units: units.collect(),
            sessions: Vec::new(),
            managed: Vec::new(),
            copies: Copies::default(),
            next_change: 0,
            changes: Vec::new(),
            view,
            violation: None,
        }
    }

    pub(crate) fn violate(&mut self, rule: Rule, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { rule, what: what() });
        }
    }

    fn describe(&self, command: u32) -> String {
        match command {
            blocks::NOBODY => "the medium".to_owned(),
            command => {
                let found = self.commands.get(command);
                format!(
                    "#{command} {:?} on unit {} of session {}",
                    found.scsi, found.unit, found.nexus.session
                )
            }
        }
    }

    /// The sessions of an initiator that have ended at the target.
    pub(crate) fn gone_sessions(&self, host: u8) -> Vec<u32> {
        let gone = |(_, other): &(u32, &SessionView)| other.host == host && other.is_gone;
        let sessions = (0..).zip(&self.sessions).filter(gone);
        sessions.map(|(number, _)| number).collect()
    }

    /// A session has begun; its first answer implies the end of its `predecessors`. Returns its number.
    pub(crate) fn session_began(
        &mut self,
        host: u8,
        port: Port,
        recovery: u8,
        predecessors: Vec<u32>,
        now: u64,
    ) -> u32 {
        let number = self.sessions.len() as u32;
        let nexus = Nexus {
            port,
            session: number,
        };
        // A session of the same port reinstates the one before it (RFC 7143 §6.3.5), whose nexus is lost.
        for old in 0..self.sessions.len() {
            if self.sessions[old].nexus.port == port {
                self.nexus_lost(old as u32, now);
            }
        }
        self.sessions.push(SessionView {
            nexus,
            host,
            recovery,
            open: Vec::new(),
            is_lost: false,
            is_gone: false,
            predecessors,
        });
        for (place, unit) in (0..).zip(&mut self.units) {
            let mut attentions = Attentions::default();
            // POWER ON OCCURRED and I_T NEXUS LOSS OCCURRED may be reported (SAM-5 6.2, 6.3.4), and
            // so may what was pending for the port.
            for attention in [
                Attention::Reset,
                Attention::NexusLost,
                Attention::CommandsCleared,
                Attention::ModeParameters,
                Attention::ReservationsPreempted,
                Attention::ReservationsReleased,
                Attention::RegistrationsPreempted,
            ] {
                attentions.may(attention, 0);
            }
            // An outstanding function may have been executed before the session began, or will be, after the session
            // has reported these.
            let managed = self.managed.iter();
            let under_way = managed.filter(|it| it.over == NEVER && it.units.contains(&place));
            for attention in under_way.filter_map(|it| establishes(it.function)) {
                attentions.may(attention, now);
            }
            unit.attentions.push(attentions);
        }
        number
    }

    /// The nexus of the session is lost: the target releases its RESERVE (6) now or when it notices.
    fn nexus_lost(&mut self, session: u32, now: u64) {
        let nexus = self.sessions[session as usize].nexus;
        for unit in &mut self.units {
            if unit
                .possible
                .may(|rights| rights.exclusive == Some(session))
            {
                let change = self.next_change;
                self.next_change += 1;
                unit.possible.begin(change, Change::NexusLoss, nexus, now);
                // Both outcomes remain possible, as there will be no answer.
                unit.possible.abandon(change, now);
            }
        }
    }

    /// The initiator has dropped a session.
    pub(crate) fn session_lost(&mut self, session: u32, now: u64) {
        let view = &mut self.sessions[session as usize];
        view.is_lost = true;
        for attempt in std::mem::take(&mut view.open) {
            self.commands.attempts[attempt as usize].over = true;
        }
        self.nexus_lost(session, now);
    }

    /// The target has ended a session.
    pub(crate) fn session_gone(&mut self, session: u32, now: u64) {
        self.sessions[session as usize].is_gone = true;
        self.functions_over(session, now);
        self.nexus_lost(session, now);
    }

    /// The target ends the session now or later.
    pub(crate) fn session_ends(&mut self, session: u32, now: u64) {
        self.nexus_lost(session, now);
    }

    /// No command of a session can be executed any more.
    pub(crate) fn session_fenced(&mut self, session: u32, now: u64) {
        self.functions_over(session, now);
        for number in 0..self.commands.attempts.len() {
            let attempt = &self.commands.attempts[number];
            if attempt.nexus.session == session && attempt.ended == NEVER {
                self.close_attempt(number as u32, now);
            }
        }
    }

    /// A session was logged out: its tasks have ended (RFC 7143 §11.14).
    pub(crate) fn logged_out(&mut self, session: u32, now: u64) {
        self.session_fenced(session, now);
    }

    fn close_attempt(&mut self, number: u32, now: u64) {
        let attempt = self.commands.attempts[number as usize];
        let view = &mut self.sessions[attempt.nexus.session as usize];
        view.open.retain(|open| *open != number);
        self.commands.attempts[number as usize].over = true;
        self.commands.end_attempt(number, now);
        let mut changes = self.changes.iter();
        if let Some(place) = changes.position(|(_, _, made_by)| *made_by == number) {
            let (change, unit, _) = self.changes.swap_remove(place);
            self.units[usize::from(unit)].possible.abandon(change, now);
        }
    }

    /// The initiator has resent the command of an attempt as a new task with the same tag: the old task will not be
    /// answered.
    pub(crate) fn superseded(&mut self, number: u32) {
        let attempt = &mut self.commands.attempts[number as usize];
        attempt.over = true;
        let session = attempt.nexus.session as usize;
        let unit = usize::from(attempt.unit);
        self.sessions[session].open.retain(|open| *open != number);
        // A lost answer may have reported a unit attention.
        self.units[unit].attentions[session].blur();
    }

    /// An attempt will not be answered, and may or may not have been executed.
    pub(crate) fn unsure(&mut self, number: u32) {
        self.superseded(number);
    }

    /// Whether another change of a unit's state may begin: the oracle checks each order of the outstanding ones, and
    /// keeps both outcomes of the unanswered ones.
    pub(crate) fn may_change(&self, unit: u8) -> bool {
        let possible = &self.units[usize::from(unit)].possible;
        possible.pending() < CHANGES && possible.states() < STATES
    }

    /// A command is sent: the first byte of its PDU leaves.
    pub(crate) fn sent(&mut self, command: u32, session: u32, cmd_sn: u32, now: u64) -> u32 {
        let nexus = self.sessions[session as usize].nexus;
        let unit = self.commands.get(command).unit;
        let first = self.commands.get(command).sent == NEVER;
        let attempt = self.commands.send(Attempt {
            command,
            nexus,
            unit,
            cmd_sn,
            sent: now,
            arrived: NEVER,
            ended: NEVER,
            over: false,
            silenced_on: None,
        });
        self.sessions[session as usize].open.push(attempt);
        match first {
            true => self.write_begins(command, now),
            false => self.write_begins_again(command, now),
        }
        let scsi = &self.commands.get(command).scsi;
        if scsi.aborts_others() {
            let preempts = &mut self.units[usize::from(unit)].preempts;
            preempts.push(Preempt {
                attempt,
                ports: None,
            });
        }
        let change = match scsi {
            Scsi::Reserve6 => Some(Change::Reserve6),
            Scsi::Release6 => Some(Change::Release6),
            Scsi::ModeSelect {
                write_cache,
                protected,
            } => Some(Change::Mode {
                write_cache: *write_cache,
                protected: *protected,
                has_cache: self.units[usize::from(unit)].write_cache,
            }),
            Scsi::StartStop { start } => Some(Change::StartStop { start: *start }),
            Scsi::ReserveOut(out) => Some(Change::ReserveOut(Out {
                can_persist: self.units[usize::from(unit)].keeps_reservations,
                ..Out::of(out, self.commands.get(command).moved_to)
            })),
            _ => None,
        };
        if let Some(change) = change {
            self.change_begins(unit, change, nexus, attempt, now);
        }
        attempt
    }

    fn change_begins(
        &mut self,
        unit: u8,
        what: Change,
        nexus: Nexus,
        made_by: u32,
        now: u64,
    ) -> u32 {
        let change = self.next_change;
        self.next_change += 1;
        let established = self.units[usize::from(unit)]
            .possible
            .begin(change, what, nexus, now);
        self.changes.push((change, unit, made_by));
        for one in established {
            self.note_established(unit, one, nexus, |attentions, attention| {
                attentions.may(attention, now);
            });
        }
        change
    }

    /// Applies `note` to the attentions of the sessions that one is established for.
    fn note_established(
        &mut self,
        unit: u8,
        (port, attention): Established,
        by: Nexus,
        mut note: impl FnMut(&mut Attentions, Attention),
    ) {
        let attentions = self.units[usize::from(unit)].attentions.iter_mut();
        for (view, attentions) in self.sessions.iter().zip(attentions) {
            let is_hit = port == Port::MAX || view.nexus.port == port;
            if is_hit && view.nexus.session != by.session {
                note(attentions, attention);
            }
        }
    }

    fn write_begins(&mut self, command: u32, now: u64) {
        let oldest = self.oldest_open();
        self.copy_begins(command, now);
        let unit = self.commands.get(command).unit;
        match self.commands.get(command).effect.clone() {
            Effect::Write { unit, blocks, .. } => {
                self.copies.written(unit, blocks, command, &self.commands);
                for lba in blocks.lbas() {
                    let block = &mut self.units[usize::from(unit)].blocks[lba as usize];
                    block.sent(command, now, oldest, &self.commands);
                }
            }
            Effect::CompareAndWrite { blocks, .. } => {
                self.copies.written(unit, blocks, command, &self.commands);
                for lba in blocks.lbas() {
                    let block = &mut self.units[usize::from(unit)].blocks[lba as usize];
                    block.sent(command, now, oldest, &self.commands);
                }
            }
            Effect::Or { lba, bit, .. } => {
                let unit = &mut self.units[usize::from(unit)];
                unit.bits_at(lba).sent(command, bit, now);
            }
            _ => {}
        }
    }

    /// A command is resent: it may rewrite what was lost.
    fn write_begins_again(&mut self, command: u32, now: u64) {
        self.copy_begins(command, now);
        let (unit, sent) = (
            self.commands.get(command).unit,
            self.commands.get(command).sent,
        );
        match self.commands.get(command).effect {
            Effect::Write { unit, blocks, .. } => {
                self.copies.written(unit, blocks, command, &self.commands);
                for lba in blocks.lbas() {
                    self.units[usize::from(unit)].blocks[lba as usize].resent(command, sent);
                }
            }
            Effect::CompareAndWrite { blocks, .. } => {
                self.copies.written(unit, blocks, command, &self.commands);
                for lba in blocks.lbas() {
                    self.units[usize::from(unit)].blocks[lba as usize].resent(command, sent);
                }
            }
            Effect::Or { lba, .. } => self.units[usize::from(unit)].bits_at(lba).resent(command),
            _ => {}
        }
    }

    /// When the oldest open attempt was sent.
    fn oldest_open(&self) -> u64 {
        let open = self.sessions.iter().flat_map(|view| view.open.first());
        let sent = open.map(|attempt| self.commands.attempts[*attempt as usize].sent);
        sent.min().unwrap_or(NEVER)
    }

    /// The target has received the session's commands before `exp_cmd_sn`.
    pub(crate) fn arrived(&mut self, session: u32, exp_cmd_sn: u32, now: u64) {
        for attempt in &self.sessions[session as usize].open {
            let attempt = &mut self.commands.attempts[*attempt as usize];
            if attempt.arrived == NEVER && (attempt.cmd_sn.wrapping_sub(exp_cmd_sn) as i32) < 0 {
                attempt.arrived = now;
            }
        }
    }

    /// A block has changed on the medium: checks who may change it.
    pub(crate) fn landed(&mut self, unit: u8, lba: u32, found: u64, now: u64) {
        let Some(command) = writer(found) else { return };
        if command as usize >= self.commands.commands.len() {
            return;
        }
        let known = self.commands.get(command);
        let own = match known.effect {
            Effect::Write {
                unit: written,
                blocks,
                content,
                ..
            } => {
                written == unit
                    && blocks.lbas().contains(&lba)
                    && (content == Content::Same || found == word(command, lba))
            }
            Effect::CompareAndWrite { blocks, .. } => {
                known.unit == unit && blocks.lbas().contains(&lba) && found == word(command, lba)
            }
            _ => false,
        };
        if !own {
            return; // It was copied here.
        }
        if self.units[usize::from(unit)].blocks[lba as usize].has_copies(&self.commands) {
            return;
        }
        let (end, refused, nexus) = (known.end_time(), known.refused, known.nexus);
        self.commands.get_mut(command).landed = true;
        if refused {
            self.violate_command(Rule::Refused, command, || {
                format!("changed block {lba} though it was refused")
            });
        } else if end < now {
            self.violate_command(Rule::Landing, command, || {
                format!("changed block {lba} at {now}, though it was over at {end}")
            });
        }
        let possible = &self.units[usize::from(unit)].possible;
        let may = |rights: &Rights| {
            !rights.stopped
                && !rights.protected
                && rights.conflicts(Class::Writing, nexus) != Some(true)
        };
        // Rights end with the answer of the command that removes them: until then, writes already at the store may
        // land.
        if !possible.ever(possible.unsettled_since(now), may) {
            self.violate_command(Rule::Rights, command, || {
                format!("changed block {lba} at {now}, when its nexus had no right to write")
            });
        }
    }

    fn violate_command(&mut self, rule: Rule, command: u32, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            let command = self.describe(command);
            self.violate(rule, || format!("{command} {}", what()));
        }
    }
}

impl Unit {
    fn bits_at(&mut self, lba: u32) -> &mut Bits {
        let first = self.blocks.len() - usize::from(BIT_BLOCKS);
        &mut self.bits[lba as usize - first]
    }
}

mod answers;
mod contents;
pub(crate) mod copies;
pub(crate) mod kept;
mod management;
