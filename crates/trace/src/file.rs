//! The Parquet files of a run folder, one per record kind.
//!
//! A program that records calls [`write_part`] when its work is done: one file per kind and host,
//! `io.initiator-0.part.parquet` say. [`merge_parts`] joins the parts of all hosts, sorted by time,
//! into `io.parquet`, `pdu.parquet`, `connection.parquet`, `tcp.parquet`, `stamp.parquet`, `packet.parquet`,
//! `path.parquet`, `thread.parquet` and `request.parquet`, which [`write_merged`] writes at once where one program has all. [`read`] (or [`Reader`], batch by batch) reads either,
//! [`read_folder`] whichever a folder has.
//!
//! pandas, DuckDB and Spark read the files as they are. Columns are the fields of the record types
//! in [`crate::event`] by the same names, times with `_ns` behind their names, with the string
//! column `host` before them. Layers, directions, events, verdicts, paths and addresses are
//! dictionary-encoded strings; integers of 64 bits are signed, and −1 in `pacing_bytes_per_s`
//! means unlimited. `session` is the ISID's 48 bits above the TSIH's 16. Compression is Snappy.
//!
//! The key-value metadata say `wansan.schema` (the version of this layout), `wansan.version`,
//! `wansan.kind`, `wansan.data_crc32c` (length and CRC32C of all that stands before the footer), and
//! for each host `wansan.dropped.HOST`: how many records of the kind its
//! recorders lost because their memory was used up.

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
/// The version of the layout that this wansan writes and reads.
const SCHEMA_VERSION: u32 = 1;

/// How many records of one kind each host's recorders lost.
pub type Dropped = BTreeMap<String, u64>;

/// All rows of one file.
#[derive(Debug, Clone)]
pub struct Table<T> {
    /// The rows in file order: by time in merged files.
    pub rows: Vec<Row<T>>,
    /// The hosts and paths that the rows name.
    pub names: Names,
    /// Records that were lost before they could be written.
    pub dropped: Dropped,
}

/// Why a record file could not be written or read. Each is one line.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused.
    #[error("cannot {action} {path}: {reason}", path = path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// "read" or "write".
        action: &'static str,
        /// What the system said.
        reason: String,
    },
    /// It is not Parquet, was cut short, or its data do not decode.
    #[error("{path} is damaged: {reason}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It is Parquet, but not a record file of the wanted kind.
    #[error("{path} is not a record file of the wanted kind: {reason}", path = path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The host's name cannot be in a file name.
    #[error("host name \"{}\" is not fit for a file name: use letters, digits, '-' and '_'", host.escape_default())]
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

/// Checks that a host's name can be in a file name, so that a program can say so before its
/// work is done.
///
/// # Errors
/// [`FileError::HostName`] when it cannot.
pub fn check_host(host: &str) -> Result<(), FileError> {
    let fit = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if host.is_empty() || host.len() > 64 || !host.chars().all(fit) {
        return Err(FileError::HostName {
            host: host.to_owned(),
        });
    }
    Ok(())
}

/// Writes what one program recorded: `FOLDER/<kind>.<host>.part.parquet` for each kind that any of
/// the recorders keeps, also when nothing of that kind happened. Memory: a few of each recorder's
/// blocks a second time, and 262,144 rows.
///
/// # Errors
/// [`FileError`] when `host` is not fit for a file name or a file cannot be written.
pub fn write_part(folder: &Path, host: &str, recorders: &[Recorder]) -> Result<(), FileError> {
    check_host(host)?;
    let recorders: Vec<_> = recorders.iter().map(|recorder| (host, recorder)).collect();
    visit_kinds(&Files {
        path: &|kind| folder.join(format!("{kind}.{host}.part.parquet")),
        recorders: &recorders,
    })
}

/// Writes what all hosts recorded, where one program has all of it: the files that [`write_part`] of each
/// and [`merge_parts`] would leave. The memory that it takes is that of `write_part`.
///
/// # Errors
/// [`FileError`] when the name of a host is not fit for a file name or a file cannot be written.
pub fn write_merged(folder: &Path, recorders: &[(&str, &Recorder)]) -> Result<(), FileError> {
    for (host, _) in recorders {
        check_host(host)?;
    }
    visit_kinds(&Files {
        path: &|kind| folder.join(merged_name(kind)),
        recorders: &by_host(recorders),
    })
}

/// Writes a table, such as [`gather`] makes, as the merged file of its kind.
///
/// # Errors
/// [`FileError`] when the file cannot be written.
pub fn write_table<T: Kind>(folder: &Path, table: &Table<T>) -> Result<(), FileError> {
    let mut writer = Writer::create(&merged_path::<T>(folder), &table.dropped)?;
    // Addresses are named as they are written.
    let mut names = table.names.clone();
    writer.write_all(&table.rows, &mut names)?;
    writer.finish(&mut names)
}

/// Files that are written, one for each kind.
struct Files<'a> {
    path: &'a dyn Fn(&str) -> PathBuf,
    /// Each with its host.
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
/// [`FileError`] when it cannot be read, is damaged, or is something else.
pub fn read<T: Kind>(path: &Path) -> Result<Table<T>, FileError> {
    /// A damaged file may claim any number of rows: no more memory than this is taken on its word.
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

/// Where the merged file of a kind is in a cell's folder.
#[must_use]
pub fn merged_path<T: Kind>(folder: &Path) -> PathBuf {
    folder.join(merged_name(T::NAME))
}

fn merged_name(kind: &str) -> String {
    format!("{kind}.parquet")
}
