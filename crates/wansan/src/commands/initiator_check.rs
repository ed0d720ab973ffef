//! `wansan initiator-check`: logs in, and reports the negotiated parameters and which of them hurt on a long path.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use wansan_insight::finding::negotiated::{Cost, InForce, Path};
use wansan_iscsi::keys::{KeyName, Wanted};
use wansan_san::load::capacity;
use wansan_san::settings::InitiatorSettings;
use wansan_san::{Initiator, InitiatorConfig};
use wansan_settings::quantity::SomeTime;
use wansan_tcp::buffers::BufferLimits;
use wansan_trace::Recorder;
use wansan_trace::units::{format_bytes, format_rate, parse_rate};

use super::options::Options;
use super::{print_json, print_text};

/// Arguments of `wansan initiator-check`.
#[derive(Debug, Args)]
pub(crate) struct InitiatorCheckArgs {
    /// Round-trip time of the path to check for [default: the measured one, but at least 50ms]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    rtt: Option<SomeTime>,
    /// Rate of the path to check for
    #[arg(
        long,
        value_name = "RATE",
        default_value = "1Gbit/s",
        allow_hyphen_values = true,
        value_parser = rate
        )]
    rate: u64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    initiator: Options<InitiatorSettings>,
}

/// The round-trip time assumed if the measured one is shorter.
const LONG_RTT: Duration = Duration::from_millis(50);

