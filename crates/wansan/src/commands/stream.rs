//! `wansan stream`: measures TCP streams by marks in them.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wansan_schema::{MarkLatency, StreamReport};
use wansan_stream::{
    Limit, MARK_EVERY_BYTES, ReceiveConfig, ReceiveCounts, Receiver, SendConfig, Sender,
};
use wansan_trace::units::{parse_bytes, parse_duration, parse_rate};
use wansan_trace::{Kinds, Recorder};

use super::measuring::{self, end_when_told, wait_to_begin};
use super::quantity::{bytes_within, socket_buffer, time_span};
use super::record::{RecordPlace, TcpInterval};
use super::{print_json, print_text, remark};

/// Arguments of `wansan stream`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct StreamArgs {
    #[command(subcommand)]
    end: Option<End>,
    #[command(flatten)]
    both: BothArgs,
}

#[derive(Debug, Subcommand)]
enum End {
    /// Send streams to a receiver and measure them
    Send(SendArgs),
    /// Receive streams and echo their marks, until SIGINT or SIGTERM
    Receive(ReceiveArgs),
}

/// Both ends in one process.
#[derive(Debug, Args)]
struct BothArgs {
    /// Run both ends: measure this computer's own TCP, or, with --listen and ADDRESS:PORT, a relay
    /// that forwards from ADDRESS:PORT to the --listen address
    #[arg(long, required = true)]
    both: bool,
    /// Address to send to [default: the address this process listens on]
    #[arg(value_name = "ADDRESS:PORT")]
    to: Option<String>,
    #[command(flatten)]
    load: LoadArgs,
    /// Listen address; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: String,
    #[command(flatten)]
    taking: TakingArgs,
}

#[derive(Debug, Args)]
struct SendArgs {
    /// The receiver, or a relay that forwards to one
    #[arg(value_name = "ADDRESS:PORT")]
    to: String,
    #[command(flatten)]
    load: LoadArgs,
}

#[derive(Debug, Args)]
struct LoadArgs {
    /// Parallel streams
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    flows: u32,
    /// How long to measure [default: 10s]
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        value_parser = time_span,
        conflicts_with = "bytes"
    )]
    time: Option<Duration>,
    /// Bytes to send per stream, instead of a time
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, value_parser = some_bytes)]
    bytes: Option<u64>,
    /// Warm-up, excluded from results
    #[arg(
        long,
        value_name = "TIME",
        default_value = "0s",
        allow_hyphen_values = true,
        value_parser = parse_duration
    )]
    warmup: Duration,
    /// Distance between marks in the stream
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "1MB",
        allow_hyphen_values = true,
        value_parser = distance
    )]
    every: u32,
    /// Congestion control of the streams, by its kernel name
    #[arg(long, value_name = "NAME")]
    cc: Option<String>,
    /// Send buffer of each stream [default: kernel autotuning]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, value_parser = socket_buffer)]
    send_buffer: Option<u32>,
    /// Most unsent data in the send buffer, so that the latency is the path's and not that of this
    /// end's own queue [default: the whole buffer]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, value_parser = unsent)]
    unsent: Option<u32>,
    /// Send at this rate in each stream, instead of as fast as possible
    #[arg(long, value_name = "RATE", allow_hyphen_values = true, value_parser = rate)]
    rate: Option<u64>,
    /// Report when all streams are connected, and start on a line or end of file on standard input,
    /// so that several can start together
    #[arg(long)]
    hold: bool,
    #[command(flatten)]
    tcp: TcpInterval,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    record: RecordPlace,
}

#[derive(Debug, Args)]
struct ReceiveArgs {
    /// Listen address; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: String,
    #[command(flatten)]
    taking: TakingArgs,
    /// Print events as JSON, one per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct TakingArgs {
    /// Receive buffer of each stream, which bounds the advertised window [default: kernel
    /// autotuning]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, value_parser = socket_buffer)]
    receive_buffer: Option<u32>,
    /// Size of one read
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "256KiB",
        allow_hyphen_values = true,
        value_parser = read_at_once
    )]
    read: u32,
    /// Most concurrent streams; further ones are refused
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10_000,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    most: u32,
}

/// How long is measured when neither a time nor bytes are given.
const DEFAULT_TIME: Duration = Duration::from_secs(10);

fn distance(text: &str) -> Result<u32, String> {
    let (least, most) = MARK_EVERY_BYTES;
    bytes_within(text, least.into(), most.into())
}

