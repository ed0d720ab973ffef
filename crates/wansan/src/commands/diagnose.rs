//! `wansan diagnose`: diagnoses slow disks of this host.

mod live;
mod metrics;
mod peer;
mod predicted;
mod recorded;
mod text;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use wansan_diagnose::{Diagnosis, Host, Slices, Watch};
use wansan_insight::both_ends::PassedIo;
use wansan_insight::capture::Capture;
use wansan_trace::{clock, units};

use super::measuring::bar;
use super::watch::here_or_there;
use super::{INTERRUPTED, print_json, print_text};
use live::Live;
use peer::{MOST_IOS, OtherEnd, Peering};
use recorded::Recorded;

/// Arguments of `wansan diagnose`.
#[derive(Debug, Args)]
pub(crate) struct DiagnoseArgs {
    /// How long to observe, 100ms to 1h [default: 30s; with --live, --web or --prometheus until interrupted]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    time: Option<Duration>,
    /// TCP port of targets, local or remote; repeat for each. Ports of open-iscsi's sessions and of LIO's portals are
    /// detected
    #[arg(long = "port", value_name = "PORT", default_value = "3260")]
    ports: Vec<u16>,
    /// Show what I/Os wait for in the terminal, refreshed every --interval, until q is pressed
    #[arg(long, conflicts_with = "json")]
    live: bool,
    /// Serve a live page here that shows what I/Os wait for; a port alone means 127.0.0.1; other
    /// addresses are open to anyone who
    /// can reach them
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = here_or_there)]
    web: Option<SocketAddr>,
    /// Serve Prometheus metrics here, under /metrics; a port alone means 127.0.0.1; other addresses are open to anyone who can
    /// reach them
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = here_or_there)]
    prometheus: Option<SocketAddr>,
    /// Length of the time slices of --live, --web and --prometheus, 100ms to 1h; slices may be shorter at high packet
    /// rates
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    interval: Duration,
    /// Record to this new folder, without payloads, for `wansan explain FOLDER`
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    /// Maximum size of that folder: the oldest time slices are removed to make room for new ones
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = bytes, requires = "record")]
    record_size: u64,
    /// Also observe from the other end of the path, with a copy of this wansan, to tell path latency from target
    /// latency
    #[arg(long, value_name = "ssh://[USER@]HOST", value_parser = destination, conflicts_with_all = ["each_io", "live", "web", "prometheus"])]
    peer: Option<String>,
    /// Run the wansan that is installed on the peer, instead of copying this one there
    #[arg(long, requires = "peer")]
    no_copy: bool,
    /// Configuration for ssh, as `ssh -F` takes it [default: the user's own]
    #[arg(long, value_name = "FILE", requires = "peer")]
    ssh_config: Option<PathBuf>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// With --json: also print when each I/O passed this host, many I/Os per line, for --peer
    #[arg(long, requires = "json")]
    each_io: bool,
}

fn time(text: &str) -> Result<Duration, String> {
    match units::parse_duration(text) {
        Ok(asked) if asked < Duration::from_millis(100) => Err("give at least 100ms".to_owned()),
        Ok(asked) if asked > Duration::from_secs(3600) => Err("give at most 1h".to_owned()),
        Ok(asked) => Ok(asked),
        Err(error) => Err(error.to_string()),
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    units::parse_bytes(text).map_err(|error| error.to_string())
}

fn destination(text: &str) -> Result<String, String> {
    match text.strip_prefix("ssh://") {
        Some(host) if !host.is_empty() => Ok(text.to_owned()),
        _ => {
            Err("give ssh://HOST or ssh://USER@HOST, with a name of ssh's configuration".to_owned())
        }
    }
}

impl DiagnoseArgs {
    /// Whether it is displayed continuously.
    fn is_live(&self) -> bool {
        self.live || self.web.is_some() || self.prometheus.is_some()
    }

    /// Duration: practically unlimited by default.
    fn time(&self) -> Duration {
        const USUAL: Duration = Duration::from_secs(30);
        const EVER: Duration = Duration::from_secs(100 * 365 * 86_400);
        let unasked = if self.is_live() { EVER } else { USUAL };
        self.time.unwrap_or(unasked)
    }
}

/// The output of `--json`.
#[derive(Serialize)]
struct Told<'t> {
    #[serde(flatten)]
    diagnosis: &'t Diagnosis,
    /// The result from the other end.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<&'t OtherEnd>,
}

