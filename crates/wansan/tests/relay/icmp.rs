//! What routers say to the sides of transparent flows, whose addresses are not the relay's.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use wansan_lab::world::Namespace;
use wansan_relay::{ListenerConfig, Meter};
use wansan_settings::quantity::SomeTime;

use crate::namespaces::{End, PORT, World, address, connect, listen, sh};
use crate::program::LIMIT;

/// An address in the network of that number.
type Address = fn(usize) -> String;

/// Where a relay takes what, of each family, and an address there but for its network's number.
const FAMILIES: [(&str, &str, Address); 2] = [
    ("127.0.0.1:0", "0.0.0.0/0:3260", |network| {
        format!("10.9.{network}.2:{PORT}")
    }),
    ("[::1]:0", "[::/0]:3260", |network| {
        format!("[fd09:{network}::2]:{PORT}")
    }),
];

/// A link of small packets behind the relay, on either side of it.
pub(crate) fn small_packets() -> Result<(), String> {
    for end in [End::Client, End::Target] {
        let mut world = World::build()?;
        let far = world.behind(end)?;
        let (router, client, target, network) = match end {
            End::Client => (&world.client, &far, &world.target, 2),
            End::Target => (&world.target, &world.client, &far, 3),
        };
        // The hosts' own links do not tell of it: their segments would else be small enough.
        sh(
            router,
            "ip route add 10.9.3.2 dev far mtu lock 1300
             ip -6 route add fd09:3::2 dev far mtu lock 1300",
        )?;
        for (listen, to, at) in FAMILIES {
            let (relay, installed) = world.transparent(ListenerConfig::new(listen, to))?;
            let at = address(&at(network));
            crosses(client, target, at).map_err(|error| format!("{end:?}, {at}: {error}"))?;
            let meter = relay.observer().snapshot().meter;
            if meter.accepted != 1 {
                return Err(format!("{end:?}, {at}: not through the relay: {meter:?}"));
            }
            world.middle.run(move || drop(installed));
        }
    }
    Ok(())
}

/// What is sent each way arrives.
fn crosses(client: &Namespace, target: &Namespace, at: SocketAddr) -> Result<(), String> {
    const BYTES: usize = 200_000;
    let error = |error: std::io::Error| error.to_string();
    let server = listen(target, at)?;
    let client = connect(client, at)?;
    let (accepted, _) = server.accept().map_err(error)?;
    accepted.set_read_timeout(Some(LIMIT)).map_err(error)?;
    for (mut from, mut to) in [(&client, &accepted), (&accepted, &client)] {
        let read = thread::scope(|scope| {
            scope.spawn(move || from.write_all(&[7; BYTES]));
            to.read_exact(&mut [0; BYTES])
        });
        read.map_err(error)?;
    }
    Ok(())
}

/// What of those who do not get through to a target is counted: refused, unreachable, timed out.
fn not_connected(meter: &Meter) -> [u64; 3] {
    [meter.refused, meter.unreachable, meter.timed_out]
}

/// A target that cannot be had is told at once, whoever says so and in which way.
pub(crate) fn no_target() -> Result<(), String> {
    let world = World::build()?;
    sh(
        &world.target,
        "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
         ip route add unreachable 10.9.4.0/24; ip -6 route add unreachable fd09:4::/64",
    )?;
    world.lead(4, 2)?;
    let firewall = "nft add table inet door
                    nft 'add chain inet door input { type filter hook input priority 0; }'
                    nft add rule inet door input tcp dport 3260 reject";
    for (listen, to, at) in FAMILIES {
        let mut listener = ListenerConfig::new(listen, to);
        // It is not time that ends them.
        listener.connect_timeout = SomeTime(LIMIT);
        let (relay, installed) = world.transparent(listener)?;
        for (said, network, expected) in [
            ("a closed port", 2, [1, 0, 0]),
            ("no route", 4, [1, 1, 0]),
            ("a firewall", 2, [2, 1, 0]),
        ] {
            if said == "a firewall" {
                sh(&world.target, firewall)?;
            }
            let at = address(&at(network));
            let seen = world.client.run(move || {
                // The reset may come before the connection is used, or while it is.
                TcpStream::connect_timeout(&at, LIMIT).and_then(|mut stream| {
                    stream.set_read_timeout(Some(LIMIT))?;
                    stream.read(&mut [0])
                })
            });
            let meter = relay.observer().snapshot().meter;
            let is_reset =
                matches!(&seen, Err(error) if error.kind() == ErrorKind::ConnectionReset);
            if !is_reset || not_connected(&meter) != expected {
                return Err(format!("{said}, {at}: {seen:?}, {meter:?}"));
            }
        }
        sh(&world.target, "nft delete table inet door")?;
        world.middle.run(move || drop(installed));
    }
    Ok(())
}
