//! Merges the parts of all hosts.

use std::fs;
use std::path::{Path, PathBuf};

use super::writer::Writer;
use super::{Dropped, FileError, Kind, Names, Reader, Row, Table, merged_path, read};
use crate::clock::OtherClock;
use crate::recorder::{Recorded, Visitor, visit_kinds};
use crate::{Instant, NameId};

/// Returns the clock of the host that wrote a part, given the part's file; `None` if it is the reference clock.
pub type ClockOf<'a> = &'a dyn Fn(&Path) -> Option<OtherClock>;

/// Merges `FOLDER/<kind>.<host>.part.parquet` of all hosts into `FOLDER/<kind>.parquet`, sorted by time, and removes
/// the parts. Kinds without parts get no file. Parts are removed only after their merged file is complete, so an
/// interrupted merge can be repeated.
///
/// All parts must use one clock: [`merge_parts_of`] merges those of several computers.
///
/// Memory: 32,768 rows per part and 262,144 rows of output.
///
/// # Errors
/// [`FileError`] if a part cannot be read, is damaged or not sorted, or a file cannot be written; the parts of that
/// kind are then kept.
pub fn merge_parts(folder: &Path) -> Result<(), FileError> {
    merge_parts_of(folder, &|_| None)
}

/// See [`merge_parts`]; for parts with different clocks, whose times are converted as they are read.
///
/// # Errors
/// See [`merge_parts`].
pub fn merge_parts_of(folder: &Path, clock_of: ClockOf<'_>) -> Result<(), FileError> {
    visit_kinds(&Merge { folder, clock_of })
}

struct Merge<'a> {
    folder: &'a Path,
    clock_of: ClockOf<'a>,
}

impl Visitor for Merge<'_> {
    type Error = FileError;
    fn visit<T: Recorded>(&self) -> Result<(), FileError> {
        merge_kind::<T>(self.folder, self.clock_of)
    }
}

/// All records of a kind in a folder, sorted by time: from the merged file, or from the hosts' parts if they are not
/// merged. `None` if the folder has neither. Writes nothing.
///
/// # Errors
/// [`FileError`] if a file cannot be read, is damaged or not sorted, or is of another kind.
pub fn read_folder<T: Kind>(folder: &Path) -> Result<Option<Table<T>>, FileError> {
    let parts = match &folder_files::<T>(folder)?[..] {
        [] => return Ok(None),
        [only] if *only == merged_path::<T>(folder) => return read(only).map(Some),
        parts => parts.to_owned(),
    };
    let mut merging = Merging::<T>::open(&parts, &|_| None)?;
    let mut rows = Vec::new();
    while let Some(row) = merging.next()? {
        rows.push(row);
    }
    Ok(Some(Table {
        rows,
        names: merging.names,
        dropped: merging.dropped,
    }))
}

/// The files with a folder's records of a kind: the merged file, or the hosts' parts if they are not merged.
pub(super) fn folder_files<T: Kind>(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let merged = merged_path::<T>(folder);
    match merged.exists() {
        true => Ok(vec![merged]),
        false => parts_of::<T>(folder),
    }
}

/// A part being read.
struct Source<T: Kind> {
    path: PathBuf,
    reader: Reader<T>,
    /// The clock to convert its times from, if any.
    clock: Option<OtherClock>,
    batch: Vec<Row<T>>,
    next: usize,
}

impl<T: Kind> Source<T> {
    fn open(path: PathBuf, clock: Option<OtherClock>) -> Result<Self, FileError> {
        Ok(Source {
            reader: Reader::open(&path)?,
            path,
            clock,
            batch: Vec::new(),
            next: 0,
        })
    }

    /// Returns the next row without consuming it.
    fn peek(&mut self) -> Result<Option<Row<T>>, FileError> {
        if self.next == self.batch.len() {
            self.batch.clear();
            self.next = 0;
            if !self.reader.next_batch(&mut self.batch)? {
                return Ok(None);
            }
            if let Some(clock) = &self.clock {
                convert(&mut self.batch, clock);
            }
        }
        Ok(self.batch.get(self.next).copied())
    }
}

