//! `wansan target`: serves disks.

mod metrics;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use wansan_iscsi::keys::Wanted;
use wansan_san::store::LunSpec;
use wansan_san::target::{Access, Changes, Discovery, NamePattern, Offer, TargetSpec};
use wansan_san::{Target, TargetConfig};
use wansan_tcp::network::Network;
use wansan_trace::{Recorder, units};

use super::chap::ChapArgs;
use super::record::{RecordArgs, TcpInterval};
use super::sending::SendingArgs;
use super::service;
use super::session::SessionArgs;
use super::target_file::{self, TargetFile};
use super::{one_line, print_json, print_text, remark};

/// Commands of one session in hand at once, unless told otherwise.
pub(super) const DEFAULT_COMMAND_WINDOW: u32 = 1024;

/// Connections of one session, unless told otherwise.
pub(super) const DEFAULT_CONNECTIONS: u16 = 32;

/// Highest error recovery level, unless told otherwise.
pub(super) const DEFAULT_ERROR_RECOVERY_LEVEL: u8 = 2;

/// What a target negotiates for, from the arguments or from a file: `session` with what only
/// targets are asked for.
pub(super) fn wanted(session: Wanted, max_connections: u16, error_recovery_level: u8) -> Wanted {
    Wanted {
        max_connections,
        error_recovery_level,
        // One R2T at a time would be all that level 1 and 2 allow otherwise (RFC 7143 §13.19).
        data_sequence_in_order: false,
        ..session
    }
}

/// Arguments of `wansan target`.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// Read the configuration from this file instead of the other options; SIGHUP reloads it
    #[arg(
        long,
        value_name = "TARGET.TOML",
        conflicts_with_all = [
            "listen", "name", "luns", "command_window", "max_connections",
            "error_recovery_level", "initiators", "networks", "chap_users_file", "ChapArgs",
            "SessionArgs", "SendingArgs", "AckArgs",
        ]
    )]
    config: Option<PathBuf>,
    /// Listen address; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:3260")]
    listen: String,
    /// The target's iSCSI name
    #[arg(long, value_name = "IQN", required_unless_present = "config")]
    name: Option<String>,
    /// A logical unit, numbered from 0 in the order given: memory:SIZE or file:PATH, then any of
    /// ,size=SIZE (creates the file) ,content=SEED (memory only: the data that `wansan bench
    /// --verify` expects) ,block=512|4096 ,thin ,read-only ,service-time=TIME ,servers=N
    #[arg(long = "lun", value_name = "STORE", required_unless_present = "config")]
    luns: Vec<LunSpec>,
    /// Command window: commands per session in progress at once
    #[arg(
        long,
        value_name = "N",
        default_value_t = DEFAULT_COMMAND_WINDOW,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=65_536)
    )]
    command_window: u32,
    /// Connections per session (MC/S)
    #[arg(
        long,
        value_name = "N",
        default_value_t = DEFAULT_CONNECTIONS,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u16).range(1..=1024)
    )]
    max_connections: u16,
    /// Highest ErrorRecoveryLevel to agree to: 1 recovers PDUs lost within a connection, 2 also
    /// reassigns tasks of a lost connection to another
    #[arg(
        long,
        value_name = "LEVEL",
        default_value_t = DEFAULT_ERROR_RECOVERY_LEVEL,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u8).range(0..=2)
    )]
    error_recovery_level: u8,
    /// Threads that serve sessions
    #[arg(
        long,
        value_name = "N",
        default_value_t = default_threads(),
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u16).range(1..=1024)
    )]
    threads: u16,
    /// TCP congestion control of the connections, by its kernel name
    #[arg(long, value_name = "NAME")]
    congestion_control: Option<String>,
    #[command(flatten)]
    tcp: TcpInterval,
    /// On shutdown, how long to wait for initiators to log out on request; 0s requests none
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10s",
        allow_hyphen_values = true,
        value_parser = units::parse_duration
    )]
    drain: Duration,
    /// Serve Prometheus metrics at this address, under /metrics, without authentication
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Print events as JSON, one per line
    #[arg(long)]
    json: bool,
    /// Initiators that may log in: a name, or a prefix and a *; repeat for each [default: all]
    #[arg(long = "allow-initiator", value_name = "IQN")]
    initiators: Vec<NamePattern>,
    /// Networks or addresses that initiators may connect from; repeat for each [default: all]
    #[arg(long = "allow-network", value_name = "ADDRESS/PREFIX")]
    networks: Vec<Network>,
    #[command(flatten)]
    record: RecordArgs,
    /// File of initiators' CHAP accounts, one NAME SECRET per line, readable only by its owner
    #[arg(long, value_name = "PATH", help_heading = "CHAP (RFC 7143 §12.1.3)")]
    chap_users_file: Option<PathBuf>,
    #[command(flatten)]
    chap: ChapArgs,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    sending: SendingArgs,
}

