//! What a request may ask for: servers refuse the rest, clients do not send it.

use crate::Export;
use crate::wire::{CommandCode, CommandFlags, Errno, Replies, RequestHeader, StatusQuery};

/// What both ends agreed on, by which requests are judged.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) export: Export,
    pub(crate) replies: Replies,
    /// `base:allocation` was chosen for the export.
    pub(crate) has_status: bool,
}

/// Why a request fails before anybody tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) errno: Errno,
    /// The same for a human being.
    pub(crate) text: &'static str,
}

impl Refusal {
    pub(crate) const fn invalid(text: &'static str) -> Self {
        let errno = Errno::Inval;
        Refusal { errno, text }
    }
}

/// An unknown command gets `NBD_EINVAL` ("Error values").
const UNKNOWN: Refusal = Refusal::invalid("the command is unknown");

impl Rules {
    pub(crate) fn is_extended(&self) -> bool {
        self.replies == Replies::Extended
    }

    /// Judges a request by its header.
    pub(crate) fn check(&self, header: &RequestHeader) -> Result<(), Refusal> {
        self.check_offered(header.command)?;
        self.check_flags(header)?;
        match header.command {
            CommandCode::Read => {
                self.check_range(header, Errno::Inval)?;
                self.check_payload(header, self.too_long_read())
            }
            CommandCode::Write => {
                self.check_range(header, Errno::NoSpc)?;
                self.check_payload(header, Errno::Inval)
            }
            CommandCode::WriteZeroes => self.check_range(header, Errno::NoSpc),
            CommandCode::BlockStatus if header.flags.has(CommandFlags::PAYLOAD_LEN) => {
                // Its range is in the payload, which is judged when it is there.
                if header.length_bytes == StatusQuery::BYTES as u64 {
                    Ok(())
                } else {
                    Err(Refusal::invalid("the payload names no context, or several"))
                }
            }
            CommandCode::Trim | CommandCode::Cache | CommandCode::BlockStatus => {
                self.check_range(header, Errno::Inval)
            }
            CommandCode::Flush if header.offset_bytes != 0 || header.length_bytes != 0 => Err(
                Refusal::invalid("a flush has neither an offset nor a length"),
            ),
            CommandCode::Flush => Ok(()),
            CommandCode::Disc | CommandCode::Other(_) => Err(UNKNOWN),
        }
    }

    /// Whether the export takes that command.
    fn check_offered(&self, command: CommandCode) -> Result<(), Refusal> {
        let abilities = self.export.abilities;
        let is_write = matches!(
            command,
            CommandCode::Write | CommandCode::Trim | CommandCode::WriteZeroes
        );
        if is_write && abilities.read_only {
            return Err(Refusal {
                errno: Errno::Perm,
                text: "the export is read-only",
            });
        }
        let is_offered = match command {
            CommandCode::Read | CommandCode::Write => true,
            CommandCode::Flush => abilities.flush,
            CommandCode::Trim => abilities.trim,
            CommandCode::Cache => abilities.cache,
            CommandCode::WriteZeroes => abilities.write_zeroes,
            CommandCode::BlockStatus => self.has_status,
            CommandCode::Disc | CommandCode::Other(_) => return Err(UNKNOWN),
        };
        if is_offered {
            Ok(())
        } else {
            Err(Refusal::invalid("the command is not offered here"))
        }
    }

    /// Whether the flags are among those of the command ("Command flags").
    fn check_flags(&self, header: &RequestHeader) -> Result<(), Refusal> {
        let abilities = self.export.abilities;
        let is_extended = self.is_extended();
        // All commands may have FUA, which means nothing where nothing is written.
        let fua = CommandFlags::NONE.with_if(abilities.fua, CommandFlags::FUA);
        let allowed = match header.command {
            CommandCode::Read => fua.with_if(self.replies != Replies::Simple, CommandFlags::DF),
            CommandCode::Write => fua.with_if(is_extended, CommandFlags::PAYLOAD_LEN),
            CommandCode::WriteZeroes => fua
                .with(CommandFlags::NO_HOLE)
                .with_if(abilities.fast_zero, CommandFlags::FAST_ZERO),
            CommandCode::BlockStatus => fua
                .with(CommandFlags::REQ_ONE)
                .with_if(is_extended, CommandFlags::PAYLOAD_LEN),
            _ => fua,
        };
        if header.flags.without(allowed) != CommandFlags::NONE {
            return Err(Refusal::invalid(
                "the command does not take such flags here",
            ));
        }
        let has_payload = !is_extended || header.flags.has(CommandFlags::PAYLOAD_LEN);
        if header.command == CommandCode::Write && !has_payload {
            return Err(Refusal::invalid("a write has a payload"));
        }
        Ok(())
    }

