//! The limits, and what happens at them.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use std::sync::Mutex;
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use wansan_relay::{
    BacklogSum, FlowSettings, FlowSnapshot, Law, ListenerConfig, Relay, RelayError,
};
use wansan_settings::quantity::{Size, SomeTime};
use wansan_settings::{Text, usual};
use wansan_tcp::buffers::BufferError;

use super::peer::{REPORT, config, receive, sees, send, world, world_that_says};

#[test]
fn a_target_that_never_reads_holds_up_nobody_else() {
    let world = world(|config| config.process.threads = Some(1));
    let (client, target) = world.flow();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| send(&client, 1, 1 << 30));
        let waits = |flow: &FlowSnapshot| flow.onward.backlog.bytes() > 1 << 20;
        let snapshot = world.until(|snapshot| snapshot.flows.iter().any(waits));
        let slow = &snapshot.flows[0].onward;
        assert!(slow.held_bytes_max <= world_buffer(), "{slow:?}");
        let (mut other, mut its_target) = world.flow();
        for _ in 0..100 {
            other.write_all(b"x").unwrap();
            its_target.read_exact(&mut [0]).unwrap();
        }
        // Not all of it has to be sent.
        client.shutdown(Shutdown::Both).unwrap();
        sender.join().unwrap().unwrap_err();
    });
    // Data received until then is correct.
    let received = receive(&target, 1);
    received.end.unwrap();
    assert!(received.bytes > 1 << 20);
}

/// Flows that each thread reports.
const TOLD: usize = 256;

#[test]
fn a_backlog_is_in_the_sums_and_not_hidden_by_flows_that_once_moved_more() {
    const LENGTH: usize = 300_000;
    let world = world(|config| {
        config.process.threads = Some(1);
        config.file.listener[0].flow.out.send_buffer = Some(Size(65_536));
    });
    set_socket_recv_buffer_size(&world.target, 32_768).unwrap();
    let old: Vec<_> = (0..TOLD + 4)
        .map(|_| {
            let (mut client, mut target) = world.flow();
            client.write_all(&vec![7; LENGTH]).unwrap();
            target.read_exact(&mut vec![0; LENGTH]).unwrap();
            (client, target)
        })
        .collect();
    let (mut client, _target) = world.flow();
    let own = client.local_addr().unwrap();
    client.set_nonblocking(true).unwrap();
    // Its target reads nothing, so it has moved less than any other.
    while client.write(&[7; 65_536]).is_ok() {}
    let is_it = |flow: &&FlowSnapshot| flow.client == own;
    let snapshot = world.until(|snapshot| {
        let flow = snapshot.flows.iter().find(is_it);
        flow.is_some_and(|flow| flow.onward.backlog.bytes() > 0)
    });
    let flow = snapshot.flows.iter().find(is_it).unwrap();
    assert!(flow.onward.moved_bytes < LENGTH as u64, "{flow:?}");
    assert_eq!(
        (snapshot.flows_now, snapshot.flows.len()),
        (old.len() + 1, TOLD)
    );
    let has_sum = |sum: BacklogSum| sum.bytes > 0 && sum.time_max > Duration::ZERO;
    world.until(|snapshot| has_sum(snapshot.onward) && snapshot.back.bytes == 0);
}

#[test]
fn where_slow_flows_have_all_memory_other_flows_go_on() {
    const SLOW: u64 = 4;
    const LENGTH: usize = 8 << 20;
    let memory_bytes = 2 * FlowSettings::MIN_BUFFER.bytes();
    let world = world(|config| config.process.memory = Size(memory_bytes as u64));
    let slow: Vec<_> = (0..SLOW).map(|_| world.flow()).collect();
    let (client, target) = &world.flow();
    std::thread::scope(|scope| {
        for (seed, (client, _)) in (0..).zip(&slow) {
            scope.spawn(move || {
                send(client, seed, LENGTH).unwrap();
                client.shutdown(Shutdown::Write).unwrap();
            });
        }
        // Their targets read nothing, and they use up the relay's memory.
        let is_used_up = |memory_bytes_now| memory_bytes_now == memory_bytes;
        world.until(|snapshot| is_used_up(snapshot.memory_bytes) && snapshot.memory_refusals > 0);
        for (from, to, seed) in [(client, target, SLOW), (target, client, SLOW + 1)] {
            scope.spawn(move || {
                send(from, seed, LENGTH).unwrap();
                from.shutdown(Shutdown::Write).unwrap();
            });
            let received = receive(to, seed);
            received.end.unwrap();
            assert_eq!(received.bytes, LENGTH);
        }
        assert!(is_used_up(world.snapshot().memory_bytes));
        for (seed, (_, target)) in (0..).zip(&slow) {
            let received = receive(target, seed);
            received.end.unwrap();
            assert_eq!(received.bytes, LENGTH);
        }
    });
    assert_eq!(world.snapshot().memory_bytes_max, memory_bytes);
}

