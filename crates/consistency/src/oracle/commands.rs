//! Commands, and the attempts to execute them.

use super::blocks::{NEVER, NOBODY};
use super::rights::{Nexus, Port};
use crate::command::{Content, Effect};
use crate::history::Scsi;

/// A command of an initiator.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) unit: u8,
    pub(crate) scsi: Scsi,
    pub(crate) effect: Effect,
    /// When it was sent first; [`NEVER`] before.
    pub(crate) sent: u64,
    /// Attempts that may still execute.
    live: u32,
    /// When it could no longer execute.
    end: u64,
    /// When it was answered with GOOD.
    acknowledged: u64,
    /// One of its blocks has landed.
    pub(crate) landed: bool,
    /// It was rejected: nothing was done.
    pub(crate) refused: bool,
    /// How often it was sent since it was last rejected, and in total.
    pub(crate) tries: u32,
    pub(crate) total_tries: u32,
    /// Consecutive BUSY answers in one session.
    pub(crate) busy: u8,
    /// Destination of REGISTER AND MOVE.
    pub(crate) moved_to: Port,
    /// The nexus that sent it last.
    pub(crate) nexus: Nexus,
}

/// One attempt to execute a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) command: u32,
    pub(crate) nexus: Nexus,
    pub(crate) unit: u8,
    pub(crate) cmd_sn: u32,
    pub(crate) sent: u64,
    /// When the target had received it.
    pub(crate) arrived: u64,
    /// When it could no longer execute.
    pub(crate) ended: u64,
    /// It is answered, or never will be.
    pub(crate) over: bool,
    /// The connection of the answer to the function that ended it: no answer may follow there. On another connection
    /// one may have been in transit; RFC 7143 §4.2.3.3 d requires targets to wait for its acknowledgement, which is not
    /// checked here.
    pub(crate) silenced_on: Option<usize>,
}

/// All commands, and each time they were sent.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    pub(crate) commands: Vec<Command>,
    pub(crate) attempts: Vec<Attempt>,
}

impl Commands {
    /// Registers a command that will be sent.
    pub(crate) fn enter(&mut self, unit: u8, scsi: Scsi, effect: Effect, moved_to: Port) {
        self.commands.push(Command {
            unit,
            scsi,
            effect,
            sent: NEVER,
            live: 0,
            end: NEVER,
            acknowledged: NEVER,
            landed: false,
            refused: false,
            tries: 0,
            total_tries: 0,
            busy: 0,
            nexus: Nexus {
                port: 0,
                session: 0,
            },
            moved_to,
        });
    }

    pub(crate) fn get(&self, command: u32) -> &Command {
        &self.commands[command as usize]
    }

    pub(crate) fn get_mut(&mut self, command: u32) -> &mut Command {
        &mut self.commands[command as usize]
    }

    /// When a command could no longer land; [`NEVER`] while it can.
    pub(crate) fn end(&self, command: u32) -> u64 {
        match command {
            NOBODY => 0,
            command => self.get(command).end,
        }
    }

    pub(crate) fn acknowledged(&self, command: u32) -> u64 {
        match command {
            NOBODY => 0,
            command => self.get(command).acknowledged,
        }
    }

    /// Whether a command copies blocks, and so leaves words of other commands.
    pub(crate) fn copies(&self, command: u32) -> bool {
        let copied = |effect: &Effect| {
            matches!(
                effect,
                Effect::Write {
                    content: Content::Copied { .. },
                    ..
                }
            )
        };
        command != NOBODY && copied(&self.get(command).effect)
    }

    /// Acknowledgements of the unit's writes are void after a loss of data: a resent command has to be acknowledged
    /// again.
    pub(crate) fn forget_acknowledgements(&mut self, unit: u8) {
        for command in &mut self.commands {
            let written = match command.effect {
                Effect::Write { unit, .. } => unit,
                _ => command.unit,
            };
            if written == unit {
                command.acknowledged = NEVER;
            }
        }
    }

    pub(crate) fn note_acknowledged(&mut self, command: u32, now: u64) {
        let command = self.get_mut(command);
        command.acknowledged = command.acknowledged.min(now);
    }

    /// A command is sent; returns the number of the attempt.
    pub(crate) fn send(&mut self, attempt: Attempt) -> u32 {
        let command = self.get_mut(attempt.command);
        command.sent = command.sent.min(attempt.sent);
        command.live += 1;
        command.tries += 1;
        command.total_tries += 1;
        command.end = NEVER;
        if command.nexus != attempt.nexus {
            command.busy = 0;
        }
        command.nexus = attempt.nexus;
        command.refused = false;
        self.attempts.push(attempt);
        self.attempts.len() as u32 - 1
    }

    /// An attempt can no longer execute.
    pub(crate) fn end_attempt(&mut self, attempt: u32, now: u64) {
        let attempt = &mut self.attempts[attempt as usize];
        if attempt.ended != NEVER {
            return;
        }
        attempt.ended = now;
        let command = attempt.command;
        let command = self.get_mut(command);
        command.live -= 1;
        if command.live == 0 {
            command.end = now;
        }
    }
}

impl Command {
    /// When it could no longer execute; [`NEVER`] while it can.
    pub(crate) fn end_time(&self) -> u64 {
        self.end
    }
}
