//! Captures that do not fit into memory: `wansan explain -` takes as much of it for a long one as for a short one.

use std::io::Write;
use std::process::{Command, Stdio};

use wansan_peers::memory::most_resident_bytes;

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
/// I/Os of which each part of a capture has as many as are kept: two segments and two PDUs each.
const PART_IOS: u32 = 125_000;
/// What a longer capture may take more.
const MOST_GROWTH: f64 = 1.1;

#[test]
fn memory_does_not_grow_with_the_length_of_a_capture() {
    let [short, long] = [2, 6].map(|parts| most_bytes(parts * PART_IOS));
    assert!(
        long <= MOST_GROWTH * short,
        "{long} bytes for three times what took {short}"
    );
}

/// The most memory that explaining a capture of so many I/Os takes until its end comes.
fn most_bytes(ios: u32) -> f64 {
    let mut explain = Command::new(WANSAN)
        .args(["explain", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut capture = explain.stdin.take().unwrap();
    write_capture(&mut capture, ios).unwrap();
    let bytes = most_resident_bytes(explain.id()).unwrap();
    drop(capture);
    let output = explain.wait_with_output().unwrap();
    assert!(output.status.success());
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains(&format!("{} frames", 2 * ios)), "{told}");
    bytes
}

/// I/Os without data, one after the other: a pcap file of IP packets with times in ns.
fn write_capture(file: &mut impl Write, ios: u32) -> std::io::Result<()> {
    const INITIATOR: [u8; 6] = [10, 0, 0, 1, 0x9c, 0x40];
    const TARGET: [u8; 6] = [10, 0, 0, 2, 0x0c, 0xbc];
    const BHS_BYTES: u32 = 48;
    let mut bytes = Vec::new();
    for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 101] {
        bytes.extend(word.to_le_bytes());
    }
    for io in 0..ios {
        let place = BHS_BYTES * io;
        // CmdSN and ExpStatSN of a command; StatSN, ExpCmdSN and MaxCmdSN of its response.
        let pdus = [
            (INITIATOR, TARGET, 0x01, place, [io, io, 0]),
            (
                TARGET,
                INITIATOR,
                0x21,
                place + BHS_BYTES,
                [io, io + 1, io + 64],
            ),
        ];
        for (at, (from, to, opcode, ack, numbers)) in (0..).zip(pdus) {
            let mut pdu = [0_u8; BHS_BYTES as usize];
            (pdu[0], pdu[1]) = (opcode, 0x80);
            pdu[16..20].copy_from_slice(&io.to_be_bytes());
            for (word, number) in (24..).step_by(4).zip(numbers) {
                pdu[word..word + 4].copy_from_slice(&number.to_be_bytes());
            }
            let ns = 100_000 * u64::from(2 * io + at);
            let (seconds, ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
            for word in [1_700_000_000 + seconds as u32, ns as u32, 88, 88] {
                bytes.extend(word.to_le_bytes());
            }
            bytes.extend([0x45, 0, 0, 88, 0, 0, 0x40, 0, 64, 6, 0, 0]);
            bytes.extend(&from[..4]);
            bytes.extend(&to[..4]);
            bytes.extend(&from[4..]);
            bytes.extend(&to[4..]);
            bytes.extend(place.to_be_bytes());
            bytes.extend(ack.to_be_bytes());
            bytes.extend([0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
            bytes.extend(pdu);
        }
        if bytes.len() > 1 << 16 {
            file.write_all(&bytes)?;
            bytes.clear();
        }
    }
    file.write_all(&bytes)
}
