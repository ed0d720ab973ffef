use std::collections::BTreeMap;
use std::io::{Read, Write};

use rustix::net::sockopt::set_socket_linger;
use wansan_iscsi::initiator::Handshake;
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::wire::{BHS_BYTES, LogoutReason, LogoutRequest, Lun, ScsiCommand, TaskAttribute};
use wansan_trace::{Kinds, TaskTag};

use super::*;
use crate::store::LunSpec;
use crate::target::{
    Access, Discovery, Offer, Sending, SessionSnapshot, Target, TargetConfig, TargetSpec,
};

const NAME: &str = "iqn.2026-01.net.example:reactor";
const LIMIT: Duration = Duration::from_secs(15);

/// A target with one unit whose operations take longer than any test.
fn slow_target() -> Target {
    let unit = "memory:1MiB,service-time=1000s".parse().unwrap();
    let target = TargetSpec {
        name: NAME.to_owned(),
        luns: BTreeMap::from([(0, unit)]),
        command_window: 8,
        wanted: Wanted::default(),
        chap: None,
        access: Access::default(),
        sending: Sending::default(),
    };
    let offer = Offer {
        targets: vec![target],
        discovery: Discovery::default(),
        open: LunSpec::open,
    };
    let config = TargetConfig {
        listen: vec!["127.0.0.1:0".to_owned()],
        offer,
        congestion_control: None,
        threads: 1,
        kinds: Kinds::NONE,
        record_bytes: 0,
        tcp_interval: LIMIT,
        report: |_| {},
    };
    Target::start(&config).unwrap()
}

fn log_in(target: &Target) -> TcpStream {
    let isid = [0x80, 0, 0, 0, 0, 1];
    let initiator = "iqn.2026-01.net.example:initiator";
    let mut handshake = Handshake::begin(initiator, isid, Some(NAME), Wanted::default()).unwrap();
    let mut stream = TcpStream::connect(target.addresses()[0]).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    while !handshake.is_done() {
        let sent = stream.write(handshake.pending()).unwrap();
        handshake.sent(sent);
        let read = stream.read(handshake.space()).unwrap();
        assert_ne!(read, 0, "the login is refused");
        handshake.filled(read);
        handshake.receive().unwrap();
    }
    stream
}

/// Waits until the target's sessions are as `wanted`, and returns the bytes that they have received.
fn wait(target: &Target, wanted: impl Fn(&[SessionSnapshot]) -> bool) -> u64 {
    let began = clock::now();
    loop {
        let sessions = target.observer().snapshot().sessions;
        if wanted(&sessions) {
            let connections = sessions.iter().flat_map(|session| &session.connections);
            return connections.map(|one| one.meter.received_bytes).sum();
        }
        assert!(clock::now().since(began) < LIMIT, "{sessions:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_initiator_that_is_gone_while_its_logout_waits_for_the_stores_is_noticed() {
    let target = slow_target();
    let mut stream = log_in(&target);
    let before = wait(&target, |sessions| !sessions.is_empty());
    let mut cdb = [0; 16];
    (cdb[0], cdb[8]) = (0x2a, 1); // WRITE (10) of one block
    let write = ScsiCommand {
        immediate: false,
        final_: true,
        read: false,
        write: true,
        attribute: TaskAttribute::Simple,
        lun: Lun::single_level(0).unwrap(),
        task_tag: TaskTag(1),
        expected_data_transfer_length: 512,
        cmd_sn: Sn(1),
        exp_stat_sn: Sn(0),
        cdb,
    };
    let logout = LogoutRequest {
        immediate: false,
        reason: LogoutReason::CloseSession,
        task_tag: TaskTag(2),
        cid: 0,
        cmd_sn: Sn(2),
        exp_stat_sn: Sn(0),
    };
    let mut received = before;
    let mut send = |bhs: &[u8; BHS_BYTES], data: &[u8]| {
        stream.write_all(bhs).unwrap();
        stream.write_all(data).unwrap();
        received += (bhs.len() + data.len()) as u64;
        wait(&target, |sessions| {
            let mut connections = sessions.iter().flat_map(|session| &session.connections);
            connections.any(|one| one.meter.received_bytes == received)
        });
    };
    let mut bhs = [0; BHS_BYTES];
    write.emit(&mut bhs);
    bhs[6] = 2; // DataSegmentLength: 512
    send(&bhs, &[7; 512]);
    logout.emit(&mut bhs);
    send(&bhs, &[]);
    // It is reset.
    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
    wait(&target, <[_]>::is_empty);
}