fn some_bytes(text: &str) -> Result<u64, String> {
    match parse_bytes(text) {
        Ok(0) => Err("give 1B or more, such as 1GB".to_owned()),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}

fn unsent(text: &str) -> Result<u32, String> {
    bytes_within(text, 4096, 1 << 30)
}

fn read_at_once(text: &str) -> Result<u32, String> {
    bytes_within(text, 1, 16 << 20)
}

fn rate(text: &str) -> Result<u64, String> {
    match parse_rate(text) {
        Ok(bits) if bits < 8000 => Err("give 8kbit/s or more, such as 100Mbit/s".to_owned()),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}

impl LoadArgs {
    fn config(&self, to: &str) -> SendConfig {
        SendConfig {
            to: to.to_owned(),
            flows: self.flows as usize,
            mark_every_bytes: self.every,
            limit: match self.bytes {
                Some(bytes) => Limit::Bytes(bytes),
                None => Limit::Time(self.time.unwrap_or(DEFAULT_TIME)),
            },
            warmup: self.warmup,
            congestion_control: self.cc.clone(),
            send_buffer_bytes: self.send_buffer.map(|bytes| bytes as usize),
            unsent_bytes: self.unsent,
            rate_bytes_per_s: self.rate.map(|bits| bits as f64 / 8.0),
            tcp_interval: self.tcp.interval(),
        }
    }

    fn kinds(&self) -> Kinds {
        Kinds {
            connection: self.record.is_asked(),
            tcp: self.record.is_asked(),
            ..Kinds::NONE
        }
    }
}

impl TakingArgs {
    fn config(&self, listen: &str) -> ReceiveConfig {
        ReceiveConfig {
            listen: listen.to_owned(),
            receive_buffer_bytes: self.receive_buffer.map(|bytes| bytes as usize),
            read_bytes: self.read as usize,
            max_flows: self.most as usize,
            report: |line| remark(&format!("wansan stream: {line}")),
        }
    }
}

/// Carries out `wansan stream`.
///
/// # Errors
/// What makes it impossible to measure, or to listen.
pub(crate) fn run(args: &StreamArgs) -> Result<ExitCode> {
    match &args.end {
        Some(End::Send(send)) => measure(&send.load, &send.to),
        Some(End::Receive(receive)) => take(receive),
        None => {
            let both = &args.both;
            let receiver = Receiver::start(&both.taking.config(&both.listen))?;
            let own = receiver.address().to_string();
            measure(&both.load, both.to.as_deref().unwrap_or(&own))
        }
    }
}

/// Sends, and says what was measured.
fn measure(args: &LoadArgs, to: &str) -> Result<ExitCode> {
    let recording = args.record.prepare("sender")?;
    end_when_told(recording.made())?;
    let trace = Recorder::new(args.kinds(), args.record.budget_bytes());
    let mut sender = Sender::connect(&args.config(to), trace)?;
    if args.hold {
        wait_to_begin(args.json)?;
    }
    let bar = measuring::bar(args.json);
    let report = sender.run(|progress| {
        bar.set_position((progress.fraction * 1000.0) as u64);
        bar.set_message(shown_rate(progress.bytes_per_s));
    });
    bar.finish_and_clear();
    recording.write(&[sender.into_records()])?;
    let report = report?;
    if args.json {
        print_json(&serde_json::to_string(&report)?)?;
    } else {
        print_text(|out| print(out, &report))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn shown_rate(bytes_per_s: f64) -> String {
    format!("{:.2} Mbit/s", bytes_per_s * 8.0 / 1e6)
}

fn print(out: &mut dyn Write, report: &StreamReport) -> io::Result<()> {
    writeln!(
        out,
        "throughput  {}  in {:.2} s, {} streams, a mark in every {} B",
        shown_rate(report.bytes_per_s),
        report.elapsed_s,
        report.flows.len(),
        report.mark_every_bytes
    )?;
    print_latency(out, "latency     ", report.latency_ns.as_ref())?;
    print_latency(out, "one way     ", report.one_way_ns.as_ref())?;
    if report.flows.len() > 1 {
        writeln!(out, "fairness    {:.4} (Jain's index)", report.fairness)?;
    }
    for flow in &report.flows {
        write!(
            out,
            "  {:<4} {:>18}  {}",
            flow.flow,
            shown_rate(flow.bytes_per_s),
            flow.congestion_control
        )?;
        match &flow.latency_ns {
            Some(latency) => write!(
                out,
                "  {:.3} ms p50, {:.3} p99",
                latency.p50 as f64 / 1e6,
                latency.p99 as f64 / 1e6
            )?,
            None => write!(out, "  no mark was echoed")?,
        }
        writeln!(
            out,
            "  {} retransmitted, {} slow-start re-entries",
            flow.retransmits, flow.slow_start_returns
        )?;
    }
    if report.records_dropped > 0 {
        writeln!(
            out,
            "records     {} dropped: raise --record-memory",
            report.records_dropped
        )?;
    }
    Ok(())
}

fn print_latency(out: &mut dyn Write, name: &str, latency: Option<&MarkLatency>) -> io::Result<()> {
    let Some(latency) = latency else {
        return Ok(());
    };
    let ms = |ns: u64| ns as f64 / 1e6;
    writeln!(
        out,
        "{name}{:.3} ms mean, {:.3} min, {:.3} p50, {:.3} p99, {:.3} max, of {} marks",
        latency.mean / 1e6,
        ms(latency.min),
        ms(latency.p50),
        ms(latency.p99),
        ms(latency.max),
        latency.count
    )
}

/// Takes streams until it is told to end.
fn take(args: &ReceiveArgs) -> Result<ExitCode> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot wait for signals")?;
    let receiver = Receiver::start(&args.taking.config(&args.listen))?;
    let address = receiver.address();
    if args.json {
        let event = serde_json::json!({ "event": "listening", "address": address.to_string() });
        print_json(&event.to_string())?;
    } else {
        print_text(|out| writeln!(out, "receives streams at {address}"))?;
    }
    signals.forever().next();
    report_end(args, receiver.stop())?;
    Ok(ExitCode::SUCCESS)
}

fn report_end(args: &ReceiveArgs, counts: ReceiveCounts) -> Result<()> {
    if args.json {
        let event = serde_json::json!({
            "event": "ended", "streams": counts.streams, "finished": counts.finished,
            "lost": counts.lost, "refused": counts.refused, "marks": counts.marks,
            "bytes": counts.bytes,
        });
        return print_json(&event.to_string());
    }
    print_text(|out| {
        writeln!(
            out,
            "{} streams: {} finished, {} lost; {} connections refused; {} B, {} marks",
            counts.streams,
            counts.finished,
            counts.lost,
            counts.refused,
            counts.bytes,
            counts.marks
        )
    })
}
