//! What a read of a block may return. Reads and writes of a block are intervals, from when they are sent until they can
//! no longer execute. Overlapping commands with the task attribute SIMPLE may execute in any order (SAM-5 8.6), others
//! execute in sequence.

use super::commands::Commands;

/// Never, or not yet.
pub(crate) const NEVER: u64 = u64::MAX;

/// One command that writes a block.
#[derive(Debug, Clone, Copy)]
struct Writer {
    command: u32,
    sent: u64,
    /// The time from which no read may return older content: when it was acknowledged or read.
    visible: u64,
    /// It survives a power loss.
    durable: bool,
    /// When a power loss or failed write-back may last have lost it; 0 if never.
    forgotten: u64,
    /// When it had been acknowledged, if a failed write-back may have lost it since: a flush that ends
    /// with GOOD proves that it was not lost.
    claimed: u64,
}

impl Writer {
    fn new(command: u32, sent: u64) -> Writer {
        Writer {
            command,
            sent,
            visible: NEVER,
            durable: false,
            forgotten: 0,
            claimed: NEVER,
        }
    }

    /// The command is retransmitted. That its first write is durable does not make the second durable.
    fn resent(&mut self) {
        self.forgotten = 0;
        self.durable = false;
    }

    /// The command was answered with GOOD; if `durable`, its data are on the medium whatever was lost before.
    fn acknowledged(&mut self, durable: bool, now: u64) {
        if self.forgotten > 0 && !durable {
            return;
        }
        self.forgotten = 0;
        self.visible = self.visible.min(now);
        self.durable |= durable;
    }

    /// A flush that was sent at `sent` ended with GOOD: writes acknowledged before it are on the medium
    /// (SBC-3 5.21).
    fn flushed(&mut self, sent: u64, commands: &Commands) {
        let acknowledged = match self.forgotten {
            0 => commands.acknowledged(self.command),
            _ => self.claimed,
        };
        if acknowledged < sent {
            self.forgotten = 0;
            self.durable = true;
            self.visible = self.visible.min(acknowledged);
        }
    }

    /// It may be lost unless it is durable.
    fn forget(&mut self, claimed: u64, now: u64) {
        if !self.durable {
            self.visible = NEVER;
            self.forgotten = now;
            self.claimed = claimed;
        }
    }

    /// A write-back failed: its data may be lost unless durable.
    fn write_back_failed(&mut self, commands: &Commands, now: u64) {
        let claimed = match self.forgotten {
            0 => commands.acknowledged(self.command),
            _ => self.claimed,
        };
        self.forget(claimed, now);
    }
}

/// A read that returned a command's data.
#[derive(Debug, Clone, Copy)]
struct Seen {
    command: u32,
    sent: u64,
    answered: u64,
}

/// The command number of the initial content.
pub(crate) const NOBODY: u32 = u32::MAX;

/// Reads remembered per block; fewer only weaken the check.
const REMEMBERED: usize = 8;

/// A block: the commands that may have written it, and reads of it.
#[derive(Debug)]
pub(crate) struct Block {
    writers: Vec<Writer>,
    seen: Vec<Seen>,
}

/// Why a read was not allowed to return its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// No command sent by then has written it.
    FromNowhere,
    /// It returned content that was overwritten before the read was sent.
    Stale {
        /// The command that overwrote it.
        by: u32,
    },
    /// An earlier read had returned other content, after which this one can no longer have landed.
    Returned {
        /// The command whose content the earlier read returned.
        by: u32,
    },
}

impl Block {
    pub(crate) fn new() -> Block {
        Block {
            writers: vec![Writer {
                visible: 0,
                durable: true,
                ..Writer::new(NOBODY, 0)
            }],
            seen: Vec::new(),
        }
    }

    /// A command that writes it is sent, for the first time.
    pub(crate) fn sent(&mut self, command: u32, now: u64, oldest_read: u64, commands: &Commands) {
        if self.writers.len() >= 16 {
            self.prune(oldest_read, commands);
        }
        self.writers.push(Writer::new(command, now));
    }

