//! Benchmark: explains a capture, compared with tshark computing the latencies of the same SCSI commands.
//!
//! `cargo bench -p wansan-insight --bench captures [-- FILE]`; without a file, the capture is of 4 KiB reads over a
//! path of 2 ms each way, and the search of an equally long stream without PDUs is measured too. All sides are separate
//! processes, run in turns, and CPU time is compared. `-- --write READS` writes a capture of that many reads, of any
//! length, to standard output.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the benchmark starts programs and writes the file that they read"
)]

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use wansan_insight::capture::{Capture, finding, read_parts, read_stream};
use wansan_peers::compare::{Bound, Comparison, Side, in_turns};
use wansan_peers::machine::Machine;
use wansan_peers::process::PeerError;
use wansan_peers::program::find;

/// Precedes the file that the process explains itself; `-` is standard input.
const EXPLAIN: &str = "--explain";
/// Precedes the number of reads of the capture to write.
const WRITE: &str = "--write";
const TURNS: usize = 5;
/// Our runs per turn: the kernel counts CPU time in ticks.
const OUR_RUNS: u32 = 8;
/// Required ratio of tshark's CPU time to ours.
const TIMES: f64 = 20.0;
/// Required speed of the search for PDUs, relative to that of reads.
const SEARCH_SHARE: f64 = 0.5;

fn main() -> ExitCode {
    // cargo itself adds --bench.
    let arguments: Vec<String> = { std::env::args().skip(1) }
        .filter(|argument| argument != "--bench")
        .collect();
    let done = match &arguments[..] {
        [role, file] if role == EXPLAIN => explain(Path::new(file)),
        [role, reads] if role == WRITE => write_as_asked(reads),
        [file] => compare(Path::new(file)),
        _ => compare_generated(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("captures: {error}");
            ExitCode::from(2)
        }
    }
}

fn compare_generated() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("reads.pcap");
    write_reads(&mut BufWriter::new(File::create(&file)?), 15_000)?;
    compare(&file)?;
    let stream = folder.path().join("stream.pcap");
    let bytes = fs::metadata(&file)?.len();
    write_stream(&mut BufWriter::new(File::create(&stream)?), bytes)?;
    compare_search(&stream, &file)
}

/// Compares explaining a stream without PDUs with explaining reads.
fn compare_search(stream: &Path, reads: &Path) -> Result<(), Box<dyn Error>> {
    let machine = Machine::watch();
    let own = std::env::current_exe()?;
    let per_s = |file: &Path| {
        let megabytes = fs::metadata(file).map_or(0.0, |file| file.len() as f64 / 1e6);
        let used_s = processor_s(&own, &[EXPLAIN, &file.to_string_lossy()], OUR_RUNS)?;
        Ok::<f64, PeerError>(megabytes / used_s)
    };
    let [searched, read] = in_turns(TURNS, [&mut || per_s(stream), &mut || per_s(reads)])?;
    let comparison = Comparison {
        question: "captures: searched for PDUs beside captures of reads".to_owned(),
        unit: "MB per second of a processor",
        ours: Side {
            name: "data without PDUs",
            samples: searched,
        },
        others: vec![Side {
            name: "reads",
            samples: read,
        }],
        bound: Bound::AtLeast(SEARCH_SHARE),
    };
    let verdict = comparison.judge(machine.disturbance().as_deref());
    println!("{}", comparison.text(&verdict));
    Ok(())
}

fn write_as_asked(reads: &str) -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    Ok(write_reads(&mut out, reads.parse()?)?)
}

/// Explains a capture as `wansan explain --json` does.
fn explain(file: &Path) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    let mut take = |part: Capture| {
        let summary = part.summarise();
        let told = serde_json::json!({
            "connections": part.connections,
            "finding": finding(&summary),
            "summary": summary,
        });
        // Nobody reads it where it cannot be written.
        let _ = writeln!(out, "{told:#}");
    };
    let whole = match file == Path::new("-") {
        true => read_stream(std::io::stdin(), file, &mut take)?,
        false => read_parts(&[file.to_owned()], &mut take)?,
    };
    println!("{} frames", whole.frames);
    Ok(())
}

