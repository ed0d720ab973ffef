//! Queue disciplines against cases calculated by hand.

use std::time::Duration;

use wansan_path::{
    Boundary, Chain, CoDelParameters, Departure, Discipline, Ecn, Effects, Fate, Limit, Packet,
    Rate, RedParameters, Unit,
};
use wansan_trace::Instant;

const PACKET_BYTES: u32 = 1_000;

fn at_us(us: u64) -> Instant {
    Instant::from_ns(us * 1_000)
}

/// A path on which a packet's transmission takes a millisecond.
fn chain(discipline: Discipline, queue_limit: Limit) -> Chain<u64> {
    let effects = Effects {
        capacity: Rate::from_bits_per_s(8_000_000).unwrap().into(),
        discipline,
        queue_limit,
        ..Effects::default()
    };
    effects.chain(1).unwrap()
}

/// Sends `packets`, one each `gap_us`, and returns all departures.
fn load(chain: &mut Chain<u64>, packets: u64, gap_us: u64, ecn: Ecn) -> Vec<Departure<u64>> {
    let mut left = Vec::new();
    for number in 0..packets {
        let now = at_us(number * gap_us);
        left.extend(std::iter::from_fn(|| chain.poll(now)));
        let packet = Packet {
            ecn,
            ..Packet::new(PACKET_BYTES, number)
        };
        chain.enqueue(now, packet);
    }
    left.extend(std::iter::from_fn(|| chain.poll(Instant::FAR_FUTURE)));
    left
}

fn codel(ecn: bool) -> Chain<u64> {
    let parameters = CoDelParameters {
        ecn,
        ..CoDelParameters::new(1_514)
    };
    chain(Discipline::CoDel(parameters), Limit::packets(10_000))
}

/// Two packets arrive per packet sent, so packet k is at the head at k ms and has waited for k / 2 ms: 5 ms at 10 ms.
/// An interval later, at 110 ms, the first one goes, the next after 100 ms / √1, then / √2, √3, √4 and √5, each at the
/// first millisecond that is not earlier.
const CODEL_SIGNALS_MS: [u64; 6] = [110, 210, 281, 339, 389, 434];

#[test]
fn codel_drops_by_its_control_law() {
    let left = load(&mut codel(false), 860, 500, Ecn::NotCapable);
    let drops = left.iter().filter(|left| left.fate != Fate::Delivered);
    let drops: Vec<_> = drops.collect();
    let times: Vec<u64> = drops
        .iter()
        .map(|drop| drop.departed.ns() / 1_000_000)
        .collect();
    assert!(times.starts_with(&CODEL_SIGNALS_MS), "{times:?}");
    assert!(drops.iter().all(|drop| drop.fate == Fate::DroppedByQueue));
    assert_eq!(drops[0].packet.payload, 110, "it drops from the head");
}

#[test]
fn codel_marks_at_the_same_times() {
    let left = load(&mut codel(true), 860, 500, Ecn::Capable0);
    assert!(left.iter().all(|left| left.fate == Fate::Delivered));
    let marks = left.iter().filter(|left| left.marked);
    // A marked packet is sent, and leaves a millisecond after it was dequeued.
    let times: Vec<u64> = marks
        .map(|mark| mark.departed.ns() / 1_000_000 - 1)
        .collect();
    assert!(times.starts_with(&CODEL_SIGNALS_MS), "{times:?}");
}

#[test]
fn codel_leaves_a_good_queue_alone() {
    // Bursts of eight packets that have left before the next burst: a queue, but no standing one.
    let mut chain = codel(false);
    for burst in 0..200 {
        let now = at_us(burst * 9_000);
        while let Some(left) = chain.poll(now) {
            assert_eq!(left.fate, Fate::Delivered);
        }
        for number in 0..8 {
            chain.enqueue(now, Packet::new(PACKET_BYTES, number));
        }
    }
    let drops = chain.counters(Instant::FAR_FUTURE).dropped_by_queue;
    assert_eq!(drops.packets, 0);
}

#[test]
fn red_holds_the_average_between_its_thresholds() {
    let parameters = RedParameters {
        weight: 0.02,
        ..RedParameters::new(Unit::Packets, 5.0, 15.0)
    };
    // 5 % more than the link's capacity: RED has to drop one packet in 21.
    let mut chain = chain(Discipline::Red(parameters), Limit::packets(100));
    let left = load(&mut chain, 50_000, 952, Ecn::NotCapable);
    let drops = left.iter().filter(|left| left.fate != Fate::Delivered);
    let share = drops.count() as f64 / 50_000.0;
    assert!((share - 1.0 / 21.0).abs() < 0.005, "{share}");
    let high_water = chain.counters(Instant::FAR_FUTURE).queued_high_water;
    assert!(high_water.packets < 40, "{high_water:?}");
}

