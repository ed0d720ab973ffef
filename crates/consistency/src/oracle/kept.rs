//! The content that the media may hold after a power loss, given the answers until then. For callers that control the
//! media and check them later.

use super::blocks::NEVER;
use super::*;

/// The content that the media must hold at one time, given the answers until then.
#[derive(Debug)]
pub struct Kept {
    at: u64,
    units: Vec<KeptUnit>,
}

#[derive(Debug)]
struct KeptUnit {
    /// For each block, the commands whose content no durable write has replaced.
    blocks: Vec<Vec<u32>>,
    /// For each block of ORWRITE bits, the durable bits.
    bits: Vec<Vec<u32>>,
}

/// Which commands of a run wrote which blocks.
#[derive(Debug)]
pub struct Ledger {
    oracle: Oracle,
    /// For each block of each unit, the commands that write it, and when each was last sent.
    writers: Vec<Vec<Vec<(u32, u64)>>>,
}

impl Oracle {
    /// The content that the media must hold now.
    pub(crate) fn kept(&self, now: u64) -> Kept {
        let units = self.units.iter().map(|unit| KeptUnit {
            blocks: (unit.blocks.iter())
                .map(|block| block.survivors(&self.commands))
                .collect(),
            bits: unit.bits.iter().map(Bits::durable).collect(),
        });
        Kept {
            at: now,
            units: units.collect(),
        }
    }
}

impl Ledger {
    pub(crate) fn new(oracle: Oracle) -> Ledger {
        let blank = |unit: &Unit| vec![Vec::new(); unit.blocks.len()];
        let mut writers: Vec<Vec<Vec<(u32, u64)>>> = oracle.units.iter().map(blank).collect();
        let mut last_sent = vec![NEVER; oracle.commands.commands.len()];
        for attempt in &oracle.commands.attempts {
            last_sent[attempt.command as usize] = attempt.sent;
        }
        for ((command, known), sent) in (0..).zip(&oracle.commands.commands).zip(last_sent) {
            let (unit, blocks) = match known.effect {
                Effect::Write { unit, blocks, .. } => (unit, blocks),
                Effect::CompareAndWrite { blocks, .. } => (known.unit, blocks),
                Effect::Or { lba, .. } => (known.unit, Blocks { lba, count: 1 }),
                _ => continue,
            };
            if sent != NEVER {
                for lba in blocks.lbas() {
                    writers[usize::from(unit)][lba as usize].push((command, sent));
                }
            }
        }
        Ledger { oracle, writers }
    }

    /// Checks a block of the medium after a power loss at some time after `kept`.
    ///
    /// # Errors
    /// If the block's content is wrong: a description of the error.
    pub fn check(&self, kept: &Kept, unit: usize, lba: u32, block: &[u8]) -> Result<(), String> {
        let first_bits = self.oracle.units[unit].blocks.len() as u32 - u32::from(BIT_BLOCKS);
        let words = block.as_chunks::<8>().0;
        if let Some(bits) = lba.checked_sub(first_bits) {
            let durable = &kept.units[unit].bits[bits as usize];
            let is_set = |bit: &&u32| block[**bit as usize / 8] & 1 << (**bit % 8) != 0;
            return match durable.iter().find(|bit| !is_set(bit)) {
                None => Ok(()),
                Some(bit) => Err(format!("bit {bit} of block {lba} is not there")),
            };
        }
        for word in words.iter().map(|word| u64::from_be_bytes(*word)) {
            let Oracle {
                commands, copies, ..
            } = &self.oracle;
            let holds = |command: u32| copies.may_leave(commands, command, lba, word);
            let mut survivors = kept.units[unit].blocks[lba as usize].iter();
            let mut later = self.writers[unit][lba as usize].iter();
            let found = survivors.any(|command| holds(*command))
                || later.any(|(command, sent)| *sent > kept.at && holds(*command));
            if !found {
                let left = match writer(word) {
                    None => "zeros".to_owned(),
                    Some(command) if (command as usize) < self.oracle.commands.commands.len() => {
                        self.oracle.describe(command)
                    }
                    Some(_) => format!("{word:#x}"),
                };
                return Err(format!(
                    "block {lba} holds {left}, and what was answered at {} is not there",
                    kept.at
                ));
            }
        }
        Ok(())
    }
}
