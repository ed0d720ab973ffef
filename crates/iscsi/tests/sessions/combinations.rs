//! Data arrives intact both ways, with any negotiated values and any split.

use wansan_iscsi::keys::{DigestKind, Wanted};
use wansan_trace::{Direction, Layer};

use super::pair::{BLOCK_BYTES, Pair};

fn digest(on: bool) -> Vec<DigestKind> {
    vec![if on {
        DigestKind::Crc32c
    } else {
        DigestKind::None
    }]
}

/// Every combination, with small, odd and large bursts and segments.
fn combinations() -> impl Iterator<Item = Wanted> {
    let sizes = [
        (512, 512, 512),
        (8192, 65_536, 4096),
        (1000, 10_000, 777),
        (262_144, 1 << 20, 262_144),
    ];
    (0..16_u8).flat_map(move |bits| {
        sizes
            .into_iter()
            .map(move |(first, burst, segment)| Wanted {
                initial_r2t: bits & 1 != 0,
                immediate_data: bits & 2 != 0,
                header_digest: digest(bits & 4 != 0),
                data_digest: digest(bits & 8 != 0),
                first_burst_bytes: first,
                max_burst_bytes: burst,
                max_recv_data_bytes: segment,
                max_outstanding_r2t: 1 + u16::from(bits % 5),
                ..Wanted::default()
            })
    })
}

#[test]
fn every_combination_moves_data_whole() {
    for (seed, wanted) in combinations().enumerate() {
        let mut pair = Pair::new(wanted.clone(), wanted.clone(), 16, seed as u64);
        assert_eq!(pair.initiator.parameters().initial_r2t, wanted.initial_r2t);
        assert_eq!(
            pair.initiator.parameters().immediate_data,
            wanted.immediate_data
        );
        let mut expected = vec![0_u8; pair.store.len()];
        // Writes that do not overlap, of one block to 96 KiB.
        let mut lba = 0;
        for n in 0..24 {
            let blocks = if n % 6 == 0 {
                192
            } else {
                1 + pair.random_below(20)
            };
            let data: Vec<u8> = (0..blocks * BLOCK_BYTES)
                .map(|_| pair.random_below(256) as u8)
                .collect();
            expected[lba * BLOCK_BYTES..][..data.len()].copy_from_slice(&data);
            pair.write(lba as u64, data, n);
            lba += blocks;
        }
        assert_eq!(pair.settle_good().len(), 24, "{wanted:?}");
        assert!(pair.store == expected, "writes went wrong with {wanted:?}");
        let mut at = 0;
        let mut asked = Vec::new();
        while at < lba {
            let blocks = (1 + pair.random_below(100)).min(lba - at);
            pair.read(at as u64, blocks as u32, asked.len() as u64);
            asked.push((at, blocks));
            at += blocks;
        }
        let done = pair.settle_good();
        assert_eq!(done.len(), asked.len());
        for completion in done {
            let (at, blocks) = asked[completion.user as usize];
            let got = completion.transfer.into_buffer();
            let wanted_bytes = &expected[at * BLOCK_BYTES..][..blocks * BLOCK_BYTES];
            assert!(got == wanted_bytes, "a read went wrong with {wanted:?}");
        }
        assert_eq!(pair.initiator.in_flight(), 0);
        assert_eq!(pair.initiator.awaited_bytes(), 0);
    }
}

#[test]
fn every_layer_is_entered_and_left_once_per_io() {
    let mut pair = Pair::new(Wanted::default(), Wanted::default(), 8, 1);
    for n in 0..32 {
        pair.read(n, 1, n);
        pair.write(100 + n, vec![1; BLOCK_BYTES], 32 + n);
        if n % 8 == 7 {
            pair.settle_good();
        }
    }
    let recorded = [
        Layer::App,
        Layer::Scsi,
        Layer::Queue,
        Layer::Window,
        Layer::Socket,
        Layer::Target,
        Layer::Device,
        Layer::Store,
    ];
    for layer in recorded {
        for direction in [Direction::Enter, Direction::Leave] {
            let crossings = pair
                .trace
                .io
                .crossings()
                .filter(|crossing| crossing.layer == layer && crossing.direction == direction);
            assert_eq!(crossings.count(), 64, "{layer} {direction:?}");
        }
    }
    assert_eq!(pair.trace.dropped(), 0);
}

/// Only requested data counts as awaited, and only until all of it has arrived.
#[test]
fn reads_under_way_are_awaited() {
    let mut pair = Pair::new(Wanted::default(), Wanted::default(), 8, 1);
    let now = pair.now();
    pair.read(0, 3, 0);
    pair.write(100, vec![1; BLOCK_BYTES], 1);
    assert_eq!(pair.initiator.awaited_bytes(), 0);
    pair.initiator.pump(now, &mut pair.trace);
    assert_eq!(pair.initiator.awaited_bytes(), 3 * BLOCK_BYTES as u64);
    pair.settle_good();
    assert_eq!(pair.initiator.awaited_bytes(), 0);
}
