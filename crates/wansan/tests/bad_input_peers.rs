//! Initiators that break the rules, against the real target: they get their Reject or lose their
//! connection, the target says who they were, and nobody else notices.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use wansan_iscsi::wire::{BHS_BYTES, Bhs, Opcode};
use wansan_peers::session::log_in;
use wansan_peers::wansan::{TARGET_NAME, Target, bench};

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
const LIMIT: Duration = Duration::from_secs(60);

fn target() -> Target {
    Target::start(Path::new(WANSAN), &["--lun", "memory:16MiB"]).unwrap()
}

fn connect(target: &Target) -> TcpStream {
    let stream = TcpStream::connect(target.address()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// A connection in full feature phase.
fn logged_in(target: &Target) -> TcpStream {
    let name = "iqn.2026-11.net.example:rude";
    log_in(target.address(), TARGET_NAME, name).unwrap()
}

/// What the target sends until it closes the connection.
fn until_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut answers = Vec::new();
    // A reset is an end as well: it throws away what the target had not read.
    let _ = stream.read_to_end(&mut answers);
    answers
}

/// Fails unless the target serves others as ever, and has not panicked.
#[track_caller]
fn serves_others(target: &Target) {
    let arguments = ["--op", "write", "--count", "200", "--verify"];
    let printed = bench(Path::new(WANSAN), &target.url(0), &arguments, LIMIT).unwrap();
    assert_eq!(printed["errors"], 0, "{printed}");
    assert!(!target.log().contains("panicked"), "{}", target.log());
}

/// Waits until the target has said `words`, which another thread of it may still have to do.
#[track_caller]
fn said(target: &Target, words: &[&str]) {
    let deadline = Instant::now() + LIMIT;
    let is_there = |log: &str| {
        let mut lines = log.lines();
        lines.any(|line| words.iter().all(|word| line.contains(word)))
    };
    while !is_there(&target.log()) {
        assert!(
            Instant::now() < deadline,
            "no line with {words:?} in:\n{}",
            target.log()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_is_no_login_loses_its_connection() {
    let target = target();
    let mut command = [0; BHS_BYTES];
    command[0] = Opcode::ScsiCommand.to_wire();
    let http = b"GET / HTTP/1.1\r\nHost: disk.example.net\r\nAccept: */*\r\n\r\n";
    for bytes in [&command[..], &http[..], &[0xff; 4096]] {
        let mut stream = connect(&target);
        let who = stream.local_addr().unwrap().to_string();
        stream.write_all(bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        until_closed(stream);
        said(&target, &[&who, "login"]);
    }
    serves_others(&target);
}

#[test]
fn pdus_out_of_place_get_a_reject_and_an_end() {
    let target = target();
    let mut oversized: Bhs = [0; BHS_BYTES];
    oversized[0] = Opcode::ScsiCommand.to_wire();
    oversized[5..8].fill(0xff);
    let mut answer: Bhs = [0; BHS_BYTES];
    answer[0] = Opcode::DataIn.to_wire();
    let mut login: Bhs = [0; BHS_BYTES];
    login[0] = 0x40 | Opcode::LoginRequest.to_wire();
    for bad in [oversized, answer, login] {
        let mut stream = logged_in(&target);
        let who = stream.local_addr().unwrap().to_string();
        stream.write_all(&bad).unwrap();
        let answers = until_closed(stream);
        assert_eq!(answers[0], Opcode::Reject.to_wire(), "{bad:02x?}");
        // The Reject carries the header that it is about (RFC 7143 §11.17).
        assert_eq!(answers[BHS_BYTES..], bad);
        said(&target, &[&who]);
    }
    serves_others(&target);
}

#[test]
fn a_connection_that_is_reset_is_named() {
    let target = target();
    let mut stream = logged_in(&target);
    let who = stream.local_addr().unwrap().to_string();
    let mut ping: Bhs = [0; BHS_BYTES];
    ping[0] = 0x40 | Opcode::NopOut.to_wire();
    ping[1] = 0x80;
    ping[20..24].fill(0xff);
    stream.write_all(&ping).unwrap();
    // To close with an answer that was not read is a reset.
    assert!(stream.peek(&mut [0]).unwrap() > 0);
    drop(stream);
    said(&target, &[&who, "reset"]);
    serves_others(&target);
}
