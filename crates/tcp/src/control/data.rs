//! The read-only data that controls are loaded with, and how to read it back.

use wansan_congestion::{Counting, Growth, HighSpeed, Table};

/// Bytes of a 64-bit number.
const WORD_BYTES: usize = 8;

/// `struct growth_rule` of `bpf/control.h`.
#[must_use]
pub fn of_growth(growth: &Growth) -> Vec<u8> {
    let per_ack = u32::from(growth.counting == Counting::PerAck);
    let words = [growth.max_ssthresh.unwrap_or(0), per_ack];
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Parses such a structure; `None` when the bytes are invalid.
#[must_use]
pub fn growth(data: &[u8]) -> Option<Growth> {
    let word = |at: usize| Some(u32::from_ne_bytes(data.get(at..at + 4)?.try_into().ok()?));
    Some(Growth {
        max_ssthresh: word(0).filter(|&segments| segments > 0),
        counting: if word(4)? == 0 {
            Counting::PerPacket
        } else {
            Counting::PerAck
        },
    })
}

/// `struct law` of `bpf/hstcp.bpf.c`: the parameters, Low_Window and the rows of the table.
#[must_use]
pub fn of_highspeed(law: &HighSpeed) -> Vec<u8> {
    let given = [
        law.low_window,
        law.high_window,
        law.low_loss,
        law.high_loss,
        law.high_decrease,
    ];
    let table = Table::of(law);
    let mut data = Vec::with_capacity((given.len() + 1 + table.rows().len()) * WORD_BYTES);
    for given in given {
        data.extend(given.to_bits().to_ne_bytes());
    }
    data.extend(u64::from(table.low_window()).to_ne_bytes());
    for row in table.rows() {
        data.extend(row.increase.to_ne_bytes());
        data.extend(row.decrease.to_ne_bytes());
    }
    data
}

/// The parameters that such data was made of; `None` when the bytes are invalid.
#[must_use]
pub fn highspeed(data: &[u8]) -> Option<HighSpeed> {
    let mut given = data
        .chunks_exact(WORD_BYTES)
        .map(|bits| Some(f64::from_bits(u64::from_ne_bytes(bits.try_into().ok()?))));
    let mut next = || given.next().flatten();
    let parameters = HighSpeed {
        low_window: next()?,
        high_window: next()?,
        low_loss: next()?,
        high_loss: next()?,
        high_decrease: next()?,
    };
    parameters.check().ok().map(|()| parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_tells_what_it_was_made_of() {
        let law = HighSpeed {
            low_window: 8.0,
            high_window: 400.0,
            low_loss: 0.02,
            high_loss: 1e-4,
            high_decrease: 0.2,
        };
        assert_eq!(highspeed(&of_highspeed(&law)), Some(law));
        assert_eq!(highspeed(&[0; 12]), None);
        assert_eq!(highspeed(&[0; 400]), None);
        let slow = Growth {
            max_ssthresh: Some(100),
            counting: Counting::PerAck,
        };
        for given in [Growth::default(), slow] {
            assert_eq!(growth(&of_growth(&given)), Some(given));
        }
        assert_eq!(growth(&[0; 4]), None);
    }
}
