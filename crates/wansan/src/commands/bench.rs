//! `wansan bench`: loads a disk and measures it.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use wansan_san::Sessions;
use wansan_san::load::{Load, LoadError};
use wansan_san::settings::BenchSettings;
use wansan_schema::BenchReport;
use wansan_trace::Recorder;

use super::measuring::{self, end_when_told, wait_to_begin};
use super::options::{Elsewhere, Options};
use super::{print_json, print_text, record, remark};

/// Arguments of `wansan bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    options: Options<BenchSettings>,
    #[command(flatten)]
    elsewhere: Elsewhere,
}

/// Runs `wansan bench`.
///
/// # Errors
/// The error that prevents the measurement.
pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode> {
    let settings = args.elsewhere.settings_or(&args.options)?;
    let place = &settings.record.place;
    let recording = record::prepare(place, "initiator")?;
    end_when_told(recording.made())?;
    let (kinds, record_bytes) = (settings.record.kinds(), place.memory_bytes());
    let load = settings.config();
    let session = &settings.initiator;
    let config = session.config(load.parallel, settings.tcp.tcp_interval.0)?;
    let url = &session.url.0;
    let mut sessions = Sessions::connect(url, &config, kinds, record_bytes)?;
    report_routes(&mut sessions);
    let mut has_begun = false;
    let measured = match Load::ready(&mut sessions, url.lun, &load) {
        Ok(load) => {
            if settings.hold {
                wait_to_begin(settings.json)?;
            }
            has_begun = true;
            measure(settings.json, load)
        }
        Err(error) => Err(error),
    };
    report_routes(&mut sessions);
    let traces = match &measured {
        Err(LoadError::Session(_) | LoadError::CutOff { .. }) => sessions.into_records(),
        _ => sessions.logout(),
    };
    let dropped = traces.iter().map(Recorder::dropped).sum();
    // The records of a failed load tell why.
    let written = match has_begun {
        true => recording.write(&traces),
        false => Ok(()),
    };
    let mut report = measured?;
    report.records_dropped = dropped;
    written?;
    if settings.json {
        print_json(&serde_json::to_string(&report)?)?;
    } else {
        print_text(|out| print(out, &report))?;
    }
    match report.problem() {
        None => Ok(ExitCode::SUCCESS),
        Some(problem) if report.errors > 0 => {
            remark(&format!("wansan: {problem}"));
            Ok(ExitCode::FAILURE)
        }
        Some(problem) => bail!(problem),
    }
}

/// Reports route events, if there are several routes.
fn report_routes(sessions: &mut Sessions) {
    while let Some(event) = sessions.poll_event() {
        remark(&format!("wansan: {event}"));
    }
}

fn measure(json: bool, load: Load<'_>) -> Result<BenchReport, LoadError> {
    let bar = measuring::bar(json);
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
