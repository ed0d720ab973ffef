//! The comparisons: each starts what it needs, measures both sides alternately, and stops what it started.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use wansan_peers::compare::{Bound, Comparison, Side, in_turns};
use wansan_peers::haproxy::{Haproxy, Splicing};
use wansan_peers::process::{PeerError, Running};
use wansan_peers::question::Question;

use crate::load::{self, Connects, Streams, Target};
use crate::many::many;
use crate::memory::Memory;

/// The first argument of this program when it forwards flows; the way and the target follow.
pub(crate) const ROLE: &str = "--carry";

/// Turns of each comparison: an even number, so that each side goes first equally often, and enough for a confidence
/// interval of the median.
const TURNS: usize = 4;

/// Turns of echoes, of which single ones differ by half.
const ECHO_TURNS: usize = 6;

/// Attempts to measure an echo.
const TRIES: usize = 3;

/// Duration of each sample.
const SAMPLE: Duration = Duration::from_millis(600);

const OURS: &str = "wansan relay";

/// All comparisons, in order.
pub(crate) const QUESTIONS: [Question; 8] = [
    Question {
        name: "one",
        measure: || beside_haproxy(1),
    },
    Question {
        name: "hundred",
        measure: || beside_haproxy(100),
    },
    Question {
        name: "echo",
        measure: echo,
    },
    Question {
        name: "connects",
        measure: connects,
    },
    Question {
        name: "many",
        measure: many,
    },
    Question {
        name: "copy",
        measure: || beside_way("copy", "read and write"),
    },
    Question {
        name: "splice",
        measure: || beside_way("splice", "splice"),
    },
    Question {
        name: "sockmap",
        measure: || beside_way("sockmap", "sockmap"),
    },
];