    /// Whether the range is not empty, aligned and within the export ("Size constraints").
    fn check_range(&self, header: &RequestHeader, past_end: Errno) -> Result<(), Refusal> {
        let RequestHeader {
            offset_bytes,
            length_bytes,
            ..
        } = *header;
        if length_bytes == 0 {
            return Err(Refusal::invalid("the range is empty"));
        }
        let block = &self.export.block;
        if !block.is_aligned(offset_bytes) || !block.is_aligned(length_bytes) {
            return Err(Refusal::invalid(
                "the range is not aligned to the minimum block size",
            ));
        }
        if !self.export.contains(offset_bytes, length_bytes) {
            return Err(Refusal {
                errno: past_end,
                text: "the range goes beyond the end of the export",
            });
        }
        Ok(())
    }

    /// Whether a payload is not longer than the maximum.
    fn check_payload(&self, header: &RequestHeader, too_long: Errno) -> Result<(), Refusal> {
        if header.length_bytes <= u64::from(self.export.block.maximum_bytes) {
            return Ok(());
        }
        Err(Refusal {
            errno: too_long,
            text: "the range is longer than the maximum payload",
        })
    }

    /// The standard has `NBD_EOVERFLOW` for reads only where `NBD_CMD_FLAG_DF` is known ("Error values").
    fn too_long_read(&self) -> Errno {
        match self.replies {
            Replies::Simple => Errno::Inval,
            Replies::Structured | Replies::Extended => Errno::Overflow,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Abilities, BlockSizes};

    fn rules(replies: Replies, abilities: Abilities) -> Rules {
        Rules {
            export: Export {
                name: String::new(),
                description: String::new(),
                size_bytes: 1 << 40,
                block: BlockSizes {
                    minimum_bytes: 512,
                    preferred_bytes: 4096,
                    maximum_bytes: 1 << 20,
                },
                abilities,
            },
            replies,
            has_status: true,
        }
    }

    fn all() -> Abilities {
        Abilities {
            read_only: false,
            flush: true,
            fua: true,
            trim: true,
            write_zeroes: true,
            fast_zero: true,
            cache: true,
            multi_conn: true,
        }
    }

    fn request(command: CommandCode, offset_bytes: u64, length_bytes: u64) -> RequestHeader {
        RequestHeader {
            flags: CommandFlags::NONE,
            command,
            cookie: 7,
            offset_bytes,
            length_bytes,
        }
    }

    fn errno(rules: &Rules, header: &RequestHeader) -> Option<Errno> {
        rules.check(header).err().map(|refusal| refusal.errno)
    }

    const RANGED: [(CommandCode, Errno); 6] = [
        (CommandCode::Read, Errno::Inval),
        (CommandCode::Write, Errno::NoSpc),
        (CommandCode::Trim, Errno::Inval),
        (CommandCode::WriteZeroes, Errno::NoSpc),
        (CommandCode::Cache, Errno::Inval),
        (CommandCode::BlockStatus, Errno::Inval),
    ];

    #[test]
    fn ranges_are_within_the_export_and_aligned() {
        let rules = rules(Replies::Structured, all());
        for (command, past_end) in RANGED {
            assert_eq!(errno(&rules, &request(command, 512, 1024)), None);
            for (offset, length) in [(0, 0), (1, 512), (512, 513)] {
                let header = request(command, offset, length);
                assert_eq!(errno(&rules, &header), Some(Errno::Inval), "{command}");
            }
            for (offset, length) in [((1 << 40) - 512, 1024), (u64::MAX - 511, 1024)] {
                let header = request(command, offset, length);
                assert_eq!(errno(&rules, &header), Some(past_end), "{command}");
            }
        }
        assert_eq!(errno(&rules, &request(CommandCode::Flush, 0, 0)), None);
        for (offset, length) in [(0, 512), (512, 0)] {
            let header = request(CommandCode::Flush, offset, length);
            assert_eq!(errno(&rules, &header), Some(Errno::Inval));
        }
    }

    #[test]
    fn only_payloads_have_a_maximum() {
        let long = (1 << 20) + 512;
        for (replies, too_long) in [
            (Replies::Simple, Errno::Inval),
            (Replies::Structured, Errno::Overflow),
            (Replies::Extended, Errno::Overflow),
        ] {
            let rules = rules(replies, all());
            let read = request(CommandCode::Read, 0, long);
            assert_eq!(errno(&rules, &read), Some(too_long));
            let zeroes = request(CommandCode::WriteZeroes, 0, 1 << 40);
            assert_eq!(errno(&rules, &zeroes), None);
        }
        let write = request(CommandCode::Write, 0, long);
        let rules = rules(Replies::Structured, all());
        assert_eq!(errno(&rules, &write), Some(Errno::Inval));
    }

    #[test]
    fn read_only_exports_take_no_writes() {
        let abilities = Abilities {
            read_only: true,
            ..all()
        };
        let rules = rules(Replies::Structured, abilities);
        for (command, past_end) in RANGED {
            let is_write = past_end == Errno::NoSpc || command == CommandCode::Trim;
            let expected = is_write.then_some(Errno::Perm);
            assert_eq!(errno(&rules, &request(command, 0, 512)), expected);
        }
    }

    #[test]
    fn what_is_not_offered_is_invalid() {
        let rules = Rules {
            has_status: false,
            ..rules(Replies::Structured, Abilities::default())
        };
        for (command, _) in RANGED {
            let is_basic = matches!(command, CommandCode::Read | CommandCode::Write);
            let expected = (!is_basic).then_some(Errno::Inval);
            assert_eq!(errno(&rules, &request(command, 0, 512)), expected);
        }
        for command in [CommandCode::Flush, CommandCode::Other(99)] {
            assert_eq!(errno(&rules, &request(command, 0, 0)), Some(Errno::Inval));
        }
    }

    #[test]
    fn each_command_has_its_flags() {
        let flags = |wire| CommandFlags::from_wire(wire);
        for replies in [Replies::Simple, Replies::Structured, Replies::Extended] {
            for (abilities, fua) in [
                (all(), 1),
                (
                    Abilities {
                        fua: false,
                        ..all()
                    },
                    0,
                ),
            ] {
                let rules = rules(replies, abilities);
                let is_extended = replies == Replies::Extended;
                for (command, _) in RANGED {
                    let own: u16 = match command {
                        CommandCode::Read if replies != Replies::Simple => 1 << 2,
                        CommandCode::WriteZeroes => 1 << 1 | 1 << 4,
                        CommandCode::BlockStatus => 1 << 3,
                        _ => 0,
                    };
                    // Of the payload's flag, writes and queries of what is allocated have tests of their own.
                    for bit in [0, 1, 2, 3, 4, 6, 15] {
                        let mut header = request(command, 0, 512);
                        header.flags = flags(1 << bit);
                        if command == CommandCode::Write && is_extended {
                            header.flags = header.flags.with(CommandFlags::PAYLOAD_LEN);
                        }
                        let is_allowed = (own | fua) & (1 << bit) != 0;
                        let expected = (!is_allowed).then_some(Errno::Inval);
                        assert_eq!(errno(&rules, &header), expected, "{header:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn payloads_come_with_extended_headers_only() {
        for replies in [Replies::Structured, Replies::Extended] {
            let rules = rules(replies, all());
            let is_extended = replies == Replies::Extended;
            for (command, length, is_allowed) in [
                (CommandCode::Write, 512, true),
                (CommandCode::BlockStatus, 12, true),
                (CommandCode::BlockStatus, 8, false),
                (CommandCode::BlockStatus, 16, false),
                (CommandCode::Read, 512, false),
            ] {
                let mut header = request(command, 0, length);
                header.flags = CommandFlags::PAYLOAD_LEN;
                assert_eq!(rules.check(&header).is_ok(), is_extended && is_allowed);
            }
            let write = request(CommandCode::Write, 0, 512);
            assert_eq!(rules.check(&write).is_ok(), !is_extended);
        }
    }
}