/// More threads than sessions that are busy at once bring nothing.
fn default_threads() -> u16 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u16::try_from(cores.min(8)).unwrap_or(1)
}

impl TargetArgs {
    /// What to serve and where, from the file or the other arguments.
    fn wishes(&self) -> Result<TargetFile> {
        match &self.config {
            Some(path) => target_file::read(path),
            None => Ok(TargetFile {
                listen: vec![self.listen.clone()],
                offer: self.offer()?,
            }),
        }
    }

    /// Reads the file again and has `target` serve what it says now.
    fn reload(&self, listen: &[String], target: &mut Target) -> Result<Changes> {
        let wishes = self.wishes()?;
        anyhow::ensure!(
            wishes.listen == listen,
            "`listen` cannot change while the target runs: restart it"
        );
        Ok(target.reload(&wishes.offer)?)
    }

    /// As [`TargetArgs::reload`]; says what came of it.
    fn reload_and_report(&self, listen: &[String], target: &mut Target) -> Result<()> {
        match self.reload(listen, target) {
            Ok(changes) if self.json => {
                let event = serde_json::json!({
                    "event": "reloaded", "added": changes.added, "removed": changes.removed,
                    "changed": changes.changed,
                });
                print_json(&event.to_string())
            }
            Ok(changes) => print_text(|out| writeln!(out, "reloaded: {changes}")),
            Err(error) => {
                remark(&format!(
                    "wansan target: not reloaded, nothing has changed: {}",
                    one_line(&error)
                ));
                Ok(())
            }
        }
    }

    /// The one target that the arguments describe.
    fn offer(&self) -> Result<Offer> {
        let session = self.session.wanted();
        let wanted = wanted(session, self.max_connections, self.error_recovery_level);
        let chap = self.chap.target(self.chap_users_file.as_ref())?;
        let target = TargetSpec {
            name: self.name.clone().unwrap_or_default(),
            luns: (0..).zip(self.luns.iter().cloned()).collect(),
            command_window: self.command_window,
            wanted: wanted.clone(),
            chap: chap.clone(),
            access: Access {
                initiators: self.initiators.clone(),
                networks: self.networks.clone(),
            },
            sending: self.sending.wanted(),
        };
        Ok(Offer {
            targets: vec![target],
            discovery: Discovery { wanted, chap },
        })
    }
}

/// Carries out `wansan target`: serves until SIGINT or SIGTERM, and reads its file again at SIGHUP.
/// Without one, SIGHUP ends it as well.
///
/// # Errors
/// What makes it impossible to serve.
pub(crate) fn run(args: &TargetArgs) -> Result<ExitCode> {
    let recording = args.record.prepare("target")?;
    let mut orders = service::Orders::new()?;
    let TargetFile { listen, offer } = args.wishes()?;
    let config = TargetConfig {
        listen,
        offer,
        congestion_control: args.congestion_control.clone(),
        threads: usize::from(args.threads),
        kinds: args.record.kinds(),
        record_bytes: args.record.budget_bytes(),
        tcp_interval: args.tcp.interval(),
        report: |line| remark(&format!("wansan target: {line}")),
    };
    let mut target = Target::start(&config)?;
    let metrics = match args.metrics {
        Some(listen) => Some(metrics::serve(listen, target.observer())?),
        None => None,
    };
    let addresses: Vec<String> = target.addresses().iter().map(ToString::to_string).collect();
    if args.json {
        let mut listening = serde_json::json!({
            "event": "listening", "address": addresses[0], "addresses": addresses,
        });
        if let Some(metrics) = metrics {
            listening["metrics"] = metrics.to_string().into();
        }
        print_json(&listening.to_string())?;
    } else {
        print_text(|out| {
            for spec in &config.offer.targets {
                let (portals, luns) = (addresses.join(", "), spec.luns.len());
                writeln!(out, "{} at {portals}, {luns} LUN(s)", spec.name)?;
            }
            match metrics {
                Some(metrics) => writeln!(out, "metrics at http://{metrics}/metrics"),
                None => Ok(()),
            }
        })?;
    }
    let status = format!("serves at {}", addresses.join(", "));
    orders.obey(args.config.is_some(), |reloads| {
        if reloads {
            args.reload_and_report(&config.listen, &mut target)?;
        }
        Ok(status.clone())
    })?;
    if !args.drain.is_zero() {
        let left = target.drain(args.drain, || orders.hurries());
        if !left {
            remark(
                "wansan target: some initiators have not logged out: their sessions are dropped",
            );
        }
    }
    let recorders = target.stop();
    recording.write(&recorders)?;
    let dropped: u64 = recorders.iter().map(Recorder::dropped).sum();
    if dropped > 0 {
        remark(&format!(
            "wansan target: {dropped} records dropped: raise --record-memory"
        ));
    }
    Ok(ExitCode::SUCCESS)
}
