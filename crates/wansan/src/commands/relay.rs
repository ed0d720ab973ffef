//! `wansan relay`: splits TCP connections.

mod file;
pub(super) mod metrics;
mod sides;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use wansan_relay::{
    EceSettings, Fallback, Law, ListenerConfig, Relay, RelayConfig, RelayError, Rules, Standing,
};
use wansan_schema::RelayEnd;
use wansan_tcp::network::Network;
use wansan_trace::units::{parse_bytes, parse_duration};
use wansan_trace::{Kinds, Recorder};

use self::sides::{InArgs, OutArgs};
use super::quantity::{bytes_within, time_span};
use super::record::{RecordPlace, TcpInterval};
use super::{one_line, print_json, print_text, remark, service};

/// Arguments of `wansan relay`.
#[derive(Debug, Args)]
pub(crate) struct RelayArgs {
    /// Read listeners from this file instead of the other options; SIGHUP reloads it
    #[arg(
        long,
        value_name = "RELAY.TOML",
        conflicts_with_all = [
            "listen", "to", "transparent", "buffer", "latency", "law", "EceArgs", "connect_timeout", "networks",
            "InArgs", "OutArgs",
        ]
    )]
    config: Option<PathBuf>,
    /// Listen address; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS:PORT", required_unless_present = "config")]
    listen: Option<String>,
    /// Target of the flows; with --transparent, destinations to intercept: ADDRESS[/PREFIX]:PORT
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "config")]
    to: Option<String>,
    /// Intercept connections routed through this host and keep the client's address (TPROXY)
    #[arg(long)]
    transparent: bool,
    /// Install the nftables table and the policy route that transparent listeners need, and remove
    /// them on exit, instead of printing the commands
    #[arg(long)]
    setup: bool,
    /// Relay buffer per direction of a flow, in addition to the kernel's socket buffers
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "256KiB",
        allow_hyphen_values = true,
        value_parser = buffer
    )]
    buffer: u32,
    /// Bound on the queueing delay in the relay and its sockets' queues [default: none]
    #[arg(long, value_name = "TIME", value_parser = time_span, allow_hyphen_values = true)]
    latency: Option<Duration>,
    /// Control law that enforces --latency: none, window, ece-bound, ece-red or arrival [default:
    /// arrival where eBPF programs can be loaded, else window]
    #[arg(long, value_name = "LAW")]
    law: Option<Law>,
    /// Time limit for one connection attempt to the target
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time_span, allow_hyphen_values = true)]
    connect_timeout: Duration,
    /// Networks or addresses that clients may connect from; repeat for each [default: all]
    #[arg(long = "allow-network", value_name = "ADDRESS/PREFIX")]
    networks: Vec<Network>,
    /// Most concurrent flows; further connections wait in the kernel's accept queue
    #[arg(
        long,
        value_name = "N",
        default_value_t = 32_768,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    flows: u32,
    /// Buffer memory for all flows together; once it is used up, flows continue unbuffered
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "256MiB",
        allow_hyphen_values = true,
        value_parser = parse_bytes
    )]
    memory: u64,
    /// Worker threads that carry flows [default: one per core]
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u16).range(1..=1024)
    )]
    threads: Option<u16>,
    /// On shutdown, how long to wait for flows to finish; 0s resets them at once
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10s",
        allow_hyphen_values = true,
        value_parser = parse_duration
    )]
    drain: Duration,
    /// Serve Prometheus metrics at this address, under /metrics, without authentication. A port
    /// alone means loopback
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = metrics_address)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    tcp: TcpInterval,
    /// Print events as JSON, one per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    record: RecordPlace,
    #[command(flatten)]
    ece: EceArgs,
    #[command(flatten)]
    inward: InArgs,
    #[command(flatten)]
    outward: OutArgs,
}

/// Of laws ece-bound and ece-red.
#[derive(Debug, Args)]
#[command(next_help_heading = "Laws ece-bound and ece-red")]
struct EceArgs {
    /// Bound on the backlog, in bytes [default: what drains within --latency]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    ece_bound: Option<u64>,
    /// ece-red only: how far below the bound signalling starts, with a probability that rises to 1
    /// at the bound [default: half the bound]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    ece_ramp: Option<u64>,
    /// Decide after this many bytes read [default: after each round of reads]
    #[arg(long, value_name = "BYTES", default_value = "0B", hide_default_value = true, value_parser = parse_bytes)]
    ece_every: u64,
}

impl EceArgs {
    fn settings(&self) -> EceSettings {
        EceSettings {
            bound_bytes: self.ece_bound,
            ramp_bytes: self.ece_ramp,
            every_bytes: self.ece_every,
        }
    }
}