/// A child process of this program, which prints its address first.
pub(crate) struct Own {
    process: Running,
    pub(crate) address: SocketAddr,
    /// For commands and replies.
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Own {
    /// A proxy.
    fn proxy(way: &str, to: SocketAddr) -> Result<Own, PeerError> {
        Own::start(&[ROLE, way, &to.to_string()])
    }

    pub(crate) fn start(arguments: &[&str]) -> Result<Own, PeerError> {
        let own = std::env::current_exe().map_err(system)?;
        let mut command = Command::new(own);
        command.args(arguments);
        let mut process = Running::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let stdin = process.take_stdin().expect("the command was given a pipe");
        let stdout = process.take_stdout().expect("the command was given a pipe");
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        stdout.read_line(&mut line).map_err(system)?;
        let address = line.trim().parse();
        Ok(Own {
            process,
            address: address.map_err(|_| system(std::io::ErrorKind::InvalidData.into()))?,
            stdin,
            stdout,
        })
    }

    /// Its reply to a line.
    pub(crate) fn ask(&mut self, question: &str) -> Result<String, PeerError> {
        let mut line = String::new();
        writeln!(self.stdin, "{question}").map_err(system)?;
        match self.stdout.read_line(&mut line).map_err(system)? {
            0 => Err(system(std::io::ErrorKind::UnexpectedEof.into())),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    /// A relay's memory use now.
    pub(crate) fn memory(&mut self) -> Result<Memory, PeerError> {
        self.ask("")?.parse().map_err(system)
    }
}

pub(crate) fn system(source: std::io::Error) -> PeerError {
    PeerError::System {
        program: "proxy".to_owned(),
        source,
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A proxy under test.
#[derive(Clone, Copy)]
struct Proxy {
    name: &'static str,
    address: SocketAddr,
    id: u32,
}

impl Own {
    fn as_proxy(&self, name: &'static str) -> Proxy {
        Proxy {
            name,
            address: self.address,
            id: self.process.id(),
        }
    }
}

/// HAProxy with and without splice.
struct Haproxies {
    auto: Haproxy,
    always: Haproxy,
}

impl Haproxies {
    fn start(to: SocketAddr) -> Result<Haproxies, PeerError> {
        Ok(Haproxies {
            auto: Haproxy::start(to, cores(), Splicing::Auto)?,
            always: Haproxy::start(to, cores(), Splicing::Always)?,
        })
    }

    fn as_proxies(&self) -> [Proxy; 2] {
        let proxy = |name, haproxy: &Haproxy| Proxy {
            name,
            address: haproxy.address(),
            id: haproxy.id(),
        };
        [
            proxy("HAProxy, splice-auto", &self.auto),
            proxy("HAProxy, splice-request, -response", &self.always),
        ]
    }
}

fn beside_haproxy(flows: usize) -> Result<Vec<Comparison>, PeerError> {
    let target = Target::sink().map_err(system)?;
    let ours = Own::proxy("relay", target.address)?;
    let haproxies = Haproxies::start(target.address)?;
    let [auto, always] = haproxies.as_proxies();
    let bounds = (Bound::AtLeast(1.0), Bound::AtMost(1.0));
    let proxies = [ours.as_proxy(OURS), auto, always];
    compare(flows, &target, proxies, bounds)
}

/// The relay compared with a minimal way. Nothing is promised: the relay has limits and errors to handle, and must not
/// cost much more than the best of them.
fn beside_way(way: &'static str, name: &'static str) -> Result<Vec<Comparison>, PeerError> {
    let mut all = Vec::new();
    for flows in [1, 100] {
        let target = Target::sink().map_err(system)?;
        let ours = Own::proxy("relay", target.address)?;
        let other = Own::proxy(way, target.address)?;
        let bounds = (Bound::AtLeast(0.9), Bound::AtMost(1.1));
        let proxies = [ours.as_proxy(OURS), other.as_proxy(name)];
        all.extend(compare(flows, &target, proxies, bounds)?);
    }
    let target = Target::echo().map_err(system)?;
    let ours = Own::proxy("relay", target.address)?;
    let other = Own::proxy(way, target.address)?;
    let proxies = [ours.as_proxy(OURS), other.as_proxy(name)];
    all.push(compare_echo(target.address, proxies)?);
    Ok(all)
}

/// Streams through all `proxies`; the first is ours.
fn compare<const PROXIES: usize>(
    flows: usize,
    target: &Target,
    proxies: [Proxy; PROXIES],
    (rate, cost): (Bound, Bound),
) -> Result<Vec<Comparison>, PeerError> {
    let mut sides = proxies.map(|Proxy { address, id, .. }| {
        move || load::streams(address, id, target, flows, SAMPLE).map_err(system)
    });
    let samples = in_turns(
        TURNS,
        sides.each_mut().map(|side| side as &mut dyn FnMut() -> _),
    )?;
    let compared = |question: String, unit, bound, value: fn(&Streams) -> f64| {
        let samples = samples
            .each_ref()
            .map(|of_one| of_one.iter().map(value).collect());
        comparison(question, unit, proxies, samples, bound)
    };
    Ok(vec![
        compared(
            format!("throughput of {flows} stream(s) over loopback"),
            "GiB/s",
            rate,
            |sample| sample.gib_per_s,
        ),
        compared(
            format!("processor time of the proxy for {flows} stream(s)"),
            "s/GiB",
            cost,
            |sample| sample.cpu_s_per_gib,
        ),
    ])
}

fn comparison<const PROXIES: usize>(
    question: String,
    unit: &'static str,
    proxies: [Proxy; PROXIES],
    samples: [Vec<f64>; PROXIES],
    bound: Bound,
) -> Comparison {
    let mut sides = proxies
        .into_iter()
        .zip(samples)
        .map(|(proxy, samples)| Side {
            name: proxy.name,
            samples,
        });
    Comparison {
        question,
        unit,
        ours: sides.next().expect("the first is ours"),
        others: sides.collect(),
        bound,
    }
}

fn echo() -> Result<Vec<Comparison>, PeerError> {
    let target = Target::echo().map_err(system)?;
    let ours = Own::proxy("relay", target.address)?;
    let haproxies = Haproxies::start(target.address)?;
    let [auto, always] = haproxies.as_proxies();
    let proxies = [ours.as_proxy(OURS), auto, always];
    Ok(vec![compare_echo(target.address, proxies)?])
}

/// Added round-trip time of each of `proxies`; the first is ours.
fn compare_echo<const PROXIES: usize>(
    target: SocketAddr,
    proxies: [Proxy; PROXIES],
) -> Result<Comparison, PeerError> {
    // Where a proxy's added time is negative, the machine has slowed down the way without it.
    let sample = |address| {
        for _ in 0..TRIES {
            let added = load::echo_added_p50_us(target, address, SAMPLE / 2).map_err(system)?;
            if added > 0.0 {
                return Ok(added);
            }
        }
        let what = format!("the round trip is shorter through a proxy, {TRIES} times");
        Err(PeerError::Noise(what))
    };
    let mut sides = proxies.map(|proxy| move || sample(proxy.address));
    let samples = in_turns(
        ECHO_TURNS,
        sides.each_mut().map(|side| side as &mut dyn FnMut() -> _),
    )?;
    let question = "added to the round trip of single bytes, p50".to_owned();
    let bound = Bound::AtMost(1.2);
    Ok(comparison(question, "µs", proxies, samples, bound))
}

/// Brief connections, compared with HAProxy and with the promised 10,000 a second. Clients and target use the same
/// cores.
fn connects() -> Result<Vec<Comparison>, PeerError> {
    const PROMISED_PER_S: f64 = 10_000.0;
    const CLIENTS: usize = 8;
    let target = Target::brief(CLIENTS).map_err(system)?;
    let ours = Own::proxy("relay", target.address)?;
    let haproxies = Haproxies::start(target.address)?;
    let [auto, always] = haproxies.as_proxies();
    let proxies = [ours.as_proxy(OURS), auto, always];
    let mut sides = proxies.map(|Proxy { address, id, .. }| {
        move || load::connects(address, id, CLIENTS, SAMPLE).map_err(system)
    });
    let samples = in_turns(
        TURNS,
        sides.each_mut().map(|side| side as &mut dyn FnMut() -> _),
    )?;
    let values = |value: fn(&Connects) -> f64| {
        samples
            .each_ref()
            .map(|of_one| of_one.iter().map(value).collect())
    };
    let question = "connections, each with a byte there and back";
    let per_s: [Vec<f64>; 3] = values(|sample| sample.per_s);
    let beside_promise = Comparison {
        question: format!("{question}, as promised"),
        unit: "1/s",
        ours: Side {
            name: OURS,
            samples: per_s[0].clone(),
        },
        others: vec![Side {
            name: "promised",
            samples: vec![PROMISED_PER_S; TURNS],
        }],
        bound: Bound::AtLeast(1.0),
    };
    let beside_haproxy = comparison(
        question.to_owned(),
        "1/s",
        proxies,
        per_s,
        Bound::AtLeast(1.2),
    );
    let cost = comparison(
        "processor time of the proxy for a connection".to_owned(),
        "µs",
        proxies,
        values(|sample| sample.cpu_us),
        Bound::AtMost(1.0),
    );
    Ok(vec![beside_haproxy, beside_promise, cost])
}