fn compare(file: &Path) -> Result<(), Box<dyn Error>> {
    let megabytes = fs::metadata(file)?.len() as f64 / 1e6;
    let tshark = match find("tshark") {
        Ok(tshark) => tshark,
        Err(missing) => {
            println!("captures: not run: {missing}");
            return Ok(());
        }
    };
    let machine = Machine::watch();
    let own = std::env::current_exe()?;
    let name = file.to_string_lossy();
    let [ours, others] = in_turns(
        TURNS,
        [
            &mut || processor_s(&own, &[EXPLAIN, &name], OUR_RUNS),
            &mut || processor_s(&tshark, &["-q", "-z", "scsi,srt,0", "-r", &name], 1),
        ],
    )?;
    let per_s = |samples: Vec<f64>| samples.into_iter().map(|s| megabytes / s).collect();
    let comparison = Comparison {
        question: "captures: explained beside tshark's SCSI service response times".to_owned(),
        unit: "MB per second of a processor",
        ours: Side {
            name: "wansan explain",
            samples: per_s(ours),
        },
        others: vec![Side {
            name: "tshark",
            samples: per_s(others),
        }],
        bound: Bound::AtLeast(TIMES),
    };
    let verdict = comparison.judge(machine.disturbance().as_deref());
    println!("{}", comparison.text(&verdict));
    Ok(())
}

/// Mean CPU time of a program over `runs` runs.
fn processor_s(program: &Path, arguments: &[&str], runs: u32) -> Result<f64, PeerError> {
    let system = |source| PeerError::System {
        program: program.display().to_string(),
        source,
    };
    let before = wansan_peers::cpu::time_used_by_children().map_err(system)?;
    for _ in 0..runs {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        let ended = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(system)?;
        if !ended.success() {
            return Err(PeerError::Failed {
                program: program.display().to_string(),
                what: ended.to_string(),
                output: String::new(),
            });
        }
    }
    let after = wansan_peers::cpu::time_used_by_children().map_err(system)?;
    Ok((after - before).as_secs_f64() / f64::from(runs))
}

/// Number of 4 KiB reads in flight.
const PARALLEL: u64 = 32;
const BLOCK_BYTES: u32 = 4096;
const BHS_BYTES: usize = 48;
const SEGMENT_BYTES: usize = 1448;
const ROUND_TRIP_NS: u64 = 4_000_000;
/// Interval between consecutive segments.
const APART_NS: u64 = 12_000;

/// What one end of the connection sends.
#[derive(Default)]
struct Stream {
    next: u32,
}

/// Writes a capture taken at the initiator, of a connection from its beginning, as pcap with times in ns.
fn write_reads(file: &mut impl Write, reads: u64) -> std::io::Result<()> {
    write_begun(file, reads)?;
    file.flush()
}

/// The same; returns the positions of both ends.
fn write_begun(file: &mut impl Write, reads: u64) -> std::io::Result<[Stream; 2]> {
    for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.write_all(&word.to_le_bytes())?;
    }
    let mut streams = [Stream::default(), Stream::default()];
    for (at_ns, from, flags) in [
        (0, 0, 0x02),
        (ROUND_TRIP_NS, 1, 0x12),
        (ROUND_TRIP_NS + APART_NS, 0, 0x10),
    ] {
        frame(file, at_ns, from, flags, &mut streams, &[])?;
    }
    for first in (0..reads).step_by(PARALLEL as usize) {
        // When each read's command leaves, its answer arrives, and its acknowledgement leaves.
        let mut events = Vec::new();
        for (slot, read) in (first..reads.min(first + PARALLEL)).enumerate() {
            let each_ns = ROUND_TRIP_NS + PARALLEL * 6 * APART_NS;
            let round_ns = 2 * ROUND_TRIP_NS + first / PARALLEL * each_ns;
            let sent_ns = round_ns + slot as u64 * 6 * APART_NS;
            events.push((sent_ns, 0, read));
            events.push((sent_ns + ROUND_TRIP_NS / 2, 1, read));
            for part in 2..7 {
                events.push((sent_ns + ROUND_TRIP_NS + (part - 2) * APART_NS, part, read));
            }
        }
        events.sort_unstable();
        for (at_ns, part, read) in events {
            let tag = read as u32;
            match part {
                0 => {
                    let seen = tag.saturating_sub(PARALLEL as u32);
                    let command = pdu(0x01, 0xc0, tag, [BLOCK_BYTES, tag + 1, seen], 0);
                    frame(file, at_ns, 0, 0x18, &mut streams, &command)?;
                }
                // The target acknowledges the command at once.
                1 => frame(file, at_ns, 1, 0x10, &mut streams, &[])?,
                2..=4 => {
                    let mut answer = pdu(0x25, 0x80, tag, [u32::MAX, 0, tag + 2], BLOCK_BYTES);
                    answer.resize(BHS_BYTES + BLOCK_BYTES as usize, 0x5a);
                    answer.extend(pdu(0x21, 0x80, tag, [0, tag + 1, tag + 2], 0));
                    let place = (part as usize - 2) * SEGMENT_BYTES;
                    let end = answer.len().min(place + SEGMENT_BYTES);
                    frame(file, at_ns, 1, 0x18, &mut streams, &answer[place..end])?;
                }
                _ => frame(file, at_ns, 0, 0x10, &mut streams, &[])?,
            }
        }
    }
    Ok(streams)
}

