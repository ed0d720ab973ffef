use std::net::SocketAddr;

use super::*;
use crate::capture::ends::Passed;

const INITIATOR: usize = 0;
const TARGET: usize = 1;
const MS: u64 = 1_000_000;

/// I/Os without data on a connection that was captured at its initiator, 10 ms from its target.
struct Ios {
    connection: Connection,
    now_ns: u64,
    frames: u64,
    /// The next sequence number of each end.
    next: [u32; 2],
    done: u32,
    /// How long the initiator's acknowledgement of an answer takes to the capture point.
    near_ns: u64,
}

impl Ios {
    /// No SYN is seen; the first acknowledgement is `beyond` what it should say.
    fn begin(beyond: u32) -> Ios {
        let mut ios = Ios {
            connection: Connection::new(&segment(INITIATOR, [0; 2], &[])),
            now_ns: 0,
            frames: 0,
            // They wrap soon.
            next: [u32::MAX - 100, u32::MAX - 5000],
            done: 0,
            near_ns: 0,
        };
        ios.pass(INITIATOR, beyond, &[]);
        ios
    }

    /// A segment passes whose acknowledgement is `beyond` what it should say.
    fn pass(&mut self, from: usize, beyond: u32, payload: &[u8]) {
        let numbers = [self.next[from], self.next[1 - from].wrapping_add(beyond)];
        self.frames += 1;
        let segment = segment(from, numbers, payload);
        self.connection.see(self.frames, self.now_ns, &segment);
        self.next[from] = self.next[from].wrapping_add(payload.len() as u32);
    }

    /// An I/O; its initiator acknowledges the answer at once.
    fn io(&mut self) {
        let pdu = |opcode: u8, words: [u32; 2]| {
            let mut pdu = [0; 48];
            (pdu[0], pdu[1]) = (opcode, 0x80);
            pdu[24..28].copy_from_slice(&words[0].to_be_bytes());
            pdu[28..32].copy_from_slice(&words[1].to_be_bytes());
            pdu
        };
        let numbers = [100 + self.done, 700 + self.done];
        self.pass(INITIATOR, 0, &pdu(0x01, numbers));
        self.now_ns += 20 * MS;
        self.pass(TARGET, 0, &pdu(0x21, [numbers[1], numbers[0] + 1]));
        self.now_ns += self.near_ns;
        self.pass(INITIATOR, 0, &[]);
        self.done += 1;
    }

    fn found(&self) -> [usize; 2] {
        self.connection.streams.each_ref().map(|of| of.pdus.len())
    }
}

fn segment(from: usize, [seq, ack]: [u32; 2], payload: &[u8]) -> Segment<'_> {
    let ends: [SocketAddr; 2] = [([10, 0, 0, 1], 40_000).into(), ([10, 0, 0, 2], 3260).into()];
    Segment {
        source: ends[from],
        destination: ends[1 - from],
        seq,
        ack,
        flags: ACK,
        window: 1000,
        ecn: 0,
        ip_bytes: 40 + payload.len() as u16,
        payload,
        payload_bytes: payload.len() as u64,
        options: Options::default(),
        stamps: None,
        identification: 0,
        header: &[],
    }
}

#[test]
fn a_damaged_acknowledgement_is_forgotten() {
    for before in [0, 1, 10] {
        for beyond in [1, 48, 100_000, i32::MAX as u32] {
            let mut ios = Ios::begin(0);
            (0..before).for_each(|_| ios.io());
            let damaged = ios.connection.seen.len();
            ios.pass(INITIATOR, beyond, &[]);
            assert!(!ios.connection.goes_on(&segment(
                INITIATOR,
                [ios.next[INITIATOR], ios.next[TARGET].wrapping_add(beyond)],
                &[]
            )));
            (before..20).for_each(|_| ios.io());
            assert_eq!(ios.found(), [20, 20], "{beyond} behind {before}");
            let connection = &mut ios.connection;
            connection.finish();
            let hidden = connection.streams.each_ref().map(|s| s.framing.hidden());
            assert_eq!((hidden, connection.missed), ([0, 0], 0));
            let segment = &connection.seen[damaged];
            assert_eq!((segment.is_lost, segment.acked()), (true, None));
            assert_eq!(connection.seen.iter().filter(|of| of.is_lost).count(), 1);
            assert_eq!(connection.round_trip_ns(INITIATOR), Some(20 * MS));
        }
    }
}

