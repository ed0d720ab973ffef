use std::fs;
use std::path::Path;

use super::*;
use crate::event;
use crate::event::CongestionState;
use crate::event::{
    Crossing, Ecn, Packet, Pdu, PduDirection, Role, Seen, Stamp, Tcp, TcpEvent, Thread, Verdict,
};
use crate::kind::all_columns;
use crate::{ConnectionId, Direction, Instant, Kinds, Layer, NameId, SessionId, TaskTag};

/// A temporary folder per test, removed at its end.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("wansan-file-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn crossing(ns: u64, layer: Layer, direction: Direction) -> Crossing {
    Crossing {
        time: Instant::from_ns(ns),
        session: SessionId(u64::MAX - 3),
        task: TaskTag(u32::MAX - ns as u32),
        connection: ConnectionId(65_535),
        layer,
        direction,
    }
}

fn record(recorder: &mut Recorder, crossing: Crossing) {
    recorder.crossing(
        crossing.time,
        crossing.session,
        crossing.connection,
        crossing.task,
        crossing.layer,
        crossing.direction,
    );
}

fn pdu(ns: u64) -> Pdu {
    Pdu {
        time: Instant::from_ns(ns),
        session: SessionId(7),
        connection: ConnectionId(1),
        direction: PduDirection::Received,
        opcode: 0x25,
        flags: 0x81,
        task: TaskTag(9),
        transfer_tag: u32::MAX,
        cmd_sn: 1,
        stat_sn: 2,
        exp_cmd_sn: 3,
        max_cmd_sn: 4,
        data_sn: 5,
        buffer_offset: 6,
        data_bytes: 4096,
        stream_offset: 1 << 40,
    }
}

fn tcp(ns: u64) -> Tcp {
    Tcp {
        time: Instant::from_ns(ns),
        session: SessionId(7),
        connection: ConnectionId(1),
        event: TcpEvent::Retransmit,
        congestion_state: CongestionState::RECOVERY,
        cwnd_packets: 10,
        ssthresh_packets: i32::MAX as u32,
        mss_bytes: 1448,
        in_flight_packets: 9,
        srtt_ns: 33,
        min_rtt_ns: 32,
        rwnd_bytes: u32::MAX,
        unsent_bytes: 11,
        acked_bytes: 12,
        pacing_bytes_per_s: u64::MAX,
        delivery_bytes_per_s: 13,
        busy_ns: 14,
        rwnd_limited_ns: 15,
        sndbuf_limited_ns: 16,
        retransmits: 17,
        delivered_ce: 18,
        timeouts: 19,
        unread_bytes: 20,
        ece_signals: 21,
        send_memory_bytes: 22,
        send_buffer_bytes: 23,
        ecn: Ecn::Seen,
        ends: NameId::NONE,
        seen: Seen::Traced,
    }
}

/// The times of a host with another clock are converted on merging, except unknown ones.
#[test]
fn parts_of_two_clocks_are_joined_in_the_order_of_what_happened() {
    let folder = Folder::new("clocks");
    let mut initiator = Recorder::new(Kinds::ALL, Recorder::MIN_BYTES);
    record(
        &mut initiator,
        crossing(100, Layer::Socket, Direction::Enter),
    );
    record(
        &mut initiator,
        crossing(400, Layer::Socket, Direction::Leave),
    );
    let mut target = Recorder::new(Kinds::ALL, Recorder::MIN_BYTES);
    record(
        &mut target,
        crossing(9_200, Layer::Target, Direction::Enter),
    );
    record(
        &mut target,
        crossing(9_300, Layer::Target, Direction::Leave),
    );
    target.stamp(Stamp {
        time: Instant::from_ns(9_250),
        arrived: Instant::from_ns(9_150),
        ..Stamp::BLANK
    });
    write_part(&folder.0, "client", &[initiator]).unwrap();
    write_part(&folder.0, "storage", &[target]).unwrap();
    let ahead = crate::clock::OtherClock {
        at: Instant::from_ns(9_000),
        ahead_ns: 9_000,
        drift_ppb: 0.0,
    };
    let of_storage = |part: &Path| part.to_string_lossy().contains("storage").then_some(ahead);
    merge_parts_of(&folder.0, &of_storage).unwrap();
    let io = read_folder::<Crossing>(&folder.0).unwrap().unwrap();
    let times: Vec<u64> = io.rows.iter().map(|row| row.record.time.ns()).collect();
    assert_eq!(times, [100, 200, 300, 400]);
    let stamps = read_folder::<Stamp>(&folder.0).unwrap().unwrap();
    let stamp = stamps.rows[0].record;
    assert_eq!((stamp.time.ns(), stamp.arrived.ns()), (250, 150));
    assert_eq!(stamp.departed, Instant::ZERO);
}