/// Writes a few reads, a gap that the capture missed, and then `bytes` bytes of data in frames.
fn write_stream(file: &mut impl Write, bytes: u64) -> std::io::Result<()> {
    const MISSED_BYTES: u32 = 1 << 20;
    const BEGINS_NS: u64 = 1_000_000_000;
    let mut streams = write_begun(file, PARALLEL)?;
    streams[1].next = streams[1].next.wrapping_add(MISSED_BYTES);
    let mut state = 1_u64;
    let mut noise = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let data: Vec<u8> = (0..SEGMENT_BYTES).map(|_| noise()).collect();
    for number in 0..bytes / SEGMENT_BYTES as u64 {
        let at_ns = BEGINS_NS + number * APART_NS;
        frame(file, at_ns, 1, 0x18, &mut streams, &data)?;
        if number % 2 == 1 {
            frame(file, at_ns, 0, 0x10, &mut streams, &[])?;
        }
    }
    file.flush()
}

/// A Basic Header Segment with bytes 20 to 31 and, after them, a MaxCmdSN or a read CDB.
fn pdu(opcode: u8, flags: u8, tag: u32, words: [u32; 3], data_bytes: u32) -> Vec<u8> {
    let mut bhs = vec![0; BHS_BYTES];
    bhs[0] = opcode;
    bhs[1] = flags;
    bhs[4..8].copy_from_slice(&data_bytes.to_be_bytes());
    bhs[16..20].copy_from_slice(&tag.to_be_bytes());
    for (place, word) in words.into_iter().enumerate() {
        bhs[20 + 4 * place..24 + 4 * place].copy_from_slice(&word.to_be_bytes());
    }
    match opcode {
        // READ(10) of eight blocks.
        0x01 => bhs[32..42].copy_from_slice(&[0x28, 0, 0, tag as u8, 0, 0, 0, 0, 8, 0]),
        _ => bhs[32..36].copy_from_slice(&(words[2] + 64).to_be_bytes()),
    }
    bhs
}

/// A segment in its frame.
fn frame(
    file: &mut impl Write,
    at_ns: u64,
    from: usize,
    flags: u8,
    streams: &mut [Stream; 2],
    payload: &[u8],
) -> std::io::Result<()> {
    const ETHERNET: [u8; 14] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    const ENDS: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];
    const PORTS: [[u8; 2]; 2] = [[0x9c, 0x40], [0x0c, 0xbc]];
    let mut bytes = ETHERNET.to_vec();
    bytes.extend([0x45, 0]);
    bytes.extend((40 + payload.len() as u16).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    bytes.extend(ENDS[from]);
    bytes.extend(ENDS[1 - from]);
    bytes.extend(PORTS[from]);
    bytes.extend(PORTS[1 - from]);
    bytes.extend(streams[from].next.to_be_bytes());
    bytes.extend(streams[1 - from].next.to_be_bytes());
    bytes.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    bytes.extend(payload);
    let syn = u32::from(flags & 0x02 != 0);
    let next = &mut streams[from].next;
    *next = next.wrapping_add(payload.len() as u32 + syn);
    let length = bytes.len() as u32;
    let time = [
        (at_ns / 1_000_000_000) as u32,
        (at_ns % 1_000_000_000) as u32,
    ];
    for word in [time[0], time[1], length, length] {
        file.write_all(&word.to_le_bytes())?;
    }
    file.write_all(&bytes)
}
