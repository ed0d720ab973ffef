//! `wansan bench`: loads a disk and measures it.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use wansan_san::Initiator;
use wansan_san::load::workload::{Operation, Pattern};
use wansan_san::load::{Limit, Load, LoadConfig, LoadError};
use wansan_schema::BenchReport;
use wansan_trace::{Recorder, units};

use super::initiator::InitiatorArgs;
use super::measuring::{self, end_when_told, wait_to_begin};
use super::quantity::{bytes_within, time_span};
use super::record::{RecordArgs, TcpInterval};
use super::{print_json, print_text, remark};

/// Arguments of `wansan bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Operation; a mix is 70 % reads and 30 % writes
    #[arg(long, value_enum, default_value = "read")]
    op: Op,
    /// Access pattern
    #[arg(long, value_enum, default_value = "random")]
    pattern: Order,
    /// Size of one I/O
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "4KiB",
        allow_hyphen_values = true,
        value_parser = block
    )]
    block: u32,
    /// I/Os to keep in flight (queue depth)
    #[arg(
        long,
        value_name = "N",
        default_value_t = 32,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=65_536)
    )]
    parallel: u32,
    /// Submit I/Os in batches: the next only when all of the last are done, like back-to-back
    /// read() calls on a raw device
    #[arg(long, conflicts_with = "rate")]
    batch: bool,
    /// How long to measure [default: 5s]
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        value_parser = time_span,
        conflicts_with = "count"
    )]
    time: Option<Duration>,
    /// Number of I/Os to measure, instead of a time
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    count: Option<u64>,
    /// Warm-up, excluded from results
    #[arg(
        long,
        value_name = "TIME",
        default_value = "0s",
        allow_hyphen_values = true,
        value_parser = units::parse_duration
    )]
    warmup: Duration,
    /// How long I/Os still in flight at the end may wait without any connection, not counting a
    /// reconnect attempt, before they are abandoned [default: --replacement-timeout]
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        value_parser = units::parse_duration
    )]
    drain: Option<Duration>,
    /// Submit this many I/Os per second, evenly spaced, instead of one for each completed
    #[arg(long, value_name = "IOPS", allow_hyphen_values = true, value_parser = rate)]
    rate: Option<f64>,
    /// Seed of the access order and of the data written
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Verify the data read: reads against what `--op write --verify` wrote with the same seed and
    /// block size, writes and mixes against their own writes. WRITES DESTROY the data on the disk,
    /// as always
    #[arg(long)]
    verify: bool,
    /// Report when logged in, and start on a line or end of file on standard input, so that several
    /// can start together
    #[arg(long)]
    hold: bool,
    #[command(flatten)]
    tcp: TcpInterval,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    initiator: InitiatorArgs,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Op {
    Read,
    Write,
    Mix,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Order {
    Sequential,
    Random,
}

/// How long is measured when neither a time nor a count is given.
const DEFAULT_TIME: Duration = Duration::from_secs(5);

/// The shortest I/O: one block of a disk.
const MIN_BLOCK_BYTES: u64 = 512;
/// The longest I/O: what one command may move (MAXIMUM TRANSFER LENGTH of our own targets).
const MAX_BLOCK_BYTES: u64 = 16 << 20;

fn block(text: &str) -> Result<u32, String> {
    bytes_within(text, MIN_BLOCK_BYTES, MAX_BLOCK_BYTES)
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("give I/Os per second above 0, such as 500".to_owned()),
    }
}