#[test]
fn red_marks_the_capable_and_drops_the_others() {
    let parameters = RedParameters {
        weight: 0.02,
        ecn: true,
        ..RedParameters::new(Unit::Bytes, 5_000.0, 500_000.0)
    };
    for (ecn, marks) in [(Ecn::Capable1, true), (Ecn::NotCapable, false)] {
        let mut chain = chain(Discipline::Red(parameters), Limit::packets(1_000));
        let left = load(&mut chain, 1_000, 900, ecn);
        let marked = left.iter().filter(|left| left.marked).count() as u64;
        let counters = chain.counters(Instant::FAR_FUTURE);
        assert_eq!(counters.marked.packets, marked);
        assert_eq!(marked > 0, marks);
        assert_eq!(counters.dropped_by_queue.packets == 0, marks);
    }
}

#[test]
fn priority_sends_the_lower_class_first_and_pushes_out_the_higher() {
    let mut chain = chain(Discipline::Priority(3), Limit::packets(3));
    // The first one is being sent; then class and number of arrivals, in order.
    let coming = [
        (2, 0),
        (2, 1),
        (1, 2),
        (2, 3),
        (1, 4),
        (0, 5),
        (0, 6),
        (7, 7),
    ];
    for (class, number) in coming {
        let packet = Packet {
            class,
            ..Packet::new(PACKET_BYTES, number)
        };
        chain.enqueue(Instant::ZERO, packet);
    }
    let left: Vec<_> = std::iter::from_fn(|| chain.poll(Instant::FAR_FUTURE))
        .map(|left| (left.packet.payload, left.departed.ns() / 1_000_000))
        .collect();
    // 1, 2, 3 fill it; 4 displaces 3, 5 displaces 1, 6 displaces 4; 7 finds none behind it.
    let dropped = [(3, 0), (1, 0), (4, 0), (7, 0)];
    let sent = [(0, 1), (5, 2), (6, 3), (2, 4)];
    assert_eq!(left, [dropped, sent].concat());
}

#[test]
fn links_keep_their_rate() {
    for bits_per_s in [1_000_000, 10_000_001, 999_999_937, 5_000_000_000] {
        let effects = Effects {
            capacity: Rate::from_bits_per_s(bits_per_s).unwrap().into(),
            delay: Duration::from_millis(3),
            queue_limit: Limit::packets(10_000),
            ..Effects::default()
        };
        let mut chain = effects.chain(0).unwrap();
        let sizes = (0..10_000u32).map(|number| 64 + number * 7 % 1_450);
        let mut bits = 0;
        for size_bytes in sizes {
            bits += u64::from(size_bytes) * 8;
            chain.enqueue(Instant::ZERO, Packet::new(size_bytes, ()));
        }
        let last = std::iter::from_fn(|| chain.poll(Instant::FAR_FUTURE)).last();
        let took = last.unwrap().departed - Instant::from_ns(3_000_000);
        let achieved = bits as f64 / took.as_secs_f64();
        let error = (achieved / bits_per_s as f64 - 1.0).abs();
        assert!(error < 1e-6, "{bits_per_s} bit/s: {achieved}");
    }
}

/// Sightings at a link: all arrivals, then departures when they were sent, and drops of the full queue.
#[test]
fn a_watched_link_shows_both_its_sides() {
    let effects = Effects {
        delay: Duration::from_millis(5),
        capacity: Rate::from_bits_per_s(8_000_000).unwrap().into(),
        queue_limit: Limit::packets(1),
        ..Effects::default()
    };
    let mut chain = effects.chain(0).unwrap();
    assert_eq!(chain.watch("lnik"), None);
    let place = chain.watch("link").unwrap();
    for number in 0..3 {
        chain.enqueue(Instant::ZERO, Packet::new(1000, number));
    }
    while chain.poll(Instant::FAR_FUTURE).is_some() {}
    let mut seen = [Vec::new(), Vec::new()];
    while let Some(sighting) = chain.sighting() {
        assert_eq!(sighting.place, place);
        let packet = sighting.packet;
        let side = usize::from(sighting.boundary == Boundary::Egress);
        seen[side].push((
            packet.packet.payload,
            packet.departed.ns() / 1_000_000,
            packet.fate,
        ));
    }
    let on = Fate::Delivered;
    assert_eq!(seen[0], [(0, 0, on), (1, 0, on), (2, 0, on)]);
    // One is sent and one waits; each takes a millisecond, and the delay is not visible here.
    assert_eq!(
        seen[1],
        [(2, 0, Fate::DroppedByQueue), (0, 1, on), (1, 2, on)]
    );
}
