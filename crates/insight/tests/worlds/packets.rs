//! Individual packets, and the gaps between them, in a world of reads whose every packet is known.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use wansan_insight::cause::Cause;
use wansan_insight::packet_gap::packet_gaps;
use wansan_insight::report::{CellCharts, Detail, PacketKind};
use wansan_insight::stall::view::conversations;
use wansan_insight::traffic::{FlowDirection, Traffic};
use wansan_insight::transfer::stretch;
use wansan_insight::{Analysis, Cell, Window};
use wansan_trace::event::{Connection, Packet, Pdu, PduDirection, Role, Tcp, Verdict};
use wansan_trace::{
    ConnectionId, Direction, Instant, Kinds, Layer, Recorder, SessionId, TaskTag, file,
};

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// One-way delay of the path.
const DELAY_NS: u64 = 4_000_000;
/// Gap between data packets of an answer.
const GAP_NS: u64 = 7_000;
/// Interval between reads, which do not overlap.
const READ_NS: u64 = 10_000_000;
/// A Data-In PDU of 4 KiB in segments.
const SEGMENTS: [u16; 3] = [1448, 1448, 1248];
const ANSWER_BYTES: u64 = 48 + 4096;
/// What WireGuard adds to an IP packet.
const TUNNEL_BYTES: u16 = 60;
/// Initial sequence numbers that wrap soon.
const ISS: u32 = u32::MAX - 100;

struct World {
    initiator: Recorder,
    target: Recorder,
    emulator: Recorder,
}

impl World {
    fn new() -> World {
        let recorder = || Recorder::new(Kinds::ALL, 16 << 20);
        let mut world = World {
            initiator: recorder(),
            target: recorder(),
            emulator: recorder(),
        };
        world.initiator.connection(Connection {
            session: SessionId(1),
            role: Role::Initiator,
            local: "10.0.0.1:40000".parse().unwrap(),
            remote: "10.0.0.2:3260".parse().unwrap(),
            ..Connection::BLANK
        });
        world
    }

    /// A packet on `path`; between the routers it is inside a tunnel.
    fn packet(&mut self, path: &str, ns: u64, up: bool, (place, bytes): (u64, u16), flags: u8) {
        let tunnel = path == "tunnel";
        let path = self.emulator.name(path);
        let (one, other) = if tunnel {
            ("192.0.2.1:51820", "192.0.2.2:51820")
        } else {
            ("10.0.0.1:40000", "10.0.0.2:3260")
        };
        let end = |end: &str| end.parse::<SocketAddr>().unwrap();
        let (source, destination) = if up { (one, other) } else { (other, one) };
        let base = if flags & SYN == 0 {
            ISS.wrapping_add(1)
        } else {
            ISS
        };
        self.emulator.packet(Packet {
            time: Instant::from_ns(ns),
            departed: Instant::from_ns(ns + DELAY_NS),
            path,
            source: end(source),
            destination: end(destination),
            seq: if tunnel {
                0
            } else {
                base.wrapping_add(place as u32)
            },
            payload_bytes: bytes + if tunnel { 52 + 32 } else { 0 },
            ip_bytes: bytes + 52 + if tunnel { TUNNEL_BYTES } else { 0 },
            flags: if tunnel { 0 } else { flags },
            verdict: Verdict::Delivered,
            ..Packet::BLANK
        });
    }

    fn pdu(&mut self, ns: u64, task: u32, command: bool) {
        let (direction, opcode, length) = if command {
            (PduDirection::Sent, 0x01, 48)
        } else {
            (PduDirection::Received, 0x25, ANSWER_BYTES)
        };
        self.initiator.pdu(Pdu {
            time: Instant::from_ns(ns),
            session: SessionId(1),
            connection: ConnectionId(0),
            direction,
            opcode,
            flags: 0x81,
            task: TaskTag(task),
            cmd_sn: task,
            max_cmd_sn: task + 10,
            data_bytes: if command { 0 } else { 4096 },
            stream_offset: u64::from(task) * length,
            ..Pdu::BLANK
        });
    }

