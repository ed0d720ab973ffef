//! The content that EXTENDED COPY may write: what a read of its source could have returned while the copy was
//! outstanding (SPC-4 6.4).

use super::commands::Commands;
use super::*;
use crate::command::ANY_LBA;

/// Copies, and the content of their sources.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// By command.
    known: Vec<Copy>,
}

#[derive(Debug)]
struct Copy {
    command: u32,
    unit: u8,
    from: u32,
    to: u32,
    /// The commands that may have written the data it read, by block.
    sources: Vec<Vec<u32>>,
}

impl Copy {
    fn source_of(&mut self, unit: u8, lba: u32) -> Option<&mut Vec<u32>> {
        let place = lba.checked_sub(self.from).filter(|_| self.unit == unit)?;
        self.sources.get_mut(place as usize)
    }

    fn note(&mut self, unit: u8, lba: u32, writer: u32) {
        if let Some(source) = self.source_of(unit, lba)
            && !source.contains(&writer)
        {
            source.push(writer);
        }
    }
}

impl Copies {
    /// A write of the blocks is sent: outstanding copies may read it.
    pub(super) fn written(&mut self, unit: u8, blocks: Blocks, command: u32, commands: &Commands) {
        let mut known = self.known.iter_mut();
        while let Some(copy) = known.find(|copy| commands.end(copy.command) == NEVER) {
            for lba in blocks.lbas() {
                copy.note(unit, lba, command);
            }
        }
    }

    /// Whether `command` may have left `found` in a block.
    pub(super) fn may_leave(
        &self,
        commands: &Commands,
        command: u32,
        lba: u32,
        found: u64,
    ) -> bool {
        self.reaches(commands, (command, lba), found, &mut Vec::new())
    }

    /// The same, except for copies already checked.
    fn reaches(
        &self,
        commands: &Commands,
        (command, lba): (u32, u32),
        found: u64,
        looked_at: &mut Vec<(u32, u32)>,
    ) -> bool {
        if command == blocks::NOBODY {
            return found == 0;
        }
        let content = match &commands.get(command).effect {
            Effect::Write { content, .. } => *content,
            Effect::CompareAndWrite { .. } => Content::Own,
            _ => return false,
        };
        match content {
            Content::Own => found == word(command, lba),
            Content::Same => found == word(command, ANY_LBA),
            Content::Zero => found == 0,
            Content::Copied { .. } => {
                if looked_at.contains(&(command, lba)) {
                    return false;
                }
                looked_at.push((command, lba));
                let mut known = self.known.iter();
                let Some(copy) = known.find(|copy| copy.command == command) else {
                    return false;
                };
                let place = lba - copy.to;
                let sources = copy.sources[place as usize].iter();
                let mut sources = sources
                    .filter(|source| **source == blocks::NOBODY || !commands.get(**source).refused);
                sources.any(|source| {
                    self.reaches(commands, (*source, copy.from + place), found, looked_at)
                })
            }
        }
    }
}

impl Oracle {
    /// A copy is sent: it may read the content of its source from now on.
    pub(super) fn copy_begins(&mut self, command: u32, now: u64) {
        let Effect::Write {
            blocks,
            content: Content::Copied { unit, from },
            ..
        } = self.commands.get(command).effect
        else {
            return;
        };
        let mut known = self.copies.known.iter();
        let place = known.position(|copy| copy.command == command);
        let place = place.unwrap_or_else(|| {
            self.copies.known.push(Copy {
                command,
                unit,
                from,
                to: blocks.lba,
                sources: vec![Vec::new(); blocks.count as usize],
            });
            self.copies.known.len() - 1
        });
        let copy = &mut self.copies.known[place];
        for lba in from..from + blocks.count {
            let source = &self.units[usize::from(unit)].blocks[lba as usize];
            for writer in source.readable(now, &self.commands) {
                copy.note(unit, lba, writer);
            }
        }
    }

    /// The medium of a unit has lost data: copies from it may read older content.
    pub(super) fn copies_read_again(&mut self, unit: u8, now: u64) {
        for place in 0..self.copies.known.len() {
            let copy = &self.copies.known[place];
            if copy.unit == unit && self.commands.end(copy.command) == NEVER {
                self.copy_begins(copy.command, now);
            }
        }
    }
}
