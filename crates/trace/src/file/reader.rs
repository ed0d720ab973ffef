//! Reads one record file in batches.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::basic::{Repetition, Type as Physical};
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::FileMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::checksum::{check, guarded};
use super::{
    CHECKSUM_KEY, DROPPED_KEY, Dropped, FileError, KIND_KEY, Kind, Row, SCHEMA_KEY, SCHEMA_VERSION,
};
use crate::NameId;
use crate::field::Cell;
use crate::kind::{Column, all_columns};
use crate::names::{Names, Vocabulary};

/// Rows per batch.
const BATCH_ROWS: usize = 32 * 1024;

/// Reads the rows of one file in order.
///
/// [`Reader::open`], then [`Reader::next_batch`] until it returns `false`. Memory: one batch of 32,768 rows, one page
/// of each column, and the file's names.
pub struct Reader<T: Kind> {
    path: PathBuf,
    file: SerializedFileReader<File>,
    columns: Vec<Column<T>>,
    /// Index in the file of each of `columns`.
    places: Vec<usize>,
    rows: u64,
    dropped: Dropped,
    names: Names,
    next_group: usize,
    group: Vec<ColumnReader>,
    group_rows_left: usize,
    values: Values,
}

/// Buffers for one column of a batch.
#[derive(Default)]
struct Values {
    int64: Vec<i64>,
    int32: Vec<i32>,
    text: Vec<ByteArray>,
}

impl<T: Kind> Reader<T> {
    /// Opens a file and checks that it is a record file of this kind.
    ///
    /// # Errors
    /// [`FileError`] if it cannot be read, is damaged, or is of another kind.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        guarded(path, || Self::open_unguarded(path))
    }

    fn open_unguarded(path: &Path) -> Result<Self, FileError> {
        let file = File::open(path).map_err(|error| FileError::read(path, &error))?;
        let file = SerializedFileReader::new(file).map_err(|error| damaged(path, &error))?;
        let mut columns = all_columns::<T>();
        let facts = file.metadata().file_metadata();
        check_facts::<T>(path, facts)?;
        columns.retain(|column| !column.may_lack || has_column(facts, column.name));
        let places = find_columns(path, facts, &columns)?;
        let rows = u64::try_from(facts.num_rows())
            .map_err(|_| FileError::damaged(path, "it claims a negative number of rows"))?;
        let dropped = read_dropped(path, facts)?;
        Ok(Reader {
            path: path.to_owned(),
            columns,
            places,
            rows,
            dropped,
            names: Names::default(),
            next_group: 0,
            group: Vec::new(),
            group_rows_left: 0,
            values: Values::default(),
            file,
        })
    }

    /// The file's row count, unverified.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Records dropped by each host's full recorder.
    #[must_use]
    pub fn dropped(&self) -> &Dropped {
        &self.dropped
    }

    /// The names used by the rows read so far.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The names, after all rows were read.
    #[must_use]
    pub fn into_names(self) -> Names {
        self.names
    }

    /// Appends the next rows; returns `false` at the end.
    ///
    /// # Errors
    /// [`FileError::Damaged`] if the file's data cannot be decoded.
    pub fn next_batch(&mut self, rows: &mut Vec<Row<T>>) -> Result<bool, FileError> {
        let path = self.path.clone();
        guarded(&path, || self.next_batch_unguarded(rows))
    }

    fn next_batch_unguarded(&mut self, rows: &mut Vec<Row<T>>) -> Result<bool, FileError> {
        while self.group_rows_left == 0 {
            if self.next_group == self.file.num_row_groups() {
                return Ok(false);
            }
            self.open_group()?;
        }
        let count = self.group_rows_left.min(BATCH_ROWS);
        let start = rows.len();
        let blank = Row {
            host: NameId(0),
            record: T::BLANK,
        };
        rows.resize(start + count, blank);
        for (column, reader) in self.columns.iter().zip(&mut self.group) {
            let filled = fill(
                column,
                reader,
                &mut rows[start..],
                &mut self.values,
                &mut self.names,
            );
            if let Err(reason) = filled {
                rows.truncate(start);
                return Err(FileError::Damaged {
                    path: self.path.clone(),
                    reason: format!("column {}: {reason}", column.name),
                });
            }
        }
        self.group_rows_left -= count;
        Ok(true)
    }

    fn open_group(&mut self) -> Result<(), FileError> {
        let group = self
            .file
            .get_row_group(self.next_group)
            .map_err(|error| damaged(&self.path, &error))?;
        self.group_rows_left = usize::try_from(group.metadata().num_rows())
            .map_err(|_| FileError::damaged(&self.path, "a row group claims negative rows"))?;
        self.group.clear();
        for &place in &self.places {
            let column = group
                .get_column_reader(place)
                .map_err(|error| damaged(&self.path, &error))?;
            self.group.push(column);
        }
        self.next_group += 1;
        Ok(())
    }
}

