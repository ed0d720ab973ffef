//! Many sessions of one target: what they cost, and what each of them gets.

use std::io;
use std::path::Path;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use wansan_peers::compare::{Bound, Comparison, Side, in_turns};
use wansan_peers::cpu;
use wansan_peers::memory;
use wansan_peers::process::PeerError;
use wansan_peers::wansan::{TARGET_NAME, Target};
use wansan_server::descriptors;

use crate::crowd::{Crowd, Reached};
use crate::exchanges::{Answering, Exchanges};
use crate::loads::{SAMPLE, TURNS, WANSAN};

/// Bytes of the unit: few enough to leave processors' caches to the sessions.
const UNIT_BYTES: u64 = 64 << 20;
const UNIT: &str = "memory:64MiB";

/// Sessions with little to do each, and what they have in flight ...
const MANY: (usize, usize) = (1000, 4);
/// ... beside as much in all from few.
const FEW: (usize, usize) = (8, 500);

/// What a session may take of the target's memory while it is idle.
const IDLE_BYTES: f64 = 65_536.0;
/// How long after its last I/O a session counts as idle.
const IDLE_AFTER: Duration = Duration::from_secs(3);

/// Sessions that log in, and the seconds that they may take.
const LOGINS: (usize, f64) = (10_000, 30.0);
/// Descriptors of a process for other things than sessions.
const OTHER_DESCRIPTORS: usize = 200;

/// Sessions that share a target, each with the same in flight but for the first.
const SHARING: (usize, usize) = (64, 4);
/// How much more that one asks for.
const TIMES_MORE: usize = 256;

fn start(arguments: &[&str]) -> Result<Target, PeerError> {
    Target::start(Path::new(WANSAN), &[&["--lun", UNIT], arguments].concat())
}

fn log_in(target: &Target, who: &str, count: usize) -> Result<Crowd, PeerError> {
    // Each takes a descriptor here, and one of the target's.
    let _ = descriptors::raise();
    Crowd::log_in((target.address(), TARGET_NAME), who, count, UNIT_BYTES)
}

/// What many sessions reach and cost.
pub(crate) fn sessions() -> Result<Vec<Comparison>, PeerError> {
    let mut comparisons = many_beside_few()?;
    comparisons.extend(beside_exchanges()?);
    Ok(comparisons)
}

/// Rate, latency and memory of many sessions.
fn many_beside_few() -> Result<Vec<Comparison>, PeerError> {
    let target = start(&[])?;
    // The unit's memory is there before that of sessions is counted.
    let mut few = log_in(&target, "few", FEW.0)?;
    few.read(|_| FEW.1, SAMPLE)?;
    thread::sleep(IDLE_AFTER);
    let before_bytes = resident_bytes(&target)?;
    let mut many = log_in(&target, "many", MANY.0)?;
    let [of_many, of_few] = in_turns(
        TURNS,
        [
            &mut || Sample::take(&target, &mut many, MANY.1),
            &mut || Sample::take(&target, &mut few, FEW.1),
        ],
    )?;
    thread::sleep(IDLE_AFTER);
    let idle_bytes = resident_bytes(&target)? - before_bytes;
    let of = |samples: &[Sample], value: fn(&Sample) -> f64| samples.iter().map(value).collect();
    let load = format!("{} sessions with {} in flight each", MANY.0, MANY.1);
    let rate = Comparison {
        question: format!(
            "sessions: 4 KiB random reads, {load}, beside as much from {}",
            FEW.0
        ),
        unit: "I/O/s",
        ours: Side {
            name: "many sessions",
            samples: of(&of_many, |sample| sample.reached.iops()),
        },
        others: vec![Side {
            name: "few sessions",
            samples: of(&of_few, |sample| sample.reached.iops()),
        }],
        bound: Bound::AtLeast(0.9),
    };
    let cost = Comparison {
        question: format!("sessions: processor time of the target, {load}"),
        unit: "µs/I/O",
        ours: Side {
            name: "many sessions",
            samples: of(&of_many, |sample| sample.cpu_us_per_io),
        },
        others: vec![Side {
            name: "few sessions",
            samples: of(&of_few, |sample| sample.cpu_us_per_io),
        }],
        bound: Bound::AtMost(1.1),
    };
    let latency = Comparison {
        question: format!("sessions: latency of 4 KiB random reads, {load}"),
        unit: "µs",
        ours: Side {
            name: "of 99 in 100, at most",
            samples: of(&of_many, |sample| sample.reached.latency_us(0.99)),
        },
        others: vec![Side {
            name: "of half, at most",
            samples: of(&of_many, |sample| sample.reached.latency_us(0.5)),
        }],
        bound: Bound::AtMost(2.0),
    };
    let memory = Comparison {
        question: format!(
            "sessions: memory of one of {} that are idle after a load",
            MANY.0
        ),
        unit: "bytes",
        ours: Side {
            name: "wansan target",
            samples: vec![idle_bytes / MANY.0 as f64],
        },
        others: vec![promised(IDLE_BYTES)],
        bound: Bound::AtMost(1.0),
    };
    Ok(vec![rate, cost, latency, memory])
}

