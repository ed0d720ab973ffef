//! Invariants of every chain, for any elements and any packets.

use std::time::Duration;

use proptest::prelude::*;
use wansan_path::{
    Capacity, Chain, Counters, Delay, Departure, DropTail, Element, Fate, Limit, Link, Loss,
    LossModel, Packet, Probability, Rate, Tally,
};
use wansan_trace::Instant;

/// A direction of a path as in a plan.
#[derive(Debug, Clone, Copy)]
struct Direction {
    loss: f64,
    seed: u64,
    bits_per_s: u64,
    queue: Limit,
    delay: Duration,
}

impl Direction {
    fn rate(self) -> Rate {
        Rate::from_bits_per_s(self.bits_per_s).unwrap()
    }

    fn loss(self) -> Element<usize> {
        let model = LossModel::Bernoulli(Probability::new(self.loss).unwrap());
        Element::Loss(Loss::new(model, self.seed))
    }

    fn chain(self) -> Chain<usize> {
        let line = Limit::bandwidth_delay(self.rate(), self.delay, u32::from(u16::MAX));
        Chain::new(vec![
            self.loss(),
            Element::Link(Link::new(self.rate(), DropTail::new(self.queue))),
            Element::Delay(Delay::new(self.delay, line)),
        ])
    }
}

fn direction() -> impl Strategy<Value = Direction> {
    let queue = prop_oneof![
        (0..40u64).prop_map(Limit::packets),
        (0..40_000u64).prop_map(Limit::bytes),
        (0..40u64, 0..40_000u64).prop_map(|(packets, bytes)| Limit { packets, bytes }),
    ];
    let loss = prop_oneof![Just(0.0), 0.0..0.5f64];
    (
        loss,
        any::<u64>(),
        1_000..20_000_000_000u64,
        queue,
        0..20_000_000u64,
    )
        .prop_map(|(loss, seed, bits_per_s, queue, delay_ns)| Direction {
            loss,
            seed,
            bits_per_s,
            queue,
            delay: Duration::from_nanos(delay_ns),
        })
}

/// Packets: time since the previous one, and size.
fn packets() -> impl Strategy<Value = Vec<(u64, u32)>> {
    prop::collection::vec((prop_oneof![Just(0), 0..20_000u64], 1..9_000u32), 1..200)
}

/// Feeds the packets, polling in the documented order of calls, and empties the chain, late by up to `late_ns`. The
/// payload is the packet's number.
fn run(chain: &mut Chain<usize>, packets: &[(u64, u32)], late_ns: u64) -> Vec<Departure<usize>> {
    let mut left = Vec::new();
    let mut now_ns = 0;
    for (number, &(gap_ns, size_bytes)) in packets.iter().enumerate() {
        now_ns += gap_ns;
        let now = Instant::from_ns(now_ns);
        left.extend(std::iter::from_fn(|| chain.poll(now)));
        chain.enqueue(now, Packet::new(size_bytes, number));
        assert_conserved(&chain.counters(now));
    }
    while let Some(deadline) = chain.next_deadline() {
        left.extend(std::iter::from_fn(|| {
            chain.poll(deadline + Duration::from_nanos(late_ns))
        }));
    }
    left
}

fn assert_conserved(counters: &Counters) {
    let parts = [
        counters.delivered,
        counters.dropped_by_loss,
        counters.dropped_by_queue,
        counters.dropped_by_delay_line,
        counters.held,
    ];
    let sum = parts.iter().fold(Tally::default(), |sum, part| Tally {
        packets: sum.packets + part.packets,
        bytes: sum.bytes + part.bytes,
    });
    assert_eq!(counters.entered, sum);
}

fn delivered(left: &[Departure<usize>]) -> Vec<Departure<usize>> {
    let arrived = left.iter().filter(|left| left.fate == Fate::Delivered);
    arrived.copied().collect()
}

