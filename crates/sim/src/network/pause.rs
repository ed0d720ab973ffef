//! Times in which hosts stood still.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::tcp::segment::Segment;

/// A time in which a host, or its program, did not run though it had something to do: other work had the processors, or
/// whoever the machine is lent from. It begins as a packet comes, and so has the same effect wherever that comes a little
/// sooner or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// The addresses of the packet's sender and of its receiver, which the pause is of.
    pub flow: [SocketAddr; 2],
    /// The place of a byte in it, counted from what had come when this was asked for.
    pub byte: u64,
    /// How long it lasts.
    pub lasts: Duration,
}

/// Pauses of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pauses {
    /// Of the kernel, and with it of all programs: what arrives is taken when they are over.
    pub host: Vec<Pause>,
    /// Of the program alone: the kernel takes what arrives, and acknowledges it.
    pub program: Vec<Pause>,
}

/// How long the host and the program of an end will stand still, by the sequence number that begins it, in ns.
#[derive(Debug, Default)]
pub(super) struct Coming(BTreeMap<u64, [u64; 2]>);

impl Coming {
    /// Adds the pauses that this flow begins, of an end that expects `expected_seq`.
    pub(super) fn add(&mut self, flow: [SocketAddr; 2], expected_seq: u64, pauses: &Pauses) {
        for (place, pauses) in [&pauses.host, &pauses.program].into_iter().enumerate() {
            for pause in pauses.iter().filter(|pause| pause.flow == flow) {
                let lasts = self.0.entry(expected_seq + pause.byte).or_default();
                lasts[place] = lasts[place].max(pause.lasts.as_nanos() as u64);
            }
        }
    }

    /// How long both stand still since a packet has come.
    pub(super) fn take(&mut self, segment: &Segment) -> [u64; 2] {
        let mut longest = [0; 2];
        if self.0.is_empty() {
            return longest;
        }
        let end = segment.seq + u64::from(segment.bytes);
        while let Some((&seq, lasts)) = self.0.range(segment.seq..end).next() {
            longest = [0, 1].map(|place| longest[place].max(lasts[place]));
            self.0.remove(&seq);
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_begins_with_the_packet_that_has_its_byte_and_once() {
        let end = |last: u8| SocketAddr::from(([10, 0, 0, last], 3260));
        let pause = |from, byte, ns| Pause {
            flow: [end(from), end(9)],
            byte,
            lasts: Duration::from_nanos(ns),
        };
        let pauses = Pauses {
            host: vec![pause(1, 100, 7), pause(2, 100, 90)],
            program: vec![pause(1, 100, 5), pause(1, 150, 6), pause(1, 500, 80)],
        };
        let mut coming = Coming::default();
        coming.add([end(1), end(9)], 1001, &pauses);
        let packet = Segment {
            seq: 1101,
            bytes: 100,
            ..Segment::default()
        };
        assert_eq!(coming.take(&packet), [7, 6]);
        assert_eq!(coming.take(&packet), [0, 0]);
    }
}
