//! The emulators under test: each is given a path and two programs to run at its ends.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use wansan_lab::emulator::{Config, Direction, Emulator, Route, Statistics};
use wansan_lab::netem::Netem;
use wansan_lab::plan::{Phase, Plan, Scenario};
use wansan_lab::world::{Interface, ProcessError, TcpSettings, World};
use wansan_path::{Capacity, Effects, GilbertElliott, Limit, LossModel, Probability, Rate};
use wansan_trace::{Kinds, Recorder};

use super::MTU_BYTES;
use super::cores;
use super::flow::{Flow, Ideal, Seen};

/// Large enough that a delayed sender causes no gap at 5 Gbit/s.
const QUEUE_BYTES: u64 = 32 << 20;
/// Longer than any measurement.
const LIMIT: Duration = Duration::from_secs(60);
/// The address of rattan's right host.
const RATTAN_RIGHT: Ipv4Addr = Ipv4Addr::new(10, 2, 1, 1);

/// The loss model of a path.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lossy {
    /// Independent, with this probability.
    Bernoulli(f64),
    /// In bursts: a loss follows a delivered packet with probability p, and another loss with 1 − r (the simple Gilbert
    /// model).
    Gilbert { p: f64, r: f64 },
}

/// A path, the same in both directions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Path {
    /// 0 for unlimited.
    pub(crate) bits_per_s: u64,
    pub(crate) delay: Duration,
    pub(crate) loss: Option<Lossy>,
}

/// An emulator, and what it needs to run.
pub(crate) enum Arm<'a> {
    Wansan(&'a World),
    /// The path of its program.
    Rattan(PathBuf),
    /// The TCP settings of its hosts.
    Netem(TcpSettings),
}

/// The result at the far end, and our emulator's own statistics.
pub(crate) struct Outcome<T> {
    pub(crate) seen: T,
    pub(crate) statistics: Option<Statistics>,
}

impl Arm<'_> {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Arm::Wansan(_) => "wansan",
            Arm::Rattan(_) => "rattan",
            Arm::Netem(_) => "netem",
        }
    }

    /// Bytes of a packet that its path counts: ours and netem's include the Ethernet header, rattan's do not.
    pub(crate) fn counted_bytes(&self, frame_bytes: usize) -> usize {
        match self {
            Arm::Wansan(_) | Arm::Netem(_) => frame_bytes,
            Arm::Rattan(_) => frame_bytes - 14,
        }
    }

    /// Sends a flow through a path, and returns the sink's result.
    pub(crate) fn flow(
        &self,
        path: &Path,
        flow: Flow,
        count_only: bool,
    ) -> Result<Outcome<Seen>, String> {
        let ideal = Ideal {
            frame_bytes: self.counted_bytes(flow.frame_bytes),
            bits_per_s: path.bits_per_s,
            delay_ns: path.delay.as_nanos() as u64,
            count_only,
        };
        let json = |value: Result<String, serde_json::Error>| value.expect("plain numbers");
        let send = |to| {
            [
                "send".to_owned(),
                json(serde_json::to_string(&Flow { to, ..flow })),
            ]
        };
        let sink = ["sink".to_owned(), json(serde_json::to_string(&ideal))];
        let outcome = self.run(path, send, sink)?;
        let seen = serde_json::from_str(&outcome.seen).map_err(|error| error.to_string())?;
        Ok(Outcome {
            seen,
            statistics: outcome.statistics,
        })
    }

    /// The goodput of a TCP stream through a path, in bits per second.
    pub(crate) fn stream(&self, path: &Path, time: Duration) -> Result<Outcome<f64>, String> {
        let time = time.as_millis().to_string();
        let source = |to: Ipv4Addr| ["stream".to_owned(), format!("{to} {time}")];
        let sink = ["stream-sink".to_owned(), time.clone()];
        let outcome = self.run(path, source, sink)?;
        Ok(Outcome {
            seen: outcome.seen.parse().map_err(|_| outcome.seen)?,
            statistics: outcome.statistics,
        })
    }

    /// Runs this program in a role at each end of a path; returns the last line of the right one.
    fn run(
        &self,
        path: &Path,
        left: impl Fn(Ipv4Addr) -> [String; 2],
        right: [String; 2],
    ) -> Result<Outcome<String>, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        match self {
            Arm::Wansan(world) => {
                let start = || Emulator::start(world.wan().handle(), config(world, path));
                let emulator = cores::on_last(start).map_err(|error| error.to_string())?;
                let emulator = emulator.map_err(|error| error.to_string())?;
                let seen = between_hosts(world, &program, left, right)?;
                let report = emulator.stop().map_err(|error| error.to_string())?;
                Ok(Outcome {
                    seen,
                    statistics: Some(report.statistics),
                })
            }
            Arm::Netem(tcp) => {
                let text = |error: &dyn std::fmt::Display| error.to_string();
                let scenario = netem_scenario(path, tcp)?;
                let world = World::build(&scenario.topology).map_err(|error| text(&error))?;
                let _netem = Netem::start(&world, &scenario, 1).map_err(|error| text(&error))?;
                Ok(Outcome {
                    seen: between_hosts(&world, &program, left, right)?,
                    statistics: None,
                })
            }
            Arm::Rattan(rattan) => {
                let program = program.to_string_lossy();
                let mut text = rattan_path(path);
                for (side, [role, argument]) in [("left", left(RATTAN_RIGHT)), ("right", right)] {
                    let _ = writeln!(
                        text,
                        "{side} = ['{program}', '--role', '{role}', '{argument}']"
                    );
                }
                let seen = run_rattan(rattan, &text)?;
                Ok(Outcome {
                    seen,
                    statistics: None,
                })
            }
        }
    }
}

