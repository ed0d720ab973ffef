//! Which routes are chosen, by what each carries alone and what they carry together.

use super::*;

const BLOCK: u64 = 64 << 10;

/// A route's capacity for a session: the bytes in flight per round trip, up to its rate.
#[derive(Clone, Copy)]
struct Pipe {
    round_trip_ms: f64,
    bytes_per_ms: f64,
}

const NEAR: Pipe = Pipe {
    round_trip_ms: 2.0,
    bytes_per_ms: 2_500.0,
};
const FAR: Pipe = Pipe {
    round_trip_ms: 20.0,
    bytes_per_ms: 25_000.0,
};

/// A session over two routes, and the time for which only the near or only the far one was used, in ns.
#[derive(Default)]
struct World {
    in_order: InOrder,
    now_ns: f64,
    near_ns: f64,
    far_ns: f64,
}

impl World {
    fn taken(&self) -> [bool; 2] {
        [0, 1].map(|place| self.in_order.takes(place))
    }

    /// Runs for `seconds` with `parallel` blocks always in flight; together the routes carry `together` bytes per ms.
    fn run(&mut self, seconds: f64, pipes: [Pipe; 2], together: f64, parallel: u64) {
        let end_ns = self.now_ns + seconds * 1e9;
        while self.now_ns < end_ns {
            let now = Instant::from_ns(self.now_ns as u64);
            let taken = self.taken().map(u64::from).iter().sum::<u64>();
            for (place, pipe) in pipes.iter().enumerate() {
                let is_taken = self.in_order.takes(place);
                let route = Route {
                    under_way: u64::from(is_taken) * (parallel - 1) / taken,
                    ..Route::default()
                };
                self.in_order.set(place, Some(route));
                let took = Duration::from_nanos((pipe.round_trip_ms * 1e6) as u64);
                self.in_order.pinged(place, took, true, now);
            }
            self.in_order.choose(BLOCK, parallel * BLOCK, now);
            let taken = self.taken();
            let pipe = match taken {
                [true, false] => pipes[0],
                [false, true] => pipes[1],
                _ => Pipe {
                    bytes_per_ms: together,
                    ..pipes[1]
                },
            };
            let most = (parallel * BLOCK) as f64 / pipe.round_trip_ms;
            let took_ns = BLOCK as f64 / pipe.bytes_per_ms.min(most) * 1e6;
            self.now_ns += took_ns;
            match taken {
                [true, false] => self.near_ns += took_ns,
                [false, true] => self.far_ns += took_ns,
                _ => {}
            }
            let place = usize::from(taken == [false, true]);
            let now = Instant::from_ns(self.now_ns as u64);
            self.in_order.done(place, BLOCK, now);
        }
    }
}

/// Which routes are in use after 5 s.
fn taken(pipes: [Pipe; 2], together: f64, parallel: u64) -> [bool; 2] {
    let mut world = World::default();
    world.run(5.0, pipes, together, parallel);
    world.taken()
}

#[test]
fn few_go_over_the_route_that_carries_more_of_them_alone() {
    assert_eq!(taken([NEAR, FAR], 27_500.0, 2), [false, true]);
    let wide = Pipe {
        bytes_per_ms: 25_000.0,
        ..NEAR
    };
    assert_eq!(taken([wide, FAR], 50_000.0, 4), [true, false]);
}

#[test]
fn both_are_taken_only_where_they_carry_more_than_one() {
    assert_eq!(taken([NEAR, FAR], 27_500.0, 40), [true, true]);
    assert_eq!(taken([NEAR, FAR], 24_000.0, 10), [false, true]);
}

#[test]
fn a_route_that_was_lost_is_tried_again_within_a_second() {
    let mut world = World::default();
    world.run(5.0, [NEAR, FAR], 2_500.0, 4);
    assert_eq!(world.taken(), [false, true]);
    world.in_order.lost(1);
    let now = Instant::from_ns(world.now_ns as u64);
    world.in_order.choose(BLOCK, 4 * BLOCK, now);
    assert_eq!(world.taken(), [true, false]);
    world.run(1.0, [NEAR, FAR], 2_500.0, 4);
    assert_eq!(world.taken(), [false, true]);
}

#[test]
fn a_route_that_has_become_shorter_is_taken_within_a_second() {
    let long = Pipe {
        round_trip_ms: 200.0,
        ..FAR
    };
    let mut world = World::default();
    world.run(5.0, [NEAR, long], 2_500.0, 4);
    assert_eq!(world.taken(), [true, false]);
    world.run(1.0, [NEAR, FAR], 2_500.0, 4);
    assert_eq!(world.taken(), [false, true]);
}

