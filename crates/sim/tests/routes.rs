//! Two unequal routes to one unit, compared with what each carries alone.

mod changes;
mod drawn;
mod grid;

use std::net::SocketAddr;
use std::time::Duration;

use wansan_iscsi::initiator::{LoginSettings, Schedule};
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::target::{Memory, SessionConfig, UNSOLICITED_BYTES};
use wansan_iscsi::wire::Lun;
use wansan_path::{Change, Effects, Limit, Rate};
use wansan_sim::network::Network;
use wansan_sim::storage::{
    ConnectionConfig, EndConfig, InitiatorConfig, Patience, Storage, TargetConfig,
};
use wansan_sim::tcp::congestion::Law;
use wansan_sim::tcp::jiffies::Hz;
use wansan_sim::tcp::receive::ReceiveConfig;
use wansan_sim::tcp::send::{BufferConfig, SendConfig};
use wansan_trace::Recorder;
use wansan_workload::sequence::{Operation, Pattern};
use wansan_workload::{Limit as LoadLimit, LoadConfig};

use super::storage::{TARGET, device};

const QUEUE_BYTES: u64 = 2 << 20;
/// Minimum of FirstBurstLength: less makes room for more commands in the window.
const FIRST_BURST_BYTES: u32 = 64 << 10;
const COMMAND_WINDOW: u32 = 4096;

/// A route: its rate in kbit/s and its round trip.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Route(u64, Duration);

const fn route(kbit_per_s: u64, round_trip_ms: u64) -> Route {
    Route(kbit_per_s, Duration::from_millis(round_trip_ms))
}

/// How commands are distributed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    /// Over the connections of one session.
    Connections(Schedule),
    /// Over one session per route.
    Sessions,
}

#[derive(Debug, Clone, Copy)]
struct Load {
    operation: Operation,
    block_bytes: u32,
    parallel: usize,
}

impl Load {
    /// `times` the number of I/Os that the routes together carry in the time of a single I/O on the slower one.
    fn filling(operation: Operation, kib: u32, times: f64, routes: &[Route]) -> Load {
        let bits = f64::from(kib << 10) * 8.0;
        let rate = |route: &Route| route.0 as f64 * 1e3;
        let takes = |route: &Route| route.1.as_secs_f64() + bits / rate(route);
        let longest = routes.iter().map(takes).fold(0.0, f64::max);
        let sum: f64 = routes.iter().map(rate).sum();
        Load {
            operation,
            block_bytes: kib << 10,
            parallel: (times * longest * sum / bits).ceil() as usize,
        }
    }

    /// Throughput from 5 s to 10 s, in Mbit/s.
    fn over(&self, how: How, routes: &[Route]) -> f64 {
        let [from, to] = [5, 10].map(Duration::from_secs);
        self.while_changing(how, routes, &[], [from, to])
    }

    /// Throughput between two times in Mbit/s, while the route at an index changes to another one at a time.
    fn while_changing(
        &self,
        how: How,
        routes: &[Route],
        changes: &[(Duration, usize, Route)],
        [from, to]: [Duration; 2],
    ) -> f64 {
        let mut network = Network::recording(Recorder::off());
        let address = |place: usize, last: u8, port: u16| {
            SocketAddr::from(([10, 0, place as u8, last], port))
        };
        let connections = routes.iter().enumerate().map(|(place, route)| {
            let effects = Effects {
                delay: route.1 / 2,
                capacity: Rate::from_bits_per_s(route.0 * 1000)
                    .expect("a rate")
                    .into(),
                queue_limit: Limit::bytes(QUEUE_BYTES),
                ..Effects::default()
            };
            let mut link = || network.link(&effects, 1).expect("plain effects");
            ConnectionConfig {
                ends: [end(), end()],
                routes: [vec![link().into()], vec![link().into()]],
                addresses: [address(place, 1, 40_000), address(place, 2, 3260)],
            }
        });
        let connections: Vec<ConnectionConfig> = connections.collect();
        let wanted = Wanted {
            max_connections: 2,
            first_burst_bytes: self.block_bytes.max(FIRST_BURST_BYTES),
            ..Wanted::default()
        };
        let mut storage = Storage::new(network, Duration::from_millis(100));
        for (at, place, route) in changes {
            // Links are created in order, two per connection.
            for link in [0, 1].map(|direction| 2 * *place as u32 + direction) {
                let rate = Rate::from_bits_per_s(route.0 * 1000).expect("a rate");
                storage.schedule(*at, link, Change::Rate(rate.into()));
                storage.schedule(*at, link, Change::Delay(route.1 / 2));
            }
        }
        storage.serve(TargetConfig {
            wanted: wanted.clone(),
            session: SessionConfig {
                device: device(),
                command_window: COMMAND_WINDOW,
                unsolicited_bytes: UNSOLICITED_BYTES,
                memory: Memory::new(1 << 30),
                separate_status: false,
                join_sends: true,
            },
            services: vec![None],
            trace: Recorder::off(),
        });
        let (multipath, schedule) = match how {
            How::Connections(schedule) => (false, schedule),
            How::Sessions => (true, Schedule::default()),
        };
        let config = InitiatorConfig {
            login: LoginSettings {
                initiator: "iqn.2026-01.net.example:initiator".to_owned(),
                isid: [0x80, 0, 0, 0, 0, 1],
                target: Some(TARGET.to_owned()),
                chap: None,
                wanted,
            },
            connections,
            multipath,
            schedule,
            lun: Lun::default(),
            patience: Patience {
                login: Duration::from_secs(30),
                replacement: Duration::from_secs(120),
            },
            load: LoadConfig {
                operation: self.operation,
                pattern: Pattern::Random,
                block_bytes: self.block_bytes,
                listed: Default::default(),
                parallel: self.parallel,
                batch: false,
                limit: LoadLimit::Time(to - from),
                warmup: from,
                drain: None,
                rate_per_s: None,
                seed: 19,
                verify: false,
            },
            trace: Recorder::off(),
        };
        storage.add(config).expect("it begins");
        let ended = storage.run(Duration::from_secs(300), &mut |_| true);
        let ended = ended.expect("it runs").expect("nobody ends it");
        ended.initiators[0].0.bytes_per_s * 8.0 / 1e6
    }