fn world_buffer() -> usize {
    usual::<FlowSettings>().buffer.bytes()
}

#[test]
fn memory_goes_back_after_a_burst() {
    let world = world(|_| {});
    let (client, target) = world.flow();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            send(&client, 1, 8 << 20).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
        });
        let received = receive(&target, 1);
        assert_eq!(received.bytes, 8 << 20);
    });
    // The flow still exists.
    let snapshot = world.until(|snapshot| snapshot.memory_bytes == 0);
    assert!(
        snapshot.flows_now == 1 && snapshot.memory_bytes_max > 0,
        "{snapshot:?}"
    );
}

#[test]
fn flows_over_the_limit_wait_for_their_turn() {
    let world = world(|config| config.process.flows = 2);
    let (first, first_target) = world.flow();
    let _second = world.flow();
    let mut third = TcpStream::connect(world.at).unwrap();
    third.write_all(b"here").unwrap();
    world.until(|snapshot| snapshot.meter.pauses > 0);
    assert_eq!(world.snapshot().meter.accepted, 2);
    drop((first, first_target));
    let (mut its_target, _) = world.target.accept().unwrap();
    its_target.read_exact(&mut [0; 4]).unwrap();
}

#[test]
fn clients_from_elsewhere_are_turned_away() {
    let mut world = world(|config| {
        config.file.listener[0].networks = Some(vec!["192.0.2.0/24".parse().unwrap()]);
    });
    assert_eq!(sees(world.at), ErrorKind::ConnectionReset);
    assert_eq!(world.snapshot().meter.turned_away, 1);
    // The list can be changed.
    let to = world.target.local_addr().unwrap().to_string();
    let mut listener = ListenerConfig::new("127.0.0.1:0", &to);
    listener.networks = Some(vec!["127.0.0.0/8".parse().unwrap()]);
    let changes = world.relay.reload(&[listener.clone()]).unwrap();
    assert_eq!(changes.changed, ["127.0.0.1:0"]);
    world.flow();
    // An empty one admits nobody.
    listener.networks = Some(Vec::new());
    world.relay.reload(&[listener]).unwrap();
    assert_eq!(sees(world.at), ErrorKind::ConnectionReset);
}

#[test]
fn a_reload_keeps_flows_and_moves_new_ones() {
    let mut world = world(|_| {});
    let (mut client, mut target) = world.flow();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = other.local_addr().unwrap().to_string();
    let same = ListenerConfig::new("127.0.0.1:0", &to);
    let new = ListenerConfig::new("127.0.0.2:0", &to);
    let changes = world.relay.reload(&[same, new]).unwrap();
    assert_eq!(
        changes.to_string(),
        "added 127.0.0.2:0; changed 127.0.0.1:0"
    );
    for address in world.relay.addresses() {
        let mut client = TcpStream::connect(address).unwrap();
        let (mut target, _) = other.accept().unwrap();
        target.write_all(b"new").unwrap();
        client.read_exact(&mut [0; 3]).unwrap();
    }
    client.write_all(b"old").unwrap();
    target.read_exact(&mut [0; 3]).unwrap();

    // Invalid settings change nothing.
    let bad = ListenerConfig::new("127.0.0.1:0", "nobody");
    world.relay.reload(&[bad]).unwrap_err();
    assert_eq!(world.relay.addresses().len(), 2);
    let only = ListenerConfig::new("127.0.0.2:0", &to);
    let changes = world.relay.reload(&[only]).unwrap();
    assert_eq!(changes.removed, ["127.0.0.1:0"]);
    assert!(TcpStream::connect(world.at).is_err());
    client.write_all(b"old").unwrap();
    target.read_exact(&mut [0; 3]).unwrap();
}

#[test]
fn listeners_at_any_port_keep_theirs() {
    let mut world = world(|_| {});
    let to = world.target.local_addr().unwrap().to_string();
    let any = ListenerConfig::new("127.0.0.1:0", &to);
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let to_other = ListenerConfig::new("127.0.0.1:0", &other.local_addr().unwrap().to_string());
    let changes = world
        .relay
        .reload(&[any.clone(), to_other.clone()])
        .unwrap();
    assert_eq!(changes.to_string(), "added 127.0.0.1:0");
    let both = world.relay.addresses();
    assert!(both[0] == world.at && both[1] != world.at, "{both:?}");
    let changes = world.relay.reload(&[any.clone(), to_other]).unwrap();
    assert_eq!(changes.to_string(), "nothing has changed");
    assert_eq!(world.relay.addresses(), both);
    world.flow();
    let mut client = TcpStream::connect(both[1]).unwrap();
    let (mut target, _) = other.accept().unwrap();
    target.write_all(b"other").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();

    let changes = world.relay.reload(&[any]).unwrap();
    assert_eq!(changes.to_string(), "removed 127.0.0.1:0");
    world.flow();
    assert!(TcpStream::connect(both[1]).is_err());
    target.write_all(b"other").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
}