/// A buffer's size: the relay's bound from below, and what a process can have from above.
pub(super) fn buffer(text: &str) -> Result<u32, String> {
    bytes_within(text, ListenerConfig::MIN_BUFFER_BYTES as u64, 1 << 30)
}

fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::from(([127, 0, 0, 1], port))),
        Err(_) => text
            .parse()
            .map_err(|_| "write ADDRESS:PORT, such as 127.0.0.1:9861, or a port".to_owned()),
    }
}

impl RelayArgs {
    /// What to listen for, from the file or the other arguments.
    fn listeners(&self) -> Result<Vec<ListenerConfig>> {
        if let Some(path) = &self.config {
            return file::read(path);
        }
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        Ok(vec![ListenerConfig {
            listen: text(&self.listen),
            to: text(&self.to),
            transparent: self.transparent,
            inward: self.inward.settings(),
            outward: self.outward.settings(),
            buffer_bytes: self.buffer as usize,
            latency: self.latency,
            law: self.law,
            ece: self.ece.settings(),
            connect_timeout: self.connect_timeout,
            networks: self.networks.clone(),
        }])
    }

    /// Says in which file what is wrong with the listeners stands, and where, if it stands in one.
    fn locate(&self, listeners: &[ListenerConfig], error: RelayError) -> anyhow::Error {
        match &self.config {
            Some(path) => file::locate(path, listeners, &error),
            None => error.into(),
        }
    }

    /// Has the rules in force that are needed now, and no others; without `--setup` says how.
    fn set_up(&self, relay: &Relay, needed: &[Rules], standing: &mut Standing) -> Result<()> {
        if self.setup {
            return Ok(standing.change(relay, needed)?);
        }
        for rules in needed.iter().filter(|_| !self.json) {
            print_text(|out| write!(out, "{}", rules.script()))?;
        }
        Ok(())
    }

    /// Reads the file again and has `relay` do what it says now; says what came of it. Listeners that
    /// are in force before their rules fail stay so: flows that come by themselves are carried.
    fn reload(&self, relay: &mut Relay, standing: &mut Standing) -> Result<()> {
        let reloaded = self.listeners().and_then(|listeners| {
            let changes = relay.reload(&listeners);
            let changes = changes.map_err(|error| self.locate(&listeners, error))?;
            let rules = rules(relay, &listeners)?;
            Ok((changes, listeners, rules))
        });
        let (changes, listeners, rules) = match reloaded {
            Ok(reloaded) => reloaded,
            Err(error) => {
                remark(&format!("wansan relay: not reloaded: {}", one_line(&error)));
                return Ok(());
            }
        };
        if let Err(error) = self.set_up(relay, &rules, standing) {
            remark(&format!(
                "wansan relay: reloaded, but not all rules were installed; where one failed, the \
                 previous one stays: {}",
                one_line(&error)
            ));
        }
        if self.json {
            let mut event = serde_json::json!({
                "event": "reloaded", "added": changes.added, "removed": changes.removed,
                "changed": changes.changed,
            });
            add_places(&mut event, relay, &rules);
            return print_json(&event.to_string());
        }
        print_text(|out| {
            writeln!(out, "reloaded: {changes}")?;
            write_places(out, relay, &listeners)
        })
    }

    /// Says where it listens.
    fn report_start(
        &self,
        relay: &Relay,
        configs: &[ListenerConfig],
        rules: &[Rules],
        metrics: Option<SocketAddr>,
    ) -> Result<()> {
        if self.json {
            let mut listening = serde_json::json!({ "event": "listening" });
            if let Some(metrics) = metrics {
                listening["metrics"] = metrics.to_string().into();
            }
            add_places(&mut listening, relay, rules);
            return print_json(&listening.to_string());
        }
        print_text(|out| {
            write_places(out, relay, configs)?;
            match metrics {
                Some(metrics) => writeln!(out, "metrics at http://{metrics}/metrics"),
                None => Ok(()),
            }
        })
    }