    /// Drops writers whose content no later read can return, not even after a power loss.
    fn prune(&mut self, oldest_read: u64, commands: &Commands) {
        let covers = |x: &Writer| x.durable && x.visible < oldest_read;
        let newest = self
            .writers
            .iter()
            .filter(|x| covers(x))
            .map(|x| x.sent)
            .max();
        let Some(newest) = newest else { return };
        self.writers.retain(|w| commands.end(w.command) >= newest);
    }

    /// The command was answered with GOOD.
    pub(crate) fn acknowledged(&mut self, command: u32, durable: bool, now: u64) {
        let mut writers = self.writers.iter_mut();
        if let Some(writer) = writers.find(|writer| writer.command == command) {
            writer.acknowledged(durable, now);
        }
    }

    /// The command is resent; it was first sent at `sent`, and may have been dropped since.
    pub(crate) fn resent(&mut self, command: u32, sent: u64) {
        let mut writers = self.writers.iter_mut();
        match writers.find(|writer| writer.command == command) {
            Some(writer) => writer.resent(),
            None => self.writers.push(Writer::new(command, sent)),
        }
    }

    /// The command was rejected: it is no longer a writer. Returns whether a read has returned its content
    /// nevertheless.
    pub(crate) fn refused(&mut self, command: u32) -> bool {
        self.writers.retain(|writer| writer.command != command);
        self.seen.iter().any(|seen| seen.command == command)
    }

    /// A flush that was sent at `sent` was answered with GOOD.
    pub(crate) fn flushed(&mut self, sent: u64, commands: &Commands) {
        for writer in &mut self.writers {
            writer.flushed(sent, commands);
        }
    }

    /// After a power loss, acknowledged content may be lost unless it is durable.
    pub(crate) fn power_lost(&mut self, now: u64) {
        for writer in &mut self.writers {
            writer.forget(NEVER, now);
        }
        self.seen.clear();
    }

    /// The same after a failed write-back, but a later flush that succeeds proves that it is not lost.
    pub(crate) fn write_back_failed(&mut self, commands: &Commands, now: u64) {
        for writer in &mut self.writers {
            writer.write_back_failed(commands, now);
        }
        self.seen.clear();
    }

    /// The target was restarted: its flushes prove nothing about earlier losses.
    pub(crate) fn restarted(&mut self) {
        for writer in &mut self.writers {
            writer.claimed = NEVER;
        }
    }

    /// Whether a read from `sent` to `now` may return the content of a candidate; records it if there is only one. With
    /// `survives`, no data were lost since the last power loss.
    pub(crate) fn read(
        &mut self,
        sent: u64,
        now: u64,
        commands: &Commands,
        survives: bool,
        is_candidate: impl Fn(u32) -> bool,
    ) -> Result<(), Wrong> {
        let mut found = None;
        let mut many = false;
        let mut wrong = Wrong::FromNowhere;
        for (place, writer) in self.writers.iter().enumerate() {
            if writer.sent >= now || !is_candidate(writer.command) {
                continue;
            }
            match self.judge(writer, sent, commands) {
                Ok(()) => {
                    many |= found.is_some();
                    found = Some(place);
                }
                Err(why) => wrong = why,
            }
        }
        let place = found.ok_or(wrong)?;
        // A read that overlaps a loss may have returned content that is lost now.
        if !many && self.writers[place].forgotten < sent {
            let writer = &mut self.writers[place];
            writer.visible = writer.visible.min(now);
            // Content that survived a power loss is durable.
            writer.durable |= writer.forgotten > 0 && survives;
            let command = writer.command;
            if self.seen.len() == REMEMBERED {
                self.seen.remove(0);
            }
            self.seen.push(Seen {
                command,
                sent,
                answered: now,
            });
        }
        Ok(())
    }

    /// Whether a read from `sent` to `now` may return the content of a candidate.
    pub(crate) fn may_hold(
        &self,
        sent: u64,
        now: u64,
        commands: &Commands,
        is_candidate: impl Fn(u32) -> bool,
    ) -> bool {
        self.writers.iter().any(|writer| {
            writer.sent < now
                && is_candidate(writer.command)
                && self.judge(writer, sent, commands).is_ok()
        })
    }