fn rate(text: &str) -> Result<u64, String> {
    match parse_rate(text) {
        Ok(0) => Err("give a rate above 0, such as 100Mbit/s".to_owned()),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}

/// The output of `--json`.
#[derive(Debug, Serialize)]
struct Checked {
    target: String,
    lun: u16,
    capacity_bytes: u64,
    block_bytes: u32,
    connect_and_login_ns: u64,
    rtt_ns: u64,
    command_window: u32,
    keys: Vec<Key>,
    judged_rtt_ns: u64,
    judged_rate_bits_per_s: u64,
    costs: Vec<CostReport>,
}

/// One negotiated key.
#[derive(Debug, Serialize)]
struct Key {
    key: &'static str,
    offered: String,
    in_force: String,
}

/// One [`Cost`].
#[derive(Debug, Serialize)]
struct CostReport {
    parameter: &'static str,
    value: String,
    effect: String,
    remedy: String,
}

impl From<Cost> for CostReport {
    fn from(cost: Cost) -> Self {
        CostReport {
            parameter: cost.parameter,
            value: cost.value,
            effect: cost.effect,
            remedy: cost.remedy,
        }
    }
}

/// Runs `wansan initiator-check`.
///
/// # Errors
/// The login or the first commands fail.
pub(crate) fn run(args: &InitiatorCheckArgs) -> Result<ExitCode> {
    let settings = args.initiator.settings()?;
    let url = &settings.url.0;
    if settings.connections.schedule.multipath {
        bail!("--multipath: one session is checked; name one route, or leave it out");
    }
    let config = InitiatorConfig {
        // A single login is checked.
        replacement_timeout: Duration::ZERO,
        ..settings.config(1, LONG_RTT)?
    };
    let began = Instant::now();
    let mut initiator = Initiator::connect(url, &config, Recorder::off())?;
    let login = began.elapsed();
    let capacity = capacity(&mut initiator, url.lun)?;
    let rtt = Duration::from_nanos(initiator.min_rtt_ns());
    let judged_rtt = args.rtt.map_or(rtt.max(LONG_RTT), |rtt| rtt.0);
    let path = Path {
        rtt_ns: u64::try_from(judged_rtt.as_nanos()).unwrap_or(u64::MAX),
        rate_bits_per_s: args.rate,
    };
    let session = initiator.session();
    let Some(connection) = session.connection_parameters(0) else {
        bail!("the session lost its connection right after login");
    };
    let in_force = InForce {
        session: session.parameters(),
        connection,
        window: session.window(),
    };
    let checked = Checked {
        target: url.target.clone(),
        lun: url.lun,
        capacity_bytes: capacity.blocks.saturating_mul(capacity.block_bytes.into()),
        block_bytes: capacity.block_bytes,
        connect_and_login_ns: u64::try_from(login.as_nanos()).unwrap_or(u64::MAX),
        rtt_ns: u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX),
        command_window: in_force.window,
        keys: keys(&settings.wanted(), &in_force),
        judged_rtt_ns: path.rtt_ns,
        judged_rate_bits_per_s: path.rate_bits_per_s,
        costs: costs(&in_force, path),
    };
    let _ = initiator.logout();
    if args.json {
        print_json(&serde_json::to_string(&checked)?)?;
    } else {
        print_text(|out| print(out, &checked))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The costs of the negotiated values, and of this machine's socket buffers.
fn costs(in_force: &InForce<'_>, path: Path) -> Vec<CostReport> {
    let mut costs: Vec<CostReport> = in_force
        .costs(path)
        .into_iter()
        .map(CostReport::from)
        .collect();
    // A kernel that does not report its limits may allow enough.
    let Ok(limits) = BufferLimits::here() else {
        return costs;
    };
    // The kernel reserves up to half of a buffer for its own overhead.
    let wanted_bytes = 2 * path.bdp_bytes();
    for (name, bytes, what) in [
        ("net.ipv4.tcp_rmem", limits.receive_bytes, "reads"),
        ("net.ipv4.tcp_wmem", limits.send_bytes, "writes"),
    ] {
        if bytes < wanted_bytes {
            let mbit_per_s = (bytes / 2 * 8) as f64 * 1e3 / path.rtt_ns as f64;
            costs.push(CostReport {
                parameter: name,
                value: bytes.to_string(),
                effect: format!("limits {what} on one connection to about {mbit_per_s:.0} Mbit/s"),
                remedy: format!(
                    "raise its third value, the maximum, to {wanted_bytes} with sysctl, here and \
                     at the target, or use more connections"
                ),
            });
        }
    }
    costs
}

fn keys(wanted: &Wanted, in_force: &InForce<'_>) -> Vec<Key> {
    let (session, connection) = (in_force.session, in_force.connection);
    let yes = |set: bool| if set { "Yes" } else { "No" }.to_owned();
    let digest = |set: bool| if set { "CRC32C" } else { "None" }.to_owned();
    let settled = [
        (KeyName::HeaderDigest, digest(connection.header_digest)),
        (KeyName::DataDigest, digest(connection.data_digest)),
        (KeyName::MaxConnections, session.max_connections.to_string()),
        (KeyName::InitialR2T, yes(session.initial_r2t)),
        (KeyName::ImmediateData, yes(session.immediate_data)),
        (
            KeyName::MaxRecvDataSegmentLength,
            format!("{} (the target's)", connection.max_send_data_bytes),
        ),
        (KeyName::MaxBurstLength, session.max_burst_bytes.to_string()),
        (
            KeyName::FirstBurstLength,
            session.first_burst_bytes.to_string(),
        ),
        (
            KeyName::MaxOutstandingR2T,
            session.max_outstanding_r2t.to_string(),
        ),
        (
            KeyName::DataSequenceInOrder,
            yes(session.data_sequence_in_order),
        ),
        (KeyName::DataPduInOrder, yes(session.data_pdu_in_order)),
        (
            KeyName::ErrorRecoveryLevel,
            session.error_recovery_level.to_string(),
        ),
        (KeyName::DefaultTime2Wait, session.time2wait_s.to_string()),
        (
            KeyName::DefaultTime2Retain,
            session.time2retain_s.to_string(),
        ),
    ];
    let key = |(name, in_force): (KeyName, String)| Key {
        key: name.key().text,
        offered: wanted
            .wish(name)
            .map_or_else(String::new, |value| value.to_string()),
        in_force,
    };
    settled.into_iter().map(key).collect()
}

fn print(out: &mut dyn Write, checked: &Checked) -> io::Result<()> {
    let ms = |ns: u64| ns as f64 / 1e6;
    writeln!(out, "target   {}", checked.target)?;
    writeln!(
        out,
        "LUN {:<4} {} in blocks of {} bytes",
        checked.lun,
        format_bytes(checked.capacity_bytes),
        checked.block_bytes
    )?;
    let login_ms = ms(checked.connect_and_login_ns);
    write!(out, "login    {login_ms:.1} ms, including connect")?;
    match checked.rtt_ns {
        // At shorter round trips, processing time dominates.
        0..1_000_000 => writeln!(out)?,
        rtt_ns => writeln!(
            out,
            ", {:.1} round trips of {:.1} ms",
            login_ms / ms(rtt_ns),
            ms(rtt_ns)
        )?,
    }
    writeln!(out, "window   {} commands", checked.command_window)?;
    writeln!(out)?;
    writeln!(out, "{:<26}{:<16}in force", "key", "offered")?;
    for Key {
        key,
        offered,
        in_force,
    } in &checked.keys
    {
        writeln!(out, "{key:<26}{offered:<16}{in_force}")?;
    }
    let path = format!(
        "on a path with a round trip of {:.1} ms and {}",
        ms(checked.judged_rtt_ns),
        format_rate(checked.judged_rate_bits_per_s)
    );
    writeln!(out)?;
    if checked.costs.is_empty() {
        return writeln!(out, "nothing here limits performance {path}");
    }
    writeln!(out, "what limits performance {path}:")?;
    for cost in &checked.costs {
        writeln!(out, "- {} {}: {}", cost.parameter, cost.value, cost.effect)?;
        writeln!(out, "  {}", cost.remedy)?;
    }
    Ok(())
}