#[test]
fn parts_of_all_hosts_are_merged_by_time() {
    let folder = Folder::new("merge");
    let mut initiator = Recorder::new(Kinds::ALL, Recorder::MIN_BYTES);
    let mut helper = Recorder::new(Kinds::ALL, Recorder::MIN_BYTES);
    let mut target = Recorder::new(Kinds::ALL, Recorder::MIN_BYTES);
    record(&mut initiator, crossing(1, Layer::App, Direction::Enter));
    record(&mut initiator, crossing(5, Layer::App, Direction::Leave));
    record(&mut helper, crossing(4, Layer::Socket, Direction::Leave));
    record(&mut target, crossing(3, Layer::Store, Direction::Leave));
    record(&mut target, crossing(2, Layer::Store, Direction::Enter));
    initiator.pdu(pdu(1));
    initiator.tcp(tcp(8));
    let (of_initiator, of_target) = ([initiator, helper], [target]);
    write_part(&folder.0, "initiator-0", &of_initiator).unwrap();
    write_part(&folder.0, "target", &of_target).unwrap();
    let unmerged = read_folder::<Crossing>(&folder.0).unwrap().unwrap();
    merge_parts(&folder.0).unwrap();

    let io = read_folder::<Crossing>(&folder.0).unwrap().unwrap();
    assert_eq!(unmerged.rows, io.rows);
    let hosts: Vec<_> = io.rows.iter().map(|row| io.names.get(row.host)).collect();
    assert_eq!(
        hosts,
        [
            "initiator-0",
            "target",
            "target",
            "initiator-0",
            "initiator-0"
        ]
    );
    let times: Vec<_> = io.rows.iter().map(|row| row.record.time.ns()).collect();
    assert_eq!(times, [1, 2, 3, 4, 5]);
    assert_eq!(
        io.rows[1].record,
        crossing(2, Layer::Store, Direction::Enter)
    );
    assert_eq!(unmerged.names.get(io.rows[1].host), "target");
    let pdus = read::<Pdu>(&merged_path::<Pdu>(&folder.0)).unwrap();
    assert_eq!(pdus.rows[0].record, pdu(1));
    let samples = read::<Tcp>(&merged_path::<Tcp>(&folder.0)).unwrap();
    assert_eq!(samples.rows[0].record, tcp(8));
    let left: Vec<_> = fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("part") || name.contains("unfinished"))
        .collect();
    assert!(left.is_empty(), "{left:?}");

    let at_once = Folder::new("at-once");
    let of_initiator = of_initiator.iter().map(|each| ("initiator-0", each));
    let of_target = of_target.iter().map(|each| ("target", each));
    let all: Vec<_> = of_target.chain(of_initiator).collect();
    write_merged(&at_once.0, &all).unwrap();
    for kind in ["io", "pdu", "connection", "tcp", "packet", "path"] {
        let read = |folder: &Folder| fs::read(folder.0.join(format!("{kind}.parquet"))).unwrap();
        assert_eq!(read(&folder), read(&at_once), "{kind}");
    }
}