/// The rows of several parts as one sequence, sorted by time.
pub(super) struct Merging<T: Kind> {
    sources: Vec<Source<T>>,
    /// The next row of each source.
    heads: Vec<Option<Row<T>>>,
    names: Names,
    dropped: Dropped,
}

impl<T: Kind> Merging<T> {
    pub(super) fn open(parts: &[PathBuf], clock_of: ClockOf<'_>) -> Result<Self, FileError> {
        let mut sources = parts
            .iter()
            .map(|path| Source::<T>::open(path.clone(), clock_of(path)))
            .collect::<Result<Vec<_>, _>>()?;
        let mut dropped = Dropped::new();
        for (host, lost) in sources.iter().flat_map(|source| source.reader.dropped()) {
            let sum = dropped.entry(host.clone()).or_insert(0u64);
            *sum = sum.saturating_add(*lost);
        }
        // There are few parts (one per host): scanning all heads is faster than a heap.
        let heads = sources
            .iter_mut()
            .map(Source::peek)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Merging {
            sources,
            heads,
            names: Names::default(),
            dropped,
        })
    }

    /// The names used by the rows so far.
    pub(super) fn names_mut(&mut self) -> &mut Names {
        &mut self.names
    }

    /// The earliest remaining row; its name IDs refer to `names`.
    pub(super) fn next(&mut self) -> Result<Option<Row<T>>, FileError> {
        let Some((place, row)) = earliest(&self.heads) else {
            return Ok(None);
        };
        let source = &mut self.sources[place];
        let named = renamed(row, source, &mut self.names)?;
        source.next += 1;
        self.heads[place] = source.peek()?;
        if self.heads[place].is_some_and(|next| next.record.time() < row.record.time()) {
            return Err(FileError::damaged(&source.path, "it is not sorted by time"));
        }
        Ok(Some(named))
    }
}

fn merge_kind<T: Kind>(folder: &Path, clock_of: ClockOf<'_>) -> Result<(), FileError> {
    let parts = parts_of::<T>(folder)?;
    if parts.is_empty() {
        return Ok(());
    }
    let mut merging = Merging::<T>::open(&parts, clock_of)?;
    let mut writer = Writer::create(&merged_path::<T>(folder), &merging.dropped)?;
    while let Some(row) = merging.next()? {
        writer.push(row, &mut merging.names)?;
    }
    writer.finish(&mut merging.names)?;
    for path in &parts {
        fs::remove_file(path).map_err(|error| FileError::write(path, &error))?;
    }
    Ok(())
}

/// Converts all times of the rows to the reference clock. Unknown times stay unknown.
fn convert<T: Kind>(rows: &mut [Row<T>], clock: &OtherClock) {
    let mut names = Names::default();
    for column in T::columns().iter().filter(|column| column.is_time) {
        for row in rows.iter_mut() {
            if let Some(ns @ 1..) = column.of(row, &mut names) {
                let here = clock.here(Instant::from_ns(ns));
                (column.set)(row, here.ns(), &names);
            }
        }
    }
}

fn earliest<T: Kind>(heads: &[Option<Row<T>>]) -> Option<(usize, Row<T>)> {
    heads
        .iter()
        .enumerate()
        .filter_map(|(place, head)| head.map(|row| (place, row)))
        .min_by_key(|(_, row)| row.record.time())
}

/// The row with the merged file's name IDs.
fn renamed<T: Kind>(
    mut row: Row<T>,
    source: &Source<T>,
    names: &mut Names,
) -> Result<Row<T>, FileError> {
    let mut rename = |id: NameId| {
        names
            .intern(source.reader.names().get(id))
            .ok_or_else(|| FileError::damaged(&source.path, "more than 65,536 names"))
    };
    row.host = rename(row.host)?;
    if let Some(path) = row.record.name_mut() {
        *path = rename(*path)?;
    }
    Ok(row)
}

/// The parts of a kind, sorted by name, so that a merge is reproducible.
fn parts_of<T: Kind>(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let start = format!("{}.", T::NAME);
    let mut parts = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| FileError::read(folder, &error))? {
        let entry = entry.map_err(|error| FileError::read(folder, &error))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&start) && name.ends_with(".part.parquet") {
            parts.push(entry.path());
        }
    }
    parts.sort();
    Ok(parts)
}
