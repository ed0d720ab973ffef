//! Bursts, reordering and its timer, with access to the sender's state.

use super::*;
use crate::tcp::segment::{Range, Segment};

const MS: u64 = 1_000_000;
const MSS: u64 = 1_448;

/// An RTT of 20 ms and a window of ten packets past slow start: five were sent at 0 and five at 10 ms. The program has
/// far more to send.
fn sender() -> Sender {
    sender_of(MSS)
}

/// The same with packets of another length.
fn sender_of(mss: u64) -> Sender {
    sender_on(mss, BufferConfig::default().gso_max_bytes)
}

/// The same on a device that accepts packets of at most `gso_max_bytes`.
fn sender_on(mss: u64, gso_max_bytes: u64) -> Sender {
    let law = Law::named("reno", Hz::default(), 0).expect("a law");
    let config = SendConfig {
        mss: mss as u32,
        buffer: BufferConfig {
            wmem_bytes: [1 << 12, 1 << 20, 1 << 22],
            gso_max_bytes,
            ..BufferConfig::default()
        },
        ..SendConfig::default()
    };
    let mut sender = Sender::new(config, law);
    sender.establish(0, 1 << 30, Some(20_000), false);
    sender.window.ssthresh = 5;
    for at_ns in [0, 10 * MS] {
        sender.write(at_ns, 5 * mss);
        assert_eq!(burst(&mut sender, at_ns), 5);
    }
    sender.write(10 * MS, 1 << 20);
    assert_eq!(burst(&mut sender, 10 * MS), 0);
    sender
}

/// Sends all that may be sent now; returns the number of packets.
fn burst(sender: &mut Sender, now_ns: u64) -> usize {
    std::iter::from_fn(|| sender.transmit(now_ns)).count()
}

/// Acknowledges this many packets in all; returns how many packets that releases.
fn acknowledge(sender: &mut Sender, now_ns: u64, packets: u64) -> usize {
    let segment = Segment {
        seq: 1,
        ack: 1 + packets * u64::from(sender.config.mss),
        window_bytes: 1 << 30,
        ..Segment::default()
    };
    sender.on_segment(now_ns, &segment);
    burst(sender, now_ns)
}

#[test]
fn room_for_less_than_a_burst_waits_while_the_next_acknowledgement_is_near() {
    let mut sender = sender();
    assert_eq!(acknowledge(&mut sender, 20 * MS, 2), 2);
    // The fourth packet's acknowledgement has been due since 20 ms.
    assert_eq!(acknowledge(&mut sender, 20 * MS + MS / 2, 3), 0);
    assert_eq!(acknowledge(&mut sender, 20 * MS + MS / 2, 4), 2);
}

#[test]
fn it_is_used_at_once_when_the_device_takes_no_more() {
    let mut sender = sender_on(MSS, 1_600 + 320);
    assert_eq!(acknowledge(&mut sender, 20 * MS, 2), 2);
    assert_eq!(acknowledge(&mut sender, 20 * MS + MS / 2, 3), 1);
}

#[test]
fn it_is_used_at_once_when_the_next_acknowledgement_is_far() {
    let mut sender = sender();
    assert_eq!(acknowledge(&mut sender, 20 * MS, 4), 4);
    // The sixth packet was sent at 10 ms: its acknowledgement is due in 9.5 ms.
    assert_eq!(acknowledge(&mut sender, 20 * MS + MS / 2, 5), 1);
}

#[test]
fn it_is_used_at_once_when_nothing_was_sent_for_a_millisecond() {
    let mut sender = sender();
    assert_eq!(acknowledge(&mut sender, 20 * MS, 2), 2);
    assert_eq!(acknowledge(&mut sender, 21 * MS + 1, 3), 1);
}

#[test]
fn it_is_used_at_once_when_it_ends_a_packet_of_the_buffer() {
    let mss = 8_948;
    let mut sender = sender_of(mss);
    assert_eq!(acknowledge(&mut sender, 20 * MS, 2), 2);
    // A buffered packet holds seven segments, of which one is left.
    sender.gathered_from = sender.window.next - 6 * mss;
    assert_eq!(acknowledge(&mut sender, 20 * MS + MS / 2, 3), 1);
}

