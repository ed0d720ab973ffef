//! Captures explained: the lab's own, tcpdump's at either end, damaged ones, and what is none.

use std::fs;
use std::path::Path;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::filtered::say_what_they_cannot_know;
use crate::{BLANK, Case, Lab, check, good};

type Test = fn(&Lab) -> Result<(), Failed>;

pub(crate) const TESTS: [(&str, Test); 5] = [
    (
        "the lab's captures show the stalls of its records",
        as_recorded,
    ),
    (
        "captures that are cut off are explained as far as they go",
        cut_off,
    ),
    (
        "the direction that a capture has not is named",
        one_direction,
    ),
    (
        "captures that were filtered say what they cannot know",
        say_what_they_cannot_know,
    ),
    ("what is no capture is refused in a line", refused),
];

/// Nagle's algorithm, and a path that loses a segment.
const NAGLE: Case = Case {
    path: "capture = true",
    target: "nagle = true\nstatus = \"separate\"\njoin_sends = false",
    workload: "op = \"read\"\nblock = \"8KiB\"\ntime = \"3s\"",
    ..BLANK
};

const LOSS: Case = Case {
    path: "capture = true\nback.loss = { packets = [120, 500] }",
    workload: "op = \"read\"\nblock = \"64KiB\"\ntime = \"3s\"",
    ..BLANK
};

const ASKED_FOR: Case = Case {
    path: "capture = true",
    tables: "[session]\ninitial_r2t = true\nimmediate_data = false",
    workload: "op = \"write\"\nblock = \"64KiB\"\ntime = \"3s\"",
    ..BLANK
};

pub(crate) fn explained(lab: &Lab, file: &Path) -> Result<Value, Failed> {
    let file = file.to_str().ok_or("a strange path")?;
    let output = lab.wansan(&["explain", file, "--json"]).output()?;
    good(&output)?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A number of the stalls of that cause.
pub(crate) fn of_cause(stalls: &Value, cause: &str, number: &str) -> f64 {
    let causes = stalls["causes"].as_array().into_iter().flatten();
    let of_it = causes.filter(|of| of["cause"] == cause);
    of_it.map(|of| of[number].as_f64().unwrap_or(0.0)).sum()
}

fn as_recorded(lab: &Lab) -> Result<(), Failed> {
    let cases = [
        (NAGLE, "nagle"),
        (LOSS, "fast_retransmit"),
        (ASKED_FOR, "r2t_wait"),
    ];
    for (case, cause) in cases {
        agrees(lab, &case, cause)?;
    }
    Ok(())
}

/// Whether the case's capture has the stalls of that cause that its records have.
fn agrees(lab: &Lab, case: &Case, cause: &str) -> Result<(), Failed> {
    let lab = Lab::new(lab.arm)?;
    let recorded = lab.run(case)?;
    let told = explained(&lab, &lab.cell()?.join("upper.pcapng"))?;
    let stalls = &told["summary"]["stalls"];
    let both = || format!("{stalls:#} beside {:#}", recorded["stalls"]);
    check(told["end"]["how"] == "whole", || told["end"].to_string())?;
    let connection = &told["connections"][0];
    check(
        told["connections"]
            .as_array()
            .is_some_and(|all| all.len() == 1),
        || told["connections"].to_string(),
    )?;
    let name = connection["initiator_name"].as_str().unwrap_or_default();
    check(name.starts_with("iqn."), || connection.to_string())?;
    let round_trip_ns = ["initiator_round_trip_ns", "target_round_trip_ns"]
        .map(|name| connection[name].as_f64().unwrap_or(0.0));
    let round_trip_ms = round_trip_ns.iter().sum::<f64>() / 1e6;
    check((20.0..23.0).contains(&round_trip_ms), || {
        connection.to_string()
    })?;
    // A capture has all I/Os, the records' stalls are of the measured time: it is so long that few differ.
    let counts = [stalls, &recorded["stalls"]].map(|of| of_cause(of, cause, "stalls"));
    check(
        counts[1] > 0.0 && (counts[0] / counts[1] - 1.0).abs() < 0.1,
        both,
    )?;
    let costs = [stalls, &recorded["stalls"]].map(|of| of_cause(of, cause, "cost_ns"));
    check((costs[0] / costs[1] - 1.0).abs() < 0.2, both)?;
    let packets = stalls["causes"][0]["example"]["packets"].as_array();
    let packets = packets.ok_or("no packets")?;
    let frames = told["frames"].as_u64().ok_or("no frames")?;
    let is_number = |of: &Value| of["packet"].as_u64().is_some_and(|n| n > 0 && n <= frames);
    check(!packets.is_empty() && packets.iter().all(is_number), both)
}

/// Whether parts of a capture are explained by what they have.
fn cut_off(lab: &Lab) -> Result<(), Failed> {
    lab.run(&NAGLE)?;
    let file = lab.cell()?.join("upper.pcapng");
    let whole = fs::read(&file)?;
    let told = explained(lab, &file)?;
    let all = told["frames"].as_u64().unwrap_or(0);
    // How many there are is a matter of the machine.
    let stalls = of_cause(&told["summary"]["stalls"], "nagle", "stalls");
    check(stalls > 0.0, || told["summary"]["stalls"].to_string())?;
    let part = lab.scratch.path().join("part.pcapng");
    fs::write(&part, &whole[..whole.len() * 2 / 3])?;
    let told = explained(lab, &part)?;
    let frames = told["frames"].as_u64().unwrap_or(0);
    let is_part = frames > all / 3 && frames < all;
    check(is_part, || format!("{frames} of {all}"))?;
    check(told["end"]["how"] == "cut_off", || told["end"].to_string())?;
    let causes = of_cause(&told["summary"]["stalls"], "nagle", "stalls");
    let due = stalls * frames as f64 / all as f64;
    check(causes >= 0.8 * due - 1.0, || {
        format!("of {due} in that part: {}", told["summary"]["stalls"])
    })?;
    // Bytes that are none of a capture's, in its middle.
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 4096].fill(0xff);
    fs::write(&part, &damaged)?;
    let told = explained(lab, &part)?;
    check(told["end"]["how"] == "damaged", || told["end"].to_string())?;
    // Without its beginning, and so without login.
    let headless = packets(&whole, |number, _| number > 40)?;
    fs::write(&part, &headless)?;
    let told = explained(lab, &part)?;
    let causes = of_cause(&told["summary"]["stalls"], "nagle", "stalls");
    check(causes >= 0.5 * stalls, || told.to_string())
}

