//! The Parquet files of a run folder, one per record kind.
//!
//! A recording program calls [`write_part`] when its work is done: one file per kind and host, for example
//! `io.initiator-0.part.parquet`. [`merge_parts`] joins the parts of all hosts, sorted by time, into `io.parquet`,
//! `pdu.parquet`, `connection.parquet`, `tcp.parquet`, `stamp.parquet`, `packet.parquet`, `path.parquet`,
//! `thread.parquet` and `request.parquet`; [`write_merged`] writes these directly if one program has all records.
//! [`read`] (or [`Reader`], batch by batch) reads either, [`read_folder`] whichever a folder has.
//!
//! pandas, DuckDB and Spark read the files without conversion. Columns are the fields of the record types in
//! [`crate::event`] under the same names, times with the suffix `_ns`, preceded by the string column `host`. Layers,
//! directions, events, verdicts, paths and addresses are dictionary-encoded strings; integers of 64 bits are signed,
//! and −1 in `pacing_bytes_per_s` means unlimited. `session` is the ISID's 48 bits above the TSIH's 16. Compression is
//! Snappy.
//!
//! The key-value metadata are `wansan.schema` (the version of this layout), `wansan.version`, `wansan.kind`,
//! `wansan.data_crc32c` (length and CRC32C of everything before the footer), and for each host `wansan.dropped.HOST`:
//! the number of records of the kind that its recorders dropped for lack of memory.

mod checksum;
mod described;
mod dictionary;
mod gather;
mod merge;
mod reader;
mod spread;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use crate::kind::{Kind, Row};
pub use crate::names::Names;
pub use described::{Described, described_facts};
pub use gather::gather;
use gather::{Naming, by_host};
use merge::folder_files;
pub use merge::{ClockOf, merge_parts, merge_parts_of, read_folder};
pub use reader::Reader;
pub use spread::{Part, Spread, spread};

use crate::log::Words;
use crate::log::by_time;
use crate::recorder::{Recorded, Visitor, visit_kinds};
use crate::{NameId, Recorder};
use writer::Writer;

const SCHEMA_KEY: &str = "wansan.schema";
const VERSION_KEY: &str = "wansan.version";
const KIND_KEY: &str = "wansan.kind";
const CHECKSUM_KEY: &str = "wansan.data_crc32c";
const DROPPED_KEY: &str = "wansan.dropped.";
/// The layout version that this wansan writes and reads.
const SCHEMA_VERSION: u32 = 1;

/// Dropped records of one kind, by host.
pub type Dropped = BTreeMap<String, u64>;

/// All rows of one file.
#[derive(Debug, Clone)]
pub struct Table<T> {
    /// The rows in file order: by time in merged files.
    pub rows: Vec<Row<T>>,
    /// The hosts and paths that the rows name.
    pub names: Names,
    /// Records dropped before they could be written.
    pub dropped: Dropped,
}

/// Why a record file could not be written or read. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A system error.
    #[error("cannot {action} {path}: {reason}", path = path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// "read" or "write".
        action: &'static str,
        /// The system's error.
        reason: String,
    },
    /// Not Parquet, truncated, or its data cannot be decoded.
    #[error("{path} is damaged: {reason}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// Parquet, but not a record file of the requested kind.
    #[error("{path} is not a record file of the expected kind: {reason}", path = path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The difference.
        reason: String,
    },
    /// The host's name cannot be used in a file name.
    #[error("host name \"{}\" cannot be used in a file name: use letters, digits, '-' and '_'", host.escape_default())]
    HostName {
        /// The name.
        host: String,
    },
}

impl FileError {
    fn write(path: &Path, error: &dyn std::error::Error) -> Self {
        FileError::System {
            path: path.to_owned(),
            action: "write",
            reason: error.to_string(),
        }
    }

    fn read(path: &Path, error: &dyn std::error::Error) -> Self {
        FileError::System {
            path: path.to_owned(),
            action: "read",
            reason: error.to_string(),
        }
    }

    fn damaged(path: &Path, reason: &str) -> Self {
        FileError::Damaged {
            path: path.to_owned(),
            reason: reason.to_owned(),
        }
    }

    fn foreign(path: &Path, reason: &str) -> Self {
        FileError::Foreign {
            path: path.to_owned(),
            reason: reason.to_owned(),
        }
    }
}

/// Checks that a host's name can be used in a file name, so that a program can report it before its work starts.
///
/// # Errors
/// [`FileError::HostName`] if it cannot.
pub fn check_host(host: &str) -> Result<(), FileError> {
    let fit = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if host.is_empty() || host.len() > 64 || !host.chars().all(fit) {
        return Err(FileError::HostName {
            host: host.to_owned(),
        });
    }
    Ok(())
}

