//! The window and the memory behind it.

use super::*;

/// A sender whose window doubles every round trip, and a program that reads everything.
struct Bulk {
    receiver: Receiver,
    round_trip_ns: u64,
    now_ns: u64,
    next: u64,
    cwnd_bytes: u64,
    right: u64,
    ts_echo: u32,
}

impl Bulk {
    fn new(config: &ReceiveConfig, round_trip_ns: u64) -> Self {
        Bulk {
            receiver: receiver(config, 1),
            round_trip_ns,
            now_ns: round_trip_ns,
            next: 1,
            cwnd_bytes: 14_480,
            right: 65_000,
            ts_echo: 0,
        }
    }

    /// Sends a window of segments, spread over the round trip; returns the bytes.
    fn round(&mut self) -> u64 {
        let packets = self.cwnd_bytes.min(self.right - self.next) / 1448;
        let ts_echo = self.ts_echo;
        for n in 0..packets {
            let at_ns = self.now_ns + self.round_trip_ns * n / packets;
            // The echoed timestamp is one round trip old.
            let echo = ts_echo + ((at_ns - self.now_ns) / MS) as u32;
            let segment = Segment {
                ts_echo: echo,
                ..data(self.next, 1448)
            };
            self.next += 1448;
            self.receiver.on_segment(at_ns, &segment, Ecn::NotCapable);
            self.receiver.read(at_ns, u64::MAX);
            if is_due(&self.receiver, at_ns) {
                let filled = filled(&mut self.receiver, at_ns);
                let right = filled.ack + filled.window_bytes;
                assert!(
                    right >= self.right.min(filled.ack + 65_160),
                    "the window never shrinks"
                );
                self.right = self.right.max(right);
            }
        }
        self.ts_echo = (self.now_ns / MS) as u32;
        self.now_ns += self.round_trip_ns;
        self.cwnd_bytes *= 2;
        packets * 1448
    }
}

/// The largest window with the default truesize: 160/256 of the memory.
fn window_of(memory: u64) -> u64 {
    memory * 160 / 256
}

#[test]
fn the_window_keeps_ahead_of_slow_start_up_to_the_greatest_buffer() {
    for round_trip_ns in [20 * MS, 100 * MS, 300 * MS] {
        let mut bulk = Bulk::new(&ReceiveConfig::default(), round_trip_ns);
        let greatest = window_of(33_554_432);
        for round in 0..13 {
            let cwnd = bulk.cwnd_bytes;
            let sent = bulk.round();
            let wanted = cwnd.min(greatest);
            // The buffer follows arrivals one round trip late, with twice the growth: it holds up at most one round.
            assert!(
                sent * 2 >= wanted,
                "{round_trip_ns}: {sent} of {wanted} in round {round}"
            );
        }
        let info = bulk.receiver.info();
        assert_eq!(info.buffer_bytes, 33_554_432);
        assert!(info.window_bytes > greatest * 99 / 100, "{info:?}");
        assert_eq!(info.round_trip_us, Some(round_trip_ns / 1000));
    }
}

#[test]
fn a_steady_sender_makes_the_buffer_at_least_twice_what_a_round_trip_brings_and_then_keeps_it() {
    let mut bulk = Bulk::new(&ReceiveConfig::default(), 100 * MS);
    let mut after = |rounds: u64| {
        for _ in 0..rounds {
            bulk.cwnd_bytes = bulk.cwnd_bytes.min(500 * 1448);
            bulk.round();
        }
        bulk.receiver.info()
    };
    let info = after(12);
    assert!(
        (490 * 1448..=510 * 1448).contains(&info.space_bytes),
        "{info:?}"
    );
    let twice = 2 * info.space_bytes * 256 / 160;
    // Demand at most doubles in a step: twice the demand, plus at most twice that for growth.
    assert!((twice..=3 * twice).contains(&info.buffer_bytes), "{info:?}");
    assert_eq!(after(30).buffer_bytes, info.buffer_bytes);
}

#[test]
fn so_rcvbuf_keeps_the_window_where_it_is() {
    let config = ReceiveConfig {
        so_rcvbuf_bytes: Some(262_144),
        ..ReceiveConfig::default()
    };
    let mut bulk = Bulk::new(&config, 100 * MS);
    for _ in 0..20 {
        bulk.round();
    }
    let info = bulk.receiver.info();
    assert_eq!(info.buffer_bytes, 524_288);
    let greatest = window_of(524_288);
    assert!(
        (greatest * 9 / 10..=greatest).contains(&info.window_bytes),
        "{info:?}"
    );
}

/// Sends as far as the window allows while nobody reads; returns the last window.
fn fill_up(receiver: &mut Receiver) -> u64 {
    let mut next = receiver.next();
    let mut right = next + receiver.info().window_bytes;
    let mut packets = 0;
    loop {
        let bytes = (right - next).min(1448) as u32;
        receiver.on_segment(packets * MS, &data(next, bytes), Ecn::NotCapable);
        let filled = filled(receiver, packets * MS);
        assert!(
            filled.ack + filled.window_bytes >= right,
            "the window never shrinks"
        );
        right = filled.ack + filled.window_bytes;
        next = filled.ack;
        packets += 1;
        if next == right {
            return filled.window_bytes;
        }
        assert!(packets < 10_000);
    }
}

