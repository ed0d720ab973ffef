//! The routes of a twin's connections, and its tunnels, each with a program of its own at both edges of the path.

use wansan_path::Effects;
use wansan_sim::network::vpn::{self, Side};
use wansan_sim::network::{Hop, Network};

use super::{ReplayError, hops};
use crate::setup::{Connection, Setup, Tunnel};

/// Links between hosts and tunnel programs, and both directions of each tunnel.
pub(super) struct Tunnels {
    /// The link from the initiators, and the one from the target.
    edges: [u32; 2],
    both_ways: Vec<[Way; 2]>,
}

/// One direction of a tunnel.
#[derive(Clone, Copy)]
struct Way {
    seal: Side,
    tunnel: u32,
    open: Side,
}

/// Adds the tunnels of a setup.
pub(super) fn build(
    network: &mut Network,
    setup: &Setup,
    seed: u64,
) -> Result<Tunnels, ReplayError> {
    let mut edge = || {
        let link = network.link(&Effects::default(), seed);
        link.map_err(|source| ReplayError::Effects {
            path: "to a tunnel".to_owned(),
            source,
        })
    };
    let edges = [edge()?, edge()?];
    let tunnels = setup.tunnels.iter().zip(1..);
    let both_ways = tunnels.map(|(tunnel, number)| add(network, tunnel, number));
    Ok(Tunnels {
        both_ways: both_ways.collect(),
        edges,
    })
}

fn add(network: &mut Network, tunnel: &Tunnel, number: usize) -> [Way; 2] {
    let sides = ["near", "far"].map(|edge| {
        let program = format!("{edge} tunnel {number}");
        let seals = network.add_vpn_thread(&program, 1);
        let opens = match tunnel.has_one_thread {
            true => seals,
            false => network.add_vpn_thread(&program, 1),
        };
        [seals, opens].map(|thread| network.add_vpn_side(thread, None))
    });
    [[0, 1], [1, 0]].map(|[from, to]: [usize; 2]| Way {
        seal: sides[from][0],
        tunnel: network.add_tunnel(vpn::Tunnel {
            wrapping: tunnel.wrapping,
            cost: tunnel.cost,
            ends: [tunnel.ends[from], tunnel.ends[to]],
        }),
        open: sides[to][1],
    })
}

impl Tunnels {
    /// The route of a connection towards the target (0) or back (1); `links` has the link of each direction.
    pub(super) fn hops(&self, connection: &Connection, way: usize, links: &[u32]) -> Vec<Hop> {
        let mut hops = hops(&connection.routes[way], links);
        if let Some(through) = &connection.through {
            let Way { seal, tunnel, open } = self.both_ways[through.tunnel][way];
            let inside = &through.inside[way];
            hops.insert(inside.end, Hop::Open { side: open });
            hops.insert(inside.start, Hop::Seal { side: seal, tunnel });
        }
        self.begin_with_link(hops, way)
    }

    /// A route has to begin with a link: a wire is added where none was recorded.
    pub(super) fn begin_with_link(&self, mut hops: Vec<Hop>, way: usize) -> Vec<Hop> {
        if !matches!(hops.first(), Some(Hop::Link { .. })) {
            hops.insert(0, Hop::from(self.edges[way]));
        }
        hops
    }
}
