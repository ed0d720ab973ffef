//! Invariants of every path under changes at any time.

use std::time::Duration;

use proptest::prelude::*;
use wansan_path::{
    Capacity, Chain, Change, CoDelParameters, Counters, Departure, Discipline, Distribution, Ecn,
    Effects, Fate, GilbertElliott, Jitter, Limit, Listed, LossModel, Packet, Probability,
    Quantiles, Rate, RateTrace, RedParameters, Tally, Unit,
};
use wansan_trace::Instant;

/// An event on a path.
#[derive(Debug, Clone)]
enum Event {
    Packet {
        size_bytes: u32,
        ecn: Ecn,
        class: u8,
    },
    Change(Change),
}

/// Events, each with the time since the previous one.
type Course = Vec<(u64, Event)>;

fn probability() -> impl Strategy<Value = Probability> {
    prop_oneof![Just(0.0), 0.0..0.5f64].prop_map(|value| Probability::new(value).unwrap())
}

fn time(most_us: u64) -> impl Strategy<Value = Duration> {
    (0..most_us * 1_000).prop_map(Duration::from_nanos)
}

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![
        (0..40u64).prop_map(Limit::packets),
        (0..40_000u64).prop_map(Limit::bytes),
    ]
}

fn loss() -> impl Strategy<Value = LossModel> {
    prop_oneof![
        probability().prop_map(LossModel::Bernoulli),
        (0.01..0.5f64, 0.01..1.0f64, 0.0..0.1f64, 0.1..1.0f64).prop_map(|(p, r, good, bad)| {
            LossModel::GilbertElliott(GilbertElliott::new(p, r, good, bad).unwrap())
        }),
        prop::collection::vec(1..200u64, 0..9)
            .prop_map(|list| LossModel::Listed(Listed::new(list).unwrap())),
    ]
}

fn capacity() -> impl Strategy<Value = Capacity> {
    let step = (
        1_000..2_000_000u64,
        prop_oneof![Just(0), 0..2_000_000_000u64],
    );
    prop_oneof![
        Just(Capacity::Unlimited),
        (1_000_000..20_000_000_000u64)
            .prop_map(|bits_per_s| Rate::from_bits_per_s(bits_per_s).unwrap().into()),
        prop::collection::vec(step, 1..6).prop_map(|mut steps| {
            steps[0].1 += 1_000_000;
            let steps: Vec<_> = steps
                .into_iter()
                .map(|(ns, bits_per_s)| (Duration::from_nanos(ns), bits_per_s))
                .collect();
            Capacity::Trace(RateTrace::new(&steps).unwrap())
        }),
    ]
}

fn jitter(overtaking: bool) -> impl Strategy<Value = Option<Jitter>> {
    let distribution = prop_oneof![
        time(1_000).prop_map(|spread| Distribution::Uniform { spread }),
        time(1_000).prop_map(|deviation| Distribution::Normal { deviation }),
        prop::collection::vec(-500_000..5_000_000i64, 2..9).prop_map(|mut offsets_ns| {
            offsets_ns.sort_unstable();
            Distribution::Empirical(Quantiles::new(offsets_ns).unwrap())
        }),
    ];
    let jitter = distribution.prop_map(move |distribution| Jitter {
        distribution,
        overtaking,
    });
    prop::option::of(jitter)
}

fn discipline() -> impl Strategy<Value = Discipline> {
    prop_oneof![
        Just(Discipline::DropTail),
        (0.0..5.0f64, 0.1..20.0f64, any::<[bool; 2]>()).prop_map(|(min, more, [gentle, ecn])| {
            Discipline::Red(RedParameters {
                weight: 0.2,
                gentle,
                ecn,
                ..RedParameters::new(Unit::Packets, min, min + more)
            })
        }),
        (10..500u64, any::<bool>()).prop_map(|(target_us, ecn)| {
            Discipline::CoDel(CoDelParameters {
                target: Duration::from_micros(target_us),
                interval: Duration::from_micros(target_us * 10),
                largest_packet_bytes: 1_500,
                ecn,
            })
        }),
    ]
}