    /// One read sent at `ns`, with its packets seen on `paths` in turn.
    fn read(&mut self, ns: u64, task: u32, paths: &[&str]) {
        let mut cross = |ns, direction| {
            let (session, connection) = (SessionId(1), ConnectionId(0));
            let now = Instant::from_ns(ns);
            self.initiator.crossing(
                now,
                session,
                connection,
                TaskTag(task),
                Layer::App,
                direction,
            );
        };
        let hops = paths.len() as u64;
        let (answer_ns, done_ns) = (ns + hops * DELAY_NS, ns + READ_NS * hops - 1);
        cross(ns, Direction::Enter);
        cross(done_ns, Direction::Leave);
        self.pdu(ns, task, true);
        self.pdu(done_ns, task, false);
        for (hop, path) in (0..).zip(paths) {
            self.packet(
                path,
                ns + hop * DELAY_NS,
                true,
                (u64::from(task) * 48, 48),
                ACK,
            );
        }
        let mut place = u64::from(task) * ANSWER_BYTES;
        for (i, bytes) in (0..).zip(SEGMENTS) {
            for (hop, path) in (0..).zip(paths.iter().rev()) {
                let ns = answer_ns + i * GAP_NS + hop * DELAY_NS;
                self.packet(path, ns, false, (place, bytes), ACK);
            }
            place += u64::from(bytes);
        }
        let acked_ns = answer_ns + hops * DELAY_NS + 3 * GAP_NS;
        for (hop, path) in (0..).zip(paths) {
            let place = u64::from(task) * 48 + 48;
            self.packet(path, acked_ns + hop * DELAY_NS, true, (place, 0), ACK);
        }
    }

    /// TCP samples of the target, and of the initiator a moment later, so that the hosts' names have other numbers in
    /// this file than in that of the PDUs.
    fn windows(&mut self, ns: u64, target: u32, initiator: u32) {
        for (recorder, ns, cwnd_packets) in [
            (&mut self.target, ns, target),
            (&mut self.initiator, ns + 1, initiator),
        ] {
            recorder.tcp(Tcp {
                time: Instant::from_ns(ns),
                session: SessionId(1),
                connection: ConnectionId(0),
                mss_bytes: 1448,
                cwnd_packets,
                ..Tcp::BLANK
            });
        }
    }

    fn cell(self) -> Cell {
        let folder = tempfile::tempdir().unwrap();
        file::write_part(folder.path(), "client", &[self.initiator]).unwrap();
        file::write_part(folder.path(), "storage", &[self.target]).unwrap();
        file::write_part(folder.path(), "wan", &[self.emulator]).unwrap();
        file::merge_parts(folder.path()).unwrap();
        Cell::read(folder.path()).unwrap()
    }
}

/// `count` consecutive reads over these paths.
fn reads(count: u32, paths: &[&str]) -> (Cell, Window) {
    let mut world = World::new();
    for path in paths.iter().filter(|path| **path != "tunnel") {
        world.packet(path, 0, true, (0, 0), SYN);
        world.packet(path, 1, false, (0, 0), SYN | ACK);
    }
    let step_ns = READ_NS * paths.len() as u64;
    for task in 0..count {
        world.read(100 + u64::from(task) * step_ns, task, paths);
    }
    let window = Window {
        from_ns: 50,
        to_ns: 200 + u64::from(count) * step_ns,
    };
    (world.cell(), window)
}

#[test]
fn each_packet_has_its_way_its_place_and_its_pdu() {
    let (cell, window) = reads(3, &["wan"]);
    let traffic = Traffic::of(&cell);
    let found = stretch(&cell, &traffic, window, 1000).unwrap();
    assert_eq!(found.from_ns, 100);
    assert_eq!(found.packets.len(), 3 * 5);
    let ways: Vec<FlowDirection> = found.packets[..5].iter().map(|packet| packet.way).collect();
    assert_eq!(
        ways,
        [
            FlowDirection::ToTarget,
            FlowDirection::ToInitiator,
            FlowDirection::ToInitiator,
            FlowDirection::ToInitiator,
            FlowDirection::ToTarget
        ]
    );
    let second = &found.packets[5..10];
    assert!(
        second[..4]
            .iter()
            .all(|packet| packet.task() == Some(TaskTag(1)))
    );
    assert_eq!(second[4].task(), None);
    // The sequence numbers of the answers' stream wrap.
    let places: Vec<Option<u64>> = second.iter().map(|packet| packet.place).collect();
    let first = ANSWER_BYTES;
    assert_eq!(
        places,
        [
            Some(48),
            Some(first),
            Some(first + 1448),
            Some(first + 2896),
            Some(96)
        ]
    );
    assert!(
        found
            .packets
            .iter()
            .all(|packet| packet.ended_ns - packet.sent_ns == DELAY_NS)
    );
}

