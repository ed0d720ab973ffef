//! The arguments of recording, which several commands have.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use wansan_trace::{Kinds, Recorder, file, units};

/// What to record, and where.
#[derive(Debug, Args)]
pub(super) struct RecordArgs {
    /// Record into this folder, as Parquet files
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    /// The name of this host in the records
    #[arg(
        long,
        value_name = "NAME",
        default_value = "local",
        requires = "record"
    )]
    host: String,
    /// Which records to keep, of io, pdu, tcp
    #[arg(
        long,
        value_name = "KINDS",
        default_value = "io,pdu,tcp",
        value_delimiter = ',',
        requires = "record"
    )]
    record_kinds: Vec<Kind>,
    /// Memory for the records of one thread; what comes after it is counted as dropped
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "512MiB",
        value_parser = units::parse_bytes,
        requires = "record"
    )]
    record_memory: u64,
}

/// A folder that was made for records.
pub(super) struct Made(Option<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            // Only an empty folder can be removed this way: one with records stays.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// A kind of record that a program can keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Io,
    Pdu,
    Tcp,
}

impl RecordArgs {
    /// Which kinds are kept.
    pub(super) fn kinds(&self) -> Kinds {
        if self.record.is_none() {
            return Kinds::NONE;
        }
        Kinds {
            io: self.record_kinds.contains(&Kind::Io),
            pdu: self.record_kinds.contains(&Kind::Pdu),
            tcp: self.record_kinds.contains(&Kind::Tcp),
            ..Kinds::NONE
        }
    }

    /// Memory for the records of one thread.
    pub(super) fn budget_bytes(&self) -> usize {
        usize::try_from(self.record_memory).unwrap_or(usize::MAX)
    }

    /// Makes the folder, so that a place that cannot be had is told before any work is done. It
    /// goes again with what is returned, unless records were written to it.
    pub(super) fn prepare(&self) -> Result<Made> {
        let Some(folder) = &self.record else {
            return Ok(Made(None));
        };
        if self.budget_bytes() < Recorder::MIN_BYTES {
            bail!(
                "--record-memory {} is too little: give at least {}",
                units::format_bytes(self.record_memory),
                units::format_bytes(Recorder::MIN_BYTES as u64)
            );
        }
        let made = Made((!folder.exists()).then(|| folder.clone()));
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        Ok(made)
    }

    /// Writes the records, if any were asked for.
    pub(super) fn write(&self, recorders: &[Recorder]) -> Result<()> {
        if let Some(folder) = &self.record {
            file::write_part(folder, &self.host, recorders)?;
        }
        Ok(())
    }
}