/// Carries out `wansan bench`.
///
/// # Errors
/// What makes it impossible to measure.
pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode> {
    let recording = args.record.prepare("initiator")?;
    end_when_told(recording.made())?;
    let trace = Recorder::new(args.record.kinds(), args.record.budget_bytes());
    let wishes = &args.initiator;
    let config = wishes.config(args.parallel as usize, args.tcp.interval())?;
    let mut initiator = Initiator::connect(&wishes.url, &config, trace)?;
    let load = load(args);
    let mut has_begun = false;
    let measured = match Load::ready(&mut initiator, wishes.url.lun, &load) {
        Ok(load) => {
            if args.hold {
                wait_to_begin(args.json)?;
            }
            has_begun = true;
            measure(args, load)
        }
        Err(error) => Err(error),
    };
    let trace = match &measured {
        Err(LoadError::Session(_) | LoadError::CutOff { .. }) => initiator.into_records(),
        _ => initiator.logout(),
    };
    let dropped = trace.dropped();
    // What was recorded of a load that failed says why.
    let written = match has_begun {
        true => recording.write(&[trace]),
        false => Ok(()),
    };
    let mut report = measured?;
    report.records_dropped = dropped;
    written?;
    if args.json {
        print_json(&serde_json::to_string(&report)?)?;
    } else {
        print_text(|out| print(out, &report))?;
    }
    if report.corrupt > 0 || report.errors > 0 {
        let first = report.first_error.as_deref().unwrap_or_default();
        remark(&format!(
            "wansan: {} I/Os failed, the first with: {first}",
            report.errors
        ));
        return Ok(ExitCode::FAILURE);
    }
    if report.ios == 0 {
        bail!("no I/O completed in the time given: measure longer");
    }
    Ok(ExitCode::SUCCESS)
}

fn load(args: &BenchArgs) -> LoadConfig {
    LoadConfig {
        operation: match args.op {
            Op::Read => Operation::Read,
            Op::Write => Operation::Write,
            Op::Mix => Operation::Mix,
        },
        pattern: match args.pattern {
            Order::Sequential => Pattern::Sequential,
            Order::Random => Pattern::Random,
        },
        block_bytes: args.block,
        parallel: args.parallel as usize,
        batch: args.batch,
        limit: match args.count {
            Some(count) => Limit::Count(count),
            None => Limit::Time(args.time.unwrap_or(DEFAULT_TIME)),
        },
        warmup: args.warmup,
        drain: args.drain,
        rate_per_s: args.rate,
        seed: args.seed,
        verify: args.verify,
    }
}

fn measure(args: &BenchArgs, load: Load<'_>) -> Result<BenchReport, LoadError> {
    let bar = measuring::bar(args.json);
    let report = load.run(|progress| {
        bar.set_position((progress.fraction * 1000.0) as u64);
        bar.set_message(format!("{:.0} IOPS", progress.iops));
    });
    bar.finish_and_clear();
    report
}

fn print(out: &mut dyn Write, report: &BenchReport) -> io::Result<()> {
    writeln!(out, "IOPS        {:>12.0}", report.iops)?;
    writeln!(
        out,
        "throughput  {:>12.1} MiB/s",
        report.bytes_per_s / f64::from(1 << 20)
    )?;
    writeln!(
        out,
        "I/Os        {:>12}  in {:.2} s, {} in flight",
        report.ios, report.elapsed_s, report.parallel
    )?;
    if let Some(latency) = &report.latency_ns {
        let ms = |ns: u64| ns as f64 / 1e6;
        writeln!(
            out,
            "latency     {:>12.3} ms mean, {:.3} p50, {:.3} p90, {:.3} p99, {:.3} p99.9, {:.3} max",
            latency.mean / 1e6,
            ms(latency.p50),
            ms(latency.p90),
            ms(latency.p99),
            ms(latency.p99_9),
            ms(latency.max)
        )?;
    }
    if report.recoveries > 0 {
        writeln!(
            out,
            "recoveries  {:>12}  {:.2} s without any connection",
            report.recoveries, report.lost_s
        )?;
    }
    if report.connections.len() > 1 {
        writeln!(out, "connections")?;
        for connection in &report.connections {
            writeln!(
                out,
                "  {:<3} {:>8} commands  {:>10.1} MiB  {:>7.2} in flight  {:>7.2} waiting  {}",
                connection.cid,
                connection.commands,
                connection.bytes as f64 / f64::from(1 << 20),
                connection.in_flight_mean,
                connection.waiting_mean,
                connection.portal
            )?;
        }
    }
    if report.verified > 0 {
        writeln!(
            out,
            "verified    {:>12}  {} wrong",
            report.verified, report.corrupt
        )?;
    }
    if report.records_dropped > 0 {
        writeln!(
            out,
            "records     {:>12}  dropped: raise --record-memory",
            report.records_dropped
        )?;
    }
    Ok(())
}
