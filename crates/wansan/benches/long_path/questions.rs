//! What is asked of a long path, and how it is measured.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use wansan_peers::compare::{Bound, in_turns};
use wansan_peers::perf;
use wansan_peers::process::{PeerError, run};
use wansan_peers::program::find;
use wansan_peers::qemu;
use wansan_workload::Limit;
use wansan_workload::sequence::{Operation, Pattern};

use crate::answer::Answer;
use crate::attached;
use crate::disk::Disks;
use crate::session::{self, Load};
use crate::stream::{self, Protocol};
use crate::unequal;
use crate::world::{LongPath, ROUND_TRIP, transmission};

/// The world and the disks in it.
pub(crate) struct Stage {
    pub(crate) path: LongPath,
    pub(crate) disks: Disks,
}

/// A question by its short name, for choosing it on the command line.
pub(crate) struct Question {
    pub(crate) name: &'static str,
    /// Asked only by its name: it takes three minutes.
    pub(crate) on_request: bool,
    pub(crate) measure: fn(&Stage) -> Result<Vec<Answer>>,
}

/// Every question, in the order in which they are asked.
pub(crate) const QUESTIONS: [Question; 7] = [
    Question {
        name: "login",
        on_request: false,
        measure: login,
    },
    Question {
        name: "one",
        on_request: false,
        measure: one,
    },
    Question {
        name: "foreign",
        on_request: false,
        measure: foreign,
    },
    Question {
        name: "random",
        on_request: false,
        measure: random,
    },
    Question {
        name: "sequential",
        on_request: false,
        measure: sequential,
    },
    Question {
        name: "unequal",
        on_request: false,
        measure: unequal::measure,
    },
    Question {
        name: "attached",
        on_request: true,
        measure: attached::measure,
    },
];

const PEER: &str = "tgtd + libiscsi";
/// Turns of what takes a second. An even number, so that each side goes first as often as last.
const SHORT_TURNS: usize = 4;
/// Turns of loads of some seconds.
pub(crate) const LONG_TURNS: usize = 2;
/// One large I/O.
const LARGE_BYTES: u32 = 4 << 20;
/// One large I/O after the other that come before those that count. Slow start ends with the first
/// or the second, as the window then covers what is asked for; and as they fit into the path's
/// queue nothing is lost, which would halve the window to what a lost frame happened to leave.
const WARM_IOS: u64 = 8;
/// What fills the path and then some: 32 MiB in flight.
const SEQUENTIAL_BYTES: u32 = 1 << 20;
const SEQUENTIAL_PARALLEL: u32 = 32;
/// Warm-up of each load, ours as the peer's: until slow start is over.
pub(crate) const WARMUP: Duration = Duration::from_secs(2);
pub(crate) const SAMPLE: Duration = Duration::from_secs(2);
/// The same for a program that counts I/Os: what the path carries in these times, and a little more.
const WARMUP_IOS: u64 = 256;
const SAMPLE_IOS: u64 = 256;
const RANDOM_BYTES: u32 = 4096;
const RANDOM_PARALLEL: u32 = 1024;

