//! What is known of each command, however often it was sent.

use super::blocks::{NEVER, NOBODY};
use super::rights::{Nexus, Port};
use crate::command::{Content, Effect};
use crate::history::Scsi;

/// A command that an initiator wants carried out.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) unit: u8,
    pub(crate) scsi: Scsi,
    pub(crate) effect: Effect,
    /// When it was sent first; [`NEVER`] before.
    pub(crate) sent: u64,
    /// How often it was sent and may still be carried out.
    live: u32,
    /// When it could be carried out no more.
    end: u64,
    /// When it was answered with GOOD.
    acknowledged: u64,
    /// One of its blocks has landed.
    pub(crate) landed: bool,
    /// It was answered, and that says that nothing was done.
    pub(crate) refused: bool,
    /// How often it was sent since it was last refused, and altogether.
    pub(crate) tries: u32,
    pub(crate) total_tries: u32,
    /// How often it was answered with BUSY since anything else, in one session.
    pub(crate) busy: u8,
    /// Where REGISTER AND MOVE goes.
    pub(crate) moved_to: Port,
    /// Who has sent it last.
    pub(crate) nexus: Nexus,
}

/// One time that a command was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) command: u32,
    pub(crate) nexus: Nexus,
    pub(crate) unit: u8,
    pub(crate) cmd_sn: u32,
    pub(crate) sent: u64,
    /// When the target had taken it in.
    pub(crate) arrived: u64,
    /// When it could be carried out no more.
    pub(crate) ended: u64,
    /// It has, or will have, no answer to see.
    pub(crate) over: bool,
    /// The connection on which a function was answered that has ended it: no answer may follow
    /// there. One that comes on another connection may have left before; RFC 7143 §4.2.3.3 d wants
    /// targets to wait for its acknowledgement, which is a rule of its own.
    pub(crate) silenced_on: Option<usize>,
}

/// All commands, and all times that they were sent.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    pub(crate) commands: Vec<Command>,
    pub(crate) attempts: Vec<Attempt>,
}

impl Commands {
    /// Notes a command that is to be sent.
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

    /// When a command could land no more; [`NEVER`] while it can.
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

    /// Whether a command copies blocks, so that what it leaves is not its own.
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

    /// Acknowledgements of what the unit had to keep mean nothing any more: what is sent again has
    /// to be acknowledged again.
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

    /// A command is sent; gives the number of the attempt.
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

    /// An attempt can be carried out no more.
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
    /// When it could be carried out no more; [`NEVER`] while it can.
    pub(crate) fn end_time(&self) -> u64 {
        self.end
    }
}