#[test]
fn each_end_has_its_own_congestion_window() {
    let mut world = World::new();
    world.packet("wan", 0, true, (0, 0), SYN);
    world.packet("wan", 1, false, (0, 0), SYN | ACK);
    world.read(100, 0, &["wan"]);
    world.target.pdu(Pdu {
        time: Instant::from_ns(100 + DELAY_NS),
        session: SessionId(1),
        connection: ConnectionId(0),
        direction: PduDirection::Sent,
        opcode: 0x25,
        data_bytes: 4096,
        ..Pdu::BLANK
    });
    world.windows(50, 34, 10);
    let cell = world.cell();
    let conversations = conversations(&cell, &Traffic::of(&cell));
    let windows = conversations[0].windows.iter();
    let windows: Vec<_> = windows.map(|w| (w.way, w.window_bytes)).collect();
    let expected = [
        (FlowDirection::ToInitiator, 34 * 1448),
        (FlowDirection::ToTarget, 10 * 1448),
    ];
    assert_eq!(windows, expected);
}

#[test]
fn a_packet_on_several_paths_is_one_transfer() {
    let (cell, window) = reads(3, &["near", "far"]);
    let found = stretch(&cell, &Traffic::of(&cell), window, 1000).unwrap();
    assert_eq!(found.packets.len(), 3 * 5);
    assert!(
        found
            .packets
            .iter()
            .all(|packet| packet.ended_ns - packet.sent_ns == 2 * DELAY_NS)
    );
}

#[test]
fn a_stretch_is_bounded_and_ends_when_enough_was_seen() {
    let (cell, window) = reads(300, &["wan"]);
    let packets = |most| {
        stretch(&cell, &Traffic::of(&cell), window, most)
            .unwrap()
            .packets
    };
    assert_eq!(packets(1000).len(), 400);
    assert_eq!(packets(300).len(), 300);
}

#[test]
fn gaps_are_those_inside_an_answer() {
    let (cell, window) = reads(20, &["wan"]);
    let gaps = packet_gaps(&cell, &Traffic::of(&cell), window).unwrap();
    assert_eq!(gaps.gaps, 20 * 2);
    assert_eq!((gaps.p50_ns, gaps.p90_ns), (GAP_NS, GAP_NS));
    assert_eq!(gaps.mean_ns, GAP_NS as f64);
    assert_eq!(gaps.quantiles_ns, vec![GAP_NS; 51]);
    let nothing = Window {
        from_ns: 0,
        to_ns: 50,
    };
    assert_eq!(packet_gaps(&cell, &Traffic::of(&cell), nothing), None);
}

fn charts(cell: &Cell, window: Window) -> CellCharts {
    let analysis = Analysis::of(cell, Some(window));
    CellCharts::of(&analysis, &analysis.summary(), Detail::FULL)
}

fn kind(is: &str) -> PacketKind {
    PacketKind {
        is: is.to_owned(),
        ..PacketKind::default()
    }
}

fn pdu(name: &str) -> PacketKind {
    PacketKind {
        name: name.to_owned(),
        ..kind("pdu")
    }
}

#[test]
fn in_a_tunnel_lengths_tell_what_is_data() {
    let (cell, window) = reads(20, &["tunnel"]);
    let traffic = Traffic::of(&cell);
    let gaps = packet_gaps(&cell, &traffic, window).unwrap();
    assert_eq!((gaps.gaps, gaps.p50_ns), (20 * 2, GAP_NS));
    let packets = stretch(&cell, &traffic, window, 1000).unwrap().packets;
    assert_eq!(packets[0].way, FlowDirection::ToTarget);
    assert_eq!(packets[1].way, FlowDirection::ToInitiator);
    let charts = charts(&cell, window);
    let diagram = charts.packets.unwrap();
    assert_eq!(diagram.kinds, [kind("encrypted"), kind("encrypted_short")]);
    assert_eq!(diagram.kind[..5], [0, 0, 0, 0, 1]);
    assert!(diagram.flows[0].encrypted);
    assert_eq!(diagram.from_target[..5], [0, 1, 1, 1, 0]);
}

