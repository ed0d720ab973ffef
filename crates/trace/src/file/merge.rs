//! Joins the parts of all hosts.

use std::fs;
use std::path::{Path, PathBuf};

use super::column::Names;
use super::writer::Writer;
use super::{Dropped, FileError, Kind, Reader, Row, merged_path};
use crate::{NameId, event};

/// Joins `FOLDER/<kind>.<host>.part.parquet` of all hosts into `FOLDER/<kind>.parquet`, sorted by
/// time, and removes the parts. Kinds without parts get no file. Parts are removed only when
/// their merged file is complete, so a merge that was interrupted can be run again.
///
/// Memory: 32,768 rows per part and 262,144 rows of output.
///
/// # Errors
/// [`FileError`] when a part cannot be read, is damaged or not sorted, or a file cannot be
/// written; the parts of that kind are kept then.
pub fn merge_parts(folder: &Path) -> Result<(), FileError> {
    merge_kind::<event::Crossing>(folder)?;
    merge_kind::<event::Pdu>(folder)?;
    merge_kind::<event::Tcp>(folder)?;
    merge_kind::<event::Packet>(folder)?;
    merge_kind::<event::Path>(folder)
}

/// One part that is being read.
struct Source<T: Kind> {
    path: PathBuf,
    reader: Reader<T>,
    batch: Vec<Row<T>>,
    next: usize,
}

impl<T: Kind> Source<T> {
    fn open(path: PathBuf) -> Result<Self, FileError> {
        Ok(Source {
            reader: Reader::open(&path)?,
            path,
            batch: Vec::new(),
            next: 0,
        })
    }

    /// The next row, still in the batch.
    fn peek(&mut self) -> Result<Option<Row<T>>, FileError> {
        if self.next == self.batch.len() {
            self.batch.clear();
            self.next = 0;
            if !self.reader.next_batch(&mut self.batch)? {
                return Ok(None);
            }
        }
        Ok(self.batch.get(self.next).copied())
    }
}

fn merge_kind<T: Kind>(folder: &Path) -> Result<(), FileError> {
    let parts = parts_of::<T>(folder)?;
    if parts.is_empty() {
        return Ok(());
    }
    let mut sources = parts
        .iter()
        .map(|path| Source::<T>::open(path.clone()))
        .collect::<Result<Vec<_>, _>>()?;
    let mut dropped = Dropped::new();
    for (host, lost) in sources.iter().flat_map(|source| source.reader.dropped()) {
        let sum = dropped.entry(host.clone()).or_insert(0u64);
        *sum = sum.saturating_add(*lost);
    }
    let mut writer = Writer::create(&merged_path::<T>(folder), &dropped)?;
    let mut names = Names::default();
    // Parts are few (one per host): looking at each head beats keeping a heap in order.
    let mut heads = sources
        .iter_mut()
        .map(Source::peek)
        .collect::<Result<Vec<_>, _>>()?;
    while let Some((place, row)) = earliest(&heads) {
        let source = &mut sources[place];
        writer.push(renamed(row, source, &mut names)?, &mut names)?;
        source.next += 1;
        heads[place] = source.peek()?;
        if heads[place].is_some_and(|next| next.record.time() < row.record.time()) {
            return Err(FileError::damaged(&source.path, "it is not sorted by time"));
        }
    }
    writer.finish(&mut names)?;
    for path in &parts {
        fs::remove_file(path).map_err(|error| FileError::write(path, &error))?;
    }
    Ok(())
}

fn earliest<T: Kind>(heads: &[Option<Row<T>>]) -> Option<(usize, Row<T>)> {
    heads
        .iter()
        .enumerate()
        .filter_map(|(place, head)| head.map(|row| (place, row)))
        .min_by_key(|(_, row)| row.record.time())
}

/// The row with the ids of its names in the merged file.
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
    if let Some(path) = row.record.path_mut() {
        *path = rename(*path)?;
    }
    Ok(row)
}

/// The parts of a kind, by name, so that a merge gives the same file each time.
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
