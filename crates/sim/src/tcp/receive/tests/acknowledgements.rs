//! When acknowledgements are sent.

use super::*;

/// A receiver that got `packets` full segments in order, 1 ms apart, and read and acknowledged each; with the time and
/// the next sequence number.
fn after(packets: u64) -> (Receiver, u64, u64) {
    let mut receiver = receiver(&ReceiveConfig::default(), 1);
    for n in 0..packets {
        receiver.on_segment(n * MS, &data(1 + 1448 * n, 1448), Ecn::NotCapable);
        receiver.read(n * MS, u64::MAX);
        filled(&mut receiver, n * MS);
    }
    (receiver, packets * MS, 1 + 1448 * packets)
}

#[test]
fn a_connection_begins_with_quick_acknowledgements() {
    let mut receiver = receiver(&ReceiveConfig::default(), 1);
    let mut at_once = 0;
    loop {
        receiver.on_segment(0, &data(1 + 100 * at_once, 100), Ecn::NotCapable);
        if !is_due(&receiver, 0) {
            break;
        }
        filled(&mut receiver, 0);
        at_once += 1;
    }
    // TCP_MAX_QUICKACKS; half of the window holds 60 segments of 536 bytes.
    assert_eq!(at_once, 16);
}

#[test]
fn of_full_segments_every_second_is_acknowledged_at_once() {
    let (mut receiver, now, next) = after(400);
    receiver.on_segment(now, &data(next, 1448), Ecn::NotCapable);
    receiver.read(now, u64::MAX);
    let at_ns = receiver.acknowledge_at().unwrap();
    assert!((now + 40 * MS..=now + 44 * MS).contains(&at_ns), "{at_ns}");
    receiver.on_segment(now + MS, &data(next + 1448, 1448), Ecn::NotCapable);
    assert!(is_due(&receiver, now + MS));
}

#[test]
fn where_the_window_would_be_smaller_the_reader_acknowledges() {
    let (mut receiver, now, next) = after(400);
    for n in 0..2 {
        receiver.on_segment(now, &data(next + 1448 * n, 1448), Ecn::NotCapable);
        assert!(!is_due(&receiver, now));
    }
    receiver.read(now, 1448);
    assert!(is_due(&receiver, now));
}

#[test]
fn a_reader_that_is_late_acknowledges_by_reading() {
    let (mut receiver, now, next) = after(400);
    let big = receiver.info().window_bytes;
    // So much data waits that the window shrinks: reading announces a larger one.
    let mut at = next;
    while at + 1448 < next + big {
        receiver.on_segment(now, &data(at, 1448), Ecn::NotCapable);
        filled(&mut receiver, now);
        at += 1448;
    }
    let left = receiver.info().window_bytes;
    assert!(left < big, "{left} of {big}");
    assert!(receiver.acknowledge_at().is_none());
    receiver.read(now, 1448);
    assert!(
        receiver.acknowledge_at().is_none(),
        "one segment is not worth an update"
    );
    receiver.read(now, u64::MAX);
    assert!(is_due(&receiver, now), "the window is twice as large");
}

#[test]
fn a_small_segment_is_acknowledged_when_it_was_read_unless_data_goes_both_ways() {
    let (mut receiver, now, next) = after(400);
    let push = Segment {
        push: true,
        ..data(next, 48)
    };
    receiver.on_segment(now, &push, Ecn::NotCapable);
    assert!(!is_due(&receiver, now));
    receiver.read(now, u64::MAX);
    assert!(is_due(&receiver, now));
    // A reply to it makes the session interactive.
    filled(&mut receiver, now);
    receiver.on_sent_data(now);
    receiver.on_segment(
        now,
        &Segment {
            seq: next + 48,
            ..push
        },
        Ecn::NotCapable,
    );
    receiver.read(now, u64::MAX);
    assert!(!is_due(&receiver, now));
    assert!(receiver.acknowledge_at().unwrap() >= now + 40 * MS);
}