/// Effects of a path; with reordering if `reorders`.
fn effects(reorders: bool) -> impl Strategy<Value = Effects> {
    let share = if reorders { 0.0..0.3f64 } else { 0.0..1e-300 };
    let discipline = if reorders {
        prop_oneof![discipline(), (1..4u8).prop_map(Discipline::Priority)].boxed()
    } else {
        discipline().boxed()
    };
    let shares = [probability(), probability(), probability()];
    let waiting = (capacity(), discipline, limit());
    let delays = (time(2_000), jitter(reorders), share, time(2_000));
    (loss(), shares, waiting, delays).prop_map(
        |(loss, [mark, corrupt, duplicate], waiting, delays)| {
            let (capacity, discipline, queue_limit) = waiting;
            let (delay, jitter, share, reorder_by) = delays;
            Effects {
                loss,
                mark,
                corrupt,
                duplicate,
                capacity,
                discipline,
                queue_limit,
                reorder_share: Probability::new(share).unwrap(),
                reorder_by,
                // No jitter is longer.
                delay: delay + Duration::from_millis(1),
                jitter,
            }
        },
    )
}

fn change(reorders: bool) -> impl Strategy<Value = Change> {
    let share = if reorders { 0.0..0.3f64 } else { 0.0..1e-300 };
    prop_oneof![
        time(4_000).prop_map(Change::Delay),
        jitter(reorders).prop_map(Change::Jitter),
        capacity().prop_map(Change::Rate),
        limit().prop_map(Change::QueueLimit),
        loss().prop_map(Change::Loss),
        (share, time(2_000)).prop_map(|(share, by)| Change::Reorder {
            share: Probability::new(share).unwrap(),
            by,
        }),
        probability().prop_map(Change::Duplicate),
        probability().prop_map(Change::Corrupt),
        probability().prop_map(Change::Mark),
        Just(Change::Down),
        Just(Change::Up),
    ]
}

fn course(reorders: bool) -> impl Strategy<Value = Course> {
    let packet = (1..9_000u32, 0..4u8, 0..4u8).prop_map(|(size_bytes, ecn, class)| Event::Packet {
        size_bytes,
        ecn: Ecn::from_bits(ecn),
        class,
    });
    let event = prop_oneof![
        8 => packet,
        1 => change(reorders).prop_map(Event::Change),
    ];
    let gap_ns = prop_oneof![Just(0), 0..100_000u64];
    prop::collection::vec((gap_ns, event), 1..200)
}

/// Runs the course until the chain is empty, polling before each packet, and before each change unless `lazily`. The
/// payload is the packet's number.
fn run(chain: &mut Chain<usize>, course: &Course, lazily: bool) -> Vec<Departure<usize>> {
    let mut left = Vec::new();
    let mut now = Instant::ZERO;
    for (number, (gap_ns, event)) in course.iter().enumerate() {
        now += Duration::from_nanos(*gap_ns);
        let is_packet = matches!(event, Event::Packet { .. });
        if is_packet || !lazily {
            left.extend(std::iter::from_fn(|| chain.poll(now)));
        }
        match event.clone() {
            Event::Packet {
                size_bytes,
                ecn,
                class,
            } => {
                let packet = Packet {
                    size_bytes,
                    ecn,
                    class,
                    payload: number,
                };
                chain.enqueue(now, packet);
            }
            // A delay shorter than the jitter is rejected, and nothing is changed.
            Event::Change(change) => drop(chain.apply(now, change)),
        }
        if !lazily {
            // Dropped packets are no longer held and have their fate already.
            assert_conserved(&chain.counters(now));
            assert_elements_agree(chain, now);
        }
    }
    while let Some(deadline) = chain.next_deadline() {
        left.extend(std::iter::from_fn(|| chain.poll(deadline)));
    }
    left
}

fn sum(tallies: &[Tally]) -> Tally {
    tallies.iter().fold(Tally::default(), |sum, tally| Tally {
        packets: sum.packets + tally.packets,
        bytes: sum.bytes + tally.bytes,
    })
}