/// An RTT of 2 ms and a window of 30 packets: 21 were sent at 0, and their acknowledgements are due at 2 ms. Two
/// packets and a bit were written since: room for nine is less than a third of the window.
fn with_a_tail(is_ended: bool) -> Sender {
    let law = Law::named("reno", Hz::default(), 0).expect("a law");
    let mut sender = Sender::new(SendConfig::default(), law);
    sender.establish(0, 1 << 30, Some(2_000), false);
    sender.window.cwnd = 30;
    sender.write(0, 21 * MSS);
    assert_eq!(burst(&mut sender, 0), 21);
    sender.write(2 * MS, 2 * MSS + 10);
    if is_ended {
        sender.end_packet();
    }
    // As if another packet had just been sent.
    sender.window.last_sent_ns = 2 * MS;
    sender
}

#[test]
fn a_tail_that_the_window_has_room_for_waits_for_more_unless_its_packet_is_ended() {
    for (is_ended, sent) in [(false, 0), (true, 3)] {
        let mut sender = with_a_tail(is_ended);
        assert_eq!(burst(&mut sender, 2 * MS), sent, "{is_ended}");
    }
}

#[test]
fn the_end_of_a_packet_makes_no_room_in_the_window() {
    let mut sender = with_a_tail(true);
    sender.window.cwnd = 23;
    assert_eq!(burst(&mut sender, 2 * MS), 0);
    assert!(sender.is_limited(), "the window holds it");
}

#[test]
fn what_is_written_later_does_not_go_into_a_packet_that_was_ended() {
    let mut sender = with_a_tail(true);
    sender.window.cwnd = 21;
    assert_eq!(burst(&mut sender, 2 * MS), 0, "the window is full");
    sender.write(2 * MS, MSS);
    sender.end_packet();
    sender.end_packet();
    sender.window.cwnd = 60;
    let sent: Vec<_> = std::iter::from_fn(|| sender.transmit(2 * MS)).collect();
    let each: Vec<_> = sent
        .iter()
        .map(|it| (u64::from(it.bytes), it.push))
        .collect();
    assert_eq!(each, [(MSS, false), (MSS, true), (10, true), (MSS, true)]);
    assert!(sender.packet_ends.is_empty());
}

#[test]
fn data_that_a_fin_follows_does_not_wait_for_more() {
    let mut sender = with_a_tail(false);
    sender.shut();
    assert_eq!(burst(&mut sender, 2 * MS), 3);
}

/// A retransmission counts as the last transmission too.
#[test]
fn a_retransmission_is_a_transmission() {
    let mut sender = sender();
    let first = sender.board.first_id();
    sender.resend(15 * MS, first);
    assert_eq!(sender.window.last_sent_ns, 15 * MS);
}

/// Reports packets by SACK, given their places from 0.
fn tell(sender: &mut Sender, now_ns: u64, places: &[u64]) {
    let mut segment = Segment {
        seq: 1,
        ack: sender.window.una,
        window_bytes: 1 << 30,
        ..Segment::default()
    };
    for &place in places {
        let from = 1 + place * MSS;
        let to = from + MSS;
        segment.sack.push(Range { from, to });
    }
    sender.on_segment(now_ns, &segment);
}

/// The newest block comes first (RFC 2018 §4), and several may be new if acknowledgements are compressed.
#[test]
fn several_new_blocks_are_no_reordering() {
    let mut sender = sender();
    tell(&mut sender, 20 * MS, &[5, 3, 1]);
    assert!(!sender.has_reordered);
    tell(&mut sender, 21 * MS, &[2, 5]);
    assert!(sender.has_reordered);
}

/// The reordering window is a quarter of the minimum RTT, and the timer waits 2 ms longer, in ticks.
#[test]
fn a_late_packet_is_lost_when_its_time_is_over() {
    let mut sender = sender();
    // The sixth packet is missing; the seventh was sent with it and arrived after 20 ms, so 5 ms are left.
    acknowledge(&mut sender, 29 * MS, 5);
    tell(&mut sender, 30 * MS, &[6]);
    assert_eq!(sender.board.lost, 0);
    let at_ns = Hz::default().expiry_ns(30 * MS, 7_001);
    assert_eq!(sender.timer, Some((Timer::Reordering, at_ns)));
    sender.on_timer(at_ns);
    assert_eq!((sender.board.lost, at_ns), (1, 40 * MS));
}