#[test]
fn stamps_keep_every_time_and_those_that_are_missing() {
    let folder = Folder::new("stamps");
    let sent = Stamp {
        time: Instant::from_ns(1),
        session: SessionId(1 << 50),
        connection: ConnectionId(3),
        nagle: true,
        stream_end: u64::from(u32::MAX) + 9,
        bytes: u32::MAX,
        scheduled: Instant::from_ns(4),
        departed: Instant::from_ns(5),
        acknowledged: Instant::from_ns(6),
        ..Stamp::BLANK
    };
    let received = Stamp {
        time: Instant::from_ns(2),
        direction: PduDirection::Received,
        bytes: 7,
        arrived: Instant::from_ns(1),
        ..Stamp::BLANK
    };
    let mut recorder = Recorder::new(Kinds::ALL, Recorder::MIN_BYTES);
    recorder.stamp(sent);
    recorder.stamp(received);
    write_part(&folder.0, "a", &[recorder]).unwrap();
    merge_parts(&folder.0).unwrap();
    let stamps = read::<Stamp>(&merged_path::<Stamp>(&folder.0)).unwrap();
    let read: Vec<Stamp> = stamps.rows.iter().map(|row| row.record).collect();
    assert_eq!(read, [sent, received]);
}

#[test]
fn packets_and_paths_keep_their_names() {
    let folder = Folder::new("packets");
    let mut sent = Vec::new();
    let hosts = [
        ("a", ["up", "down"], ["10.0.0.1:40000", "10.0.0.2:3260"]),
        ("b", ["down", "side"], ["[fd00::1]:3260", "[fe80::2]:40000"]),
    ];
    for (host, names, addresses) in hosts {
        let [source, destination] = addresses.map(|address| address.parse().unwrap());
        let mut recorder = Recorder::new(Kinds::ALL, Recorder::MIN_BYTES);
        for (place, name) in names.into_iter().enumerate() {
            let path = recorder.name(name);
            let time = Instant::from_ns(place as u64);
            let packet = Packet {
                time,
                departed: Instant::from_ns(100),
                path,
                source,
                destination,
                seq: u32::MAX,
                ack: 1,
                payload_bytes: 1448,
                ip_bytes: 1500,
                window: 65_535,
                flags: 0x18,
                ecn: 3,
                verdict: Verdict::DroppedByLoss,
            };
            recorder.packet(packet);
            recorder.path(event::Path {
                time,
                path,
                busy_ns: 5,
                ..event::Path::BLANK
            });
            recorder.thread(Thread {
                time,
                program: path,
                role: Role::Vpn,
                thread: u32::MAX,
                ran_ns: 1 << 40,
                waited_ns: place as u64,
            });
            sent.push((name, packet));
        }
        write_part(&folder.0, host, &[recorder]).unwrap();
    }
    merge_parts(&folder.0).unwrap();
    let packets = read::<Packet>(&merged_path::<Packet>(&folder.0)).unwrap();
    assert_eq!(packets.rows.len(), 4);
    for row in &packets.rows {
        let name = packets.names.get(row.record.path);
        let known = sent.iter().any(|(sent_name, packet)| {
            let path = row.record.path;
            *sent_name == name && Packet { path, ..*packet } == row.record
        });
        assert!(known, "{name} {row:?}");
    }
    let paths = read::<event::Path>(&merged_path::<event::Path>(&folder.0)).unwrap();
    let mut names: Vec<_> = paths
        .rows
        .iter()
        .map(|row| paths.names.get(row.record.path))
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["down", "down", "side", "up"]);
    let threads = read::<Thread>(&merged_path::<Thread>(&folder.0)).unwrap();
    assert_eq!(threads.rows.len(), 4);
    for row in &threads.rows {
        let Thread { time, role, .. } = row.record;
        let as_sent =
            (role, row.record.thread, row.record.ran_ns) == (Role::Vpn, u32::MAX, 1 << 40);
        assert!(as_sent && row.record.waited_ns == time.ns(), "{row:?}");
        let name = threads.names.get(row.record.program);
        assert!(names.contains(&name), "{name}");
    }
    assert_eq!(threads.rows.len(), 4);
}

