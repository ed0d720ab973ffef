//! What is asked of a long path, and how it is measured.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use wansan_peers::perf;
use wansan_peers::process::{PeerError, run};
use wansan_peers::program::find;
use wansan_peers::qemu;
use wansan_san::load::Limit;
use wansan_san::load::workload::{Operation, Pattern};

use crate::answer::{Answer, Asked};
use crate::disk::Disks;
use crate::session::{self, Load};
use crate::stream;
use crate::world::{LongPath, ROUND_TRIP, transmission};

/// The world and the disks in it.
pub(crate) struct Stage {
    pub(crate) path: LongPath,
    pub(crate) disks: Disks,
}

/// A question by its short name, for choosing it on the command line.
pub(crate) struct Question {
    pub(crate) name: &'static str,
    pub(crate) measure: fn(&Stage) -> Result<Vec<Answer>>,
}

/// Every question, in the order in which they are asked.
pub(crate) const QUESTIONS: [Question; 5] = [
    Question {
        name: "login",
        measure: login,
    },
    Question {
        name: "one",
        measure: one,
    },
    Question {
        name: "foreign",
        measure: foreign,
    },
    Question {
        name: "random",
        measure: random,
    },
    Question {
        name: "sequential",
        measure: sequential,
    },
];

const PEER: &str = "tgtd + libiscsi";
/// Times that a short thing is measured.
const SHORT_TURNS: usize = 7;
/// Times that a load of some seconds is measured.
const LONG_TURNS: usize = 3;
/// One large I/O.
const LARGE_BYTES: u32 = 4 << 20;
/// One large I/O after the other that come before those that count. Slow start ends with the first
/// or the second, as the window then covers what is asked for; and as they fit into the path's
/// queue nothing is lost, which would halve the window to what a lost frame happened to leave.
const WARM_IOS: usize = 8;
/// What fills the path and then some: 32 MiB in flight.
const SEQUENTIAL_BYTES: u32 = 1 << 20;
const SEQUENTIAL_PARALLEL: u32 = 32;
/// Until slow start is over.
const WARMUP: Duration = Duration::from_secs(2);
const SAMPLE: Duration = Duration::from_secs(2);
const RANDOM_BYTES: u32 = 4096;
const RANDOM_PARALLEL: u32 = 1024;

/// Connecting and logging in.
///
/// libiscsi's part is all of `iscsi-inq` but for its two INQUIRYs and its logout: connecting, both
/// stages of login, and the TEST UNIT READYs that it waits for before it lets its user go on.
fn login(stage: &Stage) -> Result<Vec<Answer>> {
    const ROUND_TRIPS_AFTER: f64 = 3.0;
    let url = stage.disks.our_url();
    let got = turns(SHORT_TURNS, || {
        Ok(round_trips(session::login_time(stage.path.client(), &url)?))
    })?;
    let tgtd = stage.disks.tgtd_url()?;
    let other = turns(SHORT_TURNS, || {
        let url = tgtd.clone();
        let inquiry = stage.on_client(move || {
            let mut command = Command::new(find("iscsi-inq")?);
            run(command.arg(url), ROUND_TRIP * 100)?.success()
        })?;
        Ok(round_trips(inquiry.elapsed) - ROUND_TRIPS_AFTER)
    })?;
    Ok(vec![Answer {
        question: "connect and log in",
        unit: "RTT",
        asked: Asked::AtMost(3.0),
        got,
        other: Some((PEER, other)),
    }])
}

/// One large write and one large read at a time, over a connection whose congestion window covers
/// them already.
fn one(stage: &Stage) -> Result<Vec<Answer>> {
    let tgtd = stage.disks.tgtd_url()?;
    let mut answers = Vec::new();
    for (operation, peers, question, bound) in [
        (
            Operation::Write,
            qemu::Operation::Write,
            "one write of 4 MiB, beyond its transmission",
            2.5,
        ),
        (
            Operation::Read,
            qemu::Operation::Read,
            "one read of 4 MiB, beyond its transmission",
            1.3,
        ),
    ] {
        let got = stage.one_warm(&stage.disks.our_url(), operation)?;
        let url = tgtd.clone();
        let ios = WARM_IOS + SHORT_TURNS;
        let seconds =
            stage.on_client(move || qemu::one_by_one(&url, peers, u64::from(LARGE_BYTES), ios))?;
        let beyond = |seconds: &f64| beyond_transmission(Duration::from_secs_f64(*seconds));
        answers.push(Answer {
            question,
            unit: "RTT",
            asked: Asked::AtMost(bound),
            got,
            other: Some((PEER, seconds[WARM_IOS..].iter().map(beyond).collect())),
        });
    }
    Ok(answers)
}

/// Our initiator's large write to a target that asks for one burst at a time.
fn foreign(stage: &Stage) -> Result<Vec<Answer>> {
    let tgtd = stage.disks.tgtd_url()?;
    let got = stage.one_warm(&tgtd, Operation::Write)?;
    Ok(vec![Answer {
        question: "one write of 4 MiB to tgtd, which asks for one burst at a time",
        unit: "RTT",
        asked: Asked::AtMost(2.5),
        got,
        other: None,
    }])
}

