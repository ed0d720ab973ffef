//! What every block of the disk may hold at any time.
//!
//! Each write has a sequence number, and each block that it writes says so: its content is made
//! from the round's seed, its own address and that number, down to the last byte. So a block that
//! is read tells which write it holds, and the model knows which ones it may: the last one that was
//! acknowledged, or the one that is under way; never an older one, however it came back.

use std::fmt;
use std::ops::Range;

/// Bytes of a logical block.
pub(crate) const BLOCK_BYTES: usize = 512;

/// One write, counted from 1; 0 stands for the zeros of a disk that nobody has written.
type Sequence = u64;

/// The disk as its only user knows it.
#[derive(Debug)]
pub(crate) struct Model {
    seed: u64,
    last: Sequence,
    blocks: Vec<Block>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Block {
    acknowledged: Sequence,
    /// What was on the medium when a flush or a write with FUA was acknowledged.
    flushed: Sequence,
    /// Sent and not acknowledged.
    pending: Option<Sequence>,
    /// An I/O on it is under way: a caller that cares for the order waits for it.
    is_busy: bool,
}

/// What had been acknowledged when a flush was sent.
#[derive(Debug)]
pub(crate) struct Flush(Vec<Sequence>);

/// A block holds what it must not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Neither zeros nor the whole of any write of this round to this block.
    Foreign { block: usize, byte: usize },
    /// A write that a newer acknowledged one had replaced.
    Old {
        block: usize,
        held: Sequence,
        acknowledged: Sequence,
        is_flushed: bool,
    },
    /// A write that was never sent to it.
    Unknown { block: usize, held: Sequence },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Foreign { block, byte } => write!(
                f,
                "block {block} holds what nobody wrote there, from its byte {byte} on"
            ),
            Wrong::Old {
                block,
                held,
                acknowledged,
                is_flushed,
            } => write!(
                f,
                "block {block} holds write {held}, though write {acknowledged} was acknowledged{}",
                if *is_flushed { " and flushed" } else { "" }
            ),
            Wrong::Unknown { block, held } => {
                write!(
                    f,
                    "block {block} holds write {held}, which did not go there"
                )
            }
        }
    }
}

impl Model {
    /// A disk of `blocks` blocks of zeros.
    pub(crate) fn new(seed: u64, blocks: usize) -> Self {
        Model {
            seed,
            last: 0,
            blocks: vec![Block::default(); blocks],
        }
    }

    /// How many blocks the disk has.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Whether no I/O is under way on any block of `range`.
    pub(crate) fn is_idle(&self, range: &Range<usize>) -> bool {
        self.blocks[range.clone()]
            .iter()
            .all(|block| !block.is_busy)
    }

    /// The content of a new write to `range`, which is under way from now on.
    pub(crate) fn begin_write(&mut self, range: Range<usize>) -> Vec<u8> {
        self.last += 1;
        let mut data = vec![0; range.len() * BLOCK_BYTES];
        for (block, bytes) in range.zip(data.chunks_exact_mut(BLOCK_BYTES)) {
            let state = &mut self.blocks[block];
            assert!(!state.is_busy, "the load keeps the writes of a block apart");
            (state.is_busy, state.pending) = (true, Some(self.last));
            fill(bytes, self.seed, block, self.last);
        }
        data
    }

    /// The write to `range` has been acknowledged; with `fua` it is on the medium as well.
    pub(crate) fn acknowledge_write(&mut self, range: Range<usize>, fua: bool) {
        for block in &mut self.blocks[range] {
            block.is_busy = false;
            if let Some(written) = block.pending.take() {
                block.acknowledged = written;
                if fua {
                    block.flushed = written;
                }
            }
        }
    }

    /// A read of `range` is under way.
    pub(crate) fn begin_read(&mut self, range: Range<usize>) {
        for block in &mut self.blocks[range] {
            block.is_busy = true;
        }
    }

    /// Checks what a read of `range` has given.
    pub(crate) fn end_read(&mut self, range: Range<usize>, data: &[u8]) -> Result<(), Wrong> {
        for block in &mut self.blocks[range.clone()] {
            block.is_busy = false;
        }
        self.check(range, data)
    }