/// Connecting and logging in.
///
/// libiscsi's part is all of `iscsi-inq` but for its two INQUIRYs and its logout: connecting, both
/// stages of login, and the TEST UNIT READYs that it waits for before it lets its user go on. The start
/// of its process is a few milliseconds in it.
fn login(stage: &Stage) -> Result<Vec<Answer>> {
    const ROUND_TRIPS_AFTER: f64 = 3.0;
    let url = stage.disks.our_url();
    let tgtd = stage.disks.tgtd_url()?;
    let [got, other] = in_turns(
        SHORT_TURNS,
        [
            &mut || Ok(round_trips(session::login_time(stage.path.client(), &url)?)),
            &mut || {
                let url = tgtd.clone();
                let inquiry = stage.on_client(move || {
                    let mut command = Command::new(find("iscsi-inq")?);
                    run(command.arg(url), ROUND_TRIP * 100)?.success()
                })?;
                anyhow::Ok(round_trips(inquiry.elapsed) - ROUND_TRIPS_AFTER)
            },
        ],
    )?;
    Ok(vec![Answer {
        question: "connect and log in",
        unit: "RTT",
        bound: Bound::AtMost(3.0),
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
        let url = stage.disks.our_url();
        let [got, other] = in_turns(
            SHORT_TURNS,
            [&mut || stage.one_warm(&url, operation), &mut || {
                stage.peers_one_warm(&tgtd, peers)
            }],
        )?;
        answers.push(Answer {
            question,
            unit: "RTT",
            bound: Bound::AtMost(bound),
            got,
            other: Some((PEER, other)),
        });
    }
    Ok(answers)
}

/// Our initiator's large write to a target that asks for one burst at a time.
fn foreign(stage: &Stage) -> Result<Vec<Answer>> {
    let tgtd = stage.disks.tgtd_url()?;
    let [got] = in_turns(
        SHORT_TURNS,
        [&mut || stage.one_warm(&tgtd, Operation::Write)],
    )?;
    Ok(vec![Answer {
        question: "one write of 4 MiB to tgtd, which asks for one burst at a time",
        unit: "RTT",
        bound: Bound::AtMost(2.5),
        got,
        other: None,
    }])
}

/// Small random reads, as many in flight as the default command window admits.
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
    let peers_load = perf::Load {
        pattern: perf::Pattern::Random,
        block_bytes: u64::from(RANDOM_BYTES),
        parallel: RANDOM_PARALLEL,
        warmup_s: WARMUP.as_secs(),
        time_s: SAMPLE.as_secs(),
    };
    let url = stage.disks.our_url();
    let tgtd = stage.disks.tgtd_url()?;
    let [got, other] = in_turns(
        LONG_TURNS,
        [
            &mut || {
                let report = session::run(stage.path.client(), &url, &[load])?;
                Ok(per_round_trip(report.iops))
            },
            &mut || {
                let url = tgtd.clone();
                let reached = stage.on_client(move || perf::read(&url, peers_load))?;
                anyhow::Ok(per_round_trip(reached.iops))
            },
        ],
    )?;
    Ok(vec![Answer {
        question: "random reads of 4 KiB, 1024 in flight",
        unit: "per RTT",
        bound: Bound::AtLeast(0.9 * f64::from(RANDOM_PARALLEL)),
        got,
        other: Some((PEER, other)),
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
        let peers_load = qemu::Load {
            operation: peers,
            block_bytes: u64::from(SEQUENTIAL_BYTES),
            parallel: SEQUENTIAL_PARALLEL,
            warmup_ios: WARMUP_IOS,
            ios: SAMPLE_IOS,
        };
        let [streams, ours, peers] = in_turns(
            LONG_TURNS,
            [
                &mut || stream::bytes_per_s(Protocol::Tcp, from, to, WARMUP, SAMPLE),
                &mut || Ok(session::run(client, &url, &[load])?.bytes_per_s),
                &mut || {
                    let url = tgtd.clone();
                    stage.on_client(move || qemu::bench(&url, peers_load))
                },
            ],
        )?;
        let of_streams = |rates: Vec<f64>| {
            let turns = rates.iter().zip(&streams);
            turns.map(|(rate, stream)| rate / stream).collect()
        };
        answers.push(Answer {
            question,
            unit: "of the stream",
            bound: Bound::AtLeast(0.9),
            got: of_streams(ours),
            other: Some((PEER, of_streams(peers))),
        });
    }
    Ok(answers)
}

impl Stage {
    /// Runs a peer's program on the client.
    pub(crate) fn on_client<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, PeerError> + Send + 'static,
    ) -> Result<T> {
        Ok(self.path.client().namespace().run(job)?)
    }

    /// Round trips beyond its transmission that one large I/O of ours takes over a connection that has
    /// been warmed up.
    fn one_warm(&self, url: &str, operation: Operation) -> Result<f64> {
        let load = |ios| Load {
            operation,
            pattern: Pattern::Sequential,
            block_bytes: LARGE_BYTES,
            parallel: 1,
            warmup: Duration::ZERO,
            limit: Limit::Count(ios),
        };
        let report = session::run(self.path.client(), url, &[load(WARM_IOS), load(1)])?;
        let latency = report.latency_ns.context("no I/O was completed")?;
        Ok(beyond_transmission(Duration::from_nanos(latency.max)))
    }

    /// The same of libiscsi's.
    fn peers_one_warm(&self, url: &str, operation: qemu::Operation) -> Result<f64> {
        let url = url.to_owned();
        let ios = WARM_IOS as usize + 1;
        let bytes = u64::from(LARGE_BYTES);
        let seconds = self.on_client(move || qemu::one_by_one(&url, operation, bytes, ios))?;
        let last = seconds.last().context("no I/O was completed")?;
        Ok(beyond_transmission(Duration::from_secs_f64(*last)))
    }
}

fn round_trips(time: Duration) -> f64 {
    time.as_secs_f64() / ROUND_TRIP.as_secs_f64()
}

fn beyond_transmission(time: Duration) -> f64 {
    round_trips(time.saturating_sub(transmission(u64::from(LARGE_BYTES))))
}
