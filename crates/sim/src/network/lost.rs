//! Packets dropped because of their content.

use std::collections::BTreeMap;

use crate::tcp::segment::Segment;

/// A packet of an end to drop on a link, independent of other traffic. Stream offsets count from what had been written,
/// or received, when the loss was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The packet with this byte of data, after `before` earlier ones with it.
    Data {
        /// The byte's offset in the stream.
        byte: u64,
        /// How many packets with this byte come to the link before: 0 for the first transmission, 1 for its
        /// retransmission.
        before: u32,
    },
    /// The first packet without data that acknowledges at least that many bytes.
    Acknowledgement {
        /// The number of bytes acknowledged.
        bytes: u64,
    },
}

/// Packets of one end that are yet to be dropped, by link and by sequence or acknowledgement number.
#[derive(Debug, Default)]
pub(super) struct Losses {
    data: BTreeMap<(u32, u64), Byte>,
    /// How many packets that acknowledge at least that number are dropped.
    acknowledgements: BTreeMap<(u32, u64), u32>,
}

/// Transmissions of one byte of data.
#[derive(Debug, Default)]
struct Byte {
    /// How many have come to the link.
    came: u32,
    /// Which of them are dropped, by how many came before.
    lost: Vec<u32>,
}

impl Losses {
    /// Adds a loss on a link, for an end that sends its next byte with `next_seq` and expects `expected_seq`.
    pub(super) fn add(&mut self, link: u32, [next_seq, expected_seq]: [u64; 2], lost: Lost) {
        match lost {
            Lost::Data { byte, before } => {
                let of_byte = self.data.entry((link, next_seq + byte)).or_default();
                of_byte.lost.push(before);
            }
            Lost::Acknowledgement { bytes } => {
                let acknowledging = self.acknowledgements.entry((link, expected_seq + bytes));
                *acknowledging.or_default() += 1;
            }
        }
    }

    /// Whether a packet that comes to a link is dropped there.
    pub(super) fn take(&mut self, link: u32, segment: &Segment) -> bool {
        if self.data.is_empty() && self.acknowledgements.is_empty() {
            return false;
        }
        if segment.bytes == 0 {
            return segment.end() == segment.seq && self.take_acknowledgement(link, segment.ack);
        }
        let end = segment.seq + u64::from(segment.bytes);
        let mut is_lost = false;
        for (_, of_byte) in self.data.range_mut((link, segment.seq)..(link, end)) {
            let before = of_byte.lost.len();
            of_byte.lost.retain(|lost| *lost != of_byte.came);
            is_lost |= of_byte.lost.len() < before;
            of_byte.came += 1;
        }
        is_lost
    }

    fn take_acknowledgement(&mut self, link: u32, ack: u64) -> bool {
        let mut due = self.acknowledgements.range_mut((link, 0)..=(link, ack));
        let Some((&place, count)) = due.next() else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            self.acknowledgements.remove(&place);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(seq: u64) -> Segment {
        Segment {
            seq,
            bytes: 1000,
            ..Segment::default()
        }
    }

    #[test]
    fn a_packet_is_lost_by_the_byte_in_it_and_by_how_often_that_was_sent() {
        let mut losses = Losses::default();
        for before in [0, 2] {
            losses.add(7, [1, 1], Lost::Data { byte: 1500, before });
        }
        let sent: [u64; 6] = [1, 1001, 2001, 1001, 901, 1001];
        let lost = sent.map(|seq| losses.take(7, &data(seq)));
        assert_eq!(lost, [false, true, false, false, true, false]);
        losses.add(7, [1, 1], Lost::Data { byte: 0, before: 0 });
        assert!(!losses.take(8, &data(1)), "it is another link");
    }

    #[test]
    fn of_acknowledgements_the_first_that_says_as_much_is_lost() {
        let mut losses = Losses::default();
        losses.add(7, [1, 100], Lost::Acknowledgement { bytes: 50 });
        let acknowledges = |ack| Segment {
            ack,
            ..Segment::default()
        };
        let lost = [140, 160, 160].map(|ack| losses.take(7, &acknowledges(ack)));
        assert_eq!(lost, [false, true, false]);
        let with_data = Segment {
            ack: 200,
            ..data(1)
        };
        losses.add(7, [1, 100], Lost::Acknowledgement { bytes: 50 });
        assert!(!losses.take(7, &with_data));
    }
}