proptest! {
    #[test]
    fn order_bytes_and_bounds_are_kept(direction in direction(), packets in packets()) {
        let mut chain = direction.chain();
        let left = run(&mut chain, &packets, 0);
        prop_assert_eq!(left.len(), packets.len());

        let counters = chain.counters(Instant::FAR_FUTURE);
        assert_conserved(&counters);
        prop_assert_eq!(counters.held, Tally::default());
        prop_assert_eq!(counters.dropped_by_delay_line, Tally::default());
        prop_assert!(counters.queued_high_water.packets <= direction.queue.packets);
        prop_assert!(counters.queued_high_water.bytes <= direction.queue.bytes);

        let arrived = delivered(&left);
        prop_assert!(arrived.is_sorted_by_key(|packet| (packet.departed, packet.packet.payload)));
        prop_assert!(arrived.is_sorted_by_key(|packet| packet.packet.payload));
    }

    #[test]
    fn the_rate_is_never_exceeded(direction in direction(), packets in packets()) {
        let left = run(&mut direction.chain(), &packets, 0);
        let arrived = delivered(&left);
        // Every window that ends with a packet and begins after one; departures are whole nanoseconds, so a window may
        // seem one shorter than it was.
        for (begin, first) in arrived.iter().enumerate() {
            let mut sent_bits = 0u128;
            for later in &arrived[begin + 1..] {
                sent_bits += u128::from(later.packet.size_bytes) * 8;
                let window_ns = u128::from((later.departed - first.departed).as_nanos() as u64) + 1;
                prop_assert!(
                    sent_bits * 1_000_000_000 <= window_ns * u128::from(direction.bits_per_s)
                );
            }
        }
    }

    #[test]
    fn a_packet_alone_suffers_transmission_and_delay_exactly(
        direction in direction(),
        size_bytes in 1..9_000u32,
        at_ns in 0..u64::from(u32::MAX),
    ) {
        let mut chain = Direction { loss: 0.0, ..direction }.chain();
        let at = Instant::from_ns(at_ns);
        chain.enqueue(at, Packet::new(size_bytes, 0));
        let sending_ns =
            (u128::from(size_bytes) * 8_000_000_000).div_ceil(u128::from(direction.bits_per_s));
        let due = at + Duration::from_nanos(sending_ns as u64) + direction.delay;
        let early = Instant::from_ns(due.ns() - 1);
        prop_assert!(chain.poll(early).is_none());
        let arrived = chain.poll(due).unwrap();
        prop_assert_eq!((arrived.entered, arrived.departed), (at, due));
        prop_assert_eq!(u128::from(chain.counters(due).busy_ns), sending_ns);
    }

    #[test]
    fn whoever_polls_at_exits_alone_gets_each_packet_at_its_time(
        direction in direction(),
        packets in packets(),
    ) {
        let mut chain = direction.chain();
        let mut left = Vec::new();
        let mut gaps = packets.iter();
        let mut comes = Some(Instant::ZERO);
        while let Some(now) = [comes, chain.next_exit()].into_iter().flatten().min() {
            while let Some(departure) = chain.poll(now) {
                let is_late = departure.fate == Fate::Delivered && departure.departed != now;
                prop_assert!(!is_late, "{departure:?} at {now:?}");
                left.push(departure);
            }
            if comes == Some(now) {
                let next = gaps.next();
                comes = next.map(|(gap_ns, _)| now + Duration::from_nanos(*gap_ns));
                if let Some((_, size_bytes)) = next {
                    let number = packets.len() - 1 - gaps.len();
                    chain.enqueue(now, Packet::new(*size_bytes, number));
                }
            }
        }
        prop_assert_eq!(left.len(), packets.len());
    }

    #[test]
    fn late_polls_move_nothing(
        direction in direction(),
        packets in packets(),
        late_ns in 0..50_000_000u64,
    ) {
        let prompt = run(&mut direction.chain(), &packets, 0);
        let late = run(&mut direction.chain(), &packets, late_ns);
        prop_assert_eq!(prompt, late);
    }

    #[test]
    fn the_same_seed_drops_the_same_packets(direction in direction(), packets in packets()) {
        let lost = |direction: Direction| -> Vec<usize> {
            let left = run(&mut direction.chain(), &packets, 0);
            let lost = left.iter().filter(|left| left.fate == Fate::DroppedByLoss);
            lost.map(|left| left.packet.payload).collect()
        };
        // Loss draws once per packet: the rest of the path makes no difference.
        let elsewhere = Direction { queue: Limit::packets(1), ..direction };
        prop_assert_eq!(lost(direction), lost(elsewhere));
    }

    #[test]
    fn elements_may_stand_in_any_order(
        order in Just(vec![0, 1, 2, 3]).prop_shuffle(),
        direction in direction(),
        packets in packets(),
    ) {
        let line = Limit::packets(16);
        let mut elements: Vec<Element<usize>> = order
            .iter()
            .map(|kind| match kind {
                0 => direction.loss(),
                1 => Element::Link(Link::new(direction.rate(), DropTail::new(direction.queue))),
                2 => Element::Delay(Delay::new(direction.delay, line)),
                _ => Element::Link(Link::new(direction.rate(), DropTail::new(Limit::packets(4)))),
            })
            .collect();
        elements.push(Element::Delay(Delay::new(Duration::ZERO, line)));
        let mut chain = Chain::new(elements);
        let left = run(&mut chain, &packets, 0);
        prop_assert_eq!(left.len(), packets.len());
        prop_assert!(left.is_sorted_by_key(|left| left.departed));
        prop_assert!(delivered(&left).is_sorted_by_key(|left| left.packet.payload));
        prop_assert_eq!(chain.counters(Instant::FAR_FUTURE).held, Tally::default());
    }
}

