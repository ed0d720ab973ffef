//! Commands as CDBs and data, and their effect on the medium.

use wansan_iscsi::initiator::Transfer;
use wansan_iscsi::scsi::Identity;

use crate::block::BLOCK_BYTES;
use crate::history::{BIT_BLOCKS, ReserveOut, Scsi, Setup};

/// The word that a command writes to a block: the number of the command, and the block's LBA.
///
/// The word fills the whole block, so that a torn block is detected.
pub(crate) const fn word(command: u32, lba: u32) -> u64 {
    (command as u64 + 1) << 16 | lba as u64
}

/// The command that wrote a word; `None` for zeros.
pub(crate) const fn writer(word: u64) -> Option<u32> {
    match word >> 16 {
        0 => None,
        command => Some((command - 1) as u32),
    }
}

/// The LBA in the word of WRITE SAME.
pub(crate) const ANY_LBA: u32 = 0xffff;

/// A run of blocks of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blocks {
    pub(crate) lba: u32,
    pub(crate) count: u32,
}

impl Blocks {
    pub(crate) fn lbas(self) -> core::ops::Range<u32> {
        self.lba..self.lba + self.count
    }
}

/// The content of blocks after a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Each block's own [`word`].
    Own,
    /// The same word in every block.
    Same,
    /// Zeros.
    Zero,
    /// The content of another run of blocks.
    Copied { unit: u8, from: u32 },
}

/// The effect of a command on the medium.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// None: the command only reads or changes the unit's state.
    None,
    /// Returns the blocks.
    Read(Blocks),
    /// Compares the blocks with these words.
    Verify(Blocks, Vec<u64>),
    /// Writes the blocks of a unit.
    Write {
        unit: u8,
        blocks: Blocks,
        content: Content,
        /// The data is on the medium when the command is answered.
        durable: bool,
    },
    /// Writes the blocks if they hold these words.
    CompareAndWrite {
        blocks: Blocks,
        expected: Vec<u64>,
        durable: bool,
    },
    /// Sets a bit of a block.
    Or { lba: u32, bit: u32, durable: bool },
    /// Flushes blocks to the medium.
    Flush { blocks: Blocks, immediate: bool },
    /// Returns which blocks from `lba` on are deallocated.
    Status { lba: u32 },
}

/// A command ready to be submitted.
pub(crate) struct Built {
    pub(crate) cdb: [u8; 16],
    pub(crate) transfer: Transfer,
    pub(crate) effect: Effect,
}

/// The context in which a command is built.
pub(crate) struct Surroundings<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) identities: &'a [Identity],
    pub(crate) unit: u8,
    /// Number of the command.
    pub(crate) number: u32,
    /// Index of the ORWRITE among those of the unit.
    pub(crate) bit: u32,
    /// The last word read from each of the unit's blocks.
    pub(crate) seen: &'a [u64],
    /// The initiator port of each session.
    pub(crate) ports: &'a [(String, [u8; 6])],
}

/// The reservation key that a session uses; 0 for none.
pub(crate) fn key(number: u8) -> u64 {
    match number {
        0 => 0,
        number => 0xabcd_0000 + u64::from(number),
    }
}