    /// Says what it has done.
    fn report_end(&self, relay: &Relay, left: usize) -> Result<()> {
        let meter = relay.observer().meter();
        if self.json {
            let reasons = Fallback::ALL.map(|reason| reason.name().to_owned());
            let mut event = serde_json::to_value(RelayEnd {
                accepted: meter.accepted,
                turned_away: meter.turned_away,
                looped: meter.looped,
                finished: meter.finished,
                lost: meter.lost,
                refused: meter.refused,
                unreachable: meter.unreachable,
                timed_out: meter.timed_out,
                failed: meter.failed,
                cut_off: left as u64,
                onward_bytes: meter.onward_bytes,
                back_bytes: meter.back_bytes,
                ece_signals: meter.ece_signals,
                fallbacks: reasons.into_iter().zip(meter.fallbacks).collect(),
            })?;
            event["event"] = "ended".into();
            return print_json(&event.to_string());
        }
        print_text(|out| {
            writeln!(
                out,
                "{} flows: {} finished, {} lost, {} not connected, {left} cut off; {} B onward, {} B back",
                meter.accepted - meter.turned_away - meter.looped,
                meter.finished,
                meter.lost,
                meter.refused + meter.unreachable + meter.timed_out + meter.failed,
                meter.onward_bytes,
                meter.back_bytes,
            )
        })
    }
}

fn addresses(relay: &Relay) -> Vec<String> {
    relay.addresses().iter().map(ToString::to_string).collect()
}

/// What brings packets to the transparent ones among the listeners of `relay`.
fn rules(relay: &Relay, configs: &[ListenerConfig]) -> Result<Vec<Rules>> {
    let listeners = relay.addresses().into_iter().zip(configs);
    let transparent = listeners.filter(|(_, config)| config.transparent);
    let rules = transparent.map(|(address, config)| Rules::new(address, &config.to));
    Ok(rules.collect::<Result<_, _>>()?)
}

/// Where `relay` listens, by which laws, and what brings packets there, in an event.
fn add_places(event: &mut serde_json::Value, relay: &Relay, rules: &[Rules]) {
    let addresses = addresses(relay);
    event["address"] = addresses[0].as_str().into();
    event["addresses"] = addresses.into();
    let laws: Vec<&str> = relay.laws().into_iter().map(Law::name).collect();
    event["laws"] = laws.into();
    if !rules.is_empty() {
        let scripts: Vec<String> = rules.iter().map(Rules::script).collect();
        event["rules"] = scripts.into();
    }
}

/// Where `relay` listens and what comes of it, a line each.
fn write_places(out: &mut dyn Write, relay: &Relay, configs: &[ListenerConfig]) -> io::Result<()> {
    for (config, address) in configs.iter().zip(relay.addresses()) {
        let takes = if config.transparent {
            "intercepts"
        } else {
            "forwards to"
        };
        writeln!(out, "{address} {takes} {}", config.to)?;
    }
    Ok(())
}

/// Carries out `wansan relay`: carries flows until SIGINT or SIGTERM, and reads its file again at
/// SIGHUP. Without one, SIGHUP ends it as well.
///
/// # Errors
/// What makes it impossible to listen.
pub(crate) fn run(args: &RelayArgs) -> Result<ExitCode> {
    let recording = args.record.prepare("relay")?;
    let mut orders = service::Orders::new()?;
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let config = RelayConfig {
        listeners: args.listeners()?,
        threads: args.threads.map_or_else(cores, usize::from),
        max_flows: args.flows as usize,
        memory_bytes: usize::try_from(args.memory).unwrap_or(usize::MAX),
        kinds: Kinds {
            connection: args.record.is_asked(),
            tcp: args.record.is_asked(),
            ..Kinds::NONE
        },
        record_bytes: args.record.budget_bytes(),
        tcp_interval: args.tcp.interval(),
        report: |line| remark(&format!("wansan relay: {line}")),
    };
    let started = Relay::start(&config);
    let mut relay = started.map_err(|error| args.locate(&config.listeners, error))?;
    let metrics = match args.metrics {
        Some(listen) => Some(metrics::serve(listen, relay.observer())?),
        None => None,
    };
    let mut standing = Standing::default();
    let rules = rules(&relay, &config.listeners)?;
    args.set_up(&relay, &rules, &mut standing)?;
    args.report_start(&relay, &config.listeners, &rules, metrics)?;
    let status = |relay: &Relay| format!("relays at {}", addresses(relay).join(", "));
    orders.obey(args.config.is_some(), |reloads| {
        if reloads {
            args.reload(&mut relay, &mut standing)?;
        }
        Ok(status(&relay))
    })?;
    relay.drain(args.drain, || orders.hurries());
    let left = relay.observer().flows_now();
    if left > 0 {
        remark(&format!(
            "wansan relay: {left} flows are still open: they are reset"
        ));
    }
    args.report_end(&relay, left)?;
    let recorders = relay.stop();
    recording.write(&recorders)?;
    let dropped: u64 = recorders.iter().map(Recorder::dropped).sum();
    if dropped > 0 {
        remark(&format!(
            "wansan relay: {dropped} records dropped: raise --record-memory"
        ));
    }
    Ok(ExitCode::SUCCESS)
}