#[test]
fn a_listener_moves_in_two_steps() {
    let mut world = world(|config| config.file.listener[0].listen = "0.0.0.0:0".to_owned());
    let to = world.target.local_addr().unwrap().to_string();
    world.at.set_ip([127, 0, 0, 1].into());
    let (mut client, mut target) = world.flow();
    let narrow = ListenerConfig::new(&world.at.to_string(), &to);
    let moved = [narrow.clone()];
    let said = world.relay.reload(&moved).unwrap_err().to_string();
    let port = world.at.port();
    assert!(
        said.contains(&format!(
            "127.0.0.1:{port} while this relay listens at 0.0.0.0:0"
        )),
        "{said}"
    );
    world.flow();

    let elsewhere = ListenerConfig::new("127.0.0.1:0", &to);
    world.relay.reload(&[elsewhere]).unwrap();
    world.relay.reload(&moved).unwrap();
    assert_eq!(world.relay.addresses(), [world.at]);
    world.flow();
    client.write_all(b"old").unwrap();
    target.read_exact(&mut [0; 3]).unwrap();

    // Nor can it coexist with a listener whose connections it would accept.
    let wide = ListenerConfig::new(&format!("0.0.0.0:{port}"), &to);
    let said = world.relay.reload(&[narrow, wide]).unwrap_err().to_string();
    assert!(said.contains(&format!("at 127.0.0.1:{port}")), "{said}");
    world.flow();
}

/// In its own thread, without the privilege for larger buffers, which threads started there lack too.
fn without_rights(test: impl FnOnce() + Send + 'static) {
    let tested = std::thread::spawn(|| {
        let mut rights = capabilities(None).unwrap();
        rights.effective.remove(CapabilitySet::NET_ADMIN);
        set_capabilities(None, rights).unwrap();
        test();
    });
    tested.join().unwrap();
}

#[test]
fn buffers_that_the_machine_does_not_give_are_told_once() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    without_rights(|| {
        let report: fn(&str) = |line| SAID.lock().unwrap().push(line.to_owned());
        let world = world_that_says(report, |config| {
            config.file.listener[0].flow.law = Some(Text(Law::Window));
            // On loopback, the data drained in that time exceeds any buffer.
            config.file.listener[0].flow.latency = Some(SomeTime(Duration::from_secs(3600)));
        });
        let mut flows: Vec<_> = (0..3).map(|_| world.flow()).collect();
        let is_short = |flow: &FlowSnapshot| {
            let buffers = [flow.inward_buffer, flow.outward_buffer];
            buffers.iter().flatten().filter(|it| it.is_short()).count() == 2
        };
        loop {
            for (client, target) in &mut flows {
                for (from, to) in [(&*client, &*target), (target, client)] {
                    (&mut &*from).write_all(&[7; 10_000]).unwrap();
                    (&mut &*to).read_exact(&mut [0; 10_000]).unwrap();
                }
            }
            if world.snapshot().flows.iter().all(is_short) {
                break;
            }
        }
    });
    let said = SAID.lock().unwrap().join("\n");
    for side in ["towards the client", "towards the target"] {
        let line = format!("127.0.0.1:0, {side}: net.core.rmem_max allows a buffer of");
        assert_eq!(said.matches(&line).count(), 1, "{said}");
    }
    assert!(said.contains("CAP_NET_ADMIN"), "{said}");
}

#[test]
fn buffers_that_were_asked_for_and_are_not_given_are_refused() {
    without_rights(|| {
        let mut listener = ListenerConfig::new("127.0.0.1:0", "127.0.0.1:9");
        listener.flow.r#in.receive_buffer = Some(Size(1 << 30));
        let refused =
            |listener: &ListenerConfig| match Relay::start(&config(listener.clone()), REPORT) {
                Err(RelayError::SocketBuffer {
                    side,
                    source: BufferError::TooSmall { setting, .. },
                    ..
                }) => (side, setting),
                other => panic!("{other:?}"),
            };
        let (client, target) = ("towards the client", "towards the target");
        assert_eq!(refused(&listener), (client, "net.core.rmem_max"));
        listener.flow.r#in.receive_buffer = None;
        listener.flow.out.send_buffer = Some(Size(1 << 30));
        assert_eq!(refused(&listener), (target, "net.core.wmem_max"));
    });
}
