//! What is compared: each question starts what it needs, measures both sides in turns, and ends what
//! it started.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use wansan_peers::compare::{Bound, Comparison, Side, in_turns};
use wansan_peers::haproxy::Haproxy;
use wansan_peers::process::{PeerError, Running};
use wansan_peers::question::Question;

use crate::load::{self, Streams, Target};
use crate::many::many;
use crate::memory::Memory;

/// The first argument of this program when it is to carry flows; the way and the target follow.
pub(crate) const ROLE: &str = "--carry";

/// Turns of each comparison: an odd number, so that a median is a sample.
const TURNS: usize = 5;

/// Those of echoes, of which single ones differ by half.
const ECHO_TURNS: usize = 21;

/// How long each sample takes.
const SAMPLE: Duration = Duration::from_secs(2);

/// Every question, in the order in which they are asked.
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

/// Another process of this program, which prints its address first.
pub(crate) struct Own {
    process: Running,
    pub(crate) address: SocketAddr,
    /// For what it is asked, and what it answers.
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

    /// What it answers to a line.
    pub(crate) fn ask(&mut self, question: &str) -> Result<String, PeerError> {
        let mut line = String::new();
        writeln!(self.stdin, "{question}").map_err(system)?;
        match self.stdout.read_line(&mut line).map_err(system)? {
            0 => Err(system(std::io::ErrorKind::UnexpectedEof.into())),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    /// What memory a relay takes now.
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

fn beside_haproxy(flows: usize) -> Result<Vec<Comparison>, PeerError> {
    let target = Target::sink().map_err(system)?;
    let ours = Own::proxy("relay", target.address)?;
    let other = Haproxy::start(target.address, cores())?;
    let bounds = (Bound::AtLeast(1.0), Bound::AtMost(1.0));
    compare(
        flows,
        &target,
        ("wansan relay", ours.address, ours.process.id()),
        ("HAProxy with splice", other.address(), other.id()),
        bounds,
    )
}

/// The relay beside a bare way. There is no promise; it has bounds and errors to look after, and is
/// held to be not much dearer than the best of them.
fn beside_way(way: &'static str, name: &'static str) -> Result<Vec<Comparison>, PeerError> {
    let mut all = Vec::new();
    for flows in [1, 100] {
        let target = Target::sink().map_err(system)?;
        let ours = Own::proxy("relay", target.address)?;
        let other = Own::proxy(way, target.address)?;
        let bounds = (Bound::AtLeast(0.9), Bound::AtMost(1.1));
        all.extend(compare(
            flows,
            &target,
            ("wansan relay", ours.address, ours.process.id()),
            (name, other.address, other.process.id()),
            bounds,
        )?);
    }
    let target = Target::echo().map_err(system)?;
    let ours = Own::proxy("relay", target.address)?;
    let other = Own::proxy(way, target.address)?;
    let bound = Bound::AtMost(1.2);
    all.push(compare_echo(
        target.address,
        ours.address,
        (name, other.address),
        bound,
    )?);
    Ok(all)
}

fn compare(
    flows: usize,
    target: &Target,
    ours: (&'static str, SocketAddr, u32),
    other: (&'static str, SocketAddr, u32),
    bounds: (Bound, Bound),
) -> Result<Vec<Comparison>, PeerError> {
    let sample = |(_, address, id): (&str, SocketAddr, u32)| {
        load::streams(address, id, target, flows, SAMPLE).map_err(system)
    };
    let (our_samples, other_samples) = in_turns(TURNS, || sample(ours), || sample(other))?;
    let side = |name, samples: &[Streams], value: fn(&Streams) -> f64| Side {
        name,
        samples: samples.iter().map(value).collect(),
    };
    let compared = |question: String, unit, bound, value| Comparison {
        question,
        unit,
        ours: side(ours.0, &our_samples, value),
        other: side(other.0, &other_samples, value),
        bound,
    };
    Ok(vec![
        compared(
            format!("throughput of {flows} stream(s) over loopback"),
            "GiB/s",
            bounds.0,
            |sample: &Streams| sample.gib_per_s,
        ),
        compared(
            format!("processor time of the proxy for {flows} stream(s)"),
            "s/GiB",
            bounds.1,
            |sample: &Streams| sample.cpu_s_per_gib,
        ),
    ])
}

fn echo() -> Result<Vec<Comparison>, PeerError> {
    let target = Target::echo().map_err(system)?;
    let ours = Own::proxy("relay", target.address)?;
    let other = Haproxy::start(target.address, cores())?;
    let bound = Bound::AtMost(1.2);
    let other = ("HAProxy with splice", other.address());
    Ok(vec![compare_echo(
        target.address,
        ours.address,
        other,
        bound,
    )?])
}

/// What a proxy adds: each sample is held against one without any, taken just before it.
fn compare_echo(
    target: SocketAddr,
    ours: SocketAddr,
    (name, other): (&'static str, SocketAddr),
    bound: Bound,
) -> Result<Comparison, PeerError> {
    let sample = |address| {
        let straight = load::echo_p50_us(target, SAMPLE / 4)?;
        let added = load::echo_p50_us(address, SAMPLE / 4)? - straight;
        if added > 0.0 {
            return Ok(added);
        }
        let what = format!("{added:.1} µs are added: the machine does other things as well");
        Err(std::io::Error::other(what))
    };
    let sample = |address| sample(address).map_err(system);
    let (our_samples, other_samples) = in_turns(ECHO_TURNS, || sample(ours), || sample(other))?;
    Ok(Comparison {
        question: "added to the round trip of single bytes, p50".to_owned(),
        unit: "µs",
        ours: Side {
            name: "wansan relay",
            samples: our_samples,
        },
        other: Side {
            name,
            samples: other_samples,
        },
        bound,
    })
}

/// Connections per second beside what is promised: 10,000.
fn connects() -> Result<Vec<Comparison>, PeerError> {
    const PROMISED_PER_S: f64 = 10_000.0;
    const CLIENTS: usize = 8;
    let target = Target::brief(CLIENTS).map_err(system)?;
    let ours = Own::proxy("relay", target.address)?;
    let (samples, promised) = in_turns(
        TURNS,
        || load::connects_per_s(ours.address, CLIENTS, SAMPLE).map_err(system),
        || Ok(PROMISED_PER_S),
    )?;
    Ok(vec![Comparison {
        question: "connections, each with a byte there and back, clients on the same cores"
            .to_owned(),
        unit: "1/s",
        ours: Side {
            name: "wansan relay",
            samples,
        },
        other: Side {
            name: "promised",
            samples: promised,
        },
        bound: Bound::AtLeast(1.0),
    }])
}
