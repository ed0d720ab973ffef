//! What is compared: each question starts what it needs, measures both sides in turns, and ends
//! what it started.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use wansan_peers::compare::{Bound, Comparison, Side, in_turns};
use wansan_peers::perf::{self, Load, Pattern};
use wansan_peers::process::PeerError;
use wansan_peers::question::Question;
use wansan_peers::tgtd::Tgtd;
use wansan_peers::{cpu, wansan};

use crate::echo;

/// The binary that is measured: the one that cargo built for this benchmark.
const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
/// Turns of each comparison: an odd number, so that a median is a sample.
const TURNS: usize = 5;
/// Turns where the difference looked for is far below what one sample differs from the next.
const MANY_TURNS: usize = 101;
/// How long each of many turns' samples takes.
const SHORT_SAMPLE: Duration = Duration::from_secs(1);
/// How long each sample takes.
const SAMPLE_S: u64 = 3;
const SAMPLE: Duration = Duration::from_secs(SAMPLE_S);
/// I/Os in flight, in every comparison.
const PARALLEL: u32 = 32;
/// The file behind a unit. It lies in memory, so no disk is measured.
const DISK_BYTES: usize = 256 << 20;
const MEMORY_FOLDER: &str = "/dev/shm";

const SMALL_RANDOM: Load = Load {
    pattern: Pattern::Random,
    block_bytes: 4096,
    parallel: PARALLEL,
    time_s: SAMPLE_S,
};
const LARGE_SEQUENTIAL: Load = Load {
    pattern: Pattern::Sequential,
    block_bytes: 256 * 1024,
    parallel: PARALLEL,
    time_s: SAMPLE_S,
};

/// Every question, in the order in which they are asked.
pub(crate) const QUESTIONS: [Question; 6] = [
    Question {
        name: "target",
        measure: target,
    },
    Question {
        name: "initiator",
        measure: initiator,
    },
    Question {
        name: "limit",
        measure: limit,
    },
    Question {
        name: "sequential",
        measure: sequential,
    },
    Question {
        name: "recording",
        measure: recording,
    },
    Question {
        name: "watching",
        measure: watching,
    },
];

/// Our target and tgtd under the same client: IOPS and CPU time per I/O.
fn target() -> Result<Vec<Comparison>, PeerError> {
    let (ours, tgtd) = (OurDisk::start()?, TgtdDisk::start()?);
    let (our_samples, tgtd_samples) = in_turns(
        TURNS,
        || ServerSample::take(&ours.target.url(0), ours.target.id(), SMALL_RANDOM),
        || ServerSample::take(&tgtd.tgtd.url(), tgtd.tgtd.id(), SMALL_RANDOM),
    )?;
    let sides = |value: fn(&ServerSample) -> f64| {
        (
            Side {
                name: "wansan target",
                samples: our_samples.iter().map(value).collect(),
            },
            Side {
                name: "tgtd",
                samples: tgtd_samples.iter().map(value).collect(),
            },
        )
    };
    let (ours, other) = sides(|sample| sample.iops);
    let rate = Comparison {
        question: "target: 4 KiB random reads by iscsi-perf, 32 in flight, one connection"
            .to_owned(),
        unit: "I/O/s",
        ours,
        other,
        bound: Bound::AtLeast(1.2),
    };
    let (ours, other) = sides(|sample| sample.cpu_us_per_io);
    let cost = Comparison {
        question: "target: CPU time of the server for each of these reads".to_owned(),
        unit: "µs/I/O",
        ours,
        other,
        bound: Bound::AtMost(0.7),
    };
    Ok(vec![rate, cost])
}

/// Our load generator and iscsi-perf on the same target.
fn initiator() -> Result<Vec<Comparison>, PeerError> {
    let disk = OurDisk::start()?;
    let url = disk.target.url(0);
    let (ours, other) = in_turns(
        TURNS,
        || our_iops(&url, PARALLEL, SAMPLE, &[]),
        || Ok(perf::read(&url, SMALL_RANDOM)?.iops),
    )?;
    Ok(vec![Comparison {
        question: "initiator: 4 KiB random reads from wansan target, 32 in flight, one connection"
            .to_owned(),
        unit: "I/O/s",
        ours: Side {
            name: "wansan bench",
            samples: ours,
        },
        other: Side {
            name: "iscsi-perf",
            samples: other,
        },
        bound: Bound::AtLeast(1.5),
    }])
}

