//! Captures of a path: every packet, and what became of it.

use std::fs;
use std::process::Command;

use libtest_mimic::Failed;

use crate::{Lab, PATIENCE, check, direction, good, whole};

pub(crate) fn whole_file(lab: &Lab) -> Result<(), Failed> {
    lab.plan("1s", "", "capture = true\nloss = { packets = [8, 12] }")?;
    let plan = lab.folder().join("trial.toml");
    let cell = lab.run()?;
    let run = lab.runs()?.pop().ok_or("there is no run folder")?;
    let file = run.join("cell-000/upper.pcapng");
    let packets = captured(&fs::read(&file)?)?;
    for (interface, name) in [(0, "upper:forward"), (1, "upper:back")] {
        let path = direction(&cell["paths"], name)?;
        let here = packets
            .iter()
            .filter(|packet| packet.interface == interface);
        let all = whole(&path["out_packets"])? + whole(&path["dropped_packets"])?;
        check(here.clone().count() as u64 == all, || {
            format!("{name}: not {all}")
        })?;
        let lost: Vec<&Packet> = here.filter(|packet| !packet.comment.is_empty()).collect();
        let dropped = whole(&path["dropped_packets"])?;
        check(dropped == 2 && lost.len() == 2, || {
            format!("{name}: {} and {dropped} are lost", lost.len())
        })?;
        let told = lost.iter().all(|packet| packet.comment == "wansan: lost");
        check(told, || lost[0].comment.clone())?;
    }
    check(packets.is_sorted_by_key(|packet| packet.time_ns), || {
        "they are out of order".to_owned()
    })?;
    // IPv4 or ARP, as hosts send them.
    let known = packets
        .iter()
        .all(|packet| matches!(packet.ethertype, 0x0800 | 0x0806));
    check(known, || "there are strange frames".to_owned())?;
    let span_ns = packets.last().map_or(0, |packet| packet.time_ns) - packets[0].time_ns;
    check(span_ns > 400_000_000, || format!("only {span_ns} ns"))?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let age_ns = now.as_nanos() as u64 - packets[0].time_ns;
    check(age_ns < PATIENCE.as_nanos() as u64, || {
        format!("{age_ns} ns ago")
    })?;
    // Where Wireshark's tools are, they agree.
    if let Ok(output) = Command::new("capinfos")
        .args(["-c", "-M", "-r", "-T"])
        .arg(&file)
        .output()
    {
        good(&output)?;
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        check(told.contains(&packets.len().to_string()), || told.clone())?;
    }
    // A name that is none of a file is refused with its line, before anything runs.
    let text = fs::read_to_string(&plan)?;
    fs::write(&plan, text.replace("\"upper\"", "\"../upper\""))?;
    let output = lab.wansan(&["lab", "check", "trial.toml"]).output()?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    check(output.status.code() == Some(2), || told.clone())?;
    check(
        told.contains("trial.toml:") && told.contains("[[path]] name"),
        || told.clone(),
    )
}

pub(crate) fn single_elements(lab: &Lab) -> Result<(), Failed> {
    let of_path = "capture = [\"loss\", \"delay\"]\nloss = { packets = [8, 12] }";
    lab.plan("1s", "", of_path)?;
    let cell = lab.run()?;
    let folder = lab.runs()?.pop().ok_or("there is no run folder")?;
    let folder = folder.join("cell-000");
    check(!folder.join("upper.pcapng").exists(), || {
        "all of the path was captured".to_owned()
    })?;
    for element in ["loss", "delay"] {
        let packets = captured(&fs::read(folder.join(format!("upper.{element}.pcapng")))?)?;
        for (interface, name) in [(0, "upper:forward"), (2, "upper:back")] {
            let at = |side: u32| {
                let here = packets
                    .iter()
                    .filter(move |packet| packet.interface == side);
                (here.clone().count() as u64, here)
            };
            let ((came, mut before), (went, after)) = (at(interface), at(interface + 1));
            let elements = direction(&cell["paths"], name)?["elements"].as_array();
            let mut elements = elements.into_iter().flatten();
            let told = elements.find(|told| told["name"] == element);
            let told = told.ok_or("the element is not in the results")?;
            check(came == whole(&told["in_packets"])? && came > 0, || {
                format!("{name} before {element}: {came} packets, {told}")
            })?;
            check(
                went == whole(&told["out_packets"])? + whole(&told["dropped_packets"])?,
                || format!("{name} after {element}: {went} packets, {told}"),
            )?;
            check(before.all(|packet| packet.comment.is_empty()), || {
                format!("{name}: dropped before {element}")
            })?;
            let dropped = after
                .filter(|packet| packet.comment == "wansan: lost")
                .count();
            check(dropped == if element == "loss" { 2 } else { 0 }, || {
                format!("{name}: {dropped} are lost at {element}")
            })?;
        }
    }
    for (wish, part) in [
        ("[\"lnik\"]", "did you mean `link`?"),
        ("[\"link\", \"link\"]", "`link` is given twice"),
        ("[]", "name elements"),
        ("\"link\"", "true, false, or a list"),
    ] {
        lab.plan("1s", "", &format!("capture = {wish}"))?;
        let output = lab.wansan(&["lab", "check", "trial.toml"]).output()?;
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let good = output.status.code() == Some(2) && told.contains(part);
        check(good && told.contains("trial.toml:"), || told.clone())?;
    }
    Ok(())
}

/// A frame of a capture.
struct Packet {
    interface: u32,
    time_ns: u64,
    ethertype: u16,
    comment: String,
}

/// Reads a little-endian pcapng file of one section.
fn captured(file: &[u8]) -> Result<Vec<Packet>, Failed> {
    let word = |at: usize| -> Result<u32, Failed> {
        let bytes = file.get(at..at + 4).ok_or("it is cut short")?;
        Ok(u32::from_le_bytes(bytes.try_into()?))
    };
    check(word(0)? == 0x0a0d_0d0a && word(8)? == 0x1a2b_3c4d, || {
        "it is no pcapng file".to_owned()
    })?;
    let mut packets = Vec::new();
    let mut at = 0;
    while at < file.len() {
        let length = word(at + 4)? as usize;
        check(
            length >= 12 && word(at + length - 4)? as usize == length,
            || format!("the block at {at} has two lengths"),
        )?;
        if word(at)? == 6 {
            let bytes = word(at + 20)? as usize;
            check(bytes == word(at + 24)? as usize, || {
                "a frame is cut".to_owned()
            })?;
            let options = at + 28 + bytes.next_multiple_of(4);
            let comment = if options < at + length - 4 {
                let of = &file[options + 4..options + 4 + usize::from(file[options + 2])];
                String::from_utf8_lossy(of).into_owned()
            } else {
                String::new()
            };
            packets.push(Packet {
                interface: word(at + 8)?,
                time_ns: u64::from(word(at + 12)?) << 32 | u64::from(word(at + 16)?),
                ethertype: u16::from_be_bytes([file[at + 40], file[at + 41]]),
                comment,
            });
        }
        at += length;
    }
    check(!packets.is_empty(), || "it has no packets".to_owned())?;
    Ok(packets)
}
