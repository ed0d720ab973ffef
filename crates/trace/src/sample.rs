//! Which I/Os are recorded: all of them, or a sample.

use crate::TaskTag;

/// Which I/Os are recorded, by a hash of their Initiator Task Tags: all ends choose the same ones, each in all layers,
/// and the sample of a larger number is part of that of a smaller one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    one_in: u32,
    /// The highest hash of a recorded I/O.
    most: u32,
}

/// Odd multipliers that mix a tag's bits: no period of the load is one of the sample (Knuth, The Art of Computer Programming,
/// volume 3, section 6.4; one multiplication alone would choose tags in a pattern).
const MIX: [u32; 2] = [0x9e37_79b9, 0x85eb_ca6b];

/// Opcodes of the PDUs of SCSI commands (RFC 7143 §11.2.1.2), a bit each: SCSI Command, SCSI Data-Out, SNACK Request,
/// SCSI Response, SCSI Data-In and R2T.
const OF_IOS: u64 = 1 << 0x01 | 1 << 0x05 | 1 << 0x10 | 1 << 0x21 | 1 << 0x25 | 1 << 0x31;

impl Sample {
    /// All I/Os.
    pub const ALL: Sample = Sample::one_in(1);

    /// One I/O in `number` on average; 0 counts as 1.
    #[must_use]
    pub const fn one_in(number: u32) -> Sample {
        let one_in = if number == 0 { 1 } else { number };
        Sample {
            one_in,
            most: u32::MAX / one_in,
        }
    }

    /// The number of I/Os of which one is recorded.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.one_in
    }

    /// Whether the I/O with that tag is recorded.
    #[inline(always)]
    #[must_use]
    pub const fn has(self, task: TaskTag) -> bool {
        let mixed = task.0.wrapping_mul(MIX[0]);
        (mixed ^ mixed >> 15).wrapping_mul(MIX[1]) <= self.most
    }

    /// Whether a PDU is recorded, by its tag and opcode: those that are not of an I/O always are.
    #[inline(always)]
    #[must_use]
    pub const fn has_pdu(self, task: TaskTag, opcode: u8) -> bool {
        self.has(task) || OF_IOS >> (opcode & 0x3f) & 1 == 0
    }
}

impl Default for Sample {
    fn default() -> Self {
        Sample::ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number of the sample is expected with a standard deviation of at most its square root.
    fn is_likely(count: usize, expected: f64) -> bool {
        (count as f64 - expected).abs() <= 5.0 * expected.sqrt() + 1.0
    }

    #[test]
    fn a_sample_has_its_share_of_all_tags_and_of_those_at_any_interval() {
        const TAGS: u32 = 1_000_000;
        for number in [2, 7, 16, 64, 1000] {
            let sample = Sample::one_in(number);
            for first in [0, 12_345, u32::MAX - 500_000] {
                for period in [1, 2, 55, 64, 89, 128] {
                    let tags = (0..TAGS)
                        .step_by(period)
                        .map(|place| first.wrapping_add(place));
                    let expected = f64::from(TAGS) / period as f64 / f64::from(number);
                    let count = tags.filter(|tag| sample.has(TaskTag(*tag))).count();
                    assert!(
                        is_likely(count, expected),
                        "{count} of 1/{number} from {first} by {period}"
                    );
                }
            }
        }
        assert!((0..1000).all(|tag| Sample::ALL.has(TaskTag(tag))));
    }

    #[test]
    fn a_larger_number_takes_from_the_sample_of_a_smaller_one() {
        let (many, few) = (Sample::one_in(5), Sample::one_in(16));
        let mut few_of = (0..100_000).map(TaskTag).filter(|tag| few.has(*tag));
        assert!(few_of.all(|tag| many.has(tag)));
    }

    #[test]
    fn pdus_that_are_not_of_an_io_are_always_recorded() {
        let sample = Sample::one_in(u32::MAX);
        let other = TaskTag(1);
        assert!(!sample.has(other));
        let recorded = (0..0x40).filter(|opcode| sample.has_pdu(other, *opcode));
        let left_out: Vec<u8> = (0..0x40)
            .filter(|opcode| !sample.has_pdu(other, *opcode))
            .collect();
        assert_eq!(left_out, [0x01, 0x05, 0x10, 0x21, 0x25, 0x31]);
        assert_eq!(recorded.count(), 0x40 - 6);
        assert!((0..0x40).all(|opcode| Sample::ALL.has_pdu(other, opcode)));
    }
}