#[test]
fn a_chain_that_nobody_polls_stays_bounded() {
    let queue = Limit::packets(10);
    let rate = Rate::from_bits_per_s(1_000_000_000).unwrap();
    let mut chain = Chain::new(vec![
        Element::Link(Link::new(rate, DropTail::new(queue))),
        Element::Delay(Delay::new(Duration::ZERO, Limit::packets(1))),
    ]);
    for number in 0..1_000 {
        let now = Instant::from_ns(number * 1_000_000);
        chain.enqueue(now, Packet::new(1_500, ()));
    }
    let counters = chain.counters(Instant::FAR_FUTURE);
    assert_eq!(counters.held.packets, 11);
    assert_eq!(counters.dropped_by_queue.packets, 989);
}

#[test]
fn a_full_delay_line_drops_and_says_so() {
    let line = Delay::new(Duration::from_millis(1), Limit::packets(2));
    let mut chain = Chain::new(vec![Element::Delay(line)]);
    let fates: Vec<_> = (0..3)
        .map(|number| {
            chain.enqueue(Instant::ZERO, Packet::new(100, number));
            let early = Instant::from_ns(999_999);
            chain.poll(early).map(|left| left.fate)
        })
        .collect();
    assert_eq!(fates, [None, None, Some(Fate::DroppedByDelayLine)]);
    assert_eq!(
        chain.counters(Instant::ZERO).dropped_by_delay_line.packets,
        1
    );
}

#[test]
fn utilisation_counts_sending_time_only() {
    let direction = Direction {
        loss: 0.0,
        seed: 0,
        bits_per_s: 8_000_000, // one byte takes one microsecond
        queue: Limit::packets(100),
        delay: Duration::from_millis(1),
    };
    // Two packets back to back, a pause, one more.
    let packets = [(0, 1_000), (0, 1_000), (5_000_000, 500)];
    for (at_ms, busy_us) in [(0, 0), (1, 1_000), (2, 2_000), (4, 2_000), (9, 2_500)] {
        let mut chain = direction.chain();
        let came = packets
            .iter()
            .filter(|&&(at_ns, _)| at_ns <= at_ms * 1_000_000);
        for (number, &(at_ns, size_bytes)) in came.enumerate() {
            let at = Instant::from_ns(at_ns);
            while chain.poll(at).is_some() {}
            chain.enqueue(at, Packet::new(size_bytes, number));
        }
        let now = Instant::from_ns(at_ms * 1_000_000);
        while chain.poll(now).is_some() {}
        assert_eq!(
            chain.counters(now).busy_ns,
            busy_us * 1_000,
            "at {at_ms} ms"
        );
    }
}

#[test]
fn an_unlimited_link_is_never_busy() {
    let link = Link::new(Capacity::Unlimited, DropTail::new(Limit::packets(10)));
    let mut chain = Chain::new(vec![Element::Link(link)]);
    for at_ms in [1_000, 1_001, 2_000] {
        let now = Instant::from_ns(at_ms * 1_000_000);
        chain.enqueue(now, Packet::new(1_500, ()));
        assert!(chain.poll(now).is_some());
        assert_eq!(chain.counters(now).busy_ns, 0, "at {at_ms} ms");
    }
}