/// Reads one value of `column` for each of `rows`.
fn fill<T: Kind>(
    column: &Column<T>,
    reader: &mut ColumnReader,
    rows: &mut [Row<T>],
    values: &mut Values,
    names: &mut Names,
) -> Result<(), String> {
    let told = |error: ParquetError| one_line(&error);
    let count = rows.len();
    let got = match (column.cell, reader) {
        (Cell::Int64, ColumnReader::Int64ColumnReader(reader)) => {
            values.int64.clear();
            let (got, _, _) = reader
                .read_records(count, None, None, &mut values.int64)
                .map_err(told)?;
            for (row, &value) in rows.iter_mut().zip(&values.int64) {
                (column.set)(row, value as u64, names);
            }
            got
        }
        (Cell::Uint(bits), ColumnReader::Int32ColumnReader(reader)) => {
            values.int32.clear();
            let (got, _, _) = reader
                .read_records(count, None, None, &mut values.int32)
                .map_err(told)?;
            let most = u32::MAX >> (32 - i32::from(bits));
            for (row, &value) in rows.iter_mut().zip(&values.int32) {
                let value = value as u32;
                if value > most {
                    return Err(format!("{value} does not fit in {bits} bits"));
                }
                (column.set)(row, value.into(), names);
            }
            got
        }
        (Cell::Text(vocabulary), ColumnReader::ByteArrayColumnReader(reader)) => {
            values.text.clear();
            let (got, _, _) = reader
                .read_records(count, None, None, &mut values.text)
                .map_err(told)?;
            set_texts(column, vocabulary, &values.text, rows, names)?;
            got
        }
        _ => return Err("it has another type".to_owned()),
    };
    if got == count {
        Ok(())
    } else {
        Err(format!("it ends {} rows early", count - got))
    }
}

/// Converts strings to codes. Strings of one dictionary entry share their bytes, so most are recognized by address
/// alone.
fn set_texts<T: Kind>(
    column: &Column<T>,
    vocabulary: Vocabulary,
    texts: &[ByteArray],
    rows: &mut [Row<T>],
    names: &mut Names,
) -> Result<(), String> {
    /// Distinct strings cached per batch; further ones are looked up individually.
    const SEEN: usize = 32;
    let mut seen: Vec<(*const u8, usize, u16)> = Vec::with_capacity(SEEN);
    for (row, text) in rows.iter_mut().zip(texts) {
        let bytes = text.data();
        let (address, length) = (bytes.as_ptr(), bytes.len());
        let known = seen
            .iter()
            .find(|(a, l, _)| (*a, *l) == (address, length))
            .map(|(_, _, code)| *code);
        let code = match known {
            Some(code) => code,
            None => {
                let word = std::str::from_utf8(bytes)
                    .ok()
                    .and_then(|word| vocabulary.code(word, names));
                let Some(code) = word else {
                    let shown: String = text_shown(bytes);
                    return Err(format!("it cannot hold \"{shown}\""));
                };
                if seen.len() < SEEN {
                    seen.push((address, length, code));
                }
                code
            }
        };
        (column.set)(row, code.into(), names);
    }
    Ok(())
}