    /// A flush is sent: it covers what has been acknowledged so far.
    pub(crate) fn begin_flush(&self) -> Flush {
        Flush(self.blocks.iter().map(|block| block.acknowledged).collect())
    }

    /// The flush has been acknowledged.
    pub(crate) fn acknowledge_flush(&mut self, flush: &Flush) {
        for (block, covered) in self.blocks.iter_mut().zip(&flush.0) {
            block.flushed = block.flushed.max(*covered);
        }
    }

    /// Checks that `data`, read from `range`, is what those blocks may hold.
    pub(crate) fn check(&self, range: Range<usize>, data: &[u8]) -> Result<(), Wrong> {
        for (block, bytes) in range.zip(data.chunks_exact(BLOCK_BYTES)) {
            let held = self.held(block, bytes)?;
            let state = &self.blocks[block];
            if held == state.acknowledged || Some(held) == state.pending {
                continue;
            }
            if held > state.acknowledged {
                return Err(Wrong::Unknown { block, held });
            }
            return Err(Wrong::Old {
                block,
                held,
                acknowledged: state.acknowledged,
                is_flushed: held < state.flushed,
            });
        }
        Ok(())
    }

    /// Which write a block's content is.
    fn held(&self, block: usize, bytes: &[u8]) -> Result<Sequence, Wrong> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(0);
        }
        let (head, _) = bytes
            .split_first_chunk()
            .expect("a block has room for a number");
        let held = Sequence::from_le_bytes(*head);
        let mut wanted = [0; BLOCK_BYTES];
        fill(&mut wanted, self.seed, block, held);
        match wanted.iter().zip(bytes).position(|(a, b)| a != b) {
            None => Ok(held),
            Some(byte) => Err(Wrong::Foreign { block, byte }),
        }
    }
}

/// Fills a block: the write's number, then words that depend on it, on the block and on the seed.
fn fill(bytes: &mut [u8], seed: u64, block: usize, sequence: Sequence) {
    let mut word = mixed(seed ^ mixed(block as u64 ^ mixed(sequence)));
    for (place, bytes) in bytes.chunks_exact_mut(8).enumerate() {
        let value = if place == 0 { sequence } else { word };
        bytes.copy_from_slice(&value.to_le_bytes());
        // A step of Weyl's sequence: no two words of a block are alike.
        word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
}

/// The mixing function of SplitMix64 (Steele, Lea, Flood 2014).
fn mixed(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The model finds what it is there to find.
pub(crate) fn finds_what_is_wrong() -> Result<(), String> {
    let told = |wrong: Wrong| format!("it is right, and yet {wrong}");
    let mut model = Model::new(7, 4);
    let first = model.begin_write(1..3);
    model.check(1..3, &[0; 2 * BLOCK_BYTES]).map_err(told)?;
    model.check(1..3, &first).map_err(told)?;
    model.acknowledge_write(1..3, false);
    model.acknowledge_flush(&model.begin_flush());
    let second = model.begin_write(1..3);
    for either in [&first, &second] {
        model.check(1..3, either).map_err(told)?;
    }
    model.acknowledge_write(1..3, false);
    model.check(1..3, &second).map_err(told)?;
    let is_old = |held, is_flushed| Wrong::Old {
        block: 1,
        held,
        acknowledged: 2,
        is_flushed,
    };
    let mut torn = second.clone();
    torn[BLOCK_BYTES + 100] ^= 1;
    let mut other = Model::new(7, 4);
    other.last = 2;
    let later = other.begin_write(1..3);
    for (data, wrong) in [
        (&first[..], is_old(1, false)),
        (&[0; 2 * BLOCK_BYTES], is_old(0, true)),
        (
            &torn,
            Wrong::Foreign {
                block: 2,
                byte: 100,
            },
        ),
        (&later, Wrong::Unknown { block: 1, held: 3 }),
        (&second[BLOCK_BYTES..], Wrong::Foreign { block: 1, byte: 8 }),
    ] {
        let found = model.check(1..3, data);
        if found.as_ref() != Err(&wrong) {
            return Err(format!("{found:?} instead of {wrong:?}"));
        }
    }
    Ok(())
}