#[test]
fn data_behind_a_hole_is_acknowledged_at_once_and_so_is_the_last_that_fills_it() {
    let (mut receiver, now, next) = after(400);
    receiver.on_segment(now, &data(next + 1448, 1448), Ecn::NotCapable);
    assert!(is_due(&receiver, now));
    filled(&mut receiver, now);
    receiver.on_segment(now, &data(next, 1448), Ecn::NotCapable);
    assert!(is_due(&receiver, now));
}

#[test]
fn many_behind_a_hole_are_acknowledged_by_few() {
    let (mut receiver, now, next) = after(400);
    // Nothing is compressed without an RTT sample: timestamps give one.
    let sampled = Segment {
        ts_echo: (now / MS) as u32 - 100,
        ..data(next, 1448)
    };
    receiver.on_segment(now, &sampled, Ecn::NotCapable);
    receiver.read(now, u64::MAX);
    filled(&mut receiver, now);
    let mut sent = 0;
    // One per 12 µs, as at 1 Gbit/s: 84 in the millisecond that an acknowledgement waits at most.
    for n in 0..200 {
        let at_ns = now + 12_000 * n;
        receiver.on_segment(at_ns, &data(next + 1448 * (n + 2), 1448), Ecn::NotCapable);
        if is_due(&receiver, at_ns) {
            sent += 1;
            filled(&mut receiver, at_ns);
        }
    }
    // 3 at once, then every 45th.
    assert_eq!(sent, 3 + 197 / 45);
    assert_eq!(receiver.info().spared_acknowledgements, 4 * 44);
}

#[test]
fn a_mark_is_echoed_at_once_and_until_the_sender_answers() {
    let config = ReceiveConfig {
        ecn: true,
        ..ReceiveConfig::default()
    };
    let mut receiver = receiver(&config, 1);
    assert!(receiver.uses_ecn());
    let mut next = 1;
    let mut arrive = |receiver: &mut Receiver, cwr: bool, ecn: Ecn| {
        receiver.on_segment(
            MS,
            &Segment {
                cwr,
                ..data(next, 1448)
            },
            ecn,
        );
        next += 1448;
        filled(receiver, MS).ece
    };
    assert!(!arrive(&mut receiver, false, Ecn::Capable0));
    assert!(arrive(&mut receiver, false, Ecn::Congestion));
    assert!(arrive(&mut receiver, false, Ecn::Capable0));
    assert!(!arrive(&mut receiver, true, Ecn::Capable0));
    assert!(
        arrive(&mut receiver, true, Ecn::Congestion),
        "CWR with another mark"
    );
    assert_eq!(receiver.info().counts.marked, 2);
}

#[test]
fn ecn_is_off_where_an_end_does_not_want_it() {
    assert!(!receiver(&ReceiveConfig::default(), 1).uses_ecn());
    let config = ReceiveConfig {
        ecn: true,
        ..ReceiveConfig::default()
    };
    let mut active = Receiver::new(&config, Opening::Active);
    // A SYN-ACK with CWR merely reflects the request (RFC 3168 §6.1.1).
    let mirror = Segment {
        syn: true,
        ece: true,
        cwr: true,
        ..Segment::default()
    };
    active.on_segment(0, &mirror, Ecn::NotCapable);
    assert!(!active.uses_ecn());
    assert!(is_due(&active, 0), "a SYN-ACK is acknowledged");
}

#[test]
fn the_timestamp_of_the_first_segment_since_the_last_acknowledgement_is_echoed() {
    let (mut receiver, now, next) = after(400);
    // RFC 7323 §4.3: the first segment of a delayed acknowledgement; with a hole, the last segment before it.
    let stamped = |seq, ts_value| Segment {
        ts_value,
        ..data(seq, 1448)
    };
    receiver.on_segment(now, &stamped(next, 10), Ecn::NotCapable);
    receiver.on_segment(now, &stamped(next + 1448, 11), Ecn::NotCapable);
    assert_eq!(filled(&mut receiver, now).ts_echo, 10);
    receiver.on_segment(now, &stamped(next + 4344, 12), Ecn::NotCapable);
    assert_eq!(filled(&mut receiver, now).ts_echo, 10);
    receiver.on_segment(now, &stamped(next + 2896, 13), Ecn::NotCapable);
    assert_eq!(filled(&mut receiver, now).ts_echo, 13);
}
