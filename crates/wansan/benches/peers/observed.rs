//! What recording and watching cost both ends of ours, while neither waits for the other.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use wansan_peers::compare::{Bound, Comparison, Side, in_turns, median};
use wansan_peers::cpu;
use wansan_peers::perf::Load;
use wansan_peers::process::PeerError;
use wansan_peers::qemu::Operation;
use wansan_peers::wansan;

use crate::disks::memory_folder;
use crate::loads::{SMALL_RANDOM, WANSAN, our_iops};

/// Turns: the difference looked for is far below what one sample differs from the next.
const MANY_TURNS: usize = 18;

/// I/Os in flight: with enough of them, neither end waits for the other, so that what is added takes IOPS.
const IN_FLIGHT: u32 = 128;

/// Minimum share of a processor that each end uses, on average, from start to end of `wansan bench`. What idle processors
/// do in addition costs no IOPS.
const BUSY: f64 = 0.85;

/// IOPS over all connections, and the share of a processor that the less busy end used.
struct Observed {
    iops: f64,
    busy: f64,
}

/// Runs `wansan bench` on LUN 0 of `target`.
fn observe(target: &wansan::Target, load: Load, more: &[&str]) -> Result<Observed, PeerError> {
    // Of the target and of `wansan bench`.
    let used = || -> io::Result<[Duration; 2]> {
        Ok([cpu::time_used(target.id())?, cpu::time_used_by_children()?])
    };
    let system = |source| PeerError::System {
        program: "/proc".to_owned(),
        source,
    };
    let (before, began) = (used().map_err(system)?, Instant::now());
    let iops = our_iops(&target.url(0), Operation::Read, load, more)?;
    let took = began.elapsed();
    let after = used().map_err(system)?;
    let shares = [0, 1].map(|end| (after[end] - before[end]).as_secs_f64() / took.as_secs_f64());
    let busy = shares[0].min(shares[1]);
    Ok(Observed { iops, busy })
}

/// Compares the samples of both sides, if the ends were busy without what is added.
fn compare(
    question: String,
    [added, without]: [&'static str; 2],
    [ours, other]: [&[Observed]; 2],
    bound: Bound,
) -> Result<Vec<Comparison>, PeerError> {
    let busy: Vec<f64> = other.iter().map(|sample| sample.busy).collect();
    let [ours, other] = [ours, other].map(|side| side.iter().map(|it| it.iops).collect::<Vec<_>>());
    let busy = median(&busy);
    if busy < BUSY {
        return Err(PeerError::Noise(format!(
            "one end was busy for {:.0} % of the time only ({:.0} and {:.0} I/O/s)",
            100.0 * busy,
            median(&ours),
            median(&other),
        )));
    }
    let side = |name, samples| Side { name, samples };
    Ok(vec![Comparison {
        question,
        unit: "I/O/s",
        ours: side(added, ours),
        others: vec![side(without, other)],
        bound,
    }])
}

/// One in this many I/Os is recorded where a sample is: tens of thousands a second.
const SAMPLED: &str = "64";

/// Both ends of ours that record, as `more` says, and those that do not: without a folder. Each sample has a target of its
/// own, so that no sample finds the memory for records full already.
fn recorded(load: Load, more: Option<&[&str]>) -> Result<Observed, PeerError> {
    let folder = memory_folder()?;
    let path = folder.path().to_string_lossy();
    let by = |host| -> Vec<&str> {
        let place = ["--record", &path, "--host", host];
        more.map_or_else(Vec::new, |more| [&place[..], more].concat())
    };
    let arguments = [&["--lun", "memory:256MiB"], &by("target")[..]].concat();
    let target = wansan::Target::start(Path::new(WANSAN), &arguments)?;
    let observed = observe(&target, load, &by("initiator"))?;
    target.stop()?;
    Ok(observed)
}

/// Both ends of ours with a sample of the I/Os recorded, with all of them, and without records.
pub(crate) fn recording() -> Result<Vec<Comparison>, PeerError> {
    let load = Load {
        parallel: IN_FLIGHT,
        ..SMALL_RANDOM
    };
    let [sampled, complete, without] = in_turns(
        MANY_TURNS,
        [
            &mut || recorded(load, Some(&["--record-sample", SAMPLED])),
            &mut || recorded(load, Some(&[])),
            &mut || recorded(load, None),
        ],
    )?;
    let question = |records: &str| {
        format!("recording: 4 KiB random reads, {IN_FLIGHT} in flight, {records} at both ends")
    };
    let one_in = format!("records of one I/O in {SAMPLED}");
    let bound = Bound::AtLeast(0.97);
    let names = ["with records", "without"];
    let mut found = compare(question(&one_in), names, [&sampled, &without], bound)?;
    found.extend(compare(
        question("all records"),
        names,
        [&complete, &without],
        bound,
    )?);
    Ok(found)
}

/// Connections that are watched, all of them busy.
const WATCHED: u32 = 200;

/// Both ends of ours over many connections, with every one of them watched at both ends, and without.
pub(crate) fn watching() -> Result<Vec<Comparison>, PeerError> {
    let connections = WATCHED.to_string();
    let luns = ["--lun", "memory:256MiB", "--max-connections", &connections];
    let target = wansan::Target::start(Path::new(WANSAN), &luns)?;
    let port = target
        .address()
        .rsplit(':')
        .next()
        .unwrap_or_default()
        .to_owned();
    let load = Load {
        parallel: WATCHED,
        ..SMALL_RANDOM
    };
    let observe = || observe(&target, load, &["--connections", &connections]);
    let mut traced = true;
    let [with, without] = in_turns(
        MANY_TURNS,
        [
            &mut || {
                let watch = Watching::start(&port)?;
                traced &= watch.traced;
                observe()
            },
            &mut || observe(),
        ],
    )?;
    let watched = match traced {
        true => "watched, every change traced",
        false => "watched, sampled only",
    };
    compare(
        format!("watching: 4 KiB random reads over {WATCHED} connections"),
        [watched, "not watched"],
        [&with, &without],
        Bound::AtLeast(0.98),
    )
}

/// A running `wansan watch`.
struct Watching {
    process: Child,
    /// Where it says more, for which it must stay open.
    _stderr: Option<BufReader<ChildStderr>>,
    traced: bool,
}

impl Watching {
    /// Begins to watch the connections of a port, and waits until it does.
    fn start(port: &str) -> Result<Watching, PeerError> {
        let system = |source| PeerError::System {
            program: "wansan watch".to_owned(),
            source,
        };
        let arguments = ["watch", "--port", port, "--prometheus", "127.0.0.1:0"];
        let mut process = Command::new(WANSAN)
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(system)?;
        let mut said = String::new();
        let mut stderr = process.stderr.take().map(BufReader::new);
        if let Some(stderr) = &mut stderr {
            stderr.read_line(&mut said).map_err(system)?;
        }
        Ok(Watching {
            process,
            _stderr: stderr,
            traced: said.contains("traced (eBPF)"),
        })
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // One that has ended by itself has nothing left to end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
