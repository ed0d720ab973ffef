//! Every byte arrives once and in order, whatever the path does.

use std::time::Duration;

use wansan_path::{Change, Effects, LossModel, Probability};
use wansan_sim::tcp::congestion::Law;

use crate::world::{SECOND_NS, World};

const BYTES: u64 = 3_000_001;

/// Paths that drop, duplicate, corrupt and reorder packets, in both directions.
#[test]
fn all_arrives_whatever_the_path_does() {
    let often = |share: f64| Probability::new(share).expect("a probability");
    for law in Law::names() {
        for seed in 0..20 {
            let world = World {
                law,
                seed,
                queue: 20 + 17 * seed,
                ..World::default()
            };
            let part = seed as f64 / 20.0;
            let bad = |effects: Effects| Effects {
                loss: LossModel::Bernoulli(often(0.08 * part)),
                duplicate: often(0.05 * part),
                corrupt: often(0.02 * part),
                reorder_share: often(0.1 * part),
                reorder_by: Duration::from_millis(7),
                ..effects
            };
            let (mut network, senders) =
                world.network_of(&bad(world.forward()), &bad(world.back()), 2, BYTES);
            network.run_until(1_500 * SECOND_NS).expect("it goes on");
            for sender in senders {
                let (from, to) = (network.end(sender), network.end(sender + 1));
                assert_eq!(from.sender().acknowledged_bytes(), BYTES, "{law} {seed}");
                assert_eq!(from.sender().unacknowledged_bytes(), 0, "{law} {seed}");
                assert!(to.receiver().is_finished(), "{law} {seed}");
                // The SYN, the bytes and the FIN.
                assert_eq!(to.receiver().next(), BYTES + 2, "{law} {seed}");
            }
        }
    }
}

/// On a lossless path, nothing is retransmitted.
#[test]
fn nothing_is_sent_twice_for_nothing() {
    for law in Law::names() {
        let world = World {
            law,
            queue: 100_000,
            ..World::default()
        };
        let (mut network, senders) = world.network(1, 20_000_000);
        network.run_until(60 * SECOND_NS).expect("it goes on");
        let sender = network.end(senders[0]).sender();
        assert_eq!(sender.acknowledged_bytes(), 20_000_000, "{law}");
        assert_eq!(
            (sender.counts().resent, sender.counts().timeouts),
            (0, 0),
            "{law}"
        );
    }
}

/// A receiver that does not read closes its window. The window update is lost while the path is down, but the sender's
/// zero-window probes find the window open (RFC 9293 §3.8.6.1).
#[test]
fn a_closed_window_is_probed() {
    let mut world = World {
        reads_from_ns: 20 * SECOND_NS,
        ..World::default()
    };
    world.receive.so_rcvbuf_bytes = Some(64 << 10);
    let (mut network, senders) = world.network(1, BYTES);
    network.run_until(19 * SECOND_NS).expect("it goes on");
    let held = network.end(senders[0]).sender().acknowledged_bytes();
    assert!((30_000..130_000).contains(&held), "{held}");
    // The return path is down when the receiver starts to read.
    network.change(1, Change::Down).expect("a change");
    network.run_until(21 * SECOND_NS).expect("it goes on");
    network.change(1, Change::Up).expect("a change");
    network.run_until(200 * SECOND_NS).expect("it goes on");
    let sender = network.end(senders[0]).sender();
    assert_eq!(sender.acknowledged_bytes(), BYTES);
}