#[test]
fn columns_that_older_files_lack_read_as_blank() {
    let folder = Folder::new("older");
    let path = merged_path::<event::Path>(&folder.0);
    let mut columns = all_columns::<event::Path>();
    let all = columns.len();
    columns.retain(|column| !column.may_lack);
    assert_eq!(columns.len(), all - 5);
    let mut names = Names::default();
    let record = event::Path {
        path: names.intern("wan:forward").unwrap(),
        busy_ns: 5,
        delay_ns: 7,
        ..event::Path::BLANK
    };
    let row = Row {
        host: names.intern("wan").unwrap(),
        record,
    };
    let mut writer = Writer::with_columns(&path, &Dropped::default(), columns).unwrap();
    writer.push(row, &mut names).unwrap();
    writer.finish(&mut names).unwrap();
    let table = read::<event::Path>(&path).unwrap();
    let read = table.rows[0].record;
    assert_eq!((read.busy_ns, read.delay_ns), (5, 0));
    assert_eq!(table.names.get(read.path), "wan:forward");
    let direction = event::Path::element("wan:forward");
    assert_eq!(direction, ("wan:forward", None));
    let element = event::Path::element("wan:forward:link-2");
    assert_eq!(element, ("wan:forward", Some("link-2")));
}

#[test]
fn a_watched_connection_keeps_its_ends_and_older_files_have_none() {
    let folder = Folder::new("ends");
    let mut recorder = Recorder::new(Kinds::ALL, Recorder::MIN_BYTES);
    let (local, remote) = ("10.0.0.1:3260", "[fd00::1]:40000");
    let ends = Tcp::ends_name(local.parse().unwrap(), remote.parse().unwrap());
    let ends = recorder.name(&ends);
    recorder.tcp(Tcp { ends, ..tcp(1) });
    write_part(&folder.0, "watch", &[recorder]).unwrap();
    merge_parts(&folder.0).unwrap();
    let table = read::<Tcp>(&merged_path::<Tcp>(&folder.0)).unwrap();
    let read_back = table.rows[0].record;
    assert_eq!(
        table.names.get(read_back.ends),
        "10.0.0.1:3260 > [fd00::1]:40000"
    );

    let path = folder.0.join("older.parquet");
    let mut columns = all_columns::<Tcp>();
    columns.retain(|column| !column.may_lack);
    let mut names = Names::default();
    let host = names.intern("target").unwrap();
    let record = tcp(2);
    let mut writer = Writer::with_columns(&path, &Dropped::default(), columns).unwrap();
    writer.push(Row { host, record }, &mut names).unwrap();
    writer.finish(&mut names).unwrap();
    let table = read::<Tcp>(&path).unwrap();
    let expected = Tcp {
        delivered_ce: 0,
        timeouts: 0,
        unread_bytes: 0,
        ece_signals: 0,
        send_memory_bytes: 0,
        send_buffer_bytes: 0,
        ecn: Ecn::Off,
        ends: NameId::NONE,
        seen: Seen::Sampled,
        ..record
    };
    assert_eq!(table.rows[0].record, expected);
    assert_eq!(table.names.get(NameId::NONE), "");
}

#[test]
fn kept_kinds_without_records_make_valid_files() {
    let folder = Folder::new("empty");
    let io_only = Kinds {
        io: true,
        ..Kinds::NONE
    };
    let recorder = Recorder::new(io_only, Recorder::MIN_BYTES);
    write_part(&folder.0, "quiet", &[recorder]).unwrap();
    merge_parts(&folder.0).unwrap();
    let io = read::<Crossing>(&merged_path::<Crossing>(&folder.0)).unwrap();
    assert!(io.rows.is_empty());
    assert_eq!(io.dropped, Dropped::from([("quiet".to_owned(), 0)]));
    assert!(!merged_path::<Pdu>(&folder.0).exists());
}