#[test]
fn tries_of_a_route_whose_length_goes_up_and_down_cost_little() {
    let slow = |round_trip_ms| Pipe {
        round_trip_ms,
        bytes_per_ms: 100.0,
    };
    let mut world = World::default();
    world.run(5.0, [NEAR, slow(2.0)], 2_000.0, 4);
    (world.near_ns, world.far_ns) = (0.0, 0.0);
    for _ in 0..50 {
        world.run(1.0, [NEAR, slow(20.0)], 2_000.0, 4);
        world.run(1.0, [NEAR, slow(2.0)], 2_000.0, 4);
    }
    assert!(world.far_ns > 0.0, "it is tried");
    let most_ns = MOST_TRIAL_NS + 2.0 * TRIAL_SHARE * 100e9;
    assert!(world.far_ns < most_ns, "{} s", world.far_ns / 1e9);
    assert!(world.near_ns > 0.95 * 100e9, "{} s", world.near_ns / 1e9);
}

#[test]
fn a_route_that_is_tried_alone_is_given_more_only_as_it_carries_more() {
    let mut in_order = InOrder::default();
    let route = |under_way_bytes| {
        Some(Route {
            under_way_bytes,
            ..Route::default()
        })
    };
    in_order.set(0, route(0));
    in_order.pinged(0, Duration::from_millis(2), true, Instant::ZERO);
    in_order.choose(BLOCK, 100 * BLOCK, Instant::ZERO);
    assert!(in_order.has_room(0, BLOCK));
    in_order.set(0, route(2 * BLOCK));
    assert!(!in_order.has_room(0, BLOCK));
    let later = Instant::from_ns(20_000_000);
    in_order.done(0, BLOCK, later);
    assert!(in_order.has_room(0, BLOCK));
}

#[test]
fn what_is_not_known_is_left_open() {
    let mut in_order = InOrder::default();
    in_order.set(0, Some(Route::default()));
    in_order.choose(BLOCK, BLOCK, Instant::ZERO);
    assert!(in_order.takes(0) && in_order.has_room(0, BLOCK));
}

#[test]
fn a_request_without_data_waits_for_no_room() {
    let mut in_order = InOrder::default();
    in_order.set(
        0,
        Some(Route {
            under_way_bytes: 4 * BLOCK,
            under_way: 2,
            ..Route::default()
        }),
    );
    in_order.pinged(0, Duration::from_millis(20), true, Instant::ZERO);
    in_order.choose(2 * BLOCK, 6 * BLOCK, Instant::ZERO);
    assert!(!in_order.has_room(0, 2 * BLOCK));
    in_order.choose(0, 4 * BLOCK, Instant::ZERO);
    assert!(in_order.has_room(0, 0));
}

#[test]
fn requests_without_data_after_idle_time_start_no_trial() {
    let mut world = World::default();
    world.run(5.0, [NEAR, FAR], 2_500.0, 4);
    assert_eq!(world.taken(), [false, true]);
    for _ in 0..5 {
        world.now_ns += 3e9;
        for place in 0..2 {
            world.in_order.set(place, Some(Route::default()));
        }
        let now = Instant::from_ns(world.now_ns as u64);
        world.in_order.choose(0, 0, now);
        let later = Instant::from_ns(world.now_ns as u64 + 20_000_000);
        world.in_order.done(1, 0, later);
        assert_eq!(world.taken(), [false, true]);
        assert!(world.in_order.alone[1].is_some(), "its measurement stands");
    }
}

#[test]
fn one_request_at_a_time_leaves_a_route_that_has_become_longer() {
    let mut world = World::default();
    world.run(5.0, [NEAR, FAR], 2_500.0, 1);
    assert_eq!(world.taken(), [false, true]);
    let longer = Pipe {
        round_trip_ms: 100.0,
        ..FAR
    };
    world.run(10.0, [NEAR, longer], 2_500.0, 1);
    assert_eq!(world.taken(), [true, false]);
}

#[test]
fn several_routes_of_hardly_different_length_stay_the_same_ones() {
    let mut in_order = InOrder::default();
    let ping = |in_order: &mut InOrder, round_trips_us: [u64; 3], now: Instant| {
        for (place, took) in round_trips_us.into_iter().enumerate() {
            in_order.set(place, Some(Route::default()));
            in_order.pinged(place, Duration::from_micros(took), true, now);
        }
        in_order.choose(BLOCK, BLOCK, now);
        in_order.order.clone()
    };
    let at = |s: u64| Instant::from_ns(s * 1_000_000_000);
    assert_eq!(ping(&mut in_order, [2_000, 2_100, 2_200], at(0)), [0, 1, 2]);
    assert_eq!(
        ping(&mut in_order, [2_200, 2_100, 1_900], at(100)),
        [0, 1, 2]
    );
    assert_eq!(
        ping(&mut in_order, [2_200, 9_000, 1_900], at(200)),
        [0, 2, 1]
    );
}