/// Runs `program` in a role on each of a world's two hosts; returns the last line of the second one.
fn between_hosts(
    world: &World,
    program: &std::path::Path,
    left: impl Fn(Ipv4Addr) -> [String; 2],
    right: [String; 2],
) -> Result<String, String> {
    let [west, east] = world.nodes() else {
        return Err("two hosts".to_owned());
    };
    let text = |error: ProcessError| error.to_string();
    let command = |role: [String; 2]| {
        let mut command = Command::new(program);
        command.arg("--role").args(role);
        command
    };
    let mut sink = east.start("sink", command(right)).map_err(text)?;
    sink.line("be ready", LIMIT).map_err(text)?;
    let source = west.start("source", command(left(east.address())));
    let source = source.and_then(|source| source.succeed(LIMIT));
    source.map_err(text)?;
    let lines = sink.succeed(LIMIT).map_err(text)?;
    Ok(lines.last().cloned().unwrap_or_default())
}

/// A plan of that path by netem, whose hosts have these TCP settings.
fn netem_scenario(path: &Path, tcp: &TcpSettings) -> Result<Scenario, String> {
    let mut effects = format!("delay = '{}us'\n", path.delay.as_micros());
    if path.bits_per_s > 0 {
        let packets = QUEUE_BYTES / (u64::from(MTU_BYTES) + 14);
        let _ = writeln!(effects, "rate = '{}bit/s'", path.bits_per_s);
        let _ = writeln!(effects, "queue = '{packets}packets'");
    }
    match path.loss {
        Some(Lossy::Bernoulli(share)) => {
            let _ = writeln!(effects, "loss = '{}%'", share * 100.0);
        }
        Some(Lossy::Gilbert { p, r }) => {
            let _ = writeln!(
                effects,
                "loss = {{ kind = 'gilbert-elliott', p = '{}%', r = '{}%' }}",
                p * 100.0,
                r * 100.0
            );
        }
        None => {}
    }
    let text = format!(
        "title = 'netem'\nworld = {{ emulator = 'netem' }}\n\
         host = [{{ name = 'west' }}, {{ name = 'east' }}]\n\
         [[path]]\nbetween = ['west', 'east']\n{effects}\
         [target]\nhost = 'east'\nluns = ['memory:1MiB']\n\
         [[initiator]]\nhost = 'west'\n[workload]\ntime = '1s'\n\
         [trace]\nkinds = ['io']\n"
    );
    let cells = Plan::parse(std::path::Path::new("netem.toml"), &text)
        .and_then(|plan| plan.cells(Phase::Planned, &[]));
    let cell = cells.map_err(|error| error.to_string())?.pop();
    let mut scenario = cell.expect("a plan has a cell").scenario;
    for node in &mut scenario.topology.nodes {
        node.tcp = tcp.clone();
    }
    Ok(scenario)
}