/// Ours to ours and the bare echo pair.
fn limit() -> Result<Vec<Comparison>, PeerError> {
    let target = wansan::Target::start(Path::new(WANSAN), &["--lun", "memory:256MiB"])?;
    let url = target.url(0);
    let (ours, other) = in_turns(
        TURNS,
        || our_iops(&url, PARALLEL, SAMPLE, &[]),
        || echo::exchanges_per_second(PARALLEL as usize, SAMPLE),
    )?;
    Ok(vec![Comparison {
        question: "limit: wansan to wansan beside a bare echo of the same bytes, 32 in flight"
            .to_owned(),
        unit: "I/O/s",
        ours: Side {
            name: "wansan bench and target",
            samples: ours,
        },
        other: Side {
            name: "echo pair",
            samples: other,
        },
        bound: Bound::AtLeast(0.4),
    }])
}

/// Large sequential reads from our target and from tgtd by the same client.
fn sequential() -> Result<Vec<Comparison>, PeerError> {
    let (ours, tgtd) = (OurDisk::start()?, TgtdDisk::start()?);
    let (our_url, tgtd_url) = (ours.target.url(0), tgtd.tgtd.url());
    let megabytes_per_s = |url: &str| -> Result<f64, PeerError> {
        let iops = perf::read(url, LARGE_SEQUENTIAL)?.iops;
        Ok(iops * LARGE_SEQUENTIAL.block_bytes as f64 / 1e6)
    };
    let (ours, other) = in_turns(
        TURNS,
        || megabytes_per_s(&our_url),
        || megabytes_per_s(&tgtd_url),
    )?;
    Ok(vec![Comparison {
        question: "target: 256 KiB sequential reads by iscsi-perf, 32 in flight, one connection"
            .to_owned(),
        unit: "MB/s",
        ours: Side {
            name: "wansan target",
            samples: ours,
        },
        other: Side {
            name: "tgtd",
            samples: other,
        },
        bound: Bound::AtLeast(1.2),
    }])
}

/// Both ends of ours with every record kind on, and without records. Each sample has a target of
/// its own, so that no sample finds the memory for records full already.
fn recording() -> Result<Vec<Comparison>, PeerError> {
    let (ours, other) = in_turns(
        MANY_TURNS,
        || {
            let folder = memory_folder()?;
            let path = folder.path().to_string_lossy();
            let recorded = |host| ["--record", &path, "--host", host];
            let mut arguments = vec!["--lun", "memory:256MiB"];
            arguments.extend(recorded("target"));
            let target = wansan::Target::start(Path::new(WANSAN), &arguments)?;
            let iops = our_iops(
                &target.url(0),
                PARALLEL,
                SHORT_SAMPLE,
                &recorded("initiator"),
            )?;
            target.stop()?;
            Ok(iops)
        },
        || {
            let target = wansan::Target::start(Path::new(WANSAN), &["--lun", "memory:256MiB"])?;
            our_iops(&target.url(0), PARALLEL, SHORT_SAMPLE, &[])
        },
    )?;
    Ok(vec![Comparison {
        question: "recording: 4 KiB random reads, 32 in flight, records at both ends".to_owned(),
        unit: "I/O/s",
        ours: Side {
            name: "with every record kind",
            samples: ours,
        },
        other: Side {
            name: "without records",
            samples: other,
        },
        bound: Bound::AtLeast(0.97),
    }])
}

/// Connections that are watched, all of them busy.
const WATCHED: u32 = 200;

