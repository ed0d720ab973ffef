//! The cost of single losses.

use wansan_path::{Change, Effects, Listed, LossModel};
use wansan_sim::network::Network;

use crate::world::{SECOND_NS, World};

/// A network whose forward path drops the packets with these indices, and its sender.
fn losing(world: &World, places: &[u64], bytes: u64) -> (Network, u32) {
    let listed = Listed::new(places.to_vec()).expect("a list");
    let forward = Effects {
        loss: LossModel::Listed(listed),
        ..world.forward()
    };
    let (network, senders) = world.network_of(&forward, &world.back(), 1, bytes);
    (network, senders[0])
}

/// A queue that never fills.
fn deep() -> World {
    World {
        queue: 100_000,
        ..World::default()
    }
}

/// Time in milliseconds until a transfer is fully acknowledged.
fn done_ms(network: &mut Network, sender: u32, bytes: u64) -> u64 {
    (1..100_000)
        .find(|ms| {
            network.run_until(ms * 1_000_000).expect("it goes on");
            network.end(sender).sender().acknowledged_bytes() == bytes
        })
        .expect("it ends")
}

/// RACK detects the loss, and one retransmission repairs it.
#[test]
fn one_loss_is_one_retransmission() {
    for place in [30, 200, 1_000] {
        let (mut network, sender) = losing(&deep(), &[place], 5_000_000);
        done_ms(&mut network, sender, 5_000_000);
        let counts = network.end(sender).sender().counts();
        assert_eq!(
            (counts.resent, counts.recoveries, counts.timeouts),
            (1, 1, 0),
            "{place}"
        );
    }
}

/// Several losses in one flight are repaired in one recovery.
#[test]
fn losses_of_one_flight_are_one_recovery() {
    let places = [400, 402, 410, 411, 412, 450];
    let (mut network, sender) = losing(&deep(), &places, 5_000_000);
    done_ms(&mut network, sender, 5_000_000);
    let counts = network.end(sender).sender().counts();
    assert_eq!(
        (counts.resent, counts.recoveries, counts.timeouts),
        (6, 1, 0)
    );
}

/// The loss of the last packet is detected by a tail loss probe, after two round trips and the delayed-ACK time, and
/// not by a timeout (RFC 8985 §7).
#[test]
fn a_lost_tail_is_probed() {
    let bytes = 20 * 1_448;
    let whole = {
        let (mut network, sender) = losing(&deep(), &[], bytes);
        done_ms(&mut network, sender, bytes)
    };
    // After the SYN and the handshake's ACK, the twentieth data packet has index 22.
    let (mut network, sender) = losing(&deep(), &[22], bytes);
    let later_ms = done_ms(&mut network, sender, bytes) - whole;
    let counts = network.end(sender).sender().counts();
    assert_eq!((counts.probes, counts.timeouts), (1, 0));
    assert!((80..400).contains(&later_ms), "{later_ms}");
}

/// While the path is down, timeouts back off exponentially (RFC 6298 §5.5); once it is up again, the transfer
/// continues.
#[test]
fn a_silent_path_backs_off() {
    let world = World::default();
    let (mut network, senders) = world.network(1, 200_000_000);
    network.run_until(2 * SECOND_NS).expect("it goes on");
    network.change(0, Change::Down).expect("a change");
    network.run_until(22 * SECOND_NS).expect("it goes on");
    let timeouts = network.end(senders[0]).sender().counts().timeouts;
    // 0.3 s, doubled each time, within 20 s.
    assert!((5..=7).contains(&timeouts), "{timeouts}");
    network.change(0, Change::Up).expect("a change");
    network.run_until(80 * SECOND_NS).expect("it goes on");
    let acked = network.end(senders[0]).sender().acknowledged_bytes();
    assert_eq!(acked, 200_000_000);
}

/// Nothing is lost, only delayed by more than the timeout: the reduction is undone (RFC 5682, RFC 3522).
#[test]
fn a_late_path_is_no_loss() {
    let world = World::default();
    let (mut network, senders) = world.network(1, u64::MAX >> 1);
    network.run_until(2 * SECOND_NS).expect("it goes on");
    let delay = world.rtt / 2;
    network
        .change(0, Change::Delay(delay + std::time::Duration::from_secs(1)))
        .expect("a change");
    network.run_until(4 * SECOND_NS).expect("it goes on");
    network.change(0, Change::Delay(delay)).expect("a change");
    network.run_until(6 * SECOND_NS).expect("it goes on");
    let counts = network.end(senders[0]).sender().counts();
    assert!(counts.timeouts > 0 && counts.undone > 0, "{counts:?}");
}