/// Writes one program's records: `FOLDER/<kind>.<host>.part.parquet` for each kind that any of the recorders keeps,
/// even if it has no records. Memory: a copy of a few of each recorder's blocks, and 262,144 rows.
///
/// # Errors
/// [`FileError`] if `host` cannot be used in a file name or a file cannot be written.
pub fn write_part(folder: &Path, host: &str, recorders: &[Recorder]) -> Result<(), FileError> {
    check_host(host)?;
    let recorders: Vec<_> = recorders.iter().map(|recorder| (host, recorder)).collect();
    visit_kinds(&Files {
        path: &|kind| folder.join(format!("{kind}.{host}.part.parquet")),
        recorders: &recorders,
    })
}

/// Writes the records of all hosts when one program has them all: the same files as [`write_part`] of each host and
/// [`merge_parts`]. Memory: as for `write_part`.
///
/// # Errors
/// [`FileError`] if a host's name cannot be used in a file name or a file cannot be written.
pub fn write_merged(folder: &Path, recorders: &[(&str, &Recorder)]) -> Result<(), FileError> {
    for (host, _) in recorders {
        check_host(host)?;
    }
    visit_kinds(&Files {
        path: &|kind| folder.join(merged_name(kind)),
        recorders: &by_host(recorders),
    })
}

/// Writes a table, for example from [`gather`], as the merged file of its kind.
///
/// # Errors
/// [`FileError`] if the file cannot be written.
pub fn write_table<T: Kind>(folder: &Path, table: &Table<T>) -> Result<(), FileError> {
    let mut writer = Writer::create(&merged_path::<T>(folder), &table.dropped)?;
    // Address names are assigned while writing.
    let mut names = table.names.clone();
    writer.write_all(&table.rows, &mut names)?;
    writer.finish(&mut names)
}

/// The files being written, one per kind.
struct Files<'a> {
    path: &'a dyn Fn(&str) -> PathBuf,
    /// Recorders, each with its host.
    recorders: &'a [(&'a str, &'a Recorder)],
}

impl Visitor for Files<'_> {
    type Error = FileError;
    fn visit<T: Recorded>(&self) -> Result<(), FileError> {
        write_kind::<T>(&(self.path)(T::NAME), self.recorders)
    }
}

fn write_kind<T: Recorded>(path: &Path, recorders: &[(&str, &Recorder)]) -> Result<(), FileError> {
    if !recorders.iter().any(|(_, each)| T::log(each).is_kept()) {
        return Ok(());
    }
    let mut dropped = Dropped::new();
    for (host, recorder) in recorders {
        *dropped.entry((*host).to_owned()).or_default() += T::log(recorder).dropped();
    }
    let mut writer = Writer::create(path, &dropped)?;
    let mut names = Names::default();
    let too_many = || FileError::foreign(path, "more than 65,536 names");
    let hosts = recorders.iter().map(|(host, _)| names.intern(host));
    let hosts: Vec<NameId> = hosts.collect::<Option<_>>().ok_or_else(too_many)?;
    let logs: Vec<_> = recorders.iter().map(|(_, each)| T::log(each)).collect();
    let mut namings: Vec<Naming<'_>> = recorders.iter().map(|(_, it)| Naming::of(it)).collect();
    let records = by_time(&logs).flat_map(|(log, kept)| {
        let all = kept.unfold();
        all.map(move |record| (record, log))
    });
    for (mut record, log) in records {
        if let Some(name) = record.name_mut() {
            let interned = namings[log].intern(*name, &mut names);
            *name = interned.ok_or_else(too_many)?;
        }
        let host = hosts[log];
        writer.push(Row { host, record }, &mut names)?;
    }
    writer.finish(&mut names)
}

/// Reads a whole file.
///
/// # Errors
/// [`FileError`] if it cannot be read, is damaged, or is of another kind.
pub fn read<T: Kind>(path: &Path) -> Result<Table<T>, FileError> {
    /// Maximum memory reserved for a file's row count: a damaged file may claim any number.
    const TRUSTED_BYTES: usize = 256 << 20;
    let mut reader = Reader::<T>::open(path)?;
    let claimed = usize::try_from(reader.rows()).unwrap_or(usize::MAX);
    let mut rows = Vec::with_capacity(claimed.min(TRUSTED_BYTES / size_of::<Row<T>>()));
    while reader.next_batch(&mut rows)? {}
    let dropped = reader.dropped().clone();
    Ok(Table {
        rows,
        names: reader.into_names(),
        dropped,
    })
}

/// The path of a kind's merged file in a cell's folder.
#[must_use]
pub fn merged_path<T: Kind>(folder: &Path) -> PathBuf {
    folder.join(merged_name(T::NAME))
}

fn merged_name(kind: &str) -> String {
    format!("{kind}.parquet")
}
