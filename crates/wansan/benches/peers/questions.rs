//! What is compared: each question starts what it needs, measures both sides in turns, and ends
//! what it started.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use wansan_peers::compare::{Bound, Comparison, Side, in_turns};
use wansan_peers::perf::{self, Load};
use wansan_peers::process::PeerError;
use wansan_peers::qemu::Operation;
use wansan_peers::question::Question;
use wansan_peers::wansan;

use crate::disks::{Disk, memory_folder};
use crate::files;
use crate::limit;
use crate::loads::{SMALL_RANDOM, TURNS, WANSAN, our_iops};
use crate::many;
use crate::targets;

/// Turns where the difference looked for is far below what one sample differs from the next.
const MANY_TURNS: usize = 18;

/// Every question, in the order in which they are asked.
pub(crate) const QUESTIONS: [Question; 12] = [
    Question {
        name: "target",
        measure: targets::random_in_memory,
    },
    Question {
        name: "initiator",
        measure: initiator,
    },
    Question {
        name: "limit",
        measure: limit::limit,
    },
    Question {
        name: "sequential",
        measure: targets::sequential_in_memory,
    },
    Question {
        name: "file",
        measure: targets::on_a_file_system,
    },
    Question {
        name: "file-direct",
        measure: targets::without_page_cache,
    },
    Question {
        name: "file-peers",
        measure: files::beside_tgtd_and_qemu,
    },
    Question {
        name: "sessions",
        measure: many::sessions,
    },
    Question {
        name: "fairness",
        measure: many::fairness,
    },
    Question {
        name: "logins",
        measure: many::logins,
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

/// Our load generator and iscsi-perf on the same target.
fn initiator() -> Result<Vec<Comparison>, PeerError> {
    let disk = Disk::ours(memory_folder()?)?;
    let [ours, other] = in_turns(
        TURNS,
        [
            &mut || our_iops(&disk.url, Operation::Read, SMALL_RANDOM, &[]),
            &mut || Ok(perf::read(&disk.url, SMALL_RANDOM)?.iops),
        ],
    )?;
    Ok(vec![Comparison {
        question: "initiator: 4 KiB random reads from wansan target, 32 in flight, one connection"
            .to_owned(),
        unit: "I/O/s",
        ours: Side {
            name: "wansan bench",
            samples: ours,
        },
        others: vec![Side {
            name: "iscsi-perf",
            samples: other,
        }],
        bound: Bound::AtLeast(1.5),
    }])
}

/// Both ends of ours with every record kind on, and without records. Each sample has a target of
/// its own, so that no sample finds the memory for records full already.
fn recording() -> Result<Vec<Comparison>, PeerError> {
    let [ours, other] = in_turns(
        MANY_TURNS,
        [
            &mut || {
                let folder = memory_folder()?;
                let path = folder.path().to_string_lossy();
                let recorded = |host| ["--record", &path, "--host", host];
                let mut arguments = vec!["--lun", "memory:256MiB"];
                arguments.extend(recorded("target"));
                let target = wansan::Target::start(Path::new(WANSAN), &arguments)?;
                let more = recorded("initiator");
                let iops = our_iops(&target.url(0), Operation::Read, SMALL_RANDOM, &more)?;
                target.stop()?;
                Ok(iops)
            },
            &mut || {
                let target = wansan::Target::start(Path::new(WANSAN), &["--lun", "memory:256MiB"])?;
                our_iops(&target.url(0), Operation::Read, SMALL_RANDOM, &[])
            },
        ],
    )?;
    Ok(vec![Comparison {
        question: "recording: 4 KiB random reads, 32 in flight, records at both ends".to_owned(),
        unit: "I/O/s",
        ours: Side {
            name: "with every record kind",
            samples: ours,
        },
        others: vec![Side {
            name: "without records",
            samples: other,
        }],
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
    let load = Load {
        parallel: WATCHED,
        ..SMALL_RANDOM
    };
    let iops = || {
        let over = ["--connections", &connections];
        our_iops(&target.url(0), Operation::Read, load, &over)
    };
    let mut traced = true;
    let [ours, other] = in_turns(
        MANY_TURNS,
        [
            &mut || {
                let watch = Watching::start(&port)?;
                traced &= watch.traced;
                iops()
            },
            &mut || iops(),
        ],
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
        others: vec![Side {
            name: "not watched",
            samples: other,
        }],
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
