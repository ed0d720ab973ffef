//! What commands that measure share: they end when told, are held until told to begin, and show how
//! far they are.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::options::read_line;
use super::{INTERRUPTED, print_json, remark};

/// Ends the program at SIGINT, SIGTERM or SIGHUP, and takes the folder that was made for records
/// along if there are none in it yet.
pub(super) fn end_when_told(made: Option<PathBuf>) -> Result<()> {
    const CANNOT: &str = "cannot wait for signals";
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context(CANNOT)?;
    let waiting = std::thread::Builder::new().name("signals".to_owned());
    let wait = move || {
        if signals.forever().next().is_some() {
            if let Some(folder) = made {
                // One with records in it stays.
                let _ = std::fs::remove_dir(folder);
            }
            remark("wansan: interrupted");
            std::process::exit(i32::from(INTERRUPTED));
        }
    };
    waiting.spawn(wait).context(CANNOT)?;
    Ok(())
}

/// Says that the load could begin, and waits for the order to begin.
pub(super) fn wait_to_begin(json: bool) -> Result<()> {
    if json {
        print_json(r#"{"event":"ready"}"#)?;
    } else {
        remark("ready: starts on a line on standard input");
    }
    let line = read_line(io::stdin().lock());
    line.map(drop).context("cannot read standard input")
}

/// A bar of 1000 steps, for people only.
pub(super) fn bar(json: bool) -> ProgressBar {
    if json || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {eta} left  {msg}");
    ProgressBar::new(1000).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