/// The packets of a pcapng file that are to be kept, by their numbers from 1 and their frames.
pub(crate) fn packets(
    file: &[u8],
    mut keep: impl FnMut(usize, &[u8]) -> bool,
) -> Result<Vec<u8>, Failed> {
    const ENHANCED_PACKET: u32 = 6;
    /// Before the frame.
    const HEADER_BYTES: usize = 28;
    let word =
        |at: usize| -> Option<u32> { Some(u32::from_le_bytes(*file.get(at..)?.first_chunk()?)) };
    let (mut kept, mut at, mut seen) = (Vec::new(), 0, 0);
    while let (Some(kind), Some(length)) = (word(at), word(at + 4)) {
        let end = at + length as usize;
        let block = file.get(at..end).ok_or("a block without its end")?;
        let is_packet = kind == ENHANCED_PACKET;
        seen += usize::from(is_packet);
        if !is_packet || keep(seen, block.get(HEADER_BYTES..).unwrap_or_default()) {
            kept.extend(block);
        }
        at = end;
    }
    Ok(kept)
}

/// What a capture tells of one direction alone, and that it says which one is missing.
fn one_direction(lab: &Lab) -> Result<(), Failed> {
    let case = Case {
        path: "capture = true",
        workload: "op = \"read\"\nblock = \"8KiB\"\ntime = \"300ms\"",
        ..BLANK
    };
    lab.run(&case)?;
    let whole = fs::read(lab.cell()?.join("upper.pcapng"))?;
    // Behind the headers of Ethernet and IPv4; the target is at iSCSI's port.
    let is_of_target = |frame: &[u8]| frame.get(34..36) == Some(&3260_u16.to_be_bytes());
    for (of_target, unheard, words) in [
        (
            true,
            "initiator",
            "the capture has no segments from the initiator: its commands",
        ),
        (
            false,
            "target",
            "the capture has no segments from the target: its responses",
        ),
    ] {
        let half = packets(&whole, |_, frame| is_of_target(frame) == of_target)?;
        let file = lab.scratch.path().join("half.pcapng");
        fs::write(&file, half)?;
        let told = explained(lab, &file)?;
        check(told["connections"][0]["unheard"] == unheard, || {
            told["connections"].to_string()
        })?;
        let output = lab.wansan(&["explain", "half.pcapng"]).output()?;
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        // Both ends' numbers make a command window.
        let holds = told.contains(words) && !told.contains("Command window");
        check(holds, || told.clone())?;
    }
    Ok(())
}

fn refused(lab: &Lab) -> Result<(), Failed> {
    let folder = lab.scratch.path();
    let ping: &[u8] = &[];
    let mut empty = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    empty.extend([
        2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0,
    ]);
    // A frame of a link type that has no IP in it, with nothing but its head.
    let mut radio = empty.clone();
    radio[20] = 127;
    radio.extend([0; 16]);
    let files: [(&str, &[u8], &str); 5] = [
        (
            "radio.pcap",
            &radio,
            "frames that are not read: 1 of link type 127 (IEEE 802.11 with radiotap); Ethernet (1)",
        ),
        ("nothing", ping, "it is empty; give a capture"),
        (
            "text.txt",
            b"a text of some length, and no capture",
            "neither as pcap nor as pcapng",
        ),
        (
            "parquet",
            b"PAR1PAR1PAR1PAR1PAR1PAR1PAR1",
            "it holds records (Parquet), which are read by their folder",
        ),
        (
            "empty.pcap",
            &empty,
            "no iSCSI PDUs were found in its 0 frames",
        ),
    ];
    for (name, bytes, words) in files {
        let file = folder.join(name);
        fs::write(&file, bytes)?;
        let output = lab.wansan(&["explain", name]).output()?;
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        check(output.status.code() == Some(2), || told.clone())?;
        check(told.lines().count() == 1 && told.contains(words), || {
            told.clone()
        })?;
    }
    Ok(())
}
