//! Forwarded data.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::sockopt::set_socket_oobinline;
use rustix::net::{SendFlags, send as send_flagged};
use wansan_relay::{FlowSettings, FlowSnapshot, Law};
use wansan_settings::Text;
use wansan_settings::quantity::{Size, SomeTime, Span};
use wansan_tcp::queues::is_at_urgent_byte;

use super::peer::{receive, send, world};

const LENGTH: usize = 24 << 20;

/// Sends much data both ways at once.
fn both_ways(memory_bytes: usize, buffer_bytes: usize) -> wansan_relay::Snapshot {
    let world = world(|config| {
        config.process.memory = Size(memory_bytes as u64);
        config.file.listener[0].flow.buffer = Size(buffer_bytes as u64);
    });
    let (client, target) = world.flow();
    std::thread::scope(|scope| {
        for (end, seed) in [(&client, 1), (&target, 2)] {
            scope.spawn(move || {
                send(end, seed, LENGTH).unwrap();
                end.shutdown(Shutdown::Write).unwrap();
            });
        }
        for (end, seed) in [(&target, 1), (&client, 2)] {
            scope.spawn(move || {
                let received = receive(end, seed);
                assert_eq!(received.bytes, LENGTH);
                received.end.unwrap();
            });
        }
    });
    let snapshot = world.until(|snapshot| snapshot.meter.finished == 1);
    assert_eq!(snapshot.meter.onward_bytes, LENGTH as u64);
    assert_eq!(snapshot.meter.back_bytes, LENGTH as u64);
    assert!(
        snapshot.meter.held_bytes_max <= buffer_bytes,
        "{snapshot:?}"
    );
    assert!(snapshot.memory_bytes_max <= memory_bytes, "{snapshot:?}");
    snapshot
}

#[test]
fn much_goes_without_a_copy() {
    let snapshot = both_ways(64 << 20, 256 << 10);
    assert!(
        snapshot.meter.spliced_bytes > LENGTH as u64 / 2,
        "{snapshot:?}"
    );
}

#[test]
fn a_buffer_larger_than_a_pipe_is_filled_behind_it() {
    both_ways(64 << 20, 4 << 20);
}

#[test]
fn without_memory_nothing_is_held_and_nothing_stands_still() {
    let snapshot = both_ways(0, 256 << 10);
    assert_eq!(snapshot.meter.held_bytes_max, 0, "{snapshot:?}");
    assert!(snapshot.memory_refusals > 0, "{snapshot:?}");
}

#[test]
fn one_piece_of_memory_is_enough() {
    both_ways(FlowSettings::MIN_BUFFER.bytes(), 256 << 10);
}

#[test]
fn single_bytes_go_at_once() {
    let world = world(|_| {});
    let (mut client, mut target) = world.flow();
    for number in 0..2000u32 {
        let byte = [number as u8];
        let mut got = [0];
        client.write_all(&byte).unwrap();
        target.read_exact(&mut got).unwrap();
        assert_eq!(got, byte);
        target.write_all(&got).unwrap();
        client.read_exact(&mut got).unwrap();
        assert_eq!(got, byte);
    }
}

#[test]
fn a_client_that_sends_a_byte_now_and_then_is_served_beside_a_fast_one() {
    // In total longer than the limits of silence, and of unacknowledged data.
    const PACE: Duration = Duration::from_millis(40);
    const PATIENCE: Duration = Duration::from_secs(1);
    let world = world(|config| {
        config.process.threads = Some(1);
        let listener = &mut config.file.listener[0];
        listener.flow.law = Some(Text(Law::Window));
        listener.flow.latency = Some(SomeTime(Duration::from_millis(5)));
        for side in [&mut listener.flow.r#in, &mut listener.flow.out] {
            side.keep_alive = Span(PATIENCE);
            side.user_timeout = Some(Span(PATIENCE));
        }
    });
    let (fast, its_target) = world.flow();
    let (mut slow, mut target) = world.flow();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // Fails when the test shuts it down.
                let _ = send(&fast, 1, 1 << 16);
            }
        });
        scope.spawn(|| while matches!((&its_target).read(&mut vec![0; 1 << 16]), Ok(1..)) {});
        for byte in 0..50 {
            std::thread::sleep(PACE);
            slow.write_all(&[byte]).unwrap();
            // It is forwarded without waiting for more.
            let mut got = [0; 2];
            assert_eq!(target.read(&mut got).unwrap(), 1);
            assert_eq!(got[0], byte);
        }
        is_over.store(true, Ordering::Relaxed);
        fast.shutdown(Shutdown::Both).unwrap();
    });
    let snapshot = world.snapshot();
    let is_slow = |flow: &&FlowSnapshot| flow.onward.moved_bytes == 50;
    let flow = snapshot.flows.iter().find(is_slow).unwrap();
    assert!(flow.onward.held_bytes_max <= 1, "{flow:?}");
}

#[test]
fn a_target_may_speak_first() {
    let world = world(|_| {});
    let (mut client, mut target) = world.flow();
    target.write_all(b"220 ready").unwrap();
    let mut got = [0; 9];
    client.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"220 ready");
}

#[test]
fn the_urgent_byte_stays_urgent_and_in_its_place() {
    // Also where nothing is held.
    for memory_bytes in [64 << 20, 0] {
        let world = world(|config| config.process.memory = Size(memory_bytes as u64));
        let (client, mut target) = world.flow();
        set_socket_oobinline(&target, true).unwrap();
        for round in 0..50usize {
            let before = vec![b'a'; 1 + round * 997];
            (&client).write_all(&before).unwrap();
            send_flagged(&client, b"!", SendFlags::OOB).unwrap();
            (&client).write_all(b"z").unwrap();
            let mut got = vec![0; before.len()];
            target.read_exact(&mut got).unwrap();
            assert_eq!(got, before);
            // The urgent mark arrives with the byte, or before it.
            let mut byte = [0];
            while target.peek(&mut byte).unwrap() == 0 {}
            assert!(is_at_urgent_byte(&target).unwrap(), "round {round}");
            target.read_exact(&mut byte).unwrap();
            assert_eq!(&byte, b"!");
            target.read_exact(&mut byte).unwrap();
            assert_eq!(&byte, b"z");
        }
    }
}
