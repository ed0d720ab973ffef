//! Two routes of unequal rate and delay as one disk, beside one MPTCP connection with a subflow over each.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use wansan_lab::emulator::{Config, Direction, Emulator, Route};
use wansan_lab::world::{Interface, Medium, NetworkSpec, Node, Topology, World};
use wansan_path::{Effects, Limit as QueueLimit, Rate};
use wansan_peers::compare::{Bound, in_turns};
use wansan_peers::process::{PeerError, run};
use wansan_peers::program::find;
use wansan_san as san;
use wansan_trace::{Kinds, Recorder};
use wansan_workload::Limit;
use wansan_workload::sequence::{Operation, Pattern};

use crate::answer::Answer;
use crate::disk::{self, OUR_PORT};
use crate::questions::{SAMPLE, Stage};
use crate::session::{self, Load};
use crate::stream::{self, Protocol};
use crate::world::{MTU_BYTES, QUEUE_BYTES, tcp_settings};

/// Each route's rate in Mbit/s, and its delay one way.
const ROUTES: [(u64, Duration); 2] = [
    (200, Duration::from_millis(1)),
    (100, Duration::from_millis(16)),
];
/// Every kernel has it, and it fills a route again soon after a loss.
const CONGESTION_CONTROL: &str = "cubic";
const PEER: &str = "one MPTCP connection";
const BLOCK_BYTES: u32 = 64 << 10;
/// 1.5 times what goes over both in the time of one I/O on the slower.
const PARALLEL: usize = 60;
/// Both sides, until slow start is over on both routes.
const WARMUP: Duration = Duration::from_secs(3);
/// An even number, so that each side goes first as often as last.
const TURNS: usize = 2;
/// The longest that setting up takes.
const LIMIT: Duration = Duration::from_secs(10);

/// Two hosts that two routes lead between.
struct Routes {
    // Ends before the hosts go: fields drop in order.
    _emulator: Emulator,
    world: World,
}

impl Routes {
    fn build() -> Result<Self> {
        let tcp = tcp_settings(CONGESTION_CONTROL);
        let mut topology = Topology::flat(&["client", "storage"], &tcp, MTU_BYTES);
        topology.networks = ROUTES
            .map(|_| NetworkSpec {
                members: vec![0, 1],
                medium: Medium::Emulator,
            })
            .into();
        let world = World::build(&topology)?;
        let interfaces = world.nodes().iter().flat_map(|node| node.interfaces());
        let mut directions = Vec::new();
        for (name, (rate, delay)) in ["near", "far"].into_iter().zip(ROUTES) {
            for way in ["forward", "back"] {
                let rate = Rate::from_bits_per_s(rate * 1_000_000);
                let effects = Effects {
                    capacity: rate.context("a rate is above 0")?.into(),
                    queue_limit: QueueLimit::bytes(QUEUE_BYTES),
                    delay,
                    ..Effects::default()
                };
                let chain = effects.chain(0)?;
                directions.push(Direction::new(format!("{name}:{way}"), chain));
            }
        }
        // The client's interfaces come first, and in the order of the networks.
        let count = ROUTES.len();
        let routes = (0..count).flat_map(|place| {
            let (near, far, direction) = (place, count + place, 2 * place);
            let route = |from, to, direction| Route {
                from,
                to,
                direction,
            };
            [route(near, far, direction), route(far, near, direction + 1)]
        });
        let config = Config {
            ports: interfaces.filter_map(Interface::port).collect(),
            directions,
            routes: routes.collect(),
            mtu_bytes: MTU_BYTES as usize,
            sample_interval: Duration::from_millis(100),
            recorder: Recorder::new(Kinds::NONE, 0),
        };
        Ok(Routes {
            _emulator: Emulator::start(world.wan().handle(), config)?,
            world,
        })
    }

    fn client(&self) -> &Node {
        &self.world.nodes()[0]
    }

    fn storage(&self) -> &Node {
        &self.world.nodes()[1]
    }

    /// What leads to the storage.
    fn portals() -> [Ipv4Addr; 2] {
        [0, 1].map(|network| Topology::address(network, 1))
    }

    /// Has the kernel join a subflow over the second route to each MPTCP connection over the first.
    ///
    /// # Errors
    /// What is missing for that.
    fn join_subflows(&self) -> Result<(), PeerError> {
        let second = Self::portals()[1].to_string();
        let limits = ["limits", "set", "subflows", "1", "add_addr_accepted", "1"];
        let signal = ["endpoint", "add", &second, "signal"];
        for (node, arguments) in [
            (self.client(), &limits[..]),
            (self.storage(), &limits),
            (self.storage(), &signal),
        ] {
            let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
            node.namespace().run(move || {
                let mut ip = Command::new(find("ip")?);
                run(ip.arg("mptcp").args(arguments), LIMIT)?.success()
            })?;
        }
        let check = || Protocol::Mptcp.socket();
        let socket = self.client().namespace().run(check);
        let checked = socket.map_err(|source| PeerError::System {
            program: "MPTCP of this kernel".to_owned(),
            source,
        });
        checked.map(drop)
    }
}

/// Writes over both routes, and what one MPTCP connection carries.
pub(crate) fn measure(_: &Stage) -> Result<Vec<Answer>> {
    let routes = Routes::build()?;
    let (client, storage) = (routes.client(), routes.storage());
    let (target, _folder) = disk::at_each_address(storage)?;
    let load = Load {
        operation: Operation::Write,
        pattern: Pattern::Random,
        block_bytes: BLOCK_BYTES,
        parallel: PARALLEL,
        warmup: WARMUP,
        limit: Limit::Time(SAMPLE),
    };
    let sum: u64 = ROUTES.iter().map(|(rate, _)| rate).sum();
    let share = |bytes_per_s: f64| bytes_per_s * 8.0 / (sum * 1_000_000) as f64;
    let [first, second] = Routes::portals();
    let at_any = target.url(0);
    let url = at_any.replace("0.0.0.0", &first.to_string());
    let to = |address: Ipv4Addr| san::Route {
        source: None,
        host: address.to_string(),
        port: OUR_PORT,
    };
    let ours = || {
        let (url, routes) = (session::parsed(&url)?, [first, second].map(to).into());
        let report = session::run_over(client, url, routes, &[load])?;
        Ok(share(report.bytes_per_s))
    };
    let (got, other) = match routes.join_subflows() {
        Ok(()) => {
            let theirs = || {
                let carried =
                    stream::bytes_per_s(Protocol::Mptcp, client, storage, WARMUP, SAMPLE)?;
                anyhow::Ok(share(carried))
            };
            let [got, other] = in_turns(TURNS, [&mut { ours }, &mut { theirs }])?;
            (got, Some((PEER, other)))
        }
        Err(missing) => {
            eprintln!("{PEER}: not run: {missing}");
            let [got] = in_turns(TURNS, [&mut { ours }])?;
            (got, None)
        }
    };
    Ok(vec![Answer {
        question: "writes of 64 KiB over 200 Mbit/s with 2 ms and 100 Mbit/s with 32 ms",
        unit: "of the sum",
        // Headers leave 0.955.
        bound: Bound::AtLeast(0.93),
        got,
        other,
    }])
}
