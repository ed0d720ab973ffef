//! How flows end, and how they fail to start.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use wansan_relay::{ListenerConfig, Relay};
use wansan_settings::quantity::SomeTime;

use super::peer::{LONG, REPORT, config, receive, reset, sees, send, world};

const LENGTH: usize = 3 << 20;

#[test]
fn a_half_closed_flow_goes_on_the_other_way() {
    let world = world(|_| {});
    for client_first in [true, false] {
        let (client, target) = world.flow();
        let (first, second) = match client_first {
            true => (&client, &target),
            false => (&target, &client),
        };
        first.shutdown(Shutdown::Write).unwrap();
        assert_eq!(receive(second, 1).bytes, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                send(second, 2, LENGTH).unwrap();
                second.shutdown(Shutdown::Write).unwrap();
            });
            let received = receive(first, 2);
            received.end.unwrap();
            assert_eq!(received.bytes, LENGTH);
        });
    }
    world.until(|snapshot| snapshot.meter.finished == 2 && snapshot.flows_now == 0);
}

#[test]
fn a_reset_comes_after_what_was_sent_before_it() {
    let world = world(|_| {});
    for client_resets in [true, false] {
        let (client, target) = world.flow();
        let (resets, stays) = match client_resets {
            true => (client, target),
            false => (target, client),
        };
        // Data in the receiver's own queue stays readable.
        send(&resets, 3, 100_000).unwrap();
        while wansan_tcp::queues::unacked_bytes(&resets).unwrap() > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        reset(resets);
        let received = receive(&stays, 3);
        assert_eq!(received.bytes, 100_000);
        assert_eq!(received.end.unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    world.until(|snapshot| snapshot.meter.lost == 2 && snapshot.flows_now == 0);
}

#[test]
fn a_reset_that_answers_a_write_is_passed_on() {
    let world = world(|_| {});
    let (client, target) = world.flow();
    // The client has sent everything, and does not want the response.
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(receive(&target, 0).bytes, 0);
    drop(client);
    let began = Instant::now();
    let error = loop {
        match (&target).write_all(&[7; 10_000]) {
            Ok(()) => assert!(began.elapsed() < LONG, "writes go on for ever"),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(
            error.kind(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
        ),
        "{error}"
    );
    world.until(|snapshot| snapshot.meter.lost == 1 && snapshot.flows_now == 0);
}

#[test]
fn a_refused_connection_is_a_reset() {
    let world = world(|_| {});
    drop(world.target);
    assert_eq!(sees(world.at), ErrorKind::ConnectionReset);
    let snapshot = world.relay.observer().snapshot();
    assert_eq!((snapshot.meter.refused, snapshot.meter.accepted), (1, 1));
}

#[test]
fn an_unreachable_target_is_a_reset() {
    // Connecting to a broadcast address is not allowed.
    let relay = Relay::start(
        &config(ListenerConfig::new("127.0.0.1:0", "255.255.255.255:9")),
        REPORT,
    );
    let relay = relay.unwrap();
    assert_eq!(sees(relay.addresses()[0]), ErrorKind::ConnectionReset);
    assert_eq!(relay.observer().snapshot().meter.unreachable, 1);
}

#[test]
fn a_target_that_does_not_answer_is_a_reset_in_time() {
    // A listener with a full queue does not answer.
    let listener = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        None,
    )
    .unwrap();
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    rustix::net::bind(&listener, &any).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let listener = TcpListener::from(listener);
    let address = listener.local_addr().unwrap();
    let first = TcpStream::connect(address).unwrap();
    let relay = {
        let mut listener = ListenerConfig::new("127.0.0.1:0", &address.to_string());
        listener.connect_timeout = SomeTime(Duration::from_millis(200));
        Relay::start(&config(listener), REPORT).unwrap()
    };
    assert_eq!(sees(relay.addresses()[0]), ErrorKind::ConnectionReset);
    assert_eq!(relay.observer().snapshot().meter.timed_out, 1);
    drop(first);
}

#[test]
fn another_address_is_tried_when_the_first_does_not_answer() {
    // Both addresses of localhost; the target listens on only one.
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = target.local_addr().unwrap().port();
    let relay = config(ListenerConfig::new(
        "127.0.0.1:0",
        &format!("localhost:{port}"),
    ));
    let relay = Relay::start(&relay, REPORT).unwrap();
    let mut client = TcpStream::connect(relay.addresses()[0]).unwrap();
    let (mut server, _) = target.accept().unwrap();
    server.write_all(b"x").unwrap();
    client.read_exact(&mut [0]).unwrap();
}

#[test]
fn a_client_that_goes_before_the_target_answers_takes_nothing_along() {
    let world = world(|_| {});
    for _ in 0..50 {
        reset(TcpStream::connect(world.at).unwrap());
    }
    world.until(|snapshot| snapshot.meter.accepted == 50 && snapshot.flows_now == 0);
    let (mut client, mut target) = {
        // Connections made for closed flows are not this one's.
        let mut client = TcpStream::connect(world.at).unwrap();
        client.write_all(b"mine").unwrap();
        let target = loop {
            let (mut target, _) = world.target.accept().unwrap();
            if target.read_exact(&mut [0; 4]).is_ok() {
                break target;
            }
        };
        (client, target)
    };
    target.write_all(b"yours").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
}

#[test]
fn flows_that_are_cut_off_do_not_look_complete() {
    let world = world(|_| {});
    let (client, target) = world.flow();
    let _ = world.relay.stop();
    for end in [&client, &target] {
        let end = receive(end, 0).end.unwrap_err();
        assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
fn a_relay_that_drains_lets_flows_end() {
    let mut world = world(|_| {});
    let (mut client, mut target) = world.flow();
    assert!(!world.relay.drain(Duration::from_millis(50), || false));
    let refused = TcpStream::connect(world.at).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    client.write_all(b"last words").unwrap();
    target.read_exact(&mut [0; 10]).unwrap();
    drop((client, target));
    assert!(world.relay.drain(LONG, || false));
}