/// What many sessions and few cost at both ends together, beside bare exchanges over as many connections: no way to serve
/// them that leaves TCP to the kernel costs less than those.
fn beside_exchanges() -> Result<Vec<Comparison>, PeerError> {
    let target = start(&[])?;
    let mut many = log_in(&target, "many", MANY.0)?;
    let mut few = log_in(&target, "few", FEW.0)?;
    let bare = Answering::start()?;
    let mut bare_many = Exchanges::connect(&bare, MANY.0)?;
    let mut bare_few = Exchanges::connect(&bare, FEW.0)?;
    let read = |crowd: &mut Crowd, in_flight| {
        let read = || Ok(crowd.read(|_| in_flight, SAMPLE)?.all_reads);
        both_ends_us(target.id(), read)
    };
    let exchange = |exchanges: &mut Exchanges, in_flight| {
        both_ends_us(bare.id(), || exchanges.exchange(in_flight, SAMPLE))
    };
    let [many_us, few_us, bare_many_us, bare_few_us] = in_turns(
        TURNS,
        [
            &mut || read(&mut many, MANY.1),
            &mut || read(&mut few, FEW.1),
            &mut || exchange(&mut bare_many, MANY.1),
            &mut || exchange(&mut bare_few, FEW.1),
        ],
    )?;
    let times = |many: &[f64], few: &[f64]| -> Vec<f64> {
        let turns = many.iter().zip(few);
        turns.map(|(many, few)| many / few).collect()
    };
    let factor = Comparison {
        question: format!(
            "sessions: processor time of both ends for each read, {} sessions over {}",
            MANY.0, FEW.0
        ),
        unit: "times",
        ours: Side {
            name: "sessions",
            samples: times(&many_us, &few_us),
        },
        others: vec![Side {
            name: "bare exchanges",
            samples: times(&bare_many_us, &bare_few_us),
        }],
        bound: Bound::AtMost(1.0),
    };
    let cost = Comparison {
        question: format!(
            "sessions: processor time of both ends, {} connections with {} in flight each",
            MANY.0, MANY.1
        ),
        unit: "µs/I/O",
        ours: Side {
            name: "sessions",
            samples: many_us,
        },
        others: vec![Side {
            name: "bare exchanges",
            samples: bare_many_us,
        }],
        bound: Bound::AtMost(2.0),
    };
    Ok(vec![factor, cost])
}

/// The processor time of the process `server` and of this one for each of what `load` does, in µs.
fn both_ends_us(
    server: u32,
    load: impl FnOnce() -> Result<u64, PeerError>,
) -> Result<f64, PeerError> {
    let time_used = || -> Result<Duration, PeerError> {
        let of_server = cpu::time_used(server).map_err(unreadable)?;
        Ok(of_server + cpu::time_used(process::id()).map_err(unreadable)?)
    };
    let before = time_used()?;
    let done = load()?;
    let used = time_used()? - before;
    Ok(used.as_secs_f64() * 1e6 / done as f64)
}

/// What a load reached, and what the target spent on it.
struct Sample {
    reached: Reached,
    cpu_us_per_io: f64,
}

impl Sample {
    fn take(target: &Target, crowd: &mut Crowd, in_flight: usize) -> Result<Self, PeerError> {
        let time_used = || cpu::time_used(target.id()).map_err(unreadable);
        let before = time_used()?;
        let reached = crowd.read(|_| in_flight, SAMPLE)?;
        let used = time_used()? - before;
        let cpu_us_per_io = used.as_secs_f64() * 1e6 / reached.all_reads as f64;
        Ok(Sample {
            reached,
            cpu_us_per_io,
        })
    }
}

/// What each gets where one asks for much more. The target has one thread, which is what they share.
pub(crate) fn fairness() -> Result<Vec<Comparison>, PeerError> {
    let target = start(&["--threads", "1"])?;
    let mut crowd = log_in(&target, "sharing", SHARING.0)?;
    let in_flight = |place| match place {
        0 => TIMES_MORE * SHARING.1,
        _ => SHARING.1,
    };
    let [reached] = in_turns(TURNS, [&mut || crowd.read(in_flight, SAMPLE)])?;
    Ok(vec![Comparison {
        question: format!(
            "sessions: fairness (Jain) among {}, of which one asks for {TIMES_MORE} times as much",
            SHARING.0
        ),
        unit: "of 1",
        ours: Side {
            name: "wansan target",
            samples: reached.iter().map(Reached::fairness).collect(),
        },
        others: vec![Side {
            name: "equal shares",
            samples: vec![1.0; TURNS],
        }],
        bound: Bound::AtLeast(0.95),
    }])
}

/// How long logins take, one after the other but for those that wait for an answer.
pub(crate) fn logins() -> Result<Vec<Comparison>, PeerError> {
    let most = descriptors::raise().saturating_sub(OTHER_DESCRIPTORS);
    let count = LOGINS.0.min(most);
    let target = start(&[])?;
    let began = Instant::now();
    let crowd = log_in(&target, "login", count)?;
    let took_s = began.elapsed().as_secs_f64();
    drop(crowd);
    Ok(vec![Comparison {
        question: format!("sessions: logins of {count}"),
        unit: "s",
        ours: Side {
            name: "wansan target",
            samples: vec![took_s],
        },
        others: vec![promised(LOGINS.1)],
        bound: Bound::AtMost(1.0),
    }])
}

fn promised(value: f64) -> Side {
    Side {
        name: "promised",
        samples: vec![value],
    }
}

/// What the kernel says the target's process has in memory.
fn resident_bytes(target: &Target) -> Result<f64, PeerError> {
    memory::resident_bytes(target.id()).map_err(unreadable)
}

fn unreadable(source: io::Error) -> PeerError {
    PeerError::System {
        program: "processor times and memory".to_owned(),
        source,
    }
}
