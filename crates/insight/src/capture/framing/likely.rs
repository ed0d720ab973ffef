//! Where amid captured bytes a header may be: a look at few bytes of each place, many places at once, so that a stream in which
//! none is found for long takes little time.

use super::{NEAR, Numbers};

/// Places that are looked at together.
const PLACES: usize = 64;
/// Where the words of sequence numbers stand in a header: the first word, and the second.
const WORDS: [usize; 2] = [24, 28];
/// How far a look reaches: through both words.
const LOOK_BYTES: usize = 32;

/// What bytes have in which a header of one direction begins that has both sequence numbers, and near the newest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Likely {
    /// The bit of the first byte that tells requests from answers.
    way: u8,
    /// The first bytes of each word are from the first of these, to the second behind it.
    words: [(u8, u8); 2],
}

impl Likely {
    /// Of requests, or of answers, near these CmdSN and StatSN.
    pub(super) fn of(requests: bool, [cmd_sn, stat_sn]: Numbers) -> Likely {
        let [first, second] = match requests {
            true => [cmd_sn, stat_sn],
            false => [stat_sn, cmd_sn],
        };
        Likely {
            way: if requests { 0 } else { 0x20 },
            words: [first, second].map(|newest| match newest {
                Some(newest) => {
                    let first_byte = |number: u32| (number >> 24) as u8;
                    let least = first_byte(newest.wrapping_sub(NEAR));
                    let most = first_byte(newest.wrapping_add(NEAR));
                    (least, most.wrapping_sub(least))
                }
                None => (0, u8::MAX),
            }),
        }
    }

    /// The places behind the first byte at which such a header may begin.
    pub(super) fn places(self, bytes: &[u8]) -> impl Iterator<Item = usize> {
        let last = (bytes.len() + 1).saturating_sub(LOOK_BYTES);
        (1..last).step_by(PLACES).flat_map(move |from| {
            let of_block = from..last.min(from + PLACES);
            let is_skipped = self.is_none_of(&bytes[from..]);
            let places = if is_skipped { 0..0 } else { of_block };
            places.filter(move |&at| self.is_at(&bytes[at..]))
        })
    }

    /// Whether a header begins at none of as many places as are looked at together; of fewer, it is not known.
    fn is_none_of(self, bytes: &[u8]) -> bool {
        let column = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk::<PLACES>);
        let [Some(first), Some(flags), Some(one), Some(two)] =
            [0, 1, WORDS[0], WORDS[1]].map(column)
        else {
            return false;
        };
        let mut any = false;
        for at in 0..PLACES {
            any |= self.fits(first[at], flags[at], [one[at], two[at]]);
        }
        !any
    }

    fn is_at(self, bytes: &[u8]) -> bool {
        self.fits(bytes[0], bytes[1], WORDS.map(|word| bytes[word]))
    }

    /// Without branches, so that processors take many places at once.
    #[expect(
        clippy::needless_bitwise_bool,
        reason = "branches would have each place looked at alone"
    )]
    fn fits(self, first: u8, flags: u8, words: [u8; 2]) -> bool {
        let [(one, more_one), (two, more_two)] = self.words;
        // As in `reserved` and `is_whole`: only PDUs of the opcodes 1 to 5 go on.
        let is_of_way = first & 0xa0 == self.way;
        let goes_on = (first & 0x18 == 0) & (first & 0x07 != 0);
        let is_near =
            (words[0].wrapping_sub(one) <= more_one) & (words[1].wrapping_sub(two) <= more_two);
        is_of_way & (goes_on | (flags >= 0x80)) & is_near
    }
}
