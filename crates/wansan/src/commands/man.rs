//! `wansan man`: a man page for each command.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_mangen::Man;
use time::OffsetDateTime;

/// Arguments of `wansan man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder to write the pages to, such as /usr/local/share/man/man1; created if missing
    folder: PathBuf,
}

/// Runs `wansan man`; `wansan` is the command line.
///
/// # Errors
/// The folder cannot be created, a page cannot be written, or `SOURCE_DATE_EPOCH` is not a time.
pub(crate) fn run(args: &ManArgs, wansan: Command) -> Result<ExitCode> {
    let release = format!("wansan {}", wansan.get_version().unwrap_or_default());
    let date = date()?;
    // The pages themselves replace `wansan help`.
    let mut wansan = wansan.disable_help_subcommand(true);
    wansan.build();
    fs::create_dir_all(&args.folder)
        .and_then(|()| write(&wansan, &release, &date, &args.folder))
        .with_context(|| format!("cannot write man pages to {}", args.folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// The date of the pages: today, or `SOURCE_DATE_EPOCH`, in seconds since 1970, for reproducible packages.
fn date() -> Result<String> {
    let time = match env::var("SOURCE_DATE_EPOCH") {
        Ok(seconds) => seconds
            .parse()
            .ok()
            .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
            .with_context(|| {
                format!("SOURCE_DATE_EPOCH is not a number of seconds since 1970: {seconds}")
            })?,
        Err(_) => OffsetDateTime::now_utc(),
    };
    Ok(time.date().to_string())
}

/// Writes the page of `command`, and those of its subcommands.
fn write(command: &Command, release: &str, date: &str, folder: &Path) -> io::Result<()> {
    let man = Man::new(command.clone()).source(release).date(date);
    let mut page = Vec::new();
    man.render(&mut page)?;
    // A blank line breaks a paragraph without the requests around it, about which mandoc warns.
    let page = String::from_utf8_lossy(&page).replace(".br\n\n.br\n", ".sp\n");
    fs::write(folder.join(man.get_filename()), page)?;
    for inner in command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set())
    {
        write(inner, release, date, folder)?;
    }
    Ok(())
}