#[test]
fn the_window_closes_when_nobody_reads_and_opens_by_twice_the_segment() {
    let mut receiver = receiver(&ReceiveConfig::default(), 1);
    assert_eq!(fill_up(&mut receiver), 0);
    let info = receiver.info();
    // The packet that crosses the limit is accepted.
    assert!(info.memory_bytes <= info.buffer_bytes + 2304, "{info:?}");
    assert_eq!(info.counts.dropped, 0);
    let mut read = 0;
    while !is_due(&receiver, MS) {
        read += receiver.read(MS, 100);
    }
    // A sixteenth of the window has to be free.
    let allowed = window_of(info.buffer_bytes);
    let offered = filled(&mut receiver, MS).window_bytes;
    assert!(
        offered >= 1448 && offered >= allowed / 16 - 1448,
        "{offered} of {allowed}"
    );
    assert!(read >= allowed / 16 - 1448, "{read} of {allowed}");
}

#[test]
fn a_read_is_told_once_the_window_would_be_twice_as_large() {
    let mut receiver = receiver(&ReceiveConfig::default(), 1);
    while receiver.info().window_bytes > 20_000 {
        receiver.on_segment(MS, &data(receiver.next(), 1448), Ecn::NotCapable);
        filled(&mut receiver, MS);
    }
    let left = receiver.info().window_bytes;
    receiver.read(MS, 1448);
    assert!(!is_due(&receiver, MS));
    while !is_due(&receiver, MS) {
        assert_eq!(receiver.read(MS, 1448), 1448);
    }
    assert!(filled(&mut receiver, MS).window_bytes >= 2 * left);
}

#[test]
fn what_waited_for_a_slow_reader_does_not_make_the_buffer_grow() {
    let mut receiver = receiver(&ReceiveConfig::default(), 1);
    for n in 0..30 {
        // Timestamps give a round trip of 5 ms.
        let segment = Segment {
            ts_echo: 95,
            ..data(1 + 1448 * n, 1448)
        };
        receiver.on_segment(100 * MS, &segment, Ecn::NotCapable);
    }
    let before = receiver.info();
    assert_eq!(before.round_trip_us, Some(5_000));
    assert_eq!(receiver.read(200 * MS, u64::MAX), 30 * 1448);
    assert_eq!(receiver.info().space_bytes, before.space_bytes);
}

#[test]
fn no_window_is_silly_however_slow_the_reader() {
    // Without window scaling, the window moves in steps of segments (RFC 9293 §3.8.6.2.2).
    let config = ReceiveConfig {
        so_rcvbuf_bytes: Some(8192),
        ..ReceiveConfig::default()
    };
    let mut receiver = receiver(&config, 1);
    assert_eq!(receiver.window_scale(), 0);
    let mut random = Random::new(7);
    let mut next = 1;
    for n in 1..2_000 {
        let window = receiver.info().window_bytes - (next - receiver.next());
        let bytes = window.min(1448) as u32;
        receiver.on_segment(n * 50 * MS, &data(next, bytes), Ecn::NotCapable);
        next += u64::from(bytes);
        receiver.read(n * 50 * MS, random.below(300));
        let before = next;
        let filled = filled(&mut receiver, n * 50 * MS);
        let offered = filled.ack + filled.window_bytes - before;
        let left = window - u64::from(bytes);
        assert!(offered <= left || offered >= 1448, "{offered} after {left}");
    }
    assert!(next > 100_000, "the transfer goes on: {next}");
}

#[test]
fn memory_is_bounded_whatever_a_sender_does() {
    let small = ReceiveConfig {
        rmem_bytes: [4096, 16_384, 262_144],
        ..ReceiveConfig::default()
    };
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut receiver = receiver(&small, 1);
        for n in 0..20_000 {
            let window = receiver.info().window_bytes;
            let seq = receiver.next() + random.below(window + 3000);
            let size = 1 + random.below(1448) as u32;
            receiver.on_segment(n * MS, &data(seq, size), Ecn::NotCapable);
            if random.below(4) == 0 {
                filled(&mut receiver, n * MS);
            }
            let info = receiver.info();
            assert!(info.buffer_bytes <= 262_144, "seed {seed}: {info:?}");
            assert!(info.memory_bytes <= 262_144 + 2304, "seed {seed}: {info:?}");
        }
        assert!(receiver.info().counts.out_of_order > 0, "seed {seed}");
    }
}

#[test]
fn data_behind_a_hole_makes_way_for_what_fills_it() {
    let config = ReceiveConfig {
        so_rcvbuf_bytes: Some(65_536),
        ..ReceiveConfig::default()
    };
    let mut receiver = receiver(&config, 1);
    let mut next = 1;
    while receiver.info().memory_bytes <= receiver.info().buffer_bytes {
        next += 300;
        // Segments of one byte are nearly all overhead.
        receiver.on_segment(MS, &data(next, 1), Ecn::NotCapable);
        assert!(next < 65_000);
    }
    assert_eq!(receiver.info().counts.pruned, 0);
    receiver.on_segment(MS, &data(1, 300), Ecn::NotCapable);
    assert_eq!(receiver.info().counts.pruned, 1);
    assert_eq!(reported(&mut receiver, MS).0, 302);
}
