//! Wire crossings, derived from packets and PDUs of two connections that look alike.

use std::net::SocketAddr;

use wansan_insight::Cell;
use wansan_trace::event::{Connection, Packet, Pdu, PduDirection, Role, Verdict};
use wansan_trace::{
    ConnectionId, Direction, Instant, Kinds, Layer, Recorder, SessionId, TaskTag, file,
};

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const ANSWER_BYTES: u32 = 48 + 1000;
/// Delays from the socket to the observation point, and from there to the target.
const TO_WIRE_NS: u64 = 30;
const BEYOND_NS: u64 = 5_000;
/// Initial sequence numbers that wrap soon.
const ISS: u32 = u32::MAX - 100;

struct World {
    initiator: Recorder,
    emulator: Recorder,
    client: SocketAddr,
    server: SocketAddr,
    session: SessionId,
    /// The first task tag of the current TCP connection.
    first_tag: u32,
}

impl World {
    fn new(number: u8) -> World {
        let recorder = || Recorder::new(Kinds::ALL, 16 << 20);
        let mut world = World {
            initiator: recorder(),
            emulator: recorder(),
            client: SocketAddr::from(([10, 0, 0, number], 40_000)),
            server: SocketAddr::from(([10, 0, 1, 1], 3260)),
            session: SessionId::new([0, 0, 0, 0, 0, number], 1),
            first_tag: 0,
        };
        world.log_in(0);
        world
    }

    /// Opens a TCP connection, or reopens it.
    fn log_in(&mut self, ns: u64) {
        self.initiator.connection(Connection {
            time: Instant::from_ns(ns),
            session: self.session,
            role: Role::Initiator,
            local: self.client,
            remote: self.server,
            ..Connection::BLANK
        });
        self.packet(ns, true, ISS, 0, SYN, Verdict::Delivered);
        self.packet(ns + 1, false, ISS, 0, SYN | ACK, Verdict::Delivered);
    }

    fn packet(&mut self, ns: u64, up: bool, seq: u32, bytes: u16, flags: u8, verdict: Verdict) {
        let path = self.emulator.name("wan");
        let (source, destination) = if up {
            (self.client, self.server)
        } else {
            (self.server, self.client)
        };
        self.emulator.packet(Packet {
            time: Instant::from_ns(ns),
            departed: Instant::from_ns(ns),
            path,
            source,
            destination,
            seq,
            payload_bytes: bytes,
            ip_bytes: bytes + 40,
            flags,
            verdict,
            ..Packet::BLANK
        });
    }

    fn pdu(&mut self, ns: u64, tag: u32, direction: PduDirection, stream_offset: u64) {
        let command = direction == PduDirection::Sent;
        self.initiator.pdu(Pdu {
            time: Instant::from_ns(ns),
            session: self.session,
            connection: ConnectionId(0),
            direction,
            opcode: if command { 0x01 } else { 0x25 },
            flags: 0x81,
            task: TaskTag(tag),
            cmd_sn: tag,
            max_cmd_sn: tag + 10,
            data_bytes: if command { 0 } else { 1000 },
            stream_offset,
            ..Pdu::BLANK
        });
    }

    fn cross(&mut self, ns: u64, tag: u32, layer: Layer, direction: Direction) {
        let (now, task) = (Instant::from_ns(ns), TaskTag(tag));
        let connection = ConnectionId(0);
        self.initiator
            .crossing(now, self.session, connection, task, layer, direction);
    }