/// Both ends of ours over many connections, with every one of them watched at both ends, and without.
fn watching() -> Result<Vec<Comparison>, PeerError> {
    let connections = WATCHED.to_string();
    let luns = ["--lun", "memory:256MiB", "--max-connections", &connections];
    let target = wansan::Target::start(Path::new(WANSAN), &luns)?;
    let port = target
        .address()
        .rsplit(':')
        .next()
        .unwrap_or_default()
        .to_owned();
    let iops = || {
        let over = ["--connections", &connections];
        our_iops(&target.url(0), WATCHED, SHORT_SAMPLE, &over)
    };
    let mut traced = true;
    let (ours, other) = in_turns(
        MANY_TURNS,
        || {
            let watch = Watching::start(&port)?;
            traced &= watch.traced;
            iops()
        },
        iops,
    )?;
    Ok(vec![Comparison {
        question: format!("watching: 4 KiB random reads over {WATCHED} connections"),
        unit: "I/O/s",
        ours: Side {
            name: if traced {
                "watched, every change traced"
            } else {
                "watched, sampled only"
            },
            samples: ours,
        },
        other: Side {
            name: "not watched",
            samples: other,
        },
        bound: Bound::AtLeast(0.98),
    }])
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

/// I/Os per second of `wansan bench` with the small random load for `sample`.
fn our_iops(url: &str, parallel: u32, sample: Duration, more: &[&str]) -> Result<f64, PeerError> {
    let (parallel, time) = (parallel.to_string(), format!("{}s", sample.as_secs()));
    let mut arguments = vec!["--op", "read", "--pattern", "random", "--block", "4KiB"];
    arguments.extend([
        "--parallel",
        &parallel,
        "--time",
        &time,
        "--warmup",
        "200ms",
    ]);
    arguments.extend(more);
    let printed = wansan::bench(Path::new(WANSAN), url, &arguments, sample * 10)?;
    printed["iops"].as_f64().ok_or_else(|| PeerError::Failed {
        program: "wansan bench".to_owned(),
        what: "it named no iops".to_owned(),
        output: printed.to_string(),
    })
}

/// What a load reached, and what the server spent on it.
struct ServerSample {
    iops: f64,
    cpu_us_per_io: f64,
}

impl ServerSample {
    fn take(url: &str, server_id: u32, load: Load) -> Result<Self, PeerError> {
        let time_used = || {
            cpu::time_used(server_id).map_err(|source| PeerError::System {
                program: "server".to_owned(),
                source,
            })
        };
        let before = time_used()?;
        let iops = perf::read(url, load)?.iops;
        let used = time_used()? - before;
        let ios = iops * load.time_s as f64;
        Ok(Self {
            iops,
            cpu_us_per_io: used.as_secs_f64() * 1e6 / ios,
        })
    }
}

/// Our target on a file in memory.
struct OurDisk {
    // Ends before its folder goes: fields drop in order.
    target: wansan::Target,
    _folder: TempDir,
}

impl OurDisk {
    fn start() -> Result<Self, PeerError> {
        let folder = memory_folder()?;
        let disk = filled_disk(folder.path())?;
        let unit = format!("file:{disk}");
        let target = wansan::Target::start(Path::new(WANSAN), &["--lun", &unit])?;
        Ok(Self {
            target,
            _folder: folder,
        })
    }
}

/// tgtd on a file in memory.
struct TgtdDisk {
    // Ends before its folder goes: fields drop in order.
    tgtd: Tgtd,
    _folder: TempDir,
}

impl TgtdDisk {
    fn start() -> Result<Self, PeerError> {
        let folder = memory_folder()?;
        let disk = filled_disk(folder.path())?;
        Ok(Self {
            tgtd: Tgtd::start(Path::new(&disk))?,
            _folder: folder,
        })
    }
}

fn memory_folder() -> Result<TempDir, PeerError> {
    TempDir::with_prefix_in("wansan-bench-", MEMORY_FOLDER).map_err(|source| PeerError::System {
        program: MEMORY_FOLDER.to_owned(),
        source,
    })
}

/// A file without holes, as a hole is cheaper to read than data.
fn filled_disk(folder: &Path) -> Result<String, PeerError> {
    let disk = folder.join("disk.img");
    let fill = || -> std::io::Result<()> {
        let mut file = File::create(&disk)?;
        let chunk: Vec<u8> = (0..1_u32 << 20).map(|at| (at / 7) as u8).collect();
        (0..DISK_BYTES / chunk.len()).try_for_each(|_| file.write_all(&chunk))
    };
    fill().map_err(|source| PeerError::System {
        program: disk.display().to_string(),
        source,
    })?;
    Ok(disk.to_string_lossy().into_owned())
}