pub(crate) fn build(scsi: &Scsi, around: &Surroundings<'_>) -> Built {
    let mut cdb = [0; 16];
    let number = around.number;
    let unit = around.unit;
    let end = u32::from(around.setup.units[usize::from(unit)].blocks);
    let span = |lba: u16, blocks: u16| Blocks {
        lba: u32::from(lba),
        count: u32::from(blocks),
    };
    let write = |blocks, content, durable| Effect::Write {
        unit,
        blocks,
        content,
        durable,
    };
    let expected = |blocks: Blocks| -> Vec<u64> {
        let lbas = blocks.lbas();
        lbas.map(|lba| around.seen[lba as usize]).collect()
    };
    let (transfer, effect) = match *scsi {
        Scsi::TestUnitReady => (Transfer::None, Effect::None),
        Scsi::Inquiry => asks(&mut cdb, &[0x12, 0, 0, 0, 36], 36),
        Scsi::ReportLuns => asks(&mut cdb, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 64], 64),
        Scsi::RequestSense => asks(&mut cdb, &[0x03, 0, 0, 0, 18], 18),
        Scsi::ReadCapacity => asks(&mut cdb, &[0x25], 8),
        Scsi::ModeSense => asks(&mut cdb, &[0x1a, 0x08, 0x3f, 0, 64], 64),
        Scsi::TargetPortGroups => asks(&mut cdb, &[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0, 64], 64),
        Scsi::SupportedOpcodes => asks(&mut cdb, &[0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 1, 0], 256),
        Scsi::SupportedFunctions => asks(&mut cdb, &[0xa3, 0x0d, 0, 0, 0, 0, 0, 0, 0, 16], 16),
        Scsi::DefectData => asks(&mut cdb, &[0x37, 0, 0, 0, 0, 0, 0, 0, 8], 8),
        Scsi::CopyStatus => asks(
            &mut cdb,
            &[0x84, 0x03, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64],
            64,
        ),
        Scsi::Read {
            lba,
            blocks,
            fua,
            form,
        } => {
            put_range(&mut cdb, [0x08, 0x28, 0xa8, 0x88], form, lba, blocks, fua);
            (room(blocks), Effect::Read(span(lba, blocks)))
        }
        Scsi::Write {
            lba,
            blocks,
            fua,
            form,
        } => {
            put_range(&mut cdb, [0x0a, 0x2a, 0xaa, 0x8a], form, lba, blocks, fua);
            let blocks = span(lba, blocks);
            let durable = fua && form != 6;
            (data(number, blocks), write(blocks, Content::Own, durable))
        }
        Scsi::WriteAndVerify {
            lba,
            blocks,
            compare,
        } => {
            put_range(&mut cdb, [0, 0x2e, 0, 0], 10, lba, blocks, false);
            cdb[1] = u8::from(compare) << 1;
            let blocks = span(lba, blocks);
            (data(number, blocks), write(blocks, Content::Own, true))
        }
        Scsi::Verify {
            lba,
            blocks,
            compare,
        } => {
            put_range(&mut cdb, [0, 0x2f, 0, 0], 10, lba, blocks, false);
            cdb[1] = u8::from(compare) << 1;
            match compare {
                true => {
                    let blocks = span(lba, blocks);
                    let words = expected(blocks);
                    (
                        Transfer::Write(bytes(&words)),
                        Effect::Verify(blocks, words),
                    )
                }
                false => (Transfer::None, Effect::None),
            }
        }
        Scsi::PreFetch { lba, blocks } => {
            put_range(&mut cdb, [0, 0x34, 0, 0], 10, lba, blocks, false);
            (Transfer::None, Effect::None)
        }
        Scsi::Synchronize {
            lba,
            blocks,
            immediate,
        } => {
            put_range(&mut cdb, [0, 0x35, 0, 0], 10, lba, blocks, false);
            cdb[1] = u8::from(immediate) << 1;
            let blocks = match blocks {
                0 => Blocks {
                    lba: u32::from(lba),
                    count: end - u32::from(lba),
                },
                _ => span(lba, blocks),
            };
            (Transfer::None, Effect::Flush { blocks, immediate })
        }
        Scsi::WriteSame { lba, blocks, zeros } => {
            put_range(&mut cdb, [0, 0, 0, 0x93], 16, lba, blocks, false);
            let blocks = span(lba, blocks);
            if zeros {
                cdb[1] = 0x01; // NDOB
                (Transfer::None, write(blocks, Content::Zero, false))
            } else {
                let word = word(number, ANY_LBA);
                (
                    Transfer::Write(bytes(&[word])),
                    write(blocks, Content::Same, false),
                )
            }
        }
        Scsi::Unmap { lba, blocks } => {
            cdb[0] = 0x42;
            cdb[8] = 24;
            let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
            list.extend(u64::from(lba).to_be_bytes());
            list.extend(u32::from(blocks).to_be_bytes());
            list.extend([0; 4]);
            (
                Transfer::Write(list),
                write(span(lba, blocks), Content::Zero, false),
            )
        }
        Scsi::CompareAndWrite { lba, blocks, fua } => {
            cdb[0] = 0x89;
            cdb[1] = u8::from(fua) << 3;
            cdb[8..10].copy_from_slice(&lba.to_be_bytes());
            cdb[13] = blocks;
            let blocks = span(lba, u16::from(blocks));
            let words = expected(blocks);
            let mut both = bytes(&words);
            let own: Vec<u64> = blocks.lbas().map(|lba| word(number, lba)).collect();
            both.extend(bytes(&own));
            let effect = Effect::CompareAndWrite {
                blocks,
                expected: words,
                durable: fua,
            };
            (Transfer::Write(both), effect)
        }
        Scsi::OrWrite { block, fua } => {
            let lba = (end - u32::from(BIT_BLOCKS) + u32::from(block)) as u16;
            put_range(&mut cdb, [0, 0, 0, 0x8b], 16, lba, 1, fua);
            let bit = around.bit % (BLOCK_BYTES as u32 * 8);
            let mut bits = vec![0; BLOCK_BYTES];
            bits[bit as usize / 8] = 1 << (bit % 8);
            let effect = Effect::Or {
                lba: u32::from(lba),
                bit,
                durable: fua,
            };
            (Transfer::Write(bits), effect)
        }
        Scsi::LbaStatus { lba } => {
            cdb[0] = 0x9e;
            cdb[1] = 0x12;
            cdb[8..10].copy_from_slice(&lba.to_be_bytes());
            cdb[12..14].copy_from_slice(&[4, 0]);
            let lba = u32::from(lba);
            (Transfer::Read(vec![0; 1024]), Effect::Status { lba })
        }
        Scsi::Copy {
            from,
            to_unit,
            to,
            blocks,
        } => {
            let list = copy_list(around, (from, to_unit, to), blocks);
            cdb[0] = 0x83;
            cdb[12..14].copy_from_slice(&(list.len() as u16).to_be_bytes());
            let content = Content::Copied {
                unit,
                from: u32::from(from),
            };
            let effect = Effect::Write {
                unit: to_unit,
                blocks: span(to, blocks),
                content,
                durable: false,
            };
            (Transfer::Write(list), effect)
        }
        Scsi::ModeSelect {
            write_cache,
            protected,
        } => {
            let mut list = vec![0; 4 + 20 + 12];
            list[4] = 0x08;
            list[5] = 0x12;
            list[6] = u8::from(write_cache) << 2;
            list[24] = 0x0a;
            list[25] = 0x0a;
            list[27] = 0x10;
            list[28] = u8::from(protected) << 3;
            cdb[0] = 0x15;
            cdb[1] = 0x10;
            cdb[4] = list.len() as u8;
            (Transfer::Write(list), Effect::None)
        }
        Scsi::StartStop { start } => {
            cdb[0] = 0x1b;
            cdb[4] = u8::from(start);
            (Transfer::None, Effect::None)
        }
        Scsi::PreventAllow { prevent } => {
            cdb[0] = 0x1e;
            cdb[4] = u8::from(prevent);
            (Transfer::None, Effect::None)
        }
        Scsi::Reserve6 => {
            cdb[0] = 0x16;
            (Transfer::None, Effect::None)
        }
        Scsi::Release6 => {
            cdb[0] = 0x17;
            (Transfer::None, Effect::None)
        }
        Scsi::ReserveIn { action } => asks(&mut cdb, &[0x5e, action, 0, 0, 0, 0, 0, 4, 0], 1024),
        Scsi::ReserveOut(out) => (reserve_out(&mut cdb, out, around), Effect::None),
    };
    Built {
        cdb,
        transfer,
        effect,
    }
}

