//! Rows as bytes: only what differs from a prediction.
//!
//! Sequence numbers, tags and offsets of a stream advance by the same amount from one PDU to the next of its type, and
//! other fields seldom change. So each group of a kind's records ([`Words::group`]) predicts the words of its next row:
//! each grows by a step, which becomes what it grew by twice in a row. Only times follow the row before, whatever its
//! group. New memory costs more than encoding, so small rows make recording cheaper, and the same memory holds more of
//! them.
//!
//! A row begins with a byte that holds its group, the size of its time's difference, and whether any other word differs
//! from its prediction. Then follow that difference and, if so, a bit for each word, and the halves of the differences
//! of those words. A difference alternates in sign (0, −1, 1, −2, …), so that small negative ones are short too.

use super::words::{Row, Words};

/// Number of groups of a kind.
pub(crate) const GROUPS: usize = 16;
/// Bits of the first byte for the group.
const GROUP_BITS: u32 = GROUPS.trailing_zeros();
/// In the first byte: some words differ from their predictions.
const DIFFERS: u8 = 0x80;
/// Sizes in bytes of a time's difference, by the two bits between group and [`DIFFERS`].
const TIME_BYTES: [usize; 4] = [0, 2, 4, 8];
/// Sizes in bytes of half a difference, by its lowest two bits.
const HALF_BYTES: [usize; 4] = [1, 2, 3, 5];

/// Bytes of the bits that name the words of a row that differ.
const fn mask_bytes(words: usize) -> usize {
    (words - 1).div_ceil(8)
}

/// Maximum size in bytes of a row of `words` words. Writing one may touch as many.
pub(super) const fn most_bytes(words: usize) -> usize {
    1 + 8 + mask_bytes(words) + (words - 1) * 2 * 5 + 8
}

/// The state that predicts rows: the same before writing one and before reading it, except for the first word of each.
#[derive(Debug, Clone)]
pub(super) struct Predictor<T: Words> {
    /// Time of the row before.
    time: u64,
    groups: [Group<T::Row>; GROUPS],
}

#[derive(Debug, Clone, Copy)]
struct Group<R> {
    /// The next row, if every word grows as expected.
    next: R,
    /// By what each word is expected to grow.
    step: R,
    /// By what those words grew that last differed from their predictions.
    grew: R,
    /// A bit for each of those words, from the second one on.
    differed: u64,
}

impl<T: Words> Predictor<T> {
    pub(super) fn new() -> Self {
        const {
            assert!(
                T::Row::WORDS > 0 && T::Row::WORDS <= 65,
                "a bit for each word"
            );
        }
        let group = Group {
            next: T::Row::BLANK,
            step: T::Row::BLANK,
            grew: T::Row::BLANK,
            differed: 0,
        };
        Predictor {
            time: 0,
            groups: [group; GROUPS],
        }
    }

    /// Writes a row of a group to `bytes`, which has room for [`most_bytes`]; returns its size.
    #[inline(always)]
    pub(super) fn encode(&mut self, group: usize, row: T::Row, bytes: &mut [u8]) -> usize {
        let time = row.words()[0];
        let passed = alternating(time.wrapping_sub(self.time));
        self.time = time;
        let size = u8::from(passed > 0) + u8::from(passed >> 16 > 0) + u8::from(passed >> 32 > 0);
        bytes[0] = group as u8 | size << GROUP_BITS;
        bytes[1..9].copy_from_slice(&passed.to_le_bytes());
        let end = 1 + TIME_BYTES[usize::from(size)];
        let group = &mut self.groups[group];
        if row.is_like(&group.next) {
            group.next = row.plus(&group.step);
            group.differed = 0;
            return end;
        }
        bytes[0] |= DIFFERS;
        group.encode(row, bytes, end)
    }

    /// Reads the next row and its size.
    #[inline]
    pub(super) fn decode(&mut self, bytes: &[u8]) -> (T::Row, usize) {
        let first = bytes[0];
        let size = TIME_BYTES[usize::from(first >> GROUP_BITS) % TIME_BYTES.len()];
        let passed = low_bytes(&bytes[1..], size);
        self.time = self.time.wrapping_add(signed(passed));
        let end = 1 + size;
        let group = &mut self.groups[usize::from(first) % GROUPS];
        let (mut row, end) = match first & DIFFERS {
            0 => {
                group.differed = 0;
                (group.next, end)
            }
            _ => group.decode(&bytes[end..], end),
        };
        group.next = row.plus(&group.step);
        row.words_mut()[0] = self.time;
        (row, end)
    }
}

impl<R: Row> Group<R> {
    /// Writes the words of `row` that differ from their predictions from `at` on, and predicts the row after it; returns
    /// where they end.
    #[inline(never)]
    fn encode(&mut self, row: R, bytes: &mut [u8], at: usize) -> usize {
        let mask_end = at + mask_bytes(R::WORDS);
        let mut end = mask_end;
        let mut differs = 0;
        for (place, &word) in row.words().iter().enumerate().skip(1) {
            let error = word.wrapping_sub(self.next.words()[place]);
            if error != 0 {
                differs |= 1 << (place - 1);
                for half in [error as u32, (error >> 32) as u32] {
                    let (coded, size) = code(half);
                    bytes[end..end + 8].copy_from_slice(&coded.to_le_bytes());
                    end += size;
                }
                self.correct(place, error);
            }
        }
        self.differed = differs;
        self.next = row.plus(&self.step);
        bytes[at..mask_end].copy_from_slice(&differs.to_le_bytes()[..mask_end - at]);
        end
    }