fn config(world: &World, path: &Path) -> Config {
    let rate = Rate::from_bits_per_s(path.bits_per_s);
    let loss = path.loss.map_or(LossModel::NONE, |loss| match loss {
        Lossy::Bernoulli(share) => {
            LossModel::Bernoulli(Probability::new(share).expect("a probability"))
        }
        Lossy::Gilbert { p, r } => {
            LossModel::GilbertElliott(GilbertElliott::new(p, r, 0.0, 1.0).expect("probabilities"))
        }
    });
    let effects = Effects {
        loss,
        capacity: rate.map_or(Capacity::Unlimited, Capacity::from),
        queue_limit: Limit::bytes(QUEUE_BYTES),
        delay: path.delay,
        ..Effects::default()
    };
    let direction = |name: &str, seed| {
        let chain = effects.chain(seed).expect("no jitter, and drop-tail");
        Direction::new(name, chain)
    };
    let interfaces = world.nodes().iter().flat_map(|node| node.interfaces());
    let ports = interfaces.filter_map(Interface::port);
    let route = |from, to, direction| Route {
        from,
        to,
        direction,
    };
    Config {
        ports: ports.collect(),
        directions: vec![direction("wan:forward", 1), direction("wan:back", 2)],
        routes: vec![route(0, 1, 0), route(1, 0, 1)],
        mtu_bytes: MTU_BYTES as usize,
        sample_interval: Duration::from_millis(10),
        recorder: Recorder::new(
            Kinds {
                path: true,
                ..Kinds::NONE
            },
            64 << 20,
        ),
    }
}

/// rattan's configuration of a path, without the commands.
fn rattan_path(path: &Path) -> String {
    let mut text = "[env]\nmode = 'Isolated'\n".to_owned();
    let mut links = String::new();
    for (way, from, to) in [("up", "left", "right"), ("down", "right", "left")] {
        let mut last = from.to_owned();
        let mut cell = |kind: &str, body: String| {
            let name = format!("{way}_{kind}").to_lowercase();
            let _ = writeln!(text, "[cells.{name}]\ntype = '{kind}'\n{body}");
            let _ = writeln!(links, "{last} = '{name}'");
            last = name;
        };
        match path.loss {
            Some(Lossy::Bernoulli(share)) => cell("Loss", format!("pattern = [{share:?}]")),
            Some(Lossy::Gilbert { p, r }) => {
                cell("Loss", format!("pattern = [{p:?}, {:?}]", 1.0 - r));
            }
            None => {}
        }
        if path.bits_per_s > 0 {
            let body = format!(
                "bandwidth = '{}bps'\nqueue = 'DropTail'\nqueue_config = {{ byte_limit = {QUEUE_BYTES} }}",
                path.bits_per_s
            );
            cell("Bw", body);
        }
        cell("Delay", format!("delay = '{}us'", path.delay.as_micros()));
        let _ = writeln!(links, "{last} = '{to}'");
    }
    format!("{text}[links]\n{links}[commands]\n")
}

fn run_rattan(rattan: &PathBuf, config: &str) -> Result<String, String> {
    let told = |error: std::io::Error| error.to_string();
    let mut file = tempfile::Builder::new()
        .suffix(".toml")
        .tempfile()
        .map_err(told)?;
    file.write_all(config.as_bytes()).map_err(told)?;
    let output = Command::new(rattan)
        .args(["run", "--right-stdout", "--config"])
        .arg(file.path())
        .stdin(Stdio::null())
        .output()
        .map_err(told)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().rfind(|line| *line != "ready");
    match last {
        Some(line) if output.status.success() => Ok(line.to_owned()),
        _ => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let why = stderr.lines().next_back().unwrap_or("it gave no result");
            Err(why.to_owned())
        }
    }
}