fn assert_conserved(counters: &Counters) {
    let fates = [
        counters.delivered,
        counters.dropped_by_loss,
        counters.dropped_by_queue,
        counters.dropped_by_delay_line,
        counters.dropped_by_outage,
        counters.held,
    ];
    assert_eq!(sum(&[counters.entered, counters.duplicated]), sum(&fates));
}

/// Departures from the last element are the deliveries.
fn assert_elements_agree(chain: &Chain<usize>, now: Instant) {
    let counters = chain.counters(now);
    let last = chain.element_counters(now).last().unwrap();
    assert_eq!(last.left, counters.delivered);
}

proptest! {
    #[test]
    fn nothing_is_lost_but_what_is_said_to_be(
        effects in effects(true),
        course in course(true),
        seed in any::<u64>(),
    ) {
        let mut chain = effects.chain(seed).unwrap();
        let left = run(&mut chain, &course, false);
        let counters = chain.counters(Instant::FAR_FUTURE);
        assert_conserved(&counters);
        prop_assert_eq!(counters.held, Tally::default());
        prop_assert_eq!(counters.dropped_by_delay_line, Tally::default());
        let fate = |fate| left.iter().filter(|left| left.fate == fate).count() as u64;
        prop_assert_eq!(fate(Fate::Delivered), counters.delivered.packets);
        prop_assert_eq!(fate(Fate::DroppedByQueue), counters.dropped_by_queue.packets);
        prop_assert_eq!(fate(Fate::DroppedByOutage), counters.dropped_by_outage.packets);
        let copies = left.iter().filter(|left| left.copy).count() as u64;
        prop_assert_eq!(copies, counters.duplicated.packets);
        let packets = course.iter().filter(|(_, event)| matches!(event, Event::Packet { .. }));
        prop_assert_eq!(left.len(), packets.count() + copies as usize);
        for departure in &left {
            prop_assert!(departure.departed >= departure.entered);
            prop_assert!(!departure.marked || departure.packet.ecn == Ecn::Congestion);
        }
    }

    #[test]
    fn without_reordering_nothing_overtakes(
        effects in effects(false),
        course in course(false),
        seed in any::<u64>(),
    ) {
        let left = run(&mut effects.chain(seed).unwrap(), &course, false);
        let arrived = || left.iter().filter(|left| left.fate == Fate::Delivered);
        prop_assert!(arrived().is_sorted_by_key(|left| left.departed));
        prop_assert!(arrived().is_sorted_by_key(|left| left.packet.payload));
    }

    #[test]
    fn it_makes_no_difference_who_polled_before_a_change(
        effects in effects(true),
        course in course(true),
        seed in any::<u64>(),
    ) {
        let eager = run(&mut effects.chain(seed).unwrap(), &course, false);
        let lazy = run(&mut effects.chain(seed).unwrap(), &course, true);
        prop_assert_eq!(eager, lazy);
    }
}

/// One byte takes one microsecond.
fn byte_per_us() -> Capacity {
    Rate::from_bits_per_s(8_000_000).unwrap().into()
}

fn at_us(us: u64) -> Instant {
    Instant::from_ns(us * 1_000)
}

/// Departures of all packets in the chain: number, fate and time in microseconds.
fn departures_us(chain: &mut Chain<usize>) -> Vec<(usize, Fate, u64)> {
    std::iter::from_fn(|| chain.poll(Instant::FAR_FUTURE))
        .map(|left| (left.packet.payload, left.fate, left.departed.ns() / 1_000))
        .collect()
}

