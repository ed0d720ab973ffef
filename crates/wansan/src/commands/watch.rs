//! `wansan watch`: shows the TCP connections of this computer live.

mod relay;
mod sink;

use std::io::IsTerminal;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use wansan_settings::record::RecordSettings;
use wansan_tcp::expression::{Expression, ExpressionError};
use wansan_tcp::watch::{
    EVENT_BYTES, Ending, LEAST_INTERVAL, Namespace, Process, Watch, WatchConfig,
};
use wansan_trace::units;
use wansan_watch::{Metrics, Page, Screen, Sink, describe_method};

use super::options::Options;
use super::{record, remark};
use sink::{Printed, Recorded, Remarks};

/// Arguments of `wansan watch`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("output").args(["json", "web", "prometheus"]))]
pub(crate) struct WatchArgs {
    /// Only connections that match this filter, in the syntax of ss: src, dst, sport, dport, and,
    /// or, not and parentheses, such as dst 10.0.0.0/8 and dport = 3260
    #[arg(value_name = "EXPRESSION")]
    expression: Vec<String>,
    /// Only connections with this port at either end
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Only connections of this process; the watch ends when the process does
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Connections in this network namespace: a name known to `ip netns`, or a path such as
    /// /proc/PID/ns/net
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Flows of the relay that serves its metrics here (wansan relay --metrics), a line for each
    /// and one for the total; a port alone means 127.0.0.1
    #[arg(
        long,
        value_name = "[ADDRESS:]PORT",
        value_parser = here_or_there,
        conflicts_with_all = ["expression", "port", "pid", "netns", "web", "prometheus", "record"]
    )]
    relay: Option<SocketAddr>,
    /// Sampling interval, at least 1ms; a relay is polled once a second at most
    #[arg(
        long,
        value_name = "TIME",
        default_value = "100ms",
        allow_hyphen_values = true,
        value_parser = interval
    )]
    interval: Duration,
    /// Print all records as JSON, one per line
    #[arg(long)]
    json: bool,
    /// Serve a live page here, with graphs of windows and RTTs; a port alone means 127.0.0.1; other
    /// addresses are open to anyone who can reach them
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = here_or_there)]
    web: Option<SocketAddr>,
    /// Serve Prometheus metrics here, under /metrics; a port alone means 127.0.0.1; other addresses
    /// are open to anyone who can reach them
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = here_or_there)]
    prometheus: Option<SocketAddr>,
    #[command(flatten)]
    record: Options<RecordSettings>,
}

/// Parses an address with a port, or a port on loopback.
pub(super) fn here_or_there(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    let wanted = "give a port, or an address with one such as 10.0.0.1:8080";
    text.parse().map_err(|_| wanted.to_owned())
}

fn interval(text: &str) -> Result<Duration, String> {
    match units::parse_duration(text) {
        Ok(asked) if asked < LEAST_INTERVAL => Err("give at least 1ms".to_owned()),
        Ok(asked) if asked > Duration::from_secs(3600) => Err("give at most 1h".to_owned()),
        Ok(asked) => Ok(asked),
        Err(error) => Err(error.to_string()),
    }
}

impl WatchArgs {
    fn config(&self) -> Result<WatchConfig> {
        Ok(WatchConfig {
            filter: self.filter()?,
            process: self.pid.map(|id| Process { id }),
            namespace: self.netns.as_deref().map(Namespace::named),
            interval: self.interval,
            event_bytes: Some(EVENT_BYTES),
        })
    }

    fn filter(&self) -> Result<Option<Expression>, ExpressionError> {
        let port = self.port.map(Expression::port);
        let given = match &self.expression[..] {
            [] => None,
            words => Some(words.join(" ").parse()?),
        };
        Ok(match (port, given) {
            (Some(port), Some(given)) => Some(port.and(given)),
            (port, given) => port.or(given),
        })
    }
}

/// Runs `wansan watch` until SIGINT, SIGTERM or SIGHUP, or until the watched process exits.
///
/// # Errors
/// The error that prevents watching, displaying or storing.
pub(crate) fn run(args: &WatchArgs) -> Result<ExitCode> {
    if let Some(address) = args.relay {
        let stop = until_told()?;
        return relay::watch(address, args.interval, args.json, &stop);
    }
    let config = args.config()?;
    let place = args.record.settings()?;
    let records = place.is_asked();
    let elsewhere = args.json || args.web.is_some() || args.prometheus.is_some();
    let on_screen = !elsewhere && std::io::stdout().is_terminal();
    if !on_screen && !elsewhere && !records {
        bail!(
            "standard output is not a terminal: choose --json, --web PORT, --prometheus PORT or --record \
             FOLDER"
        );
    }
    let stop = until_told()?;
    let interval = config.interval;
    let recording = record::prepare(&place, "watch")?;
    let watch = Watch::start(config)?;
    let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
    let mut remarks: Vec<String> = Vec::new();
    if args.json {
        sinks.push(Box::new(Printed::default()));
    }
    if let Some(listen) = args.web {
        let page = Page::serve(listen)?;
        let address = page.address();
        remarks.push(format!("live page at http://{address}/"));
        if !address.ip().is_loopback() {
            let warning = "wansan watch: anyone who can reach that address sees the page";
            remarks.push(warning.to_owned());
        }
        sinks.push(Box::new(page));
    }
    if let Some(listen) = args.prometheus {
        let metrics = Metrics::serve(listen)?;
        remarks.push(format!("metrics at http://{}/metrics", metrics.address()));
        sinks.push(Box::new(metrics));
    }
    if records {
        let memory = place.memory_bytes();
        sinks.push(Box::new(Recorded::new(recording, memory)));
    }
    if on_screen {
        sinks.push(Box::new(Screen::open()?));
    } else if !args.json {
        remark(&describe_method(watch.method(), interval));
    }
    for sink in &mut sinks {
        sink.began(watch.method(), interval)?;
    }
    // Servers already listen, so clients that see this can connect.
    for line in &remarks {
        remark(line);
    }
    if !on_screen {
        sinks.push(Box::new(Remarks));
    }
    let ending = wansan_watch::run(&watch, &stop, &mut sinks)?;
    for mut sink in sinks {
        sink.ended(ending.as_ref())?;
    }
    match ending {
        None => Ok(ExitCode::SUCCESS),
        Some(ending @ (Ending::ProcessEnded { .. } | Ending::NamespaceGone { .. })) => {
            remark(&format!("wansan watch: {ending}"));
            Ok(ExitCode::SUCCESS)
        }
        Some(ending) => Err(ending.into()),
    }
}

/// A flag set by SIGINT, SIGTERM or SIGHUP.
fn until_told() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .context("cannot wait for signals")?;
    }
    Ok(stop)
}