    /// The commands whose content a read sent now may return.
    pub(crate) fn readable(&self, now: u64, commands: &Commands) -> impl Iterator<Item = u32> {
        let readable = move |writer: &&Writer| self.judge(writer, now, commands).is_ok();
        self.writers
            .iter()
            .filter(readable)
            .map(|writer| writer.command)
    }

    fn judge(&self, writer: &Writer, sent: u64, commands: &Commands) -> Result<(), Wrong> {
        let end = commands.end(writer.command);
        let mut later = self.writers.iter();
        if let Some(x) = later.find(|x| x.visible < sent && x.sent > end) {
            return Err(Wrong::Stale { by: x.command });
        }
        let before = |seen: &&Seen| {
            seen.answered < sent && seen.command != writer.command && end < seen.sent
        };
        match self.seen.iter().find(before) {
            Some(seen) => Err(Wrong::Returned { by: seen.command }),
            None => Ok(()),
        }
    }

    /// Commands whose content may survive a power loss now: no durable write has replaced it.
    pub(crate) fn survivors(&self, commands: &Commands) -> Vec<u32> {
        let is_replaced = |writer: &Writer| {
            let end = commands.end(writer.command);
            self.writers.iter().any(|x| x.durable && x.sent > end)
        };
        let left = self.writers.iter().filter(|writer| !is_replaced(writer));
        left.map(|writer| writer.command).collect()
    }

    /// Whether something may have been copied to it.
    pub(crate) fn has_copies(&self, commands: &Commands) -> bool {
        self.writers
            .iter()
            .any(|writer| commands.copies(writer.command))
    }
}

/// A block whose bits are set one by one by ORWRITE, each by its own command.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    writers: Vec<(u32, Writer)>,
}

impl Bits {
    pub(crate) fn sent(&mut self, command: u32, bit: u32, now: u64) {
        self.writers.push((bit, Writer::new(command, now)));
    }

    pub(crate) fn acknowledged(&mut self, command: u32, durable: bool, now: u64) {
        for (_, writer) in &mut self.writers {
            if writer.command == command {
                writer.acknowledged(durable, now);
            }
        }
    }

    pub(crate) fn resent(&mut self, command: u32) {
        for (_, writer) in &mut self.writers {
            if writer.command == command {
                writer.resent();
            }
        }
    }

    pub(crate) fn refused(&mut self, command: u32) {
        self.writers.retain(|(_, writer)| writer.command != command);
    }

    pub(crate) fn flushed(&mut self, sent: u64, commands: &Commands) {
        for (_, writer) in &mut self.writers {
            writer.flushed(sent, commands);
        }
    }

    /// The durable bits.
    pub(crate) fn durable(&self) -> Vec<u32> {
        let durable = self.writers.iter().filter(|(_, writer)| writer.durable);
        durable.map(|(bit, _)| *bit).collect()
    }

    pub(crate) fn power_lost(&mut self, now: u64) {
        for (_, writer) in &mut self.writers {
            writer.forget(NEVER, now);
        }
    }

    pub(crate) fn write_back_failed(&mut self, commands: &Commands, now: u64) {
        for (_, writer) in &mut self.writers {
            writer.write_back_failed(commands, now);
        }
    }

    pub(crate) fn restarted(&mut self) {
        for (_, writer) in &mut self.writers {
            writer.claimed = NEVER;
        }
    }

    /// Whether a read from `sent` to `now` may return these bits.
    pub(crate) fn read(&mut self, sent: u64, now: u64, bits: &[u8]) -> Result<(), Wrong> {
        let mut explained = 0;
        for (bit, writer) in &mut self.writers {
            let is_set = bits[*bit as usize / 8] & 1 << (*bit % 8) != 0;
            if is_set && writer.sent < now {
                explained += 1;
                writer.visible = writer.visible.min(now);
            } else if !is_set && writer.visible < sent {
                return Err(Wrong::Stale { by: writer.command });
            }
        }
        let set: u32 = bits.iter().map(|byte| byte.count_ones()).sum();
        match explained == set {
            true => Ok(()),
            false => Err(Wrong::FromNowhere),
        }
    }
}