#[test]
fn what_is_seen_before_and_after_a_tunnel_is_drawn_once() {
    let (cell, window) = reads(20, &["lan", "tunnel", "site"]);
    let traffic = Traffic::of(&cell);
    let packets = stretch(&cell, &traffic, window, 1000).unwrap().packets;
    assert_eq!(packets.len(), 20 * 5);
    // From the first path to the last, including the tunnel between them.
    let transits = packets
        .iter()
        .map(|packet| packet.ended_ns - packet.sent_ns);
    assert!(transits.eq(std::iter::repeat_n(3 * DELAY_NS, 20 * 5)));
    let charts = charts(&cell, window);
    let kinds = charts.packets.unwrap().kinds;
    let command = pdu("SCSI Command");
    assert_eq!(kinds, [command, pdu("SCSI Data-In"), kind("bare")]);
}

#[test]
fn the_page_gets_columns_of_equal_length() {
    let (cell, window) = reads(3, &["wan"]);
    let charts = charts(&cell, window);
    let diagram = charts.packets.unwrap();
    assert_eq!(diagram.kinds[0], pdu("SCSI Command"));
    assert_eq!(diagram.kinds[1], pdu("SCSI Data-In"));
    assert_eq!(diagram.kinds[2], kind("bare"));
    assert_eq!(diagram.sent_us[..3], [0.0, 4000.0, 4007.0]);
    let json = serde_json::to_value(&diagram).unwrap();
    // A PDU begins with each command and with each answer.
    let begins: Vec<usize> = diagram.boundaries.iter().map(|begin| begin.at).collect();
    assert_eq!(begins, [0, 1, 5, 6, 10, 11]);
    assert_eq!(diagram.packet[..3], [2, 3, 4]);
    let lists = ["boundaries", "ios"];
    let columns = json.as_object().unwrap().iter();
    for (_, column) in columns.filter(|(name, _)| !lists.contains(&name.as_str())) {
        let length = column.as_array().map_or(15, Vec::len);
        assert!([1, 3, 15].contains(&length), "{json}");
    }
    assert_eq!(json["kinds"][0]["is"], "pdu");
    assert_eq!(json["kinds"][2]["is"], "bare");
}

#[test]
fn the_ios_of_a_diagram_wait_for_what_the_cells_ios_wait_for() {
    let (cell, window) = reads(12, &["wan"]);
    let analysis = Analysis::of(&cell, Some(window));
    let summary = analysis.summary();
    let ios = CellCharts::of(&analysis, &summary, Detail::FULL)
        .packets
        .unwrap()
        .ios;
    let tasks: Vec<u32> = ios.iter().map(|io| io.task).collect();
    assert_eq!(tasks, Vec::from_iter(0..12));
    let mut by_cause: BTreeMap<&str, f64> = BTreeMap::new();
    for io in &ios {
        for pair in io.waits.windows(2) {
            assert_eq!(pair[0].to_us, pair[1].from_us);
        }
        for wait in &io.waits {
            *by_cause.entry(&wait.cause).or_default() += wait.to_us - wait.from_us;
        }
    }
    let mut causes = 0;
    for cause in Cause::ALL {
        let drawn_us = by_cause.get(cause.name()).copied().unwrap_or(0.0) / 12.0;
        let summed_us = summary.waits.mean_ns(cause) / 1e3;
        // Ends of waits are drawn to a tenth of a microsecond.
        assert!(
            (drawn_us - summed_us).abs() <= 0.2,
            "{cause:?}: {drawn_us} {summed_us}"
        );
        causes += u32::from(summed_us > 0.2);
    }
    assert!(causes > 0, "{by_cause:?}");
}

#[test]
fn no_more_ios_are_shown_than_have_room() {
    let (cell, window) = reads(40, &["wan"]);
    let charts = charts(&cell, window);
    let tasks: Vec<u32> = charts
        .packets
        .unwrap()
        .ios
        .iter()
        .map(|io| io.task)
        .collect();
    assert_eq!(tasks, Vec::from_iter(0..16));
}