#[test]
fn the_packet_being_sent_finishes_at_the_new_rate() {
    let effects = Effects {
        capacity: byte_per_us(),
        ..Effects::default()
    };
    let mut chain = effects.chain(0).unwrap();
    for number in 0..2 {
        chain.enqueue(Instant::ZERO, Packet::new(1_000, number));
    }
    // 400 of 1000 bytes are sent; 600 remain at a tenth of the rate.
    let slow = Rate::from_bits_per_s(800_000).unwrap();
    chain.apply(at_us(400), Change::Rate(slow.into())).unwrap();
    // Of those, 100 by now; 500 remain, and then the other packet, at the first rate.
    chain
        .apply(at_us(1_400), Change::Rate(byte_per_us()))
        .unwrap();
    let expected = [(0, Fate::Delivered, 1_900), (1, Fate::Delivered, 2_900)];
    assert_eq!(departures_us(&mut chain), expected);
    assert_eq!(chain.counters(Instant::FAR_FUTURE).busy_ns, 2_900_000);
}

#[test]
fn a_shorter_delay_lets_nothing_overtake() {
    let effects = Effects {
        delay: Duration::from_micros(1_000),
        ..Effects::default()
    };
    let mut chain = effects.chain(0).unwrap();
    chain.enqueue(Instant::ZERO, Packet::new(100, 0));
    let shorter = Change::Delay(Duration::from_micros(300));
    chain.apply(at_us(100), shorter).unwrap();
    chain.enqueue(at_us(200), Packet::new(100, 1));
    chain.enqueue(at_us(900), Packet::new(100, 2));
    let expected = [
        (0, Fate::Delivered, 1_000),
        (1, Fate::Delivered, 1_000),
        (2, Fate::Delivered, 1_200),
    ];
    assert_eq!(departures_us(&mut chain), expected);
}

#[test]
fn a_longer_delay_and_a_faster_link_find_room_on_the_line() {
    let effects = Effects {
        capacity: byte_per_us(),
        delay: Duration::from_micros(1),
        ..Effects::default()
    };
    let mut chain = effects.chain(0).unwrap();
    let fast = Rate::from_bits_per_s(8_000_000_000).unwrap();
    let second = Duration::from_secs(1);
    chain.apply(Instant::ZERO, Change::Delay(second)).unwrap();
    chain
        .apply(Instant::ZERO, Change::Rate(fast.into()))
        .unwrap();
    for number in 0..100_000 {
        let now = Instant::from_ns(number as u64 * 1_500);
        while chain.poll(now).is_some() {}
        chain.enqueue(now, Packet::new(1_500, number));
    }
    let counters = chain.counters(Instant::from_ns(150_000_000));
    assert_eq!(counters.dropped_by_delay_line, Tally::default());
    assert_eq!(departures_us(&mut chain).len(), 100_000);
}

#[test]
fn a_pulled_cable_loses_the_queue_and_not_the_line() {
    let effects = Effects {
        capacity: byte_per_us(),
        delay: Duration::from_micros(5_000),
        ..Effects::default()
    };
    let mut chain = effects.chain(0).unwrap();
    for number in 0..3 {
        chain.enqueue(Instant::ZERO, Packet::new(1_000, number));
    }
    chain.apply(at_us(1_500), Change::Down).unwrap();
    assert!(chain.is_down());
    chain.enqueue(at_us(2_000), Packet::new(1_000, 3));
    chain.apply(at_us(2_500), Change::Up).unwrap();
    chain.enqueue(at_us(3_000), Packet::new(1_000, 4));
    let expected = [
        (1, Fate::DroppedByOutage, 1_500),
        (2, Fate::DroppedByOutage, 1_500),
        (3, Fate::DroppedByOutage, 2_000),
        (0, Fate::Delivered, 6_000),
        (4, Fate::Delivered, 9_000),
    ];
    assert_eq!(departures_us(&mut chain), expected);
    let counters = chain.counters(Instant::FAR_FUTURE);
    assert_eq!(counters.busy_ns, 2_500_000, "1 ms, half a packet, 1 ms");
    let by_name = |name: &str| {
        let mut elements = chain.element_counters(Instant::FAR_FUTURE);
        elements.find(|element| element.name == name).unwrap()
    };
    assert_eq!(by_name("outage").dropped.packets, 1);
    assert_eq!(by_name("link").dropped.packets, 2);
    assert_eq!(by_name("link").high_water.packets, 2);
    assert_eq!(by_name("delay").left.packets, 2);
}

