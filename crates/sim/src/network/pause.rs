//! Pauses of hosts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::tcp::segment::Segment;

/// A time in which a host, or its program, did not run although it had work: other work had the CPUs, or the hypervisor
/// took them (steal time). It begins with the arrival of a packet, and so has the same effect if that arrives slightly
/// earlier or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// The addresses of the packet's sender and of its receiver; the receiver is paused.
    pub flow: [SocketAddr; 2],
    /// The packet with which it begins.
    pub begins: Begins,
    /// How long it lasts.
    pub lasts: Duration,
}

/// The packet with which a pause begins. Stream offsets count from what had been received, or acknowledged, when the
/// pause was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begins {
    /// The packet with this byte of data.
    Data(u64),
    /// The first packet that acknowledges at least that many bytes, at least that long after the pause was requested:
    /// the boundary between two bursts may shift slightly in a stream.
    Acknowledgement(u64, Duration),
}

/// Pauses of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pauses {
    /// Of the kernel, and thus of all programs: what arrives is processed after the pause.
    pub host: Vec<Pause>,
    /// Of the program only: the kernel still processes and acknowledges what arrives.
    pub program: Vec<Pause>,
}

/// Pauses of the host and of the program of an end that are yet to begin, in ns.
#[derive(Debug, Default)]
pub(super) struct Coming {
    /// By the sequence number of the data with which they begin.
    data: BTreeMap<u64, [u64; 2]>,
    /// By acknowledgement number and earliest time in ns.
    acknowledgements: BTreeMap<(u64, u64), [u64; 2]>,
}

impl Coming {
    /// Adds the pauses that packets of this flow begin, for an end that sends its next byte with `next_seq` and expects
    /// `expected_seq`.
    pub(super) fn add(
        &mut self,
        now_ns: u64,
        flow: [SocketAddr; 2],
        [next_seq, expected_seq]: [u64; 2],
        pauses: &Pauses,
    ) {
        for (place, pauses) in [&pauses.host, &pauses.program].into_iter().enumerate() {
            for pause in pauses.iter().filter(|pause| pause.flow == flow) {
                let lasts = match pause.begins {
                    Begins::Data(byte) => self.data.entry(expected_seq + byte).or_default(),
                    Begins::Acknowledgement(bytes, after) => {
                        let from_ns = now_ns + after.as_nanos() as u64;
                        let of = (next_seq + bytes, from_ns);
                        self.acknowledgements.entry(of).or_default()
                    }
                };
                lasts[place] = lasts[place].max(pause.lasts.as_nanos() as u64);
            }
        }
    }

    /// How long the host and the program pause because of a packet that has arrived.
    pub(super) fn take(&mut self, now_ns: u64, segment: &Segment) -> [u64; 2] {
        let mut longest = [0; 2];
        let mut see = |lasts: [u64; 2]| {
            longest = [0, 1].map(|place| longest[place].max(lasts[place]));
        };
        let end = segment.seq + u64::from(segment.bytes);
        if segment.bytes > 0 {
            while let Some((&seq, &lasts)) = self.data.range(segment.seq..end).next() {
                see(lasts);
                self.data.remove(&seq);
            }
        }
        while let Some(first) = self.acknowledgements.first_entry()
            && let (ack, from_ns) = *first.key()
            && ack <= segment.ack
            && from_ns <= now_ns
        {
            see(first.remove());
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
        let pause = |from, begins, ns| Pause {
            flow: [end(from), end(9)],
            begins,
            lasts: Duration::from_nanos(ns),
        };
        let data = |from, byte, ns| pause(from, Begins::Data(byte), ns);
        let pauses = Pauses {
            host: vec![
                data(1, 100, 7),
                data(2, 100, 90),
                pause(1, Begins::Acknowledgement(30, Duration::from_nanos(5)), 11),
            ],
            program: vec![data(1, 100, 5), data(1, 150, 6), data(1, 500, 80)],
        };
        let mut coming = Coming::default();
        coming.add(100, [end(1), end(9)], [2001, 1001], &pauses);
        let packet = |ack| Segment {
            seq: 1101,
            bytes: 100,
            ack,
            ..Segment::default()
        };
        assert_eq!(coming.take(105, &packet(2030)), [7, 6]);
        assert_eq!(coming.take(105, &packet(2030)), [0, 0]);
        assert_eq!(coming.take(104, &packet(2035)), [0, 0]);
        assert_eq!(coming.take(105, &packet(2035)), [11, 0]);
    }
}
