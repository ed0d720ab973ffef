//! Late, duplicate and out-of-order data.

use super::*;

/// The SACK blocks of an acknowledgement, as pairs of edges.
type Blocks = &'static [(u64, u64)];

/// Delivers segments in this order, and checks the answer to each.
fn answers(first: u64, segments: &[(u64, u64)], expected: &[(u64, Blocks)]) {
    let mut receiver = receiver(&ReceiveConfig::default(), first);
    let answers = segments.iter().map(|&(from, to)| {
        receiver.on_segment(MS, &data(from, (to - from) as u32), Ecn::NotCapable);
        reported(&mut receiver, MS)
    });
    let expected = expected.iter().map(|&(ack, blocks)| (ack, blocks.to_vec()));
    assert_eq!(answers.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn rfc_2018_case_1_the_last_segments_are_lost() {
    let segments = [(5000, 5500), (5500, 6000), (6000, 6500), (6500, 7000)];
    answers(
        5000,
        &segments,
        &[(5500, &[]), (6000, &[]), (6500, &[]), (7000, &[])],
    );
}

#[test]
fn rfc_2018_case_2_the_first_segment_is_lost() {
    let segments: Vec<_> = (1..8).map(|n| (5000 + 500 * n, 5500 + 500 * n)).collect();
    answers(
        5000,
        &segments,
        &[
            (5000, &[(5500, 6000)]),
            (5000, &[(5500, 6500)]),
            (5000, &[(5500, 7000)]),
            (5000, &[(5500, 7500)]),
            (5000, &[(5500, 8000)]),
            (5000, &[(5500, 8500)]),
            (5000, &[(5500, 9000)]),
        ],
    );
}

#[test]
fn rfc_2018_case_3_every_other_segment_is_lost() {
    let segments = [
        (5000, 5500),
        (6000, 6500),
        (7000, 7500),
        (8000, 8500),
        (6500, 7000),
        (5500, 6000),
    ];
    answers(
        5000,
        &segments,
        &[
            (5500, &[]),
            (5500, &[(6000, 6500)]),
            (5500, &[(7000, 7500), (6000, 6500)]),
            (5500, &[(8000, 8500), (7000, 7500), (6000, 6500)]),
            (5500, &[(6000, 7500), (8000, 8500)]),
            (7500, &[(8000, 8500)]),
        ],
    );
}

#[test]
fn rfc_2883_example_1_a_duplicate_segment() {
    answers(
        3000,
        &[(3000, 3500), (3500, 4000), (3000, 3500)],
        &[(3500, &[]), (4000, &[]), (4000, &[(3000, 3500)])],
    );
}

#[test]
fn rfc_2883_example_2_a_duplicate_below_a_hole() {
    answers(
        3000,
        &[(3000, 3500), (4000, 4500), (4500, 5000), (3000, 3500)],
        &[
            (3500, &[]),
            (3500, &[(4000, 4500)]),
            (3500, &[(4000, 5000)]),
            (3500, &[(3000, 3500), (4000, 5000)]),
        ],
    );
}

#[test]
fn rfc_2883_example_3_a_duplicate_behind_a_hole() {
    answers(
        3000,
        &[(3000, 3500), (4000, 4500), (4500, 5000), (4000, 4500)],
        &[
            (3500, &[]),
            (3500, &[(4000, 4500)]),
            (3500, &[(4000, 5000)]),
            (3500, &[(4000, 4500), (4000, 5000)]),
        ],
    );
}

#[test]
fn rfc_2883_example_4_a_duplicate_part() {
    answers(
        500,
        &[(500, 1000), (2000, 2500), (1000, 1500), (1000, 2000)],
        &[
            (1000, &[]),
            (1000, &[(2000, 2500)]),
            (1500, &[(2000, 2500)]),
            (2500, &[(1000, 1500)]),
        ],
    );
}

#[test]
fn rfc_2883_example_5_of_two_duplicate_parts_the_first_is_reported() {
    answers(
        500,
        &[
            (500, 1000),
            (3000, 3500),
            (1000, 1500),
            (2000, 2500),
            (1000, 2500),
        ],
        &[
            (1000, &[]),
            (1000, &[(3000, 3500)]),
            (1500, &[(3000, 3500)]),
            (1500, &[(2000, 2500), (3000, 3500)]),
            (2500, &[(1000, 1500), (3000, 3500)]),
        ],
    );
}

#[test]
fn a_fin_behind_a_hole_ends_the_data_once_the_hole_is_filled() {
    let mut receiver = receiver(&ReceiveConfig::default(), 1);
    receiver.on_segment(
        MS,
        &Segment {
            fin: true,
            ..data(1449, 552)
        },
        Ecn::NotCapable,
    );
    assert!(!receiver.is_finished());
    receiver.on_segment(MS, &data(1, 1448), Ecn::NotCapable);
    assert!(receiver.is_finished());
    assert_eq!(receiver.next(), 2002);
    assert_eq!(receiver.read(MS, u64::MAX), 2000);
    assert_eq!(receiver.info().memory_bytes, 0);
    // The FIN is retransmitted, since its acknowledgement was lost.
    filled(&mut receiver, MS);
    receiver.on_segment(
        2 * MS,
        &Segment {
            fin: true,
            ..data(2001, 0)
        },
        Ecn::NotCapable,
    );
    assert!(is_due(&receiver, 2 * MS));
}

#[test]
fn segments_out_of_the_window_are_answered_and_not_taken() {
    let mut receiver = receiver(&ReceiveConfig::default(), 1);
    receiver.on_segment(MS, &data(1_000_000, 1448), Ecn::NotCapable);
    assert!(is_due(&receiver, MS));
    assert_eq!(reported(&mut receiver, MS), (1, vec![]));
    // Probes without data are answered at most twice a second.
    receiver.on_segment(2 * MS, &data(0, 0), Ecn::NotCapable);
    assert!(is_due(&receiver, 2 * MS));
    filled(&mut receiver, 2 * MS);
    receiver.on_segment(501 * MS, &data(0, 0), Ecn::NotCapable);
    assert!(!is_due(&receiver, 501 * MS));
    receiver.on_segment(502 * MS, &data(0, 0), Ecn::NotCapable);
    assert!(is_due(&receiver, 502 * MS));
    assert_eq!(receiver.info().counts.out_of_window, 4);
    assert_eq!(receiver.readable_bytes(), 0);
}

/// Checks the invariants of an acknowledgement: blocks lie above it, are disjoint, and cover only received data. A
/// DSACK comes first, and may lie anywhere.
fn check_blocks(segment: &Segment, has_come: &[bool], seed: u64) {
    let blocks = segment.sack.blocks();
    let is_duplicate = blocks.first().is_some_and(|first| {
        first.to <= segment.ack
            || blocks[1..]
                .iter()
                .any(|other| other.from <= first.from && first.to <= other.to)
    });
    let real = &blocks[usize::from(is_duplicate)..];
    for (place, block) in real.iter().enumerate() {
        assert!(
            segment.ack < block.from && block.from < block.to,
            "seed {seed}: {segment:?}"
        );
        for other in &real[..place] {
            assert!(
                block.to < other.from || other.to < block.from,
                "seed {seed}: {segment:?}"
            );
        }
    }
    for block in blocks {
        let come = &has_come[block.from as usize..block.to as usize];
        assert!(come.iter().all(|come| *come), "seed {seed}: {segment:?}");
    }
}

#[test]
fn in_any_order_all_that_was_sent_is_read_once() {
    const BYTES: u64 = 50_000;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut receiver = receiver(&ReceiveConfig::default(), 1);
        let mut has_come = vec![false; BYTES as usize + 2];
        let mut read = 0;
        let mut rounds = 0;
        while receiver.next() <= BYTES {
            rounds += 1;
            assert!(rounds < 100_000, "seed {seed}");
            // Now and then, the next expected.
            let from = match random.below(20) {
                0 => receiver.next(),
                _ => 1 + random.below(BYTES),
            };
            let bytes = (1 + random.below(3000)).min(1 + BYTES - from);
            let before = receiver.info();
            receiver.on_segment(rounds * MS, &data(from, bytes as u32), Ecn::NotCapable);
            let is_taken = receiver.info().counts.dropped == before.counts.dropped
                && receiver.info().counts.out_of_window == before.counts.out_of_window;
            assert!(is_taken, "seed {seed}: the whole fits into the window");
            has_come[from as usize..(from + bytes) as usize].fill(true);
            if random.below(2) == 0 {
                let segment = filled(&mut receiver, rounds * MS);
                let in_order = has_come[1..].iter().take_while(|come| **come).count() as u64;
                assert_eq!(segment.ack, 1 + in_order, "seed {seed}");
                check_blocks(&segment, &has_come, seed);
            }
            if random.below(3) == 0 {
                read += receiver.read(rounds * MS, random.below(5000));
            }
        }
        read += receiver.read(rounds * MS, u64::MAX);
        assert_eq!(read, BYTES, "seed {seed}");
        assert_eq!(receiver.info().memory_bytes, 0, "seed {seed}");
    }
}
