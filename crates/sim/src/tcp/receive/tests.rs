//! The receiver as its peer sees it.

mod acknowledgements;
mod order;
mod windows;

use wansan_path::Ecn;

use super::{Opening, ReceiveConfig, Receiver};
use crate::tcp::segment::Segment;

const MS: u64 = 1_000_000;

/// A passive receiver after the handshake, with `first` as its next sequence number.
fn receiver(config: &ReceiveConfig, first: u64) -> Receiver {
    let mut receiver = Receiver::new(config, Opening::Passive);
    let syn = Segment {
        seq: first - 1,
        syn: true,
        ece: true,
        cwr: true,
        ..Segment::default()
    };
    receiver.on_segment(0, &syn, Ecn::NotCapable);
    receiver.fill(
        0,
        &mut Segment {
            syn: true,
            ..Segment::default()
        },
    );
    receiver.on_segment(
        0,
        &Segment {
            seq: first,
            ..Segment::default()
        },
        Ecn::NotCapable,
    );
    receiver
}

/// A segment of `bytes` at `seq`.
fn data(seq: u64, bytes: u32) -> Segment {
    Segment {
        seq,
        bytes,
        ..Segment::default()
    }
}

/// A segment sent now.
fn filled(receiver: &mut Receiver, now_ns: u64) -> Segment {
    let mut segment = Segment::default();
    receiver.fill(now_ns, &mut segment);
    segment
}

/// Whether an acknowledgement is due now.
fn is_due(receiver: &Receiver, now_ns: u64) -> bool {
    receiver
        .acknowledge_at()
        .is_some_and(|at_ns| at_ns <= now_ns)
}

/// The acknowledgement and the SACK blocks of a segment sent now.
fn reported(receiver: &mut Receiver, now_ns: u64) -> (u64, Vec<(u64, u64)>) {
    let segment = filled(receiver, now_ns);
    let blocks = segment
        .sack
        .blocks()
        .iter()
        .map(|block| (block.from, block.to));
    (segment.ack, blocks.collect())
}

/// A small generator of random numbers (xorshift64*, Vigna 2016).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}
