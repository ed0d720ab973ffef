use super::*;
use crate::tcp::congestion::Law;
use crate::tcp::jiffies::Hz;
use crate::tcp::receive::{Opening, ReceiveConfig};
use crate::tcp::send::SendConfig;

/// `senders` senders over a link with that delay, and back over one without delay.
fn network(delay: Duration, senders: u32) -> Network {
    let mut network = Network::default();
    network.set_latency(
        Latency {
            least_ns: 0,
            most_ns: 0,
            waking_ns: 0,
        },
        1,
    );
    let effects = |delay| Effects {
        delay,
        ..Effects::default()
    };
    let out = network.link(&effects(delay), 1).expect("a link");
    let home = network.link(&effects(Duration::ZERO), 2).expect("a link");
    network.name_link(out, "wan:forward");
    let end = |opening| {
        let law = Law::named("reno", Hz::default(), 1).expect("a law");
        let (send, receive) = (SendConfig::default(), ReceiveConfig::default());
        Connection::new(opening, send, &receive, law, 0)
    };
    for _ in 0..senders {
        let source = Program::Source {
            bytes: u64::MAX >> 1,
        };
        let sink = Program::Sink { from_ns: 0 };
        network.connect(
            [
                (end(Opening::Active), source, vec![out.into()]),
                (end(Opening::Passive), sink, vec![home.into()]),
            ],
            0,
        );
    }
    network
}

#[test]
fn a_link_without_a_rate_has_the_speed_of_the_hosts_interfaces_and_drops_nothing() {
    for delay in [Duration::ZERO, Duration::from_micros(10)] {
        let mut network = network(delay, 1);
        network.run_until(1_000_000_000).expect("it ends");
        let counters = network.counters(0);
        assert_eq!(counters.dropped_by_delay_line.packets, 0);
        // 1.25 GB fit into a second.
        let bytes = counters.delivered.bytes;
        assert!((1_240_000_000..=1_251_000_000).contains(&bytes), "{bytes}");
    }
}

#[test]
fn time_that_stands_still_is_an_error() {
    let mut network = network(Duration::from_millis(10), 50);
    network.most_at_once = 40;
    // All senders begin together.
    let error = network.run_until(1_000_000_000).expect_err("50 are more");
    assert_eq!(error, Runaway::Stuck { at: Instant::ZERO });
}

#[test]
fn packets_without_a_bound_are_an_error_that_names_their_link() {
    let mut network = network(Duration::from_millis(10), 50);
    network.most_held = 400;
    // Ten packets each, in their first round trip of data.
    let error = network.run_until(1_000_000_000).expect_err("500 are more");
    let Runaway::Flooded { held, link, at } = error else {
        panic!("{error}");
    };
    // An end sends all of its ten packets before the limit is checked.
    assert!((401..=410).contains(&held), "{held}");
    assert_eq!(link, "`wan:forward`");
    // The handshake's packets take time on the links too, and so do the data packets before these.
    assert!((10_000_000..10_010_000).contains(&at.ns()), "{at:?}");
}