#[test]
fn dropped_records_are_counted_per_host() {
    let folder = Folder::new("dropped");
    for host in ["one", "two"] {
        let mut recorder = Recorder::new(Kinds::ALL, 0);
        for ns in 0..20_000 {
            record(&mut recorder, crossing(ns, Layer::App, Direction::Enter));
        }
        assert!(recorder.io.dropped() > 0);
        write_part(&folder.0, host, &[recorder]).unwrap();
    }
    merge_parts(&folder.0).unwrap();
    let io = read::<Crossing>(&merged_path::<Crossing>(&folder.0)).unwrap();
    assert_eq!(io.dropped.len(), 2);
    let lost: u64 = io.dropped.values().sum();
    assert_eq!(io.rows.len() as u64 + lost, 40_000);
}

#[test]
fn files_of_many_row_groups_come_back() {
    let folder = Folder::new("large");
    let mut recorder = Recorder::new(Kinds::ALL, 64 << 20);
    let total = 600_000;
    for ns in 0..total {
        let layer = Layer::ALL[ns as usize % Layer::ALL.len()];
        record(&mut recorder, crossing(ns, layer, Direction::Leave));
    }
    write_part(&folder.0, "busy", &[recorder]).unwrap();
    merge_parts(&folder.0).unwrap();
    let io = read::<Crossing>(&merged_path::<Crossing>(&folder.0)).unwrap();
    let expected = (0..total).map(|ns| {
        crossing(
            ns,
            Layer::ALL[ns as usize % Layer::ALL.len()],
            Direction::Leave,
        )
    });
    assert!(io.rows.iter().map(|row| row.record).eq(expected));
}

fn small_file(folder: &Path) -> PathBuf {
    let mut recorder = Recorder::new(Kinds::ALL, Recorder::MIN_BYTES);
    for ns in 0..300 {
        let layer = Layer::ALL[ns as usize % Layer::ALL.len()];
        record(&mut recorder, crossing(ns, layer, Direction::Enter));
    }
    recorder.pdu(pdu(1));
    write_part(folder, "h", &[recorder]).unwrap();
    merge_parts(folder).unwrap();
    merged_path::<Crossing>(folder)
}

fn one_line(error: &FileError) {
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text:?}");
    assert!(text.contains(".parquet"), "{text:?}");
}

#[test]
fn cut_files_are_named_as_damaged() {
    let folder = Folder::new("cut");
    let path = small_file(&folder.0);
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let error = read::<Crossing>(&path).unwrap_err();
        assert!(matches!(error, FileError::Damaged { .. }), "{error}");
        one_line(&error);
    }
}

#[test]
fn flipped_bits_never_panic() {
    let folder = Folder::new("flipped");
    let path = small_file(&folder.0);
    let whole = fs::read(&path).unwrap();
    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 1 << (place % 8);
        fs::write(&path, &bytes).unwrap();
        if let Err(error) = read::<Crossing>(&path) {
            one_line(&error);
        }
    }
}

#[test]
fn other_files_are_named_as_foreign() {
    let folder = Folder::new("foreign");
    small_file(&folder.0);
    let path = merged_path::<Pdu>(&folder.0);
    let error = read::<Crossing>(&path).unwrap_err();
    assert!(
        error.to_string().ends_with("it holds pdu records, not io"),
        "{error}"
    );
    let missing = folder.0.join("tcp.parquet.missing");
    assert!(matches!(
        read::<Tcp>(&missing),
        Err(FileError::System { .. })
    ));
    fs::write(folder.0.join("text.parquet"), "PAR? no").unwrap();
    let error = read::<Tcp>(&folder.0.join("text.parquet")).unwrap_err();
    one_line(&error);
}

#[test]
fn host_names_that_are_no_file_names_are_refused() {
    let folder = Folder::new("host");
    for host in ["", "a/b", "..", "a b", "a.part"] {
        let refused = write_part(&folder.0, host, &[Recorder::off()]);
        assert!(
            matches!(refused, Err(FileError::HostName { .. })),
            "{host:?}"
        );
    }
}