#[test]
fn a_smaller_queue_loses_nothing_that_waits() {
    let effects = Effects {
        capacity: byte_per_us(),
        ..Effects::default()
    };
    let mut chain = effects.chain(0).unwrap();
    for number in 0..5 {
        chain.enqueue(Instant::ZERO, Packet::new(1_000, number));
    }
    let smaller = Change::QueueLimit(Limit::packets(2));
    chain.apply(Instant::ZERO, smaller).unwrap();
    chain.enqueue(Instant::ZERO, Packet::new(1_000, 5));
    let fates: Vec<_> = departures_us(&mut chain)
        .into_iter()
        .map(|(number, fate, _)| (number, fate == Fate::Delivered))
        .collect();
    let expected = [
        (5, false),
        (0, true),
        (1, true),
        (2, true),
        (3, true),
        (4, true),
    ];
    assert_eq!(fates, expected);
}

/// Sends 1,000 packets from `from_us` on, `gap_ns` apart, and counts all deliveries by then.
fn delivered_after_a_thousand(chain: &mut Chain<usize>, from_us: u64, gap_ns: u64) -> u64 {
    for number in 0..1_000 {
        let now = at_us(from_us) + Duration::from_nanos(gap_ns * number as u64);
        while chain.poll(now).is_some() {}
        chain.enqueue(now, Packet::new(1_500, number));
    }
    while chain.poll(Instant::FAR_FUTURE).is_some() {}
    chain.counters(Instant::FAR_FUTURE).delivered.packets
}

#[test]
fn a_shorter_delay_holds_a_faster_link_behind_what_came_before() {
    let effects = Effects {
        capacity: byte_per_us(),
        delay: Duration::from_millis(20),
        ..Effects::default()
    };
    let mut chain = effects.chain(0).unwrap();
    chain.enqueue(Instant::ZERO, Packet::new(1_000, 0));
    let fast = Rate::from_bits_per_s(8_000_000_000).unwrap();
    let at = at_us(1_000);
    chain.apply(at, Change::Delay(Duration::ZERO)).unwrap();
    chain.apply(at, Change::Rate(fast.into())).unwrap();
    // All 1.5 MB are on the line until the first packet leaves it, at 21 ms.
    assert_eq!(delivered_after_a_thousand(&mut chain, 1_000, 1_500), 1_001);
}

#[test]
fn what_was_held_back_finds_room_beside_what_was_not() {
    let millisecond = Duration::from_millis(1);
    let effects = Effects {
        capacity: Rate::from_bits_per_s(8_000_000_000).unwrap().into(),
        reorder_share: Probability::new(1.0).unwrap(),
        reorder_by: millisecond,
        delay: millisecond,
        ..Effects::default()
    };
    let mut chain = effects.chain(0).unwrap();
    for number in 0..500 {
        let now = Instant::from_ns(1_500 * number as u64);
        while chain.poll(now).is_some() {}
        chain.enqueue(now, Packet::new(1_500, number));
    }
    let none_held_back = Change::Reorder {
        share: Probability::NEVER,
        by: Duration::ZERO,
    };
    chain.apply(at_us(752), none_held_back).unwrap();
    assert_eq!(delivered_after_a_thousand(&mut chain, 752, 1_500), 1_500);
}

#[test]
fn a_link_without_a_rate_lets_all_that_waits_go_at_once() {
    let effects = Effects {
        capacity: byte_per_us(),
        queue_limit: Limit::packets(1_000),
        delay: Duration::from_micros(1),
        ..Effects::default()
    };
    let mut chain = effects.chain(0).unwrap();
    for number in 0..1_000 {
        chain.enqueue(Instant::ZERO, Packet::new(1_500, number));
    }
    let unlimited = Change::Rate(Capacity::Unlimited);
    chain.apply(Instant::ZERO, unlimited).unwrap();
    let departures = departures_us(&mut chain);
    assert!(departures.iter().all(|left| left.1 == Fate::Delivered));
    assert_eq!(departures.len(), 1_000);
}