fn asks(cdb: &mut [u8; 16], head: &[u8], bytes: usize) -> (Transfer, Effect) {
    cdb[..head.len()].copy_from_slice(head);
    (Transfer::Read(vec![0; bytes]), Effect::None)
}

fn room(blocks: u16) -> Transfer {
    Transfer::Read(vec![0; usize::from(blocks) * BLOCK_BYTES])
}

/// Each word, repeated to fill a block.
fn bytes(words: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(words.len() * BLOCK_BYTES);
    for word in words {
        fill(&mut bytes, *word);
    }
    bytes
}

fn data(number: u32, blocks: Blocks) -> Transfer {
    let mut bytes = Vec::with_capacity(blocks.count as usize * BLOCK_BYTES);
    for lba in blocks.lbas() {
        fill(&mut bytes, word(number, lba));
    }
    Transfer::Write(bytes)
}

fn fill(bytes: &mut Vec<u8>, word: u64) {
    let mut block = [0; BLOCK_BYTES];
    for place in block.as_chunks_mut::<8>().0 {
        *place = word.to_be_bytes();
    }
    bytes.extend_from_slice(&block);
}

/// LBA, length and FUA, in CDBs of 6, 10, 12 or 16 bytes (SBC-3 clause 5).
fn put_range(cdb: &mut [u8; 16], codes: [u8; 4], form: u8, lba: u16, blocks: u16, fua: bool) {
    let lba = lba.to_be_bytes();
    let blocks = blocks.to_be_bytes();
    match form {
        6 => {
            cdb[0] = codes[0];
            cdb[2..4].copy_from_slice(&lba);
            cdb[4] = blocks[1];
        }
        10 => {
            cdb[0] = codes[1];
            cdb[4..6].copy_from_slice(&lba);
            cdb[7..9].copy_from_slice(&blocks);
        }
        12 => {
            cdb[0] = codes[2];
            cdb[4..6].copy_from_slice(&lba);
            cdb[8..10].copy_from_slice(&blocks);
        }
        _ => {
            cdb[0] = codes[3];
            cdb[8..10].copy_from_slice(&lba);
            cdb[12..14].copy_from_slice(&blocks);
        }
    }
    if form != 6 && fua {
        cdb[1] |= 0x08;
    }
}

