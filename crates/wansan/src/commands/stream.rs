//! `wansan stream`: measures TCP streams by marks in them.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wansan_schema::{MarkLatency, StreamReport};
use wansan_stream::{
    LoadSettings, ReceiveCounts, ReceiveSettings, Receiver, SendSettings, Sender, TakingSettings,
};
use wansan_trace::Recorder;

use super::measuring::{self, end_when_told, wait_to_begin};
use super::options::{Elsewhere, Options};
use super::{print_json, print_text, record, remark};

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
    load: Options<LoadSettings>,
    /// Listen address; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: String,
    #[command(flatten)]
    taking: Options<TakingSettings>,
}

#[derive(Debug, Args)]
struct SendArgs {
    #[command(flatten)]
    options: Options<SendSettings>,
    #[command(flatten)]
    elsewhere: Elsewhere,
}

#[derive(Debug, Args)]
struct ReceiveArgs {
    #[command(flatten)]
    options: Options<ReceiveSettings>,
    #[command(flatten)]
    elsewhere: Elsewhere,
}

fn report(line: &str) {
    remark(&format!("wansan stream: {line}"));
}

/// Runs `wansan stream`.
///
/// # Errors
/// The error that prevents measuring or listening.
pub(crate) fn run(args: &StreamArgs) -> Result<ExitCode> {
    match &args.end {
        Some(End::Send(args)) => measure(&args.elsewhere.settings_or(&args.options)?),
        Some(End::Receive(args)) => take(&args.elsewhere.settings_or(&args.options)?),
        None => {
            let both = &args.both;
            let receive = ReceiveSettings {
                listen: both.listen.clone(),
                json: false,
                taking: both.taking.settings()?,
            };
            let receiver = Receiver::start(&receive, report)?;
            let own = receiver.address().to_string();
            measure(&SendSettings {
                to: both.to.clone().unwrap_or(own),
                load: both.load.settings()?,
            })
        }
    }
}

/// Sends, and prints the result.
fn measure(settings: &SendSettings) -> Result<ExitCode> {
    let load = &settings.load;
    let recording = record::prepare(&load.record, "sender")?;
    end_when_told(recording.made())?;
    let trace = Recorder::new(load.record.kinds(), load.record.memory_bytes());
    let mut sender = Sender::connect(settings, trace)?;
    if load.hold {
        wait_to_begin(load.json)?;
    }
    let bar = measuring::bar(load.json);
    let report = sender.run(|progress| {
        bar.set_position((progress.fraction * 1000.0) as u64);
        bar.set_message(shown_rate(progress.bytes_per_s));
    });
    bar.finish_and_clear();
    recording.write(&[sender.into_records()])?;
    let report = report?;
    if load.json {
        print_json(&serde_json::to_string(&report)?)?;
    } else {
        print_text(|out| print(out, &report, load.remedy()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn shown_rate(bytes_per_s: f64) -> String {
    format!("{:.2} Mbit/s", bytes_per_s * 8.0 / 1e6)
}

/// A rate requires two marks.
fn known_rate(bytes_per_s: Option<f64>) -> String {
    bytes_per_s.map_or_else(|| "unknown".to_owned(), shown_rate)
}

/// `remedy` tells how to measure more marks.
fn print(out: &mut dyn Write, report: &StreamReport, remedy: &str) -> io::Result<()> {
    writeln!(
        out,
        "throughput  {}  in {:.2} s, {} streams, a mark in every {} B",
        known_rate(report.bytes_per_s),
        report.elapsed_s,
        report.flows.len(),
        report.mark_every_bytes
    )?;
    print_latency(out, "latency     ", report.latency_ns.as_ref())?;
    print_latency(out, "one way     ", report.one_way_ns.as_ref())?;
    if let Some(fairness) = report.fairness.filter(|_| report.flows.len() > 1) {
        writeln!(out, "fairness    {fairness:.4} (Jain's index)")?;
    }
    for flow in &report.flows {
        write!(
            out,
            "  {:<4} {:>18}  {}",
            flow.flow,
            known_rate(flow.bytes_per_s),
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
    if report.bytes_per_s.is_none() {
        writeln!(out, "a stream had fewer than two marks: {remedy}")?;
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

/// Receives streams until asked to exit.
fn take(settings: &ReceiveSettings) -> Result<ExitCode> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot wait for signals")?;
    let receiver = Receiver::start(settings, report)?;
    let address = receiver.address();
    if settings.json {
        let event = serde_json::json!({ "event": "listening", "address": address.to_string() });
        print_json(&event.to_string())?;
    } else {
        print_text(|out| writeln!(out, "receives streams at {address}"))?;
    }
    signals.forever().next();
    report_end(settings.json, receiver.stop())?;
    Ok(ExitCode::SUCCESS)
}

fn report_end(json: bool, counts: ReceiveCounts) -> Result<()> {
    if json {
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
