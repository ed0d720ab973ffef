//! Common parts of measuring commands: stopping on a signal, waiting for release, and progress.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::options::read_line;
use super::{INTERRUPTED, print_json, remark};

/// Ends the program on SIGINT, SIGTERM or SIGHUP, and removes the folder created for records if it is still empty.
pub(super) fn end_when_told(made: Option<PathBuf>) -> Result<()> {
    const CANNOT: &str = "cannot wait for signals";
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context(CANNOT)?;
    let waiting = std::thread::Builder::new().name("signals".to_owned());
    let wait = move || {
        if signals.forever().next().is_some() {
            if let Some(folder) = made {
                // A folder with records stays.
                let _ = std::fs::remove_dir(folder);
            }
            remark("wansan: interrupted");
            std::process::exit(i32::from(INTERRUPTED));
        }
    };
    waiting.spawn(wait).context(CANNOT)?;
    Ok(())
}

/// Reports that the load is ready, and waits for its release.
pub(super) fn wait_to_begin(json: bool) -> Result<()> {
    if json {
        print_json(r#"{"event":"ready"}"#)?;
    } else {
        remark("ready: starts on a line on standard input");
    }
    let line = read_line(io::stdin().lock());
    line.map(drop).context("cannot read standard input")
}

/// A progress bar of 1000 steps, hidden with JSON output.
pub(super) fn bar(json: bool) -> ProgressBar {
    if json || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {eta} left  {msg}");
    ProgressBar::new(1000).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