/// At most 40 characters of a string from a file, escaped for a terminal.
fn text_shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .take(40)
        .flat_map(char::escape_default)
        .collect()
}

fn fact<'f>(facts: &'f FileMetaData, key: &str) -> Option<&'f str> {
    let all = facts.key_value_metadata()?;
    all.iter().find(|fact| fact.key == key)?.value.as_deref()
}

fn check_facts<T: Kind>(path: &Path, facts: &FileMetaData) -> Result<(), FileError> {
    let Some(schema) = fact(facts, SCHEMA_KEY) else {
        return Err(FileError::foreign(
            path,
            "it was not written by wansan (no wansan.schema)",
        ));
    };
    if schema != SCHEMA_VERSION.to_string() {
        return Err(FileError::Foreign {
            path: path.to_owned(),
            reason: format!(
                "its schema is version {}, this wansan reads version {SCHEMA_VERSION}",
                text_shown(schema.as_bytes())
            ),
        });
    }
    match fact(facts, KIND_KEY) {
        Some(kind) if kind == T::NAME => check(path, fact(facts, CHECKSUM_KEY).unwrap_or("")),
        kind => Err(FileError::Foreign {
            path: path.to_owned(),
            reason: format!(
                "it holds {} records, not {}",
                text_shown(kind.unwrap_or("unnamed").as_bytes()),
                T::NAME
            ),
        }),
    }
}

fn has_column(facts: &FileMetaData, name: &str) -> bool {
    let mut there = facts.schema_descr().columns().iter();
    there.any(|found| found.path().string() == name)
}

fn find_columns<T>(
    path: &Path,
    facts: &FileMetaData,
    columns: &[Column<T>],
) -> Result<Vec<usize>, FileError> {
    let there = facts.schema_descr().columns();
    columns
        .iter()
        .map(|column| {
            let wanted = match column.cell {
                Cell::Int64 => Physical::INT64,
                Cell::Uint(_) => Physical::INT32,
                Cell::Text(_) => Physical::BYTE_ARRAY,
            };
            let place = there
                .iter()
                .position(|found| found.path().string() == column.name);
            let Some(place) = place else {
                return Err(FileError::Foreign {
                    path: path.to_owned(),
                    reason: format!("it has no column {}", column.name),
                });
            };
            let found = &there[place];
            let required = found.self_type().get_basic_info().repetition() == Repetition::REQUIRED
                && found.max_def_level() == 0
                && found.max_rep_level() == 0;
            if found.physical_type() != wanted || !required {
                return Err(FileError::Foreign {
                    path: path.to_owned(),
                    reason: format!("its column {} is not a required {wanted}", column.name),
                });
            }
            Ok(place)
        })
        .collect()
}

fn read_dropped(path: &Path, facts: &FileMetaData) -> Result<Dropped, FileError> {
    let mut dropped = Dropped::new();
    for fact in facts.key_value_metadata().into_iter().flatten() {
        let Some(host) = fact.key.strip_prefix(DROPPED_KEY) else {
            continue;
        };
        let count = fact.value.as_deref().and_then(|count| count.parse().ok());
        let Some(count) = count else {
            return Err(FileError::damaged(path, "a dropped count is not a number"));
        };
        dropped.insert(host.to_owned(), count);
    }
    Ok(dropped)
}

fn damaged(path: &Path, error: &ParquetError) -> FileError {
    FileError::Damaged {
        path: path.to_owned(),
        reason: one_line(error),
    }
}

fn one_line(error: &ParquetError) -> String {
    error.to_string().replace(['\n', '\r'], " ")
}