/// Runs `wansan diagnose`.
///
/// # Errors
/// There are no sessions on this host, or they cannot be observed.
pub(crate) fn run(args: &DiagnoseArgs) -> Result<ExitCode> {
    let sys = Path::new("/sys");
    let asked: BTreeSet<u16> = args.ports.iter().copied().collect();
    let (host, ports) = Host::find(sys, Path::new("/proc"), &asked)?;
    if host.connections.is_empty() && host.sessions.is_empty() && host.portal_groups.is_empty() {
        let ports: Vec<String> = asked.iter().map(u16::to_string).collect();
        bail!(
            "there is no iSCSI on this host: no session of open-iscsi, no target of LIO, and no TCP connection with \
             port {}; name the target's port with --port, and look in the network namespace of the session",
            ports.join(" or ")
        );
    }
    let recorded = args.record.as_deref();
    let recorded = recorded.map(|folder| Recorded::prepare(folder, args.record_size));
    let mut recorded = recorded.transpose()?;
    let ends = until_told()?;
    let progress = bar(args.json || args.is_live());
    let peering = args.peer.as_deref().map(|destination| {
        progress.set_message("reaching the other end");
        Peering::begin(args, destination, &ports, &ends)
    });
    let peering = peering.transpose()?;
    progress.set_message("watching packets");
    let mut watch = Watch::begin(&host, &ports, sys)?;
    if args.each_io {
        peer::say_begun()?;
    }
    let live = RefCell::new(Live::open(args)?);
    let began = clock::now();
    let end = began + args.time();
    let goes_on = || {
        let share = (clock::now() - began).as_secs_f64() / args.time().as_secs_f64();
        progress.set_position((share * 1000.0) as u64);
        if !matches!(live.borrow_mut().goes_on(), Ok(true)) {
            ends.store(true, Ordering::Relaxed);
        }
        // If interrupted, it prints the result so far.
        !ends.load(Ordering::Relaxed)
    };
    let is_over = || clock::now() >= end || !goes_on();
    let keeps_ios = peering.is_some() || args.each_io;
    let (mut slices, mut ios): (Slices, Vec<PassedIo>) = Default::default();
    // The slice that the diagnosis describes, with its number.
    let mut shown: Option<(u64, Capture)> = None;
    let predicts = !args.is_live() && !args.each_io;
    loop {
        let until = match args.is_live() {
            true => end.min(clock::now() + args.interval),
            false => end,
        };
        let slice = watch.slice(until, goes_on)?;
        let at_s = (clock::now() - began).as_secs_f64();
        live.borrow_mut().take(&slice.diagnosis, at_s)?;
        slices.add(slice.diagnosis);
        if let Some(capture) = &slice.capture {
            if let Some(recorded) = &mut recorded {
                recorded.write(capture)?;
            }
            if keeps_ios && ios.len() < MOST_IOS {
                ios.extend(capture.passed_ios());
                ios.truncate(MOST_IOS);
            }
        }
        if predicts && slices.shown() == Some(slices.count()) {
            shown = slice.capture.map(|capture| (slices.count(), capture));
        }
        if is_over() {
            break;
        }
        watch.rest(end, goes_on)?;
        if is_over() {
            break;
        }
    }
    let seconds = (clock::now() - began).as_secs_f64();
    drop(live);
    let shown = shown.filter(|(number, _)| slices.shown() == Some(*number));
    let Some(mut diagnosis) = slices.diagnosis(seconds) else {
        bail!("interrupted before anything was seen");
    };
    let other = peering.map(|peering| {
        progress.set_message("waiting for the other end");
        peering.end(&mut diagnosis, &ios, &ends)
    });
    let other = other.transpose()?;
    if predicts && predicted::is_of_use(&diagnosis) {
        progress.set_message("simulating what changes bring");
        let capture = shown.map(|(_, capture)| capture);
        predicted::predict(&mut diagnosis, capture, &|| !ends.load(Ordering::Relaxed));
    }
    progress.finish_and_clear();
    if args.each_io {
        peer::say(&diagnosis, &ios)?;
    } else if args.json {
        let told = Told {
            diagnosis: &diagnosis,
            peer: other.as_ref(),
        };
        print_json(&serde_json::to_string_pretty(&told)?)?;
    } else {
        print_text(|out| {
            text::print(out, &diagnosis)?;
            other.iter().try_for_each(|other| other.print(out))
        })?;
    }
    if let Some(recorded) = recorded {
        recorded.end();
    }
    Ok(ExitCode::SUCCESS)
}

/// A flag set by SIGINT or SIGTERM; a second signal ends the program at once.
fn until_told() -> Result<Arc<AtomicBool>> {
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            INTERRUPTED.into(),
            Arc::clone(&ends),
        )
        .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&ends)))
        .context("cannot wait for signals")?;
    }
    Ok(ends)
}
