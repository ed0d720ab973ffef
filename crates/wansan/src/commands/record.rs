//! The arguments of recording, which several commands have.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use wansan_trace::file::{self, FileError};
use wansan_trace::{Kinds, Recorder, units};

use super::quantity::time_span;

/// Where to record, and how much.
#[derive(Debug, Args)]
pub(super) struct RecordPlace {
    /// Write trace records to this folder, as Parquet files
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    /// This host's name in the records [default: the program's role: target, initiator, relay,
    /// sender or watch]
    #[arg(long, value_name = "NAME", requires = "record", value_parser = host)]
    host: Option<String>,
    /// Memory for the records of each thread; once it is full, further records are dropped and
    /// counted
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "512MiB",
        allow_hyphen_values = true,
        value_parser = units::parse_bytes,
        requires = "record"
    )]
    record_memory: u64,
}

/// How often TCP is asked.
#[derive(Debug, Args)]
pub(super) struct TcpInterval {
    /// Interval at which TCP_INFO of each connection is sampled for the records
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = time_span, allow_hyphen_values = true)]
    tcp_interval: Duration,
}

impl TcpInterval {
    /// The time from one look to the next.
    pub(super) fn interval(&self) -> Duration {
        self.tcp_interval
    }
}

/// What to record, and where.
#[derive(Debug, Args)]
pub(super) struct RecordArgs {
    #[command(flatten)]
    place: RecordPlace,
    /// Kinds of records to keep: io, pdu, tcp, stamp (the kernel's socket timestamps)
    #[arg(
        long,
        value_name = "KINDS",
        default_value = "io,pdu,tcp",
        value_delimiter = ',',
        requires = "record"
    )]
    record_kinds: Vec<Kind>,
}

fn host(name: &str) -> Result<String, FileError> {
    file::check_host(name).map(|()| name.to_owned())
}

/// Where records go, made ready before there are any.
#[derive(Debug)]
pub(super) struct Recording {
    /// The folder and this host's name in it; none when nothing is recorded.
    place: Option<(PathBuf, String)>,
    /// The folder, if it was made for this recording.
    made: Option<PathBuf>,
}

impl Recording {
    /// The folder that was made for this recording.
    pub(super) fn made(&self) -> Option<PathBuf> {
        self.made.clone()
    }

    /// Writes the records, if any were asked for.
    ///
    /// # Errors
    /// When they cannot be written, or another program has written under the same name meanwhile.
    pub(super) fn write(&self, recorders: &[Recorder]) -> Result<()> {
        if let Some((folder, host)) = &self.place {
            refuse_to_overwrite(folder, host)?;
            file::write_part(folder, host, recorders)?;
        }
        Ok(())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some(folder) = &self.made {
            // Only an empty folder can be removed this way: one with records stays.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Fails when `folder` holds a recording that one of `host` would replace or be mixed with: a part
/// of the same host, or files that are merged already.
fn refuse_to_overwrite(folder: &Path, host: &str) -> Result<()> {
    const PART: &str = ".part.parquet";
    let unreadable = || format!("cannot read the folder {}", folder.display());
    for entry in std::fs::read_dir(folder).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(&format!(".{host}{PART}")) {
            bail!(
                "{} is an earlier recording of host {host}: name another folder with --record, or \
                 another host with --host",
                path.display()
            );
        }
        if name.ends_with(".parquet") && !name.ends_with(PART) {
            bail!(
                "{} is an earlier recording: name another folder with --record",
                path.display()
            );
        }
    }
    Ok(())
}

/// A kind of record that a program can keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Io,
    Pdu,
    Tcp,
    Stamp,
}

impl RecordArgs {
    /// Which kinds are kept.
    pub(super) fn kinds(&self) -> Kinds {
        if !self.place.is_asked() {
            return Kinds::NONE;
        }
        Kinds {
            io: self.record_kinds.contains(&Kind::Io),
            pdu: self.record_kinds.contains(&Kind::Pdu),
            tcp: self.record_kinds.contains(&Kind::Tcp),
            stamp: self.record_kinds.contains(&Kind::Stamp),
            connection: true,
            ..Kinds::NONE
        }
    }

    /// As [`RecordPlace::budget_bytes`].
    pub(super) fn budget_bytes(&self) -> usize {
        self.place.budget_bytes()
    }

    /// As [`RecordPlace::prepare`].
    ///
    /// # Errors
    /// Those of [`RecordPlace::prepare`].
    pub(super) fn prepare(&self, part: &str) -> Result<Recording> {
        self.place.prepare(part)
    }
}

impl RecordPlace {
    /// Whether anything is to be recorded.
    pub(super) fn is_asked(&self) -> bool {
        self.record.is_some()
    }

    /// Memory for the records of one thread.
    pub(super) fn budget_bytes(&self) -> usize {
        usize::try_from(self.record_memory).unwrap_or(usize::MAX)
    }

    /// Makes the folder and sees that it is free, so that a place that cannot be had is told
    /// before any work is done. The folder goes again with what is returned, unless records were
    /// written to it. `part` is what this host is called when nobody names it.
    ///
    /// # Errors
    /// When the folder cannot be had, or holds an earlier recording that would be replaced.
    pub(super) fn prepare(&self, part: &str) -> Result<Recording> {
        let Some(folder) = &self.record else {
            return Ok(Recording {
                place: None,
                made: None,
            });
        };
        if self.budget_bytes() < Recorder::MIN_BYTES {
            bail!(
                "--record-memory {} is too small: give at least {}",
                units::format_bytes(self.record_memory),
                units::format_bytes(Recorder::MIN_BYTES as u64)
            );
        }
        let host = self.host.as_deref().unwrap_or(part);
        let made = (!folder.exists()).then(|| folder.clone());
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        refuse_to_overwrite(folder, host)?;
        Ok(Recording {
            place: Some((folder.clone(), host.to_owned())),
            made,
        })
    }
}