/// A parameter list of EXTENDED COPY (LID1) with one segment, block to block (SPC-4 6.4).
fn copy_list(
    around: &Surroundings<'_>,
    (from, to_unit, to): (u16, u8, u16),
    blocks: u16,
) -> Vec<u8> {
    let mut list = vec![0; 16];
    list[0] = around.number as u8;
    list[3] = 64;
    list[11] = 28;
    for unit in [around.unit, to_unit] {
        // The NAA name of the unit, as page 83h gives it: its serial number without the last digit.
        let serial = around.identities[usize::from(unit)].serial();
        let unique = u64::from_str_radix(&serial, 16).unwrap_or(0);
        let mut descriptor = vec![0xe4, 0, 0, 0, 0x01, 0x03, 0, 8];
        descriptor.extend((0x3 << 60 | unique >> 4).to_be_bytes());
        descriptor.resize(32, 0);
        descriptor[28..32].copy_from_slice(&(BLOCK_BYTES as u32).to_be_bytes());
        list.extend(descriptor);
    }
    list.extend([0x02, 0, 0, 24, 0, 0, 0, 1, 0, 0]);
    list.extend(blocks.to_be_bytes());
    list.extend(u64::from(from).to_be_bytes());
    list.extend(u64::from(to).to_be_bytes());
    list
}

/// PERSISTENT RESERVE OUT with its parameter list (SPC-4 6.14).
fn reserve_out(cdb: &mut [u8; 16], out: ReserveOut, around: &Surroundings<'_>) -> Transfer {
    let mut list = vec![0; 24];
    list[..8].copy_from_slice(&key(out.key).to_be_bytes());
    list[8..16].copy_from_slice(&key(out.action_key).to_be_bytes());
    if out.action == 7 {
        // REGISTER AND MOVE: flags, the relative target port, and a TransportID.
        let port = out.action_key.saturating_sub(1);
        // In a shrunk history that session may be missing.
        let place = usize::from(port).min(around.ports.len() - 1);
        let (name, isid) = &around.ports[place];
        list[17] = u8::from(out.unregister) << 1 | u8::from(out.persist);
        list[18..20].copy_from_slice(&[0, 1]);
        let digits: String = isid.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut text = format!("{name},i,0x{digits}").into_bytes();
        text.push(0);
        text.resize(text.len().next_multiple_of(4), 0);
        let mut id = vec![0x45, 0];
        id.extend((text.len() as u16).to_be_bytes());
        id.extend(text);
        list[20..24].copy_from_slice(&(id.len() as u32).to_be_bytes());
        list.extend(id);
    } else {
        list[20] = u8::from(out.persist);
    }
    cdb[0] = 0x5f;
    cdb[1] = out.action;
    cdb[2] = out.kind;
    cdb[5..9].copy_from_slice(&(list.len() as u32).to_be_bytes());
    Transfer::Write(list)
}
