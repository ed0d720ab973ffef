//! One module per command, and common output: text, JSON and errors.

pub(crate) mod attach;
pub(crate) mod bench;
pub(crate) mod cc;
pub(crate) mod completions;
pub(crate) mod copy;
pub(crate) mod diagnose;
pub(crate) mod explain;
mod grid;
pub(crate) mod initiator_check;
pub(crate) mod lab;
pub(crate) mod man;
mod measuring;
pub(crate) mod model;
mod options;
pub(crate) mod path;
mod record;
pub(crate) mod relay;
mod service;
mod settings_file;
pub(crate) mod stream;
pub(crate) mod target;
pub(crate) mod tune;
pub(crate) mod watch;
pub(crate) mod wireguard;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use wansan_san::url::without_user;

use wansan_trace::terminal::{Escaping, escaped, escaped_json};

/// Exit status of an interrupted program, as in shells: 128 + SIGINT.
const INTERRUPTED: u8 = 130;

/// Prints text on standard output, with control characters escaped. A closed reader is not an error.
pub(crate) fn print_text(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    try_print(write).map(|_| ())
}

/// See [`print_text`]; returns `false` if the reader has closed, so that no more needs to be printed.
pub(crate) fn try_print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<bool> {
    let mut out = Escaping(io::stdout().lock());
    heard(write(&mut out).and_then(|()| out.flush()))
}

/// Prints JSON and a line feed on standard output, like [`print_text`].
pub(crate) fn print_json(json: &str) -> Result<()> {
    try_print_json(json).map(|_| ())
}

/// See [`print_json`]; returns `false` if the reader has closed, so that no more needs to be printed.
pub(crate) fn try_print_json(json: &str) -> Result<bool> {
    let mut out = io::stdout().lock();
    heard(writeln!(out, "{}", escaped_json(json.trim_end())).and_then(|()| out.flush()))
}

/// Whether standard output may still have a reader: `false` once it is a pipe, a socket or a terminal whose other end
/// is closed. Writes nothing to find out.
pub(crate) fn is_read() -> bool {
    let out = io::stdout();
    // Poll always reports errors and hang-ups.
    let mut polled = [PollFd::new(&out, PollFlags::empty())];
    match poll(&mut polled, Some(&Timespec::default())) {
        Ok(_) => !polled[0]
            .revents()
            .intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL),
        // Unknown.
        Err(_) => true,
    }
}

fn heard(written: io::Result<()>) -> Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to standard output"),
    }
}

/// Prints a line on standard error.
pub(crate) fn remark(line: &str) {
    eprintln!("{}", escaped(line));
}

/// Formats an error and its causes in one line, each cause once.
#[must_use]
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = cause.to_string().replace('\n', " ");
        if !line.contains(&text) {
            if !line.is_empty() {
                line.push_str(": ");
            }
            line.push_str(&text);
        }
    }
    line
}

/// Handles unusable arguments: prints help or version if requested, otherwise an error in one line.
#[must_use]
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Nothing can be done if the terminal is gone.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        eprint!("{text}");
    } else {
        let told = text
            .lines()
            .map(str::trim)
            .take_while(|line| !line.starts_with("Usage:"));
        let told = told.filter(|line| !line.is_empty());
        let told = told.fold(String::new(), |told, line| {
            let between = match told.as_str() {
                "" => "",
                told if told.ends_with(':') => " ",
                _ => "; ",
            };
            told + between + line
        });
        let line = without_user(&told);
        remark(&format!(
            "wansan: {}",
            line.strip_prefix("error: ").unwrap_or(&line)
        ));
    }
    ExitCode::from(crate::BAD_INPUT)
}