/// Small random reads, as many in flight as the command window lets in by default.
fn random(stage: &Stage) -> Result<Vec<Answer>> {
    let per_round_trip = |iops: f64| iops * ROUND_TRIP.as_secs_f64();
    let load = Load {
        operation: Operation::Read,
        pattern: Pattern::Random,
        block_bytes: RANDOM_BYTES,
        parallel: RANDOM_PARALLEL as usize,
        warmup: WARMUP,
        limit: Limit::Time(SAMPLE),
    };
    let url = stage.disks.our_url();
    let got = turns(LONG_TURNS, || {
        let report = session::run(stage.path.client(), &url, &[load])?;
        Ok(per_round_trip(report.iops))
    })?;
    let tgtd = stage.disks.tgtd_url()?;
    let reached = stage.on_client(move || {
        let load = perf::Load {
            pattern: perf::Pattern::Random,
            block_bytes: u64::from(RANDOM_BYTES),
            parallel: RANDOM_PARALLEL,
            time_s: SAMPLE.as_secs(),
        };
        perf::read(&tgtd, load)
    })?;
    Ok(vec![Answer {
        question: "random reads of 4 KiB, 1024 in flight",
        unit: "per RTT",
        asked: Asked::AtLeast(0.9 * f64::from(RANDOM_PARALLEL)),
        got,
        other: Some((PEER, vec![per_round_trip(reached.iops)])),
    }])
}

/// Sequential I/O beside a bare TCP stream the same way, in turns.
fn sequential(stage: &Stage) -> Result<Vec<Answer>> {
    let (client, storage) = (stage.path.client(), stage.path.storage());
    let url = stage.disks.our_url();
    let tgtd = stage.disks.tgtd_url()?;
    let mut answers = Vec::new();
    for (operation, peers, question, from, to) in [
        (
            Operation::Read,
            qemu::Operation::Read,
            "sequential reads of 1 MiB, 32 in flight, beside one TCP stream",
            storage,
            client,
        ),
        (
            Operation::Write,
            qemu::Operation::Write,
            "sequential writes of 1 MiB, 32 in flight, beside one TCP stream",
            client,
            storage,
        ),
    ] {
        let load = Load {
            operation,
            pattern: Pattern::Sequential,
            block_bytes: SEQUENTIAL_BYTES,
            parallel: SEQUENTIAL_PARALLEL as usize,
            warmup: WARMUP,
            limit: Limit::Time(SAMPLE),
        };
        let mut streams = Vec::new();
        let got = turns(LONG_TURNS, || {
            let stream = stream::bytes_per_s(from, to, WARMUP, SAMPLE)?;
            streams.push(stream);
            Ok(session::run(client, &url, &[load])?.bytes_per_s / stream)
        })?;
        let url = tgtd.clone();
        let peer = stage.on_client(move || {
            let (bytes, ios) = (u64::from(SEQUENTIAL_BYTES), 256);
            qemu::bench(&url, peers, bytes, SEQUENTIAL_PARALLEL, ios)
        })?;
        let stream = crate::answer::median(&streams);
        answers.push(Answer {
            question,
            unit: "of the stream",
            asked: Asked::AtLeast(0.9),
            got,
            other: Some((PEER, vec![peer / stream])),
        });
    }
    Ok(answers)
}

impl Stage {
    /// Runs a peer's program on the client.
    fn on_client<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, PeerError> + Send + 'static,
    ) -> Result<T> {
        Ok(self.path.client().namespace().run(job)?)
    }

    /// Round trips beyond its transmission that one large I/O takes over a connection that has
    /// been warmed up: the median of a few, the least and the most.
    fn one_warm(&self, url: &str, operation: Operation) -> Result<Vec<f64>> {
        let load = |ios: usize| Load {
            operation,
            pattern: Pattern::Sequential,
            block_bytes: LARGE_BYTES,
            parallel: 1,
            warmup: Duration::ZERO,
            limit: Limit::Count(ios as u64),
        };
        let loads = [load(WARM_IOS), load(SHORT_TURNS)];
        let report = session::run(self.path.client(), url, &loads)?;
        let latency = report.latency_ns.context("no I/O was completed")?;
        let taken = [latency.p50, latency.min, latency.max];
        Ok(taken
            .map(|ns| beyond_transmission(Duration::from_nanos(ns)))
            .into())
    }
}

fn turns(count: usize, mut sample: impl FnMut() -> Result<f64>) -> Result<Vec<f64>> {
    (0..count).map(|_| sample()).collect()
}

fn round_trips(time: Duration) -> f64 {
    time.as_secs_f64() / ROUND_TRIP.as_secs_f64()
}

fn beyond_transmission(time: Duration) -> f64 {
    round_trips(time.saturating_sub(transmission(u64::from(LARGE_BYTES))))
}