    /// Reads a row of which some words differ from their predictions, and where it ends if `bytes` begin at `at`.
    fn decode(&mut self, bytes: &[u8], at: usize) -> (R, usize) {
        let mut row = self.next;
        let mut end = mask_bytes(R::WORDS);
        let differs = low_bytes(bytes, end);
        for place in (1..R::WORDS).filter(|place| differs >> (place - 1) & 1 == 1) {
            let [low, high] = [(); 2].map(|()| {
                let size = HALF_BYTES[usize::from(bytes[end] & 3)];
                let coded = low_bytes(&bytes[end..], size);
                end += size;
                u64::from(signed(coded >> 2) as u32)
            });
            let error = high << 32 | low;
            row.words_mut()[place] = row.words()[place].wrapping_add(error);
            self.correct(place, error);
        }
        self.differed = differs;
        (row, at + end)
    }

    /// A word differs from its prediction by `error`.
    #[inline]
    fn correct(&mut self, place: usize, error: u64) {
        let step = &mut self.step.words_mut()[place];
        let grew = step.wrapping_add(error);
        let before = std::mem::replace(&mut self.grew.words_mut()[place], grew);
        if grew == before && self.differed >> (place - 1) & 1 == 1 {
            *step = grew;
        }
    }
}

/// A difference as a number that is small if its absolute value is.
#[inline]
fn alternating(difference: u64) -> u64 {
    difference << 1 ^ (difference.cast_signed() >> 63).cast_unsigned()
}

/// The difference that [`alternating`] turned into `number`.
#[inline]
fn signed(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

/// Half of a difference with its size in the lowest two bits, and that size in bytes.
#[inline]
fn code(half: u32) -> (u64, usize) {
    let half = alternating(i64::from(half.cast_signed()).cast_unsigned());
    let size = u64::from(half >> 6 > 0) + u64::from(half >> 14 > 0) + u64::from(half >> 22 > 0);
    (half << 2 | size, HALF_BYTES[size as usize])
}

/// The first `size` bytes, at most 8, lowest first; zeros beyond the end of `bytes`.
#[inline]
fn low_bytes(bytes: &[u8], size: usize) -> u64 {
    let eight = bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        eight
    });
    let beyond = u64::MAX.checked_shl(8 * size as u32).unwrap_or(0);
    u64::from_le_bytes(eight) & !beyond
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Pdu, PduDirection};
    use crate::{ConnectionId, Instant, SessionId, TaskTag};

    const WORDS: usize = <Pdu as Words>::Row::WORDS;

    /// The PDUs of a read: its command, and the Data-In.
    fn read(number: u32) -> [Pdu; 2] {
        let command = Pdu {
            time: Instant::from_ns(1_000_000_000 + 1000 * u64::from(number)),
            session: SessionId(77),
            connection: ConnectionId(0),
            direction: PduDirection::Sent,
            opcode: 0x01,
            task: TaskTag(number),
            cmd_sn: number + 1,
            stat_sn: number / 2,
            stream_offset: 48 * u64::from(number),
            ..Pdu::BLANK
        };
        let data_in = Pdu {
            direction: PduDirection::Received,
            opcode: 0x25,
            data_bytes: 4096,
            stream_offset: 4144 * u64::from(number),
            ..command
        };
        [command, data_in]
    }

    #[test]
    fn a_row_takes_the_bytes_of_what_was_not_expected() {
        let mut writer = Predictor::<Pdu>::new();
        let mut reader = writer.clone();
        let mut sizes = Vec::new();
        for pdu in (0..100).flat_map(read) {
            let mut bytes = [0; most_bytes(WORDS)];
            let size = writer.encode(pdu.group(), pdu.row(), &mut bytes);
            assert_eq!(reader.decode(&bytes[..size]), (pdu.row(), size));
            sizes.push(size);
        }
        assert!(sizes[..2].iter().all(|size| *size > 10), "{sizes:?}");
        // The commands' times differ, by less than 32 µs. ExpStatSN grows with every second read only: the byte that names
        // its word, and the halves of that.
        let (command, data_in, other) = (1 + 2, 1, 1 + 1 + 1);
        let last = [command + other, data_in + other, command, data_in];
        assert_eq!(sizes[196..], last, "{sizes:?}");
    }

    #[test]
    fn no_row_takes_more_than_its_maximum() {
        let mut writer = Predictor::<Pdu>::new();
        let mut reader = writer.clone();
        // Each word is as far from its prediction as possible.
        for number in 0..50_u64 {
            let word = number
                .wrapping_mul(0x8000_0001_8000_0001)
                .rotate_left(number as u32);
            let row = [word; WORDS];
            let mut bytes = [0; most_bytes(WORDS)];
            let size = writer.encode(15, row, &mut bytes);
            assert!(size + 3 <= most_bytes(WORDS));
            assert_eq!(reader.decode(&bytes[..size]), (row, size));
        }
    }
}