    /// One read that starts at `ns`. Its request is lost once if `lost`.
    fn read(&mut self, ns: u64, tag: u32, lost: bool) {
        let before = u64::from(tag - self.first_tag);
        let request = before * 48;
        let answer = before * u64::from(ANSWER_BYTES);
        let seq = |offset: u64| (ISS + 1).wrapping_add(offset as u32);
        for layer in [Layer::App, Layer::Socket] {
            self.cross(ns, tag, layer, Direction::Enter);
        }
        self.pdu(ns, tag, PduDirection::Sent, request);
        let mut wire_ns = ns + TO_WIRE_NS;
        if lost {
            self.packet(wire_ns, true, seq(request), 48, ACK, Verdict::DroppedByLoss);
            wire_ns += 200;
        }
        self.packet(wire_ns, true, seq(request), 48, ACK, Verdict::Delivered);
        let back_ns = wire_ns + BEYOND_NS;
        let bytes = ANSWER_BYTES as u16;
        self.packet(back_ns, false, seq(answer), bytes, ACK, Verdict::Delivered);
        // The answer is retransmitted: only its first passage counts.
        self.packet(
            back_ns + 90,
            false,
            seq(answer),
            bytes,
            ACK,
            Verdict::Delivered,
        );
        let done_ns = back_ns + TO_WIRE_NS;
        self.pdu(done_ns, tag, PduDirection::Received, answer);
        for layer in [Layer::Socket, Layer::App] {
            self.cross(done_ns, tag, layer, Direction::Leave);
        }
    }
}

/// Writes the worlds' records and reads them back.
fn read(worlds: Vec<World>) -> Cell {
    let folder = tempfile::tempdir().unwrap();
    for (number, world) in worlds.into_iter().enumerate() {
        let hosts = [("initiator", world.initiator), ("emulator", world.emulator)];
        for (host, recorder) in hosts {
            file::write_part(folder.path(), &format!("{host}-{number}"), &[recorder]).unwrap();
        }
    }
    file::merge_parts(folder.path()).unwrap();
    Cell::read(folder.path()).unwrap()
}

fn assert_crossings(cell: &Cell, lost: TaskTag) {
    assert_eq!(cell.joined.layers, [Layer::App, Layer::Socket, Layer::Wire]);
    for task in &cell.joined.tasks {
        let (sent_ns, answered_ns) = task.both_ns(Layer::Socket).unwrap();
        let lost_ns = if task.tag == lost { 200 } else { 0 };
        let expected = (sent_ns + TO_WIRE_NS + lost_ns, answered_ns - TO_WIRE_NS);
        assert_eq!(task.both_ns(Layer::Wire), Some(expected), "{task:?}");
    }
}

#[test]
fn each_connection_gets_the_crossings_of_its_own_flow() {
    let worlds = (0..2u8).map(|number| {
        let mut world = World::new(number);
        for tag in 0..40 {
            // Both do the same, a microsecond apart.
            let ns = 1_000 + u64::from(tag) * 20_000 + u64::from(number) * 1_000;
            world.read(ns, tag, tag == 7);
        }
        world
    });
    let cell = read(worlds.collect());
    assert_eq!(cell.joined.tasks.len(), 80);
    assert_crossings(&cell, TaskTag(7));
}

/// The second TCP connection's stream offsets start at 0 again.
#[test]
fn a_connection_that_was_made_anew_keeps_the_crossings_of_both() {
    let mut world = World::new(0);
    for tag in 0..10 {
        world.read(1_000 + u64::from(tag) * 20_000, tag, tag == 7);
    }
    world.client.set_port(40_001);
    world.log_in(300_000);
    world.first_tag = 10;
    for tag in 10..40 {
        world.read(310_000 + u64::from(tag) * 20_000, tag, false);
    }
    let busiest = world.client;
    let cell = read(vec![world]);
    assert_eq!(cell.joined.tasks.len(), 40);
    assert_crossings(&cell, TaskTag(7));
    let [carrier] = cell.carriers[..] else {
        panic!("{:?}", cell.carriers);
    };
    assert_eq!(carrier.initiator, busiest);
}

#[test]
fn without_the_flow_of_one_connection_nobody_gets_crossings() {
    let mut worlds: Vec<World> = (0..2u8).map(World::new).collect();
    for world in &mut worlds {
        world.read(1_000, 0, false);
    }
    let unseen = Recorder::new(Kinds::ALL, 16 << 20);
    worlds[1].emulator = unseen;
    let cell = read(worlds);
    assert_eq!(cell.joined.layers, [Layer::App, Layer::Socket]);
    assert!(cell.carriers.is_empty());
}
