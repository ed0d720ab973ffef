//! `wansan copy`: copies disks.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use wansan_attach::copy::{CopyError, CopyPlace, CopyProgress, CopyReport, copy, hex};
use wansan_attach::settings::CopySettings;

use super::options::{Elsewhere, Options};
use super::{print_json, print_text, remark};

/// Arguments of `wansan copy`.
#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    #[command(flatten)]
    options: Options<CopySettings>,
    #[command(flatten)]
    elsewhere: Elsewhere,
}

/// Runs `wansan copy`.
///
/// # Errors
/// The error that prevents the copy, or a difference.
pub(crate) fn run(args: &CopyArgs) -> Result<ExitCode> {
    let settings = args.elsewhere.settings_or(&args.options)?;
    let config = settings.config()?;
    let bar = bar(settings.json);
    let copied = copy(&config, |progress| show(&bar, progress));
    bar.finish_and_clear();
    let report = match copied {
        Err(error @ CopyError::Differs { .. }) => {
            remark(&format!("wansan: {error}"));
            return Ok(ExitCode::FAILURE);
        }
        copied => copied?,
    };
    // Standard output carries the data.
    let to_standard_output = settings.to.0 == CopyPlace::Standard;
    if settings.json {
        let json = serde_json::json!({
            "size_bytes": report.size_bytes,
            "resumed_bytes": report.resumed_bytes,
            "data_bytes": report.data_bytes,
            "time_s": report.time.as_secs_f64(),
            "bytes_per_s": rate(&report),
            "sha256": report.sha256.map(|digest| hex(&digest)),
        });
        match to_standard_output {
            true => remark(&json.to_string()),
            false => print_json(&json.to_string())?,
        }
    } else {
        let mut text = Vec::new();
        print(&mut text, &report)?;
        let text = String::from_utf8_lossy(&text);
        match to_standard_output {
            true => text.lines().for_each(remark),
            false => print_text(|out| out.write_all(text.as_bytes()))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn bar(json: bool) -> ProgressBar {
    let target = match json {
        true => ProgressDrawTarget::hidden(),
        false => ProgressDrawTarget::stderr_with_hz(5),
    };
    ProgressBar::with_draw_target(None, target)
}

fn show(bar: &ProgressBar, progress: CopyProgress) {
    let CopyProgress {
        verifies,
        done_bytes,
        size_bytes,
    } = progress;
    let what = if verifies { "verifying" } else { "copying" };
    if bar.message() != what || bar.length() != size_bytes {
        let template = match size_bytes {
            Some(_) => "{msg} [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
            None => "{msg} {bytes}, {bytes_per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        if let Some(size) = size_bytes {
            bar.set_length(size);
        }
        bar.set_message(what);
        // Data copied earlier do not count for the rate.
        bar.set_position(done_bytes);
        bar.reset_eta();
    }
    bar.set_position(done_bytes);
}

/// The rate of this copy, in bytes per second.
fn rate(report: &CopyReport) -> f64 {
    let bytes = report.size_bytes - report.resumed_bytes;
    bytes as f64 / report.time.as_secs_f64().max(1e-9)
}

fn print(out: &mut dyn Write, report: &CopyReport) -> io::Result<()> {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    writeln!(
        out,
        "copied    {:>12.1} MiB in {:.2} s, {:.1} MiB/s",
        mib(report.size_bytes - report.resumed_bytes),
        report.time.as_secs_f64(),
        rate(report) / f64::from(1 << 20)
    )?;
    writeln!(
        out,
        "data      {:>12.1} MiB, the rest is zeros",
        mib(report.data_bytes)
    )?;
    if report.resumed_bytes > 0 {
        writeln!(
            out,
            "resumed   {:>12.1} MiB were there already",
            mib(report.resumed_bytes)
        )?;
    }
    if let Some(digest) = &report.sha256 {
        writeln!(out, "verified  SHA-256 {}", hex(digest))?;
    }
    Ok(())
}