    /// Throughput of each route alone, with the same number of I/Os in flight.
    fn alone(&self, routes: &[Route]) -> Vec<f64> {
        let alone = |route: &Route| self.over(How::Sessions, &[*route]);
        routes.iter().map(alone).collect()
    }
}

fn end() -> EndConfig {
    EndConfig {
        send: SendConfig {
            buffer: BufferConfig {
                wmem_bytes: [4096, 16_384, 64 << 20],
                ..BufferConfig::default()
            },
            nodelay: true,
            ..SendConfig::default()
        },
        receive: ReceiveConfig {
            rmem_bytes: [4096, 131_072, 64 << 20],
            ..ReceiveConfig::default()
        },
        law: Law::named("cubic", Hz::default(), 1).expect("it is known"),
        law_name: "cubic".to_owned(),
        quick_acks: false,
    }
}

/// The faster route with the longer round trip, with the shorter one, and with one as long as a single write takes on
/// the slower route.
const CELLS: [(u32, [Route; 2]); 3] = [
    (4, [route(200_000, 20), route(66_667, 2)]),
    (64, [route(200_000, 2), route(66_667, 20)]),
    (256, [route(200_000, 100), route(20_000, 2)]),
];

#[test]
fn writes_fill_both_routes_in_one_session_and_in_two() {
    for (kib, routes) in CELLS {
        let filling = |routes: &[Route]| Load::filling(Operation::Write, kib, 2.0, routes);
        let alone = routes
            .iter()
            .map(|route| filling(&[*route]).alone(&[*route])[0]);
        let sum: f64 = alone.sum();
        let share = |how| filling(&routes).over(how, &routes) / sum;
        let [one, two] = [How::Connections(Schedule::Earliest), How::Sessions].map(share);
        assert!(one >= 0.95, "{one} of {kib} KiB over {routes:?}");
        assert!(two >= 0.95, "{two} of {kib} KiB over {routes:?}");
        // With the same number in flight on each, the slower route limits both.
        let control = share(How::Connections(Schedule::LeastInFlight));
        assert!(control < 0.75, "{control}: the routes are equal");
    }
}

/// So few I/Os in flight that one route suffices: the better route's TCP has to restart after idle periods, and is at
/// first slower than the other because of that; or its window has just enough room for the last I/O.
const FEW: [(u32, usize, [Route; 2]); 4] = [
    (64, 1, [route(200_000, 20), route(20_000, 2)]),
    (256, 2, [route(200_000, 20), route(66_667, 2)]),
    (256, 2, [route(200_000, 100), route(20_000, 2)]),
    (4, 8, [route(200_000, 2), route(20_000, 2)]),
];

#[test]
fn few_at_a_time_lose_nothing_by_a_second_route() {
    for (kib, parallel, routes) in FEW {
        let writes = Load {
            operation: Operation::Write,
            block_bytes: kib << 10,
            parallel,
        };
        let better = writes.alone(&routes).into_iter().fold(0.0, f64::max);
        for how in [How::Connections(Schedule::Earliest), How::Sessions] {
            let gain = writes.over(how, &routes) / better;
            assert!(
                gain >= 0.98,
                "{gain} of {kib} KiB, {parallel} at a time, {how:?} over {routes:?}"
            );
        }
    }
}

/// Cells in which a connection of a session can carry more than it has shown: few reads or writes, enough to fill the
/// shorter but slower route; and as many as both routes carry in the time of a single I/O, where command ordering costs
/// more than the slower route adds.
const UNSHOWN: [(Operation, u32, usize, [Route; 2]); 6] = [
    (
        Operation::Read,
        64,
        4,
        [route(200_000, 20), route(66_667, 2)],
    ),
    (
        Operation::Read,
        64,
        8,
        [route(200_000, 100), route(20_000, 2)],
    ),
    (
        Operation::Read,
        4,
        16,
        [route(200_000, 20), route(20_000, 2)],
    ),
    (
        Operation::Write,
        64,
        4,
        [route(200_000, 20), route(66_667, 2)],
    ),
    (
        Operation::Write,
        64,
        8,
        [route(200_000, 100), route(20_000, 2)],
    ),
    (
        Operation::Write,
        64,
        44,
        [route(200_000, 100), route(20_000, 2)],
    ),
];

#[test]
fn a_session_finds_the_route_that_carries_more_alone() {
    for (operation, kib, parallel, routes) in UNSHOWN {
        let load = Load {
            operation,
            block_bytes: kib << 10,
            parallel,
        };
        let better = load.alone(&routes).into_iter().fold(0.0, f64::max);
        let gain = load.over(How::Connections(Schedule::Earliest), &routes) / better;
        assert!(
            gain >= 0.98,
            "{gain} of {operation:?} {kib} KiB, {parallel} at a time over {routes:?}"
        );
    }
}
