//! PDUs with all kinds of wrong fields, but plausible enough to be processed.

use wansan_iscsi::wire::{BHS_BYTES, Bhs};

use super::source::Source;

/// Values that the other end would accept at the moment.
#[derive(Debug, Default)]
pub(crate) struct Context {
    /// Valid Initiator Task Tags.
    pub(crate) task_tags: Vec<u32>,
    /// Valid Target Transfer Tags.
    pub(crate) transfer_tags: Vec<u32>,
    /// The sequence numbers at bytes 24, 28 and 32 of the header.
    pub(crate) numbers: [u32; 3],
}

/// Most formerly valid tags kept, so that long inputs stay fast.
const TAGS: usize = 32;

impl Context {
    /// Notes the tags in a header that the other end has sent.
    pub(crate) fn note_tags(&mut self, bhs: &Bhs) {
        for (tags, at) in [(&mut self.task_tags, 16), (&mut self.transfer_tags, 20)] {
            let tag = word(bhs, at);
            if !tags.contains(&tag) && tags.len() < TAGS {
                tags.push(tag);
            }
        }
    }
}

pub(crate) fn word(bhs: &Bhs, at: usize) -> u32 {
    u32::from_be_bytes([bhs[at], bhs[at + 1], bhs[at + 2], bhs[at + 3]])
}

/// CDBs by their first byte: those of disks, and an undefined one.
const OPERATIONS: [u8; 32] = [
    0x00, 0x03, 0x12, 0x15, 0x16, 0x17, 0x1a, 0x1b, 0x25, 0x28, 0x2a, 0x2e, 0x2f, 0x34, 0x35, 0x41,
    0x42, 0x55, 0x5a, 0x5e, 0x5f, 0x83, 0x84, 0x88, 0x89, 0x8a, 0x8b, 0x8f, 0x93, 0x9e, 0xa0, 0xa3,
];

/// A header and its data, with one of `opcodes`. Lengths are mostly multiples of `block_bytes`.
pub(crate) fn plausible<'a>(
    source: &mut Source<'a>,
    opcodes: &[u8],
    context: &Context,
    block_bytes: u32,
) -> (Bhs, &'a [u8]) {
    let mut bhs = [0; BHS_BYTES];
    let shape = source.byte();
    bhs[0] = source.one_of(opcodes) | (shape & 0x40);
    bhs[1] = source.byte();
    if shape & 0x01 != 0 {
        bhs[2] = source.byte();
        bhs[3] = source.byte();
    }
    // Logical unit 0, a missing one, or an invalid one.
    bhs[9] = shape >> 1 & 1;
    if shape & 0x0c == 0x0c {
        bhs[8..16].fill(source.byte());
    }
    put(&mut bhs, 16, tag(source, &context.task_tags));
    let length = u32::from(source.byte()) * block_bytes;
    let word_20 = if source.chance() {
        length
    } else {
        tag(source, &context.transfer_tags)
    };
    put(&mut bhs, 20, word_20);
    for (number, at) in context.numbers.into_iter().zip([24, 28, 32]) {
        put(&mut bhs, at, near(source, number));
    }
    match source.byte() % 4 {
        // A CDB with a small address and a small length in every possible position.
        0 => {
            bhs[32..].fill(0);
            bhs[32] = source.one_of(&OPERATIONS);
            bhs[33] = source.one_of(&[0, 0, 0x08, 0x10, 0x01, 0x12, 0xff]);
            for at in [37, 39, 40, 41, 45] {
                bhs[at] = source.one_of(&[0, 0, 1, 8, 16, 255]);
            }
        }
        // DataSN, offset or length as words.
        1 => {
            for at in [36, 40, 44] {
                let word = u32::from(source.byte()) * source.one_of(&[1, block_bytes]);
                put(&mut bhs, at, word);
            }
        }
        2 => {
            let raw = source.bytes(16);
            bhs[32..32 + raw.len()].copy_from_slice(raw);
        }
        _ => {}
    }
    let data_bytes = match source.byte() {
        0..=99 => 0,
        100..=149 => u32::from(source.byte()),
        150..=229 => u32::from(source.byte() % 16) * block_bytes,
        _ => u32::from(source.u16()),
    };
    let data = source.bytes(data_bytes as usize);
    (bhs, data)
}

fn put(bhs: &mut Bhs, at: usize, word: u32) {
    bhs[at..at + 4].copy_from_slice(&word.to_be_bytes());
}

fn tag(source: &mut Source<'_>, known: &[u32]) -> u32 {
    match source.byte() {
        0..=159 if !known.is_empty() => source.one_of(known),
        0..=219 => u32::from(source.byte()),
        220..=239 => u32::MAX,
        _ => source.u32(),
    }
}

/// Mostly `number`, otherwise one close to it, otherwise any.
fn near(source: &mut Source<'_>, number: u32) -> u32 {
    match source.byte() {
        0..=199 => number,
        200..=239 => number
            .wrapping_add(u32::from(source.byte()))
            .wrapping_sub(8),
        _ => source.u32(),
    }
}