#[test]
fn a_damaged_acknowledgement_is_no_stream_s_beginning() {
    let mut ios = Ios::begin(100_000);
    (0..20).for_each(|_| ios.io());
    assert_eq!(ios.found(), [20, 20]);
    assert!(ios.connection.seen[0].is_lost);
}

#[test]
fn bytes_under_way_where_a_capture_begins_have_places() {
    const UNDER_WAY: u32 = 11_584;
    let mut ios = Ios::begin(0);
    ios.next[TARGET] = ios.next[TARGET].wrapping_add(UNDER_WAY);
    ios.pass(TARGET, 0, &[0; 1448]);
    let places = ios.connection.seen.iter().filter_map(Seen::place);
    assert_eq!(places.last(), Some(u64::from(UNDER_WAY)));
}

#[test]
fn what_was_acknowledged_and_goes_on_was_missed() {
    let mut ios = Ios::begin(0);
    (0..3).for_each(|_| ios.io());
    // An answer that is not in the capture.
    ios.next[TARGET] = ios.next[TARGET].wrapping_add(48);
    let ahead = ios.connection.seen.len();
    ios.pass(INITIATOR, 0, &[]);
    assert_eq!(ios.connection.seen[ahead].acked(), None);
    (3..20).for_each(|_| ios.io());
    assert_eq!(ios.found(), [20, 20]);
    let connection = &ios.connection;
    assert_eq!(connection.streams[TARGET].framing.hidden(), 1);
    assert_eq!(connection.seen[ahead].acked(), Some(4 * 48));
    assert!(connection.seen.iter().all(|of| !of.is_lost));
}

#[test]
fn a_host_that_captures_has_what_arrives_at_once_and_sent_the_rest_before() {
    let socket = |of: &Connection, own: usize| CapturingSocket {
        ends: [of.ends[own], of.ends[1 - own]],
        scales: [7, 7],
    };
    let delays_ms = |own: Option<usize>| {
        let mut ios = Ios::begin(0);
        ios.near_ns = 6 * MS;
        (0..5).for_each(|_| ios.io());
        let mut connection = ios.connection;
        if let Some(own) = own {
            let socket = socket(&connection, own);
            connection.know_socket(&socket);
        }
        let passed = Passed::of(&mut connection);
        // The first segments left before the capture's clock began.
        [INITIATOR, TARGET].map(|from| {
            let last = passed.segments().filter(|of| of.seen.from() == from).last();
            let last = last.expect("both ends have sent");
            let arrived_ns = last.arrived_ns.expect("nothing was lost");
            let passed_ns = last.seen.time_ns;
            (
                (passed_ns - last.sent_ns) / MS,
                (arrived_ns - passed_ns) / MS,
            )
        })
    };
    assert_eq!(delays_ms(None), [(3, 10), (10, 3)]);
    assert_eq!(delays_ms(Some(INITIATOR)), [(6, 10), (10, 0)]);
    assert_eq!(delays_ms(Some(TARGET)), [(3, 0), (20, 3)]);
}

#[test]
fn a_direction_that_was_not_captured_has_acknowledgements() {
    let mut ios = Ios::begin(0);
    for _ in 0..20 {
        ios.next[TARGET] = ios.next[TARGET].wrapping_add(48);
        ios.pass(INITIATOR, 0, &[]);
    }
    ios.connection.finish();
    let acked: Vec<u64> = ios.connection.seen.iter().filter_map(Seen::acked).collect();
    let expected: Vec<u64> = (0..=20).map(|number| 48 * number).collect();
    assert_eq!(acked, expected);
}
